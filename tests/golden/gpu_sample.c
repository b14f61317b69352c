/* gpu_sample.c - recordings of CUDA and NCCL calls, by hand. */
#include "counters.h"
#include "gpu_sample.h"

#include <stdio.h>
#include <string.h>

#include <linux/types.h>

#include "wire/event.h"

#define US 1000ULL
#define MS 1000000ULL

/* Arguments: type letter, then name: p pointer, b bytes, s string, 3 dimensions, i signed,
 * u unsigned, d data type. */
static const struct {
	const char *layer, *name, *role;
	const char *args[7];
} probes[GS_PROBES] = {
	[GS_LAUNCH] = {"cuda",
		       "cuLaunchKernel",
		       "launch",
		       {"skernel", "3grid", "3block", "pstream"}},
	[GS_GRAPH_LAUNCH] = {"cuda", "cuGraphLaunch", "graph_launch", {"pgraph_exec", "pstream"}},
	[GS_INSTANTIATE] = {"cuda",
			    "cuGraphInstantiateWithFlags",
			    "graph_instantiate",
			    {"pgraph_exec", "pgraph"}},
	[GS_EXEC_DESTROY] = {"cuda", "cuGraphExecDestroy", "graph_exec_destroy", {"pgraph_exec"}},
	[GS_KERNEL_NODE] = {"cuda", "cuGraphAddKernelNode_v2", "graph_kernel_node", {"pgraph"}},
	[GS_CHILD_NODE] = {"cuda",
			   "cuGraphAddChildGraphNode",
			   "graph_child_node",
			   {"pgraph", "pchild"}},
	[GS_CLONE] = {"cuda", "cuGraphClone", "graph_clone", {"pclone", "pgraph"}},
	[GS_CAPTURE] = {"cuda", "cuStreamBeginCapture_v2", "capture_begin", {"pstream"}},
	[GS_CAPTURE_END] = {"cuda", "cuStreamEndCapture", "capture_end", {"pstream", "pgraph"}},
	[GS_RECORD] = {"cuda", "cuEventRecord", "event_record", {"pevent", "pstream"}},
	[GS_WAIT] = {"cuda", "cuStreamWaitEvent", "event_wait", {"pstream", "pevent"}},
	[GS_HTOD] = {"cuda", "cuMemcpyHtoD_v2", "copy_htod", {"bbytes"}},
	[GS_HTOD_ASYNC] = {"cuda", "cuMemcpyHtoDAsync_v2", "copy_htod", {"bbytes", "pstream"}},
	[GS_COPY_ASYNC] = {"cuda",
			   "cuMemcpyAsync",
			   "copy",
			   {"pdestination", "psource", "bbytes", "pstream"}},
	[GS_SET_ASYNC] = {"cuda", "cuMemsetD8Async", "set", {"bbytes", "pstream"}},
	[GS_ALLOC] = {"cuda", "cuMemAlloc_v2", "alloc", {"ppointer", "bbytes"}},
	[GS_ALLOC_ASYNC] = {"cuda", "cuMemAllocAsync", "alloc", {"ppointer", "bbytes", "pstream"}},
	[GS_FREE] = {"cuda", "cuMemFree_v2", "free", {"ppointer"}},
	[GS_CREATE] = {"cuda", "cuMemCreate", "vmm_create", {"phandle", "bbytes", "idevice"}},
	[GS_MAP] = {"cuda", "cuMemMap", "vmm_map", {"paddress", "bbytes", "phandle"}},
	[GS_UNMAP] = {"cuda", "cuMemUnmap", "vmm_unmap", {"paddress", "bbytes"}},
	[GS_RELEASE] = {"cuda", "cuMemRelease", "vmm_release", {"phandle"}},
	[GS_HOST_ALLOC] = {"cuda", "cuMemHostAlloc", "host_alloc", {"ppointer", "bbytes"}},
	[GS_HOST_FREE] = {"cuda", "cuMemFreeHost", "host_free", {"ppointer"}},
	[GS_SET_CONTEXT] = {"cuda", "cuCtxSetCurrent", "context_current", {"pcontext"}},
	[GS_PUSH_CONTEXT] = {"cuda", "cuCtxPushCurrent_v2", "context_push", {"pcontext"}},
	[GS_POP_CONTEXT] = {"cuda", "cuCtxPopCurrent_v2", "context_pop", {NULL}},
	[GS_RETAIN] = {"cuda",
		       "cuDevicePrimaryCtxRetain",
		       "context_retain",
		       {"pcontext", "idevice"}},
	[GS_SYNC] = {"cuda", "cuStreamSynchronize", "sync", {"pstream"}},
	[GS_RT_LAUNCH] = {"cuda", "cudaLaunchKernel", "", {NULL}},
	[GS_ALL_REDUCE] = {"nccl",
			   "ncclAllReduce",
			   "collective",
			   {"bbytes", "ucount", "ddatatype", "iop", "pcomm", "pstream",
			    "usequence"}},
	[GS_OPERATOR] = {"torch", "aten::mm", "", {NULL}},
	[GS_FRAME] = {"python", "train", "", {NULL}},
	[GS_SEND] = {"nccl",
		     "ncclSend",
		     "p2p",
		     {"bbytes", "ucount", "ddatatype", "ipeer", "pcomm", "pstream", "usequence"}},
	[GS_GROUP_START] = {"nccl", "ncclGroupStart", "nccl_group", {NULL}},
	[GS_GROUP_END] = {"nccl", "ncclGroupEnd", "nccl_group", {NULL}},
};

static uint8_t type_of(char letter)
{
	switch (letter) {
	case 'p':
		return ARG_TYPE_PTR;
	case 'b':
		return ARG_TYPE_BYTES;
	case 's':
		return ARG_TYPE_STRING;
	case '3':
		return ARG_TYPE_DIM3;
	case 'u':
		return ARG_TYPE_U64;
	default:
		return ARG_TYPE_I64;
	}
}

static uint8_t args_of(enum gpu_sample_probe probe)
{
	uint8_t n = 0;
	while (n < 7 && probes[probe].args[n])
		n++;
	return n;
}

static bool returns(enum gpu_sample_probe probe)
{
	return probe != GS_OPERATOR && probe != GS_FRAME;
}

static void put_enums(struct rec_writer *w)
{
	static const struct {
		const char *type, *name;
		int64_t value;
	} rows[] = {
		{"CUresult", "CUDA_SUCCESS", 0},       {"CUresult", "CUDA_ERROR_OUT_OF_MEMORY", 2},
		{"ncclResult_t", "ncclSuccess", 0},    {"ncclDataType_t", "ncclFloat32", 7},
		{"ncclDataType_t", "ncclBfloat16", 9}, {"ncclRedOp_t", "ncclSum", 0},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		rec_put_enum(w, &(struct m_enum){.type = rec_string_z(w, rows[i].type),
						 .name = rec_string_z(w, rows[i].name),
						 .value = rows[i].value});
}

void gpu_sample_probes(struct rec_writer *w)
{
	for (int i = 0; i < GS_PROBES; i++) {
		bool nccl = !strcmp(probes[i].layer, "nccl");
		struct m_probe p = {
			.layer = rec_string_z(w, probes[i].layer),
			.name = rec_string_z(w, probes[i].name),
			.library = rec_string_z(w, nccl ? "/usr/lib/libnccl.so.2"
							: "/usr/lib/libcuda.so.1"),
			.symbol = rec_string_z(w, probes[i].name),
			.kind = SITE_SPAN,
			.name_arg = i == GS_LAUNCH ? 0 : -1,
			.role = rec_string_z(w, probes[i].role),
			.nargs = args_of((enum gpu_sample_probe)i),
		};
		for (uint8_t k = 0; k < p.nargs; k++) {
			const char *arg = probes[i].args[k];
			p.arg_names[k] = rec_string_z(w, arg + 1);
			p.arg_types[k] = type_of(arg[0]);
			if (arg[0] == 'd')
				p.arg_enums[k] = rec_string_z(w, "ncclDataType_t");
			if (!strcmp(arg, "iop"))
				p.arg_enums[k] = rec_string_z(w, "ncclRedOp_t");
		}
		if (returns((enum gpu_sample_probe)i)) {
			p.arg_names[p.nargs] = rec_string_z(w, "return");
			p.arg_types[p.nargs] = ARG_TYPE_I64;
			p.arg_enums[p.nargs] = rec_string_z(w, nccl ? "ncclResult_t" : "CUresult");
			p.has_return = 1;
			p.nargs++;
		}
		rec_add_probe(w, &p);
	}
	put_enums(w);
}

void gpu_sample_call_full(struct rec_writer *w, uint32_t thread, enum gpu_sample_probe probe,
			  uint64_t start_ns, uint64_t dur_ns, const uint64_t *args, uint8_t depth,
			  uint8_t flags, uint64_t result)
{
	struct m_call c = {
		.start_ns = start_ns,
		.dur_ns = dur_ns,
		.thread = thread,
		.probe = probe,
		.depth = depth,
		.flags = flags,
		.nargs = args_of(probe),
	};
	memcpy(c.args, args, c.nargs * sizeof(*args));
	if (returns(probe))
		c.args[c.nargs++] = result;
	rec_put_calls(w, &c, 1);
}

void gpu_sample_call(struct rec_writer *w, uint32_t thread, enum gpu_sample_probe probe,
		     uint64_t start_ns, uint64_t dur_ns, const uint64_t *args)
{
	gpu_sample_call_full(w, thread, probe, start_ns, dur_ns, args, 0, 0, 0);
}

/* ---- the whole recording ---- */

#define T(us) (GPU_SAMPLE_T0 + (us)*US)
#define CALL(thread, probe, us, dur_us, depth, ...)                                                \
	gpu_sample_call_full(w, thread, probe, T(us), (dur_us)*US,                                 \
			     (const uint64_t[8]){__VA_ARGS__}, depth, 0, 0)

static void put_processes(struct rec_writer *w)
{
	uint32_t python = rec_string_z(w, "python3");
	for (uint32_t rank = 0; rank < 2; rank++) {
		rec_put_process(w,
				&(struct m_process){.pid = 100 + rank,
						    .comm = python,
						    .command = rec_string_z(w, "/usr/bin/python3"),
						    .start_ns = T(0),
						    .end_ns = T(90000),
						    .rank = (int32_t)rank});
		rec_add_thread(w, &(struct m_thread){100 + rank, 100 + rank, python});
		rec_put_comm(w, &(struct m_comm){.pid = 100 + rank,
						 .rank = (int32_t)rank,
						 .size = 2,
						 .device = (int32_t)rank,
						 .handle = 0x5500 + rank,
						 .hash = 0xabcdef0123456789,
						 .start_ns = T(900)});
	}
	rec_add_thread(w, &(struct m_thread){100, 110, rec_string_z(w, "autograd")});
}

static void put_gpus(struct rec_writer *w)
{
	static const struct {
		const char *name;
		double value;
	} counters[] = {
		{"sm_ratio", 0.5},
		{"memory_used_bytes", 8e9},
		{"power_w", 400},
		{"temperature_celsius", 60},
		{"sm_clock_mhz", 1980},
		{"memory_clock_mhz", 3201},
		{"clock_limit_power_cap", 1},
	};
	char entity[32];
	for (uint32_t i = 0; i < 2; i++) {
		snprintf(entity, sizeof(entity), "GPU-%08x", i);
		rec_put_gpu(w, &(struct m_gpu){.index = i,
					       .parent = -1,
					       .uuid = rec_string_z(w, entity),
					       .name = rec_string_z(w, "NVIDIA H200"),
					       .bus_id = rec_string_z(w, i ? "00000000:00:07.0"
									   : "00000000:00:06.0"),
					       .driver = rec_string_z(w, "580.95.05"),
					       .memory_bytes = 150754820096,
					       .power_limit_w = 700,
					       .seen_ns = T(0)});
		snprintf(entity, sizeof(entity), "gpu %u", i);
		for (size_t k = 0; k < sizeof(counters) / sizeof(counters[0]); k++) {
			uint32_t metric = add_metric_of(w, entity, counters[k].name);
			for (uint32_t at = 0; at < 3; at++)
				rec_put_counter(
					w, &(struct m_counter){T(at * 30000), metric,
							       counters[k].value * (1 + 0.1 * at)});
		}
		snprintf(entity, sizeof(entity), "gpu %u pid %u", i, 100 + i);
		put_counter_of(w, T(30000), entity, "memory_used_bytes", 7e9);
	}
	rec_put_event(w,
		      &(struct m_event){T(60000), rec_string_z(w, "gpu 1"), rec_string_z(w, "xid"),
					rec_string_z(w, "31: a kernel touched memory that is "
							"not mapped")});
}

#define ADD                                                                                        \
	"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "   \
	"std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, "     \
	"3ul>)"
#define GEMM "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"

static void put_step(struct rec_writer *w, uint32_t thread, uint64_t us, uint64_t stream)
{
	uint64_t add = rec_string_z(w, ADD), gemm = rec_string_z(w, GEMM);
	uint64_t grid = dim3_pack(128, 2, 1), block = dim3_pack(256, 1, 1);
	CALL(thread, GS_LAUNCH, us + 30, 5, 3, gemm, grid, block, stream);
	CALL(thread, GS_RT_LAUNCH, us + 25, 15, 2, 0);
	CALL(thread, GS_LAUNCH, us + 60, 5, 2, add, grid, block, stream);
	CALL(thread, GS_OPERATOR, us + 20, 80, 1, 0);
	CALL(thread, GS_ALL_REDUCE, us + 200, 20, 1, 4 << 20, 2 << 20, 9, 0, 0x5500 + thread,
	     stream, us / 1000);
	CALL(thread, GS_SYNC, us + 300, 500, 1, stream);
	CALL(thread, GS_FRAME, us, 900, 0, 0);
}

static void put_graph(struct rec_writer *w)
{
	uint64_t add = rec_string_z(w, ADD);
	uint64_t grid = dim3_pack(64, 1, 1), block = dim3_pack(128, 1, 1);
	CALL(0, GS_CAPTURE, 40000, 5, 0, 0x7000);
	CALL(0, GS_LAUNCH, 40010, 5, 0, add, grid, block, 0x7000);
	CALL(0, GS_LAUNCH, 40020, 5, 0, add, grid, block, 0x7000);
	CALL(0, GS_SET_ASYNC, 40030, 5, 0, 4096, 0x7000);
	CALL(0, GS_CAPTURE_END, 40040, 5, 0, 0x7000, 0x9000);
	CALL(0, GS_INSTANTIATE, 40050, 50, 0, 0x9100, 0x9000);
	for (uint64_t i = 0; i < 10; i++)
		CALL(0, GS_GRAPH_LAUNCH, 41000 + i * 100, 10, 0, 0x9100, 0x7000);
}

static void put_memory(struct rec_writer *w, uint32_t thread)
{
	uint64_t base = 0x7f0000000000 + ((uint64_t)thread << 36);
	CALL(thread, GS_RETAIN, 100, 10, 0, 0xc0 + thread, thread);
	CALL(thread, GS_SET_CONTEXT, 120, 1, 0, 0xc0 + thread);
	CALL(thread, GS_ALLOC, 200, 50, 0, base, 1 << 30);
	CALL(thread, GS_ALLOC, 300, 50, 0, base + (2ULL << 30), 512 << 20);
	CALL(thread, GS_HOST_ALLOC, 400, 50, 0, 0x7e0000000000, 64 << 20);
	CALL(thread, GS_HTOD_ASYNC, 500, 20, 0, 64 << 20, 0x7000);
	CALL(thread, GS_COPY_ASYNC, 600, 20, 0, 0x7e0000000000, base + 4096, 1 << 20, 0x7000);
	CALL(thread, GS_FREE, 80000, 30, 0, base + (2ULL << 30));
	gpu_sample_call_full(w, thread, GS_ALLOC, T(81000), 100 * US,
			     (const uint64_t[8]){0, 1ULL << 40}, 0, CALL_ERROR, 2);
}

int gpu_sample_write(const char *path, struct err *e)
{
	struct rec_writer *w;
	int rc = rec_writer_open(&w, path, NULL, e);
	if (rc)
		return rc;
	rec_put_meta(w, "host", "node-1");
	rec_put_meta(w, "kernel", "6.18.0");
	rec_put_meta(w, "command", "/usr/bin/python3");
	rec_put_meta(w, "start_monotonic_ns", "1000000000000");
	rec_put_meta(w, "end_monotonic_ns", "1000100000000");
	gpu_sample_probes(w);
	put_processes(w);
	put_gpus(w);
	for (uint32_t thread = 0; thread < 2; thread++) {
		put_memory(w, thread);
		for (uint64_t i = 0; i < 10; i++)
			put_step(w, thread, 1000 + i * 2000, 0x7000);
	}
	/* A launch on the same stream, from another thread, in the midst of the first one. */
	CALL(2, GS_LAUNCH, 1032, 6, 0, rec_string_z(w, "kernel 0x7f00aa00"), dim3_pack(1, 1, 1),
	     dim3_pack(32, 1, 1), 0x7000);
	put_graph(w);
	return rec_writer_close(w, false, e);
}

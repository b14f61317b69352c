/* profile_sample.c - writes the recording that profile_sample.h describes. */
#include "profile_sample.h"

#include <string.h>

#include "recording/recording.h"

#define MS 1000000ULL
#define S  1000000000ULL

enum { MAIN_THREAD, AUTOGRAD_THREAD };
enum { LAUNCH, ALLOC, FREE, HOST_ALLOC };

static uint32_t str(struct rec_writer *w, const char *s)
{
	return rec_string_z(w, s);
}

struct frame_text {
	uint8_t kind, in_python;
	uint32_t line;
	const char *name, *library;
	uint64_t address;
};

enum {
	START,
	RUN_MAIN,
	MAIN,
	EVAL,
	TRAIN,
	CALL,
	ADDMM,
	SGEMM,
	LOAD,
	READ,
	SYSCALL,
	CLONE,
	MM,
	CUT,
	CU_LAUNCH,
	CU_ALLOC,
	FRAMES
};

#define PYTHON "/usr/bin/python3.12"
#define TORCH  "/usr/lib/libtorch_cpu.so"
#define LIBC   "/usr/lib/libc.so.6"
#define CUDA   "/usr/lib/libcuda.so.1"

static const struct frame_text frames[FRAMES] = {
	[START] = {FRAME_NATIVE, 1, 0, "_start", PYTHON, 0x1000},
	[RUN_MAIN] = {FRAME_NATIVE, 1, 0, "Py_RunMain", PYTHON, 0x2000},
	[MAIN] = {FRAME_PYTHON, 0, 50, "main", NULL, 0},
	[EVAL] = {FRAME_NATIVE, 1, 0, "_PyEval_EvalFrameDefault", PYTHON, 0x3000},
	[TRAIN] = {FRAME_PYTHON, 0, 20, "train", NULL, 0},
	[CALL] = {FRAME_NATIVE, 1, 0, "cfunction_call", PYTHON, 0x4000},
	[ADDMM] = {FRAME_NATIVE, 0, 0, "at::_ops::addmm::call(at::Tensor const&)", TORCH, 0x5000},
	[SGEMM] = {FRAME_NATIVE, 0, 0, "", "/usr/lib/libblas.so.3", 0x6000},
	[LOAD] = {FRAME_PYTHON, 0, 33, "Loader.load", NULL, 0},
	[READ] = {FRAME_NATIVE, 0, 0, "read", LIBC, 0x7000},
	[SYSCALL] = {FRAME_KERNEL, 0, 0, "do_syscall_64", NULL, 0xffffffff81000000},
	[CLONE] = {FRAME_NATIVE, 0, 0, "clone3", LIBC, 0x8000},
	[MM] = {FRAME_NATIVE, 0, 0, "at::_ops::mm::call(at::Tensor const&)", TORCH, 0x9000},
	[CUT] = {FRAME_CUT, 0, 0, "no_rules", NULL, 0},
	[CU_LAUNCH] = {FRAME_NATIVE, 0, 0, "cuLaunchKernel", CUDA, 0xa000},
	[CU_ALLOC] = {FRAME_NATIVE, 0, 0, "cuMemAlloc_v2", CUDA, 0xb000},
};

static void put_frames(struct rec_writer *w)
{
	for (uint32_t i = 0; i < FRAMES; i++) {
		const struct frame_text *t = &frames[i];
		struct m_frame f = {.kind = t->kind,
				    .in_python = t->in_python,
				    .name = str(w, t->name),
				    .library = str(w, t->library),
				    .line = t->line,
				    .address = t->address};
		if (t->kind == FRAME_PYTHON)
			f.file = str(w, "/job/train.py");
		rec_add_frame(w, &f);
	}
}

/* Frames of a stack from the root, below a stack that is there. */
static uint32_t put_stack(struct rec_writer *w, uint32_t parent, const int *path, size_t n)
{
	for (size_t i = 0; i < n; i++)
		parent = rec_add_stack(w, &(struct m_stack){parent, (uint32_t)path[i]});
	return parent;
}
#define STACK(w, parent, ...)                                                                      \
	put_stack(w, parent, (const int[]){__VA_ARGS__},                                           \
		  sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

struct stacks {
	uint32_t addmm, loader, backward, cut, launch, alloc;
};

static struct stacks put_stacks(struct rec_writer *w)
{
	uint32_t run = STACK(w, 0, START, RUN_MAIN, MAIN, EVAL);
	uint32_t train = STACK(w, run, TRAIN, CALL);
	uint32_t op = STACK(w, train, ADDMM);
	return (struct stacks){
		.addmm = STACK(w, op, SGEMM),
		.loader = STACK(w, run, LOAD, CALL, READ, SYSCALL),
		.backward = STACK(w, 0, CLONE, MM),
		.cut = STACK(w, 0, CUT, MM),
		.launch = STACK(w, op, CU_LAUNCH),
		.alloc = STACK(w, train, CU_ALLOC),
	};
}

static void put_probe(struct rec_writer *w, const char *name, const char *role, uint32_t every,
		      const char *const args[2], const uint8_t types[2])
{
	struct m_probe p = {.layer = str(w, "cuda"),
			    .name = str(w, name),
			    .library = str(w, CUDA),
			    .symbol = str(w, name),
			    .role = str(w, role),
			    .nargs = 2,
			    .name_arg = -1,
			    .stack_every = every};
	for (int i = 0; i < 2; i++) {
		p.arg_names[i] = str(w, args[i]);
		p.arg_types[i] = types[i];
	}
	rec_add_probe(w, &p);
}

static void put_tables(struct rec_writer *w)
{
	static const char *const metas[][2] = {
		{"host", "node-1"},
		{"kernel", "6.12.0"},
		{"command", "/usr/bin/python3"},
		{"version", "0.1.0"},
		{"start_realtime_ns", "1700000000000000000"},
		{"start_monotonic_ns", "1000000000000"},
		{"end_monotonic_ns", "1010000000000"},
		{"sample_hz", "100"},
	};
	static const char *const launch[2] = {"kernel", "stream"}, *const memory[2] = {"pointer",
										       "bytes"};
	static const uint8_t launch_types[2] = {ARG_TYPE_STRING, ARG_TYPE_PTR};
	static const uint8_t memory_types[2] = {ARG_TYPE_PTR, ARG_TYPE_BYTES};
	for (size_t i = 0; i < sizeof(metas) / sizeof(metas[0]); i++)
		rec_put_meta(w, metas[i][0], metas[i][1]);
	rec_put_process(w, &(struct m_process){.pid = 700,
					       .parent_pid = 1,
					       .comm = str(w, "python3"),
					       .command = str(w, PYTHON),
					       .start_ns = PROFILE_T0,
					       .rank = -1});
	rec_add_thread(w, &(struct m_thread){700, 700, str(w, "main")});
	rec_add_thread(w, &(struct m_thread){700, 701, str(w, "pt_autograd_0")});
	put_probe(w, "cuLaunchKernel", "launch", 64, launch, launch_types);
	put_probe(w, "cuMemAlloc_v2", "alloc", 1, memory, memory_types);
	put_probe(w, "cuMemFree_v2", "free", 0, memory, memory_types);
	put_probe(w, "cuMemHostAlloc", "host_alloc", 1, memory, memory_types);
}

static void put_ticks(struct rec_writer *w, uint32_t thread, uint32_t stack, uint64_t from_ns,
		      unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		rec_put_sample(w, &(struct m_sample){.time_ns = PROFILE_T0 + from_ns + i * 10 * MS,
						     .weight_ns = 10 * MS,
						     .thread = thread,
						     .stack = stack});
}

static void put_waits(struct rec_writer *w, uint32_t stack, uint8_t reason, uint64_t ns, unsigned n,
		      const char *waker)
{
	for (unsigned i = 0; i < n; i++)
		rec_put_sample(w, &(struct m_sample){.time_ns = PROFILE_T0 + 9 * S + i * MS,
						     .weight_ns = ns,
						     .thread = MAIN_THREAD,
						     .stack = stack,
						     .kind = SAMPLE_OFFCPU,
						     .reason = reason,
						     .waker = str(w, waker),
						     .waker_tid = waker ? 701 : 0});
}

static void put_call(struct rec_writer *w, uint32_t probe, uint64_t start_ns, uint32_t stack,
		     uint64_t a, uint64_t b)
{
	struct m_call c = {.start_ns = PROFILE_T0 + start_ns,
			   .dur_ns = 5000,
			   .probe = probe,
			   .nargs = 2,
			   .stack = stack,
			   .args = {a, b}};
	rec_put_calls(w, &c, 1);
}

static void put_gpu(struct rec_writer *w, const struct stacks *s)
{
	uint32_t kernel = str(w, "sgemm_128x128");
	for (uint32_t i = 0; i < 640; i++) {
		uint64_t start = S + i * 10 * MS;
		put_call(w, LAUNCH, start, i % 64 ? 0 : s->launch, kernel, 0x7f00);
		rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = PROFILE_T0 + start + MS,
							 .end_ns = PROFILE_T0 + start + 2 * MS,
							 .pid = 700,
							 .correlation = 100 + i,
							 .name = kernel});
	}
	rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = PROFILE_T0 + 8 * S,
						 .end_ns = PROFILE_T0 + 8 * S + 3 * MS,
						 .pid = 700,
						 .correlation = 50,
						 .work = WORK_COPY,
						 .copy_kind = 1,
						 .bytes = 1 << 20});
	put_call(w, ALLOC, 100 * MS, s->alloc, 0x1000, 1 << 20);
	put_call(w, FREE, 200 * MS, 0, 0x1000, 0);
	put_call(w, ALLOC, 300 * MS, s->alloc, 0x2000, 3 << 20);
	put_call(w, HOST_ALLOC, 400 * MS, 0, 0x3000, 64 << 10);
}

int profile_sample_write(const char *path, struct err *e)
{
	struct rec_writer *w;
	int rc = rec_writer_open(&w, path, NULL, e);
	if (rc)
		return rc;
	put_tables(w);
	put_frames(w);
	struct stacks s = put_stacks(w);
	put_ticks(w, MAIN_THREAD, s.addmm, 0, 600);
	put_ticks(w, MAIN_THREAD, s.loader, 6 * S, 300);
	rec_flush(w, e); /* what follows is in blocks of its own; an error stays until the end */
	put_ticks(w, AUTOGRAD_THREAD, s.backward, 0, 90);
	put_ticks(w, AUTOGRAD_THREAD, s.cut, S, 9);
	put_ticks(w, AUTOGRAD_THREAD, 0, 2 * S, 1);
	put_waits(w, s.addmm, WAIT_GIL, 50 * MS, 20, "pt_autograd_0");
	put_waits(w, s.loader, WAIT_DISK, 100 * MS, 5, NULL);
	put_gpu(w, &s);
	return rec_writer_close(w, false, e);
}

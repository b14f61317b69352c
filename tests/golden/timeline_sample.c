/* timeline_sample.c - a recording of what two devices of a process did, by hand. */
#include "timeline_sample.h"

#include "gpu_sample.h"

#define US     1000ULL
#define T(us)  (TIMELINE_SAMPLE_T0 + (us)*US)
#define STREAM 0x7000
#define ADD                                                                                        \
	"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "   \
	"std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, "     \
	"3ul>)"
#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

struct writing {
	struct rec_writer *w;
	uint32_t add, nccl; /* strings */
	uint32_t correlation;
};

#define CALL(x, thread, probe, us, dur_us, ...)                                                    \
	gpu_sample_call((x)->w, thread, probe, T(us), (dur_us)*US, (const uint64_t[8]){__VA_ARGS__})

static void span(struct writing *x, struct m_gpu_span s, uint64_t from_us, uint64_t to_us)
{
	s.start_ns = T(from_us);
	s.end_ns = T(to_us);
	s.pid = 300;
	s.context = 1 + (uint32_t)s.device;
	s.correlation = ++x->correlation;
	if (!s.stream)
		s.stream = 7;
	rec_put_gpu_span(x->w, &s);
}

/* A launch, and its kernel. */
static void launch(struct writing *x, uint32_t thread, uint64_t us, uint64_t from_us,
		   uint64_t to_us)
{
	uint64_t grid = dim3_pack(128, 2, 1), block = dim3_pack(256, 1, 1);
	CALL(x, thread, GS_LAUNCH, us, 3, x->add, grid, block, STREAM);
	span(x,
	     (struct m_gpu_span){.name = x->add,
				 .grid = grid,
				 .block = block,
				 .registers = 32,
				 .shared_bytes = 1024},
	     from_us, to_us);
}

static void copy(struct writing *x, uint64_t us, uint64_t from_us, uint64_t to_us, bool pinned)
{
	CALL(x, 0, GS_HTOD_ASYNC, us, 3, 1 << 20, STREAM);
	span(x,
	     (struct m_gpu_span){.work = WORK_COPY,
				 .copy_kind = 1,
				 .bytes = 1 << 20,
				 .stream = pinned ? 13 : 7,
				 .source_kind = pinned ? MEMORY_PINNED : MEMORY_PAGEABLE,
				 .destination_kind = MEMORY_DEVICE,
				 .async = pinned},
	     from_us, to_us);
}

static void put_first_device(struct writing *x)
{
	launch(x, 0, 100, 105, 200);
	launch(x, 0, 110, 202, 300); /* dispatch */
	copy(x, 120, 250, 300, true);
	CALL(x, 0, GS_SYNC, 130, 175, STREAM); /* to 305 */
	launch(x, 0, 320, 326, 400);	       /* sync */
	launch(x, 0, 450, 456, 500);	       /* launch */
	copy(x, 460, 550, 700, false);	       /* dependency */
	rec_put_sample(x->w, &(struct m_sample){.time_ns = T(1700),
						.weight_ns = 1000 * US,
						.kind = SAMPLE_OFFCPU,
						.reason = WAIT_DISK});
	launch(x, 0, 1710, 1716, 1800); /* data */
	CALL(x, 0, GS_GRAPH_LAUNCH, 1750, 5, 0x9100, STREAM);
	x->correlation++;
	for (uint64_t i = 0; i < 3; i++) {
		x->correlation--;
		span(x, (struct m_gpu_span){.name = x->add, .graph_node = 5 + i, .graph = 2},
		     1801 + i * 10, 1810 + i * 10);
	}
}

static void put_second_device(struct writing *x)
{
	uint64_t grid = dim3_pack(24, 1, 1), block = dim3_pack(512, 1, 1);
	CALL(x, 1, GS_ALL_REDUCE, 2000, 20, 4 << 20, 1 << 20, 7, 0, 0x5500, STREAM, 0);
	CALL(x, 1, GS_LAUNCH, 2005, 5, x->nccl, grid, block, STREAM);
	span(x,
	     (struct m_gpu_span){
		     .device = 1, .name = x->nccl, .stream = 20, .grid = grid, .block = block},
	     2012, 2512);
	CALL(x, 1, GS_SET_ASYNC, 2100, 3, 4096, STREAM);
	span(x, (struct m_gpu_span){.device = 1, .work = WORK_SET, .bytes = 4096}, 2110, 2112);
	/* not recorded: the call of the last one */
	x->correlation++;
	span(x, (struct m_gpu_span){.device = 1, .work = WORK_COPY, .copy_kind = 2, .bytes = 8},
	     2600, 2602);
}

int timeline_sample_write(const char *path, struct err *e)
{
	struct writing x = {0};
	int rc = rec_writer_open(&x.w, path, NULL, e);
	if (rc)
		return rc;
	rec_put_meta(x.w, "host", "node-1");
	rec_put_meta(x.w, "kernel", "6.18.0");
	rec_put_meta(x.w, "command", "/usr/bin/python3");
	rec_put_meta(x.w, "start_monotonic_ns", "2000000000000");
	rec_put_meta(x.w, "end_monotonic_ns", "2000010000000");
	gpu_sample_probes(x.w);
	x.add = rec_string_z(x.w, ADD);
	x.nccl = rec_string_z(x.w, NCCL);
	uint32_t python = rec_string_z(x.w, "python3");
	rec_put_process(x.w, &(struct m_process){.pid = 300,
						 .comm = python,
						 .command = rec_string_z(x.w, "/usr/bin/python3"),
						 .start_ns = T(0),
						 .rank = -1});
	rec_add_thread(x.w, &(struct m_thread){300, 300, python});
	rec_add_thread(x.w, &(struct m_thread){300, 301, rec_string_z(x.w, "autograd")});
	put_first_device(&x);
	put_second_device(&x);
	return rec_writer_close(x.w, false, e);
}

/* sample.c - writes the deterministic recording that sample.h describes, through rec_writer. */
#include "sample.h"

#include <linux/types.h>

#include "counters.h"
#include "recording/recording.h"
#include "wire/event.h"

#define US 1000ULL
#define MS 1000000ULL

static uint32_t str(struct rec_writer *w, const char *s)
{
	return rec_string_z(w, s);
}

struct probe_text {
	const char *layer, *name, *library, *symbol;
	uint8_t kind, nargs, has_return;
	int8_t name_arg;
	const char *arg_names[MODEL_MAX_ARGS];
	uint8_t arg_types[MODEL_MAX_ARGS];
};

#define TORCH  "/usr/lib/libtorch_cpu.so"
#define PYTHON "/usr/bin/python3.11"
#define CUDART "/usr/lib/libcudart.so.12"

static const struct probe_text sample_probes[SP_COUNT] = {
	[SP_LINEAR] = {"torch",
		       "aten::linear",
		       TORCH,
		       "_ZN2at4_ops6linear4callE",
		       SITE_SPAN,
		       0,
		       0,
		       -1,
		       {NULL},
		       {0}},
	[SP_ADDMM] = {"torch",
		      "aten::addmm",
		      TORCH,
		      "_ZN2at4_ops5addmm4callE",
		      SITE_SPAN,
		      0,
		      0,
		      -1,
		      {NULL},
		      {0}},
	[SP_EMPTY] = {"torch",
		      "aten::empty",
		      TORCH,
		      "_ZN2at4_ops5empty4callE",
		      SITE_SPAN,
		      1,
		      0,
		      -1,
		      {"size"},
		      {ARG_TYPE_BYTES}},
	[SP_NODE] = {"torch",
		     "autograd::evaluate_function",
		     TORCH,
		     "_ZN5torch8autogradE",
		     SITE_SPAN,
		     1,
		     0,
		     0,
		     {"node"},
		     {ARG_TYPE_STRING}},
	[SP_FRAME] = {"python",
		      "frame",
		      PYTHON,
		      "_PyEval_EvalFrameDefault",
		      SITE_SPAN,
		      1,
		      0,
		      0,
		      {"code"},
		      {ARG_TYPE_CODE}},
	[SP_GC] = {"python",
		   "gc.collect",
		   PYTHON,
		   "gc_collect_main",
		   SITE_SPAN,
		   2,
		   1,
		   -1,
		   {"generation", "return"},
		   {ARG_TYPE_I64, ARG_TYPE_I64}},
	[SP_MALLOC] = {"cuda",
		       "cudaMalloc",
		       CUDART,
		       "cudaMalloc",
		       SITE_SPAN,
		       3,
		       1,
		       -1,
		       {"ptr", "size", "return"},
		       {ARG_TYPE_PTR, ARG_TYPE_BYTES, ARG_TYPE_I64}},
	[SP_LAUNCH] = {"cuda",
		       "cudaLaunchKernel",
		       CUDART,
		       "cudaLaunchKernel",
		       SITE_SPAN,
		       2,
		       1,
		       0,
		       {"kernel", "return"},
		       {ARG_TYPE_STRING, ARG_TYPE_I64}},
	[SP_SYNC] = {"cuda",
		     "cudaStreamSynchronize",
		     CUDART,
		     "cudaStreamSynchronize",
		     SITE_SPAN,
		     2,
		     1,
		     -1,
		     {"stream", "return"},
		     {ARG_TYPE_PTR, ARG_TYPE_I64}},
	[SP_ALLREDUCE] = {"nccl",
			  "ncclAllReduce",
			  "/usr/lib/libnccl.so.2",
			  "ncclAllReduce",
			  SITE_SPAN,
			  3,
			  1,
			  -1,
			  {"count", "size", "return"},
			  {ARG_TYPE_U64, ARG_TYPE_BYTES, ARG_TYPE_I64}},
	[SP_FLAG] = {"user",
		     "foo_flag",
		     "/job/libfoo.so",
		     "foo_flag",
		     SITE_SPAN,
		     2,
		     1,
		     -1,
		     {"on", "return"},
		     {ARG_TYPE_BOOL, ARG_TYPE_BOOL}},
	[SP_MARK] = {"user",
		     "foo_mark",
		     "/job/libfoo.so",
		     "foo_mark",
		     SITE_INSTANT,
		     0,
		     0,
		     -1,
		     {NULL},
		     {0}},
	[SP_UNUSED] = {"user",
		       "foo_unused",
		       "/job/libfoo.so",
		       "foo_unused",
		       SITE_SPAN,
		       0,
		       0,
		       -1,
		       {NULL},
		       {0}},
};

static void put_probes(struct rec_writer *w)
{
	for (size_t i = 0; i < SP_COUNT; i++) {
		const struct probe_text *t = &sample_probes[i];
		struct m_probe p = {
			.layer = str(w, t->layer),
			.name = str(w, t->name),
			.library = str(w, t->library),
			.symbol = str(w, t->symbol),
			.kind = t->kind,
			.nargs = t->nargs,
			.has_return = t->has_return,
			.name_arg = t->name_arg,
		};
		for (size_t k = 0; k < t->nargs; k++) {
			p.arg_names[k] = str(w, t->arg_names[k]);
			p.arg_types[k] = t->arg_types[k];
		}
		rec_add_probe(w, &p);
	}
}

static void put_processes(struct rec_writer *w)
{
	struct m_process first = {.pid = 4242,
				  .parent_pid = 4000,
				  .comm = str(w, "python3"),
				  .command = str(w, PYTHON),
				  .start_ns = SAMPLE_T0,
				  .rank = -1};
	struct m_process child = {.pid = 4300,
				  .parent_pid = 4242,
				  .comm = str(w, "python3"),
				  .command = str(w, PYTHON),
				  .start_ns = SAMPLE_T0 + 5 * MS,
				  .rank = 1};
	rec_put_process(w, &first);
	rec_put_process(w, &child);
	first.rank = 0;
	first.end_ns = SAMPLE_T0 + 100 * MS;
	child.end_ns = SAMPLE_T0 + 95 * MS;
	child.exit_code = 9;
	rec_put_process(w, &child);
	rec_put_process(w, &first);

	struct m_thread main_thread = {4242, 4242, str(w, "python")};
	uint32_t index = rec_add_thread(w, &main_thread);
	rec_add_thread(w, &(struct m_thread){4242, 4250, str(w, "autograd")});
	rec_add_thread(w, &(struct m_thread){4300, 4300, str(w, "python3")});
	rec_add_thread(w, &(struct m_thread){4300, 4301, str(w, "pin_memory")});
	main_thread.comm = str(w, "python3");
	rec_update_thread(w, index, &main_thread);

	rec_add_code(w, &(struct m_code){str(w, "train"), str(w, "/job/train.py"), 10});
	rec_add_code(w,
		     &(struct m_code){str(w, "train.<locals>.step"), str(w, "/job/train.py"), 20});
	rec_add_code(w, &(struct m_code){str(w, "worker"), str(w, "/job/data.py"), 5});
}

/* offset_ns is from SAMPLE_T0. */
static void put_call(struct rec_writer *w, uint32_t thread, uint32_t probe, uint64_t offset_ns,
		     uint64_t dur_ns, uint8_t depth, uint8_t flags, const uint64_t args[3])
{
	struct m_call c = {
		.start_ns = SAMPLE_T0 + offset_ns,
		.dur_ns = dur_ns,
		.thread = thread,
		.probe = probe,
		.flags = flags,
		.depth = depth,
		.nargs = sample_probes[probe].nargs,
	};
	for (size_t k = 0; k < c.nargs; k++)
		c.args[k] = args[k];
	rec_put_calls(w, &c, 1);
}

#define ARGS(...) ((const uint64_t[3]){__VA_ARGS__})
#define NO_ARGS	  ((const uint64_t[3]){0})

static void put_steps(struct rec_writer *w)
{
	uint64_t kernel = str(w, "ampere_sgemm_128x64_tn");
	uint64_t nodes[2] = {str(w, "AddmmBackward0"), str(w, "MmBackward0")};
	for (uint64_t i = 0; i < 10; i++) {
		uint64_t t = 2 * MS + i * 5 * MS;
		put_call(w, 0, SP_EMPTY, t + 250 * US, 50 * US, 4, CALL_NESTED,
			 ARGS(4096 * (i + 1)));
		put_call(w, 0, SP_LAUNCH, t + 500 * US, 10 * US, 4, 0, ARGS(kernel, 0));
		put_call(w, 0, SP_ADDMM, t + 200 * US, 1500 * US, 3, CALL_NESTED, NO_ARGS);
		put_call(w, 0, SP_LINEAR, t + 100 * US, 2 * MS, 2, 0, NO_ARGS);
		put_call(w, 1, SP_NODE, t + 2200 * US, 300 * US, 0, i == 9 ? CALL_UNWOUND : 0,
			 ARGS(nodes[i % 2]));
		put_call(w, 0, SP_SYNC, t + 2500 * US, 1 * MS, 2, 0, ARGS(0x7f0000001000, 0));
		put_call(w, 0, SP_FRAME, t, 4 * MS, 1, CALL_NESTED, ARGS(1));
	}
	put_call(w, 0, SP_FRAME, 1 * MS, 60 * MS, 0, 0, ARGS(0));
}

static void put_worker(struct rec_writer *w)
{
	put_call(w, 2, SP_MALLOC, 10 * MS, 100 * US, 1, 0, ARGS(0x7f1000000000, 1 << 20, 0));
	put_call(w, 2, SP_MALLOC, 20 * MS, 200 * US, 1, CALL_ERROR, ARGS(0, 1 << 30, 2));
	put_call(w, 2, SP_MALLOC, 30 * MS, 100 * US, 1, CALL_ARG_FAULT, ARGS(0, 512, 0));
	put_call(w, 2, SP_GC, 40 * MS, 5 * MS, 1, 0, ARGS(2, (uint64_t)-1));
	put_call(w, 2, SP_ALLREDUCE, 50 * MS, 1 * MS, 1, 0, ARGS(1 << 20, 4 << 20, 0));
	put_call(w, 2, SP_ALLREDUCE, 60 * MS, 1 * MS, 1, 0, ARGS(1 << 20, 4 << 20, 0));
	put_call(w, 2, SP_FRAME, 6 * MS, 84 * MS, 0, CALL_OPEN, ARGS(2));

	put_call(w, 3, SP_FLAG, 15 * MS, 1 * US, 0, 0, ARGS(1, 0));
	for (uint64_t i = 1; i < 10; i++)
		put_call(w, 3, SP_MARK, i * 10 * MS, 0, 0, CALL_INSTANT, NO_ARGS);
}

static void put_numbers(struct rec_writer *w)
{
	uint32_t cpu = add_metric_of(w, "pid 4242", "cpu_ratio");
	uint32_t rss = add_metric_of(w, "pid 4242", "rss_bytes");
	for (uint32_t i = 0; i < 10; i++) {
		uint64_t t = SAMPLE_T0 + i * 10 * MS;
		rec_put_counter(w, &(struct m_counter){t, cpu, 0.5 + i / 100.0});
		rec_put_counter(w, &(struct m_counter){t, rss, 1e9 + i * 1e6});
	}
	struct m_hist h = {.pid = 4242, .probe = SP_LINEAR, .count = 1, .total_ns = 2 * MS};
	rec_put_hist(w, &h);
	h.count = 10;
	h.total_ns = 20 * MS;
	h.max_ns = 2 * MS;
	h.buckets[59] = 10;
	rec_put_hist(w, &h);
	h = (struct m_hist){.pid = 4300,
			    .probe = SP_MALLOC,
			    .count = 3,
			    .errors = 1,
			    .total_ns = 400 * US,
			    .max_ns = 200 * US};
	h.buckets[42] = 2;
	h.buckets[46] = 1;
	rec_put_hist(w, &h);
	h = (struct m_hist){.pid = 4242, .probe = SP_FRAME, .name = 1, .count = 10, .nested = 10};
	h.total_ns = 40 * MS;
	h.max_ns = 4 * MS;
	h.buckets[63] = 10;
	rec_put_hist(w, &h);
	h = (struct m_hist){.pid = 4242, .probe = SP_FRAME, .count = 1};
	h.total_ns = h.max_ns = 60 * MS;
	h.buckets[79] = 1;
	rec_put_hist(w, &h);
	rec_put_loss(w, &(struct m_loss){str(w, "ring_full"), 0, 1});
	rec_put_loss(w, &(struct m_loss){str(w, "ring_full"), 1, 4});
	rec_put_loss(w, &(struct m_loss){str(w, "arg_cut"), 0, 1});
	rec_put_loss(w, &(struct m_loss){str(w, "ring_full"), 0, 3});
}

static void put_rest(struct rec_writer *w)
{
	static const char *const metas[][2] = SAMPLE_METAS;
	for (size_t i = 0; i < sizeof(metas) / sizeof(metas[0]); i++)
		rec_put_meta(w, metas[i][0], metas[i][1]);
	rec_put_note(w, &(struct m_note){str(w, "libcupti.so"),
					 str(w, "is not installed; no GPU timeline"), SAMPLE_T0});
	rec_put_note(w, &(struct m_note){str(w, "gc_collect_main"),
					 str(w, "is not a symbol of /usr/bin/python3.11"),
					 SAMPLE_T0 + 1 * MS});
	rec_put_map(w,
		    &(struct m_map){4242, 0x7f5500000000, 0x7f5510000000, 0x1000, str(w, TORCH),
				    str(w, "0123456789abcdef0123456789abcdef01234567"), SAMPLE_T0});
	rec_put_map(w, &(struct m_map){4242, 0x400000, 0x800000, 0, str(w, PYTHON), 0, SAMPLE_T0});
	rec_put_map(w, &(struct m_map){4300, 0x400000, 0x800000, 0, str(w, PYTHON), 0,
				       SAMPLE_T0 + 5 * MS});
	rec_put_window(w, &(struct m_window){SAMPLE_T0, SAMPLE_T0 + 100 * MS, str(w, "torch")});
}

int sample_write(const char *path, struct err *e)
{
	struct rec_writer *w;
	int rc = rec_writer_open(&w, path, NULL, e);
	if (rc)
		return rc;
	put_rest(w);
	put_probes(w);
	put_processes(w);
	put_steps(w);
	rc = rec_flush(w, e);
	if (rc) {
		rec_writer_close(w, false, NULL);
		return rc;
	}
	put_worker(w);
	put_numbers(w);
	return rec_writer_close(w, false, e);
}

/* flops_test.c - operations from shapes: every formula, calls inside of others, which kernels are
 * whose, coverage, utilisation; from recordings made by hand.
 * links: analyze recording base golden */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "golden/counters.h"
#include "analyze/flops.h"
#include "analyze/flops_peak.h"
#include "golden/gpu_sample.h"
#include "golden/shapes.h"
#include "recording/recording.h"
#include "wire/event.h"
#include "made_file.h"

#define US     1000ULL
#define STREAM 0x70

enum { HALF = 5, FLOAT = 6, DOUBLE = 7, COMPLEX = 9, BFLOAT16 = 15 }; /* c10::ScalarType */

/* Probes that gpu_sample does not have: names of arguments, a letter for the type first. */
enum { MM = GS_PROBES, CONV, CONV_BACK, ATTENTION, ATTENTION_BACK, GEMM_EX, DGEMM, PROBES_END };
static const struct {
	const char *name, *role, *args[MODEL_MAX_ARGS];
} rows[PROBES_END - GS_PROBES] = {
	{"aten::mm", "matmul", {"sa", "sb", "udtype"}},
	{"aten::convolution",
	 "convolution",
	 {"sinput", "sweight", "btransposed", "sresult", "udtype"}},
	{"aten::convolution_backward",
	 "convolution_backward",
	 {"sgrad_output", "sinput", "sweight", "sgrad_input", "sgrad_weight", "udtype"}},
	{"aten::attention", "attention", {"squery", "skey", "svalue", "bis_causal", "udtype"}},
	{"aten::attention_backward",
	 "attention_backward",
	 {"squery", "skey", "svalue", "bis_causal", "udtype"}},
	{"cublasGemmStridedBatchedEx", "gemm", {"im", "in", "ik", "ibatch", "ia_type"}},
	{"cublasDgemm_v2", "gemm", {"im", "in", "ik"}},
};

static void put_probe(struct rec_writer *w, size_t i)
{
	struct m_probe p = {.kind = SITE_SPAN, .name_arg = -1};
	p.layer = rec_string_z(w, "torch");
	p.name = p.symbol = rec_string_z(w, rows[i].name);
	p.role = rec_string_z(w, rows[i].role);
	for (; p.nargs < MODEL_MAX_ARGS && rows[i].args[p.nargs]; p.nargs++) {
		const char *arg = rows[i].args[p.nargs];
		p.arg_names[p.nargs] = rec_string_z(w, arg + 1);
		p.arg_types[p.nargs] = *arg == 's'   ? ARG_TYPE_SHAPE
				       : *arg == 'b' ? ARG_TYPE_BOOL
				       : *arg == 'i' ? ARG_TYPE_I64
						     : ARG_TYPE_U64;
	}
	rec_add_probe(w, &p);
}

/* Threads 0 and 1 of process 7. */
static struct rec_writer *created(void)
{
	struct rec_writer *w = NULL;
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	gpu_sample_probes(w);
	for (size_t i = 0; i < PROBES_END - GS_PROBES; i++)
		put_probe(w, i);
	rec_add_thread(w, &(struct m_thread){7, 7, 0});
	rec_add_thread(w, &(struct m_thread){7, 9, 0});
	return w;
}

static void put_gpu(struct rec_writer *w, uint32_t index, const char *name)
{
	char uuid[] = "GPU-0";
	uuid[4] = (char)('0' + index);
	rec_put_gpu(w, &(struct m_gpu){.index = index,
				       .parent = -1,
				       .uuid = rec_string_z(w, uuid),
				       .name = rec_string_z(w, name)});
}

static struct rec_reader *reader;

static struct flops made(struct rec_writer *w, struct flops_options o)
{
	struct err e = {0};
	struct timeline t;
	struct flops f;
	if (rec_writer_close(w, false, &e))
		fail_msg("%s", e.msg);
	if (rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(
		&t, rec_source(reader),
		&(struct timeline_options){.pid = o.pid, .from_ns = o.from_ns, .to_ns = o.to_ns});
	flops_make(&f, rec_source(reader), &t, &o);
	timeline_free(&t);
	return f;
}

static void done(struct flops *f)
{
	flops_free(f);
	rec_close(reader);
}

static void call_at(struct rec_writer *w, uint32_t thread, uint32_t probe, uint64_t us,
		    uint64_t dur_us, const uint64_t *args)
{
	struct m_call c = {
		.start_ns = us * US, .dur_ns = dur_us * US, .thread = thread, .probe = probe};
	while (c.nargs < MODEL_MAX_ARGS && rows[probe - GS_PROBES].args[c.nargs])
		c.nargs++;
	memcpy(c.args, args, c.nargs * sizeof(c.args[0]));
	rec_put_calls(w, &c, 1);
}
#define CALL(w, thread, probe, us, dur_us, ...)                                                    \
	call_at(w, thread, probe, us, dur_us, (const uint64_t[8]){__VA_ARGS__})

static void launch(struct rec_writer *w, uint32_t thread, const char *name, uint64_t us)
{
	GPU_CALL(w, thread, GS_LAUNCH, us * US, 1 * US, rec_string_z(w, name), dim3_pack(1, 1, 1),
		 dim3_pack(32, 1, 1), STREAM);
}

static struct m_gpu_span span(struct rec_writer *w, uint32_t correlation, const char *name,
			      uint64_t us, uint64_t dur_us)
{
	return (struct m_gpu_span){.start_ns = us * US,
				   .end_ns = (us + dur_us) * US,
				   .pid = 7,
				   .correlation = correlation,
				   .name = rec_string_z(w, name),
				   .stream = 7};
}

static void kernel(struct rec_writer *w, uint32_t correlation, const char *name, uint64_t us,
		   uint64_t dur_us)
{
	struct m_gpu_span s = span(w, correlation, name, us, dur_us);
	rec_put_gpu_span(w, &s);
}

static const struct flops_row *row_of(const flops_rows_t *list, const char *name)
{
	for (size_t i = 0; i < list->len; i++)
		if (!strcmp(list->data[i].name, name))
			return &list->data[i];
	fail_msg("no row %s", name);
	return NULL;
}

/* ---- formulas ---- */

static const char *string_of(void *tables, uint32_t number)
{
	const struct rec_tables *t = tables;
	return strtab_get(&t->strings, number, NULL);
}

/* The operations of one call. */
static double count(uint32_t probe, const uint64_t *args, struct flops_work *ret_work)
{
	struct rec_writer *w = created();
	struct err e = {0};
	struct flops_probe p;
	struct flops_work work;
	call_at(w, 0, probe, 1, 1, args);
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&reader, path, &e), 0);
	const struct rec_tables *t = rec_tables(reader);
	struct m_calls calls = {0};
	flops_probe_make(&p, string_of, (void *)t, &t->probes.data[probe]);
	assert_int_not_equal(p.kind, FLOPS_NONE);
	assert_int_equal(rec_read_calls(reader, 0, &calls, NULL), 0);
	flops_count(&work, &p, &calls.rows[0]);
	m_calls_free(&calls);
	rec_close(reader);
	if (ret_work)
		*ret_work = work;
	return work.known ? work.model : -1;
}
#define COUNT(probe, ...) count(probe, (const uint64_t[8]){__VA_ARGS__}, NULL)

static void products(void **state)
{
	(void)state;
	assert_float_equal(COUNT(MM, SHAPE(3, 5), SHAPE(5, 7), FLOAT), 210, 0);
	assert_float_equal(COUNT(MM, SHAPE(4, 3, 5), SHAPE(4, 5, 7), FLOAT), 840, 0);
	assert_float_equal(COUNT(MM, SHAPE(3, 5), SHAPE(5), FLOAT), 30, 0); /* a vector */
	assert_float_equal(COUNT(MM, SHAPE(5), SHAPE(5), FLOAT), 10, 0);
	assert_float_equal(COUNT(MM, SHAPE(0, 5), SHAPE(5, 7), FLOAT), 0, 0);
	assert_float_equal(COUNT(MM, SHAPE(3, 5), SHAPE(5, 7), COMPLEX), 840, 0);
	assert_float_equal(COUNT(MM, SHAPE_UNKNOWN, SHAPE(5, 7), FLOAT), -1, 0);
	assert_float_equal(COUNT(MM, SHAPE(3, 5), SHAPE_UNKNOWN, FLOAT), -1, 0);
	assert_float_equal(COUNT(MM, 1, SHAPE(5, 7), FLOAT), -1, 0); /* no dimensions */
}

static void library_calls(void **state)
{
	(void)state;
	struct flops_work work;
	assert_float_equal(COUNT(GEMM_EX, 3, 5, 7, 2, 14), 420, 0);
	assert_float_equal(COUNT(GEMM_EX, 3, (uint64_t)-1, 7, 2, 14), -1, 0);
	count(GEMM_EX, (const uint64_t[8]){3, 5, 7, 2, 14}, &work);
	assert_int_equal(work.format, FORMAT_F16);
	count(GEMM_EX, (const uint64_t[8]){3, 5, 7, 2, 28}, &work);
	assert_int_equal(work.format, FORMAT_F8);
	assert_float_equal(count(DGEMM, (const uint64_t[8]){3, 5, 7}, &work), 210, 0);
	assert_int_equal(work.format, FORMAT_F64);
}

static void convolutions(void **state)
{
	(void)state;
	/* 8 outputs from 4 inputs in 2 groups, 3 x 3, stride 2 */
	uint64_t input = SHAPE(2, 4, 16, 16), weight = SHAPE(8, 2, 3, 3);
	uint64_t result = SHAPE(2, 8, 8, 8), none = SHAPE(0);
	double once = 2.0 * (2 * 8 * 8 * 8) * (2 * 3 * 3);
	assert_float_equal(COUNT(CONV, input, weight, 0, result, FLOAT), once, 0);
	assert_float_equal(COUNT(CONV_BACK, result, input, weight, input, weight, FLOAT), 2 * once,
			   0);
	assert_float_equal(COUNT(CONV_BACK, result, input, weight, none, weight, FLOAT), once, 0);
	assert_float_equal(COUNT(CONV_BACK, result, input, weight, input, none, FLOAT), once, 0);
	assert_float_equal(COUNT(CONV_BACK, result, input, weight, none, none, FLOAT), 0, 0);
	assert_float_equal(COUNT(CONV, input, weight, 0, SHAPE_UNKNOWN, FLOAT), -1, 0);
	assert_float_equal(COUNT(CONV, input, SHAPE(8, 2), 0, result, FLOAT), -1, 0);
	/* transposed: 6 outputs from 4 inputs, stride 2 */
	weight = SHAPE(4, 6, 2, 2);
	result = SHAPE(2, 6, 32, 32);
	once = 2.0 * (2 * 4 * 16 * 16) * (6 * 2 * 2);
	assert_float_equal(COUNT(CONV, input, weight, 1, result, FLOAT), once, 0);
	assert_float_equal(COUNT(CONV_BACK, result, input, weight, input, weight, FLOAT), 2 * once,
			   0);
	/* as many outputs as inputs: what grows is transposed */
	weight = SHAPE(4, 4, 2, 2);
	result = SHAPE(2, 4, 32, 32);
	once = 2.0 * (2 * 4 * 16 * 16) * (4 * 2 * 2);
	assert_float_equal(COUNT(CONV_BACK, result, input, weight, input, weight, FLOAT), 2 * once,
			   0);
}

static void attention(void **state)
{
	(void)state;
	struct flops_work work;
	uint64_t query = SHAPE(2, 12, 128, 64), key = SHAPE(2, 12, 256, 64);
	double once = 4.0 * 2 * 12 * 128 * 256 * 64;
	const uint64_t args[8] = {query, key, key, 0, BFLOAT16};
	const uint64_t causal[8] = {query, key, key, 1, BFLOAT16};
	assert_float_equal(count(ATTENTION, args, &work), once, 0);
	assert_float_equal(work.hardware, once, 0);
	assert_float_equal(work.masked, 0, 0);
	assert_int_equal(work.format, FORMAT_F16);
	assert_float_equal(count(ATTENTION, causal, &work), once, 0);
	assert_float_equal(work.masked, once / 2, 0);
	assert_float_equal(count(ATTENTION_BACK, args, &work), 2 * once, 0);
	assert_float_equal(work.hardware, 2.5 * once, 0);
	/* values of another depth; grouped queries: fewer heads of keys */
	assert_float_equal(COUNT(ATTENTION, query, key, SHAPE(2, 12, 256, 32), 0, HALF),
			   0.75 * once, 0);
	assert_float_equal(
		COUNT(ATTENTION, query, SHAPE(2, 4, 256, 64), SHAPE(2, 4, 256, 64), 0, HALF), once,
		0);
	assert_float_equal(COUNT(ATTENTION, query, SHAPE_UNKNOWN, key, 0, HALF), -1, 0);
}

/* ---- calls and kernels ---- */

static void the_outer_call_counts(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t a = SHAPE(3, 5), b = SHAPE(5, 7);
	CALL(w, 0, MM, 10, 20, a, b, FLOAT);
	CALL(w, 0, MM, 12, 10, a, b, BFLOAT16); /* autocast: the same with other arguments */
	CALL(w, 0, GEMM_EX, 14, 5, 3, 5, 7, 1, 14);
	CALL(w, 1, MM, 12, 10, a, b, FLOAT); /* another thread */
	CALL(w, 0, MM, 30, 5, a, b, FLOAT);  /* begins as the first ends */
	CALL(w, 0, MM, 40, 9, SHAPE_UNKNOWN, b, FLOAT);
	CALL(w, 0, GEMM_EX, 42, 5, 3, 5, 7, 1, 14); /* is known, what is around it is not */
	struct flops f = made(w, (struct flops_options){0});
	assert_int_equal(f.calls, 4);
	assert_int_equal(f.within, 2);
	assert_int_equal(f.unknown, 1);
	assert_float_equal(f.model, 4 * 210, 0);
	assert_float_equal(f.by_format[FORMAT_F16], 2 * 210, 0);
	assert_float_equal(f.by_format[FORMAT_F32], 2 * 210, 0);
	assert_int_equal(f.host_ns, (20 + 10 + 5 + 5) * US);
	assert_int_equal(f.wall_ns, (47 - 10) * US);
	assert_int_equal(f.operators.len, 3); /* mm by format, the library's call */
	assert_int_equal(f.devices, 0);
	assert_true(flops_utilisation(&f, false) < 0);
	done(&f);
}

static void a_span_of_time(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t a = SHAPE(3, 5), b = SHAPE(5, 7);
	for (unsigned i = 0; i < 10; i++)
		CALL(w, i % 2, MM, 10 * i, 5, a, b, FLOAT);
	struct flops f = made(w, (struct flops_options){.from_ns = 20 * US, .to_ns = 50 * US});
	assert_int_equal(f.calls, 3);
	assert_int_equal(f.wall_ns, 25 * US);
	done(&f);
}

static void bursts(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t a = SHAPE(3, 5), b = SHAPE(5, 7), torch = rec_string_z(w, "torch");
	uint64_t cuda = rec_string_z(w, "cuda");
	rec_put_window(w, &(struct m_window){90 * US, 120 * US, (uint32_t)torch});
	rec_put_window(w, &(struct m_window){90 * US, 220 * US, (uint32_t)cuda});
	rec_put_window(w, &(struct m_window){200 * US, 220 * US, 0});
	CALL(w, 0, MM, 100, 5, a, b, FLOAT);
	CALL(w, 0, MM, 210, 5, a, b, FLOAT);
	struct flops f = made(w, (struct flops_options){0});
	assert_int_equal(f.wall_ns, (20 + 15) * US);
	done(&f);
}

/* Kernels of a product, of something else, of a graph, and of a call that was not recorded. */
static void kernels_are_whose(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t a = SHAPE(1000, 1000), b = SHAPE(1000, 1000);
	put_gpu(w, 0, "NVIDIA H200");
	CALL(w, 0, MM, 100, 20, a, b, BFLOAT16);
	launch(w, 0, "nvjet_tst", 105);
	launch(w, 0, "splitK_reduce", 110);
	launch(w, 0, "add", 130);
	kernel(w, 1, "nvjet_tst", 120, 100);
	kernel(w, 2, "splitK_reduce", 220, 20);
	kernel(w, 3, "add", 240, 30);
	CALL(w, 0, MM, 300, 20, a, b, BFLOAT16);
	launch(w, 0, "nvjet_tst", 305);
	kernel(w, 4, "nvjet_tst", 320, 80);
	struct m_gpu_span node = span(w, 9, "nvjet_tst", 350, 70);
	node.graph_node = 5;
	node.stream = 8;
	rec_put_gpu_span(w, &node);
	struct flops f = made(w, (struct flops_options){0});
	assert_int_equal(f.kernels_ns, (100 + 20 + 30 + 80 + 70) * US);
	assert_int_equal(f.counted_ns, (100 + 20 + 80) * US);
	assert_int_equal(f.graphs_ns, 70 * US);
	assert_int_equal(f.busy_ns, (150 + 100) * US); /* the graph's overlaps */
	const struct flops_row *mm = row_of(&f.operators, "aten::mm");
	assert_int_equal(mm->calls, 2);
	assert_int_equal(mm->device_ns, 200 * US);
	assert_float_equal(mm->model, 4e9, 0);
	assert_int_equal(f.kernels.len, 1);
	const struct flops_row *nvjet = row_of(&f.kernels, "nvjet_tst");
	assert_int_equal(nvjet->calls, 2);
	assert_int_equal(nvjet->device_ns, 200 * US);
	assert_int_equal(f.others.len, 2);
	assert_string_equal(f.others.data[0].name, "nvjet_tst"); /* of the graph */
	assert_int_equal(f.others.data[0].ns, 70 * US);
	assert_string_equal(f.others.data[1].name, "add");
	assert_int_equal(f.devices, 1);
	assert_string_equal(f.device, "NVIDIA H200");
	assert_int_equal(f.wall_ns, 300 * US); /* up to the end of the last counted kernel */
	assert_float_equal(flops_utilisation(&f, false), 4e9 / 989.4e12 / 300e-6, 1e-9);
	done(&f);
}

/* A product and attention are captured, with another product beside on a stream that is not; the
 * graph is launched three times, once before the span of time that is asked for. */
static void captured(struct rec_writer *w)
{
	uint64_t a = SHAPE(3, 5), b = SHAPE(5, 7), q = SHAPE(1, 2, 8, 4);
	CALL(w, 0, MM, 10, 5, a, b, BFLOAT16); /* warms up */
	launch(w, 0, "gemm", 11);
	GPU_CALL(w, 0, GS_CAPTURE, 20 * US, 1 * US, STREAM);
	CALL(w, 0, MM, 30, 5, a, b, BFLOAT16);
	launch(w, 0, "gemm", 31);
	CALL(w, 0, ATTENTION_BACK, 40, 5, q, q, q, 0, HALF);
	launch(w, 0, "flash", 41);
	CALL(w, 1, MM, 42, 5, a, b, BFLOAT16);
	GPU_CALL(w, 1, GS_LAUNCH, 43 * US, 1 * US, rec_string_z(w, "gemm"), dim3_pack(1, 1, 1),
		 dim3_pack(32, 1, 1), STREAM + 1);
	GPU_CALL(w, 0, GS_CAPTURE_END, 50 * US, 1 * US, STREAM, 0x900);
	GPU_CALL(w, 0, GS_INSTANTIATE, 60 * US, 1 * US, 0xa00, 0x900);
	for (unsigned i = 0; i < 3; i++)
		GPU_CALL(w, 0, GS_GRAPH_LAUNCH, (100 + 100 * i) * US, 1 * US, 0xa00, STREAM);
	GPU_CALL(w, 0, GS_GRAPH_LAUNCH, 400 * US, 1 * US, 0xb00, STREAM); /* of which? */
}

static void graphs_repeat_what_they_hold(void **state)
{
	(void)state;
	double attention = 2 * 4.0 * 2 * 8 * 8 * 4;
	struct rec_writer *w = created();
	captured(w);
	struct flops f = made(w, (struct flops_options){0});
	assert_int_equal(f.calls, 2);
	assert_int_equal(f.captured, 2);
	assert_int_equal(f.graph_launches, 4);
	assert_int_equal(f.graph_unknown, 1);
	assert_float_equal(f.graph_model, 3 * (210 + attention), 0);
	assert_float_equal(f.model, 2 * 210 + f.graph_model, 0);
	assert_float_equal(f.hardware, 5 * 210 + 3 * 1.25 * attention, 0);
	assert_int_equal(f.graphs.len, 2);
	const struct flops_row *mm = row_of(&f.graphs, "aten::mm");
	assert_int_equal(mm->calls, 3);
	assert_float_equal(mm->model, 3 * 210, 0);
	assert_int_equal(row_of(&f.operators, "aten::mm")->calls, 2);
	done(&f);
	/* only the second and third launch */
	w = created();
	captured(w);
	f = made(w, (struct flops_options){.from_ns = 150 * US, .to_ns = 350 * US});
	assert_int_equal(f.calls, 0);
	assert_float_equal(f.model, 2 * (210 + attention), 0);
	assert_int_equal(f.wall_ns, 100 * US);
	done(&f);
}

static void kernels_tell_tensor_cores(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t a = SHAPE(10, 10), b = SHAPE(10, 10);
	put_gpu(w, 0, "NVIDIA A100-SXM4-40GB");
	CALL(w, 0, MM, 100, 20, a, b, FLOAT);
	launch(w, 0, "ampere_sgemm_32x32_tn", 105);
	CALL(w, 0, MM, 200, 20, a, b, FLOAT);
	launch(w, 0, "cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4", 205);
	CALL(w, 0, MM, 300, 20, a, b, DOUBLE);
	struct flops f = made(w, (struct flops_options){0});
	assert_float_equal(f.by_format[FORMAT_F32], 2000, 0);
	assert_float_equal(f.by_format[FORMAT_TF32], 2000, 0);
	assert_float_equal(f.by_format[FORMAT_F64], 2000, 0);
	assert_int_equal(f.devices, 1); /* no timeline: one process launches */
	assert_float_equal(f.ideal_s * 1e9, 2000 / 19.5e3 * 2 + 2000 / 156e3, 1e-6);
	done(&f);
}

static void counter(struct rec_writer *w, const char *entity, const char *name, uint64_t us,
		    double value)
{
	put_counter_of(w, us * US, entity, name, value);
}

static void activity_of_that_time(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	CALL(w, 0, MM, 100, 50, SHAPE(3, 5), SHAPE(5, 7), FLOAT);
	CALL(w, 0, MM, 200, 50, SHAPE(3, 5), SHAPE(5, 7), FLOAT);
	counter(w, "gpu 0", "gpm_sm_ratio", 90, 0.9); /* before */
	counter(w, "gpu 0", "gpm_sm_ratio", 120, 0.25);
	counter(w, "gpu 1", "gpm_sm_ratio", 220, 0.75);
	counter(w, "gpu 0 pid 7", "gpm_sm_ratio", 220, 1);
	counter(w, "gpu 0", "gpm_sm_ratio", 251, 0.9); /* after */
	counter(w, "gpu 0", "gpm_tensor_ratio", 150, 0.125);
	counter(w, "gpu 0", "sm_ratio", 150, 1);
	struct flops f = made(w, (struct flops_options){0});
	assert_int_equal(f.first_ns, 100 * US);
	assert_int_equal(f.last_ns, 250 * US);
	assert_float_equal(f.activity[ACTIVITY_SM], 0.5, 1e-9);
	assert_float_equal(f.activity[ACTIVITY_TENSOR], 0.125, 1e-9);
	assert_true(f.activity[ACTIVITY_MEMORY] < 0);
	done(&f);
}

static void what_has_no_peak(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	put_gpu(w, 0, "NVIDIA H200");
	put_gpu(w, 1, "NVIDIA A100-SXM4-40GB"); /* which of them did it is not known */
	CALL(w, 0, MM, 100, 20, SHAPE(3, 5), SHAPE(5, 7), FLOAT);
	launch(w, 0, "gemm", 105);
	struct flops f = made(w, (struct flops_options){0});
	assert_null(f.device);
	assert_true(flops_utilisation(&f, false) < 0);
	done(&f);
}

static void peaks(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		double f16;
	} cases[] = {
		{"NVIDIA H200", 989.4e12},
		{"NVIDIA H200 NVL", 835.5e12},
		{"NVIDIA H100 80GB HBM3", 989.4e12},
		{"NVIDIA H100 PCIe", 756e12},
		{"NVIDIA A100-SXM4-80GB", 312e12},
		{"NVIDIA A100-PCIE-40GB", 312e12},
		{"NVIDIA A10", 125e12},
		{"NVIDIA A10G", 0},
		{"NVIDIA L4", 121e12},
		{"NVIDIA L40S", 362e12},
		{"NVIDIA L40", 181e12},
		{"NVIDIA B200", 2250e12},
		{"NVIDIA GB200", 2500e12},
		{"Tesla V100-SXM2-16GB", 125e12},
		{"Tesla T4", 65e12},
		{"NVIDIA GeForce RTX 4090", 165.2e12},
		{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", 0},
		{"Imaginary 9000", 0},
		{"", 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_float_equal(flops_peak(cases[i].name, FORMAT_F16), cases[i].f16, 1e6);
	assert_float_equal(flops_peak("NVIDIA H200", FORMAT_F8), 1978.9e12, 1e6);
	assert_float_equal(flops_peak("NVIDIA A100-SXM4-80GB", FORMAT_F8), 0, 0);
	assert_float_equal(flops_peak("NVIDIA H200", FORMAT_UNKNOWN), 989.4e12, 1e6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products),
		cmocka_unit_test(library_calls),
		cmocka_unit_test(convolutions),
		cmocka_unit_test(attention),
		cmocka_unit_test(the_outer_call_counts),
		cmocka_unit_test(a_span_of_time),
		cmocka_unit_test(bursts),
		cmocka_unit_test(kernels_are_whose),
		cmocka_unit_test(graphs_repeat_what_they_hold),
		cmocka_unit_test(kernels_tell_tensor_cores),
		cmocka_unit_test(activity_of_that_time),
		cmocka_unit_test(what_has_no_peak),
		cmocka_unit_test(peaks),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

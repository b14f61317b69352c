/* live_work_test.c - the work of a running session: each call counts once, by its format; kernels
 * by name, boundedly; what share of the GPUs' peak it is, and where that is not known.
 *
 * links: cli golden */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include <cmocka.h>

#include "feed_rows.h"
#include "base/entity.h"
#include "golden/shapes.h"
#include "serve/exposition.h"
#include "serve/work_series.h"
#include "session/live_series.h"
#include "session/session_live.h"
#include "session/session_names.h"
#include "wire/event.h"

#define US     1000ULL
#define SECOND 1000000000ULL
#define AT     (100 * SECOND) /* where calls begin */

enum { HALF = 5, FLOAT = 6 }; /* c10::ScalarType */
enum { MM, CONVOLUTION, LAUNCH };
#define MATRIX SHAPE(1000, 1000)
#define FLOP   2e9 /* of a product of two */

static struct session_names names;
static struct detect_names numbers;
static struct live_series s;
static struct feed_batch b;
static uint32_t strings, codes, memories;

static uint32_t text(const char *string)
{
	*vec_push(&b.strings) = (struct feed_string){strings, (uint32_t)b.texts.len};
	buf_add(&b.texts, string, strlen(string) + 1);
	return strings++;
}

static void pass(uint64_t now_ns, uint64_t upto_ns)
{
	const struct session_view v = {.batch = &b, .names = &numbers, .upto_ns = upto_ns};
	session_names_take(&names, &b);
	live_series_batch(&s, &v, now_ns);
	session_names_forget(&names, &b);
	feed_batch_empty(&b);
}

static void process(uint32_t pid, uint64_t end_ns)
{
	*vec_push(&b.processes) = (struct m_process){
		.pid = pid, .comm = text("python3"), .rank = -1, .start_ns = 1, .end_ns = end_ns};
}

static void thread(uint32_t number, uint32_t pid)
{
	*vec_push(&b.threads) = (struct m_thread){.pid = pid, .tid = pid};
	*vec_push(&b.numbers[ROW_THREAD]) = number;
}

static void probe(uint32_t number, const struct m_probe *row)
{
	*vec_push(&b.probes) = *row;
	*vec_push(&b.numbers[ROW_PROBE]) = number;
}

/* Process 7 with thread 0, and a product, a convolution and a launch as the catalog has them. */
static int begin(void **unused)
{
	(void)unused;
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &numbers);
	s = (struct live_series){0};
	strings = codes = memories = 0;
	uint32_t empty = text(""), torch = text("torch"), cuda = text("cuda");
	(void)empty;
	process(7, 0);
	thread(0, 7);
	probe(MM, &(struct m_probe){.layer = torch,
				    .name = text("aten::mm"),
				    .role = text("matmul"),
				    .name_arg = -1,
				    .nargs = 3,
				    .arg_names = {text("a"), text("b"), text("dtype")}});
	probe(CONVOLUTION, &(struct m_probe){.layer = torch,
					     .name = text("aten::convolution"),
					     .role = text("convolution"),
					     .name_arg = -1,
					     .nargs = 4,
					     .arg_names = {text("input"), text("weight"),
							   text("result"), text("dtype")}});
	probe(LAUNCH, &(struct m_probe){.layer = cuda,
					.name = text("cuLaunchKernel"),
					.role = text("launch"),
					.name_arg = 0,
					.nargs = 1,
					.arg_types = {ARG_TYPE_CODE},
					.arg_names = {text("kernel")}});
	pass(SECOND, 0);
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	live_series_free(&s);
	session_names_free(&names);
	return 0;
}

static struct m_call *call(uint32_t of, uint32_t number, uint64_t start_us, uint64_t dur_us)
{
	struct m_call *c = vec_push(&b.calls);
	*c = (struct m_call){.start_ns = AT + start_us * US,
			     .dur_ns = dur_us * US,
			     .thread = of,
			     .probe = number};
	return c;
}

static void product(uint64_t start_us, uint64_t dur_us, uint64_t dtype)
{
	struct m_call *c = call(0, MM, start_us, dur_us);
	c->nargs = 3;
	c->args[0] = c->args[1] = MATRIX;
	c->args[2] = dtype;
}

#define CONVOLUTED (2.0 * 64 * 8 * 9)
static void convolution(uint64_t start_us, uint64_t dur_us)
{
	struct m_call *c = call(0, CONVOLUTION, start_us, dur_us);
	c->nargs = 4;
	c->args[0] = SHAPE(1, 8, 8, 8);
	c->args[1] = SHAPE(1, 8, 3, 3);
	c->args[2] = SHAPE(1, 1, 8, 8);
	c->args[3] = FLOAT;
}

static uint32_t code(const char *name)
{
	*vec_push(&b.codes) = (struct m_code){.name = text(name)};
	*vec_push(&b.numbers[ROW_CODE]) = codes;
	return codes++;
}

static void launch(uint64_t start_us, uint32_t kernel, uint8_t flags)
{
	struct m_call *c = call(0, LAUNCH, start_us, 1);
	c->nargs = 1;
	c->args[0] = kernel;
	c->flags = flags;
}

static double counted(int format)
{
	return s.work.flops.len ? s.work.flops.data[0].model[format] : 0;
}

static void has(const char *line, bool there)
{
	struct exposition x = {0};
	const struct series_sink sink = exposition_sink(&x);
	work_series_write(&sink, &s);
	buf_byte(&x.text, 0);
	if ((strstr((char *)x.text.data, line) != NULL) != there)
		fail_msg("%s: %s\n%s", there ? "not there" : "there", line, (char *)x.text.data);
	buf_free(&x.text);
}

static void by_format(void **unused)
{
	(void)unused;
	product(0, 10, HALF);
	product(20, 10, FLOAT);
	product(40, 10, FLOAT);
	call(0, MM, 60, 10)->nargs = 0; /* its shapes are not known */
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F16) == FLOP);
	assert_true(counted(FORMAT_F32) == 2 * FLOP);
	has("eacgm_flops_total{pid=\"7\",comm=\"python3\",format=\"float16\"} 2000000000\n", true);
	has("format=\"float64\"} ", false);
	has("eacgm_flops_unknown_calls_total{pid=\"7\",comm=\"python3\"} 1\n", true);
}

/* The inner call comes first, for it ends first; from the ring of another CPU it comes later. */
static void within_another(void **unused)
{
	(void)unused;
	product(2, 5, HALF); /* what was made by the cast */
	product(0, 10, FLOAT);
	product(20, 10, FLOAT);
	product(22, 5, HALF);
	product(22, 5, HALF);
	product(40, 10, FLOAT);
	product(40, 10, FLOAT); /* at the same time to the nanosecond */
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F16) == FLOP);
	assert_true(counted(FORMAT_F32) == 2 * FLOP);
}

/* However much later it ends: what it holds was counted, and counts once. */
static void caller_in_another_batch(void **unused)
{
	(void)unused;
	convolution(2, 5);
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F32) == CONVOLUTED);
	convolution(1, 900000);
	pass(AT + 2 * SECOND, 0);
	convolution(0, 1900000);
	pass(AT + 3 * SECOND, 0);
	assert_true(counted(FORMAT_F32) == CONVOLUTED);
	product(10, 5, FLOAT); /* late, of a caller that is known */
	pass(AT + 3 * SECOND, 0);
	assert_true(counted(FORMAT_F32) == CONVOLUTED);
}

/* Of a call that is made of many, as addbmm is of products. */
static void made_of_many(void **unused)
{
	(void)unused;
	for (uint64_t i = 0; i < 50; i++)
		convolution(i * 20, 10);
	product(0, 1000, FLOAT);
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F32) == FLOP); /* it is more than they are */
	for (uint64_t i = 0; i < 3; i++)
		product(2000 + i * 20, 10, FLOAT);
	convolution(2000, 1000);
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F32) == 4 * FLOP); /* and what only grows stays */
}

/* What came late, of before it, does not hide what holds another one that comes late. */
static void late_ones_of_before(void **unused)
{
	(void)unused;
	product(150, 850, FLOAT);
	convolution(0, 100);
	convolution(200, 100); /* within the product */
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F32) == FLOP + CONVOLUTED);
	convolution(1100, 50);
	convolution(20, 10); /* of before all, again */
	product(1090, 900, FLOAT);
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F32) == 2 * FLOP + CONVOLUTED);
}

/* Of more calls than are kept of a thread the latest are known. */
static void made_of_very_many(void **unused)
{
	(void)unused;
	for (uint64_t i = 0; i < 150; i++)
		product(i * 20, 10, FLOAT);
	product(0, 3000, FLOAT);
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F32) == 150 * FLOP);
	for (uint64_t i = 200; i < 1200; i++)
		convolution(i * 20, 10);
	pass(AT + SECOND, 0);
	product(4000, 21000, FLOAT); /* some of its convolutions are known no more */
	pass(AT + 2 * SECOND, 0);
	double most = 150 * FLOP + 1000 * CONVOLUTED + FLOP;
	assert_in_range(most - counted(FORMAT_F32), 192 * CONVOLUTED, 256 * CONVOLUTED);
	product(26000, 10, FLOAT);
	convolution(25990, 50);
	pass(AT + 2 * SECOND, 0);
	assert_in_range(most + FLOP - counted(FORMAT_F32), 192 * CONVOLUTED, 256 * CONVOLUTED);
}

static void errors_are_no_work(void **unused)
{
	(void)unused;
	product(2, 5, HALF);
	product(0, 10, HALF);
	b.calls.data[1].flags = CALL_ERROR;
	product(20, 10, HALF);
	b.calls.data[2].flags = CALL_ERROR;
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F16) == FLOP);
}

static void threads_come_and_go(void **unused)
{
	(void)unused;
	for (uint64_t i = 0; i < 100; i++)
		product(i * 20, 10, HALF);
	*vec_push(&b.threads_gone) = 0;
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F16) == 100 * FLOP);
	thread(5, 7); /* takes its place */
	product(0, 3000, HALF);
	b.calls.data[0].thread = 5;
	pass(AT + SECOND, 0);
	assert_true(counted(FORMAT_F16) == 101 * FLOP); /* and holds none of its calls */
}

static void kernels_by_name(void **unused)
{
	char name[64];
	(void)unused;
	uint32_t add = code("_ZN2at6native10add_kernelIfEEvPT_");
	launch(0, add, 0);
	launch(10, add, 0);
	launch(20, add, CALL_ERROR);
	launch(30, code("kernel 0x7f0012"), 0);
	launch(40, code("triton_poi_fused_0"), 0);
	pass(AT + SECOND, 0);
	has("eacgm_kernel_launches_total{pid=\"7\",comm=\"python3\",kernel=\"add_kernel<float>\"} "
	    "2\n",
	    true);
	has("kernel=\"(other)\"} 1\n", true);
	has("kernel=\"triton_poi_fused_0\"} 1\n", true);
	for (unsigned i = 0; i < 2 * WORK_KERNELS; i++) {
		snprintf(name, sizeof(name), "made_%u", i);
		launch(100 + i * 10, code(name), 0);
	}
	pass(AT + SECOND, 0);
	assert_int_equal(s.work.kernels.len, WORK_KERNELS);
	uint64_t all = 0;
	for (size_t i = 0; i < s.work.kernels.len; i++)
		all += s.work.kernels.data[i].launches;
	assert_int_equal(all, 4 + 2 * WORK_KERNELS);
}

/* ---- speed ---- */

static double mfu(void)
{
	struct work_peaks *peaks = work_peaks_new(&s);
	double ret = work_series_mfu(&s, peaks, 7);
	work_peaks_free(peaks);
	return ret;
}

static void memory_on(uint32_t gpu, uint32_t pid)
{
	*vec_push(&b.metrics) = (struct m_metric){.kind = ENTITY_GPU,
						  .gpu = gpu,
						  .pid = pid,
						  .instance = -1,
						  .name = text("memory_used_bytes")};
	*vec_push(&b.numbers[ROW_METRIC]) = memories++;
}

static void gpu(uint32_t index, const char *name)
{
	uint32_t empty = text("");
	*vec_push(&b.gpus) = (struct m_gpu){.index = index,
					    .parent = -1,
					    .uuid = text("GPU-1"),
					    .name = text(name),
					    .bus_id = empty,
					    .driver = empty};
}

/* So many products in each of twelve seconds that follow. */
static void work_for_seconds(unsigned products, uint64_t dtype)
{
	uint64_t first = s.now_ns > AT ? (s.now_ns - AT) / SECOND + 1 : 0;
	for (uint64_t second = first; second < first + 12; second++) {
		for (unsigned i = 0; i < products; i++)
			product(second * 1000000 + i * 20, 10, dtype);
		uint64_t now_ns = AT + second * SECOND + SECOND / 2;
		for (uint32_t i = 0; i < memories; i++)
			*vec_push(&b.counters) = (struct m_counter){now_ns, i, 1e9};
		pass(now_ns, 0);
	}
}

static void utilisation(void **unused)
{
	(void)unused;
	gpu(0, "NVIDIA H200");
	memory_on(0, 7);
	work_for_seconds(100, HALF);
	assert_true(fabs(work_series_speed(&s, 7) / (100 * FLOP) - 1) < 1e-9);
	assert_true(fabs(mfu() / (100 * FLOP / 989.4e12) - 1) < 1e-9);
	has("eacgm_mfu_ratio{pid=\"7\",comm=\"python3\"} 0.0002021", true);
	has("eacgm_gpu_peak_flops{gpu=\"0\",uuid=\"GPU-1\",format=\"float16\"} 989400000000000\n",
	    true);
	/* it stands still */
	pass(s.now_ns + 5 * SECOND, 0);
	assert_true(fabs(work_series_speed(&s, 7) / (60 * FLOP) - 1) < 1e-9);
	pass(s.now_ns + 20 * SECOND, 0);
	assert_true(work_series_speed(&s, 7) == 0);
}

static void utilisation_of_two_gpus(void **unused)
{
	(void)unused;
	gpu(0, "NVIDIA H200");
	gpu(1, "NVIDIA H200");
	memory_on(0, 7);
	memory_on(1, 7);
	work_for_seconds(100, HALF);
	assert_true(fabs(mfu() / (50 * FLOP / 989.4e12) - 1) < 1e-9);
}

/* Without its kernels it may have been done on tensor cores: their peak is taken. */
static void utilisation_of_float32(void **unused)
{
	(void)unused;
	gpu(0, "NVIDIA H200");
	memory_on(0, 7);
	work_for_seconds(100, FLOAT);
	assert_true(fabs(mfu() / (100 * FLOP / 494.7e12) - 1) < 1e-9);
	assert_true(counted(FORMAT_F32) == 1200 * FLOP);
	assert_true(counted(FORMAT_TF32) == 0);
}

static void float32_by_its_kernels(void **unused)
{
	(void)unused;
	uint32_t plain = code("sgemm_128"), tensor = code("cutlass_80_tensorop_s1688gemm");
	launch(2, plain, 0);
	product(0, 10, FLOAT);
	launch(22, tensor, 0);
	product(20, 10, FLOAT);
	product(40, 10, FLOAT);
	pass(AT, 0);
	assert_true(counted(FORMAT_F32) == 2 * FLOP);
	assert_true(counted(FORMAT_TF32) == FLOP);
	double by_format[FLOPS_FORMATS];
	assert_false(live_work_speed(&s.work, 7, AT + SECOND, by_format)); /* no whole second */
	assert_false(live_work_speed(&s.work, 8, AT + SECOND, by_format));
}

static void utilisation_that_is_not_known(void **unused)
{
	(void)unused;
	gpu(0, "NVIDIA GeForce 9");
	assert_true(isnan(mfu()));
	assert_true(isnan(work_series_speed(&s, 7)));
	work_for_seconds(100, HALF);
	assert_false(isnan(work_series_speed(&s, 7)));
	assert_true(isnan(mfu())); /* it has no memory on a GPU */
	memory_on(0, 7);
	work_for_seconds(100, HALF);
	assert_true(isnan(mfu())); /* whose peak is not known */
	has("eacgm_mfu_ratio{", false);
	has("eacgm_gpu_peak_flops{", false);
}

/* ---- within a budget ---- */

static void coverage(uint32_t of, uint64_t on_ns, uint64_t off_ns)
{
	*vec_push(&b.coverages) =
		(struct m_coverage){.probe = of, .on_ns = on_ns, .off_ns = off_ns};
}

/* So many seconds in each of which a part of the calls is seen, then a row of coverage. */
static void seconds_of(unsigned n, void (*calls)(uint64_t from_us), uint32_t of, double seen)
{
	static uint64_t on_ns, off_ns;
	uint64_t first = s.now_ns > AT ? (s.now_ns - AT) / SECOND + 1 : 0;
	on_ns = off_ns = SECOND;
	coverage(of, on_ns, off_ns); /* when it is turned down */
	pass(AT + first * SECOND, 0);
	for (uint64_t second = first; second < first + n; second++) {
		calls(second * 1000000);
		on_ns += (uint64_t)(seen * 1e9);
		off_ns += (uint64_t)((1 - seen) * 1e9);
		coverage(of, on_ns, off_ns);
		pass(AT + second * SECOND + SECOND / 2, 0);
	}
}

static double speed(void)
{
	return work_series_speed(&s, 7);
}

static void hundred_products(uint64_t from_us)
{
	for (unsigned i = 0; i < 100; i++)
		product(from_us + i * 20, 10, HALF);
}

/* Seen for a quarter of the time: the counter is of what was seen, the speed of all. */
static void what_a_budget_leaves_out(void **unused)
{
	(void)unused;
	seconds_of(12, hundred_products, MM, 0.25);
	assert_true(fabs(speed() / (400 * FLOP) - 1) < 1e-9);
	assert_true(counted(FORMAT_F16) == 1200 * FLOP);
}

/* From when no row comes any more, it is seen all the time. */
static void what_is_seen_again(void **unused)
{
	(void)unused;
	seconds_of(12, hundred_products, MM, 0.25);
	work_for_seconds(100, HALF);
	work_for_seconds(100, HALF);
	work_for_seconds(100, HALF);
	assert_true(fabs(speed() / (100 * FLOP) - 1) < 1e-9);
}

/* A row in whose time was no burst says nothing; the next one tells of both. */
static void bursts_between_rows(void **unused)
{
	(void)unused;
	coverage(MM, SECOND, 0);
	pass(AT, 0);
	for (uint64_t second = 0; second < 74; second++) {
		bool burst = second % 2;
		if (burst)
			hundred_products(second * 1000000);
		coverage(MM, SECOND + (second + 1) / 2 * SECOND / 4,
			 (second + 1) * SECOND - (second + 1) / 2 * SECOND / 4);
		pass(AT + second * SECOND + SECOND / 2, 0);
	}
	/* 100 in an eighth of two seconds */
	assert_true(fabs(speed() / (400 * FLOP) - 1) < 1e-6);
}

/* Rows that come each 5.2 s: the speed is of the time until the last, and the same all the time. */
static void rows_now_and_then(void **unused)
{
	(void)unused;
	uint64_t on_ns = SECOND, off_ns = SECOND, told_ns = 0;
	coverage(MM, on_ns, off_ns);
	pass(AT, 0);
	for (uint64_t ns = SECOND / 5; ns < 60 * SECOND; ns += SECOND / 5) {
		for (unsigned i = 0; i < 20; i++)
			product(ns / US + i * 20, 10, HALF);
		on_ns += SECOND / 20;
		off_ns += SECOND * 3 / 20;
		if (ns - told_ns > 5 * SECOND) {
			coverage(MM, on_ns, off_ns);
			told_ns = ns;
		}
		pass(AT + ns, 0);
		if (ns > 20 * SECOND && fabs(speed() / (400 * FLOP) - 1) > 0.05)
			fail_msg("%g of it after %g s", speed() / (400 * FLOP), (double)ns / 1e9);
	}
}

/* Rows, and no call, for so long: in some of that time there were bursts. */
static void rows_without_calls(unsigned seconds, bool bursts)
{
	static uint64_t on_ns, off_ns;
	uint64_t begin_ns = s.now_ns;
	on_ns = on_ns > 10 * SECOND ? on_ns : 10 * SECOND; /* more than seconds_of had */
	off_ns = off_ns > 20 * SECOND ? off_ns : 20 * SECOND;
	for (unsigned i = 1; i <= seconds; i++) {
		on_ns += bursts ? SECOND / 4 : 0;
		off_ns += bursts ? SECOND * 3 / 4 : SECOND;
		coverage(MM, on_ns, off_ns);
		pass(begin_ns + i * SECOND, 0);
	}
}

/* Nobody looked: that is not that nothing was done. */
static void a_budget_that_leaves_no_burst(void **unused)
{
	(void)unused;
	seconds_of(12, hundred_products, MM, 0.25);
	rows_without_calls(1, true);
	rows_without_calls(20, false);
	assert_true(fabs(speed() / (400 * FLOP) - 1) < 0.2);
	rows_without_calls(20, false);
	assert_true(isnan(speed()));
	rows_without_calls(62, true);
	assert_true(speed() == 0);
	rows_without_calls(40, false); /* what is done behind a gap is not spread over it */
	seconds_of(6, hundred_products, MM, 0.25);
	assert_true(fabs(speed() / (400 * FLOP) - 1) < 0.3);
}

/* Of a hundred convolutions with a product in each a half is seen, all products are, and as many
 * that stand alone. */
static void half_of_the_callers(uint64_t from_us)
{
	for (unsigned i = 0; i < 200; i++) {
		product(from_us + i * 20 + 2, 5, FLOAT);
		if (i < 50)
			convolution(from_us + i * 20, 10);
	}
}

static void what_is_within_a_caller_that_is_not_seen(void **unused)
{
	(void)unused;
	seconds_of(12, half_of_the_callers, CONVOLUTION, 0.5);
	assert_true(fabs(speed() / (100 * FLOP + 100 * CONVOLUTED) - 1) < 1e-9);
}

static void what_has_ended_goes(void **unused)
{
	(void)unused;
	process(9, 0);
	thread(1, 9);
	product(0, 10, HALF);
	product(20, 10, HALF);
	launch(40, code("k"), 0);
	b.calls.data[1].thread = 1;
	pass(AT, 0);
	assert_int_equal(s.work.flops.len, 2);
	process(7, AT);
	pass(AT + SECOND, 0);
	process(10, 0);
	pass(AT + 2 * SECOND + SERIES_OLD_NS, 0);
	assert_int_equal(s.work.flops.len, 1);
	assert_int_equal(s.work.flops.data[0].pid, 9);
	assert_int_equal(s.work.kernels.len, 0);
	product(60, 10, HALF);
	b.calls.data[0].thread = 1;
	pass(AT + 3 * SECOND + SERIES_OLD_NS, 0);
	assert_true(counted(FORMAT_F16) == 2 * FLOP); /* the places moved */
}

#define TEST(of) cmocka_unit_test_setup_teardown(of, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(by_format),
		TEST(within_another),
		TEST(caller_in_another_batch),
		TEST(made_of_many),
		TEST(late_ones_of_before),
		TEST(made_of_very_many),
		TEST(errors_are_no_work),
		TEST(threads_come_and_go),
		TEST(kernels_by_name),
		TEST(utilisation),
		TEST(utilisation_of_two_gpus),
		TEST(utilisation_of_float32),
		TEST(float32_by_its_kernels),
		TEST(utilisation_that_is_not_known),
		TEST(what_a_budget_leaves_out),
		TEST(what_is_seen_again),
		TEST(bursts_between_rows),
		TEST(rows_now_and_then),
		TEST(a_budget_that_leaves_no_burst),
		TEST(what_is_within_a_caller_that_is_not_seen),
		TEST(what_has_ended_goes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

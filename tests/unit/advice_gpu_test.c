/* advice_gpu_test.c - what the report advises on GPUs, from recordings made by hand: each kind
 * where its problem is, and nothing where it is not.
 *
 * links: report incident detect analyze symbolize parser recording events base golden */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "golden/counters.h"
#include "golden/gpu_sample.h"
#include "recording/recording.h"
#include "report/report.h"
#include "made_file.h"

#define MS     1000000ULL
#define STREAM 0x70
#define WALL   1000 /* ms */

static struct rec_writer *w;
static uint32_t correlation;

/* One thread, which was never off the CPU. */
static void create(void)
{
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	gpu_sample_probes(w);
	rec_put_process(w, &(struct m_process){.pid = 7, .parent_pid = 1, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){7, 7, 0});
	rec_put_wait_total(w, &(struct m_wait_total){.reason = WAIT_SLEEP,
						     .since_ns = MS,
						     .until_ns = (WALL + 1) * MS,
						     .count = 1,
						     .waited_ns = 1});
	correlation = 0;
}

static void span(const char *name, uint64_t from_us, uint64_t to_us, uint8_t work)
{
	bool copies = work == WORK_COPY;
	correlation++;
	rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = from_us * 1000,
						 .end_ns = to_us * 1000,
						 .pid = 7,
						 .stream = 7,
						 .name = (uint32_t)rec_string_z(w, name),
						 .correlation = correlation,
						 .work = work,
						 .copy_kind = copies,
						 .source_kind = copies ? MEMORY_PAGEABLE : 0,
						 .destination_kind = copies ? MEMORY_DEVICE : 0,
						 .bytes = copies ? 1 << 20 : 0});
}

static void launch(const char *name, uint64_t at_us, uint64_t from_us, uint64_t to_us)
{
	GPU_CALL(w, 0, GS_LAUNCH, at_us * 1000, 1000, rec_string_z(w, name), dim3_pack(1, 1, 1),
		 dim3_pack(32, 1, 1), STREAM);
	span(name, from_us, to_us, WORK_KERNEL);
}

static void samples_at(uint32_t line)
{
	uint32_t frame = rec_add_frame(
		w, &(struct m_frame){.kind = FRAME_PYTHON,
				     .name = (uint32_t)rec_string_z(w, "step"),
				     .file = (uint32_t)rec_string_z(w, "/job/train.py"),
				     .line = line});
	uint32_t stack = rec_add_stack(w, &(struct m_stack){0, frame});
	for (uint64_t at = 1; at < WALL; at++)
		rec_put_sample(w, &(struct m_sample){.time_ns = at * MS + MS / 2,
						     .weight_ns = MS,
						     .stack = stack});
}

static json_t *advice(void)
{
	struct err e = {0};
	struct rec_reader *reader = NULL;
	struct report report;
	struct report_options options = {.top = 10};
	FILE *f = tmpfile();
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	report_make(&report, path, rec_source(reader), &options,
		    &(struct visit_options){.threads = 1});
	assert_int_equal(report_json(f, &report), 0);
	rewind(f);
	json_t *all = json_loadf(f, 0, NULL);
	json_t *list = json_object_get(json_object_get(all, "account"), "advice");
	assert_true(json_is_array(list));
	json_incref(list);
	json_decref(all);
	report_free(&report);
	rec_close(reader);
	fclose(f);
	return list;
}

/* NULL: there is none of the kind. */
static const json_t *of_kind(const json_t *list, const char *kind)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *a = json_array_get(list, i);
		if (!strcmp(json_string_value(json_object_get(a, "kind")), kind))
			return a;
	}
	return NULL;
}

static void saves_about(const json_t *list, const char *kind, double ms)
{
	const json_t *a = of_kind(list, kind);
	if (!a)
		fail_msg("no advice of kind %s", kind);
	double is = json_number_value(json_object_get(a, "saving_ns")) / 1e6;
	if (is < 0.99 * ms || is > 1.01 * ms)
		fail_msg("%s saves %.3f ms, wanted %.3f", kind, is, ms);
	bool sure =
		!strcmp(kind, "churn") || !strcmp(kind, "precision") || !strcmp(kind, "compile");
	assert_true(json_is_true(json_object_get(a, "at_most")) != sure);
}

static void has_line(const json_t *list, const char *kind, uint32_t line)
{
	const json_t *place = json_object_get(of_kind(list, kind), "place");
	assert_int_equal(json_integer_value(json_object_get(place, "line")), line);
}

/* A hundred kernels of 1 ms; the host launches one each 10 ms. */
static void a_host_that_launches_too_slowly(void **state)
{
	(void)state;
	create();
	for (uint64_t i = 0; i < 100; i++)
		launch("add", 1000 + 10000 * i, 1010 + 10000 * i, 2010 + 10000 * i);
	json_t *list = advice();
	saves_about(list, "launch", 99 * 9);
	assert_null(of_kind(list, "sync"));
	json_decref(list);
}

/* All of them are there before they can run. */
static void a_host_that_launches_ahead(void **state)
{
	(void)state;
	create();
	for (uint64_t i = 0; i < 100; i++)
		launch("add", 1000 + 10 * i, 1010 + 9900 * i, 10910 + 9900 * i);
	json_t *list = advice();
	assert_int_equal(json_array_size(list), 0);
	json_decref(list);
}

/* It waits for each kernel of 9 ms, and launches the next 0.9 ms later. */
static void a_host_that_waits_for_each_kernel(void **state)
{
	(void)state;
	create();
	samples_at(40);
	for (uint64_t i = 0; i < 99; i++) {
		uint64_t at = 1000 + 10000 * i;
		launch("add", at, at + 10, at + 9010);
		GPU_CALL(w, 0, GS_SYNC, (at + 20) * 1000, 9080 * 1000, STREAM);
	}
	json_t *list = advice();
	saves_about(list, "sync", 98 * 1);
	has_line(list, "sync", 40);
	assert_null(of_kind(list, "launch"));
	json_decref(list);
}

/* It waits 6 ms for a kernel. Behind that two more of 1 ms are late by 1 ms each: without the wait
 * they would have been there in time. */
static void a_host_that_has_to_get_ahead_again(void **state)
{
	(void)state;
	create();
	samples_at(40);
	for (uint64_t i = 0; i < 99; i++) {
		uint64_t at = 1000 + 10000 * i;
		launch("add", at, at + 10, at + 6010);
		GPU_CALL(w, 0, GS_SYNC, (at + 20) * 1000, 6080 * 1000, STREAM);
		launch("mul", at + 7000, at + 7010, at + 8000);
		launch("mul", at + 9000, at + 9010, at + 9990);
	}
	json_t *list = advice();
	saves_about(list, "sync", 99 * 2);
	assert_null(of_kind(list, "launch"));
	json_decref(list);
}

/* Ten copies of 10 ms between kernels. */
static void copies_that_nothing_runs_beside(void **state)
{
	(void)state;
	create();
	samples_at(42);
	for (uint64_t i = 0; i < 10; i++) {
		uint64_t at = 1000 + 100000 * i;
		GPU_CALL(w, 0, GS_HTOD, at * 1000, 10100 * 1000, 1 << 20);
		span("", at + 10, at + 10010, WORK_COPY);
		launch("add", at + 10110, at + 10120, at + 100000);
	}
	json_t *list = advice();
	saves_about(list, "copies", 100);
	has_line(list, "copies", 42);
	json_decref(list);
}

/* NCCL's kernels alone for half of the time. */
static void collectives_that_nothing_runs_beside(void **state)
{
	(void)state;
	create();
	for (uint64_t i = 0; i < 10; i++) {
		uint64_t at = 1000 + 100000 * i;
		launch("add", at, at + 10, at + 50000);
		launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 10, at + 50000, at + 100000);
	}
	json_t *list = advice();
	saves_about(list, "exposed_collectives", 500);
	json_decref(list);
}

/* A hundred times a kernel of 5 ms, and a free that waits 4 ms for it and takes 3 ms more. */
static void memory_that_is_given_back_each_step(void **state)
{
	(void)state;
	create();
	samples_at(41);
	for (uint64_t i = 0; i < 99; i++) {
		uint64_t at = 1000 + 10000 * i;
		launch("add", at, at + 10, at + 5010);
		GPU_CALL(w, 0, GS_FREE, (at + 1010) * 1000, 7000 * 1000, 0x1000);
	}
	json_t *list = advice();
	saves_about(list, "churn", 99 * 3);
	has_line(list, "churn", 41);
	json_decref(list);
}

static void memory_that_is_given_back_meanwhile(void **state)
{
	(void)state;
	create();
	for (uint64_t i = 0; i < 99; i++) {
		uint64_t at = 1000 + 10000 * i;
		launch("add", at, at + 10, at + 9990);
		GPU_CALL(w, 0, GS_FREE, (at + 1010) * 1000, 7000 * 1000, 0x1000);
	}
	json_t *list = advice();
	assert_null(of_kind(list, "churn"));
	json_decref(list);
}

static uint32_t stack_of(const char *function, const char *file)
{
	uint32_t frame = rec_add_frame(w, &(struct m_frame){.kind = FRAME_PYTHON,
							    .name = rec_string_z(w, function),
							    .file = rec_string_z(w, file),
							    .line = 9});
	return rec_add_stack(w, &(struct m_stack){0, frame});
}

/* Steps of 5 ms, of which two take 155: one compiles. */
static json_t *advice_on_compiling(uint64_t in_step, uint64_t other)
{
	create();
	uint32_t step = stack_of("step", "/job/train.py");
	uint32_t compile = stack_of("backend_compile", "/x/jax/_src/compiler.py");
	uint64_t at = 1;
	for (uint64_t i = 0; i < 140; i++, at += 5) {
		for (uint64_t k = 0; k < 150 && (i == in_step || i == other); k++, at++)
			rec_put_sample(w,
				       &(struct m_sample){.time_ns = at * MS + MS / 2,
							  .weight_ns = MS,
							  .stack = i == in_step ? compile : step});
		for (uint64_t k = 0; k < 5; k++)
			rec_put_sample(w, &(struct m_sample){.time_ns = (at + k) * MS + MS / 2,
							     .weight_ns = MS,
							     .stack = step});
		launch("embed", at * 1000, at * 1000 + 10, at * 1000 + 900);
		launch("gemm", at * 1000 + 1000, at * 1000 + 1010, at * 1000 + 1900);
		launch("loss", at * 1000 + 2000, at * 1000 + 2010, at * 1000 + 2900);
		GPU_CALL(w, 0, GS_SYNC, (at * 1000 + 3000) * 1000, 900 * 1000, STREAM);
	}
	return advice();
}

static void steps_that_compile(void **state)
{
	(void)state;
	json_t *list = advice_on_compiling(70, 100);
	saves_about(list, "compile", 150);
	json_decref(list);
	list = advice_on_compiling(3, 100); /* as each job does */
	assert_null(of_kind(list, "compile"));
	json_decref(list);
}

/* A GPU that is busy all the time with kernels of this name. */
static json_t *advice_on(const char *kernel, const char *gpu)
{
	create();
	rec_put_gpu(w, &(struct m_gpu){.parent = -1, .name = (uint32_t)rec_string_z(w, gpu)});
	for (uint64_t i = 0; i < 100; i++)
		launch(kernel, 1000 + 10 * i, 1010 + 9900 * i, 10910 + 9900 * i);
	return advice();
}

static void products_without_tensor_cores(void **state)
{
	(void)state;
	static const char *const plain[] = {
		"ampere_sgemm_128x64_nn",
		"void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(...)",
		"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_ffma_execute_kernel"};
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		json_t *list = advice_on(plain[i], "NVIDIA H100 80GB HBM3");
		saves_about(list, "precision", 990 * (1 - 2 * 66.9 / 494.7));
		json_decref(list);
	}
}

static void products_on_tensor_cores(void **state)
{
	(void)state;
	static const char *const tensor[] = {
		"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_execute_kernel",
		"cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4",
		"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn", "nvjet_tst_128x256_64x4_TNT",
		"add"};
	for (size_t i = 0; i < sizeof(tensor) / sizeof(tensor[0]); i++) {
		json_t *list = advice_on(tensor[i], "NVIDIA H100 80GB HBM3");
		assert_null(of_kind(list, "precision"));
		json_decref(list);
	}
	json_t *list = advice_on("ampere_sgemm_128x64_nn", "NVIDIA L4"); /* hardly faster there */
	assert_null(of_kind(list, "precision"));
	json_decref(list);
}

static void put_counters(const char *of, const char *name, double value)
{
	for (uint64_t at = 1; at <= 20; at++)
		put_counter_of(w, at * 40 * MS, of, name, value);
}

/* A GPU of the host, with so many processes on it. */
static void put_gpu(uint32_t index, double busy, double processes)
{
	char entity[32];
	snprintf(entity, sizeof(entity), "gpu %u", index);
	rec_put_gpu(w, &(struct m_gpu){.index = index,
				       .parent = -1,
				       .uuid = (uint32_t)rec_string_z(w, entity),
				       .name = (uint32_t)rec_string_z(w, "NVIDIA H200")});
	put_counters(entity, "sm_ratio", busy);
	put_counters(entity, "processes", processes);
	put_counters(entity, "memory_used_bytes", processes > 0 ? 8e9 : 0);
}

static json_t *advice_with(uint32_t gpus, const double busy[], const double processes[],
			   uint64_t busy_us)
{
	create();
	for (uint32_t i = 0; i < gpus; i++)
		put_gpu(i, busy[i], processes[i]);
	for (uint64_t i = 0; i < 100; i++)
		launch("add", 1000 + 10 * i, 1010 + 9900 * i, 1010 + 9900 * i + busy_us);
	return advice();
}

/* One GPU works, two are free, one is held. */
static void gpus_that_nobody_uses(void **state)
{
	(void)state;
	json_t *list = advice_with(4, (double[]){1, 0, 0, 0}, (double[]){1, 0, 0, 1}, 9900);
	saves_about(list, "idle_gpu", 1000 * 2. / 3);
	json_decref(list);
	list = advice_with(4, (double[]){1, 0, 0, 0}, (double[]){1, 0, 0, 1}, 1000); /* not busy */
	assert_null(of_kind(list, "idle_gpu"));
	json_decref(list);
}

static void gpus_that_are_used(void **state)
{
	(void)state;
	json_t *list = advice_with(2, (double[]){1, 0.1}, (double[]){1, 0}, 9900);
	assert_null(of_kind(list, "idle_gpu"));
	json_decref(list);
	list = advice_with(2, (double[]){1, 0}, (double[]){1, 1},
			   9900); /* held: nothing is saved */
	assert_null(of_kind(list, "idle_gpu"));
	json_decref(list);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, NULL, NULL)
	const struct CMUnitTest tests[] = {
		T(a_host_that_launches_too_slowly),
		T(a_host_that_launches_ahead),
		T(a_host_that_waits_for_each_kernel),
		T(a_host_that_has_to_get_ahead_again),
		T(copies_that_nothing_runs_beside),
		T(collectives_that_nothing_runs_beside),
		T(memory_that_is_given_back_each_step),
		T(memory_that_is_given_back_meanwhile),
		T(steps_that_compile),
		T(products_without_tensor_cores),
		T(products_on_tensor_cores),
		T(gpus_that_nobody_uses),
		T(gpus_that_are_used),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

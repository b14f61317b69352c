/* row_json_test.c - rows as JSON and back: whatever they are judged by is there, and what is
 * unknown is null. links: detect analyze recording base */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/row_json.h"

static struct detect_layers layers;

static const struct feature_row of_calls = {.start_ns = 5000000000,
					    .end_ns = 6000000000,
					    .layer = DETECT_TORCH,
					    .pid = 4321,
					    .parent = 4300,
					    .gpu = -1,
					    .regime = 3,
					    .events = 1234,
					    .pace = 0.75,
					    .cpus = -0.125,
					    .parents_pace = true,
					    .other_work = true,
					    .x = {0.5, -0.25}};
static const struct feature_row of_a_gpu = {.start_ns = 5000000000,
					    .end_ns = 6000000000,
					    .layer = DETECT_HARDWARE,
					    .gpu = 0,
					    .gpu_pid = UINT32_MAX,
					    .regime = 1,
					    .events = 10,
					    .pace = 1,
					    .x = {1, 2, 3}};

static void expect_row(const struct feature_row *got, const struct feature_row *row)
{
	uint32_t n;
	assert_int_equal(got->start_ns, row->start_ns);
	assert_int_equal(got->end_ns, row->end_ns);
	assert_int_equal(got->layer, row->layer);
	assert_int_equal(got->pid, row->pid);
	assert_int_equal(got->parent, row->parent);
	assert_int_equal(got->gpu, row->gpu);
	assert_int_equal(got->gpu_pid, row->gpu_pid);
	assert_int_equal(got->regime, row->regime);
	assert_int_equal(got->events, row->events);
	assert_true(got->pace == row->pace && got->cpus == row->cpus);
	assert_int_equal(got->parents_pace, row->parents_pace);
	assert_int_equal(got->other_work, row->other_work);
	features_of(row->layer, &n);
	for (uint32_t f = 0; f < n; f++)
		assert_true(got->x[f] == row->x[f]);
}

/* As text and back. */
static void expect_round(const struct feature_row *row)
{
	struct feature_row got;
	struct err e = {0};
	double p;
	json_t *o = row_json(row, detect_layer_name(&layers, row->layer), 2, 0.01, true);
	char *text = json_dumps(o, 0);
	assert_non_null(text);
	json_t *read = json_loads(text, 0, NULL);
	assert_int_equal(row_of_json(&got, &layers, &p, read, &e), 0);
	expect_row(&got, row);
	assert_true(p == 0.01);
	json_decref(read);
	json_decref(o);
	free(text);
}

static void rows_come_back_as_they_were(void **state)
{
	(void)state;
	struct feature_row row = of_calls;
	expect_round(&of_calls);
	expect_round(&of_a_gpu);
	row.parents_pace = false; /* each of both by itself */
	expect_round(&row);
	row.parents_pace = true;
	row.other_work = false;
	expect_round(&row);
}

static void the_keys_are_those_of_the_manual(void **state)
{
	(void)state;
	json_t *calls = row_json(&of_calls, "torch", 2, 0.01, true),
	       *gpu = row_json(&of_a_gpu, "hardware", 2, NAN, false);
	assert_int_equal(json_integer_value(json_object_get(calls, "pid")), 4321);
	assert_int_equal(json_integer_value(json_object_get(calls, "parent_pid")), 4300);
	assert_true(json_is_null(json_object_get(calls, "gpu")));
	assert_true(json_is_null(json_object_get(calls, "gpu_pid")));
	assert_true(json_is_true(json_object_get(calls, "parents_pace")));
	assert_true(json_is_true(json_object_get(calls, "other_work")));
	assert_true(json_is_null(json_object_get(gpu, "pid")));
	assert_true(json_is_null(json_object_get(gpu, "parent_pid")));
	assert_int_equal(json_integer_value(json_object_get(gpu, "gpu")), 0);
	assert_int_equal(json_integer_value(json_object_get(gpu, "gpu_pid")), UINT32_MAX);
	assert_true(json_is_false(json_object_get(gpu, "parents_pace")));
	assert_true(json_is_false(json_object_get(gpu, "other_work")));
	assert_true(json_is_null(json_object_get(gpu, "p_value")));
	json_decref(calls);
	json_decref(gpu);
}

static void a_layer_that_a_file_names_comes_back(void **state)
{
	(void)state;
	struct detect_layers made = {0}, read = {0};
	struct feature_row row = of_calls, got;
	struct err e = {0};
	double p;
	detect_layer_add(&made, "first");
	row.layer = detect_layer_add(&made, "mylib");
	json_t *o = row_json(&row, detect_layer_name(&made, row.layer), 2, 0.01, true);
	assert_string_equal(json_string_value(json_object_get(o, "layer")), "mylib");
	assert_int_equal(row_of_json(&got, &read, &p, o, &e), 0);
	assert_string_equal(detect_layer_name(&read, got.layer), "mylib");
	json_object_set_new(o, "cpus", json_real(1.5)); /* no CPU is that slow */
	assert_int_equal(row_of_json(&got, &read, &p, o, &e), 0);
	assert_true(got.cpus == 0);
	json_object_set_new(o, "layer", json_string("no name"));
	assert_int_equal(row_of_json(&got, &read, &p, o, &e), -EINVAL);
	json_decref(o);
}

/* Rows of before have fewer keys. */
static void what_is_not_there_is_unknown(void **state)
{
	(void)state;
	struct feature_row got;
	struct err e = {0};
	double p;
	json_t *o = json_loads("{\"start_ns\": 1, \"end_ns\": 2, \"layer\": \"torch\"}", 0, NULL);
	assert_int_equal(row_of_json(&got, &layers, &p, o, &e), 0);
	assert_int_equal(got.pid, 0);
	assert_int_equal(got.parent, 0);
	assert_int_equal(got.gpu, -1);
	assert_int_equal(got.gpu_pid, 0);
	assert_true(got.pace == 0 && got.cpus == 0 && !got.parents_pace && !got.other_work);
	assert_true(isnan(p) && isnan(got.x[0]));
	json_decref(o);
}

static void what_is_no_number_of_a_process_is_refused(void **state)
{
	(void)state;
	static const char *const keys[] = {"pid", "parent_pid", "gpu_pid"};
	struct feature_row got;
	double p;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		for (int how = 0; how < 3; how++) {
			struct err e = {0};
			json_t *o = row_json(&of_calls, "torch", 2, 0.01, true);
			json_object_set_new(o, keys[i],
					    how == 0   ? json_integer(-1)
					    : how == 1 ? json_integer(UINT32_MAX + 1LL)
						       : json_string("4321"));
			assert_int_equal(row_of_json(&got, &layers, &p, o, &e), -EINVAL);
			assert_non_null(strstr(e.msg, keys[i]));
			json_decref(o);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_come_back_as_they_were),
		cmocka_unit_test(the_keys_are_those_of_the_manual),
		cmocka_unit_test(a_layer_that_a_file_names_comes_back),
		cmocka_unit_test(what_is_not_there_is_unknown),
		cmocka_unit_test(what_is_no_number_of_a_process_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

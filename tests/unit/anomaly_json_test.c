/* anomaly_json_test.c - anomalies as JSON: what recordings say is no clean text, and numbers may be
 * none.
 *
 * links: cli */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "report/report_anomalies.h"

static void any_text_and_number_is_there(void **state)
{
	(void)state;
	struct anomaly a = {.id = 1,
			    .gpu = -1,
			    .layer_name = "mylib",
			    .name = "f\xff",
			    .p_value = NAN,
			    .lost_ns = INFINITY};
	a.features_len = 1;
	a.features[0].name = "n\xff";
	a.features[0].unit = "ratio";
	a.features[0].value = NAN;
	a.calls_len = 2;
	a.calls[0].key = "kernel\xe2\x82";
	a.calls[0].calls = 3;
	a.calls[0].mean_ns = INFINITY;
	a.calls[1].key = "mm";
	json_t *o = anomaly_json(&a);
	assert_non_null(o);
	const json_t *features = json_object_get(o, "features"),
		     *calls = json_object_get(o, "calls");
	assert_string_equal(json_string_value(json_object_get(o, "layer")), "mylib");
	assert_int_equal(json_array_size(features), 1);
	assert_int_equal(json_array_size(calls), 2);
	const json_t *call = json_array_get(calls, 0);
	assert_memory_equal(json_string_value(json_object_get(call, "key")), "kernel", 6);
	assert_int_equal(json_integer_value(json_object_get(call, "calls")), 3);
	assert_true(json_is_null(json_object_get(call, "mean_ns")));
	assert_true(json_is_null(json_object_get(o, "p_value")));
	assert_true(json_is_null(json_object_get(o, "lost_ns")));
	assert_true(json_is_null(json_object_get(o, "pid")));
	char *text = json_dumps(o, 0);
	assert_non_null(text);
	free(text);
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_text_and_number_is_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* setting_test.c - what a run was made on: collected, compared, as JSON and back.
 * links: detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/setting_json.h"

static void files_are_of_libraries(void **state)
{
	(void)state;
	struct setting s = {0};
	setting_add_file(&s, "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3", "0123456789abcdef");
	setting_add_file(&s, "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3", "0123456789abcdef");
	setting_add_file(&s, "/opt/lib/libc.so.6", "77");
	setting_add_file(&s, "/opt/lib/libtorch_cpu.so", "");
	setting_add(&s, "host", "");
	assert_int_equal(s.facts.len, 2);
	assert_string_equal(s.facts.data[0].name, "BLAS");
	assert_string_equal(s.facts.data[0].value, "blas/libblas.so.3 (0123456789ab)");
	assert_string_equal(s.facts.data[1].value, "lib/libtorch_cpu.so");
	setting_free(&s);
}

static void only_what_both_have_differs(void **state)
{
	(void)state;
	struct setting learned = {0}, now = {0};
	setting_add(&learned, "host", "a");
	setting_add(&learned, "host", "b");
	setting_add(&learned, "BLAS", "x/libblas.so.3 (0123)");
	setting_add(&learned, "GPU", "NVIDIA H200");
	setting_add(&now, "host", "b");
	setting_add(&now, "BLAS", "x/libblas.so.3"); /* of unknown build ID */
	setting_add(&now, "NCCL", "y/libnccl.so.2");
	assert_null(setting_difference(&learned, &now));
	setting_add(&now, "host", "c");
	setting_add(&now, "BLAS", "x/libblas.so.3 (4567)");
	char *text = setting_difference(&learned, &now);
	assert_string_equal(
		text, "host is c, not a; BLAS is x/libblas.so.3 (4567), not x/libblas.so.3 (0123)");
	free(text);
	setting_free(&learned);
	setting_free(&now);
}

static int parse(struct setting *ret, const char *text)
{
	struct err e;
	json_t *o = json_loads(text, JSON_DECODE_ANY, NULL);
	int rc = setting_parse(ret, o, &e);
	json_decref(o);
	return rc;
}

static void json_is_read_again(void **state)
{
	(void)state;
	struct setting s = {0}, again = {0};
	struct err e;
	setting_add(&s, "host", "a\xff");
	setting_add(&s, "host", "b");
	json_t *o = setting_json(&s);
	assert_int_equal(setting_parse(&again, o, &e), 0);
	assert_int_equal(again.facts.len, 2);
	assert_string_equal(again.facts.data[0].value, "a\xef\xbf\xbd");
	json_decref(o);
	setting_free(&s);
	setting_free(&again);
	assert_int_equal(setting_parse(&again, NULL, &e), 0);
	assert_true(parse(&again, "[]") < 0);
	assert_true(parse(&again, "{\"host\": 1}") < 0);
	assert_true(parse(&again, "{\"host\": [1]}") < 0);
	setting_free(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_of_libraries),
		cmocka_unit_test(only_what_both_have_differs),
		cmocka_unit_test(json_is_read_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* profile_servers_test.c - what servers are told of a profile: Pyroscope in a query, Parca in JSON,
 * with names that are hostile to either.
 *
 * links: serve session symbolize base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "serve/parca.h"
#include "serve/pyroscope.h"

static const struct chosen_labels chosen = {
	.list = {{.name = "team", .value = "a b"}, {.name = "queue", .variable = "QUEUE"}},
	.len = 2};

static struct live_process process(const char *comm, const char *script)
{
	struct live_process ret = {.pid = 7, .parent = 1, .rank = 3};
	proc_labels_init(&ret.labels);
	snprintf(ret.comm, sizeof(ret.comm), "%s", comm);
	snprintf(ret.script, sizeof(ret.script), "%s", script);
	snprintf(ret.labels.job, sizeof(ret.labels.job), "4 7");
	return ret;
}

static void pyroscope(void **unused)
{
	(void)unused;
	const struct live_process one = process("python3", "a{b=\"c\"},&d%.py"),
				  two = process("job", "");
	struct live_process three = process("job", "");
	three.labels.chosen = &chosen;
	char *q = pyroscope_query(&one, "host", 99, 5, 15);
	assert_string_equal(q,
			    "?name=a_b__c____d_.py%7Bpid%3D7%2Chost%3Dhost%2Crank%3D3%2Cjob%3D4_7"
			    "%7D&format=pprof&spyName=eacgm&sampleRate=99&from=5&until=15&"
			    "units=nanoseconds");
	free(q);
	q = pyroscope_query(&two, "host", 99, 5, 15);
	assert_ptr_equal(strstr(q, "?name=job%7Bpid"), q);
	free(q);
	q = pyroscope_query(&three, "host", 99, 5, 15);
	assert_non_null(strstr(q, "%2Cjob%3D4_7%2Cteam%3Da_b%7D&"));
	free(q);
}

static const char *label(json_t *series, const char *name)
{
	json_t *list = json_object_get(json_object_get(series, "labels"), "labels"), *row;
	const char *found = NULL;
	size_t i;
	json_array_foreach (list, i, row) {
		if (strcmp(json_string_value(json_object_get(row, "name")), name) != 0)
			continue;
		assert_null(found); /* once, as Parca wants */
		found = json_string_value(json_object_get(row, "value"));
	}
	return found ? found : "";
}

static void parca(void **unused)
{
	(void)unused;
	struct live_process of = process("p\xff\"", "a\n.py");
	of.labels.chosen = &chosen;
	struct buf pprof = {0}, body = {0};
	buf_add(&pprof, "\x1f\x8b\x08\0", 4);
	parca_write(&body, &of, "host", &pprof);
	json_t *q = json_loadb((const char *)body.data, body.len, 0, NULL);
	assert_non_null(q);
	json_t *list = json_object_get(q, "series"), *series = json_array_get(list, 0);
	assert_int_equal(json_array_size(list), 1);
	assert_true(json_is_true(json_object_get(q, "normalized")));
	assert_string_equal(label(series, "__name__"), "process_cpu");
	assert_string_equal(label(series, "node"), "host");
	assert_string_equal(label(series, "pid"), "7");
	assert_string_equal(label(series, "comm"), "p\xef\xbf\xbd\"");
	assert_string_equal(label(series, "script"), "a?.py");
	assert_string_equal(label(series, "rank"), "3");
	assert_string_equal(label(series, "job"), "4 7");
	assert_string_equal(label(series, "pod"), "");
	assert_string_equal(label(series, "team"), "a b");
	assert_string_equal(label(series, "queue"), "");
	json_t *samples = json_object_get(series, "samples");
	assert_int_equal(json_array_size(samples), 1);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(samples, 0), "rawProfile")),
		"H4sIAA==");
	json_decref(q);
	buf_free(&pprof);
	buf_free(&body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pyroscope),
		cmocka_unit_test(parca),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

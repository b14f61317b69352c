/* victim_place_test.c - where a victim lost most, by its anomalies: of one that was told and is
 * kept what says so outlives the strings that it was told with.
 *
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "incident/diagnosis_impl.h"
#include "incident/kept_anomaly.h"

static struct anomaly_list list;
static struct diagnosed in;

static int end(void **state)
{
	(void)state;
	for (size_t i = 0; i < list.rows.len; i++)
		kept_anomaly_free(&list.rows.data[i].a);
	vec_free(&list.rows);
	vec_free(&in.anomalies);
	in = (struct diagnosed){0};
	return 0;
}

/* With strings that are gone when it returns. */
static void told(enum detect_layer layer, const char *name, const char *function)
{
	char texts[3][32];
	struct anomaly a = {.layer = layer, .features_len = 2, .calls_len = 1};
	strcpy(texts[0], name);
	strcpy(texts[1], function ? function : "");
	strcpy(texts[2], "/job/train.py");
	a.name = texts[0];
	if (function)
		a.line = (struct anomaly_line){.function = texts[1], .file = texts[2], .line = 12};
	*vec_push(&in.anomalies) = list.rows.len;
	vec_push(&list.rows)->a = kept_anomaly(&a);
	memset(texts, 'x', sizeof(texts));
}

static void of_the_anomaly_that_says_most(void **state)
{
	(void)state;
	told(DETECT_HOST, "cpu_ratio", NULL);
	told(DETECT_STEP, "backward", "loss");
	in.first = 1;
	diagnosis_place(&in, &list);
	assert_string_equal(in.place.phase, "backward");
	assert_string_equal(in.place.function, "loss");
	assert_string_equal(in.place.file, "/job/train.py");
	assert_int_equal(in.place.line, 12);
	assert_int_equal(list.rows.data[1].a.features_len + list.rows.data[1].a.calls_len, 0);
	in.first = 0; /* no step, no line */
	diagnosis_place(&in, &list);
	assert_true(!in.place.phase && !in.place.function && !in.place.file && !in.place.line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(of_the_anomaly_that_says_most, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

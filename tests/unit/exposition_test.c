/* exposition_test.c - Prometheus's text format: heads, escapes, numbers, and where OpenMetrics
 * differs.
 *
 * links: serve session base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/exposition.h"

static void reads(struct exposition *x, const char *expected)
{
	buf_byte(&x->text, 0);
	assert_string_equal((const char *)x->text.data, expected);
	buf_free(&x->text);
}

static void heads_and_samples(void **state)
{
	(void)state;
	struct exposition x = {0};
	exposition_family(&x, "eacgm_calls_total", FAMILY_COUNTER, "Calls.");
	exposition_sample(&x, (struct label[]){{"pid", "7"}, {"rank", NULL}, {"name", "f"}}, 3, 12);
	exposition_family(&x, "eacgm_temperature_celsius", FAMILY_GAUGE, "How warm it is.");
	exposition_sample(&x, NULL, 0, 54.5);
	exposition_sample(&x, &(struct label){"gpu", NULL}, 1, NAN);
	exposition_end(&x);
	assert_int_equal(x.samples, 2);
	reads(&x, "# HELP eacgm_calls_total Calls.\n"
		  "# TYPE eacgm_calls_total counter\n"
		  "eacgm_calls_total{pid=\"7\",name=\"f\"} 12\n"
		  "# HELP eacgm_temperature_celsius How warm it is.\n"
		  "# TYPE eacgm_temperature_celsius gauge\n"
		  "eacgm_temperature_celsius 54.5\n");
}

static void open_metrics(void **state)
{
	(void)state;
	struct exposition x = {.open_metrics = true};
	exposition_family(&x, "eacgm_calls_total", FAMILY_COUNTER, "Calls.");
	exposition_sample(&x, NULL, 0, 1);
	exposition_family(&x, "total", FAMILY_GAUGE, "No counter.");
	exposition_sample(&x, NULL, 0, 2);
	exposition_end(&x);
	reads(&x, "# HELP eacgm_calls Calls.\n"
		  "# TYPE eacgm_calls counter\n"
		  "eacgm_calls_total 1\n"
		  "# HELP total No counter.\n"
		  "# TYPE total gauge\n"
		  "total 2\n"
		  "# EOF\n");
}

static void values_of_labels(void **state)
{
	(void)state;
	struct exposition x = {0};
	exposition_family(&x, "f", FAMILY_GAUGE, "F.");
	exposition_sample(&x, &(struct label){"n", "a\"b\\c"}, 1, 1);
	exposition_sample(&x, &(struct label){"n", "a\nb\033[31m"}, 1, 1);
	exposition_sample(&x, &(struct label){"n", "\xff\xc3\xa4"}, 1, 1);
	exposition_sample(&x, &(struct label){"n", ""}, 1, 1);
	reads(&x, "# HELP f F.\n# TYPE f gauge\n"
		  "f{n=\"a\\\"b\\\\c\"} 1\n"
		  "f{n=\"a?b?[31m\"} 1\n"
		  "f{n=\"\xef\xbf\xbd\xc3\xa4\"} 1\n"
		  "f{n=\"\"} 1\n");
}

static void numbers(void **state)
{
	(void)state;
	struct exposition x = {0};
	exposition_family(&x, "f", FAMILY_GAUGE, "F.");
	const double values[] = {0, -1, 9007199254740991.0, 1e300, 0.1, 1e-9, INFINITY, -INFINITY};
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		exposition_sample(&x, NULL, 0, values[i]);
	reads(&x, "# HELP f F.\n# TYPE f gauge\n"
		  "f 0\nf -1\nf 9007199254740991\nf 1e+300\nf 0.1\nf 1e-09\nf +Inf\nf -Inf\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_and_samples),
		cmocka_unit_test(open_metrics),
		cmocka_unit_test(values_of_labels),
		cmocka_unit_test(numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

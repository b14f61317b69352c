/* detector_marked_test.c - which rows are of an anomaly, one by one, once it is known.
 * links: rows incident detect analyze recording base */
#include <linux/types.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rare_rows.h"

/* ---- rows ---- */

static void expect_alarmed(uint64_t from, const char *marks)
{
	for (size_t i = 0; marks[i]; i++)
		if (is_alarmed_at(DETECT_TORCH, PID, from - BEGIN + i) != (marks[i] == '!'))
			fail_msg("row %zu of '%s'", i, marks);
}

/* Those of a file are told what they are of; those that are merely less rare stay in it. */
static void quiet_rows_within_an_anomaly_are_none_of_it(void **state)
{
	(void)state;
	start(true);
	rows(20, USUAL);
	rows(6, RARE);
	rows(1, USUAL);
	rows(1, RARE);
	rows(1, 0.025);
	rows(1, RARE);
	rows(1, 0.05);
	rows(1, RARE);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 32);
	expect_alarmed(BEGIN + 18, "..!!!!!!.!!!.!..");
	start(true); /* of rows that are hardly rare one of p = 0.15 is rare enough */
	rows(20, USUAL);
	rows(10, 0.03);
	rows(1, 0.15);
	rows(10, 0.03);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_alarmed(BEGIN + 26, "!!!!!!!!!");
}

/* Of a row within an anomaly that was not judged nobody knows that it is of it, however rare the
 * others are. */
static void unjudged_rows_within_an_anomaly_are_none_of_it(void **state)
{
	(void)state;
	static const double p[] = {RARE, 0.03};
	for (int whole = 0; whole < 2; whole++)
		for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
			options.alarms_per_hour = 20; /* of the sum of those that are hardly rare */
			start(whole);
			rows(20, USUAL);
			rows(10, p[i]);
			unjudged_row(RARE);
			rows(10, p[i]);
			unjudged_row(RARE);
			rows(10, USUAL);
			stop();
			assert_true(isnan(p_of(30)) && isnan(p_of(41)));
			assert_int_equal(found_len, 1);
			assert_int_equal(found[0].start_ns, (BEGIN + 20) * SECOND);
			assert_in_range(found[0].end_ns, (BEGIN + 39) * SECOND,
					(BEGIN + 41) * SECOND);
			assert_int_equal(found[0].windows,
					 (found[0].end_ns - found[0].start_ns) / SECOND - 1);
			if (whole)
				expect_alarmed(BEGIN + 26, "!!!!.!!!!!!!!");
			assert_false(is_alarmed_at(DETECT_TORCH, PID, 30));
			assert_false(is_alarmed_at(DETECT_TORCH, PID, 41));
		}
}

/* Nor is one that lacks calls. */
static void rows_that_lack_calls_are_not_marked(void **state)
{
	(void)state;
	start(true);
	rows(20, USUAL);
	rows(3, RARE);
	detector_lost(detector, second * SECOND, (second + 1) * SECOND, 1000);
	rows(4, RARE);
	rows(10, USUAL);
	stop();
	assert_true(isnan(p_of(23)));
	assert_int_equal(found_len, 1);
	assert_int_equal(found[0].start_ns, (BEGIN + 20) * SECOND);
	assert_int_equal(found[0].end_ns, (BEGIN + 27) * SECOND);
	expect_alarmed(BEGIN + 18, "..!!!.!!!...");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(quiet_rows_within_an_anomaly_are_none_of_it, begin),
		cmocka_unit_test_setup(unjudged_rows_within_an_anomaly_are_none_of_it, begin),
		cmocka_unit_test_setup(rows_that_lack_calls_are_not_marked, begin),
	};
	return cmocka_run_group_tests(tests, make_model, free_model);
}

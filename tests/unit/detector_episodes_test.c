/* detector_episodes_test.c - rows, each as rare as it is asked for: what makes an anomaly of them,
 * where it begins and where it ends.
 * links: rows detect analyze recording base */
#include <linux/types.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rare_rows.h"

static void quiet_rows_end_an_anomaly(void **state)
{
	(void)state;
	static const struct {
		size_t quiet;
		double p;
		size_t anomalies;
	} cases[] = {
		{4, USUAL, 2}, {4, 0.2, 2},  {2, USUAL, 2}, {1, USUAL, 1},
		{1, 1, 1},     {2, 0.06, 2}, {2, 2e-3, 1},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int whole = 0; whole < 2; whole++) {
			const uint64_t from = BEGIN + 20, again = from + 3 + cases[i].quiet;
			start(whole);
			rows(20, USUAL);
			rows(3, RARE);
			rows(cases[i].quiet, cases[i].p);
			rows(3, RARE);
			rows(20, USUAL);
			stop();
			assert_int_equal(found_len, cases[i].anomalies);
			if (found_len == 1) {
				expect_anomaly(0, from, again + 3);
				continue;
			}
			expect_anomaly(0, from, from + 3);
			expect_anomaly(1, again, again + 3);
		}
}

/* A row that alarms by itself is of an anomaly, also where quiet rows are on both its sides. */
static void no_alarmed_row_is_left_out(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++)
		for (size_t times = 1; times < 4; times++) {
			start(whole);
			rows(20, USUAL);
			rows(3, RARE);
			for (size_t i = 0; i < times; i++) {
				rows(1, USUAL);
				rows(1, RARE);
			}
			rows(10, USUAL);
			stop();
			assert_int_equal(found_len, 1);
			expect_anomaly(0, BEGIN + 20, BEGIN + 23 + 2 * times);
		}
}

/* Rows that are rather rare after a fault are not the fault, however many there are; of one that is
 * as slight as they are they are. */
static void what_lingers_is_none_of_it(void **state)
{
	(void)state;
	for (int slight = 0; slight < 2; slight++) {
		start(false);
		rows(20, USUAL);
		rows(10, slight ? 0.009 : RARE);
		rows(7, 0.03);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 1);
		expect_anomaly(0, BEGIN + 20, BEGIN + (slight ? 36 : 30));
	}
}

/* By how much an anomaly is rare is asked far beyond what a sum counts. */
static void what_lingers_of_very_rare_rows_is_none_of_it(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start(whole);
		rows(20, USUAL);
		rows(5, 1e-12);
		rows(4, 1e-3); /* a quarter of that */
		rows(10, USUAL);
		stop();
		assert_true(found_len >= 1);
		assert_int_equal(found[0].end_ns, (BEGIN + 25) * SECOND);
	}
}

/* What was rather rare belongs to an anomaly that follows at once, not to one that begins after
 * rows that would have ended it. Sums alone alarm here, and they have risen since then. */
static void an_onset_is_not_before_quiet_rows(void **state)
{
	(void)state;
	options.alarms_per_hour = 1e-6;
	for (size_t quiet = 0; quiet < 4; quiet += 2) {
		start(true);
		rows(20, USUAL);
		rows(14, 0.05);
		rows(quiet, USUAL);
		rows(4, RARE);
		rows(20, USUAL);
		stop();
		assert_int_equal(found_len, 1);
		expect_anomaly(0, BEGIN + (quiet ? 34 + quiet : 20), BEGIN + 38 + quiet);
	}
}

/* Rather rare rows of the work before are none of the anomaly of the work after. */
static void an_onset_is_not_before_other_work(void **state)
{
	(void)state;
	start(true);
	rows(20, USUAL);
	rows(2, 0.005);
	row_with(USUAL, 7, 1);
	rows(5, RARE);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	assert_int_equal(found[0].start_ns, (BEGIN + 23) * SECOND);
}

/* What was slow is over with the work that was; what comes back after it is another anomaly. */
static void an_anomaly_ends_with_its_work(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start(whole);
		rows(20, USUAL);
		rows(5, RARE);
		row_with(RARE, 7, 1);
		row_with(RARE, 7, 1);
		rows(5, RARE);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 2);
		expect_anomaly(0, BEGIN + 20, BEGIN + 25);
		expect_anomaly(1, BEGIN + 27, BEGIN + 32);
	}
}

/* ---- rows that are not judged ---- */

/* Two of them an anomaly goes over. After three it is another one, and the fourth ends the first:
 * of what comes nothing is known yet. */
static void unjudged_rows_end_an_anomaly(void **state)
{
	(void)state;
	for (size_t n = 1; n <= 4; n++) {
		start(false);
		rows(20, USUAL);
		rows(3, RARE);
		for (size_t i = 0; i < n; i++)
			unjudged_row(RARE);
		assert_int_equal(found_len, n == 4);
		rows(3, RARE);
		rows(10, USUAL);
		stop();
		if (n > 2) {
			assert_int_equal(found_len, 2);
			expect_anomaly(0, BEGIN + 20, BEGIN + 23);
			expect_anomaly(1, BEGIN + 23 + n, BEGIN + 26 + n);
			continue;
		}
		assert_int_equal(found_len, 1);
		assert_int_equal(found[0].start_ns, (BEGIN + 20) * SECOND);
		assert_int_equal(found[0].end_ns, (BEGIN + 26 + n) * SECOND);
		assert_int_equal(found[0].windows, 6);
	}
}

/* What was rather rare belongs to an anomaly that follows at once. */
static void an_onset_is_not_before_unjudged_rows(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++)
		for (size_t unjudged = 0; unjudged < 2; unjudged++) {
			start(whole);
			rows(20, USUAL);
			rows(2, 0.005);
			for (size_t i = 0; i < unjudged; i++)
				unjudged_row(RARE);
			rows(5, RARE);
			rows(10, USUAL);
			stop();
			assert_int_equal(found_len, 1);
			expect_anomaly(0, BEGIN + (unjudged ? 23 : 20), BEGIN + 27 + unjudged);
		}
}

/* Of rows that alarm together alone. */
static void a_sum_does_not_go_over_unjudged_rows(void **state)
{
	(void)state;
	options.alarms_per_hour = 1e-6;
	for (int whole = 0; whole < 2; whole++)
		for (size_t unjudged = 0; unjudged < 2; unjudged++) {
			start(whole);
			rows(20, USUAL);
			rows(3, RARE);
			for (size_t i = 0; i < unjudged; i++)
				unjudged_row(RARE);
			rows(3, RARE);
			rows(10, USUAL);
			stop();
			assert_int_equal(found_len, !unjudged);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(quiet_rows_end_an_anomaly, begin),
		cmocka_unit_test_setup(no_alarmed_row_is_left_out, begin),
		cmocka_unit_test_setup(what_lingers_is_none_of_it, begin),
		cmocka_unit_test_setup(what_lingers_of_very_rare_rows_is_none_of_it, begin),
		cmocka_unit_test_setup(an_onset_is_not_before_quiet_rows, begin),
		cmocka_unit_test_setup(an_onset_is_not_before_other_work, begin),
		cmocka_unit_test_setup(an_anomaly_ends_with_its_work, begin),
		cmocka_unit_test_setup(unjudged_rows_end_an_anomaly, begin),
		cmocka_unit_test_setup(an_onset_is_not_before_unjudged_rows, begin),
		cmocka_unit_test_setup(a_sum_does_not_go_over_unjudged_rows, begin),
	};
	return cmocka_run_group_tests(tests, make_model, free_model);
}

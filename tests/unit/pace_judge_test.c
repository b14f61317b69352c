/* pace_judge_test.c - what a window lost where its CPUs are left out of its pace; what its counters
 * add to the sum of what a process lost, and when they add nothing. How often sums alarm is
 * pace_alarms_test.c's.
 * links: detect analyze base */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/pace_judge.h"

#define SECOND	1000000000ULL
#define BEGIN	1000
#define SIGMA	0.1
#define HIGHEST 100
#define NEAR	1e-9

static struct pace_judge judge;
static uint64_t second;
static double least; /* L of a tenth */

static int begin(void **state)
{
	(void)state;
	judge = (struct pace_judge){0};
	second = BEGIN;
	least = -log1p(-0.1);
	return 0;
}

static double window(double loss)
{
	return pace_judge_add(&judge, ++second * SECOND, SECOND, loss, SIGMA, least, HIGHEST);
}

/* Of a window that lost that share: the sum with its counters. */
static double with_counters(double lost, double p, double *ret_more)
{
	window(-log1p(-lost));
	return pace_judge_counters(&judge, second * SECOND, p, true, HIGHEST, ret_more);
}

/* What they add in a window that is slow, of a launch in which nothing was seen. */
static double added(double p)
{
	double more;
	begin(NULL);
	double before = window(0.3);
	double sum = pace_judge_counters(&judge, second * SECOND, p, true, HIGHEST, &more);
	assert_true(before > 0 && fabs(sum - before - more) < NEAR && sum == judge.sum);
	return more;
}

static void is_near(double value, double wanted)
{
	if (!(fabs(value - wanted) < NEAR))
		fail_msg("%.12g, and not %.12g", value, wanted);
}

/* ---- what a window lost ---- */

/* A launch of a minute whose work went at that pace, on CPUs that were so much of it (of ln). */
static void launch(double pace, double cpus)
{
	begin(NULL);
	for (int i = 0; i < 60; i++) {
		double off = i % 2 ? 0.01 : -0.01;
		pace_judge_see(&judge, pace * exp(cpus + off), cpus + off, false);
	}
}

/* Of a window of that pace as it was. */
static double lost(double pace, double cpus)
{
	return pace_judge_loss(&judge, pace * exp(cpus), cpus);
}

static void about(double value, double wanted)
{
	if (!(fabs(value - wanted) < 0.04)) /* c is shrunk */
		fail_msg("%g, and not %g", value, wanted);
}

static void slow_and_not_for_its_cpus(void **state)
{
	(void)state;
	launch(1, 0);
	about(lost(1, 0), 0);
	about(lost(0.8, 0), -log(0.8));
	about(lost(0.8, -log(0.8)), 0);		       /* for its CPUs alone */
	about(lost(0.64, -log(0.8)), -log(0.8));       /* and by itself */
	about(lost(1, log(0.8)), 0);		       /* as usual on quicker CPUs */
	about(lost(0.8, log(0.8)), -log(0.8));	       /* slow on quicker CPUs: the lesser one */
	about(lost(1 / 0.8, log(0.8)), -log(1 / 0.8)); /* quicker, be it by its CPUs */
	pace_judge_free(&judge);
}

static void a_launch_on_quicker_cpus(void **state)
{
	(void)state;
	launch(1.2, -log(1.2));
	about(lost(1.2, -log(1.2)), 0);
	/* then these are as when it was learned: it is slower than it was, for its CPUs */
	about(lost(1, 0), 0);
	about(lost(0.8, 0), -log(0.8));
	/* a fault is as slow on quick CPUs as on others */
	for (double quicker = 1.1; quicker < 2; quicker *= 1.1) {
		pace_judge_free(&judge);
		launch(quicker, -log(quicker));
		about(lost(quicker * 0.8, -log(quicker)), -log(0.8));
	}
	pace_judge_free(&judge);
}

/* Of the first windows nobody knows what the launch has. */
static void cpus_of_few_windows(void **state)
{
	(void)state;
	launch(1, 0);
	pace_judge_free(&judge);
	begin(NULL);
	for (int i = 0; i < 60; i++)
		pace_judge_see(&judge, 1, i < 53 ? 0 : -0.3, false);
	about(lost(0.8 * exp(0.3), -0.3), -log(0.8));
	pace_judge_see(&judge, 1, -0.3, false);
	about(lost(0.8 * exp(0.3), -0.3), -log(0.8));
	pace_judge_free(&judge);
}

static void where_cpus_say_nothing(void **state)
{
	(void)state;
	begin(NULL);
	for (int i = 0; i < 60; i++)
		pace_judge_see(&judge, 1, 0, false);
	assert_int_equal(judge.whole.len, 0);
	about(lost(0.8, 0), -log(0.8));
	pace_judge_free(&judge);
}

/* ---- counters ---- */

/* Half of what -ln p is beyond 4, and 8 at most. */
static void what_counters_add(void **state)
{
	(void)state;
	is_near(added(1), 0);
	is_near(added(0.5), 0);
	is_near(added(exp(-4)), 0);
	is_near(added(exp(-5)), 0.5);
	is_near(added(exp(-10)), 3);
	is_near(added(exp(-20)), 8);
	is_near(added(exp(-100)), 8);
}

static void the_sum_stays_below_the_highest(void **state)
{
	double more;
	(void)state;
	window(0.3);
	is_near(pace_judge_counters(&judge, second * SECOND, exp(-20), false, 5, &more), 5);
	is_near(judge.sum, 5);
	is_near(more, 8);
	/* who asks for the sum alone */
	window(0.3);
	is_near(pace_judge_counters(&judge, second * SECOND, exp(-6), true, HIGHEST, NULL), 8);
}

/* Counters that are always as odd say nothing: -ln p is over what it is in this launch. */
static void what_is_usual_in_the_launch(void **state)
{
	double more, rare = 12;
	(void)state;
	for (int i = 0; i < 5; i++)
		with_counters(0, exp(-rare), NULL);
	/* each counts for 8 at most */
	double mean = (PACE_PRIOR + 5 * 8.0) / (PACE_PRIOR + 5);
	with_counters(0.3, exp(-rare), &more);
	is_near(more, (rare / mean - 4) / 2);
	for (int i = 0; i < 50; i++)
		with_counters(0, exp(-rare), NULL);
	with_counters(0.3, exp(-rare), &more);
	is_near(more, 0);
}

/* The model fits better than that: nothing is multiplied. */
static void a_mean_below_one_is_one(void **state)
{
	double more;
	(void)state;
	for (int i = 0; i < 200; i++)
		with_counters(0, 1, NULL);
	assert_true(judge.rare_len == 200 && judge.rare == 0);
	with_counters(0.3, exp(-5), &more);
	is_near(more, 0.5);
}

/* Ten minutes of a window each: what was before is forgotten. */
static void the_mean_is_of_the_last_windows(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * PACE_KEPT; i++)
		with_counters(0, exp(-6), NULL);
	assert_int_equal(judge.rare_len, PACE_KEPT);
	is_near(judge.rare / PACE_KEPT, 6);
	for (int i = 0; i < 8 * PACE_KEPT; i++)
		with_counters(0, exp(-2), NULL);
	assert_true(fabs(judge.rare / PACE_KEPT - 2) < 0.01);
}

/* What a job does while it is told to be slow is not what its launch has. */
static void what_is_told_is_not_usual(void **state)
{
	double more;
	(void)state;
	for (int i = 0; i < 50; i++) {
		window(0.3);
		pace_judge_counters(&judge, second * SECOND, exp(-12), false, HIGHEST, &more);
		is_near(more, 4);
	}
	assert_true(judge.rare_len == 0 && judge.rare == 0);
}

/* A window that lost under a tenth, or was not judged: its counters are evidence of nothing. */
static void where_nothing_is_lost_they_add_nothing(void **state)
{
	double more = NAN;
	(void)state;
	window(0.3);
	double before = window(-log1p(-0.0999));
	assert_true(before > 0);
	is_near(pace_judge_counters(&judge, second * SECOND, exp(-20), false, HIGHEST, &more), 0);
	is_near(more, 0);
	is_near(judge.sum, before);
	before = window(-log1p(-0.1001));
	is_near(pace_judge_counters(&judge, second * SECOND, exp(-20), false, HIGHEST, &more),
		before + 8);
	is_near(more, 8);
	/* of the window after it, and the one before */
	before = judge.sum;
	for (int i = -1; i <= 1; i += 2) {
		uint64_t start_ns = (second + (uint64_t)i) * SECOND;
		is_near(pace_judge_counters(&judge, start_ns, exp(-20), false, HIGHEST, &more), 0);
		is_near(more, 0);
	}
	is_near(judge.sum, before);
}

/* What they added goes as the rest of the sum does: by K in each window that is as usual, after
 * PACE_QUIET of these at once, and where it pauses or was told. */
static void what_they_added_ends(void **state)
{
	(void)state;
	double sum = with_counters(0.3, exp(-20), NULL);
	assert_true(sum > 8 + PACE_SLACK);
	for (int i = 1; i < PACE_QUIET; i++)
		is_near(window(0), sum - i * PACE_SLACK);
	is_near(window(0), 0);

	begin(NULL);
	sum = with_counters(0.3, exp(-20), NULL);
	is_near(window(-0.2), sum - 2 - PACE_SLACK); /* quicker than usual */

	begin(NULL);
	with_counters(0.3, exp(-20), NULL);
	second += PACE_PAUSE + 1;
	is_near(window(0.3), 3 - PACE_SLACK);

	begin(NULL);
	with_counters(0.3, exp(-20), NULL);
	pace_judge_over(&judge);
	is_near(window(0.3), 3 - PACE_SLACK);
}

/* A window whose loss alone adds nothing begins it where its counters do. */
static void they_may_begin_it(void **state)
{
	(void)state;
	least = 0.05;
	is_near(window(0.06), 0);
	is_near(pace_judge_counters(&judge, second * SECOND, exp(-10), true, HIGHEST, NULL), 3);
	uint64_t begun = second;
	window(0.2);
	assert_int_equal(judge.since_ns, begun * SECOND);
}

/* p = 0 is as rare as can be. What is no probability, or not known, says nothing, neither of the
 * window nor of what is usual. */
static void odd_probabilities(void **state)
{
	static const double none[] = {NAN, -NAN, -1, -INFINITY, 1.5, DBL_MAX, INFINITY};
	(void)state;
	is_near(added(0), 8);
	is_near(judge.rare, 8);
	is_near(added(DBL_TRUE_MIN), 8);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		is_near(added(none[i]), 0);
		assert_true(judge.rare_len == 0 && judge.rare == 0);
		double more;
		with_counters(0.3, exp(-10), &more);
		is_near(more, 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_and_not_for_its_cpus),
		cmocka_unit_test(a_launch_on_quicker_cpus),
		cmocka_unit_test(cpus_of_few_windows),
		cmocka_unit_test(where_cpus_say_nothing),
		cmocka_unit_test_setup(what_counters_add, begin),
		cmocka_unit_test_setup(the_sum_stays_below_the_highest, begin),
		cmocka_unit_test_setup(what_is_usual_in_the_launch, begin),
		cmocka_unit_test_setup(a_mean_below_one_is_one, begin),
		cmocka_unit_test_setup(the_mean_is_of_the_last_windows, begin),
		cmocka_unit_test_setup(what_is_told_is_not_usual, begin),
		cmocka_unit_test_setup(where_nothing_is_lost_they_add_nothing, begin),
		cmocka_unit_test_setup(what_they_added_ends, begin),
		cmocka_unit_test_setup(they_may_begin_it, begin),
		cmocka_unit_test_setup(odd_probabilities, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

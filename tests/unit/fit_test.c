/* fit_test.c - when a model is said not to fit a process, by its windows alone.
 * links: detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/fit.h"

static struct fit fit;
static uint64_t second;

static void begin(void)
{
	fit = (struct fit){0};
	second = 0;
}

static void add(int windows, double pace, double unknown, double resized)
{
	for (int i = 0; i < windows; i++)
		fit_add(&fit, &(struct fit_window){second++, pace, unknown, resized, false});
}

static enum fit_verdict after(int windows, double pace, double unknown, double resized)
{
	begin();
	add(windows - 1, pace, unknown, resized);
	assert_int_equal(fit.verdict, FIT_UNKNOWN);
	add(1, pace, unknown, resized);
	return fit.verdict;
}

static void each_verdict_takes_as_many_windows(void **state)
{
	(void)state;
	struct fit_evidence e;
	assert_int_equal(after(FIT_WINDOWS, 1.15, 0, 0), FIT_FITS);
	assert_int_equal(after(FIT_WINDOWS, 0.85, 0, 0.1), FIT_FITS);
	assert_int_equal(after(FIT_WINDOWS, 4.5, 0, 0), FIT_QUICKER);
	fit_evidence(&fit, &e);
	assert_true(e.pace == 4.5 && e.since_ns == 0);
	assert_int_equal(after(FIT_WINDOWS, 0.5, 0, 0), FIT_SLOWER);
	assert_int_equal(after(FIT_WINDOWS, 0, 0.8, 0), FIT_OTHER_CALLS);
	assert_int_equal(after(FIT_WINDOWS, 1, 0.1, 0.6), FIT_OTHER_SIZES);
	fit_evidence(&fit, &e);
	assert_true(e.share > 0.69 && e.share < 0.71);
}

static void add_mixes(int windows)
{
	for (int i = 0; i < windows; i++)
		fit_add(&fit, &(struct fit_window){second++, 1, 0, 0, true});
}

/* Known calls in other shares: another job, but not where it fitted before. */
static void another_mix_is_another_job(void **state)
{
	(void)state;
	begin();
	add_mixes(FIT_WINDOWS);
	assert_int_equal(fit.verdict, FIT_OTHER_CALLS);
	begin();
	add(FIT_WINDOWS, 1, 0, 0);
	add_mixes(2 * FIT_LATER);
	assert_int_equal(fit.verdict, FIT_FITS);
}

static void windows_that_say_nothing_do_not_count(void **state)
{
	(void)state;
	begin();
	add(1000, 0, 0.3, 0);
	assert_int_equal(fit.verdict, FIT_UNKNOWN);
	assert_int_equal(fit_leaning(&fit), FIT_FITS);
}

/* A beginning of other work is waited for. */
static void what_is_mixed_is_decided_later(void **state)
{
	(void)state;
	begin();
	add(8, 0, 1, 0);
	add(7, 3, 0, 0);
	assert_int_equal(fit.verdict, FIT_UNKNOWN);
	add(8, 3, 0, 0);
	assert_int_equal(fit.verdict, FIT_QUICKER);
	begin();
	add(8, 0, 1, 0);
	add(8, 0.4, 0, 0);
	assert_int_equal(fit.verdict, FIT_FITS);
}

static void what_fitted_is_slow_by_a_fault(void **state)
{
	(void)state;
	begin();
	add(FIT_WINDOWS, 1, 0, 0);
	add(10 * FIT_LATER, 0.3, 0, 0);
	assert_int_equal(fit.verdict, FIT_FITS);
	add(FIT_WINDOWS, 2, 0, 0); /* for a while only */
	add(FIT_LATER, 1, 0, 0);
	assert_int_equal(fit.verdict, FIT_FITS);
	add(FIT_LATER, 2, 0, 0);
	assert_int_equal(fit.verdict, FIT_QUICKER);
	add(FIT_LATER, 1, 0, 0);
	assert_int_equal(fit.verdict, FIT_QUICKER);
}

static void it_leans_before_it_is_decided(void **state)
{
	(void)state;
	begin();
	assert_int_equal(fit_leaning(&fit), FIT_FITS);
	add(1, 3, 0, 0);
	assert_int_equal(fit_leaning(&fit), FIT_QUICKER);
	add(2, 1, 0, 0);
	assert_int_equal(fit_leaning(&fit), FIT_FITS);
	fit_accept(&fit);
	add(FIT_WINDOWS, 3, 0, 0);
	assert_int_equal(fit_leaning(&fit), FIT_FITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_verdict_takes_as_many_windows),
		cmocka_unit_test(another_mix_is_another_job),
		cmocka_unit_test(windows_that_say_nothing_do_not_count),
		cmocka_unit_test(what_is_mixed_is_decided_later),
		cmocka_unit_test(what_fitted_is_slow_by_a_fault),
		cmocka_unit_test(it_leans_before_it_is_decided),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

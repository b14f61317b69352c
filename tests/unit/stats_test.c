/* stats_test.c - medians and quantiles of few values, where it matters which are meant.
 *
 * links: base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/stats.h"

static void medians(void **state)
{
	(void)state;
	double odd[] = {3, -1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};
	assert_true(stats_median(odd, 3) == 2 && odd[0] == -1);
	assert_true(stats_median(even, 4) == 2.5);
	assert_true(stats_median(one, 1) == 7);
	stats_sort(one, 0);
}

static void quantiles(void **state)
{
	(void)state;
	const double sorted[] = {1, 2, 3, 4, 5};
	assert_true(stats_quantile_sorted(sorted, 5, 0) == 1);
	assert_true(stats_quantile_sorted(sorted, 5, 0.5) == 3);
	assert_true(stats_quantile_sorted(sorted, 5, 0.99) == 4);
	assert_true(stats_quantile_sorted(sorted, 5, 1) == 5);
	assert_true(stats_quantile_sorted(sorted, 4, 0.5) == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(medians),
		cmocka_unit_test(quantiles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* stats_test.c - medians and quantiles of few values, where it matters which are meant.
 *
 * links: base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
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

/* Up to half of the values on one side do not move it. */
static void shorth(void **state)
{
	(void)state;
	enum { N = 2000 };
	double values[N], centre, sigma;
	uint64_t seed = 1;
	for (size_t others = 0; others <= N / 2; others += N / 4) {
		for (size_t i = 0; i < N; i++)
			values[i] = i < others ? -8 + 3 * random_normal(&seed)
					       : 1 + 0.5 * random_normal(&seed);
		stats_sort(values, N);
		stats_shorth_sorted(values, N, &centre, &sigma);
		assert_true(centre > 0.7 && centre < 1.3 && sigma > 0.4 && sigma < 1.4);
	}
	stats_shorth_sorted(values, 1, &centre, &sigma);
	assert_true(centre == values[0] && sigma == 0);
	stats_shorth_sorted((const double[]){3, 3, 3, 9}, 4, &centre, &sigma);
	assert_true(centre == 3 && sigma == 0);
}

static void students_tail(void **state)
{
	(void)state;
	assert_true(fabs(stats_student_above(0, 6) - 0.5) < 1e-12);
	assert_true(fabs(stats_student_above(2.776445, 4) - 0.025) < 1e-7);
	assert_true(fabs(stats_student_above(-1.812461, 10) - 0.95) < 1e-7);
	assert_true(fabs(stats_student_above(3.551808, 20) - 0.001) < 1e-8);
	assert_true(stats_student_above(1e6, 20) >= 1e-15 && stats_student_above(1e6, 20) < 1e-14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(medians),
		cmocka_unit_test(quantiles),
		cmocka_unit_test(shorth),
		cmocka_unit_test(students_tail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

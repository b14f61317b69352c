/* hist_test.c - the log-linear histogram against sorted values.
 * links: base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hist.h"

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void assert_close(uint64_t got, uint64_t want)
{
	double error = (double)got - (double)want;
	if (error < 0)
		error = -error;
	if (error > (double)want * 0.016)
		fail_msg("%llu is not within 1.6 %% of %llu", (unsigned long long)got,
			 (unsigned long long)want);
}

/* Values of every magnitude, so that each octave is hit. */
static void quantiles_are_close(void **state)
{
	(void)state;
	enum { N = 20000 };
	uint64_t *values = malloc(N * sizeof(*values)), seed = 42;
	struct hist h = {0};
	for (int i = 0; i < N; i++) {
		values[i] = next(&seed) >> (next(&seed) % 60);
		hist_add(&h, values[i], 1);
	}
	qsort(values, N, sizeof(*values), compare);
	const double qs[] = {0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999};
	for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++)
		assert_close(hist_quantile(&h, qs[i]), values[(size_t)(qs[i] * N + 0.999999) - 1]);
	assert_int_equal(hist_quantile(&h, 0), values[0]);
	assert_int_equal(hist_quantile(&h, 1), values[N - 1]);
	assert_int_equal(h.min, values[0]);
	assert_int_equal(h.max, values[N - 1]);
	hist_free(&h);
	free(values);
}

/* The middle of the cell of any single value; both ends of every cell of every octave. */
static void every_value_is_close(void **state)
{
	(void)state;
	for (unsigned shift = 0; shift < 64; shift++) {
		for (int delta = -1; delta <= 1; delta++) {
			uint64_t v = (1ULL << shift) + (uint64_t)(int64_t)delta;
			struct hist h = {0};
			/* Bounds of their own would hide the cell: widen them first. */
			hist_add(&h, 0, 1);
			hist_add(&h, v, 98);
			hist_add(&h, UINT64_MAX, 1);
			assert_close(hist_quantile(&h, 0.5), v);
			if (v < 32)
				assert_int_equal(hist_quantile(&h, 0.5), v);
			hist_free(&h);
		}
	}
}

static void empty_and_merged(void **state)
{
	(void)state;
	struct hist a = {0}, b = {0}, all = {0};
	assert_int_equal(hist_quantile(&a, 0.5), 0);
	hist_merge(&a, &b);
	assert_int_equal(a.count, 0);
	uint64_t seed = 7;
	for (int i = 0; i < 3000; i++) {
		uint64_t v = next(&seed) >> (i % 50);
		hist_add(i % 3 ? &a : &b, v, 2);
		hist_add(&all, v, 2);
	}
	hist_merge(&a, &b);
	assert_int_equal(a.count, all.count);
	assert_int_equal(a.min, all.min);
	assert_int_equal(a.max, all.max);
	for (double q = 0.0; q <= 1.0; q += 0.01)
		assert_int_equal(hist_quantile(&a, q), hist_quantile(&all, q));
	hist_free(&a);
	hist_free(&b);
	hist_free(&all);
}

static void ranges_keep_their_count(void **state)
{
	(void)state;
	const uint64_t counts[] = {1, 7, 8, 9, 1000003};
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct hist h = {0};
		hist_add_range(&h, 1000, 1250, counts[i]);
		assert_int_equal(h.count, counts[i]);
		assert_true(h.min >= 1000 && h.max < 1250);
		hist_free(&h);
	}
	struct hist h = {0};
	hist_add_range(&h, 1000, 2000, 800);
	assert_close(hist_quantile(&h, 0.5), 1437); /* the middle of the fourth eighth */
	hist_free(&h);
	hist_add_range(&h, 500, 500, 3); /* an empty range is its lower end */
	assert_int_equal(h.min, 500);
	assert_int_equal(h.max, 500);
	assert_int_equal(h.count, 3);
	hist_free(&h);
}

/* The same cells, whether they are kept as few, as rows, or come together from both. */
static void few_cells_are_as_rows(void **state)
{
	(void)state;
	enum { CELLS = 3 * HIST_FEW };
	uint64_t seed = 7;
	for (unsigned cells = 1; cells <= CELLS; cells++) {
		struct hist one = {0}, halves[2] = {{0}, {0}};
		for (unsigned i = 0; i < 20 * cells; i++) {
			uint64_t value = 1000ULL << (next(&seed) % cells) % 50;
			hist_add(&one, value, 1 + i % 3);
			hist_add(&halves[value < 1000ULL << cells / 2 % 50], value, 1 + i % 3);
		}
		assert_int_equal(!one.rows, one.few_len > 0);
		assert_true(one.few_len <= HIST_FEW);
		hist_merge(&halves[0], &halves[1]);
		assert_int_equal(halves[0].count, one.count);
		for (int q = 0; q <= 100; q++)
			assert_int_equal(hist_quantile(&halves[0], q / 100.0),
					 hist_quantile(&one, q / 100.0));
		hist_free(&one);
		hist_free(&halves[0]);
		hist_free(&halves[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_close),	 cmocka_unit_test(every_value_is_close),
		cmocka_unit_test(empty_and_merged),	 cmocka_unit_test(ranges_keep_their_count),
		cmocka_unit_test(few_cells_are_as_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

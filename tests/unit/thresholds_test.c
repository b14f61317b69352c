/* thresholds_test.c - what is slow: the bucket in which a quantile of all calls lies, learned from
 * histograms; and in which bucket a duration is.
 *
 * links: base probe */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "probe/thresholds.h"
#include "wire/hist.h"

struct told {
	uint32_t probe;
	uint64_t ns;
	size_t n;
};

static void on_threshold(void *ctx, uint32_t probe, uint64_t ns)
{
	struct told *told = ctx;
	*told = (struct told){probe, ns, told->n + 1};
}

static void add(struct thresholds *t, uint32_t tgid, uint32_t probe, uint64_t ns, uint32_t calls)
{
	const struct hist_key key = {.tgid = tgid, .probe = probe};
	struct hist_value v = {.count = calls};
	v.buckets[hist_bucket(ns)] = calls;
	thresholds_add(t, &key, &v);
}

/* Where a bucket begins and ends, by wire/event.h: four an octave. */
static void test_buckets(void **state)
{
	(void)state;
	assert_int_equal(hist_bucket(0), 0);
	assert_int_equal(hist_bucket(63), 0);
	assert_int_equal(hist_bucket(UINT64_MAX), HIST_BUCKETS - 1);
	for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
		uint64_t begin = (uint64_t)(4 + i % 4) << (HIST_MIN_SHIFT + i / 4 - 2);
		uint64_t end = (uint64_t)(5 + i % 4) << (HIST_MIN_SHIFT + i / 4 - 2);
		assert_int_equal(hist_bucket(begin), i);
		assert_int_equal(hist_bucket(end - 1), i);
	}
}

static void test_learns(void **state)
{
	struct thresholds *t = thresholds_new();
	struct told told = {0};
	(void)state;
	/* too few to say */
	add(t, 1, 5, 1000, 99);
	thresholds_learn(t, 0.99, on_threshold, &told);
	assert_int_equal(told.n, 0);
	/* of two processes together: one call in a hundred is slow */
	add(t, 1, 5, 1000, 990);
	add(t, 2, 5, 100000, 10);
	thresholds_learn(t, 0.99, on_threshold, &told);
	assert_int_equal(told.n, 1);
	assert_int_equal(told.probe, 5);
	assert_int_equal(told.ns, 1024);
	/* the same is not told again, */
	add(t, 1, 5, 1000, 1990);
	thresholds_learn(t, 0.99, on_threshold, &told);
	assert_int_equal(told.n, 1);
	/* nor where it is not known any more; another one is */
	thresholds_learn(t, 0.99, on_threshold, &told);
	assert_int_equal(told.n, 1);
	add(t, 1, 5, 1000, 900);
	add(t, 2, 5, 100000, 100);
	thresholds_learn(t, 0.99, on_threshold, &told);
	assert_int_equal(told.n, 2);
	assert_int_equal(told.ns, 114688);
	thresholds_free(t);
}

static void test_strange(void **state)
{
	struct thresholds *t = thresholds_new();
	struct told told = {0};
	const struct hist_key key = {.tgid = 1, .probe = MAX_PROBES}, last = {1, MAX_PROBES - 1, 0};
	const struct hist_value v = {.count = UINT64_MAX}; /* and no bucket has any */
	(void)state;
	thresholds_add(t, &key, &v);
	thresholds_add(t, &last, &v);
	thresholds_learn(t, 0.99, on_threshold, &told);
	assert_int_equal(told.n, 1);
	assert_int_equal(told.probe, MAX_PROBES - 1);
	assert_int_equal(hist_bucket(told.ns - 1), HIST_BUCKETS - 1);
	thresholds_free(t);
	thresholds_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_learns),
		cmocka_unit_test(test_strange),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* cusum_test.c - evidence that adds up: how rarely normal windows alarm, how soon shifted ones do,
 * and where the shift began.
 * links: detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "detect/cusum.h"

/* Windows until the sum is above the height, from 0. */
static uint64_t run(uint64_t *seed, double height)
{
	struct cusum c = {0};
	for (uint64_t n = 1;; n++)
		if (cusum_add(&c, n, random_uniform(seed), height))
			return n;
}

static void normal_windows_alarm_as_rarely_as_asked(void **state)
{
	(void)state;
	const double asked[] = {50, 500, 5000, 50000};
	uint64_t seed = 3;
	double last = 0;
	for (size_t k = 0; k < 4; k++) {
		double height = cusum_height(asked[k]), sum = 0;
		for (int i = 0; i < 400; i++)
			sum += (double)run(&seed, height);
		/* 400 runs of an exponential length: 5 % of deviation, three of them, and the
		 * chain's own error */
		assert_true(fabs(sum / 400 / asked[k] - 1) < 0.2);
		assert_true(height > last);
		last = height;
	}
	assert_true(cusum_height(1) == cusum_height(10));
	assert_true(cusum_height(1e12) == cusum_height(1e9));
}

/* Windows of p = 0.02: none of them alarms at one in 3,600. */
static void a_small_shift_that_lasts(void **state)
{
	(void)state;
	double height = cusum_height(7200);
	struct cusum c = {0};
	uint64_t n = 1, seed = 9, found = 0;
	for (; n < 100; n++)
		assert_false(cusum_add(&c, n, 0.3 + 0.7 * random_uniform(&seed), height));
	assert_true(c.sum == 0);
	for (; n < 130 && !found; n++)
		if (cusum_add(&c, n, 0.02, height))
			found = n;
	assert_in_range(found, 103, 110);
	assert_int_equal(c.since, 100);
	assert_int_equal(c.last, found);
	/* A window of which nothing is known changes nothing; a normal one is not part of it. */
	struct cusum before = c;
	assert_false(cusum_add(&c, 200, NAN, height));
	assert_memory_equal(&c, &before, sizeof(c));
	assert_false(cusum_add(&c, 201, 0.9, height));
	assert_int_equal(c.last, found);
	/* However long the shift was, it is over soon. */
	for (n = 300; n < 5000; n++)
		cusum_add(&c, n, 1e-30, height);
	assert_true(c.sum <= height + CUSUM_SLACK);
	for (int i = 0; c.sum > 0; i++, n++) {
		cusum_add(&c, n, 0.9, height);
		assert_true(i < 12);
	}
}

/* One window alone is no lasting shift, whatever its p. */
static void one_window_does_not_alarm(void **state)
{
	(void)state;
	struct cusum c = {0};
	double height = cusum_height(7200);
	assert_false(cusum_add(&c, 1, 1e-300, height));
	assert_false(cusum_add(&c, 2, 0, height) && c.since != 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(normal_windows_alarm_as_rarely_as_asked),
		cmocka_unit_test(a_small_shift_that_lasts),
		cmocka_unit_test(one_window_does_not_alarm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

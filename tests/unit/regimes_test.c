/* regimes_test.c - which work is the same: mixes of functions and sizes, new and known ones, that
 * what is slow is no other work, and how fast known work goes on.
 * links: detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map64.h"
#include "base/random.h"
#include "detect/regimes.h"

static struct regimes *regimes;

static int begin(void **state)
{
	(void)state;
	regimes = regimes_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	regimes_free(regimes);
	return 0;
}

/* A window of a job that calls 40 functions, each with a size, in a share of its own. */
static struct regime_mix window_of(uint64_t job, uint64_t size, int events, uint64_t *seed)
{
	struct regime_mix m = {0};
	for (int i = 0; i < events; i++) {
		uint64_t f = (uint64_t)(40 * random_uniform(seed) * random_uniform(seed));
		uint32_t function = (uint32_t)hash_u64(f + job * 1000);
		regime_mix_add(&m, function, (uint32_t)hash_u64(function ^ size << 32) | 1);
	}
	return m;
}

static uint32_t regime_of(struct regime_mix *running, const struct regime_mix *window, bool may_add)
{
	float shares[REGIME_PLACES];
	regime_mix_window(running, window);
	return regime_mix_shares(running, shares) ? regimes_of(regimes, shares, may_add) : 0;
}

static uint32_t fresh_regime(uint64_t job, uint64_t size, int events, uint64_t *seed, bool may_add)
{
	struct regime_mix running = {0}, window = window_of(job, size, events, seed);
	return regime_of(&running, &window, may_add);
}

/* Windows of the same work are one regime, from 500 events to 100,000: a job that is slowed down
 * has fewer. */
static void slow_work_is_the_same(void **state)
{
	(void)state;
	uint64_t seed = 1;
	assert_int_equal(fresh_regime(1, 1, 20000, &seed, true), 1);
	for (int i = 0; i < 300; i++)
		assert_int_equal(fresh_regime(1, 1, i % 3 ? 600 : 50000, &seed, true), 1);
	assert_int_equal(regimes_count(regimes), 1);
}

static void other_work_is_new(void **state)
{
	(void)state;
	uint64_t seed = 1;
	assert_int_equal(fresh_regime(1, 1, 5000, &seed, true), 1);
	assert_int_equal(fresh_regime(2, 1, 5000, &seed, false), 0);
	assert_int_equal(fresh_regime(2, 1, 5000, &seed, true), 2);
	/* The same functions with another size: another batch. */
	assert_int_equal(fresh_regime(1, 2, 5000, &seed, true), 3);
	assert_int_equal(fresh_regime(1, 1, 5000, &seed, true), 1);
	assert_int_equal(fresh_regime(2, 1, 5000, &seed, true), 2);
}

/* However few of the calls tell their sizes. */
static void few_calls_tell_sizes(void **state)
{
	(void)state;
	struct regime_mix a = {0}, b = {0};
	float shares[REGIME_PLACES];
	for (uint32_t i = 0; i < 2000; i++) {
		regime_mix_add(&a, i % 20, i % 50 ? 0 : 5);
		regime_mix_add(&b, i % 20, i % 50 ? 0 : 6);
	}
	assert_true(regime_mix_shares(&a, shares));
	assert_int_equal(regimes_of(regimes, shares, true), 1);
	assert_true(regime_mix_shares(&b, shares));
	assert_int_equal(regimes_of(regimes, shares, true), 2);
}

/* A window of few events is judged with those before it; the first ones are of no regime. */
static void few_events_wait(void **state)
{
	(void)state;
	uint64_t seed = 1;
	struct regime_mix running = {0}, window, none = {0};
	for (int i = 0; i < 4; i++) {
		window = window_of(1, 1, 100, &seed);
		assert_int_equal(regime_of(&running, &window, true), 0);
	}
	window = window_of(1, 1, 100, &seed);
	assert_int_equal(regime_of(&running, &window, true), 1);
	for (int i = 0; i < 10; i++) /* it stands still */
		assert_int_equal(regime_of(&running, &none, true), 1);
	window = window_of(2, 1, 5000, &seed); /* what was before counts no more */
	assert_int_equal(regime_of(&running, &window, true), 2);
	assert_true(running.events <= 5000.5);
}

static void there_are_not_too_many(void **state)
{
	(void)state;
	uint64_t seed = 1;
	for (uint64_t job = 1; job <= 100; job++) {
		uint32_t r = fresh_regime(job, job, 3000, &seed, true);
		assert_true(r <= REGIMES_MOST);
	}
	assert_int_equal(regimes_count(regimes), REGIMES_MOST);
	assert_int_equal(fresh_regime(1, 1, 3000, &seed, true), 1);
}

static void models_keep_theirs(void **state)
{
	(void)state;
	uint64_t seed = 1;
	struct model_regime first, after;
	for (int i = 0; i < 50; i++)
		fresh_regime(1, 1, 3000, &seed, true);
	regimes_get(regimes, 1, &first);
	assert_int_equal(first.windows, 50);
	float sum = 0;
	for (int i = 0; i < REGIME_PLACES; i++)
		sum += first.places[i];
	assert_true(fabsf(sum - 1) < 1e-4f);
	struct regimes *other = regimes_new();
	regimes_add(other, &first);
	struct regimes *mine = regimes;
	regimes = other;
	assert_int_equal(fresh_regime(1, 1, 3000, &seed, true), 1);
	assert_int_equal(fresh_regime(2, 1, 3000, &seed, true), 2);
	regimes_get(regimes, 1, &after);
	assert_memory_equal(&first, &after, sizeof(first)); /* frozen */
	regimes_get(regimes, 9, &after);
	assert_int_equal(after.windows, 0);
	regimes = mine;
	regimes_free(other);
}

static void nothing_told(void **state)
{
	(void)state;
	struct regime_mix m = {0};
	float shares[REGIME_PLACES], sum = 0;
	assert_false(regime_mix_shares(&m, shares));
	for (uint32_t i = 0; i < 1000; i++)
		regime_mix_add(&m, UINT32_MAX - i, 0);
	assert_true(regime_mix_shares(&m, shares));
	for (int i = 0; i < REGIME_PLACES; i++)
		sum += shares[i];
	assert_true(fabsf(sum - 1) < 1e-4f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(slow_work_is_the_same, begin, end),
		cmocka_unit_test_setup_teardown(other_work_is_new, begin, end),
		cmocka_unit_test_setup_teardown(few_calls_tell_sizes, begin, end),
		cmocka_unit_test_setup_teardown(few_events_wait, begin, end),
		cmocka_unit_test_setup_teardown(there_are_not_too_many, begin, end),
		cmocka_unit_test_setup_teardown(models_keep_theirs, begin, end),
		cmocka_unit_test_setup_teardown(nothing_told, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

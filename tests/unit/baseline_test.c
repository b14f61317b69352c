/* baseline_test.c - medians and spreads of durations, what is usual for keys and pairs of keys, and
 * for counters: with outliers, few values, drift.
 * links: detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "detect/baseline.h"
#include "detect/hardware.h"
#include "detect/usual.h"

static uint64_t lognormal(uint64_t *seed, double median, double sigma)
{
	return (uint64_t)(median * exp(sigma * random_normal(seed)));
}

static void medians_and_sigmas(void **state)
{
	(void)state;
	const double sigmas[] = {0.1, 0.3, 1.0};
	for (size_t k = 0; k < 3; k++) {
		struct baseline_sample *s = baseline_sample_new(7);
		struct baseline b;
		uint64_t seed = k;
		for (int i = 0; i < 20000; i++)
			baseline_sample_add(s, lognormal(&seed, 50000, sigmas[k]));
		assert_true(baseline_of_sample(&b, s));
		assert_int_equal(b.count, 20000);
		assert_true(fabs(b.log_median - log(50000)) < 0.15 * sigmas[k]);
		assert_true(fabs(b.sigma / sigmas[k] - 1) < 0.2);
		double mean = 50000 * exp(sigmas[k] * sigmas[k] / 2);
		assert_true(fabs(b.usual_ns / mean - 1) < 0.2 * (1 + sigmas[k]));
		assert_true(fabs(log(b.q99_ns / 50000) / sigmas[k] - 2.33) < 0.5);
		assert_true(fabs(baseline_z(&b, (uint64_t)(50000 * exp(3 * sigmas[k]))) - 3) < 0.8);
		baseline_sample_free(s);
	}
}

/* A fifth of the durations is tenfold: neither the median nor sigma follow. */
static void outliers_move_little(void **state)
{
	(void)state;
	struct baseline_sample *s = baseline_sample_new(1);
	struct baseline b;
	uint64_t seed = 3;
	for (int i = 0; i < 5000; i++)
		baseline_sample_add(s, lognormal(&seed, i % 5 ? 1000 : 10000, 0.1));
	assert_true(baseline_of_sample(&b, s));
	assert_true(fabs(b.log_median - log(1000)) < 0.06);
	assert_true(b.sigma < 0.3);
	assert_true(baseline_z(&b, 10000) > 4);
	baseline_sample_free(s);
}

/* Two modes: the rarer one is nothing unusual. */
static void two_modes(void **state)
{
	(void)state;
	struct baseline_sample *s = baseline_sample_new(1);
	struct baseline b;
	uint64_t seed = 3;
	for (int i = 0; i < 5000; i++)
		baseline_sample_add(s, lognormal(&seed, i % 3 ? 1000 : 3000, 0.02));
	assert_true(baseline_of_sample(&b, s));
	assert_true(baseline_z(&b, 3000) < 4);
	baseline_sample_free(s);
}

static void hostile_durations(void **state)
{
	(void)state;
	struct baseline_sample *s = baseline_sample_new(1);
	struct baseline b;
	for (int i = 0; i < BASELINE_LEAST - 1; i++)
		baseline_sample_add(s, 0);
	assert_false(baseline_of_sample(&b, s));
	baseline_sample_add(s, 0);
	assert_true(baseline_of_sample(&b, s));
	assert_true(b.log_median == 0 && b.sigma >= BASELINE_LEAST_SIGMA && b.usual_ns >= 1);
	assert_true(baseline_z(&b, 0) == 0);
	assert_true(baseline_z(&b, UINT64_MAX) == BASELINE_Z_MOST);
	for (int i = 0; i < 10000; i++)
		baseline_sample_add(s, UINT64_MAX);
	assert_true(baseline_of_sample(&b, s));
	assert_true(isfinite(b.log_median) && isfinite(b.sigma) && isfinite(b.usual_ns));
	assert_true(baseline_z(&b, 0) == -BASELINE_Z_MOST);
	baseline_sample_free(s);
}

/* All that was added is in the sample alike, not only what came first. */
static void samples_are_of_all(void **state)
{
	(void)state;
	struct baseline_sample *s = baseline_sample_new(5);
	struct baseline b;
	for (int i = 0; i < 30000; i++)
		baseline_sample_add(s, i < 10000 ? 100 : 1000);
	assert_true(baseline_of_sample(&b, s));
	assert_true(fabs(b.usual_ns - 700) < 60);
	baseline_sample_free(s);
}

/* By the model's own percentile, but not nearer than a normal distribution's; a tail of half the
 * chance for each step. */
static void chances_fall_through_median_and_percentile(void **state)
{
	(void)state;
	struct baseline b = {.count = 100, .log_median = log(1000), .sigma = 0.1, .q99_ns = 4000};
	assert_true(baseline_chance(&b, 0) == 0.5 && baseline_chance(&b, 1000) == 0.5);
	assert_true(fabs(baseline_chance(&b, 4000) - 0.01) < 1e-9);
	assert_true(fabs(baseline_chance(&b, 16000) - 0.0002) < 1e-9);
	b.q99_ns = 1001;
	assert_true(fabs(baseline_chance(&b, 1000 * exp(0.23263)) - 0.01) < 1e-5);
	assert_true(baseline_chance(&b, 1e300) >= 0);
}

/* ---- usual.h ---- */

static struct detect_keys *keys;
static struct usual *usual;

static int begin(void **state)
{
	(void)state;
	keys = detect_keys_new(100, KEYS_WHOLE);
	usual = usual_new(keys, 1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	usual_free(usual);
	detect_keys_free(keys);
	return 0;
}

static struct usual_event event(uint32_t key, uint32_t previous, uint64_t duration_ns,
				uint64_t gap_ns)
{
	return (struct usual_event){
		.key = key, .previous = previous, .duration_ns = duration_ns, .gap_ns = gap_ns};
}

static void learn(uint32_t key, uint32_t previous, uint64_t duration_ns, uint64_t gap_ns)
{
	struct usual_event e = event(key, previous, duration_ns, gap_ns);
	usual_learn(usual, &e);
}

static struct usual_z z_of(uint32_t key, uint32_t previous, uint64_t duration_ns, uint64_t gap_ns)
{
	struct usual_z z;
	struct usual_event e = event(key, previous, duration_ns, gap_ns);
	usual_z(usual, &e, &z);
	return z;
}

static void learn_of(uint32_t pid, uint32_t key, uint64_t duration_ns, int n)
{
	struct usual_event e = event(key, 0, duration_ns, USUAL_NONE);
	e.pid = pid;
	for (int i = 0; i < n; i++)
		usual_learn(usual, &e);
}

static double usual_ns_of(uint32_t key)
{
	return z_of(key, 0, 1, USUAL_NONE).usual_ns;
}

/* A later job's calls of the same keys may be other work. Of few nothing is known yet. */
static void a_baseline_is_of_whom_it_began_with(void **state)
{
	(void)state;
	uint32_t node = detect_keys_text(keys, DETECT_TORCH, "AddmmBackward0");
	learn_of(1, node, 1000000, USUAL_OWN);
	learn_of(2, node, 1000, 2000);
	assert_true(fabs(usual_ns_of(node) - 1e6) < 1);
	learn_of(1, node, 2000000, 440); /* its own: of all that it did */
	assert_true(usual_ns_of(node) > 1.5e6);
	uint32_t rare = detect_keys_text(keys, DETECT_TORCH, "evaluate");
	learn_of(1, rare, 1000000, BASELINE_LEAST);
	learn_of(2, rare, 1000, USUAL_OWN);
	assert_true(usual_ns_of(rare) < 2e5);
}

static void keys_are_judged_after_some(void **state)
{
	(void)state;
	uint32_t key = detect_keys_text(keys, DETECT_TORCH, "aten::add");
	assert_true(isnan(z_of(key, 0, 1000, 500).z));
	for (int i = 0; i < BASELINE_LEAST - 1; i++)
		learn(key, 0, 1000, 500);
	assert_true(isnan(z_of(key, 0, 1000, 500).z));
	learn(key, 0, 1000, 500);
	struct usual_z z = z_of(key, 0, 1000, 5000);
	assert_true(fabs(z.z) < 0.1 && z.gap_z == BASELINE_Z_MOST);
	assert_true(fabs(z.usual_ns - 1000) < 1 && fabs(z.usual_gap_ns - 500) < 1);
	z = z_of(key, 0, USUAL_NONE, USUAL_NONE);
	assert_true(isnan(z.z) && isnan(z.gap_z));
}

/* Gaps of 100 after one call and of 10,000 after another: each is usual after its own. */
static void pairs_have_gaps_of_their_own(void **state)
{
	(void)state;
	uint32_t a = detect_keys_text(keys, DETECT_CUDA, "a");
	uint32_t b = detect_keys_text(keys, DETECT_CUDA, "b");
	uint32_t c = detect_keys_text(keys, DETECT_CUDA, "c");
	for (int i = 0; i < 200; i++) {
		learn(c, a, 10, 100);
		learn(c, b, 10, 10000);
	}
	assert_true(z_of(c, a, 10, 10000).gap_z > 6);
	assert_true(fabs(z_of(c, b, 10, 10000).gap_z) < 0.1);
	assert_true(fabs(z_of(c, c, 10, 10000).gap_z) < 4); /* no such pair: all gaps before c */

	struct model m;
	model_init(&m);
	usual_to_model(usual, &m);
	struct detect_keys *other_keys = detect_keys_new(100, KEYS_WHOLE);
	struct usual *other = usual_new(other_keys, 1);
	detect_keys_text(other_keys, DETECT_CUDA, "shifts the numbers");
	usual_of_model(other, &m);
	struct usual_z z;
	struct usual_event e = event(detect_keys_text(other_keys, DETECT_CUDA, "c"),
				     detect_keys_text(other_keys, DETECT_CUDA, "a"), 10, 10000);
	usual_z(other, &e, &z);
	assert_true(z.gap_z > 6 && fabs(z.z) < 0.1 && fabs(z.usual_gap_ns - 100) < 1);
	usual_free(other);
	detect_keys_free(other_keys);
	model_free(&m);
}

static void settled_keys_follow_what_is_normal(void **state)
{
	(void)state;
	uint32_t key = detect_keys_text(keys, DETECT_TORCH, "aten::add");
	uint32_t other = detect_keys_text(keys, DETECT_CUDA, "cuMemAlloc_v2");
	uint64_t seed = 1;
	for (int i = 0; i < 1000; i++) {
		learn(key, 0, lognormal(&seed, 1000, 0.1), USUAL_NONE);
		learn(other, 0, 1000, USUAL_NONE);
	}
	usual_settle(usual);
	for (int window = 0; window < 600; window++) { /* a time constant, a tenth slower */
		z_of(key, 0, 1100, USUAL_NONE);
		z_of(other, 0, 1100, USUAL_NONE);
		usual_follow(usual, DETECT_TORCH, 1, true);
	}
	struct baseline b, gap;
	usual_get(usual, key, &b, &gap);
	double moved = (b.log_median - log(1000)) / log(1.1);
	assert_true(moved > 0.4 && moved < 1.1);
	assert_int_equal(gap.count, 0);
	usual_get(usual, other, &b, &gap); /* of a layer that was not told of */
	assert_true(fabs(b.log_median - log(1000)) < 0.001);
	for (int window = 0; window < 600; window++) { /* alarmed: nothing moves */
		z_of(key, 0, 5000, USUAL_NONE);
		usual_follow(usual, DETECT_TORCH, 1, false);
	}
	usual_get(usual, key, &b, &gap);
	assert_true(b.log_median < log(1100));
}

/* What is met after learning ended is learned by itself. */
static void late_keys_settle(void **state)
{
	(void)state;
	usual_settle(usual);
	uint32_t key = detect_keys_text(keys, DETECT_TORCH, "aten::new");
	for (int i = 0; i < 3 * BASELINE_SAMPLE; i++)
		learn(key, 0, i < BASELINE_SAMPLE ? 1000 : 9000, USUAL_NONE);
	struct baseline b, gap;
	usual_get(usual, key, &b, &gap);
	assert_int_equal(b.count, BASELINE_SAMPLE);
	assert_true(fabs(b.log_median - log(1000)) < 0.001);
}

/* ---- counters ---- */

static void learn_power(struct counters_usual *u, uint32_t regime, double watts, int n)
{
	double values[FEATURES_MOST];
	for (size_t i = 0; i < FEATURES_MOST; i++)
		values[i] = NAN;
	values[7] = watts;
	for (int i = 0; i < n; i++)
		counters_usual_learn(u, DETECT_HARDWARE, regime, values);
}

static void counters_by_regime(void **state)
{
	(void)state;
	struct counters_usual *u = counters_usual_new(1);
	struct counter_usual c;
	uint32_t n;
	assert_string_equal(features_of(DETECT_HARDWARE, &n)[7].name, "power_w");
	learn_power(u, 1, 600, 300);
	learn_power(u, 2, 100, 100);
	counters_usual_settle(u);
	counters_usual_get(u, DETECT_HARDWARE, 7, 1, &c);
	assert_true(c.count == 300 && c.median == 600 && c.sigma >= 5);
	counters_usual_get(u, DETECT_HARDWARE, 7, 2, &c);
	assert_true(c.count == 100 && c.median == 100);
	counters_usual_get(u, DETECT_HARDWARE, 7, 9, &c); /* unknown work: whatever it does */
	assert_true(c.count == 400 && c.median == 600);
	counters_usual_get(u, DETECT_HARDWARE, 6, 1, &c);
	assert_int_equal(c.count, 0);
	counters_usual_free(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(medians_and_sigmas),
		cmocka_unit_test(outliers_move_little),
		cmocka_unit_test(two_modes),
		cmocka_unit_test(hostile_durations),
		cmocka_unit_test(samples_are_of_all),
		cmocka_unit_test(chances_fall_through_median_and_percentile),
		cmocka_unit_test_setup_teardown(keys_are_judged_after_some, begin, end),
		cmocka_unit_test_setup_teardown(a_baseline_is_of_whom_it_began_with, begin, end),
		cmocka_unit_test_setup_teardown(pairs_have_gaps_of_their_own, begin, end),
		cmocka_unit_test_setup_teardown(settled_keys_follow_what_is_normal, begin, end),
		cmocka_unit_test_setup_teardown(late_keys_settle, begin, end),
		cmocka_unit_test(counters_by_regime),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

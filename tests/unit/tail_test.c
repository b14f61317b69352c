/* tail_test.c - what a score is worth: rates on simulated scores, tails of known shape, and faults
 * dropped from training data.
 * links: detect analyze recording base */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "detect/tail.h"

/* The score whose p is this. */
static double tail_score(const struct tail *t, double p)
{
	double low = t->points[0], high = t->start + 1;
	while (tail_p(t, high) > p)
		high += high - low;
	for (int i = 0; i < 200; i++) {
		double middle = (low + high) / 2;
		if (tail_p(t, middle) > p)
			low = middle;
		else
			high = middle;
	}
	return high;
}

static double exponential(uint64_t *seed)
{
	return -log(random_uniform(seed));
}

static double pareto(uint64_t *seed, double shape)
{
	return expm1(-shape * log(random_uniform(seed))) / shape;
}

/* Half the squared length of six normal numbers: -log densities of a mixture's rows are like it. */
static double squares(uint64_t *seed)
{
	double sum = 0;
	for (int i = 0; i < 6; i++) {
		double x = random_normal(seed);
		sum += x * x / 2;
	}
	return sum;
}

static void shapes_are_found(void **state)
{
	(void)state;
	enum { N = 40000 };
	const double shapes[] = {-0.3, -0.1, 0.1, 0.3, 0.6};
	double *x = malloc(N * sizeof(*x));
	for (size_t k = 0; k < 5; k++) {
		uint64_t seed = 11 + k;
		struct tail t;
		struct err e;
		for (int i = 0; i < N; i++)
			x[i] = pareto(&seed, shapes[k]);
		assert_int_equal(tail_fit(&t, x, N, &e), 0);
		assert_true(fabs(t.shape - shapes[k]) < 0.1);
		/* Beyond what was seen: one in a hundred thousand. */
		double want = expm1(-shapes[k] * log(1e-5)) / shapes[k];
		assert_true(fabs(log(tail_score(&t, 1e-5) / want)) < 0.1 + fmax(0, shapes[k]));
		assert_true(fabs(tail_score(&t, 0.5) / (expm1(-shapes[k] * log(0.5)) / shapes[k]) -
				 1) < 0.05);
	}
	free(x);
}

/* p of the threshold for p, and falling in between. */
static void score_and_p_agree(void **state)
{
	(void)state;
	enum { N = 3000 };
	double x[N], last = 1.1;
	uint64_t seed = 5;
	struct tail t;
	struct err e;
	for (int i = 0; i < N; i++)
		x[i] = squares(&seed) - 4;
	assert_int_equal(tail_fit(&t, x, N, &e), 0);
	for (double p = 0.98; p > 1e-7; p *= 0.9)
		assert_true(fabs(tail_p(&t, tail_score(&t, p)) / p - 1) < 0.02);
	for (double s = -6; s < 200; s += 0.01) {
		double p = tail_p(&t, s);
		assert_true(p > 0 && p <= 1 && p <= last);
		last = p;
	}
	assert_true(tail_p(&t, 1e9) > 0);
	assert_true(tail_p(&t, -1e9) == 1);
	assert_true(isnan(tail_p(&t, NAN)));
	assert_true(tail_p(&t, INFINITY) > 0);
}

/* How often scores of normal rows are above the threshold for p, over many tails that were made
 * of n scores each, over p. */
static double rate(double (*draw)(uint64_t *), size_t n, double p)
{
	enum { MODELS = 60, TRIALS = 20000 };
	double *x = malloc(n * sizeof(*x)), over = 0;
	uint64_t seed = 77;
	for (int m = 0; m < MODELS; m++) {
		struct tail t;
		struct err e;
		for (size_t i = 0; i < n; i++)
			x[i] = draw(&seed);
		assert_int_equal(tail_fit(&t, x, n, &e), 0);
		double threshold = tail_score(&t, p);
		for (int i = 0; i < TRIALS; i++)
			over += draw(&seed) >= threshold;
	}
	free(x);
	return over / ((double)MODELS * TRIALS) / p;
}

static double heavy(uint64_t *seed)
{
	return pareto(seed, 0.2);
}

/* Within a factor of two where p is not far below one over the number of scores; beyond rather too
 * few alarms than too many. */
static void rates_are_as_asked(void **state)
{
	(void)state;
	double (*const draws[])(uint64_t *) = {exponential, squares, heavy};
	const size_t lens[] = {120, 600, 3000};
	const double ps[] = {0.05, 1e-3, 1e-4};
	for (size_t d = 0; d < 3; d++)
		for (size_t l = 0; l < 3; l++)
			for (size_t k = 0; k < 3; k++) {
				double got = rate(draws[d], lens[l], ps[k]);
				bool seen = (double)lens[l] * ps[k] >= 0.25;
				assert_true(got < (seen ? 2 : 3) && got > (seen ? 0.5 : 0));
			}
}

static void too_few_scores(void **state)
{
	(void)state;
	double x[40];
	struct tail t = {.n = 99};
	struct err e = {0};
	for (int i = 0; i < 40; i++)
		x[i] = i < 19 ? i : NAN;
	assert_int_equal(tail_fit(&t, x, 40, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "19 scores"));
	assert_int_equal(t.n, 99);
	x[19] = 19;
	assert_int_equal(tail_fit(&t, x, 40, &e), 0);
	assert_int_equal(t.n, 20);
	for (int i = 0; i < 40; i++)
		x[i] = 3;
	assert_int_equal(tail_fit(&t, x, 40, &e), 0);
	assert_true(tail_p(&t, 3) > 0.4);
	assert_true(tail_p(&t, 4) < 1e-3);
	assert_true(isnan(tail_p(&(struct tail){0}, 1)));
	assert_int_equal(tail_fit(&t, NULL, 0, &e), -EINVAL);
}

/* Rows whose squared distances are those of six columns; some of them are faulty. */
static void cleaned(size_t n, double faulty, double shift, uint64_t seed, double *ret_lost,
		    double *ret_dropped)
{
	double *x = calloc(n, sizeof(*x));
	bool *keep = malloc(n), *fault = malloc(n);
	size_t faults = 0, lost = 0, dropped = 0;
	for (size_t i = 0; i < n; i++) {
		fault[i] = random_uniform(&seed) < faulty;
		x[i] = 2 * squares(&seed) + (fault[i] ? shift + 5 * exponential(&seed) : 0);
		faults += fault[i];
	}
	size_t kept = tail_clean(x, n, 0.7, keep), counted = 0;
	for (size_t i = 0; i < n; i++) {
		counted += keep[i];
		lost += !keep[i] && !fault[i];
		dropped += !keep[i] && fault[i];
	}
	assert_int_equal(kept, counted);
	*ret_lost = (double)lost / (double)(n - faults);
	*ret_dropped = faults ? (double)dropped / (double)faults : 1;
	free(x);
	free(keep);
	free(fault);
}

static void faults_are_dropped(void **state)
{
	(void)state;
	for (size_t n = 200; n <= 5000; n *= 5) {
		double clean_lost = 0, all_lost = 0, all_dropped = 0;
		for (uint64_t seed = 1; seed <= 20; seed++) {
			double lost, dropped;
			cleaned(n, 0, 0, seed, &lost, &dropped);
			clean_lost += lost / 20;
			cleaned(n, 0.2, 60, seed, &lost, &dropped);
			all_lost += lost / 20;
			all_dropped += dropped / 20;
		}
		assert_true(clean_lost < 0.005);
		assert_true(all_lost < 0.005);
		assert_true(all_dropped > 0.99);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shapes_are_found),   cmocka_unit_test(score_and_p_agree),
		cmocka_unit_test(rates_are_as_asked), cmocka_unit_test(too_few_scores),
		cmocka_unit_test(faults_are_dropped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

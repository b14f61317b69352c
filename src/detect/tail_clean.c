/* tail_clean.c - which rows of training data are faults.
 *
 * A gamma distribution is what squared distances of normal rows have. It is fitted to the lower
 * scores by maximum likelihood, given only that they lie below a bound: how many lie above, and
 * where, is not believed. Real rows have heavier tails: beyond the gamma distribution's highest
 * tenth a Pareto tail of shape HEAVY goes on. Rows are dropped where clearly more lie far out than
 * that allows; a few that do are the tail of the data itself. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/stats.h"
#include "detect/maximum.h"
#include "detect/tail.h"

#define BODY_MOST    2000 /* scores that are looked at; of more, as many quantiles */
#define HEAVY	     0.25
#define FAR	     1e-3 /* a normal row lies further out so rarely */
#define FAULTY_LEAST 4
#define FAULTY_RATIO 0.025 /* more of all rows than this out there are faults */

/* The regularised lower incomplete gamma function P(a, x): its power series below a + 1, above
 * the continued fraction of Q = 1 - P by Lentz's method (Abramowitz and Stegun, 6.5.29, 6.5.31). */
static double gamma_below(double a, double x)
{
	if (x <= 0)
		return 0;
	double front = exp(a * log(x) - x - lgamma(a));
	if (x < a + 1) {
		double term = 1 / a, sum = term;
		for (int i = 1; i < 500 && term > sum * 1e-12; i++) {
			term *= x / (a + i);
			sum += term;
		}
		return front * sum;
	}
	double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
	for (int i = 1; i < 500; i++) {
		double an = -i * (i - a);
		b += 2;
		d = 1 / (an * d + b);
		c = b + an / c;
		h *= d * c;
		if (fabs(d * c - 1) < 1e-12)
			break;
	}
	return 1 - front * h;
}

struct body {
	double n, mean, mean_log; /* of the scores below bound */
	double bound;
	double shape, scale;
};

static double log_likelihood(double log_scale, void *ctx)
{
	const struct body *b = ctx;
	double scale = exp(log_scale);
	double below = gamma_below(b->shape, b->bound / scale);
	if (!(below > 1e-12))
		return -INFINITY;
	return b->n * ((b->shape - 1) * b->mean_log - b->mean / scale - lgamma(b->shape) -
		       b->shape * log_scale - log(below));
}

static double best_of_shape(double log_shape, void *ctx)
{
	struct body *b = ctx;
	double value;
	b->shape = exp(log_shape);
	/* A mean between half and four times that of the body */
	double usual = log(b->mean / b->shape);
	b->scale = exp(maximum_find(log_likelihood, b, usual - log(2), usual + log(4), &value));
	return value;
}

static void body_make(struct body *ret, const double *sorted, size_t n)
{
	*ret = (struct body){.bound = sorted[n - 1]};
	size_t looked = n < BODY_MOST ? n : BODY_MOST;
	ret->n = (double)looked;
	for (size_t i = 0; i < looked; i++) {
		double x = sorted[(size_t)(((double)i + 0.5) / (double)looked * (double)n)];
		ret->mean += x / ret->n;
		ret->mean_log += log(fmax(x, 1e-12 * ret->bound)) / ret->n;
	}
}

/* The score that so few normal rows reach. */
static double gamma_score(const struct body *b, double survival)
{
	double low = 0, high = b->shape * b->scale;
	while (1 - gamma_below(b->shape, high / b->scale) > survival)
		high *= 2;
	for (int i = 0; i < 50; i++) {
		double middle = (low + high) / 2;
		if (1 - gamma_below(b->shape, middle / b->scale) > survival)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* The score that one normal row in 1 / FAR reaches, with a heavy tail. */
static double far_score(const struct body *b)
{
	double start = gamma_score(b, 0.1), next = gamma_score(b, 0.03);
	double scale = (next - start) / log(0.1 / 0.03);
	return start + scale * expm1(HEAVY * log(0.1 / FAR)) / HEAVY;
}

size_t tail_clean(const double *scores, size_t n, double believed, bool *keep)
{
	double *sorted = xcalloc(n ? n : 1, sizeof(*sorted));
	size_t len = 0;
	for (size_t i = 0; i < n; i++) {
		keep[i] = isfinite(scores[i]);
		if (keep[i])
			sorted[len++] = scores[i];
	}
	stats_sort(sorted, len);
	size_t body = (size_t)((double)len * believed), kept = len;
	if (body < TAIL_LEAST || !(sorted[body - 1] > 0)) {
		free(sorted);
		return kept;
	}
	struct body b;
	double value;
	body_make(&b, sorted, body);
	double log_shape = maximum_find(best_of_shape, &b, log(0.25), log(32), &value);
	best_of_shape(log_shape, &b);
	double bound = far_score(&b);
	size_t far = 0;
	while (far < len && sorted[len - 1 - far] > bound)
		far++;
	free(sorted);
	if ((double)far < FAULTY_LEAST + FAULTY_RATIO * (double)len)
		return kept;
	for (size_t i = 0; i < n; i++)
		if (keep[i] && scores[i] > bound) {
			keep[i] = false;
			kept--;
		}
	return kept;
}

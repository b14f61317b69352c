/* tail.c - the p of a score: the body as it was seen, the tail as a generalised Pareto
 * distribution.
 *
 * Shape and scale of the tail are known the less the fewer scores there are, and rates of a few
 * alarms in hours lie far beyond them. What is kept is therefore not the likeliest tail but the
 * expected one: survival averaged over what shape and scale may be (their posterior, normal around
 * its mode with the Fisher information of the distribution: Smith, "Maximum likelihood estimation
 * in a class of nonregular cases", 1985), put into shape and scale again. Windows of normal running
 * then alarm at the rate that was asked for on average over models, also over those that saw
 * little. */
#include "detect/tail.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/stats.h"
#include "detect/maximum.h"

#define SHAPE_LEAST (-0.5)
#define SHAPE_MOST  1.0
/* What is known of shapes beforehand. -log densities of normal rows fall off exponentially (0),
 * those of real ones somewhat more slowly. */
#define SHAPE_USUAL  0.1
#define SHAPE_SPREAD 0.15
#define EXCESSES     500 /* that are looked at; of more, as many quantiles */
#define LEAST_TAIL   20	 /* excesses, where there are twice as many scores */
#define GRID	     15	 /* points of the average, along both axes */
#define GRID_REACH   3.0 /* standard deviations */
#define P_LEAST	     1e-300

/* P(excess > y). */
static double pareto_survival(double shape, double scale, double y)
{
	if (fabs(shape) < 1e-6)
		return exp(-y / scale);
	double base = 1 + shape * y / scale;
	return base <= 0 ? 0 : exp(-log(base) / shape);
}

static double pareto_quantile(double shape, double scale, double survival)
{
	if (fabs(shape) < 1e-6)
		return -scale * log(survival);
	return scale * expm1(-shape * log(survival)) / shape;
}

/* ---- the likeliest shape and scale ---- */

struct excesses {
	const double *y;
	size_t n;      /* looked at */
	double weight; /* real ones for each */
	double shape;  /* that is tried */
	double scale;  /* the best for it */
	double mean;
};

static double log_posterior(double log_scale, void *ctx)
{
	const struct excesses *x = ctx;
	double scale = exp(log_scale), sum = 0;
	for (size_t i = 0; i < x->n; i++) {
		double t = x->y[i] / scale;
		if (fabs(x->shape) < 1e-6) {
			sum -= t;
			continue;
		}
		double base = 1 + x->shape * t;
		if (base <= 0)
			return -INFINITY;
		sum -= (1 + 1 / x->shape) * log(base);
	}
	double off = (x->shape - SHAPE_USUAL) / SHAPE_SPREAD;
	return x->weight * (sum - (double)x->n * log_scale) - off * off / 2;
}

static double best_of_shape(double shape, void *ctx)
{
	struct excesses *x = ctx;
	double value;
	x->shape = shape;
	x->scale = exp(maximum_find(log_posterior, x, log(x->mean / 8), log(x->mean * 4), &value));
	return value;
}

/* ---- the expected tail ---- */

struct posterior {
	double shape, scale;
	double variance_shape, covariance, variance_scale; /* of shape and ln scale */
};

static void posterior_make(struct posterior *ret, struct excesses *x, double excesses)
{
	double value;
	ret->shape = maximum_find(best_of_shape, x, SHAPE_LEAST, SHAPE_MOST, &value);
	best_of_shape(ret->shape, x);
	ret->scale = x->scale;
	/* Information of n excesses about (shape, ln scale): the inverse of
	 * (1 + xi) / n [[1 + xi, -1], [-1, 2]]; what is known beforehand adds to it. */
	double above = 1 + ret->shape, n = excesses;
	double det = above * above * (2 * above - 1);
	det = det > 0.05 ? det : 0.05;
	double i_shape = n * 2 * above / det + 1 / (SHAPE_SPREAD * SHAPE_SPREAD);
	double i_both = n * above / det, i_scale = n * above * above / det;
	double whole = i_shape * i_scale - i_both * i_both;
	ret->variance_shape = i_scale / whole;
	ret->variance_scale = i_shape / whole;
	ret->covariance = -i_both / whole;
}

static double expected_survival(const struct posterior *p, double y)
{
	double sd = sqrt(p->variance_shape), sum = 0, weights = 0;
	double slope = p->covariance / p->variance_shape;
	double rest = sqrt(fmax(0, p->variance_scale - slope * p->covariance));
	for (int i = 0; i < GRID; i++) {
		double a = GRID_REACH * (2.0 * i / (GRID - 1) - 1);
		double shape = p->shape + a * sd;
		if (shape < SHAPE_LEAST || shape > SHAPE_MOST)
			continue;
		for (int j = 0; j < GRID; j++) {
			double b = GRID_REACH * (2.0 * j / (GRID - 1) - 1);
			double scale = p->scale * exp(slope * a * sd + b * rest);
			double weight = exp(-(a * a + b * b) / 2);
			sum += weight * pareto_survival(shape, scale, y);
			weights += weight;
		}
	}
	return sum / weights;
}

/* Where the expected survival is this. */
static double expected_quantile(const struct posterior *p, double survival)
{
	double low = 0, high = p->scale;
	while (expected_survival(p, high) > survival)
		high *= 2;
	for (int i = 0; i < 40; i++) {
		double middle = (low + high) / 2;
		if (expected_survival(p, middle) > survival)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/* The shape and scale that go through the expected tail where one in three and where one in
 * 3,000 excesses lies higher. */
static void expected_tail(struct tail *ret, const struct posterior *p)
{
	const double near = 1.0 / 3, far = 1.0 / 3000;
	double at_near = expected_quantile(p, near), at_far = expected_quantile(p, far);
	double low = SHAPE_LEAST, high = SHAPE_MOST;
	for (int i = 0; i < 40; i++) {
		double shape = (low + high) / 2;
		double ratio = pareto_quantile(shape, 1, far) / pareto_quantile(shape, 1, near);
		if (ratio < at_far / at_near)
			low = shape;
		else
			high = shape;
	}
	ret->shape = (low + high) / 2;
	ret->scale = at_near / pareto_quantile(ret->shape, 1, near);
}

static void pareto_fit(struct tail *ret, const double *sorted, size_t n)
{
	double y[EXCESSES];
	struct excesses x = {.y = y, .n = n < EXCESSES ? n : EXCESSES};
	for (size_t i = 0; i < x.n; i++) {
		y[i] = sorted[(size_t)(((double)i + 0.5) / (double)x.n * (double)n)] - ret->start;
		x.mean += y[i] / (double)x.n;
	}
	if (!(x.mean > 1e-9 * (1 + fabs(ret->start)))) { /* all the same: no tail was seen */
		ret->shape = SHAPE_USUAL;
		ret->scale = 1e-3 * (1 + fabs(ret->start));
		return;
	}
	x.weight = (double)n / (double)x.n;
	struct posterior p;
	posterior_make(&p, &x, (double)n);
	expected_tail(ret, &p);
}

int tail_fit(struct tail *ret, const double *scores, size_t n, struct err *e)
{
	double *sorted = xcalloc(n ? n : 1, sizeof(*sorted));
	size_t len = 0;
	for (size_t i = 0; i < n; i++)
		if (isfinite(scores[i]))
			sorted[len++] = scores[i];
	if (len < TAIL_LEAST) {
		free(sorted);
		return err_set(e, EINVAL, "%zu scores are too few for a threshold, %d are needed",
			       len, TAIL_LEAST);
	}
	stats_sort(sorted, len);
	size_t above = (size_t)((double)len * TAIL_SHARE);
	if (above < LEAST_TAIL)
		above = len / 2 < LEAST_TAIL ? len / 2 : LEAST_TAIL;
	size_t body = len - above;
	*ret = (struct tail){.n = len, .start = sorted[body - 1]};
	ret->start_ratio = (double)(1 + above) / (double)(1 + len);
	for (size_t i = 0; i < TAIL_POINTS; i++) {
		double at = (double)(body - 1) * (double)i / (TAIL_POINTS - 1);
		size_t under = (size_t)at;
		size_t over = under + 1 < body ? under + 1 : under;
		ret->points[i] =
			sorted[under] + (at - (double)under) * (sorted[over] - sorted[under]);
	}
	pareto_fit(ret, sorted + body, above);
	free(sorted);
	return 0;
}

double tail_p(const struct tail *t, double score)
{
	if (!t->n || isnan(score))
		return NAN;
	if (score > t->start) {
		double p = t->start_ratio * pareto_survival(t->shape, t->scale, score - t->start);
		return p < P_LEAST ? P_LEAST : p;
	}
	/* The first point that is as high: of several alike the lowest, for all of them are. */
	size_t low = 0, high = TAIL_POINTS - 1;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (t->points[middle] < score)
			low = middle + 1;
		else
			high = middle;
	}
	double at = (double)low;
	if (low && t->points[low] > score)
		at -= (t->points[low] - score) / (t->points[low] - t->points[low - 1]);
	return 1 - (1 - t->start_ratio) * at / (TAIL_POINTS - 1);
}

/* cusum.c - the cumulative sum, and the height that goes with a rate of alarms. */
#include "detect/cusum.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"

#define STATES 128 /* of the Markov chain */

/* P(u - k <= x) of a normal window. */
static double step_below(double x)
{
	if (x >= CUSUM_MOST - CUSUM_SLACK)
		return 1;
	return x <= -CUSUM_SLACK ? 0 : -expm1(-(x + CUSUM_SLACK));
}

/* Solves a x = b of n unknowns by elimination; a is diagonally dominant, so that no pivots are
 * needed. Leaves x in b. */
static void solve(double *a, double *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t r = i + 1; r < n; r++) {
			double f = a[r * n + i] / a[i * n + i];
			if (f == 0)
				continue;
			for (size_t c = i; c < n; c++)
				a[r * n + c] -= f * a[i * n + c];
			b[r] -= f * b[i];
		}
	for (size_t i = n; i-- > 0;) {
		for (size_t c = i + 1; c < n; c++)
			b[i] -= a[i * n + c] * b[c];
		b[i] /= a[i * n + i];
	}
}

/* The mean number of windows until the sum goes from 0 above the height. State 0 is S = 0, state i
 * the i-th of equal cells of (0, height], as if S were in its middle. a: STATES^2. */
static double run_length(double height, double *a)
{
	double left[STATES], width = height / (STATES - 1);
	for (size_t i = 0; i < STATES; i++) {
		double from = i ? ((double)i - 0.5) * width : 0;
		for (size_t j = 0; j < STATES; j++) {
			double up = step_below((double)j * width - from);
			double p = j ? up - step_below((double)(j - 1) * width - from) : up;
			a[i * STATES + j] = (i == j ? 1 : 0) - p;
		}
		left[i] = 1;
	}
	solve(a, left, STATES);
	return left[0];
}

double cusum_height(double windows_between)
{
	double wanted = fmin(fmax(windows_between, 10), 1e9);
	double *a = xcalloc((size_t)STATES * STATES, sizeof(*a));
	double low = 0.1, high = 40;
	for (int i = 0; i < 24; i++) {
		double middle = (low + high) / 2;
		if (run_length(middle, a) < wanted)
			low = middle;
		else
			high = middle;
	}
	free(a);
	return (low + high) / 2;
}

bool cusum_add(struct cusum *c, uint64_t number, double p, double height)
{
	if (isnan(p))
		return false;
	double u = p > 0 ? fmin(-log(p), CUSUM_MOST) : CUSUM_MOST;
	if (c->sum <= 0)
		c->since = number;
	c->sum = fmax(0, c->sum + u - CUSUM_SLACK);
	if (u <= CUSUM_SLACK)
		return false;
	c->last = number;
	bool above = c->sum > height;
	c->sum = fmin(c->sum, height + CUSUM_SLACK);
	return above;
}

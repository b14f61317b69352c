/* stats.c - sorts, and counts places. */
#include "base/stats.h"

#include <math.h>

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

void stats_sort(double *values, size_t n)
{
	if (n)
		qsort(values, n, sizeof(*values), compare_doubles);
}

double stats_median_sorted(const double *sorted, size_t n)
{
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double stats_median(double *values, size_t n)
{
	stats_sort(values, n);
	return stats_median_sorted(values, n);
}

double stats_quantile_sorted(const double *sorted, size_t n, double part)
{
	return sorted[(size_t)((double)(n - 1) * part)];
}

/* A normal distribution has STATS_SHORTH of its values within so many sigma of its centre. */
#define SHORTH_SIGMAS 0.5244

void stats_shorth_sorted(const double *sorted, size_t n, double *ret_centre, double *ret_sigma)
{
	size_t reach = (size_t)((double)n * STATS_SHORTH), best = 0;
	for (size_t i = 1; i + reach < n; i++)
		if (sorted[i + reach] - sorted[i] < sorted[best + reach] - sorted[best])
			best = i;
	*ret_centre = (sorted[best] + sorted[best + reach]) / 2;
	*ret_sigma = (sorted[best + reach] - sorted[best]) / 2 / SHORTH_SIGMAS;
}

#define P_LEAST 1e-15

double stats_student_above(double t, unsigned freedom)
{
	double cos2 = 1 / (1 + t * t / freedom), term = 1, sum = 1;
	for (unsigned i = 2; i < freedom; i += 2) {
		term *= cos2 * (i - 1) / i;
		sum += term;
	}
	double inside = sqrt(1 - cos2) * sum; /* P(|T| < |t|) */
	double p = (t < 0 ? 1 + inside : 1 - inside) / 2;
	return fmax(p, P_LEAST);
}

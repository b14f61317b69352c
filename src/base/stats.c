/* stats.c - sorts, and counts places. */
#include "base/stats.h"

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

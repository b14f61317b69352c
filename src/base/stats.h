/* stats.h - order statistics of doubles. Callers leave out NaN, which has no place in an order. */
#pragma once

#include <stddef.h>

void stats_sort(double *values, size_t n);

/* The middle of sorted values, between the two of an even number; n > 0. */
double stats_median_sorted(const double *sorted, size_t n);

/* The same of any values, which it sorts. */
double stats_median(double *values, size_t n);

/* The value that so large a part of sorted values (0 to 1) does not lie above; n > 0. */
double stats_quantile_sorted(const double *sorted, size_t n, double part);

/* Centre and sigma of the normal distribution that most of the values are of, from the shortest
 * interval that holds STATS_SHORTH of them (Rousseeuw and Leroy 1988 take half): up to half of the
 * values may lie anywhere on one side. n > 0. */
#define STATS_SHORTH 0.4
void stats_shorth_sorted(const double *sorted, size_t n, double *ret_centre, double *ret_sigma);

/* P(T > t) of Student's t with an even number of degrees of freedom (Abramowitz and
 * Stegun, 26.7.4); not below 1e-15, which is what doubles tell from nothing there. */
double stats_student_above(double t, unsigned freedom);

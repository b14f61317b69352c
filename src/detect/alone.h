/* alone.h - what one column of a mixture says by itself: how rarely normal rows have so high a
 * value of it, whatever the others are. Of a dozen columns that were learned from a minute of rows
 * none stands out as far as one that is asked for beforehand. No I/O, keeps nothing. */
#pragma once

#include "detect/model.h"

/* The share of normal rows in which the column of this feature is as high as x, in the feature's
 * unit, or higher: of each component a Student's t (what n rows tell of a normal distribution's
 * next value), with a degree of freedom for each ALONE_ROWS rows, for those that follow each other
 * are alike, and at most ALONE_FREEDOM, for none is as normal as it looks. To its variance comes
 * that of ALONE_SIGMA, in the feature's unit: what a logarithm of time differs by without anybody
 * minding. NaN: it is no column, or x is not finite. */
#define ALONE_ROWS    3
#define ALONE_FREEDOM 20
#define ALONE_SIGMA   0.05
/* How rarely the work goes on as slowly, or more so, where all is normal: Student's t, its spread
 * from the windows that the clock was learned from. NaN: nothing is known. */
double alone_pace_p(const struct model_clock *m, double pace);
double alone_p(const struct model_mixture *m, const char *feature, double x);

/* P(T > t) of Student's t with an even number of degrees of freedom (Abramowitz and
 * Stegun, 26.7.4); not below 1e-15, which is what doubles tell from nothing there. */
double alone_student(double t, unsigned freedom);

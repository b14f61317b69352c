/* maximum.h - where a function of one number is highest, by golden-section search (Kiefer 1953).
 * For functions with one peak; of several it finds one. */
#pragma once

/* Within (high - low) / 10^5 after 24 steps. */
#define MAXIMUM_STEPS 24

/* Looks in [low, high]; writes the function's value there to ret_value. */
static inline double maximum_find(double (*f)(double x, void *ctx), void *ctx, double low,
				  double high, double *ret_value)
{
	const double ratio = 0.6180339887498949; /* (sqrt(5) - 1) / 2 */
	double a = high - ratio * (high - low), b = low + ratio * (high - low);
	double fa = f(a, ctx), fb = f(b, ctx);
	for (int i = 0; i < MAXIMUM_STEPS; i++) {
		if (fa > fb) {
			high = b;
			b = a;
			fb = fa;
			a = high - ratio * (high - low);
			fa = f(a, ctx);
		} else {
			low = a;
			a = b;
			fa = fb;
			b = low + ratio * (high - low);
			fb = f(b, ctx);
		}
	}
	*ret_value = fa > fb ? fa : fb;
	return fa > fb ? a : b;
}

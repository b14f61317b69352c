/* alone.c - the upper tail of one column under a mixture. */
#include "detect/alone.h"

#include <math.h>
#include <string.h>

#define FREEDOM_LEAST 4
#define PACE_SIGMA    0.02 /* launches differ by that */
#define P_LEAST	      1e-15

double alone_student(double t, unsigned freedom)
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

static unsigned freedom_of(const struct model_mixture *m)
{
	uint64_t n = m->tail.n / ALONE_ROWS / 2 * 2;
	return n < FREEDOM_LEAST ? FREEDOM_LEAST : n > ALONE_FREEDOM ? ALONE_FREEDOM : (unsigned)n;
}

double alone_pace_p(const struct model_clock *m, double pace)
{
	uint64_t n = m->windows / ALONE_ROWS / 2 * 2;
	unsigned freedom = n < FREEDOM_LEAST   ? FREEDOM_LEAST
			   : n > ALONE_FREEDOM ? ALONE_FREEDOM
					       : (unsigned)n;
	if (m->layer == DETECT_LAYERS || !(pace > 0))
		return NAN;
	return alone_student(-log(pace) / hypot(m->sigma, PACE_SIGMA), freedom);
}

double alone_p(const struct model_mixture *m, const char *feature, double x)
{
	const struct gmm *g = &m->gmm;
	uint32_t c = 0;
	while (c < m->columns && strcmp(m->names[c], feature) != 0)
		c++;
	if (c == m->columns || !isfinite(x))
		return NAN;
	double at = (x - m->centre[c]) / m->scale[c], p = 0;
	for (uint32_t k = 0; k < g->components; k++) {
		double variance = g->covariances[((size_t)k * g->d + c) * g->d + c];
		double least = ALONE_SIGMA / m->scale[c];
		double t = (at - g->means[(size_t)k * g->d + c]) / sqrt(variance + least * least);
		p += g->weights[k] * alone_student(t, freedom_of(m));
	}
	return p;
}

/* gmm_density.c - how likely rows are under a mixture, and which columns make one unlikely. */
#include "analyze/gmm_impl.h"

#include <math.h>

static void score(const struct gmm *m, bool weights, enum gmm_score what, const double *rows,
		  size_t n, double *ret, uint8_t *components)
{
	const struct gmm_kernels *kernels = gmm_kernels_here(0);
	struct gmm_view v;
	gmm_view_of(&v, m, weights);
	for (size_t at = 0; at < n; at += GMM_BLOCK) {
		size_t len = n - at < GMM_BLOCK ? n - at : GMM_BLOCK;
		kernels->score(&v, what, rows + at * m->d, len, ret + at,
			       components ? components + at : NULL);
	}
}

void gmm_log_density(const struct gmm *m, const double *rows, size_t n, double *ret)
{
	score(m, true, GMM_MIXTURE, rows, n, ret, NULL);
}

void gmm_likeliest(const struct gmm *m, const double *rows, size_t n, double *ret,
		   uint8_t *ret_component)
{
	score(m, false, GMM_LIKELIEST, rows, n, ret, ret_component);
}

double gmm_explain(const struct gmm *m, const double *row, double *ret_columns,
		   uint32_t *ret_component)
{
	uint32_t d = m->d;
	double density, whitened[GMM_MAX_D], distance = 0;
	uint8_t k;
	score(m, true, GMM_LIKELIEST, row, 1, &density, &k);
	*ret_component = k;
	const double *inverse = m->inverses + (size_t)k * d * d;
	for (uint32_t i = 0; i < d; i++) {
		double sum = 0;
		for (uint32_t j = 0; j <= i; j++)
			sum += inverse[i * d + j] * (row[j] - m->means[(size_t)k * d + j]);
		whitened[i] = sum;
		distance += sum * sum;
	}
	/* With P the inverse covariance and x the row less the mean, the distance x'Px as a
	 * function of column j alone is least at its expected value given the others, and (Px)_j² /
	 * P_jj less than it is. */
	for (uint32_t j = 0; j < d; j++) {
		double pull = 0, precision = 0;
		for (uint32_t i = j; i < d; i++) {
			pull += inverse[i * d + j] * whitened[i];
			precision += inverse[i * d + j] * inverse[i * d + j];
		}
		ret_columns[j] = pull * pull / precision;
	}
	return distance;
}

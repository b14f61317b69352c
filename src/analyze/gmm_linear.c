/* gmm_linear.c - a mixture's memory, and its small matrices: Cholesky factors and their inverses.
 * Matrices are d × d by rows, d <= GMM_MAX_D. */
#include "analyze/gmm_impl.h"

#include <errno.h>
#include <float.h>
#include <math.h>

#include "base/buffer.h"

#define LOG_2PI 1.8378770664093454836 /* log(2 pi) */

struct gmm gmm_alloc(uint32_t d, uint32_t components, enum gmm_covariance covariance)
{
	size_t k = components;
	return (struct gmm){
		.d = d,
		.components = components,
		.covariance = covariance,
		.weights = xcalloc(k, sizeof(double)),
		.means = xcalloc(k * d, sizeof(double)),
		.covariances = xcalloc(k * d * d, sizeof(double)),
		.inverses = xcalloc(k * d * d, sizeof(double)),
		.log_weights = xcalloc(k, sizeof(double)),
		.log_peaks = xcalloc(k, sizeof(double)),
	};
}

struct gmm gmm_copy(const struct gmm *m)
{
	struct gmm ret = gmm_alloc(m->d, m->components, m->covariance), arrays = ret;
	size_t k = m->components, d = m->d;
	ret = *m;
	ret.weights = memcpy(arrays.weights, m->weights, k * sizeof(double));
	ret.means = memcpy(arrays.means, m->means, k * d * sizeof(double));
	ret.covariances = memcpy(arrays.covariances, m->covariances, k * d * d * sizeof(double));
	ret.inverses = memcpy(arrays.inverses, m->inverses, k * d * d * sizeof(double));
	ret.log_weights = memcpy(arrays.log_weights, m->log_weights, k * sizeof(double));
	ret.log_peaks = memcpy(arrays.log_peaks, m->log_peaks, k * sizeof(double));
	return ret;
}

void gmm_free(struct gmm *m)
{
	free(m->weights);
	free(m->means);
	free(m->covariances);
	free(m->inverses);
	free(m->log_weights);
	free(m->log_peaks);
	*m = (struct gmm){0};
}

bool gmm_cholesky(const double *a, uint32_t d, double *ret)
{
	memset(ret, 0, sizeof(*ret) * d * d);
	for (uint32_t i = 0; i < d; i++) {
		for (uint32_t j = 0; j <= i; j++) {
			double sum = a[i * d + j];
			for (uint32_t l = 0; l < j; l++)
				sum -= ret[i * d + l] * ret[j * d + l];
			if (j < i) {
				ret[i * d + j] = sum / ret[j * d + j];
				continue;
			}
			/* below this it is what rounding left; false for NaN too */
			if (!(sum > 4 * DBL_EPSILON * a[i * d + i]) || !isfinite(sum))
				return false;
			ret[i * d + i] = sqrt(sum);
		}
	}
	return true;
}

/* Inverse of a lower triangular matrix, lower triangular too. */
static void gmm_lower_inverse(const double *lower, uint32_t d, double *ret)
{
	memset(ret, 0, sizeof(*ret) * d * d);
	for (uint32_t j = 0; j < d; j++) {
		ret[j * d + j] = 1 / lower[j * d + j];
		for (uint32_t i = j + 1; i < d; i++) {
			double sum = 0;
			for (uint32_t l = j; l < i; l++)
				sum -= lower[i * d + l] * ret[l * d + j];
			ret[i * d + j] = sum / lower[i * d + i];
		}
	}
}

static void factor_set(struct gmm *m, uint32_t k, const double *lower)
{
	uint32_t d = m->d;
	double log_det = 0;
	gmm_lower_inverse(lower, d, m->inverses + (size_t)k * d * d);
	for (uint32_t i = 0; i < d; i++)
		log_det += log(lower[i * d + i]);
	m->log_weights[k] = log(m->weights[k]);
	m->log_peaks[k] = -0.5 * d * LOG_2PI - log_det;
}

/* Raises the variances until the matrix has a factor. */
static void covariance_mend(double *c, uint32_t d, double *lower)
{
	double before[GMM_MAX_D * GMM_MAX_D];
	memcpy(before, c, sizeof(*c) * d * d);
	for (int power = -14; power <= 0; power++) {
		for (uint32_t i = 0; i < d; i++)
			c[i * d + i] = before[i * d + i] * (1 + pow(10, power));
		if (gmm_cholesky(c, d, lower))
			return;
	}
	for (uint32_t i = 0; i < d; i++)
		for (uint32_t j = 0; j < d; j++)
			c[i * d + j] = i == j ? before[i * d + i] : 0;
	(void)gmm_cholesky(c, d, lower);
}

void gmm_prepare(struct gmm *m)
{
	double lower[GMM_MAX_D * GMM_MAX_D];
	size_t area = (size_t)m->d * m->d;
	for (uint32_t k = 0; k < m->components; k++) {
		double *c = m->covariances + k * area;
		if (!gmm_cholesky(c, m->d, lower))
			covariance_mend(c, m->d, lower);
		factor_set(m, k, lower);
	}
}

static int weights_check(const struct gmm *m, struct err *e)
{
	double sum = 0;
	for (uint32_t k = 0; k < m->components; k++) {
		if (!isfinite(m->weights[k]) || m->weights[k] < 0)
			return err_set(e, EINVAL,
				       "component %u has a weight that is not a number "
				       "from 0 on",
				       k);
		sum += m->weights[k];
	}
	if (fabs(sum - 1) > 1e-6)
		return err_set(e, EINVAL, "the weights sum to %.9g, not to 1", sum);
	return 0;
}

static int covariance_check(const struct gmm *m, uint32_t k, struct err *e)
{
	uint32_t d = m->d;
	const double *c = m->covariances + (size_t)k * d * d;
	for (uint32_t i = 0; i < d; i++) {
		if (!isfinite(m->means[(size_t)k * d + i]))
			return err_set(e, EINVAL, "the mean of component %u is not finite", k);
		for (uint32_t j = 0; j < d; j++) {
			double scale = sqrt(fabs(c[i * d + i])) * sqrt(fabs(c[j * d + j]));
			if (!isfinite(c[i * d + j]))
				return err_set(e, EINVAL,
					       "the covariance of component %u is not finite", k);
			if (fabs(c[i * d + j] - c[j * d + i]) > 1e-9 * scale)
				return err_set(e, EINVAL,
					       "the covariance of component %u is not symmetric",
					       k);
			if (m->covariance == GMM_DIAGONAL && i != j && c[i * d + j] != 0)
				return err_set(e, EINVAL,
					       "the covariance of component %u is not diagonal", k);
			if (m->covariance == GMM_TIED && c[i * d + j] != m->covariances[i * d + j])
				return err_set(
					e, EINVAL,
					"the covariance of component %u is not that of the first",
					k);
		}
	}
	return 0;
}

int gmm_complete(struct gmm *m, struct err *e)
{
	double lower[GMM_MAX_D * GMM_MAX_D];
	if (!m->d || m->d > GMM_MAX_D || !m->components || m->components > GMM_MAX_K ||
	    (unsigned)m->covariance >= GMM_COVARIANCES)
		return err_set(e, EINVAL, "%u components of %u columns: up to %d of up to %d",
			       m->components, m->d, GMM_MAX_K, GMM_MAX_D);
	if (weights_check(m, e) < 0)
		return -EINVAL;
	struct gmm made = gmm_alloc(m->d, m->components, m->covariance);
	int rc = 0;
	memcpy(made.weights, m->weights, sizeof(double) * m->components);
	for (uint32_t k = 0; k < m->components && !rc; k++) {
		rc = covariance_check(m, k, e);
		if (!rc && !gmm_cholesky(m->covariances + (size_t)k * m->d * m->d, m->d, lower))
			rc = err_set(e, EINVAL,
				     "the covariance of component %u is not positive definite", k);
		if (!rc)
			factor_set(&made, k, lower);
	}
	if (!rc) {
		double **to[] = {&m->inverses, &m->log_weights, &m->log_peaks};
		double **from[] = {&made.inverses, &made.log_weights, &made.log_peaks};
		for (size_t i = 0; i < 3; i++) {
			free(*to[i]);
			*to[i] = *from[i];
			*from[i] = NULL;
		}
	}
	gmm_free(&made);
	return rc;
}

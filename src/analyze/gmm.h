/* gmm.h - Gaussian mixtures: fitted by expectation-maximisation, and the density of rows under
 * them.
 *
 * A row is d doubles; rows lie one after the other. Does not know what the numbers mean, reads and
 * writes no file. Same rows, options and seed give the same mixture, to the bit, whatever the
 * number of threads: sums are made over blocks of GMM_BLOCK rows and added in order.
 *
 * Rows that hold NaN or an infinity take no part in a fit (they are counted) and have the density
 * NaN. Where there are fewer different rows than components, there are as many components as
 * different rows. Constant columns and duplicates: the floor keeps every covariance positive
 * definite.
 *
 * Sources: Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM
 * algorithm", 1977; Arthur and Vassilvitskii, "k-means++", 2007; Schwarz, "Estimating the dimension
 * of a model", 1978 (BIC); Neykov et al., "Robust fitting of mixtures using the trimmed likelihood
 * estimator", 2007. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GMM_MAX_D 16
#define GMM_MAX_K 64
#define GMM_BLOCK 1024

enum gmm_covariance {
	GMM_FULL,     /* a matrix for each component */
	GMM_DIAGONAL, /* a variance for each column of each component */
	GMM_TIED,     /* one matrix for all components */
	GMM_COVARIANCES,
};
#define GMM_COVARIANCE_NAMES                                                                       \
	{                                                                                          \
		"full", "diagonal", "tied"                                                         \
	}

struct gmm_options {
	uint32_t components; /* 1..GMM_MAX_K */
	enum gmm_covariance covariance;
	uint64_t seed;		 /* of k-means++ */
	uint32_t starts;	 /* the best of so many is taken; 0 = 1 */
	double covariance_floor; /* added to each variance, in the columns' units squared;
				  * negative = 1e-6 */
	double tolerance;	 /* ends when the mean log density grows by less; 0 = 1e-3 */
	uint32_t iterations;	 /* at most; 0 = 100 */
	double trim_ratio;	 /* the rows of lowest density left out of each M step, [0, 0.5] */
	/* Where to begin, instead of k-means++ (one start then): components × d means (each row
	 * goes to its nearest mean; weights and covariances are those of the groups, the means as
	 * given), or a mixture that was fitted before (its components, covariance and d). */
	const double *means;
	const struct gmm *warm;
	uint32_t threads; /* 0 = one for each CPU */
};

struct gmm {
	uint32_t d, components;
	enum gmm_covariance covariance;
	double *weights;     /* components, sum 1 */
	double *means;	     /* components × d */
	double *covariances; /* d × d for each component, also where diagonal or tied */
	/* What densities are computed with: inverse of the lower Cholesky factor, d × d for each,
	 * and log(weight), log of the normal density at the mean. */
	double *inverses;
	double *log_weights;
	double *log_peaks;
	/* Of the fit; kept in the model file */
	uint64_t rows;	     /* that took part, trimmed ones included */
	uint64_t rows_left;  /* that were not finite */
	uint64_t trimmed;    /* rows left out of the last M step */
	double log_density;  /* mean over the rows, natural logarithm */
	double bic;	     /* -2 rows log_density + parameters ln(rows): the lower the better */
	uint32_t iterations; /* of the start that was taken */
	bool converged;
};

/* Fits rows × d. -EINVAL: no finite row, or options out of range; -ENOMEM is not returned
 * (allocation ends the program). ret is written on success only; gmm_free it. Memory beside the
 * rows: less than a fifth of them (one number a row where trimmed). */
int gmm_fit(struct gmm *ret, const double *rows, size_t n, uint32_t d, const struct gmm_options *o,
	    struct err *e);

/* Fits 1..most components and keeps the mixture of the lowest BIC; o->components is not read.
 * bics: room for most values, or NULL; NaN where fewer different rows than components. */
int gmm_select(struct gmm *ret, const double *rows, size_t n, uint32_t d, uint32_t most,
	       const struct gmm_options *o, double *bics, struct err *e);

/* Makes inverses, log_weights and log_peaks of weights, means and covariances (d, components and
 * covariance are set; the three arrays are malloc'ed): for mixtures that come from a file.
 * -EINVAL with the sentence: weights that are negative or do not sum to 1, covariances that are
 * not symmetric and positive definite, numbers that are not finite. */
int gmm_complete(struct gmm *m, struct err *e);
void gmm_free(struct gmm *m);

/* log p(x) of n rows, natural logarithm. one thread. */
void gmm_log_density(const struct gmm *m, const double *rows, size_t n, double *ret);

/* log p(x | component) under the component where it is highest, weights not counted; ret_component
 * (may be NULL) is that component. What is below log(delta) is an anomaly by Algorithm 2 of
 * "eACGM" (IWQoS 2025). */
void gmm_likeliest(const struct gmm *m, const double *rows, size_t n, double *ret,
		   uint8_t *ret_component);

/* Which columns make a row unlikely. The component is the likeliest, weights counted; returns the
 * squared Mahalanobis distance to it. ret_columns, d values: by how much that distance falls when
 * the column alone is put to its expected value given the others; not negative. */
double gmm_explain(const struct gmm *m, const double *row, double *ret_columns,
		   uint32_t *ret_component);

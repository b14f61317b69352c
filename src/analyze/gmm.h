/* gmm.h - Gaussian mixtures: fitted by expectation-maximisation, and the density of rows under
 * them.
 *
 * A row is d doubles; rows lie one after the other. Does not know what the numbers mean, reads and
 * writes no file. Same rows, options and seed give the same mixture, to the bit, whatever the
 * number of threads: rows are summed up in blocks of GMM_BLOCK, blocks in at most 64 ranges that
 * depend on the number of rows alone, and all in order. CPUs with other vectors (AVX-512, AVX2,
 * neither) differ in the last bits.
 *
 * Rows that hold NaN, an infinity or a value beyond 1e100 take no part in a fit (they are counted).
 * Where there are fewer different rows than components, there are as many components as different
 * rows, one at each to begin with. Constant columns and duplicates: the floor keeps every
 * covariance positive definite; where it is lost in rounding, the variances are raised by the
 * least of 1e-14, 1e-13 ... of themselves that does. A component that loses all its rows keeps its
 * mean and covariance, with a weight near 0.
 *
 * What is computed in which order is that of scikit-learn's GaussianMixture, so that from the same
 * beginning both take the same iterations to the same mixture
 * (docs/developers/detection-mixtures.md).
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
				  * negative = 1e-6. With 0 no variance is below 1e-60 */
	double tolerance;	 /* ends when the mean log density changes by less; 0 = 1e-3 */
	uint32_t iterations;	 /* at most; 0 = 100 */
	double trim_ratio;	 /* the rows of lowest density left out of each M step, [0, 0.5] */
	/* Where to begin, instead of k-means++ (one start then): components × d means (each row
	 * goes to its nearest mean; weights and covariances are those of the groups, the means as
	 * given; a mean without rows gets the covariance of all rows and the weight of one), or a
	 * mixture that was fitted before (its components and covariance are taken, those above are
	 * not read). */
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
	uint64_t trimmed;    /* rows left out: trim_ratio of them, rounded down */
	double log_density;  /* mean over the rows that are not trimmed, natural logarithm */
	double bic;	     /* -2 n log_density + parameters ln(n), n rows not trimmed: the lower
			      * the better */
	uint32_t iterations; /* of the start that was taken */
	bool converged;
};

/* Fits rows × d. -EINVAL: no finite row, or options out of range; -ENOMEM is not returned
 * (allocation ends the program). ret is written on success only; gmm_free it. Memory beside the
 * rows does not grow with their number, but for eight bytes a row where trimmed: some 500 bytes ×
 * components × moments of a component (d²/2), and up to 6 MB for k-means++. */
int gmm_fit(struct gmm *ret, const double *rows, size_t n, uint32_t d, const struct gmm_options *o,
	    struct err *e);

/* Fits 1..most components and keeps the mixture of the lowest BIC; o->components is not read, means
 * and warm are refused. bics: room for most values, or NULL; NaN where fewer different rows than
 * components. Errors are those of gmm_fit. */
int gmm_select(struct gmm *ret, const double *rows, size_t n, uint32_t d, uint32_t most,
	       const struct gmm_options *o, double *bics, struct err *e);

/* Makes inverses, log_weights and log_peaks of weights, means and covariances (d, components and
 * covariance are set; the three arrays are malloc'ed): for mixtures that come from a file.
 * -EINVAL with the sentence: weights that are negative or do not sum to 1, covariances that are
 * not symmetric and positive definite, numbers that are not finite. */
int gmm_complete(struct gmm *m, struct err *e);
void gmm_free(struct gmm *m);

/* log p(x) of n rows, natural logarithm; one thread. NaN where a row is not finite, -infinity where
 * its distance is beyond what doubles hold. Absolute error below 1e-14 × (1 + |the result|), that
 * of the mixture's own numbers apart. */
void gmm_log_density(const struct gmm *m, const double *rows, size_t n, double *ret);

/* log p(x | component) under the component where it is highest, weights not counted; ret_component
 * (may be NULL) is that component, 0 where the result is not finite. What is below log(delta) is an
 * anomaly by Algorithm 2 of "eACGM" (IWQoS 2025). */
void gmm_likeliest(const struct gmm *m, const double *rows, size_t n, double *ret,
		   uint8_t *ret_component);

/* Which columns make a row unlikely. The component is the likeliest, weights counted; returns the
 * squared Mahalanobis distance to it. ret_columns, d values: by how much that distance falls when
 * the column alone is put to its expected value given the others; not negative. */
double gmm_explain(const struct gmm *m, const double *row, double *ret_columns,
		   uint32_t *ret_component);

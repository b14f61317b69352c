/* gmm_impl.h - what the files of the mixtures share: passes over the rows, the kernels that do the
 * work on tiles of rows, and small matrices.
 *
 * A pass is one way through all rows under one mixture. It makes the sums that the M step needs,
 * the density of every row, or both; nothing of the size rows × components is kept. */
#pragma once

#include "analyze/gmm.h"

/* Values beyond are taken for infinite: the squares of their distances must be numbers. */
#define GMM_LARGEST	   1e100
#define GMM_LEAST_VARIANCE 1e-60 /* where the floor is 0 */

/* Rows are summed up in so many ranges of blocks at most, whatever the number of threads, and the
 * ranges' sums are added in order. */
#define GMM_STRANDS 64

/* What a mixture is to a kernel. */
struct gmm_view {
	uint32_t d, components;
	bool diagonal;
	const double *means, *inverses;
	double peaks[GMM_MAX_K]; /* log density at the mean, and log(weight) where wanted */
};

/* Sums over rows, one component after the other: the sum of the responsibilities r; of r × (x - m),
 * d values, m being the mean of the view; of r × (x - m) (x - m)', the lower triangle by rows, or
 * the diagonal. */
static inline size_t gmm_moments(uint32_t d, bool diagonal)
{
	return 1 + d + (diagonal ? d : (size_t)d * (d + 1) / 2);
}

struct gmm_sums {
	double log_density; /* of the rows taken */
	uint64_t rows;
	double *moments; /* components × gmm_moments() */
};

enum gmm_score {
	GMM_MIXTURE,   /* the log of the sum over components; peaks hold the weights */
	GMM_LIKELIEST, /* the highest of the components */
};

/* One instruction set's way to do it. n is at most GMM_BLOCK. */
struct gmm_kernels {
	const char *name;
	/* Scores of rows, NaN where a row is not finite; components may be NULL. */
	void (*score)(const struct gmm_view *v, enum gmm_score what, const double *rows, size_t n,
		      double *ret, uint8_t *components);
	/* Adds to sums what the block's rows give. hard: a row belongs wholly to its likeliest
	 * component. Rows that are not finite are left out, and those whose kept[] is NaN (kept may
	 * be NULL). scratch: gmm_scratch_bytes(), aligned to 64. */
	void (*sum)(const struct gmm_view *v, bool hard, const double *rows, const double *kept,
		    size_t n, struct gmm_sums *sums, void *scratch);
	/* For tests: exp of values <= 0, log of values in [1, 2^52]; n a multiple of 64. */
	void (*exp_values)(double *values, size_t n);
	void (*log_values)(double *values, size_t n);
};

extern const struct gmm_kernels gmm_kernels_plain, gmm_kernels_avx2, gmm_kernels_avx512;

/* The best that this CPU has. level: 0 = any, 1 = AVX2 at most, 2 = plain; for tests. */
const struct gmm_kernels *gmm_kernels_here(unsigned level);

/* Bytes that gmm_kernels.sum needs for itself. */
size_t gmm_scratch_bytes(uint32_t d, uint32_t components, bool diagonal);

/* ---- passes (gmm_em.c) ---- */

struct gmm_rows {
	const struct gmm_kernels *kernels;
	const double *rows;
	size_t n;
	uint32_t d, threads;
	double trim_ratio;
	uint64_t finite;
	double *scores; /* n, where trimmed: NaN marks a row that is left out */
};

void gmm_view_of(struct gmm_view *ret, const struct gmm *m, bool weights);

/* Makes the sums of all rows under a view. Where trimmed, the rows of lowest score were marked
 * before. */
void gmm_sum_rows(const struct gmm_rows *r, const struct gmm_view *v, bool hard,
		  struct gmm_sums *ret);

/* Scores all rows and marks the share of the lowest, NaN. Returns how many were marked. Without
 * trim_ratio it does nothing. */
uint64_t gmm_trim_rows(const struct gmm_rows *r, const struct gmm_view *v, enum gmm_score what);

/* A component whose responsibilities sum up to less keeps its mean and covariance. */
#define GMM_FEWEST_ROWS 1e-10

/* The M step: weights, means and covariances of sums that were made around m's means. means_stay:
 * they are left as they are. Components without rows: see gmm.h. */
void gmm_maximise(struct gmm *m, const struct gmm_sums *s, double floor, bool means_stay);

/* ---- beginnings (gmm_init.c) ---- */

/* Gives m, which is allocated, parameters of groups of rows: around given means, or means of
 * k-means++ with this seed. */
void gmm_begin_means(struct gmm *m, const struct gmm_rows *r, const double *means, double floor);
void gmm_begin_seed(struct gmm *m, const struct gmm_rows *r, uint64_t seed, double floor);

/* Finite rows that differ, at most `most` of them; returns their number. ret_at: their places.
 * ret_finite: finite rows in all. */
uint32_t gmm_different_rows(const double *rows, size_t n, uint32_t d, uint32_t most, size_t *ret_at,
			    uint64_t *ret_finite);

static inline bool gmm_row_is_finite(const double *row, uint32_t d)
{
	bool ok = true;
	for (uint32_t j = 0; j < d; j++)
		ok &= row[j] <= GMM_LARGEST && row[j] >= -GMM_LARGEST;
	return ok;
}

/* ---- mixtures and small matrices (gmm_linear.c) ---- */

struct gmm gmm_alloc(uint32_t d, uint32_t components, enum gmm_covariance covariance);
struct gmm gmm_copy(const struct gmm *m);

/* Lower Cholesky factor of a, d × d, into ret (upper part zero). false: not positive definite. */
bool gmm_cholesky(const double *a, uint32_t d, double *ret);

/* inverses, log_weights and log_peaks of weights and covariances. A covariance that rounding keeps
 * from being positive definite has its variances raised by the least of 1e-14, 1e-13 ... of
 * themselves that mends it. */
void gmm_prepare(struct gmm *m);

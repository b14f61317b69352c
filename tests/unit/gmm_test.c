/* gmm_test.c - mixtures: what holds for every fit, and what comes of odd rows. How they compare
 * with another library is gmm_sklearn_test.c, the kernels are gmm_kernels_test.c.
 *
 * links: base analyze */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>

#include "analyze/gmm.h"
#include "base/buffer.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const kinds[] = GMM_COVARIANCE_NAMES;

/* ---- rows ---- */

static double uniform(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *state) /* Box and Muller 1958 */
{
	double r = sqrt(-2 * log(uniform(state)));
	return r * cos(6.283185307179586 * uniform(state));
}

/* n rows around k means that lie `apart` from each other in the first columns; neighbouring columns
 * are correlated. */
static double *blobs(size_t n, uint32_t d, uint32_t k, double apart, uint64_t seed)
{
	double *ret = xcalloc(n * d, sizeof(*ret));
	for (size_t i = 0; i < n; i++) {
		double last = 0;
		uint32_t of = (uint32_t)(uniform(&seed) * k), turn = 1 + of / d;
		for (uint32_t j = 0; j < d; j++) {
			last = normal(&seed) + 0.5 * last;
			ret[i * d + j] = last + (of % d == j ? apart * turn : 0);
		}
	}
	return ret;
}

/* Where blobs() has its means. */
static double *blob_means(uint32_t d, uint32_t k, double apart)
{
	double *ret = xcalloc((size_t)k * d, sizeof(*ret));
	for (uint32_t of = 0; of < k; of++) {
		uint32_t turn = 1 + of / d;
		ret[of * d + of % d] = apart * turn;
	}
	return ret;
}

static struct gmm fitted(const double *rows, size_t n, uint32_t d, const struct gmm_options *o)
{
	struct gmm m;
	struct err e = {0};
	if (gmm_fit(&m, rows, n, d, o, &e))
		fail_msg("%s", e.msg);
	return m;
}

static int fit_refused(const double *rows, size_t n, uint32_t d, const struct gmm_options *o)
{
	struct gmm m = {.d = 99};
	struct err e = {0};
	int rc = gmm_fit(&m, rows, n, d, o, &e);
	assert_int_equal(m.d, 99); /* untouched */
	assert_true(rc == 0 || e.msg[0]);
	return rc;
}

static void assert_same(const struct gmm *a, const struct gmm *b)
{
	size_t k = a->components, d = a->d;
	assert_int_equal(a->d, b->d);
	assert_int_equal(a->components, b->components);
	assert_int_equal(a->iterations, b->iterations);
	assert_int_equal(a->trimmed, b->trimmed);
	assert_memory_equal(a->weights, b->weights, k * sizeof(double));
	assert_memory_equal(a->means, b->means, k * d * sizeof(double));
	assert_memory_equal(a->covariances, b->covariances, k * d * d * sizeof(double));
	assert_memory_equal(a->inverses, b->inverses, k * d * d * sizeof(double));
	assert_memory_equal(&a->log_density, &b->log_density, sizeof(double));
	assert_memory_equal(&a->bic, &b->bic, sizeof(double));
}

static void assert_near(double got, double want, double by)
{
	if (!(fabs(got - want) <= by))
		fail_msg("%.17g is not within %g of %.17g", got, by, want);
}

/* Means in standard deviations, covariances in units of variances. */
static void assert_alike(const struct gmm *a, const struct gmm *b, double share)
{
	size_t d = a->d;
	for (size_t i = 0; i < a->components; i++) {
		const double *c = b->covariances + i * d * d;
		assert_near(a->weights[i], b->weights[i], share);
		for (size_t j = 0; j < d; j++) {
			assert_near(a->means[i * d + j], b->means[i * d + j],
				    share * sqrt(c[j * (d + 1)]));
			for (size_t l = 0; l < d; l++)
				assert_near(a->covariances[i * d * d + j * d + l], c[j * d + l],
					    share * sqrt(c[j * (d + 1)] * c[l * (d + 1)]));
		}
	}
}

/* All numbers are numbers, and gmm_complete takes the mixture and makes the same of it. */
static void assert_sound(const struct gmm *m)
{
	struct err e = {0};
	struct gmm again = *m;
	size_t k = m->components, d = m->d;
	double sum = 0;
	for (size_t i = 0; i < k; i++)
		sum += m->weights[i];
	assert_near(sum, 1, 1e-12);
	assert_true(isfinite(m->log_density));
	assert_true(isfinite(m->bic));
	again.inverses = again.log_weights = again.log_peaks = NULL;
	if (gmm_complete(&again, &e))
		fail_msg("%s", e.msg);
	assert_memory_equal(again.inverses, m->inverses, k * d * d * sizeof(double));
	assert_memory_equal(again.log_weights, m->log_weights, k * sizeof(double));
	assert_memory_equal(again.log_peaks, m->log_peaks, k * sizeof(double));
	free(again.inverses);
	free(again.log_weights);
	free(again.log_peaks);
}

/* ---- what holds for every fit ---- */

static void threads_change_nothing(void **state)
{
	(void)state;
	enum { N = 70001, D = 3, K = 4 };
	double *rows = blobs(N, D, K, 5, 1);
	rows[12345] = NAN;
	for (int trimmed = 0; trimmed < 2; trimmed++) {
		struct gmm_options o = {.components = K, .seed = 5, .threads = 1, .starts = 2};
		o.trim_ratio = trimmed ? 0.1 : 0;
		o.iterations = 6;
		struct gmm one = fitted(rows, N, D, &o);
		const uint32_t threads[] = {2, 4, 0};
		for (size_t i = 0; i < COUNT(threads); i++) {
			o.threads = threads[i];
			struct gmm m = fitted(rows, N, D, &o);
			assert_same(&m, &one);
			gmm_free(&m);
		}
		assert_int_equal(one.rows, N - 1);
		assert_int_equal(one.rows_left, 1);
		gmm_free(&one);
	}
	free(rows);
}

/* Without a floor each iteration is at least as likely as the one before, trimmed or not. */
static void likelihood_grows(void **state)
{
	(void)state;
	enum { N = 3000, D = 4, K = 5 };
	double *rows = blobs(N, D, K, 1.5, 2);
	for (int kind = 0; kind < GMM_COVARIANCES * 2; kind++) {
		struct gmm_options o = {.components = K, .seed = 7, .tolerance = 1e-15};
		double last = -INFINITY;
		o.covariance = (enum gmm_covariance)(kind / 2);
		o.trim_ratio = kind % 2 ? 0.2 : 0;
		for (o.iterations = 1; o.iterations < 25; o.iterations++) {
			struct gmm m = fitted(rows, N, D, &o);
			if (m.log_density < last - 1e-12)
				fail_msg("%s, iteration %u: %.17g after %.17g", kinds[o.covariance],
					 o.iterations, m.log_density, last);
			assert_false(m.converged);
			last = m.log_density;
			gmm_free(&m);
		}
	}
	free(rows);
}

static void order_does_not_matter(void **state)
{
	(void)state;
	enum { N = 2000, D = 3, K = 3 };
	double *rows = blobs(N, D, K, 3, 3), *means = blob_means(D, K, 3);
	double *turned = xcalloc(N * D, sizeof(*turned)), *other = xcalloc(K * D, sizeof(*other));
	for (size_t i = 0; i < N; i++)
		memcpy(turned + i * D, rows + (i * 7 + 11) % N * D, D * sizeof(double));
	for (size_t k = 0; k < K; k++)
		memcpy(other + k * D, means + (k + 1) % K * D, D * sizeof(double));
	struct gmm_options o = {.components = K, .means = means, .tolerance = 1e-9};
	struct gmm a = fitted(rows, N, D, &o), b = fitted(turned, N, D, &o);
	assert_alike(&b, &a, 1e-9);
	o.means = other;
	struct gmm c = fitted(rows, N, D, &o);
	for (size_t k = 0; k < K; k++) {
		assert_near(c.weights[k], a.weights[(k + 1) % K], 1e-9);
		for (size_t j = 0; j < D; j++)
			assert_near(c.means[k * D + j], a.means[(k + 1) % K * D + j], 1e-9);
	}
	gmm_free(&a);
	gmm_free(&b);
	gmm_free(&c);
	free(other);
	free(turned);
	free(means);
	free(rows);
}

/* Moments around the means: what lies a million deviations from 0 is as accurate. */
static void offsets_cost_nothing(void **state)
{
	(void)state;
	enum { N = 2000, D = 3, K = 3 };
	double *rows = blobs(N, D, K, 3, 4), *means = blob_means(D, K, 3);
	double *far = xcalloc(N * D, sizeof(*far)), *far_means = xcalloc(K * D, sizeof(*far));
	for (size_t i = 0; i < N * D; i++) {
		rows[i] = round(rows[i] * 0x1p20) / 0x1p20; /* so that the sum is exact */
		far[i] = rows[i] + 0x1p20;
	}
	for (size_t i = 0; i < K * D; i++)
		far_means[i] = means[i] + 0x1p20;
	for (int kind = 0; kind < GMM_COVARIANCES; kind++) {
		struct gmm_options o = {.components = K, .means = means, .tolerance = 1e-9};
		o.covariance = (enum gmm_covariance)kind;
		struct gmm a = fitted(rows, N, D, &o);
		o.means = far_means;
		struct gmm b = fitted(far, N, D, &o);
		for (size_t i = 0; i < K * D; i++)
			b.means[i] -= 0x1p20;
		assert_alike(&b, &a, 1e-8);
		assert_int_equal(a.iterations, b.iterations);
		gmm_free(&a);
		gmm_free(&b);
	}
	free(far_means);
	free(far);
	free(means);
	free(rows);
}

static void seeds_and_starts(void **state)
{
	(void)state;
	enum { N = 4000, D = 2, K = 6 };
	double *rows = blobs(N, D, K, 4, 5);
	struct gmm_options o = {.components = K, .seed = 9};
	struct gmm one = fitted(rows, N, D, &o), same = fitted(rows, N, D, &o);
	assert_same(&same, &one);
	o.starts = 8; /* the first of them is the one above */
	struct gmm best = fitted(rows, N, D, &o);
	assert_true(best.log_density >= one.log_density);
	o.starts = 1;
	o.seed = 10;
	struct gmm other = fitted(rows, N, D, &o);
	assert_memory_not_equal(other.means, one.means, sizeof(double) * K * D);
	assert_true(best.log_density >= other.log_density - 0.01);
	gmm_free(&one);
	gmm_free(&same);
	gmm_free(&best);
	gmm_free(&other);
	free(rows);
}

/* More rows than k-means++ looks at: the means are those of the blobs all the same. */
static void large_data_are_sampled(void **state)
{
	(void)state;
	enum { N = 100000, D = 2, K = 2 };
	double *rows = blobs(N, D, K, 8, 6), *means = blob_means(D, K, 8);
	for (size_t i = 0; i < N; i += 3)
		rows[i * D] = NAN; /* in the sample too */
	struct gmm_options o = {.components = K, .seed = 1};
	struct gmm m = fitted(rows, N, D, &o);
	bool turned = m.means[0] < m.means[D];
	for (size_t i = 0; i < K * D; i++)
		assert_near(m.means[turned ? (i + D) % (K * D) : i], means[i], 0.05);
	assert_int_equal(m.rows_left, (N + 2) / 3);
	gmm_free(&m);
	free(means);
	free(rows);
}

/* ---- warm starts ---- */

static void warm_goes_on(void **state)
{
	(void)state;
	enum { N = 3000, D = 3, K = 4 };
	double *rows = blobs(N, D, K, 2, 7);
	for (int kind = 0; kind < GMM_COVARIANCES; kind++) {
		struct gmm_options o = {.components = K, .seed = 2, .tolerance = 1e-15};
		o.covariance = (enum gmm_covariance)kind;
		o.iterations = 3;
		struct gmm first = fitted(rows, N, D, &o);
		o.iterations = 8;
		struct gmm whole = fitted(rows, N, D, &o);
		struct gmm_options rest = {.warm = &first, .tolerance = 1e-15, .iterations = 5};
		struct gmm second = fitted(rows, N, D, &rest);
		second.iterations += first.iterations;
		assert_same(&second, &whole);
		assert_int_equal(second.covariance, o.covariance);
		gmm_free(&first);
		gmm_free(&second);
		gmm_free(&whole);
	}
	free(rows);
}

/* The window moves on by a fifth: warm refits need fewer iterations than cold ones, end as likely,
 * and their components are the same ones. */
static void warm_follows_the_window(void **state)
{
	(void)state;
	enum { N = 10000, WINDOW = 5000, D = 3, K = 3 };
	double *rows = blobs(N, D, K, 2, 8);
	struct gmm_options o = {.components = K, .seed = 2, .tolerance = 1e-6};
	struct gmm now = fitted(rows, WINDOW, D, &o);
	uint32_t warm_iterations = 0, cold_iterations = 0;
	for (size_t at = 1000; at + WINDOW <= N; at += 1000) {
		struct gmm_options warm = {.warm = &now, .tolerance = 1e-6};
		const double *window = rows + at * D;
		struct gmm next = fitted(window, WINDOW, D, &warm);
		struct gmm cold = fitted(window, WINDOW, D, &o);
		warm_iterations += next.iterations;
		cold_iterations += cold.iterations;
		assert_near(next.log_density, cold.log_density, 1e-4);
		for (size_t i = 0; i < K * D; i++)
			assert_near(next.means[i], now.means[i], 0.3);
		gmm_free(&cold);
		gmm_free(&now);
		now = next;
	}
	assert_in_range(warm_iterations, 1, cold_iterations - 1);
	struct gmm_options wrong = {.warm = &now};
	assert_int_equal(fit_refused(rows, N, D + 1, &wrong), -EINVAL);
	gmm_free(&now);
	free(rows);
}

/* ---- trimming ---- */

static void trimming_ignores_outliers(void **state)
{
	(void)state;
	enum { N = 5000, D = 3, K = 2 };
	uint64_t seed = 77;
	double *rows = blobs(N, D, K, 10, 9), *means = blob_means(D, K, 10);
	for (size_t i = 0; i < N; i += 5) /* a fifth: slower by far, in all columns */
		for (uint32_t j = 0; j < D; j++)
			rows[i * D + j] = 30 + 60 * uniform(&seed);
	struct gmm_options o = {.components = K, .seed = 1, .starts = 4, .trim_ratio = 0.2};
	struct gmm m = fitted(rows, N, D, &o);
	bool turned = m.means[0] < m.means[D];
	assert_int_equal(m.trimmed, N / 5);
	assert_int_equal(m.rows, N);
	for (size_t i = 0; i < K * D; i++)
		assert_near(m.means[turned ? (i + D) % (K * D) : i], means[i], 0.15);
	for (size_t k = 0; k < K; k++) {
		assert_near(m.weights[k], 0.5, 0.03);
		assert_near(m.covariances[k * D * D], 1, 0.15);
	}
	assert_sound(&m);
	gmm_free(&m);
	o.trim_ratio = 0; /* the same rows without: a component goes to the outliers */
	struct gmm whole = fitted(rows, N, D, &o);
	double most = fmax(whole.covariances[0], whole.covariances[D * D]);
	assert_true(most > 100);
	assert_int_equal(whole.trimmed, 0);
	gmm_free(&whole);
	free(means);
	free(rows);
}

/* Exactly the share asked for is left out, where all rows are equally likely too. */
static void trimming_counts(void **state)
{
	(void)state;
	enum { N = 1000 };
	double rows[N];
	struct gmm_options o = {.components = 2, .trim_ratio = 0.25};
	for (size_t i = 0; i < N; i++)
		rows[i] = (double)(i % 2);
	rows[17] = INFINITY;
	struct gmm m = fitted(rows, N, 1, &o);
	assert_int_equal(m.trimmed, 249); /* of 999 */
	assert_int_equal(m.rows, 999);
	assert_sound(&m);
	gmm_free(&m);
	o.trim_ratio = 1e-9;
	m = fitted(rows, N, 1, &o);
	assert_int_equal(m.trimmed, 0);
	gmm_free(&m);
}

/* ---- odd rows ---- */

static void nothing_to_fit(void **state)
{
	(void)state;
	const double rows[] = {NAN, 1, INFINITY, 2, 3, -INFINITY, 1e101, 0};
	struct gmm_options o = {.components = 2};
	assert_int_equal(fit_refused(rows, 0, 2, &o), -EINVAL);
	assert_int_equal(fit_refused(NULL, 0, 2, &o), -EINVAL);
	assert_int_equal(fit_refused(rows, 4, 2, &o), -EINVAL);
	assert_int_equal(fit_refused(rows, 4, 0, &o), -EINVAL);
	assert_int_equal(fit_refused(rows, 0, GMM_MAX_D + 1, &o), -EINVAL);
}

static void odd_options_are_refused(void **state)
{
	(void)state;
	const double rows[] = {1, 2, 3, 4}, means[] = {1, NAN};
	const struct gmm_options bad[] = {
		{.components = 0},
		{.components = GMM_MAX_K + 1},
		{.components = 1, .covariance = GMM_COVARIANCES},
		{.components = 1, .trim_ratio = 0.51},
		{.components = 1, .trim_ratio = -0.1},
		{.components = 1, .trim_ratio = NAN},
		{.components = 1, .tolerance = -1},
		{.components = 1, .tolerance = NAN},
		{.components = 1, .covariance_floor = INFINITY},
		{.components = 1, .covariance_floor = NAN},
		{.components = 2, .means = means},
	};
	for (size_t i = 0; i < COUNT(bad); i++)
		if (fit_refused(rows, 4, 1, &bad[i]) != -EINVAL)
			fail_msg("options %zu are taken", i);
}

/* What is not finite is left out as if it were not there. */
static void odd_rows_are_left_out(void **state)
{
	(void)state;
	enum { N = 900, D = 2, K = 2 };
	const double odd[] = {NAN, INFINITY, -INFINITY, 2e100};
	double *rows = blobs(N, D, K, 4, 10), *means = blob_means(D, K, 4);
	double *with = xcalloc((N + N / 3) * D, sizeof(*with));
	size_t n = 0;
	for (size_t i = 0; i < N; i++) {
		memcpy(with + n++ * D, rows + i * D, D * sizeof(double));
		if (i % 3 == 0)
			with[n++ * D + i % D] = odd[i / 3 % 4];
	}
	struct gmm_options o = {.components = K, .means = means};
	struct gmm a = fitted(rows, N, D, &o), b = fitted(with, n, D, &o);
	assert_alike(&b, &a, 1e-12);
	assert_int_equal(b.rows, N);
	assert_int_equal(b.rows_left, N / 3);
	gmm_free(&a);
	gmm_free(&b);
	free(with);
	free(means);
	free(rows);
}

static void few_different_rows(void **state)
{
	(void)state;
	const double rows[] = {1, 1, 5, 5, 1, 1, 1, 1, -0.0, 2, 0.0, 2, 5, 5, 1, 1};
	for (int kind = 0; kind < GMM_COVARIANCES; kind++) {
		struct gmm_options o = {.components = 5, .covariance_floor = -1};
		o.covariance = (enum gmm_covariance)kind;
		struct gmm m = fitted(rows, 8, 2, &o);
		assert_int_equal(m.components, 3);
		assert_sound(&m);
		const double weights[] = {4. / 8, 2. / 8, 2. / 8};
		for (size_t k = 0; k < 3; k++)
			assert_near(m.weights[k], weights[k], 1e-9);
		assert_near(m.means[2], 5, 1e-9);
		assert_near(m.covariances[0], 1e-6, 1e-12);
		gmm_free(&m);
	}
}

static void one_row(void **state)
{
	(void)state;
	const double row[] = {3, 1e50, -2};
	struct gmm_options o = {.components = 4, .covariance_floor = 0.5, .starts = 3};
	struct gmm m = fitted(row, 1, 3, &o);
	assert_int_equal(m.components, 1);
	assert_near(m.means[1], 1e50, 1e35);
	assert_near(m.covariances[0], 0.5, 1e-15);
	assert_sound(&m);
	gmm_free(&m);
}

/* Columns without variance, linearly dependent ones, numbers of any size, with and without floor.
 */
static void singular_columns(void **state)
{
	(void)state;
	enum { N = 500, D = 4 };
	const double scales[] = {1, 1e9, 1e99 / 60, 1e-20, 1e-150};
	double *rows = blobs(N, D, 2, 8, 11);
	for (size_t i = 0; i < N; i++) {
		rows[i * D + 2] = 7;
		rows[i * D + 3] = rows[i * D] + rows[i * D + 1];
	}
	for (size_t s = 0; s < COUNT(scales) * GMM_COVARIANCES * 4; s++) {
		struct gmm_options o = {.components = 3, .seed = s};
		double *scaled = xcalloc(N * D, sizeof(*scaled));
		o.covariance = (enum gmm_covariance)(s % GMM_COVARIANCES);
		o.covariance_floor = s / GMM_COVARIANCES % 2 ? 0 : -1;
		o.trim_ratio = s / GMM_COVARIANCES / 2 % 2 ? 0.1 : 0;
		for (size_t i = 0; i < N * D; i++)
			scaled[i] = rows[i] * scales[s / GMM_COVARIANCES / 4];
		struct gmm m = fitted(scaled, N, D, &o);
		assert_sound(&m);
		assert_int_equal(m.components, 3);
		gmm_free(&m);
		free(scaled);
	}
	free(rows);
}

/* A given mean that no row is nearest to. */
static void lonely_means(void **state)
{
	(void)state;
	enum { N = 600, D = 2 };
	double *rows = blobs(N, D, 2, 8, 12);
	const double means[] = {8, 0, 0, 8, 1e6, 1e6};
	for (int kind = 0; kind < GMM_COVARIANCES; kind++) {
		struct gmm_options o = {.components = 3, .means = means};
		o.covariance = (enum gmm_covariance)kind;
		struct gmm m = fitted(rows, N, D, &o);
		assert_sound(&m);
		assert_int_equal(m.components, 3);
		assert_true(m.weights[2] < 1e-6);
		assert_near(m.weights[0], 0.5, 0.1);
		gmm_free(&m);
	}
	free(rows);
}

/* ---- the number of components ---- */

static void bic_finds_the_number(void **state)
{
	(void)state;
	enum { N = 3000, D = 3 };
	for (uint32_t k = 1; k <= 4; k++) {
		double *rows = blobs(N, D, k, 9, 13 + k), bics[6];
		struct gmm_options o = {.seed = 1, .starts = 4};
		struct err e = {0};
		struct gmm m;
		assert_int_equal(gmm_select(&m, rows, N, D, 6, &o, bics, &e), 0);
		assert_int_equal(m.components, k);
		for (size_t i = 0; i < 6; i++)
			assert_true(bics[i] >= m.bic);
		double parameters = k - 1 + k * 3 + k * 6;
		assert_near(m.bic, -2 * N * m.log_density + parameters * log(N), 1e-6);
		gmm_free(&m);
		free(rows);
	}
}

static void bic_of_few_rows(void **state)
{
	(void)state;
	const double rows[] = {1, 2, 1, 2, 1, 2, 9, 9};
	double bics[4];
	struct gmm_options o = {.covariance_floor = 0.1};
	struct gmm m = {.d = 99};
	struct err e = {0};
	assert_int_equal(gmm_select(&m, rows, 8, 1, 4, &o, bics, &e), 0);
	assert_true(isfinite(bics[0]) && isfinite(bics[2]));
	assert_true(isnan(bics[3]));
	assert_true(m.components <= 3);
	gmm_free(&m);
	m.d = 99;
	o.means = rows;
	assert_int_equal(gmm_select(&m, rows, 8, 1, 4, &o, bics, &e), -EINVAL);
	o.means = NULL;
	assert_int_equal(gmm_select(&m, rows, 8, 1, 0, &o, bics, &e), -EINVAL);
	assert_int_equal(gmm_select(&m, rows, 8, 1, GMM_MAX_K + 1, &o, NULL, &e), -EINVAL);
	assert_int_equal(gmm_select(&m, rows, 0, 1, 2, &o, NULL, &e), -EINVAL);
	assert_int_equal(m.d, 99);
}

/* ---- densities ---- */

/* A mixture of two columns with known densities. */
static struct gmm by_hand(void)
{
	static const double weights[] = {0.25, 0.75}, means[] = {0, 0, 10, -10};
	static const double covariances[] = {4, 1, 1, 2, 1, 0, 0, 9};
	struct gmm m = {.d = 2, .components = 2};
	m.weights = memcpy(xcalloc(2, 8), weights, sizeof(weights));
	m.means = memcpy(xcalloc(4, 8), means, sizeof(means));
	m.covariances = memcpy(xcalloc(8, 8), covariances, sizeof(covariances));
	return m;
}

/* By the determinant and the adjugate of the matrix. */
static double log_normal(const double *c, double x, double y)
{
	double det = c[0] * c[3] - c[1] * c[2];
	double distance = (c[3] * x * x - (c[1] + c[2]) * x * y + c[0] * y * y) / det;
	return -0.5 * distance - 0.5 * log(det) - log(6.283185307179586);
}

static void densities_are_right(void **state)
{
	(void)state;
	enum { N = 333 };
	struct gmm m = by_hand();
	struct err e = {0};
	double rows[N * 2], mixed[N], best[N];
	uint8_t of[N];
	uint64_t seed = 3;
	assert_int_equal(gmm_complete(&m, &e), 0);
	for (size_t i = 0; i < N * 2; i++)
		rows[i] = 8 * normal(&seed);
	gmm_log_density(&m, rows, N, mixed);
	gmm_likeliest(&m, rows, N, best, of);
	for (size_t i = 0; i < N; i++) {
		double x = rows[i * 2], y = rows[i * 2 + 1];
		double a = log_normal(m.covariances, x, y);
		double b = log_normal(m.covariances + 4, x - 10, y + 10);
		double most = fmax(a, b);
		double want = most + log(0.25 * exp(a - most) + 0.75 * exp(b - most));
		assert_near(mixed[i], want, 1e-13 * (1 + fabs(want)));
		assert_near(best[i], most, 1e-13 * (1 + fabs(most)));
		assert_int_equal(of[i], b > a);
	}
	gmm_free(&m);
}

static void odd_rows_have_defined_densities(void **state)
{
	(void)state;
	const double rows[] = {0,     0,      NAN,   0, 0,     INFINITY, -INFINITY, INFINITY,
			       1e300, -1e300, 1e200, 0, 1e120, 1e120,	 10,	    -10};
	double mixed[8], best[8];
	uint8_t of[8];
	struct gmm m = by_hand();
	struct err e = {0};
	assert_int_equal(gmm_complete(&m, &e), 0);
	gmm_log_density(&m, rows, 8, mixed);
	gmm_likeliest(&m, rows, 8, best, of);
	gmm_likeliest(&m, rows, 8, best, NULL);
	for (size_t i = 1; i < 4; i++) {
		assert_true(isnan(mixed[i]) && isnan(best[i]));
		assert_int_equal(of[i], 0);
	}
	for (size_t i = 4; i < 6; i++)
		assert_true(mixed[i] == -INFINITY && best[i] == -INFINITY);
	assert_true(best[6] < -1e230 && isfinite(best[6]));
	assert_int_equal(of[0], 0);
	assert_int_equal(of[7], 1);
	gmm_log_density(&m, rows, 0, mixed);
	gmm_free(&m);
}

/* Infinite terms of both signs: still far away, and not NaN. */
static void distances_beyond_doubles(void **state)
{
	(void)state;
	const double rows[] = {1.7e308, 1.7e308, 0, 0, -1.7e308, -1.7e308};
	struct gmm m = by_hand();
	struct err e = {0};
	double mixed[3], best[3];
	uint8_t of[3];
	for (size_t i = 0; i < 8; i++)
		m.covariances[i] *= 1e-4;
	assert_int_equal(gmm_complete(&m, &e), 0);
	gmm_log_density(&m, rows, 3, mixed);
	gmm_likeliest(&m, rows, 3, best, of);
	for (size_t i = 0; i < 3; i += 2) {
		assert_true(mixed[i] == -INFINITY && best[i] == -INFINITY);
		assert_int_equal(of[i], 0);
	}
	assert_true(isfinite(mixed[1]) && isfinite(best[1]));
	gmm_free(&m);
}

/* ---- explaining ---- */

static void explain_names_the_column(void **state)
{
	(void)state;
	enum { N = 4000, D = 5, K = 3 };
	double *rows = blobs(N, D, K, 6, 14);
	struct gmm_options o = {.components = K, .seed = 1, .starts = 3};
	struct gmm m = fitted(rows, N, D, &o);
	for (uint32_t moved = 0; moved < D; moved++) {
		double row[D], columns[D];
		uint32_t component;
		memcpy(row, m.means + 1 * D, sizeof(row));
		row[moved] += 5; /* the columns are correlated */
		double distance = gmm_explain(&m, row, columns, &component);
		assert_int_equal(component, 1);
		for (uint32_t j = 0; j < D; j++) {
			assert_true(columns[j] >= 0 && columns[j] <= distance * (1 + 1e-9));
			assert_true(j == moved || columns[j] < columns[moved]);
		}
		assert_near(columns[moved], distance, 1e-6 * distance);
	}
	gmm_free(&m);
	free(rows);
}

/* The distance with one column put elsewhere is never lower than what explain says. */
static void explain_is_the_least(void **state)
{
	(void)state;
	struct gmm m = by_hand();
	struct err e = {0};
	double row[] = {3, -2}, columns[2];
	uint32_t component;
	assert_int_equal(gmm_complete(&m, &e), 0);
	double distance = gmm_explain(&m, row, columns, &component);
	assert_int_equal(component, 0);
	assert_near(distance, (2 * 9 + 2 * 6 + 4 * 4) / 7.0, 1e-12);
	/* given -2 the first column is expected at 1 × -2 / 2, given 3 the second at 1 × 3 / 4 */
	assert_near(columns[0], distance - 4 / 2.0, 1e-12);
	assert_near(columns[1], distance - 9 / 4.0, 1e-12);
	row[0] = NAN;
	assert_true(isnan(gmm_explain(&m, row, columns, &component)));
	assert_true(isnan(columns[0]));
	gmm_free(&m);
}

/* ---- mixtures that come from elsewhere ---- */

static void complete_refuses(void **state)
{
	(void)state;
	static const struct {
		enum { WEIGHT, MEAN, COVARIANCE } what;
		size_t at;
		double value;
		enum gmm_covariance kind;
		const char *says;
	} bad[] = {
		{WEIGHT, 0, -0.25, GMM_FULL, "weight"},
		{WEIGHT, 0, NAN, GMM_FULL, "weight"},
		{WEIGHT, 0, 0.3, GMM_FULL, "sum"},
		{MEAN, 3, INFINITY, GMM_FULL, "mean of component 1"},
		{COVARIANCE, 4, NAN, GMM_FULL, "component 1 is not finite"},
		{COVARIANCE, 1, 1.1, GMM_FULL, "component 0 is not symmetric"},
		{COVARIANCE, 4, -1, GMM_FULL, "component 1 is not positive"},
		{COVARIANCE, 4, 0, GMM_FULL, "component 1 is not positive"},
		{COVARIANCE, 3, 0.25, GMM_FULL, "component 0 is not positive"},
		{COVARIANCE, 0, 4, GMM_DIAGONAL, "component 0 is not diagonal"},
		{COVARIANCE, 0, 4, GMM_TIED, "component 1 is not that of the first"},
	};
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct gmm m = by_hand();
		struct err e = {0};
		double *arrays[] = {m.weights, m.means, m.covariances};
		arrays[bad[i].what][bad[i].at] = bad[i].value;
		m.covariance = bad[i].kind;
		if (gmm_complete(&m, &e) != -EINVAL)
			fail_msg("%s: taken", bad[i].says);
		if (!strstr(e.msg, bad[i].says))
			fail_msg("'%s' does not say '%s'", e.msg, bad[i].says);
		assert_null(m.inverses);
		gmm_free(&m);
	}
}

static void complete_refuses_sizes(void **state)
{
	(void)state;
	const uint32_t sizes[][2] = {{0, 1}, {1, 0}, {GMM_MAX_D + 1, 1}, {1, GMM_MAX_K + 1}};
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct gmm m = {.d = sizes[i][0], .components = sizes[i][1]};
		struct err e = {0};
		assert_int_equal(gmm_complete(&m, &e), -EINVAL);
	}
	struct gmm m = by_hand();
	struct err e = {0};
	m.covariance = (enum gmm_covariance)7;
	assert_int_equal(gmm_complete(&m, &e), -EINVAL);
	gmm_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_change_nothing),
		cmocka_unit_test(likelihood_grows),
		cmocka_unit_test(order_does_not_matter),
		cmocka_unit_test(offsets_cost_nothing),
		cmocka_unit_test(seeds_and_starts),
		cmocka_unit_test(large_data_are_sampled),
		cmocka_unit_test(warm_goes_on),
		cmocka_unit_test(warm_follows_the_window),
		cmocka_unit_test(trimming_ignores_outliers),
		cmocka_unit_test(trimming_counts),
		cmocka_unit_test(nothing_to_fit),
		cmocka_unit_test(odd_options_are_refused),
		cmocka_unit_test(odd_rows_are_left_out),
		cmocka_unit_test(few_different_rows),
		cmocka_unit_test(one_row),
		cmocka_unit_test(singular_columns),
		cmocka_unit_test(lonely_means),
		cmocka_unit_test(bic_finds_the_number),
		cmocka_unit_test(bic_of_few_rows),
		cmocka_unit_test(densities_are_right),
		cmocka_unit_test(odd_rows_have_defined_densities),
		cmocka_unit_test(distances_beyond_doubles),
		cmocka_unit_test(explain_names_the_column),
		cmocka_unit_test(explain_is_the_least),
		cmocka_unit_test(complete_refuses),
		cmocka_unit_test(complete_refuses_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* gmm_kernels_test.c - the kernels of the mixtures that this CPU can run: exp and log against libm,
 * sums and scores against the same computed one row after the other, in long double.
 *
 * links: base analyze */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#include "analyze/gmm_impl.h"
#include "base/buffer.h"

enum { D = 5, K = 3, AREA = D * D };

static double uniform(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (double)(*state >> 11) * 0x1p-53;
}

/* Every set of kernels once. */
static void each_kernels(void (*test)(const struct gmm_kernels *k))
{
	const struct gmm_kernels *last = NULL;
	for (unsigned level = 0; level <= 2; level++) {
		const struct gmm_kernels *k = gmm_kernels_here(level);
		if (k != last)
			test(k);
		last = k;
	}
	assert_ptr_equal(last, &gmm_kernels_plain);
}

/* ---- exp and log ---- */

static void exp_of(const struct gmm_kernels *k)
{
	enum { N = 64 * 4096 };
	double *x = xcalloc(N, sizeof(*x)), *y = xcalloc(N, sizeof(*y));
	uint64_t seed = 4;
	for (size_t i = 0; i < N; i++)
		x[i] = i % 2 ? -690 * uniform(&seed) : -uniform(&seed);
	x[0] = 0;
	x[1] = -0.0;
	x[2] = -1e-300;
	x[3] = -700.5;
	x[4] = -1e300;
	x[5] = -INFINITY;
	x[6] = -0x1.62e42fefa39efp-2; /* -ln 2 / 2 */
	memcpy(y, x, N * sizeof(*y));
	k->exp_values(y, N);
	for (size_t i = 0; i < N; i++) {
		double want = x[i] < -700 ? 0 : exp(x[i]);
		if (fabs(y[i] - want) > 4e-16 * want)
			fail_msg("%s: exp(%.17g) is %.17g, not %.17g", k->name, x[i], y[i], want);
	}
	free(x);
	free(y);
}

static void log_of(const struct gmm_kernels *k)
{
	enum { N = 64 * 4096 };
	double *x = xcalloc(N, sizeof(*x)), *y = xcalloc(N, sizeof(*y));
	uint64_t seed = 5;
	for (size_t i = 0; i < N; i++)
		x[i] = i % 2 ? 1 + 63 * uniform(&seed) : 1 + uniform(&seed);
	x[0] = 1;
	x[1] = 1 + 0x1p-52;
	x[2] = 64;
	x[3] = 0x1.6a09e667f3bcdp0; /* the square root of 2, and what is beside it */
	x[4] = 0x1.6a09e667f3bccp0;
	memcpy(y, x, N * sizeof(*y));
	k->log_values(y, N);
	for (size_t i = 0; i < N; i++)
		if (fabs(y[i] - log(x[i])) > 1e-15)
			fail_msg("%s: log(%.17g) is %.17g, not %.17g", k->name, x[i], y[i],
				 log(x[i]));
	free(x);
	free(y);
}

static void exp_is_close(void **state)
{
	(void)state;
	each_kernels(exp_of);
}

static void log_is_close(void **state)
{
	(void)state;
	each_kernels(log_of);
}

/* ---- sums and scores ---- */

struct small {
	struct gmm_view view;
	double means[K * D], inverses[K * AREA];
	double rows[GMM_BLOCK * D], kept[GMM_BLOCK];
};

static struct small *small_make(bool diagonal)
{
	struct small *s = xcalloc(1, sizeof(*s));
	uint64_t seed = 6;
	for (size_t i = 0; i < K * D; i++)
		s->means[i] = 4 * uniform(&seed);
	for (size_t k = 0; k < K; k++)
		for (size_t i = 0; i < D; i++)
			for (size_t j = diagonal ? i : 0; j <= i; j++)
				s->inverses[k * AREA + i * D + j] =
					uniform(&seed) - (i == j ? -0.5 : 0.5);
	for (size_t i = 0; i < GMM_BLOCK * D; i++)
		s->rows[i] = 5 * uniform(&seed);
	for (size_t i = 0; i < GMM_BLOCK; i++) {
		s->kept[i] = i % 11 == 4 ? NAN : -1;
		if (i % 17 == 5)
			s->rows[i * D + i % D] = i % 2 ? INFINITY : NAN;
	}
	s->view = (struct gmm_view){.d = D,
				    .components = K,
				    .diagonal = diagonal,
				    .means = s->means,
				    .inverses = s->inverses,
				    .peaks = {-1, -2, -3}};
	return s;
}

/* Log densities of a row under the components, and of the mixture. */
static long double logs_of(const struct small *s, const double *row, long double *ret)
{
	long double sum = 0;
	for (size_t k = 0; k < K; k++) {
		long double distance = 0;
		for (size_t i = 0; i < D; i++) {
			long double y = 0;
			for (size_t j = 0; j <= i; j++)
				y += (long double)s->inverses[k * AREA + i * D + j] *
				     ((long double)row[j] - s->means[k * D + j]);
			distance += y * y;
		}
		ret[k] = s->view.peaks[k] - distance / 2;
		sum += expl(ret[k]);
	}
	return logl(sum);
}

static size_t likeliest_of(const long double *logs)
{
	size_t best = 0;
	for (size_t k = 1; k < K; k++)
		best = logs[k] > logs[best] ? k : best;
	return best;
}

static void moments_add(const struct small *s, const double *row, size_t k, long double r,
			long double *to)
{
	const double *mean = s->means + k * D;
	size_t each = gmm_moments(D, s->view.diagonal), at = k * each;
	to[at++] += r;
	for (size_t i = 0; i < D; i++)
		to[at++] += r * ((long double)row[i] - mean[i]);
	for (size_t i = 0; i < D; i++)
		for (size_t j = s->view.diagonal ? i : 0; j <= i; j++)
			to[at++] += r * ((long double)row[i] - mean[i]) *
				    ((long double)row[j] - mean[j]);
}

static void sums_check(const struct gmm_kernels *kernels, const struct small *s, size_t n,
		       bool hard, const double *kept)
{
	enum { MOST = K * (1 + D + D * (D + 1) / 2) };
	size_t count = K * gmm_moments(D, s->view.diagonal);
	long double want[MOST] = {0}, log_density = 0;
	double got[MOST];
	uint64_t rows = 0;
	for (size_t i = 0; i < n; i++) {
		const double *row = s->rows + i * D;
		long double logs[K];
		if (!gmm_row_is_finite(row, D) || (kept && isnan(kept[i])))
			continue;
		long double all = logs_of(s, row, logs);
		size_t best = likeliest_of(logs);
		for (size_t k = 0; k < K; k++)
			moments_add(s, row, k, hard ? k == best : expl(logs[k] - all), want);
		log_density += hard ? logs[best] : all;
		rows++;
	}
	for (size_t i = 0; i < count; i++)
		got[i] = 1; /* sums are added to what is there */
	struct gmm_sums sums = {.moments = got, .log_density = 3, .rows = 7};
	void *scratch = aligned_alloc(64, gmm_scratch_bytes(D, K, s->view.diagonal));
	kernels->sum(&s->view, hard, s->rows, kept, n, &sums, scratch);
	free(scratch);
	assert_int_equal(sums.rows, rows + 7);
	if (fabsl(sums.log_density - 3 - log_density) > 1e-11)
		fail_msg("%s: log density of %zu rows", kernels->name, n);
	for (size_t i = 0; i < count; i++)
		if (fabsl(got[i] - 1 - want[i]) > 1e-11)
			fail_msg("%s: moment %zu of %zu rows: %.17g, not %.17Lg", kernels->name, i,
				 n, got[i] - 1, want[i]);
}

static void scores_check(const struct gmm_kernels *kernels, const struct small *s, size_t n)
{
	double mixed[GMM_BLOCK + 1], best[GMM_BLOCK + 1];
	uint8_t of[GMM_BLOCK + 1];
	mixed[n] = best[n] = 99;
	of[n] = 99;
	kernels->score(&s->view, GMM_MIXTURE, s->rows, n, mixed, NULL);
	kernels->score(&s->view, GMM_LIKELIEST, s->rows, n, best, of);
	assert_true(mixed[n] == 99 && best[n] == 99 && of[n] == 99); /* nothing beyond the rows */
	for (size_t i = 0; i < n; i++) {
		long double logs[K], all = logs_of(s, s->rows + i * D, logs);
		size_t most = likeliest_of(logs);
		if (!gmm_row_is_finite(s->rows + i * D, D)) {
			assert_true(isnan(mixed[i]) && isnan(best[i]));
			continue;
		}
		assert_true(fabsl(mixed[i] - all) <= 1e-14L * (1 + fabsl(all)));
		assert_true(fabsl(best[i] - logs[most]) <= 1e-14L * (1 + fabsl(logs[most])));
		assert_int_equal(of[i], most);
	}
}

static void rows_of(const struct gmm_kernels *kernels)
{
	const size_t counts[] = {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 1000, GMM_BLOCK};
	for (int diagonal = 0; diagonal < 2; diagonal++) {
		struct small *s = small_make(diagonal);
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			for (int hard = 0; hard < 2; hard++) {
				sums_check(kernels, s, counts[i], hard, NULL);
				sums_check(kernels, s, counts[i], hard, s->kept);
			}
			scores_check(kernels, s, counts[i]);
		}
		free(s);
	}
}

static void rows_are_summed_and_scored(void **state)
{
	(void)state;
	each_kernels(rows_of);
}

/* Sizes at their limits: columns and components to the last one. */
static void widest_of(const struct gmm_kernels *kernels)
{
	enum { N = 200 };
	struct gmm m = gmm_alloc(GMM_MAX_D, GMM_MAX_K, GMM_FULL);
	struct gmm_view v;
	double rows[N * GMM_MAX_D], scores[N];
	uint8_t of[N];
	uint64_t seed = 8;
	for (size_t k = 0; k < GMM_MAX_K; k++) {
		m.weights[k] = 1.0 / GMM_MAX_K;
		for (size_t j = 0; j < GMM_MAX_D; j++) {
			m.means[k * GMM_MAX_D + j] = k == 63 ? 50 : uniform(&seed);
			m.covariances[(k * GMM_MAX_D + j) * GMM_MAX_D + j] = 1;
		}
	}
	gmm_prepare(&m);
	gmm_view_of(&v, &m, true);
	for (size_t i = 0; i < N * GMM_MAX_D; i++)
		rows[i] = 50 + uniform(&seed);
	kernels->score(&v, GMM_MIXTURE, rows, N, scores, of);
	for (size_t i = 0; i < N; i++) {
		double distance = 0;
		for (size_t j = 0; j < GMM_MAX_D; j++)
			distance += (rows[i * GMM_MAX_D + j] - 50) * (rows[i * GMM_MAX_D + j] - 50);
		double want = -log(64) - 8 * log(6.283185307179586) - distance / 2;
		assert_true(fabs(scores[i] - want) < 1e-12);
		assert_int_equal(of[i], 63);
	}
	struct gmm_sums sums = {
		.moments = xcalloc(GMM_MAX_K * gmm_moments(GMM_MAX_D, false), sizeof(double))};
	void *scratch = aligned_alloc(64, gmm_scratch_bytes(GMM_MAX_D, GMM_MAX_K, false));
	kernels->sum(&v, false, rows, NULL, N, &sums, scratch);
	assert_true(fabs(sums.moments[63 * gmm_moments(GMM_MAX_D, false)] - N) < 1e-9);
	free(scratch);
	free(sums.moments);
	gmm_free(&m);
}

static void limits_are_reached(void **state)
{
	(void)state;
	each_kernels(widest_of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exp_is_close),
		cmocka_unit_test(log_is_close),
		cmocka_unit_test(rows_are_summed_and_scored),
		cmocka_unit_test(limits_are_reached),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* gmm_init.c - where a fit begins: groups of rows around means that are given, or that k-means++
 * and a few rounds of k-means find in a sample of the rows.
 *
 * k-means++ looks at columns in units of their standard deviation. Where rows are to be trimmed,
 * the share of them that is farthest from all means cannot become a mean and moves none. */
#include "analyze/gmm_impl.h"

#include <math.h>

#include "base/buffer.h"
#include "base/random.h"
#include "base/stats.h"

#define SAMPLE_ROWS 32768
#define ROUNDS	    10 /* of k-means, at most */

uint32_t gmm_different_rows(const double *rows, size_t n, uint32_t d, uint32_t most, size_t *ret_at,
			    uint64_t *ret_finite)
{
	uint32_t found = 0;
	*ret_finite = 0;
	for (size_t i = 0; i < n; i++) {
		const double *row = rows + i * d;
		bool known = false;
		if (!gmm_row_is_finite(row, d))
			continue;
		++*ret_finite;
		for (uint32_t k = 0; k < found && !known && found < most; k++) {
			known = true;
			for (uint32_t j = 0; j < d; j++)
				known &= rows[ret_at[k] * d + j] == row[j];
		}
		if (!known && found < most)
			ret_at[found++] = i;
	}
	return found;
}

/* ---- groups ---- */

/* Makes densities mean distances: equal peaks, and columns in units of scales. */
static void view_of_means(struct gmm *m, const double *scales, struct gmm_view *ret)
{
	size_t area = (size_t)m->d * m->d;
	memset(m->inverses, 0, area * m->components * sizeof(double));
	for (uint32_t k = 0; k < m->components; k++)
		for (uint32_t j = 0; j < m->d; j++)
			m->inverses[k * area + j * m->d + j] = scales ? 1 / scales[j] : 1;
	*ret = (struct gmm_view){
		.d = m->d,
		.components = m->components,
		.diagonal = true,
		.means = m->means,
		.inverses = m->inverses,
	};
}

/* A component that has no rows starts with the covariance of all, and the weight of one. */
static void lonely_widen(struct gmm *m, const struct gmm_rows *r, const struct gmm_sums *s,
			 double floor)
{
	size_t each = gmm_moments(m->d, m->covariance == GMM_DIAGONAL);
	size_t area = (size_t)m->d * m->d;
	uint32_t lonely = 0;
	for (uint32_t k = 0; k < m->components; k++)
		lonely += !(s->moments[k * each] > 0);
	if (!lonely)
		return;
	struct gmm whole = gmm_alloc(m->d, 1, m->covariance);
	struct gmm_sums sums = {.moments = xcalloc(each, sizeof(double))};
	struct gmm_view v;
	memcpy(whole.means, m->means, m->d * sizeof(double));
	for (int i = 0; i < 2; i++) { /* around any mean, then around that of all */
		view_of_means(&whole, NULL, &v);
		v.diagonal = m->covariance == GMM_DIAGONAL;
		gmm_sum_rows(r, &v, true, &sums);
		gmm_maximise(&whole, &sums, floor, false);
	}
	double rows = (double)s->rows;
	for (uint32_t k = 0; k < m->components; k++) {
		bool has = s->moments[k * each] > 0;
		if (!has && m->covariance != GMM_TIED)
			memcpy(m->covariances + k * area, whole.covariances, area * sizeof(double));
		m->weights[k] = (has ? m->weights[k] * rows : 1) / (rows + lonely);
	}
	free(sums.moments);
	gmm_free(&whole);
}

/* Parameters of the groups of rows nearest to m's means. */
static void groups_take(struct gmm *m, const struct gmm_rows *r, const double *scales,
			bool means_stay, double floor)
{
	struct gmm_view v;
	bool diagonal = m->covariance == GMM_DIAGONAL;
	struct gmm_sums s = {
		.moments = xcalloc(gmm_moments(m->d, diagonal) * m->components, sizeof(double))};
	view_of_means(m, scales, &v);
	gmm_trim_rows(r, &v, GMM_LIKELIEST);
	v.diagonal = diagonal; /* says which moments are made; the inverses are diagonal anyhow */
	gmm_sum_rows(r, &v, true, &s);
	gmm_maximise(m, &s, floor, means_stay);
	lonely_widen(m, r, &s, floor);
	gmm_prepare(m);
	free(s.moments);
}

void gmm_begin_means(struct gmm *m, const struct gmm_rows *r, const double *means, double floor)
{
	memcpy(m->means, means, sizeof(*means) * m->components * m->d);
	groups_take(m, r, NULL, true, floor);
}

/* ---- k-means++ ---- */

static double random_share(uint64_t *state) /* [0, 1) */
{
	return (double)(random_next(state) >> 11) * 0x1p-53;
}

struct sample {
	struct gmm_rows rows;
	double *copy; /* NULL: the sample is all rows */
	double *distances, *nearest;
	uint8_t *groups;
	double scales[GMM_MAX_D];
	uint64_t random;
};

/* One row at random of each of as many equal ranges of rows. */
static void sample_take(struct sample *s, const struct gmm_rows *r)
{
	uint32_t d = r->d;
	s->rows = (struct gmm_rows){
		.kernels = r->kernels, .rows = r->rows, .n = r->n, .d = d, .threads = r->threads};
	s->rows.trim_ratio = r->trim_ratio;
	if (r->n <= 2 * SAMPLE_ROWS)
		return;
	s->copy = xcalloc((size_t)SAMPLE_ROWS * d, sizeof(double));
	s->rows.rows = s->copy;
	s->rows.n = SAMPLE_ROWS;
	for (size_t i = 0; i < SAMPLE_ROWS; i++) {
		double at = ((double)i + random_share(&s->random)) / SAMPLE_ROWS;
		memcpy(s->copy + i * d, r->rows + (size_t)(at * (double)r->n) * d,
		       d * sizeof(double));
	}
}

/* Standard deviations of the columns; 1 where there is none. */
static void sample_scale(struct sample *s)
{
	const struct gmm_rows *r = &s->rows;
	double means[GMM_MAX_D] = {0}, squares[GMM_MAX_D] = {0}, count = 0;
	for (size_t i = 0; i < r->n; i++) {
		const double *row = r->rows + i * r->d;
		if (!gmm_row_is_finite(row, r->d))
			continue;
		count++;
		for (uint32_t j = 0; j < r->d; j++) {
			double off = row[j] - means[j];
			means[j] += off / count;
			squares[j] += off * (row[j] - means[j]);
		}
	}
	for (uint32_t j = 0; j < r->d; j++) {
		double deviation = count ? sqrt(squares[j] / count) : 0;
		s->scales[j] = deviation > 1e-30 && isfinite(deviation) ? deviation : 1;
	}
}

/* Squared distances of the sample's rows to one mean; rows that are not finite, and where rows are
 * trimmed the farthest, get 0. */
static void distances_to(const struct sample *s, const double *mean, double *ret)
{
	const struct gmm_rows *r = &s->rows;
	double inverse[GMM_MAX_D * GMM_MAX_D] = {0};
	struct gmm_view v = {
		.d = r->d, .components = 1, .diagonal = true, .means = mean, .inverses = inverse};
	for (uint32_t j = 0; j < r->d; j++)
		inverse[j * r->d + j] = 1 / s->scales[j];
	for (size_t at = 0; at < r->n; at += GMM_BLOCK)
		r->kernels->score(&v, GMM_LIKELIEST, r->rows + at * r->d,
				  r->n - at < GMM_BLOCK ? r->n - at : GMM_BLOCK, ret + at, NULL);
	for (size_t i = 0; i < r->n; i++) {
		bool finite = gmm_row_is_finite(r->rows + i * r->d, r->d);
		ret[i] = finite ? -2 * ret[i] : 0;
	}
}

/* The distance that the share of rows to be trimmed lies beyond. */
static double distance_bound(const struct sample *s)
{
	const struct gmm_rows *r = &s->rows;
	if (r->trim_ratio <= 0)
		return INFINITY;
	double *sorted = xcalloc(r->n, sizeof(*sorted));
	memcpy(sorted, s->nearest, r->n * sizeof(*sorted));
	stats_sort(sorted, r->n);
	double bound = stats_quantile_sorted(sorted, r->n, 1 - r->trim_ratio);
	free(sorted);
	return bound;
}

/* A row drawn with a chance that grows with the square of its distance to the nearest mean. */
static size_t row_draw(struct sample *s, double bound)
{
	const struct gmm_rows *r = &s->rows;
	double sum = 0;
	size_t last = 0;
	for (size_t i = 0; i < r->n; i++)
		sum += s->nearest[i] <= bound ? s->nearest[i] : 0;
	double at = random_share(&s->random) * sum;
	for (size_t i = 0; i < r->n; i++) {
		if (!(s->nearest[i] > 0) || s->nearest[i] > bound)
			continue;
		last = i;
		at -= s->nearest[i];
		if (at < 0)
			break;
	}
	return last;
}

/* What distances would sum up to with one more mean. */
static double cost_with(const struct sample *s, double bound)
{
	double cost = 0;
	for (size_t i = 0; i < s->rows.n; i++) {
		double x = s->distances[i] < s->nearest[i] ? s->distances[i] : s->nearest[i];
		cost += x < bound ? x : bound;
	}
	return cost;
}

/* The best of a few draws is taken for each mean. */
static void means_draw(struct sample *s, struct gmm *m)
{
	const struct gmm_rows *r = &s->rows;
	uint32_t d = r->d, tries = 2 + (uint32_t)log(m->components);
	for (size_t i = 0; i < r->n; i++) /* the first: any finite row */
		s->nearest[i] = gmm_row_is_finite(r->rows + i * d, d) ? 1 : 0;
	for (uint32_t k = 0; k < m->components; k++) {
		double least = INFINITY, bound = k ? distance_bound(s) : INFINITY;
		size_t best = 0;
		for (uint32_t i = 0; i < (k ? tries : 1); i++) {
			size_t at = row_draw(s, bound);
			distances_to(s, r->rows + at * d, s->distances);
			double cost = k ? cost_with(s, bound) : 0;
			if (cost < least) {
				least = cost;
				best = at;
			}
		}
		memcpy(m->means + (size_t)k * d, r->rows + best * d, d * sizeof(double));
		distances_to(s, r->rows + best * d, s->distances);
		for (size_t i = 0; i < r->n; i++)
			if (!k || s->distances[i] < s->nearest[i])
				s->nearest[i] = s->distances[i];
	}
}

/* One round of k-means on the sample: true when a mean moved. */
static bool means_move(struct sample *s, struct gmm *m)
{
	struct gmm_view v;
	size_t each = gmm_moments(m->d, true);
	struct gmm_sums sums = {.moments = xcalloc(each * m->components, sizeof(double))};
	bool moved = false;
	view_of_means(m, s->scales, &v);
	gmm_trim_rows(&s->rows, &v, GMM_LIKELIEST);
	gmm_sum_rows(&s->rows, &v, true, &sums);
	for (uint32_t k = 0; k < m->components; k++) {
		const double *moments = sums.moments + k * each;
		for (uint32_t j = 0; j < m->d && moments[0] > 0; j++) {
			double by = moments[1 + j] / moments[0];
			m->means[(size_t)k * m->d + j] += by;
			moved |= fabs(by) > 1e-3 * s->scales[j];
		}
	}
	free(sums.moments);
	return moved;
}

static void sample_count(struct sample *s)
{
	s->rows.finite = 0;
	for (size_t i = 0; i < s->rows.n; i++)
		s->rows.finite += gmm_row_is_finite(s->rows.rows + i * s->rows.d, s->rows.d);
}

void gmm_begin_seed(struct gmm *m, const struct gmm_rows *r, uint64_t seed, double floor)
{
	struct sample s = {.random = seed};
	sample_take(&s, r);
	sample_scale(&s);
	sample_count(&s);
	s.distances = xcalloc(s.rows.n, sizeof(double));
	s.nearest = xcalloc(s.rows.n, sizeof(double));
	if (r->trim_ratio > 0)
		s.rows.scores = xcalloc(s.rows.n, sizeof(double));
	means_draw(&s, m);
	for (int i = 0; i < ROUNDS && means_move(&s, m); i++)
		;
	free(s.rows.scores);
	free(s.nearest);
	free(s.distances);
	free(s.copy);
	groups_take(m, r, s.scales, false, floor);
}

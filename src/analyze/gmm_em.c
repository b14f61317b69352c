/* gmm_em.c - expectation and maximisation: the passes over all rows, by threads, and the M step.
 *
 * E and M are one pass: a block's responsibilities are used up where they were made. Moments are
 * taken around the means of before the step, which keeps them accurate where columns have large
 * offsets or components lie far apart. */
#include "analyze/gmm_impl.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/buffer.h"

#define ROWS_A_THREAD 16384 /* fewer are not worth starting one */

const struct gmm_kernels *gmm_kernels_here(unsigned level)
{
#ifdef __x86_64__
	if (level == 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
		return &gmm_kernels_avx512;
	if (level <= 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &gmm_kernels_avx2;
#endif
	(void)level;
	return &gmm_kernels_plain;
}

size_t gmm_scratch_bytes(uint32_t d, uint32_t components, bool diagonal)
{
	/* a tile of log densities and one vector for each moment, of the widest kernels */
	return components * (8 + gmm_moments(d, diagonal)) * 64;
}

void gmm_view_of(struct gmm_view *ret, const struct gmm *m, bool weights)
{
	*ret = (struct gmm_view){
		.d = m->d,
		.components = m->components,
		.diagonal = m->covariance == GMM_DIAGONAL,
		.means = m->means,
		.inverses = m->inverses,
	};
	for (uint32_t k = 0; k < m->components; k++)
		ret->peaks[k] = m->log_peaks[k] + (weights ? m->log_weights[k] : 0);
}

/* ---- all rows, by strands ---- */

struct strands {
	const struct gmm_rows *rows;
	const struct gmm_view *view;
	size_t blocks, count; /* of strands */
	_Atomic size_t next;
	/* A block of len rows from row `at` on, which is of this strand. */
	void (*work)(struct strands *s, size_t strand, size_t at, size_t len, void *scratch);
	size_t scratch_bytes;
	/* of gmm_sum_rows */
	bool hard;
	struct gmm_sums *sums;
	/* of gmm_trim_rows */
	enum gmm_score what;
};

static void strand_take(struct strands *s, size_t strand, void *scratch)
{
	size_t at = strand * s->blocks / s->count * GMM_BLOCK;
	size_t end = (strand + 1) * s->blocks / s->count * GMM_BLOCK;
	end = end < s->rows->n ? end : s->rows->n;
	for (; at < end; at += GMM_BLOCK)
		s->work(s, strand, at, end - at < GMM_BLOCK ? end - at : GMM_BLOCK, scratch);
}

static void *strands_take(void *arg)
{
	struct strands *s = arg;
	uint8_t *memory = s->scratch_bytes ? xcalloc(s->scratch_bytes + 64, 1) : NULL;
	void *scratch = memory ? memory + 64 - (uintptr_t)memory % 64 : NULL;
	for (;;) {
		size_t strand = atomic_fetch_add(&s->next, 1);
		if (strand >= s->count)
			break;
		strand_take(s, strand, scratch);
	}
	free(memory);
	return NULL;
}

static size_t threads_wanted(const struct gmm_rows *r, size_t strands)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t most = r->n / ROWS_A_THREAD + 1, n = r->threads;
	if (!n)
		n = cpus > 0 ? (size_t)cpus : 1;
	n = n < most ? n : most;
	return n < strands ? n : strands;
}

static void strands_run(struct strands *s)
{
	pthread_t ids[GMM_STRANDS];
	size_t n = threads_wanted(s->rows, s->count), started = 0;
	while (started + 1 < n && !pthread_create(&ids[started], NULL, strands_take, s))
		started++;
	strands_take(s);
	for (size_t i = 0; i < started; i++)
		pthread_join(ids[i], NULL);
}

static void strands_divide(struct strands *s, const struct gmm_rows *r)
{
	s->rows = r;
	s->blocks = (r->n + GMM_BLOCK - 1) / GMM_BLOCK;
	s->count = s->blocks < GMM_STRANDS ? s->blocks : GMM_STRANDS;
}

static void block_sum(struct strands *s, size_t strand, size_t at, size_t len, void *scratch)
{
	const struct gmm_rows *r = s->rows;
	r->kernels->sum(s->view, s->hard, r->rows + at * r->d, r->scores ? r->scores + at : NULL,
			len, &s->sums[strand], scratch);
}

void gmm_sum_rows(const struct gmm_rows *r, const struct gmm_view *v, bool hard,
		  struct gmm_sums *ret)
{
	struct strands s = {.view = v, .hard = hard, .work = block_sum};
	struct gmm_sums sums[GMM_STRANDS];
	size_t each = gmm_moments(v->d, v->diagonal) * v->components;
	strands_divide(&s, r);
	s.sums = sums;
	s.scratch_bytes = gmm_scratch_bytes(v->d, v->components, v->diagonal);
	double *moments = xcalloc(each * s.count, sizeof(*moments));
	for (size_t i = 0; i < s.count; i++)
		sums[i] = (struct gmm_sums){.moments = moments + i * each};
	strands_run(&s);
	ret->log_density = 0;
	ret->rows = 0;
	memset(ret->moments, 0, each * sizeof(*ret->moments));
	for (size_t i = 0; i < s.count; i++) {
		ret->log_density += sums[i].log_density;
		ret->rows += sums[i].rows;
		for (size_t j = 0; j < each; j++)
			ret->moments[j] += sums[i].moments[j];
	}
	free(moments);
}

/* ---- trimming ---- */

static void block_score(struct strands *s, size_t strand, size_t at, size_t len, void *scratch)
{
	const struct gmm_rows *r = s->rows;
	(void)strand;
	(void)scratch;
	r->kernels->score(s->view, s->what, r->rows + at * r->d, len, r->scores + at, NULL);
	for (size_t i = at; i < at + len; i++)
		if (!gmm_row_is_finite(r->rows + i * r->d, r->d))
			r->scores[i] = NAN;
}

/* Doubles in their order as unsigned integers. */
static uint64_t ordered(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof(bits));
	return bits >> 63 ? ~bits : bits | 1ULL << 63;
}

#define DIGIT_BITS_MOST 16
/* Of fewer it takes longer to clear as many counts than to read the rows twice as often. */
#define FEW_ROWS 65536

/* The value that `below` others precede in order, NaN left out: a digit of it at a time, so that
 * nothing is copied. ret_less: how many are less than it. */
static uint64_t select_ordered(const double *values, size_t n, uint64_t below, uint64_t *ret_less)
{
	uint64_t found = 0, less = 0;
	int bits = n < FEW_ROWS ? DIGIT_BITS_MOST / 2 : DIGIT_BITS_MOST;
	uint32_t last = (1U << bits) - 1;
	uint64_t *counts = xcalloc(last + 1, sizeof(*counts));
	for (int shift = 64 - bits; shift >= 0; shift -= bits) {
		uint64_t mask = shift == 64 - bits ? 0 : ~0ULL << (shift + bits);
		uint32_t at = 0;
		memset(counts, 0, (last + 1) * sizeof(*counts));
		for (size_t i = 0; i < n; i++) {
			uint64_t x = ordered(values[i]);
			if (!isnan(values[i]) && (x & mask) == found)
				counts[x >> shift & last]++;
		}
		while (at < last && less + counts[at] <= below)
			less += counts[at++];
		found |= (uint64_t)at << shift;
	}
	free(counts);
	*ret_less = less;
	return found;
}

uint64_t gmm_trim_rows(const struct gmm_rows *r, const struct gmm_view *v, enum gmm_score what)
{
	struct strands s = {.view = v, .what = what, .work = block_score};
	uint64_t left_out = (uint64_t)((double)r->finite * r->trim_ratio), less;
	if (!r->scores)
		return 0;
	strands_divide(&s, r);
	strands_run(&s);
	if (!left_out)
		return 0;
	uint64_t bound = select_ordered(r->scores, r->n, left_out, &less);
	/* of those that are equal to the bound, the first ones are left out */
	uint64_t equals = left_out - less;
	for (size_t i = 0; i < r->n; i++) {
		uint64_t x = ordered(r->scores[i]);
		if (isnan(r->scores[i]) || x > bound)
			continue;
		if (x == bound && !equals)
			continue;
		equals -= x == bound;
		r->scores[i] = NAN;
	}
	return left_out;
}

/* ---- the M step ---- */

/* The covariance of one component's sums, d × d, around its own mean; times its rows. */
static void scatter_of(const double *moments, uint32_t d, bool diagonal, double *ret)
{
	double rows = moments[0];
	const double *first = moments + 1, *second = first + d;
	memset(ret, 0, sizeof(*ret) * d * d);
	for (uint32_t i = 0; i < d; i++)
		for (uint32_t j = diagonal ? i : 0; j <= i; j++)
			ret[i * d + j] = ret[j * d + i] = *second++ - first[i] * first[j] / rows;
}

static void variances_raise(double *c, uint32_t d, double floor)
{
	for (uint32_t i = 0; i < d; i++) {
		double *v = &c[i * d + i];
		*v = (*v > 0 ? *v : 0) + floor; /* rounding can leave less than 0 */
		*v = *v > GMM_LEAST_VARIANCE ? *v : GMM_LEAST_VARIANCE;
	}
}

static void covariances_set(struct gmm *m, const struct gmm_sums *s, double floor)
{
	uint32_t d = m->d, k;
	bool diagonal = m->covariance == GMM_DIAGONAL;
	size_t area = (size_t)d * d, each = gmm_moments(d, diagonal);
	double one[GMM_MAX_D * GMM_MAX_D], all[GMM_MAX_D * GMM_MAX_D] = {0}, rows = 0;
	for (k = 0; k < m->components; k++) {
		const double *moments = s->moments + k * each;
		double *c = m->covariances + k * area;
		if (!(moments[0] > GMM_FEWEST_ROWS))
			continue;
		scatter_of(moments, d, diagonal, one);
		rows += moments[0];
		for (size_t i = 0; i < area; i++) {
			all[i] += one[i];
			c[i] = one[i] / moments[0];
		}
		variances_raise(c, d, floor);
	}
	if (m->covariance != GMM_TIED)
		return;
	for (size_t i = 0; i < area; i++)
		all[i] /= rows;
	variances_raise(all, d, floor);
	for (k = 0; k < m->components; k++)
		memcpy(m->covariances + k * area, all, area * sizeof(*all));
}

void gmm_maximise(struct gmm *m, const struct gmm_sums *s, double floor, bool means_stay)
{
	uint32_t d = m->d;
	size_t each = gmm_moments(d, m->covariance == GMM_DIAGONAL);
	double all = 0;
	for (uint32_t k = 0; k < m->components; k++) {
		const double *moments = s->moments + k * each;
		/* a weight of 0 could never grow again */
		m->weights[k] = moments[0] + 10 * DBL_EPSILON;
		all += m->weights[k];
		if (means_stay || !(moments[0] > GMM_FEWEST_ROWS))
			continue;
		for (uint32_t j = 0; j < d; j++)
			m->means[k * d + j] += moments[1 + j] / m->weights[k];
	}
	for (uint32_t k = 0; k < m->components; k++)
		m->weights[k] /= all;
	covariances_set(m, s, floor);
}

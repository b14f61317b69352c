/* gmm.c - fits a mixture: checks what is asked for, runs the starts, keeps the best; chooses the
 * number of components by BIC. */
#include "analyze/gmm.h"

#include <errno.h>
#include <math.h>

#include "analyze/gmm_impl.h"
#include "base/buffer.h"

#define DEFAULT_FLOOR	   1e-6
#define DEFAULT_TOLERANCE  1e-3
#define DEFAULT_ITERATIONS 100

static int options_check(const struct gmm_options *o, uint32_t d, struct err *e)
{
	if (!d || d > GMM_MAX_D)
		return err_set(e, EINVAL, "%u columns: a mixture has 1 to %d", d, GMM_MAX_D);
	if (!o->warm && (!o->components || o->components > GMM_MAX_K))
		return err_set(e, EINVAL, "%u components: a mixture has 1 to %d", o->components,
			       GMM_MAX_K);
	if ((unsigned)o->covariance >= GMM_COVARIANCES)
		return err_set(e, EINVAL, "no such kind of covariance: %d", (int)o->covariance);
	if (!(o->trim_ratio >= 0 && o->trim_ratio <= 0.5))
		return err_set(e, EINVAL, "trimmed share %g: it is from 0 to 0.5", o->trim_ratio);
	if (!isfinite(o->covariance_floor) || o->covariance_floor > GMM_LARGEST)
		return err_set(e, EINVAL, "the covariance floor is not a number");
	if (!(o->tolerance >= 0))
		return err_set(e, EINVAL, "tolerance %g: it is not negative", o->tolerance);
	if (o->warm && o->warm->d != d)
		return err_set(e, EINVAL, "the mixture to begin with has %u columns, the rows %u",
			       o->warm->d, d);
	if (o->warm && o->means)
		return err_set(e, EINVAL, "either means or a mixture to begin with");
	for (size_t i = 0; o->means && i < o->components; i++)
		if (!gmm_row_is_finite(o->means + i * d, d))
			return err_set(e, EINVAL, "mean %zu to begin with is not finite", i);
	return 0;
}

static double floor_of(const struct gmm_options *o)
{
	return o->covariance_floor < 0 ? DEFAULT_FLOOR : o->covariance_floor;
}

/* ---- one start ---- */

/* The mean log density under the parameters as they are now, BIC, and how many rows that is of. */
static void fit_judge(struct gmm *m, const struct gmm_rows *r, struct gmm_sums *s)
{
	struct gmm_view v;
	gmm_view_of(&v, m, true);
	m->trimmed = gmm_trim_rows(r, &v, GMM_MIXTURE);
	gmm_sum_rows(r, &v, false, s);
	double rows = (double)s->rows, k = m->components, d = m->d;
	double of_covariances = m->covariance == GMM_FULL   ? k * d * (d + 1) / 2
				: m->covariance == GMM_TIED ? d * (d + 1) / 2
							    : k * d;
	m->log_density = s->log_density / rows;
	m->bic = -2 * s->log_density + (k - 1 + k * d + of_covariances) * log(rows);
	m->rows = r->finite;
	m->rows_left = r->n - r->finite;
}

/* E and M steps until the mean log density changes by less than the tolerance. It is that of the
 * parameters before each M step, as the pass that makes the sums finds it on its way. */
static void fit_iterate(struct gmm *m, const struct gmm_rows *r, const struct gmm_options *o)
{
	bool diagonal = m->covariance == GMM_DIAGONAL;
	struct gmm_sums s = {
		.moments = xcalloc(gmm_moments(m->d, diagonal) * m->components, sizeof(double))};
	double before = -INFINITY, tolerance = o->tolerance > 0 ? o->tolerance : DEFAULT_TOLERANCE;
	uint32_t most = o->iterations ? o->iterations : DEFAULT_ITERATIONS;
	m->converged = false;
	for (m->iterations = 0; m->iterations < most && !m->converged; m->iterations++) {
		struct gmm_view v;
		gmm_view_of(&v, m, true);
		gmm_trim_rows(r, &v, GMM_MIXTURE);
		gmm_sum_rows(r, &v, false, &s);
		gmm_maximise(m, &s, floor_of(o), false);
		gmm_prepare(m);
		double now = s.log_density / (double)s.rows;
		m->converged = fabs(now - before) < tolerance;
		before = now;
	}
	fit_judge(m, r, &s);
	free(s.moments);
}

/* ---- all starts ---- */

/* As many components as there are different rows, one at each. */
static void fit_different(struct gmm *ret, const struct gmm_rows *r, const struct gmm_options *o,
			  enum gmm_covariance covariance, const size_t *at, uint32_t different)
{
	double *means = xcalloc((size_t)different * r->d, sizeof(*means));
	for (uint32_t k = 0; k < different; k++)
		memcpy(means + (size_t)k * r->d, r->rows + at[k] * r->d, r->d * sizeof(*means));
	*ret = gmm_alloc(r->d, different, covariance);
	gmm_begin_means(ret, r, means, floor_of(o));
	fit_iterate(ret, r, o);
	free(means);
}

static void fit_starts(struct gmm *ret, const struct gmm_rows *r, const struct gmm_options *o)
{
	uint32_t starts = o->starts && !o->means ? o->starts : 1;
	for (uint32_t i = 0; i < starts; i++) {
		struct gmm m = gmm_alloc(r->d, o->components, o->covariance);
		if (o->means)
			gmm_begin_means(&m, r, o->means, floor_of(o));
		else
			gmm_begin_seed(&m, r, o->seed + i * 0xd1342543de82ef95, floor_of(o));
		fit_iterate(&m, r, o);
		if (i && !(m.log_density > ret->log_density)) {
			gmm_free(&m);
			continue;
		}
		if (i)
			gmm_free(ret);
		*ret = m;
	}
}

/* ret is written on success only. */
static int fit_rows(struct gmm *ret, struct gmm_rows *r, const struct gmm_options *o, struct err *e)
{
	size_t at[GMM_MAX_K];
	uint32_t wanted = o->warm ? o->warm->components : o->components;
	enum gmm_covariance covariance = o->warm ? o->warm->covariance : o->covariance;
	uint32_t different = gmm_different_rows(r->rows, r->n, r->d, wanted, at, &r->finite);
	if (!different)
		return err_set(e, EINVAL, "none of %zu rows is finite", r->n);
	if (different < wanted) {
		fit_different(ret, r, o, covariance, at, different);
	} else if (o->warm) {
		*ret = gmm_copy(o->warm);
		fit_iterate(ret, r, o);
	} else {
		fit_starts(ret, r, o);
	}
	return 0;
}

int gmm_fit(struct gmm *ret, const double *rows, size_t n, uint32_t d, const struct gmm_options *o,
	    struct err *e)
{
	int rc = options_check(o, d, e);
	if (rc < 0)
		return rc;
	struct gmm_rows r = {
		.kernels = gmm_kernels_here(0),
		.rows = rows,
		.n = n,
		.d = d,
		.threads = o->threads,
		.trim_ratio = o->trim_ratio,
	};
	if (o->trim_ratio > 0)
		r.scores = xcalloc(n + 1, sizeof(*r.scores));
	rc = fit_rows(ret, &r, o, e);
	free(r.scores);
	return rc;
}

/* ---- the number of components ---- */

int gmm_select(struct gmm *ret, const double *rows, size_t n, uint32_t d, uint32_t most,
	       const struct gmm_options *o, double *bics, struct err *e)
{
	struct gmm_options one = *o;
	struct gmm best = {0};
	if (o->means || o->warm)
		return err_set(e, EINVAL,
			       "the number of components is chosen without means or a "
			       "mixture to begin with");
	if (!most || most > GMM_MAX_K)
		return err_set(e, EINVAL, "up to %u components: it is 1 to %d", most, GMM_MAX_K);
	for (uint32_t k = 0; bics && k < most; k++)
		bics[k] = NAN;
	for (one.components = 1; one.components <= most; one.components++) {
		struct gmm m;
		int rc = gmm_fit(&m, rows, n, d, &one, e);
		if (rc < 0) {
			gmm_free(&best);
			return rc;
		}
		bool fewer = m.components < one.components;
		if (bics && !fewer)
			bics[one.components - 1] = m.bic;
		if (!fewer && (!best.d || m.bic < best.bic)) {
			gmm_free(&best);
			best = m;
		} else {
			gmm_free(&m);
		}
		if (fewer)
			break; /* there are no more different rows */
	}
	*ret = best;
	return 0;
}

/* learn_mixture.c - standardises rows, keeps faults out, fits, and calibrates.
 *
 * Faults in the training data are left out in two steps: the ellipsoid of the 70 % of the rows
 * that fit together best says how far out each row lies, and those further out than normal rows can
 * be are dropped (tail_clean). The mixture itself is fitted to all that is left, so that its spread
 * is that of normal running. What scores are worth is learned from rows that the mixture has not
 * seen: each of five blocks in time is scored by a mixture of the other four. */
#include "detect/learn_mixture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/random.h"
#include "base/stats.h"
#include "detect/cusum.h"
#include "detect/explain.h"
#include "detect/learn.h"
#include "detect/regimes.h"

#define TRIM_RATIO	0.3
#define FAULTY_TOGETHER 3 /* rows far out */
#define FAULTY_APART	5 /* rows from one to the next, at most */
#define BELIEVED_RATIO	0.7
#define FOLDS		5
#define STARTS		4
#define STARTS_LEAST	1
/* Added to variances of standardised columns: a tenth of a column's usual spread. */
#define FLOOR 0.01
/* Below so many rows a column a full covariance is known too badly: variances alone. */
#define ROWS_A_COLUMN 10
#define FAR_OF	      1000.0
#define PEAK_LEAST    1.0   /* of the CUSUM */
#define PEAK_MEAN     1.212 /* above it, of independent rows: simulated */
#define SHAPE_CUT     0.25  /* of a tail that was cut off */
#define DRAWN	      20000 /* rows of the mixture itself, for WITHOUT_TAIL */

/* Makes a column of a feature; false: it was never known. What was always the same stays a column:
 * calls that fail for the first time are seen by it. */
static bool column_make(struct model_mixture *m, const struct feature *f, size_t at,
			const struct feature_row *rows, size_t n, double *room)
{
	size_t len = 0;
	for (size_t i = 0; i < n; i++)
		if (isfinite(rows[i].x[at]))
			room[len++] = rows[i].x[at];
	if (len < LEARN_LEAST_ROWS / 2 || len < n / 20)
		return false;
	double centre = stats_median(room, len);
	for (size_t i = 0; i < len; i++)
		room[i] = fabs(room[i] - centre);
	m->centre[m->columns] = centre;
	m->scale[m->columns] = fmax(1.4826 * stats_median(room, len), explain_blur(f));
	m->names[m->columns++] = xstrdup(f->name);
	return true;
}

static void columns_make(struct model_mixture *m, enum detect_layer layer,
			 const struct feature_row *rows, size_t n,
			 const struct learn_mixture_options *o)
{
	const struct model_mixture *begin = o->begin;
	if (begin) {
		m->columns = begin->columns;
		for (uint32_t c = 0; c < begin->columns; c++) {
			m->names[c] = xstrdup(begin->names[c]);
			m->centre[c] = begin->centre[c];
			m->scale[c] = begin->scale[c];
		}
		return;
	}
	uint32_t features_len;
	const struct feature *features = features_of(layer, &features_len);
	double *room = xcalloc(n, sizeof(*room));
	for (uint32_t f = 0; f < features_len; f++)
		if (!(o->without & WITHOUT_PACE) || strcmp(features[f].name, "pace_loss") != 0)
			column_make(m, &features[f], f, rows, n, room);
	free(room);
}

/* What is fitted, as long as it is. */
struct fitting {
	enum detect_layer layer;
	const struct feature_row *rows;
	size_t n, n_kept, dropped;
	bool *keep;
	double *x;	/* standardised, n x columns */
	double *packed; /* those of the rows that are fitted at the moment */
	double *scores; /* n; NaN not scored */
	struct gmm_options gmm;
	uint32_t components; /* 0 = by BIC */
	uint32_t most;
};

/* Puts rows that are kept and are not in [from, to) side by side. */
static size_t pack(struct fitting *f, uint32_t d, size_t from, size_t to)
{
	size_t len = 0;
	for (size_t i = 0; i < f->n; i++)
		if (f->keep[i] && (i < from || i >= to))
			memcpy(f->packed + len++ * d, f->x + i * d, d * sizeof(double));
	return len;
}

static int fit(struct fitting *f, struct model_mixture *m, double trim, double *bics, struct err *e)
{
	size_t len = pack(f, m->columns, 0, 0);
	f->gmm.trim_ratio = trim;
	if (f->gmm.warm || f->components) {
		f->gmm.components = f->gmm.warm ? f->gmm.warm->components : f->components;
		return gmm_fit(&m->gmm, f->packed, len, m->columns, &f->gmm, e);
	}
	/* A component takes a tenth of the rows that a column needs. */
	size_t most = len / (2 * (size_t)m->columns + 2);
	most = most < 1 ? 1 : most > f->most ? f->most : most;
	return gmm_select(&m->gmm, f->packed, len, m->columns, (uint32_t)most, &f->gmm, bics, e);
}

/* Takes each regime's medians off its rows, in packed: of one kind of work most rows are normal,
 * and a rare kind is no fault. */
static void centre_regimes(struct fitting *f, uint32_t d)
{
	double *room = xcalloc(f->n, sizeof(*room));
	memcpy(f->packed, f->x, f->n * d * sizeof(double));
	for (uint32_t regime = 0; regime <= REGIMES_MOST; regime++)
		for (uint32_t c = 0; c < d; c++) {
			size_t len = 0;
			for (size_t i = 0; i < f->n; i++)
				if (f->rows[i].regime == regime && f->keep[i])
					room[len++] = f->x[i * d + c];
			double centre = len ? stats_median(room, len) : 0;
			for (size_t i = 0; i < f->n; i++)
				if (f->rows[i].regime == regime)
					f->packed[i * d + c] -= centre;
		}
	free(room);
}

static bool is_far(const struct fitting *f, size_t i)
{
	return isfinite(f->scores[i]) && !f->keep[i];
}

/* A fault lasts: rows that lie far out alone, or by twos, are the tail of what is normal, as where
 * a loader waits every tenth second. They stay; returns how many do not. Between those of a fault
 * there may be a few that are less far out. */
static size_t keep_scattered(struct fitting *f)
{
	size_t dropped = 0, i = 0;
	while (i < f->n) {
		size_t end = i, last = i, far = 0;
		for (; end < f->n && end - last <= FAULTY_APART &&
		       f->rows[end].pid == f->rows[i].pid && f->rows[end].gpu == f->rows[i].gpu &&
		       is_far(f, i);
		     end++)
			if (is_far(f, end)) {
				last = end;
				far++;
			}
		bool lasts = far >= FAULTY_TOGETHER;
		dropped += lasts ? far : 0;
		for (size_t k = i; k <= last && !lasts; k++)
			f->keep[k] = isfinite(f->scores[k]);
		i = last + 1;
	}
	return dropped;
}

/* Drops what lies further out than normal rows can: from one ellipsoid, for a mixture would give
 * faults a component of their own. */
static int clean(struct fitting *f, struct model_mixture *m, struct err *e)
{
	struct gmm one = {0};
	struct gmm_options o = f->gmm;
	double parts[FEATURES_MOST];
	uint32_t component, d = m->columns;
	o.components = 1;
	o.trim_ratio = TRIM_RATIO;
	o.warm = NULL;
	centre_regimes(f, d);
	int rc = gmm_fit(&one, f->packed, f->n, d, &o, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < f->n; i++)
		f->scores[i] =
			f->keep[i] ? gmm_explain(&one, f->packed + i * d, parts, &component) : NAN;
	size_t kept = tail_clean(f->scores, f->n, BELIEVED_RATIO, f->keep);
	if (kept < f->n_kept)
		f->dropped = keep_scattered(f);
	f->n_kept -= f->dropped;
	gmm_free(&one);
	return 0;
}

/* Scores each block by a mixture of the other blocks. */
static int cross_scores(struct fitting *f, const struct model_mixture *m, struct err *e)
{
	struct gmm_options o = f->gmm;
	o.warm = &m->gmm;
	o.components = m->gmm.components;
	o.trim_ratio = 0;
	o.starts = STARTS_LEAST;
	for (size_t fold = 0; fold < FOLDS; fold++) {
		size_t from = f->n * fold / FOLDS, to = f->n * (fold + 1) / FOLDS;
		struct model_mixture other = *m;
		other.gmm = (struct gmm){0};
		size_t len = pack(f, m->columns, from, to);
		int rc = gmm_fit(&other.gmm, f->packed, len, m->columns, &o, e);
		if (rc)
			return rc;
		for (size_t i = from; i < to; i++) {
			struct explained x;
			explain_row(&x, &other, f->layer, f->rows[i].x);
			f->scores[i] = f->keep[i] ? x.score : NAN;
		}
		gmm_free(&other.gmm);
	}
	return 0;
}

/* How much higher sums rise than those of independent rows: the mean of what their peaks have above
 * PEAK_LEAST, less its error, over what it is for independent rows. Faults that were dropped and
 * pauses end a sum. */
static double cusum_ratio(const struct fitting *f, const struct tail *tail)
{
	double sum = 0, peak = 0, above = 0, peaks = 0;
	for (size_t i = 0; i <= f->n; i++) {
		bool follows = i && i < f->n && f->rows[i].pid == f->rows[i - 1].pid &&
			       f->rows[i].gpu == f->rows[i - 1].gpu;
		double u = i < f->n ? -log(tail_p(tail, f->scores[i])) : NAN;
		sum = !isnan(u) ? (follows ? sum : 0) + fmin(u, CUSUM_MOST) - CUSUM_SLACK : 0;
		peak = fmax(peak, sum);
		if (sum > 0)
			continue;
		above += peak > PEAK_LEAST ? peak - PEAK_LEAST : 0;
		peaks += peak > PEAK_LEAST;
		sum = peak = 0;
	}
	if (peaks < 2)
		return 1;
	return fmax(1, above / peaks * (1 - 1 / sqrt(peaks)) / PEAK_MEAN);
}

/* ---- WITHOUT_TAIL: what the mixture itself says of its scores ---- */

/* Solves inverse x = z: x has the component's covariance where z is normal. */
static void draw(const struct gmm *g, uint64_t *state, double *x)
{
	uint32_t d = g->d, k = 0;
	double left = random_uniform(state);
	while (k + 1 < g->components && (left -= g->weights[k]) > 0)
		k++;
	const double *inverse = g->inverses + (size_t)k * d * d;
	for (uint32_t i = 0; i < d; i++) {
		double v = random_normal(state);
		for (uint32_t j = 0; j < i; j++)
			v -= inverse[i * d + j] * x[j];
		x[i] = v / inverse[i * d + i];
	}
	for (uint32_t i = 0; i < d; i++)
		x[i] += g->means[k * d + i];
}

static int tail_of_mixture(struct model_mixture *m, uint64_t seed, struct err *e)
{
	double *scores = xcalloc(DRAWN, sizeof(*scores)), x[FEATURES_MOST];
	for (size_t i = 0; i < DRAWN; i++) {
		draw(&m->gmm, &seed, x);
		gmm_log_density(&m->gmm, x, 1, &scores[i]);
		scores[i] = -scores[i];
	}
	int rc = tail_fit(&m->tail, scores, DRAWN, e);
	free(scores);
	return rc;
}

/* ---- all of it ---- */

/* Scores have no upper end: a tail that seems to have one is made exponential, through the same
 * score of one excess in FAR_OF. What was dropped may have been the tail of normal rows as well. */
static void lengthen_tail(struct tail *t, bool was_cut)
{
	if (t->shape < 0) {
		t->scale *= expm1(t->shape * log(FAR_OF)) / t->shape / log(FAR_OF);
		t->shape = 0;
	}
	if (was_cut)
		t->shape = fmax(t->shape, SHAPE_CUT);
}

static int fit_clean(struct fitting *f, struct model_mixture *m,
		     const struct learn_mixture_options *o, struct err *e)
{
	int rc = 0;
	if (!(o->without & WITHOUT_CLEANING))
		rc = clean(f, m, e);
	if (!rc)
		rc = fit(f, m, 0, m->bics, e);
	if (rc)
		return rc;
	if (o->without & WITHOUT_TAIL)
		return tail_of_mixture(m, o->seed, e);
	rc = cross_scores(f, m, e);
	if (!rc)
		rc = tail_fit(&m->tail, f->scores, f->n, e);
	if (!rc)
		lengthen_tail(&m->tail, f->dropped > 0);
	if (!rc)
		m->cusum_ratio = cusum_ratio(f, &m->tail);
	return rc;
}

static void fitting_make(struct fitting *f, const struct model_mixture *m,
			 const struct learn_mixture_options *o)
{
	size_t cells = f->n * m->columns;
	f->keep = xcalloc(f->n, sizeof(*f->keep));
	f->x = xcalloc(cells, sizeof(*f->x));
	f->packed = xcalloc(cells, sizeof(*f->packed));
	f->scores = xcalloc(f->n, sizeof(*f->scores));
	for (size_t i = 0; i < f->n; i++) {
		f->keep[i] = explain_columns(f->x + i * m->columns, m, f->layer, f->rows[i].x) > 0;
		f->n_kept += f->keep[i];
	}
	f->most = o->most ? o->most : LEARN_MOST_COMPONENTS;
	f->components = o->without & WITHOUT_MIXTURE ? 1 : o->components;
	f->gmm = (struct gmm_options){.covariance = o->covariance,
				      .seed = o->seed,
				      .starts = STARTS,
				      .covariance_floor = FLOOR,
				      .warm = o->begin ? &o->begin->gmm : NULL};
	if (o->begin)
		f->gmm.covariance = o->begin->gmm.covariance;
	else if (f->n_kept < (size_t)ROWS_A_COLUMN * m->columns && o->covariance == GMM_FULL)
		f->gmm.covariance = GMM_DIAGONAL;
}

int learn_mixture(struct model_mixture *ret, enum detect_layer layer,
		  const struct feature_row *rows, size_t n, const struct learn_mixture_options *o,
		  struct err *e)
{
	if (n < LEARN_LEAST_ROWS)
		return err_set(e, EINVAL, "%zu rows were recorded, %d are needed", n,
			       LEARN_LEAST_ROWS);
	struct model_mixture m = {0};
	for (size_t k = 0; k < GMM_MAX_K; k++)
		m.bics[k] = NAN;
	struct feature_row *blurred = xcalloc(n, sizeof(*blurred));
	for (size_t i = 0; i < n; i++)
		explain_blurred(&blurred[i], &rows[i]);
	columns_make(&m, layer, blurred, n, o);
	if (!m.columns) {
		free(blurred);
		return err_set(e, EINVAL, "its features were not known in enough rows");
	}
	struct fitting f = {.layer = layer, .rows = blurred, .n = n};
	fitting_make(&f, &m, o);
	int rc = f.n_kept < LEARN_LEAST_ROWS
			 ? err_set(e, EINVAL, "%zu rows could be used, %d are needed", f.n_kept,
				   LEARN_LEAST_ROWS)
			 : fit_clean(&f, &m, o, e);
	free(blurred);
	free(f.keep);
	free(f.x);
	free(f.packed);
	free(f.scores);
	if (rc) {
		learn_mixture_free(&m);
		return rc;
	}
	*ret = m;
	return 0;
}

void learn_mixture_free(struct model_mixture *m)
{
	for (uint32_t i = 0; i < m->columns; i++)
		free(m->names[i]);
	gmm_free(&m->gmm);
	*m = (struct model_mixture){0};
}

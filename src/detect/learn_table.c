/* learn_table.c - a mixture of a table's rows, and the tail of its scores. */
#include "detect/learn_table.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "detect/tail.h"

static int fit(struct model_mixture *m, const struct table *t, const struct gmm_options *o,
	       uint32_t most, struct err *e)
{
	if (o->components)
		return gmm_fit(&m->gmm, t->cells, t->rows, t->columns, o, e);
	return gmm_select(&m->gmm, t->cells, t->rows, t->columns, most, o, m->bics, e);
}

/* ---- what scores are worth ---- */

/* Fisher and Yates: rows that stand beside each other are often alike, halves must not be. */
static void deal(struct table *t, uint64_t seed)
{
	double row[TABLE_COLUMNS];
	size_t bytes = t->columns * sizeof(double);
	for (size_t i = t->rows; i > 1; i--) {
		size_t k = (size_t)(random_next(&seed) % i);
		double *a = t->cells + (i - 1) * t->columns, *b = t->cells + k * t->columns;
		memcpy(row, a, bytes);
		memmove(a, b, bytes);
		memcpy(b, row, bytes);
	}
}

/* Scores of at most `most` rows under a mixture of others; m where these are too few for one. */
static size_t scores_of(const struct gmm *m, const struct table *t, size_t first, size_t rows,
			size_t other, size_t others, size_t most, const struct gmm_options *o,
			double *ret)
{
	struct gmm half;
	struct gmm_options again = *o;
	const double *cells = t->cells + other * t->columns;
	size_t n = rows < most ? rows : most;
	again.components = m->components;
	again.means = NULL;
	again.warm = m;
	bool fitted = others && !gmm_fit(&half, cells, others, t->columns, &again, NULL);
	gmm_log_density(fitted ? &half : m, t->cells + first * t->columns, n, ret);
	for (size_t i = 0; i < n; i++)
		ret[i] = -ret[i];
	if (fitted)
		gmm_free(&half);
	return n;
}

/* Where faults are feared among the rows, those that lie too far out are taken away. The distance
 * of tail_clean is twice the fall of the log density from its peak. */
static size_t clean(double *scores, size_t n, double trim)
{
	double lowest = INFINITY, believed = 1 - 2 * trim;
	if (!(trim > 0))
		return n;
	for (size_t i = 0; i < n; i++)
		lowest = fmin(lowest, scores[i]);
	bool *keep = xcalloc(n + 1, sizeof(*keep));
	for (size_t i = 0; i < n; i++)
		scores[i] = 2 * (scores[i] - lowest);
	tail_clean(scores, n, fmin(fmax(believed, 0.5), 0.9), keep);
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (keep[i])
			scores[kept++] = scores[i] / 2 + lowest;
	free(keep);
	return kept;
}

static void fit_tail(struct model_mixture *m, struct table *t, const struct gmm_options *o)
{
	size_t half = t->rows / 2, rest = t->rows - half, most = LEARN_TABLE_SCORES / 2;
	double *scores = xcalloc(2 * (rest < most ? rest : most), sizeof(*scores));
	deal(t, o->seed);
	size_t n = scores_of(&m->gmm, t, 0, half, half, rest, most, o, scores);
	n += scores_of(&m->gmm, t, half, rest, 0, half, most, o, scores + n);
	n = clean(scores, n, o->trim_ratio);
	if (tail_fit(&m->tail, scores, n, NULL))
		m->tail = (struct tail){0};
	free(scores);
}

int learn_table(struct model *ret, struct table *t, const struct gmm_options *o, uint32_t most,
		struct err *e)
{
	struct model m;
	model_init(&m);
	m.kind = MODEL_TABLE;
	struct model_mixture *mixture = &m.layers[0];
	int rc = fit(mixture, t, o, most, e);
	if (rc) {
		model_free(&m);
		return rc;
	}
	for (uint32_t i = 0; i < t->columns; i++) {
		mixture->names[i] = xstrdup(t->names[i]);
		mixture->scale[i] = 1;
	}
	mixture->columns = t->columns;
	fit_tail(mixture, t, o);
	*ret = m;
	return 0;
}

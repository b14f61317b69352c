/* learn_live.c - a model made of what comes, where none was given.
 *
 * Of each layer: USUAL_ROWS rows of work after the warm-up, while what is usual for keys and
 * counters is learned; then rows for LEARN_LIVE_S, of which the first mixture is made. From
 * then on rows are judged, and normal ones are kept for at most KEPT_ROWS, of which the mixture is
 * made anew every REFIT_ROWS: the past hour, for windows of a second. */
#include "detect/learn_live.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "detect/learn_known.h"
#include "detect/learn_mixture.h"

#define USUAL_ROWS	15
#define KEPT_ROWS	3600
#define REFIT_ROWS	300
#define MOST_COMPONENTS 4 /* made anew while the job runs */

struct layer_rows {
	uint32_t seen;		  /* while what is usual is learned */
	uint32_t regimes;	  /* that the first mixture was made of, a bit for each */
	struct feature_row *rows; /* ring of KEPT_ROWS; NULL: none yet */
	uint32_t len, at;
	uint32_t fitted, since_fit; /* rows of the last fit, and that came after it */
};

struct learn_live {
	struct model model;
	struct counters_usual *counters;
	struct layer_rows layers[DETECT_LAYERS];
	uint64_t first_ns; /* of work; 0 = none yet */
};

struct learn_live *learn_live_new(uint64_t window_ns, struct counters_usual *counters)
{
	struct learn_live *l = xcalloc(1, sizeof(*l));
	model_init(&l->model);
	l->model.window_ns = window_ns;
	l->counters = counters;
	return l;
}

const struct model *learn_live_model(const struct learn_live *l)
{
	return &l->model;
}

void learn_live_free(struct learn_live *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < DETECT_LAYERS; i++)
		free(l->layers[i].rows);
	model_free(&l->model);
	free(l);
}

static void layer_rows_push(struct layer_rows *r, const struct feature_row *row, const double *x)
{
	if (!r->rows)
		r->rows = xcalloc(KEPT_ROWS, sizeof(*r->rows));
	r->rows[r->at] = *row;
	memcpy(r->rows[r->at].x, x, sizeof(row->x));
	r->at = (r->at + 1) % KEPT_ROWS;
	if (r->len < KEPT_ROWS)
		r->len++;
	r->since_fit++;
}

/* Where twice as many rows have come as the last fit had it is made from scratch, else refitted
 * from where it is. */
static void fit(struct learn_live *l, enum detect_layer layer)
{
	struct layer_rows *r = &l->layers[layer];
	struct model_mixture *m = &l->model.layers[layer], made;
	bool scratch = !m->columns || r->len >= 2 * r->fitted;
	struct feature_row *sorted = xcalloc(r->len, sizeof(*sorted));
	memcpy(sorted, r->rows, r->len * sizeof(*sorted));
	feature_rows_sort(sorted, r->len); /* rows of several processes come mixed */
	struct learn_mixture_options o = {.begin = scratch ? NULL : m, .most = MOST_COMPONENTS};
	r->since_fit = 0;
	if (!learn_mixture(&made, layer, sorted, r->len, &o, NULL)) {
		learn_mixture_free(m);
		*m = made;
		r->fitted = r->len;
	}
	free(sorted);
}

static bool learns_usual(struct learn_live *l, const struct feature_row *row, const double *values)
{
	if (!l->first_ns)
		l->first_ns = row->start_ns;
	uint64_t work = row->start_ns > l->first_ns ? row->start_ns - l->first_ns : 0;
	if (work < (uint64_t)(WARMUP_S * 1e9))
		return true;
	if (l->layers[row->layer].seen++ >= USUAL_ROWS)
		return false;
	if (values)
		counters_usual_learn(l->counters, row->layer, row->regime, values);
	if (values && l->layers[row->layer].seen == USUAL_ROWS)
		counters_usual_settle(l->counters);
	return true;
}

bool learn_live_row(struct learn_live *l, const struct feature_row *row, const double *values)
{
	struct layer_rows *r = &l->layers[row->layer];
	if (l->model.layers[row->layer].columns)
		return false;
	if (learns_usual(l, row, values))
		return true;
	layer_rows_push(r, row, row->x);
	r->regimes |= 1u << (row->regime & 31);
	double seconds = (double)r->len * (double)l->model.window_ns / 1e9;
	bool enough = row->layer == DETECT_STEP || seconds >= LEARN_LIVE_S;
	if (enough && r->len >= LEARN_LEAST_ROWS &&
	    (r->len == LEARN_LEAST_ROWS || r->since_fit >= LEARN_LEAST_ROWS))
		fit(l, row->layer);
	return true;
}

bool learn_live_knows(const struct learn_live *l, enum detect_layer layer, uint32_t regime)
{
	return l->layers[layer].regimes & 1u << (regime & 31);
}

void learn_live_normal(struct learn_live *l, const struct feature_row *row, const double *x)
{
	struct layer_rows *r = &l->layers[row->layer];
	layer_rows_push(r, row, x);
	if (r->since_fit >= REFIT_ROWS || (r->fitted < REFIT_ROWS && r->since_fit >= r->fitted))
		fit(l, row->layer);
}

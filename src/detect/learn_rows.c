/* learn_rows.c - the mixture of each layer, of rows alone. */
#include "detect/learn_rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "detect/clock.h"
#include "detect/learn_known.h"
#include "detect/learn_layer.h"
#include "detect/regimes.h"

struct layer_rows {
	VEC(struct feature_row) of;
};

static bool is_of_calls(enum detect_layer l)
{
	return detect_layer_traits(l) & LAYER_BY_CALLS;
}

/* Where learning begins: with the first window after the one that the warm-up ends in. The first
 * call of work is not there, but the window that it ended in is. */
static uint64_t begin_of(const struct rows_file *f, uint64_t window_ns)
{
	uint64_t all = UINT64_MAX, calls = UINT64_MAX, work = UINT64_MAX;
	for (size_t i = 0; i < f->rows.len; i++) {
		const struct feature_row *r = &f->rows.data[i].row;
		all = r->start_ns < all ? r->start_ns : all;
		if (is_of_calls(r->layer))
			calls = r->start_ns < calls ? r->start_ns : calls;
		if (detect_layer_traits(r->layer) & LAYER_IS_WORK)
			work = r->start_ns < work ? r->start_ns : work;
	}
	uint64_t first = work != UINT64_MAX ? work : calls != UINT64_MAX ? calls : all;
	return first == UINT64_MAX ? 0 : first + (uint64_t)(WARMUP_S * 1e9) + window_ns;
}

static void collect(struct layer_rows ret[DETECT_LAYERS], const struct rows_file *f,
		    uint32_t recording, uint64_t window_ns)
{
	uint64_t begin = begin_of(f, window_ns);
	size_t before[DETECT_LAYERS];
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		before[l] = ret[l].of.len;
	for (size_t i = 0; i < f->rows.len; i++) {
		const struct feature_row *row = &f->rows.data[i].row;
		if (row->start_ns < begin)
			continue;
		struct feature_row *to = vec_push(&ret[row->layer].of);
		*to = *row;
		to->recording = recording;
	}
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		if (ret[l].of.len > before[l])
			feature_rows_sort(ret[l].of.data + before[l], ret[l].of.len - before[l]);
}

/* Makes all known that the rows have, with shares that nothing is like; what is no number of one is
 * 0. */
static void settle_regimes(struct model *m, struct layer_rows rows[DETECT_LAYERS])
{
	uint32_t highest = 0;
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		for (size_t i = 0; i < rows[l].of.len; i++) {
			uint32_t *regime = &rows[l].of.data[i].regime;
			if (*regime > REGIMES_MOST)
				*regime = 0;
			highest = *regime > highest ? *regime : highest;
		}
	for (uint32_t r = 0; r < highest; r++)
		vec_push(&m->regimes)->places[r] = 1;
}

/* The rows have their pace; what it was made of is not there, and only judged rows are asked about.
 * Rows of one window have the same: those of the layer that has most windows. */
static void learn_clock(struct model *m, const struct layer_rows rows[DETECT_LAYERS],
			uint32_t recordings, uint64_t window_ns)
{
	struct model_clock *ret = &m->clock;
	size_t most = 0, n = 0;
	enum detect_layer of = DETECT_LAYERS;
	for (enum detect_layer l = 0; l < DETECT_LAYERS; l++) {
		size_t paced = 0;
		for (size_t i = 0; i < rows[l].of.len; i++)
			paced += rows[l].of.data[i].pace > 0 && !rows[l].of.data[i].parents_pace;
		if (!is_of_calls(l) || paced <= most)
			continue;
		most = paced;
		of = l;
	}
	ret->layer = of;
	if (of == DETECT_LAYERS)
		return;
	struct paced *paced = xcalloc(most, sizeof(*paced));
	for (size_t i = 0; i < rows[of].of.len; i++) {
		const struct feature_row *row = &rows[of].of.data[i];
		if (row->pace > 0 && !row->parents_pace)
			paced[n++] = (struct paced){row->recording, row->pid,  row->start_ns,
						    log(row->pace), row->cpus, 0};
	}
	learn_counters_p(paced, n, m, rows[DETECT_HOST].of.data, rows[DETECT_HOST].of.len);
	ret->windows = n;
	pace_alarms_learn(ret->tails, &ret->sigma, paced, n, recordings, window_ns, 0);
	free(paced);
}

static int learn_layers(struct model *m, struct layer_rows rows[DETECT_LAYERS],
			const struct learn_options *o, struct err *e)
{
	size_t learned = 0;
	struct map64 own = {0};
	for (size_t i = 0; i < rows[DETECT_HOST].of.len; i++) {
		const struct feature_row *row = &rows[DETECT_HOST].of.data[i];
		if (row->pace > 0)
			learn_role(&own, row->recording, row->pid, !row->parents_pace);
	}
	const struct learn_mixture_options mixture = {.components = o->components,
						      .covariance = o->covariance,
						      .seed = o->seed,
						      .without = o->without};
	for (enum detect_layer l = 0; l < DETECT_LAYERS; l++) {
		struct err why;
		if (!rows[l].of.len)
			continue;
		int rc = learn_layer(m, l, rows[l].of.data, rows[l].of.len, &own, &mixture, &why);
		learned += !rc;
		if (rc)
			err_wrap(&why, rc, "%s", detect_layer_name(&m->named, l));
		if (rc && o->left_out)
			o->left_out(o->left_out_ctx, l, why.msg);
	}
	map64_free(&own);
	return learned ? 0 : err_set(e, EINVAL, "no layer could be learned");
}

int learn_rows(struct model *ret, const struct rows_file *files, size_t n,
	       const struct learn_options *o, struct err *e)
{
	struct layer_rows rows[DETECT_LAYERS] = {0};
	for (size_t i = 0; i < n; i++)
		collect(rows, &files[i], (uint32_t)i, o->window_ns);
	model_init(ret);
	ret->window_ns = o->window_ns;
	ret->recordings = (uint32_t)n;
	ret->without = o->without;
	ret->named = *files[0].layers;
	settle_regimes(ret, rows);
	int rc = learn_layers(ret, rows, o, e);
	learn_clock(ret, rows, (uint32_t)n, o->window_ns);
	if (!rc)
		ret->origin = xasprintf("rows of %zu recording%s", n, n == 1 ? "" : "s");
	else
		model_free(ret);
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		vec_free(&rows[l].of);
	return rc;
}

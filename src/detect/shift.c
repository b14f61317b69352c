/* shift.c - what is usual in a kind of work, against the rows that the mixture was made
 * of: learned from its first rows where the kind is new, followed where all is normal. */
#include "detect/shift.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"

#define FOLLOW_S      600.0 /* time constant */
#define RESIDUAL_MOST 2.0   /* times the blur: of a row that is followed */

void shifts_free(struct shifts *s)
{
	for (size_t i = 0; i < s->list.len; i++)
		free(s->list.data[i].collected);
	vec_free(&s->list);
}

struct shift *shifts_find(struct shifts *s, uint32_t regime)
{
	for (size_t i = 0; i < s->list.len; i++)
		if (s->list.data[i].regime == regime)
			return &s->list.data[i];
	return NULL;
}

struct shift *shifts_make(struct shifts *s, uint32_t regime, bool known)
{
	struct shift *ret = vec_push(&s->list);
	ret->regime = regime;
	ret->known = known;
	return ret;
}

void shift_forget(struct shift *s)
{
	s->known = false;
	s->rows = 0;
}

static double median_of_column(const double *rows, size_t n, size_t column, double *room)
{
	size_t len = 0;
	for (size_t i = 0; i < n; i++)
		if (isfinite(rows[i * FEATURES_MOST + column]))
			room[len++] = rows[i * FEATURES_MOST + column];
	if (!len)
		return NAN;
	stats_sort(room, len);
	return room[len / 2];
}

/* The centre of a feature in the mixture; NaN: it is no column. */
static double mixture_centre(const struct model_mixture *m, enum detect_layer layer, size_t f)
{
	uint32_t n;
	const struct feature *features = features_of(layer, &n);
	for (uint32_t c = 0; f < n && c < m->columns; c++)
		if (!strcmp(m->names[c], features[f].name))
			return m->centre[c];
	return NAN;
}

/* Rows of new work are collected; their medians are what is usual in it. */
void shift_collect(struct shift *s, const struct model_mixture *m, const struct feature_row *row)
{
	if (!s->collected)
		s->collected = xcalloc((size_t)REBASE_ROWS * FEATURES_MOST, sizeof(*s->collected));
	memcpy(s->collected + (size_t)s->rows * FEATURES_MOST, row->x, sizeof(row->x));
	if (++s->rows < REBASE_ROWS)
		return;
	double room[REBASE_ROWS];
	for (size_t f = 0; f < FEATURES_MOST; f++) {
		double off = median_of_column(s->collected, REBASE_ROWS, f, room) -
			     mixture_centre(m, row->layer, f);
		s->centre[f] = isfinite(off) ? off : 0;
	}
	free(s->collected);
	s->collected = NULL;
	s->known = true;
	s->against = m;
}

/* A feature that only one of the two has keeps its centre for when that one is back. */
void shift_against(struct shift *s, const struct model_mixture *m, enum detect_layer layer)
{
	if (!s->against || s->against == m)
		return;
	for (size_t f = 0; f < FEATURES_MOST; f++) {
		double moved = mixture_centre(s->against, layer, f) - mixture_centre(m, layer, f);
		s->centre[f] += isfinite(moved) ? moved : 0;
	}
	s->against = m;
}

/* Where all is normal, what is usual follows: the centre and its trend, by a critically damped
 * filter that forgets within FOLLOW_S (double exponential smoothing: Holt 1957, Brown 1963). A
 * centre alone would stay behind a drift for good. */
void shift_follow(struct shift *s, const struct explained *x, const double *row,
		  const struct model_mixture *m, const struct feature_row *r)
{
	double seconds = (double)(r->end_ns - r->start_ns) / 1e9;
	double stays = exp(-seconds / FOLLOW_S);
	uint32_t n;
	const struct feature *features = features_of(r->layer, &n);
	for (uint32_t c = 0; c < m->columns; c++)
		for (uint32_t f = 0; f < n; f++) {
			if (strcmp(m->names[c], features[f].name) != 0 || !isfinite(row[f]))
				continue;
			double most = RESIDUAL_MOST * explain_blur(&features[f]);
			double off = fmax(-most, fmin(most, row[f] - x->usual[f]));
			double trend = s->trend[f] + (1 - stays) * (1 - stays) * off / seconds;
			most /= FOLLOW_S;
			s->trend[f] = fmax(-most, fmin(most, trend));
			s->centre[f] += s->trend[f] * seconds + (1 - stays * stays) * off;
		}
}

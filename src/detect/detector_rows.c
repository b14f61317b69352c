/* detector_rows.c - rows one by one, with what they came to. Of a file they are held until all its
 * anomalies are known: which rows an anomaly covers is known when it has ended. */
#include <stdlib.h>

#include "base/buffer.h"
#include "detect/detector_impl.h"

static void tell(struct detector *d, const struct held_row *r)
{
	d->stats.alarmed_rows += r->alarmed;
	if (d->o.row)
		d->o.row(d->o.tell_ctx, &r->row, r->score, r->p, r->alarmed);
}

void rows_tell(struct detector *d, const struct feature_row *row, const struct judged *j)
{
	struct held_row r = {*row, j->explained.score, j->p, j->alarmed || j->beside};
	r.row.parent = windows_parent_of(d->windows, row->pid);
	d->stats.rows++;
	if (d->o.whole)
		*vec_push(&d->held_rows) = r;
	else
		tell(d, &r);
}

static int by_place(const struct stretch *x, const struct stretch *y)
{
	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->gpu < y->gpu ? -1 : x->gpu > y->gpu;
}

static int by_start(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;
	int place = by_place(x, y);
	return place ? place : x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Anomalies of a series do not overlap: the last that begins before the row's middle. */
static bool is_covered(const struct detector *d, const struct feature_row *row)
{
	uint64_t middle = row->start_ns + (row->end_ns - row->start_ns) / 2;
	struct stretch at = {row->layer, row->pid, row->gpu, middle, 0};
	size_t low = 0, high = d->stretches.len;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (by_start(&d->stretches.data[mid], &at) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return false;
	const struct stretch *s = &d->stretches.data[low - 1];
	return !by_place(s, &at) && middle < s->end_ns;
}

void rows_end(struct detector *d)
{
	if (d->stretches.len)
		qsort(d->stretches.data, d->stretches.len, sizeof(*d->stretches.data), by_start);
	for (size_t i = 0; i < d->held_rows.len; i++) {
		struct held_row *r = &d->held_rows.data[i];
		r->alarmed = is_covered(d, &r->row);
		tell(d, r);
	}
	vec_free(&d->held_rows);
	vec_free(&d->stretches);
}

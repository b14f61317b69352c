/* told_rows.c - rows are handed out at once, or when their file's anomalies are known. */
#include "incident/told_rows.h"

#include <stdlib.h>

void told_rows_free(struct told_rows *t)
{
	vec_free(&t->held);
	vec_free(&t->stretches);
}

static void hand_out(struct told_rows *t, const struct told_row *r)
{
	t->alarmed += r->alarmed;
	if (t->o->row)
		t->o->row(t->o->tell_ctx, &r->row, r->score, r->p, r->alarmed);
}

void told_rows_push(struct told_rows *t, const struct told_row *row)
{
	t->rows++;
	if (t->o->whole)
		*vec_push(&t->held) = *row;
	else
		hand_out(t, row);
}

void told_rows_cover(struct told_rows *t, const struct anomaly *a, const pieces *parts)
{
	for (size_t i = 0; i < parts->len; i++)
		*vec_push(&t->stretches) = (struct stretch){
			a->layer, a->pid, a->gpu, parts->data[i].start_ns, parts->data[i].end_ns};
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
static bool is_covered(const struct told_rows *t, const struct feature_row *row)
{
	uint64_t middle = row->start_ns + (row->end_ns - row->start_ns) / 2;
	struct stretch at = {row->layer, row->pid, row->gpu, middle, 0};
	size_t low = 0, high = t->stretches.len;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (by_start(&t->stretches.data[mid], &at) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return false;
	const struct stretch *s = &t->stretches.data[low - 1];
	return !by_place(s, &at) && middle < s->end_ns;
}

void told_rows_end(struct told_rows *t)
{
	if (t->stretches.len)
		qsort(t->stretches.data, t->stretches.len, sizeof(*t->stretches.data), by_start);
	for (size_t i = 0; i < t->held.len; i++) {
		struct told_row *r = &t->held.data[i];
		r->alarmed = is_covered(t, &r->row);
		hand_out(t, r);
	}
	told_rows_free(t);
}

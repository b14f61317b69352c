/* made_row.c - rows with what they were made of. Layers of a file come one after another: together
 * they are judged as they would be live, and share the alarms that were asked for. */
#include "incident/made_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void made_row_of_window(struct made_row *ret, const struct feature_row *row,
			const struct window_detail *detail)
{
	struct row_calls *calls = &ret->calls;
	ret->row = *row;
	ret->has_values = false;
	calls->len = detail->keys_len < WINDOWS_KEYS ? detail->keys_len : WINDOWS_KEYS;
	memcpy(calls->keys, detail->keys, calls->len * sizeof(calls->keys[0]));
	double in_calls = detail->total_ns - detail->usual_ns;
	double between = detail->gap_ns - detail->usual_gap_ns;
	calls->lost_ns = isnan(in_calls) ? between : isnan(between) ? in_calls : in_calls + between;
}

void made_row_of_counters(struct made_row *ret, const struct feature_row *row,
			  const double values[FEATURES_MOST])
{
	*ret = (struct made_row){.row = *row, .calls.lost_ns = NAN, .has_values = true};
	memcpy(ret->values, values, sizeof(ret->values));
}

void made_row_of_row(struct made_row *ret, const struct feature_row *row)
{
	*ret = (struct made_row){.row = *row, .calls.lost_ns = NAN};
	/* The first feature of a step is the logarithm of its duration over the usual one. */
	if (row->layer == DETECT_STEP && isfinite(row->x[0]))
		ret->calls.lost_ns = (double)(row->end_ns - row->start_ns) * -expm1(-row->x[0]);
}

const double *made_row_values(const struct made_row *r)
{
	return r->has_values ? r->values : NULL;
}

void row_queue_push(struct row_queue *q, const struct made_row *row)
{
	*vec_push(&q->rows) = *row;
}

static int by_due(const void *a, const void *b, void *window_ns)
{
	const struct made_row *x = a, *y = b;
	return feature_rows_due_compare(&x->row, &y->row, *(const uint64_t *)window_ns);
}

void row_queue_sort(struct row_queue *q)
{
	if (q->rows.len)
		qsort_r(q->rows.data, q->rows.len, sizeof(*q->rows.data), by_due, &q->window_ns);
}

void row_queue_drain(struct row_queue *q, void (*judge)(void *ctx, const struct made_row *row),
		     void *ctx)
{
	row_queue_sort(q);
	for (size_t i = 0; i < q->rows.len; i++)
		judge(ctx, &q->rows.data[i]);
	vec_free(&q->rows);
}

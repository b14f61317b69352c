/* detector_episodes.c - rows that were not normal, put together to anomalies.
 *
 * An anomaly opens at an alarmed row, and begins where the shift that the sum tells did; rows
 * beside it that are unlikely (p below NEAR_P) belong to it. It ends when more than GAP_ROWS rows
 * have passed that do not. It is told when it is found, and again when it has ended. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "detect/detector_impl.h"

#define ONSET_SLACK 2.5

void episode_free(struct episode *e)
{
	for (size_t i = 0; i < e->texts.len; i++)
		free(e->texts.data[i]);
	vec_free(&e->texts);
	vec_free(&e->calls);
	free(e);
}

static int by_key(const void *a, const void *b)
{
	const struct window_key *x = a, *y = b;
	return x->key < y->key ? -1 : x->key > y->key;
}

static void calls_add(struct episode *e, const struct row_calls *row)
{
	if (isfinite(row->lost_ns))
		e->a.lost_ns = (isfinite(e->a.lost_ns) ? e->a.lost_ns : 0) + row->lost_ns;
	for (uint32_t i = 0; i < row->len; i++) {
		const struct window_key *k = &row->keys[i];
		struct window_key *at = NULL;
		if (e->calls.len)
			at = bsearch(k, e->calls.data, e->calls.len, sizeof(*k), by_key);
		if (at) {
			at->calls += k->calls;
			at->total_ns += k->total_ns;
			at->usual_ns += k->usual_ns;
			at->gap_ns += k->gap_ns;
			at->usual_gap_ns += k->usual_gap_ns;
		} else if (e->calls.len < CALLS_MOST) {
			*vec_push(&e->calls) = *k;
			qsort(e->calls.data, e->calls.len, sizeof(*k), by_key);
		}
	}
}

static struct episode *episode_open(struct detector *d, struct series *s, const struct judged *j)
{
	struct episode *e = xcalloc(1, sizeof(*e));
	e->series = s;
	e->a = (struct anomaly){.id = ++d->next_id,
				.start_ns = j->row->start_ns,
				.end_ns = j->row->end_ns,
				.layer = s->layer,
				.pid = s->pid,
				.gpu = s->gpu,
				.name = "",
				.p_value = 2,
				.lost_ns = NAN};
	e->first_end_ns = j->row->end_ns;
	*vec_push(&d->episodes) = e;
	s->open = e;
	return e;
}

static const struct recent_row *recent(const struct series *s, uint32_t back)
{
	return &s->recent[(s->recent_at + RECENT_ROWS - 1 - back) % RECENT_ROWS];
}

/* A sum may not have been back at zero for long before its shift began. The shift began where the
 * rows up to the alarm have most evidence beyond ONSET_SLACK each; since_ns where all of them do.
 */
static uint64_t onset(const struct series *s, uint64_t since_ns, uint64_t alarmed_ns)
{
	double sum = 0, best = 0;
	uint64_t ret = alarmed_ns;
	uint32_t i = 0;
	for (; i < s->recent_len && recent(s, i)->start_ns >= since_ns; i++) {
		sum += fmin(-log(recent(s, i)->p), CUSUM_MOST) - ONSET_SLACK;
		if (sum <= best)
			continue;
		best = sum;
		ret = recent(s, i)->start_ns;
	}
	bool reaches = i == RECENT_ROWS && ret == recent(s, i - 1)->start_ns;
	return reaches ? since_ns : ret;
}

/* Rows before the alarmed one: those of its sum, and unlikely neighbours. The latest first. */
static void take_recent(struct episode *e, struct series *s, uint64_t since_ns)
{
	since_ns = onset(s, since_ns, e->a.start_ns);
	for (uint32_t i = 0; i < s->recent_len; i++) {
		const struct recent_row *r = recent(s, i);
		if (r->start_ns < since_ns && !(r->p < NEAR_P))
			break;
		calls_add(e, &r->calls);
		e->a.windows++;
		e->a.start_ns = r->start_ns;
		e->first_end_ns = r->end_ns;
	}
	s->recent_len = 0;
	if (since_ns < e->a.start_ns) {
		e->first_end_ns = since_ns + (e->first_end_ns - e->a.start_ns);
		e->a.start_ns = since_ns;
	}
}

static void remember(struct detector *d, struct series *s, const struct judged *j)
{
	s->recent[s->recent_at] = (struct recent_row){.start_ns = j->row->start_ns,
						      .end_ns = j->row->end_ns,
						      .p = j->p,
						      .calls = d->calls};
	s->recent_at = (s->recent_at + 1) % RECENT_ROWS;
	if (s->recent_len < RECENT_ROWS)
		s->recent_len++;
}

static void tell(struct detector *d, struct episode *e)
{
	episode_describe(d, e);
	if (d->o.tell)
		d->o.tell(d->o.tell_ctx, &e->a);
}

/* Takes the row, and those in between that were quiet. */
static void extend(struct detector *d, struct episode *e, const struct judged *j)
{
	e->a.end_ns = j->row->end_ns;
	e->last_start_ns = j->row->start_ns;
	e->a.windows += e->quiet + 1;
	e->quiet = 0;
	calls_add(e, &d->calls);
	if (j->p >= e->a.p_value)
		return;
	e->a.p_value = j->p;
	e->a.score = -log10(j->p);
	episode_features(d, e, j);
}

void episode_end(struct detector *d, struct series *s)
{
	struct episode *e = s->open;
	s->open = NULL;
	s->cusum = (struct cusum){0};
	s->recent_len = 0;
	e->a.ended = true;
	tell(d, e);
	if (d->o.event)
		return; /* events may lie in it: events_upto frees it */
	for (size_t i = 0; i < d->episodes.len; i++)
		if (d->episodes.data[i] == e)
			d->episodes.data[i--] = d->episodes.data[--d->episodes.len];
	episode_free(e);
}

void episode_row(struct detector *d, struct series *s, const struct judged *j)
{
	struct episode *e = s->open;
	uint64_t length = j->row->end_ns - j->row->start_ns;
	if (e && j->row->start_ns > e->a.end_ns + (GAP_ROWS + 1) * length) {
		episode_end(d, s);
		e = NULL;
	}
	if (e && (j->alarmed || j->p < NEAR_P)) {
		extend(d, e, j);
		return;
	}
	if (e && ++e->quiet > GAP_ROWS) {
		episode_end(d, s);
		e = NULL;
	}
	if (e)
		return;
	if (!j->alarmed) {
		remember(d, s, j);
		return;
	}
	e = episode_open(d, s, j);
	take_recent(e, s, j->since_ns);
	extend(d, e, j);
	tell(d, e);
}

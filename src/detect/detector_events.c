/* detector_events.c - events one by one: kept until no anomaly of later windows can take them in,
 * then told with what they came to. Those of a file that is read again are not kept:
 * detector_marks.c.
 *
 * An event is anomalous in a row of its layer and process that is, or by itself: when it is far
 * beyond what its key's events are and lost at least a millisecond, once its layer is judged. From
 * where to where in its first and last window an anomaly's events are: detector_edges.c. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "detect/detector_impl.h"

#define EVENT_Z	      8.0
#define EVENT_LOST_NS 1000000.0

struct held_event events_of_window(const struct windows_event *e)
{
	return (struct held_event){
		.start_ns = e->start_ns,
		.dur_ns = e->dur_ns,
		.key = e->key,
		.pid = e->pid,
		.tid = e->tid,
		.z = (float)e->usual.z,
		.gap_z = (float)e->usual.gap_z,
		.usual_ns = isfinite(e->usual.usual_ns) ? (uint64_t)e->usual.usual_ns : 0};
}

void events_hold(struct detector *d, const struct windows_event *e)
{
	if (!d->o.event || d->rereads)
		return;
	if (d->held.len < HELD_MOST)
		*vec_push(&d->held) = events_of_window(e);
}

static int by_start(const void *a, const void *b)
{
	const struct held_event *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static uint64_t end_of(const struct held_event *e)
{
	return e->start_ns + e->dur_ns;
}

/* The first event that ends at or after a time, of those in order of starts: near enough. */
static size_t first_from(const struct detector *d, uint64_t from_ns)
{
	size_t low = 0, high = d->held.len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (d->held.data[middle].start_ns < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_of(const struct detector *d, const struct episode *e, const struct held_event *ev)
{
	struct detect_key key;
	if (ev->pid != e->a.pid)
		return false;
	detect_keys_get(d->known.keys, ev->key, &key);
	return key.layer == e->a.layer;
}

static bool by_itself(const struct detector *d, const struct held_event *e, enum detect_layer layer)
{
	return e->z > EVENT_Z && (double)e->dur_ns - (double)e->usual_ns > EVENT_LOST_NS &&
	       detector_judged_at(d, layer, e->pid, e->start_ns);
}

/* Of events that are held. */
static void hold_edges(struct detector *d, struct episode *e)
{
	edges_reset(d, e);
	slow_free(e);
	for (size_t i = first_from(d, edges_from(d, e));
	     i < d->held.len && d->held.data[i].start_ns < e->a.end_ns; i++)
		if (is_of(d, e, &d->held.data[i])) {
			edges_add(e, &d->held.data[i]);
			slow_add(e, &d->held.data[i]);
		}
}

void events_edges(struct detector *d)
{
	if (d->held.len)
		qsort(d->held.data, d->held.len, sizeof(*d->held.data), by_start);
	for (size_t i = 0; i < d->episodes.len; i++) {
		struct episode *e = d->episodes.data[i];
		if (d->rereads || edges_from(d, e) >= d->told_ns) {
			if (!d->rereads)
				hold_edges(d, e);
			edges_find(e);
			slow_find(e);
		} else {
			e->from_ns = e->from_ns ? e->from_ns : e->a.start_ns;
			e->to_ns = e->a.end_ns; /* of a long one the first events have gone */
		}
		e->marked.len = 0;
		episode_pieces(e, e->from_ns, e->to_ns, &e->marked);
	}
}

static bool is_in_pieces(const pieces *p, const struct held_event *ev)
{
	for (size_t i = 0; i < p->len; i++)
		if (end_of(ev) > p->data[i].start_ns && ev->start_ns < p->data[i].end_ns)
			return true;
	return false;
}

static bool is_in_anomaly(const struct detector *d, const struct held_event *ev)
{
	for (size_t i = 0; i < d->episodes.len; i++)
		if (is_in_pieces(&d->episodes.data[i]->marked, ev) &&
		    is_of(d, d->episodes.data[i], ev) &&
		    slow_includes(d->episodes.data[i], ev->key))
			return true;
	return false;
}

void events_tell(struct detector *d, const struct held_event *e, bool in_anomaly)
{
	struct detect_key key;
	detect_keys_get(d->known.keys, e->key, &key);
	struct detector_event told = {.start_ns = e->start_ns,
				      .dur_ns = e->dur_ns,
				      .pid = e->pid,
				      .tid = e->tid,
				      .layer = key.layer,
				      .key = key.text,
				      .key_number = e->key,
				      .z = e->z,
				      .gap_z = e->gap_z};
	told.anomalous = in_anomaly || by_itself(d, e, key.layer);
	d->o.event(d->o.tell_ctx, &told);
}

void events_upto(struct detector *d, uint64_t before_ns)
{
	if (!d->o.event || d->rereads)
		return;
	events_edges(d);
	size_t kept = 0;
	for (size_t i = 0; i < d->held.len; i++) {
		struct held_event *e = &d->held.data[i];
		if (end_of(e) < before_ns)
			events_tell(d, e, is_in_anomaly(d, e));
		else
			d->held.data[kept++] = *e;
	}
	d->held.len = kept;
	d->told_ns = before_ns;
	kept = 0;
	for (size_t i = 0; i < d->episodes.len; i++) {
		struct episode *e = d->episodes.data[i];
		if (e->a.ended && e->a.end_ns < before_ns)
			episode_free(e);
		else
			d->episodes.data[kept++] = e;
	}
	d->episodes.len = kept;
}

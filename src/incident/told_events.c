/* told_events.c - events are held, and handed out with what they came to.
 *
 * An event is anomalous in a row of its layer and process that is, or by itself: when it is far
 * beyond what its key's events are and lost at least a millisecond, once its layer is judged. From
 * where to where in its first and last window an anomaly's events are: episode_edges.c. */
#include "incident/told_events.h"

#include <math.h>
#include <stdlib.h>

#include "incident/judging.h"

#define EVENT_Z	      8.0
#define EVENT_LOST_NS 1000000.0
#define HELD_MOST     ((size_t)1 << 21) /* events */

void told_events_free(struct told_events *t)
{
	vec_free(&t->held);
}

struct held_event held_event_of(const struct windows_event *e)
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

void told_events_hold(struct told_events *t, const struct windows_event *e)
{
	if (!t->o->event || t->rereads)
		return;
	if (t->held.len < HELD_MOST)
		*vec_push(&t->held) = held_event_of(e);
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
static size_t first_from(const struct told_events *t, uint64_t from_ns)
{
	size_t low = 0, high = t->held.len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (t->held.data[middle].start_ns < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_of(const struct told_events *t, const struct episode *e, const struct held_event *ev)
{
	struct detect_key key;
	if (ev->pid != e->a.pid)
		return false;
	detect_keys_get(t->known->keys, ev->key, &key);
	return key.layer == e->a.layer;
}

static bool by_itself(const struct told_events *t, const struct held_event *e,
		      enum detect_layer layer)
{
	return e->z > EVENT_Z && (double)e->dur_ns - (double)e->usual_ns > EVENT_LOST_NS &&
	       judged_at(t->judged_since, layer, e->pid, e->start_ns);
}

/* Of events that are held. */
static void hold_edges(struct told_events *t, struct episode *e)
{
	edges_reset(e, t->window_ns);
	slow_free(e);
	for (size_t i = first_from(t, edges_from(e, t->window_ns));
	     i < t->held.len && t->held.data[i].start_ns < e->a.end_ns; i++)
		if (is_of(t, e, &t->held.data[i])) {
			edges_count(e, &t->held.data[i]);
			slow_count(e, &t->held.data[i]);
		}
}

void told_events_edges(struct told_events *t)
{
	if (t->held.len)
		qsort(t->held.data, t->held.len, sizeof(*t->held.data), by_start);
	for (size_t i = 0; i < t->episodes->list.len; i++) {
		struct episode *e = t->episodes->list.data[i];
		if (t->rereads || edges_from(e, t->window_ns) >= t->told_ns) {
			if (!t->rereads)
				hold_edges(t, e);
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

static bool is_in_anomaly(const struct told_events *t, const struct held_event *ev)
{
	for (size_t i = 0; i < t->episodes->list.len; i++)
		if (is_in_pieces(&t->episodes->list.data[i]->marked, ev) &&
		    is_of(t, t->episodes->list.data[i], ev) &&
		    slow_includes(t->episodes->list.data[i], ev->key))
			return true;
	return false;
}

void told_events_hand_out(struct told_events *t, const struct held_event *e, bool in_anomaly)
{
	struct detect_key key;
	detect_keys_get(t->known->keys, e->key, &key);
	struct detector_event told = {
		.start_ns = e->start_ns,
		.dur_ns = e->dur_ns,
		.pid = e->pid,
		.tid = e->tid,
		.layer = key.layer,
		.layer_name = detect_layer_name(detect_keys_layers(t->known->keys), key.layer),
		.key = key.text,
		.key_number = e->key,
		.z = e->z,
		.gap_z = e->gap_z};
	told.anomalous = in_anomaly || by_itself(t, e, key.layer);
	t->o->event(t->o->tell_ctx, &told);
}

void told_events_upto(struct told_events *t, uint64_t before_ns)
{
	if (!t->o->event || t->rereads)
		return;
	told_events_edges(t);
	size_t kept = 0;
	for (size_t i = 0; i < t->held.len; i++) {
		struct held_event *e = &t->held.data[i];
		if (end_of(e) < before_ns)
			told_events_hand_out(t, e, is_in_anomaly(t, e));
		else
			t->held.data[kept++] = *e;
	}
	t->held.len = kept;
	t->told_ns = before_ns;
	episodes_forget(t->episodes, before_ns);
}

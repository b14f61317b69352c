/* event_reread.c - the events of a file, one by one, once its anomalies are known: the file is
 * read again instead of keeping them all. What is usual for keys that the model does not have was
 * learned from the whole file by then. */
#include "incident/event_reread.h"

#include <stdlib.h>

#include "detect/learn.h"
#include "incident/job_family.h"

#define EDGES_MOST 5000 /* anomalies that are looked at more closely than by windows */
#define NEAR_MOST  3	/* anomalies of a process and layer that a moment may lie near */

/* Where an anomaly's events are. */
struct mark {
	enum detect_layer layer;
	uint32_t pid;
	uint64_t from_ns, to_ns;
	struct episode *of;
};

struct event_reread {
	struct told_events *events;
	struct windows *windows; /* for keys, gaps and z alone */
	bool edges_known;
	VEC(struct mark) near;	/* anomalies with a window before them, by place */
	VEC(struct mark) marks; /* by place: those of a process and layer do not overlap */
};

static struct windows *windows_for(const struct told_events *t)
{
	return windows_new(
		&(struct windows_options){.window_ns = t->window_ns,
					  .late_ns = WINDOWS_NEVER,
					  .keys = t->known->keys,
					  .usual = t->known->usual,
					  .without_gaps = t->known->without & WITHOUT_GAPS});
}

void event_reread_free(struct event_reread *m)
{
	windows_free(m->windows);
	vec_free(&m->near);
	vec_free(&m->marks);
	free(m);
}

static int by_place(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;
	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

struct event_reread *event_reread_new(struct told_events *events)
{
	struct event_reread *m = xcalloc(1, sizeof(*m));
	m->events = events;
	m->windows = windows_for(events);
	for (size_t i = 0; i < events->episodes->list.len && m->near.len < EDGES_MOST; i++) {
		struct episode *e = events->episodes->list.data[i];
		if (!layer_has_calls(e->a.layer))
			continue;
		edges_reset(e, events->window_ns);
		*vec_push(&m->near) = (struct mark){
			e->a.layer, e->a.pid, edges_from(e, events->window_ns), e->a.end_ns, e};
	}
	if (m->near.len)
		qsort(m->near.data, m->near.len, sizeof(*m->near.data), by_place);
	return m;
}

/* The last anomaly of its layer and process that begins before the event's end. */
static bool is_marked(const struct event_reread *m, const struct windows_event *e)
{
	struct mark at = {e->layer, e->pid, e->start_ns + e->dur_ns, 0, NULL};
	size_t low = 0, high = m->marks.len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (by_place(&m->marks.data[middle], &at) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	const struct mark *last = &m->marks.data[low - 1];
	return last->layer == e->layer && last->pid == e->pid && e->start_ns < last->to_ns &&
	       slow_includes(last->of, e->key);
}

/* What an anomaly's edges are found by: events of its windows and of the one before. */
static void count_for_edges(struct event_reread *m, const struct windows_event *e)
{
	struct held_event held = held_event_of(e);
	size_t low = 0, high = m->near.len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct mark *at = &m->near.data[middle];
		if (by_place(at, &(struct mark){e->layer, e->pid, e->start_ns, 0, NULL}) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = 0; i < NEAR_MOST && low > i; i++) {
		const struct mark *at = &m->near.data[low - 1 - i];
		if (at->layer == e->layer && at->pid == e->pid && e->start_ns < at->to_ns) {
			edges_count(at->of, &held);
			slow_count(at->of, &held);
		}
	}
}

static void event(struct event_reread *m, const struct windows_event *e)
{
	struct held_event held = held_event_of(e);
	if (m->edges_known)
		told_events_hand_out(m->events, &held, is_marked(m, e));
	else
		count_for_edges(m, e);
}

void event_reread_call(struct event_reread *m, const struct detect_names *n, const struct m_call *c)
{
	struct windows_event e;
	if (windows_call(m->windows, n, c, &e))
		event(m, &e);
}

void event_reread_gpu_span(struct event_reread *m, const struct detect_names *n,
			   const struct m_gpu_span *s)
{
	struct windows_event e;
	if (windows_gpu_span(m->windows, n, s, &e))
		event(m, &e);
}

void event_reread_edges(struct event_reread *m)
{
	const struct episodes *episodes = m->events->episodes;
	told_events_edges(m->events);
	for (size_t i = 0; i < episodes->list.len; i++) {
		struct episode *e = episodes->list.data[i];
		for (size_t k = 0; k < e->marked.len; k++)
			*vec_push(&m->marks) =
				(struct mark){e->a.layer, e->a.pid, e->marked.data[k].start_ns,
					      e->marked.data[k].end_ns, e};
	}
	if (m->marks.len)
		qsort(m->marks.data, m->marks.len, sizeof(*m->marks.data), by_place);
	windows_free(m->windows);
	m->windows = windows_for(m->events);
	m->edges_known = true;
}

/* episode_slow.c - which calls of an anomaly are slow, where it is some alone: of a window that is
 * slow because launches are, copies and kernels are as ever. Marks nothing.
 *
 * Of CUDA alone: operators and functions of Python lie in each other, and are slow where what they
 * call is; collectives wait for each other. A key is slow where about half of its events or more,
 * in the anomaly's whole windows (in all, where there are one or two), are beyond SLOW_Z. If most
 * of the time beyond what is usual was lost in such keys, and few of the other events are beyond
 * it, the anomaly is of these keys. Not if they are hardly any of the events, as where each step
 * ends with one longer wait: what they wait for is slow, and the anomaly is of all events, as where
 * no key is slow. Of more than SLOW_KEYS keys the last to come have no say. */
#include "incident/episode_events.h"

#include <math.h>
#include <stdlib.h>

#define SLOW_Z	    2.0
#define SLOW_HALF   0.45 /* of a key's events: two functions may share a key */
#define SLOW_LOST   0.55 /* of the time lost */
#define SLOW_FEW    0.2	 /* of the others' events */
#define SLOW_EVENTS 0.1	 /* of all */
#define LEAST	    8	 /* events of a key */
#define SLOW_KEYS   512

struct slow_key {
	uint32_t events, beyond;
	double lost_ns; /* beyond what is usual, less what was quicker */
};

/* There are none once slow_find has found that the anomaly is not of the slow ones alone. */
struct slow_keys {
	struct map64 at; /* key to index + 1 */
	VEC(struct slow_key) keys;
};

void slow_free(struct episode *e)
{
	if (!e->slow)
		return;
	map64_free(&e->slow->at);
	vec_free(&e->slow->keys);
	free(e->slow);
	e->slow = NULL;
}

static bool is_whole(const struct episode *e, const struct held_event *ev)
{
	return e->a.windows > 2 ? ev->start_ns >= e->first_end_ns && ev->start_ns < e->last_start_ns
				: ev->start_ns >= e->a.start_ns && ev->start_ns < e->a.end_ns;
}

void slow_count(struct episode *e, const struct held_event *ev)
{
	uint64_t at;
	if (!e->edges || e->a.layer != DETECT_CUDA || isnan(ev->z) || !is_whole(e, ev))
		return;
	if (!e->slow)
		e->slow = xcalloc(1, sizeof(*e->slow));
	struct slow_keys *s = e->slow;
	if (!map64_get(&s->at, ev->key, &at)) {
		if (s->keys.len == SLOW_KEYS)
			return;
		*vec_push(&s->keys) = (struct slow_key){0};
		at = s->keys.len;
		map64_set(&s->at, ev->key, at);
	}
	struct slow_key *k = &s->keys.data[at - 1];
	k->events++;
	k->beyond += ev->z > SLOW_Z;
	k->lost_ns += ev->usual_ns > 0 ? (double)ev->dur_ns - (double)ev->usual_ns : 0;
}

static bool is_slow(const struct slow_key *k)
{
	return k->events >= LEAST && k->beyond >= SLOW_HALF * k->events;
}

void slow_find(struct episode *e)
{
	double events = 0, slow = 0, others_beyond = 0, lost = 0, lost_in_slow = 0;
	if (!e->slow)
		return;
	for (size_t i = 0; i < e->slow->keys.len; i++) {
		const struct slow_key *k = &e->slow->keys.data[i];
		events += k->events;
		slow += is_slow(k) ? k->events : 0;
		others_beyond += is_slow(k) ? 0 : k->beyond;
		lost += fmax(k->lost_ns, 0);
		lost_in_slow += is_slow(k) ? fmax(k->lost_ns, 0) : 0;
	}
	bool some = slow >= SLOW_EVENTS * events && lost_in_slow >= SLOW_LOST * lost &&
		    others_beyond <= SLOW_FEW * (events - slow);
	if (!some)
		slow_free(e);
}

bool slow_includes(const struct episode *e, uint32_t key)
{
	uint64_t at;
	if (!e->slow)
		return true;
	return map64_get(&e->slow->at, key, &at) && is_slow(&e->slow->keys.data[at - 1]);
}

/* episode_events.h - which events of an anomaly's windows are of it: from which moment to which
 * (episode_edges.c), and of which calls (episode_slow.c). */
#pragma once

#include "incident/episodes.h"

/* An event with what it came to. */
struct held_event {
	uint64_t start_ns, dur_ns;
	uint32_t key, pid, tid;
	float z, gap_z;
	float usual_ns; /* 0 unknown */
};
_Static_assert(sizeof(struct held_event) == 40, "of millions of events nothing is wasted");

/* ---- episode_edges.c ---- */
/* Makes room for what edges are found by, forgets what was counted. */
void edges_reset(struct episode *e, uint64_t window_ns);
/* Events before that have no say. */
uint64_t edges_from(const struct episode *e, uint64_t window_ns);
/* An event of its layer and process: any. */
void edges_count(struct episode *e, const struct held_event *ev);
/* Sets from_ns and to_ns: its windows, unless the events tell better. */
void edges_find(struct episode *e);

/* ---- episode_slow.c ---- */
/* An event of its layer and process: any. */
void slow_count(struct episode *e, const struct held_event *ev);
/* All of them were counted. */
void slow_find(struct episode *e);
/* Whether events of the key, in its time, are of the anomaly. */
bool slow_includes(const struct episode *e, uint32_t key);
void slow_free(struct episode *e);

/* told_events.h - events one by one, with what they came to: kept until no anomaly of later windows
 * can take them in. Those of a file that is read again are not kept: event_reread.h. */
#pragma once

#include "base/map64.h"
#include "detect/windows.h"
#include "incident/episode_events.h"

struct told_events {
	const struct detector_options *o;
	const struct known *known;
	struct episodes *episodes;
	const struct map64 *judged_since; /* of judging.h */
	uint64_t window_ns;
	VEC(struct held_event) held;
	uint64_t told_ns; /* events that ended before were handed out */
	bool rereads;	  /* a file is read again for its events: none are held */
};

void told_events_free(struct told_events *t);
void told_events_hold(struct told_events *t, const struct windows_event *e);
void told_events_hand_out(struct told_events *t, const struct held_event *e, bool in_anomaly);
struct held_event held_event_of(const struct windows_event *e);
/* Finds from which event to which the anomalies reach; of those that are held. */
void told_events_edges(struct told_events *t);
/* Hands out events that no anomaly of a later row can change: those before this. */
void told_events_upto(struct told_events *t, uint64_t before_ns);

/* detector_impl.h - the parts of a detector; for src/incident alone.
 *
 * Events and counters become rows in open windows (src/detect); judging.c makes a p of each row
 * that no excuse is found for, and alarms; episodes.c makes anomalies of those; told_rows.c and
 * told_events.c hand out rows and events with what they came to. */
#pragma once

#include "detect/learn_live.h"
#include "incident/collective_waits.h"
#include "incident/excuses.h"
#include "incident/judging.h"
#include "incident/told_events.h"

struct detector {
	struct detector_options o;
	uint64_t window_ns;
	struct known known;
	const struct model *model;   /* given, or that of learning */
	struct learn_live *learning; /* NULL: a model was given */

	struct windows *windows;
	struct hardware *hardware;
	struct row_queue queue; /* of a file */
	uint64_t upto_ns;	/* windows that ended before were handed out */

	struct judging judging;
	struct job_family job;
	struct fresh_work fresh;
	struct saves saves;
	struct losses losses;
	struct collective_waits waits;
	uint64_t last_event_ns;
	bool ending; /* nothing more comes */

	struct episodes episodes;
	struct incidents incidents;
	struct told_rows rows;
	struct told_events events;
	VEC(struct m_process) ended; /* that are to be forgotten */
	uint64_t events_seen, events_of_unknown_keys;
};

/* collective_told.c: what waits has found is told as an anomaly; ctx is the detector. */
void collective_tell(void *ctx, const struct collective_wait *wait);

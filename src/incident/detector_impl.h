/* detector_impl.h - the parts of a detector; for src/incident alone.
 *
 * Events and counters become rows in open windows (src/detect); judging.c makes a p of each row
 * that no excuse is found for, and alarms; episodes.c makes anomalies of those; told_rows.c
 * hands out rows with what they came to, event_reread.c a file's events. */
#pragma once

#include "detect/learn_live.h"
#include "incident/collective_waits.h"
#include "incident/busy_threads.h"
#include "incident/excuses.h"
#include "incident/judging.h"
#include "incident/line_times.h"
#include "incident/model_fit.h"
#include "incident/told_rows.h"

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
	struct model_fit fit;
	struct saves saves;
	struct changes changes;
	struct losses losses;
	struct collective_waits waits;
	struct busy_threads busy; /* live */
	struct line_times lines;  /* live; of a file they are looked for afterwards */
	/* Windows that begin before are not judged, of a file that is read again; nor those that
	 * begin then or later, for the model does not fit. */
	uint64_t from_ns, until_ns;
	uint64_t last_event_ns;
	bool ending;	  /* nothing more comes */
	bool reads_again; /* of a file: it can be */
	bool again;	  /* it is: what goes by no model was told */

	struct episodes episodes;
	struct incidents incidents;
	VEC(struct anomaly) standing; /* of jobs that stand still */
	struct told_rows rows;
	VEC(struct m_process) ended; /* that are to be forgotten */
	uint64_t events_seen, events_of_unknown_keys;
};

/* The model does not fit: what is usual is learned from then on. Of a file, all of it comes again,
 * and what begins before is left alone. */
void detector_relearn(struct detector *d, uint64_t from_ns);
/* collective_told.c: what waits has found is told as an anomaly; ctx is the detector. */
void collective_tell(void *ctx, const struct collective_wait *wait);
/* standing_told.c: what stands still is over, for nothing more comes. */
void standing_tell_ends(struct detector *d);
/* stopped_told.c: a wait that was a stop, where it was long. */
void stopped_tell(struct detector *d, const struct detect_names *n, const struct m_wait *w);

/* watch_learn.h - finds what marks a job's steps, which the report's analysis found in a window of
 * its calls. */
#pragma once

#include "analyze/steps.h"
#include "session/session_window.h"
#include "session/live_state.h"

/* A call that each step has equally often, on one thread. */
struct watch_marker {
	uint32_t pid, tid;
	uint32_t probe;	   /* the recording's number */
	uint32_t name;	   /* string of the argument that names the call; 0: the probe alone */
	uint32_t per_step; /* from 1 */
	char kind[16];	   /* of enum steps_kind */
	char label[LIVE_NAME_BYTES];
	uint64_t usual_ns; /* median of the steps that were seen */
};

/* What marks the steps of a process, of its main loop: false where no call does. */
bool watch_learn_find(const struct session_window *w, const struct row_source *source,
		      const struct steps_process *p, struct watch_marker *ret);

/* watch_steps.h - the steps of jobs while they run. Every few seconds those of a window of their
 * rows are found by the report's analysis (analyze/steps.h), with their phases. What marks a
 * process's steps (watch_learn.h) is learned from the first such window, then counted call by call;
 * learned anew when it comes no more.
 *
 * For the thread that looks at rows. Memory is bounded: of one window, and a kilobyte of each
 * process. */
#pragma once

#include "session/session_live.h"
#include "session/live_state.h"

struct watch_steps;
/* most: processes whose steps are counted, from 1 to LIVE_JOBS. Of one, it is the one that tells
 * most, and once it is found the windows are no longer than its steps ask for. */
struct watch_steps *watch_steps_new(uint32_t most);
/* Whoever is told of each end of a step. Ends are told as their rows come, not in order; first: of
 * steps of another kind or process. */
struct watch_steps_told {
	void *ctx;
	void (*ended)(void *ctx, const struct live_steps_view *of, uint64_t end_ns, bool first);
};
void watch_steps_tell(struct watch_steps *w, const struct watch_steps_told *who);
void watch_steps_free(struct watch_steps *w);

/* now_ns: of CLOCK_MONOTONIC, from call to call not less. */
void watch_steps_batch(struct watch_steps *w, const struct session_view *v, uint64_t now_ns);
/* Of the process that was found first, also when it has ended; and of the last window. */
void watch_steps_get(struct watch_steps *w, struct live_steps_view *ret,
		     struct live_phases *ret_phases);
/* Of all that live, or ended a moment ago. */
void watch_steps_jobs(struct watch_steps *w, struct live_jobs *ret, uint64_t now_ns);

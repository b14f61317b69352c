/* watch_steps.h - the steps of a job while it runs. Every few seconds those of a window of its rows
 * are found by the report's analysis (analyze/steps.h), with their phases. What marks them
 * (watch_learn.h) is learned from the first such window, then counted call by call; learned anew
 * when it comes no more. */
#pragma once

#include "session/session_live.h"
#include "session/live_state.h"

struct watch_steps;
struct watch_steps *watch_steps_new(void);
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
void watch_steps_get(const struct watch_steps *w, struct live_steps_view *ret);

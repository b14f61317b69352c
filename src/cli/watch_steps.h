/* watch_steps.h - the steps of a job while it runs: what marks them is learned from its first
 * seconds (watch_learn.h), then counted call by call; learned anew when it comes no more. */
#pragma once

#include "session/session_live.h"
#include "cli/watch_state.h"

struct watch_steps;
struct watch_steps *watch_steps_new(void);
void watch_steps_free(struct watch_steps *w);

/* now_ns: of CLOCK_MONOTONIC, from call to call not less. */
void watch_steps_batch(struct watch_steps *w, const struct session_view *v, uint64_t now_ns);
void watch_steps_get(const struct watch_steps *w, struct watch_steps_view *ret);

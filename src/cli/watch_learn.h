/* watch_learn.h - finds what marks a job's steps from a few seconds of its calls, with the same
 * analysis as the report (analyze/steps.h): the calls go into a window (events/window.h), which is
 * analysed and thrown away. */
#pragma once

#include "session/session_live.h"
#include "cli/watch_state.h"

#define WATCH_LEARN_CALLS 250000 /* 28 MB */

/* A call that each step has equally often, on one thread. */
struct watch_marker {
	uint32_t pid, tid;
	uint32_t probe;	   /* the recording's number */
	uint32_t name;	   /* string of the argument that names the call; 0: the probe alone */
	uint32_t per_step; /* from 1 */
	char kind[16];	   /* of enum steps_kind */
	char label[WATCH_NAME_BYTES];
	uint64_t usual_ns; /* median of the steps that were seen */
};

struct watch_learn;
struct watch_learn *watch_learn_new(void);
void watch_learn_free(struct watch_learn *l);

/* Takes a batch's calls of PyTorch, CUDA and NCCL. Returns whether there is no more room. */
bool watch_learn_take(struct watch_learn *l, const struct session_view *v);
/* Whether there are steps in what was taken, and what marks them. For once. */
bool watch_learn_find(struct watch_learn *l, struct watch_marker *ret);

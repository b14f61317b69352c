/* session_live.h - who looks at a session's rows while it goes on: every batch of them, of all
 * kinds, on a thread of its own. What it cannot keep up with is left out and counted. */
#pragma once

#include <stdatomic.h>

#include "session/session_feed.h"
#include "session/own_time.h"
#include "detect/names.h"

/* What there is at a batch. */
struct session_view {
	struct pipeline *pipeline;	/* to write events: pipeline_event */
	const struct feed_batch *batch; /* empty at the end */
	const struct detect_names *names;
	uint64_t upto_ns;	  /* what ended before has come; 0 = not known */
	uint64_t running_cost_ns; /* what probes took of the job's processor time so far */
	uint64_t holds, held_ns;  /* how often and how long tasks were held so far */
	uint64_t overruns;	  /* events that were left out so far */
	/* Until then, of CLOCK_MONOTONIC, what a budget has on is to stay so, but for BUDGET_HELD;
	 * NULL: there is no budget. */
	_Atomic uint64_t *held_until_ns;
	/* Until then something that happened is looked at, and what a budget has on in bursts is to
	 * be on, as far as the budget allows (budget.h); NULL likewise. */
	_Atomic uint64_t *raised_until_ns;
	const _Atomic uint64_t *raised_ns; /* when it was on for that last; NULL likewise */
	struct own_budget_view own_budget;
};

/* Both on the thread that looks. */
struct session_live {
	void *ctx;
	void (*batch)(void *ctx, const struct session_view *v);
	void (*end)(void *ctx, const struct session_view *v); /* nothing more comes; or NULL */
	const char *misses; /* what was not done with what was left out; NULL: "judged" */
};

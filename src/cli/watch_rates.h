/* watch_rates.h - from a session's rows to what `eacgm watch` shows of them: calls by layer, GPUs,
 * processes, cost and losses. Memory is bounded: see the constants of watch_rates.c. */
#pragma once

#include "session/session_live.h"
#include "cli/watch_state.h"

struct watch_rates;
struct watch_rates *watch_rates_new(void);
void watch_rates_free(struct watch_rates *r);

/* Takes a batch, and writes into s what is new; now_ns: of CLOCK_MONOTONIC. */
void watch_rates_batch(struct watch_rates *r, const struct session_view *v, uint64_t now_ns,
		       struct watch_state *s);

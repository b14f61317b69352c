/* live_rates.h - from a session's rows to what a host shows of them while it runs: calls by layer,
 * GPUs, processes, cost and losses. Memory is bounded: see the constants of live_rates.c. */
#pragma once

#include "session/session_live.h"
#include "session/live_state.h"

struct live_rates;
struct live_rates *live_rates_new(void);
void live_rates_free(struct live_rates *r);

/* Takes a batch, and writes into s what is new; now_ns: of CLOCK_MONOTONIC. */
void live_rates_batch(struct live_rates *r, const struct session_view *v, uint64_t now_ns,
		      struct live_state *s);

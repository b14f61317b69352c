/* agent_series.h - what an agent knows as families of metrics: the answer to GET /metrics. */
#pragma once

#include "serve/exposition.h"
#include "session/live_series.h"
#include "session/live_state.h"

#define AGENT_CAUSES	  64
#define AGENT_CAUSE_BYTES 32

/* Incidents that have ended their first telling, by cause. */
struct agent_causes {
	struct {
		char cause[AGENT_CAUSE_BYTES];
		uint64_t n;
		double cost_s;
	} rows[AGENT_CAUSES];
	size_t len;
};

struct agent_view {
	const struct live_series *series;
	const struct live_state *state;
	const struct agent_causes *causes;
	const char *host; /* the host's name */
	const char *version;
	bool freezes; /* the last seconds are kept, and written when something happens: */
	uint64_t frozen, unfrozen; /* files; those that could not be written */
	bool dcgm;		   /* also the names of NVIDIA's dcgm-exporter */
};

/* Where the budget left out calls of what marks a step, several steps would be told as one. */
bool agent_sees_all_steps(const struct agent_view *v);
/* "gpu": what names of metrics begin with, of an enum entity_kind. */
const char *agent_kind_name(uint8_t kind);

void agent_series_write(struct exposition *x, const struct agent_view *v);

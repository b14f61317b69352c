/* agent_notes.h - what a session tells beside incidents goes where incidents go: to the page and
 * the JSON, to metrics, the store and OpenTelemetry. */
#pragma once

#include <stdbool.h>

#include "session/session_live.h"

struct agent_note {
	uint64_t time_ns;		  /* CLOCK_MONOTONIC */
	const char *entity, *name, *text; /* borrowed */
};

struct agent;
/* By its name: an error of a GPU, or a collective that hangs or does not fit. */
bool agent_note_is_error(const char *name);

/* From any thread, without the agent's lock. */
void agent_note(struct agent *a, const struct agent_note *n);

/* Of a batch: errors of GPUs, hangs, early warnings, changes of what is done or traced. */
void agent_note_events(struct agent *a, const struct session_view *v);

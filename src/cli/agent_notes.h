/* agent_notes.h - what an agent tells beside incidents goes where incidents go: to the page and the
 * JSON, to metrics, the store and OpenTelemetry. */
#pragma once

#include "incident/changes.h"
#include "incident/detector.h"
#include "incident/outlook.h"
#include "session/session_live.h"

enum agent_note_weight {
	NOTE_INFO,
	NOTE_WARNING, /* a log of OpenTelemetry */
	NOTE_ERROR,   /* likewise */
};

struct agent_note {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	enum agent_note_weight weight;
	const char *entity, *name, *text; /* borrowed */
};

struct agent;
/* From any thread, without the agent's lock. */
void agent_note(struct agent *a, const struct agent_note *n);

/* The same of what the detector tells, which is said on standard error as well. */
void agent_note_warning(struct agent *a, const struct outlook_warning *w);
void agent_note_change(struct agent *a, const struct change *c);
void agent_note_misfit(struct agent *a, const struct model_misfit *m);
/* Of a batch: errors of GPUs, hangs, changes of what is traced. */
void agent_note_events(struct agent *a, const struct session_view *v);

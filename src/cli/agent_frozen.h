/* agent_frozen.h - what an agent says of what it froze, and of what it did not: on standard error,
 * and as notices (agent_notes.h) `freeze`, `freeze_failed`, `freeze_joined`, `freeze_held_off`. */
#pragma once

#include "base/buffer.h"
#include "session/flight.h"

/* For flight_options; ctx: the struct agent, without its lock. */
void agent_frozen_written(void *ctx, const char *path, const char *why, const struct err *failed);
void agent_frozen_joined(void *ctx, const char *path, uint64_t time_ns, const char *why);

struct agent;
/* After a trigger, from any thread, without the agent's lock: says where it is where a file that
 * was written has it, and why no file does. Of a file that is still to be written, that says. */
void agent_frozen_taken(struct agent *a, const char *why, const struct flight_verdict *v);

/* Whether a notice is of what has no file of its own, by its name. */
bool agent_frozen_is_no_file(const char *name);

/* One sentence of the same, appended without an end: of what is asked for. */
void agent_frozen_sentence(struct buf *ret, const struct flight_verdict *v);

/* listeners.h - who hears of every row that goes into the recording, as it goes: what runs beside a
 * recording, or without one, sees the events there.
 *
 * Everything is called in the recording thread. Numbers are the recording's. Each thread's calls
 * come in order of their ends. */
#pragma once

#include "events/listener.h"

struct pipeline;

/* Before anything is passed; any number of them. */
void pipeline_listen(struct pipeline *p, const struct event_listener *listener);

/* Whoever has this ctx hears no more. */
void pipeline_unlisten(struct pipeline *p, const void *ctx);

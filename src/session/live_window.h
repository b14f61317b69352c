/* live_window.h - the last rows of a session of all kinds that analyses read, with what they refer
 * to: a source (events/window.h) for what explains the present. For the thread that looks at rows.
 * Keeps no maps, notes, events, histograms or totals. */
#pragma once

#include "session/session_live.h"

struct live_window;

/* most_bytes: of bulk rows. Names are kept for the session, as they are by whoever looks. */
struct live_window *live_window_new(size_t most_bytes);
void live_window_free(struct live_window *w);

/* A batch, with all of them in their order. */
void live_window_take(struct live_window *w, const struct session_view *v);

/* What there is now; valid until the next batch. Processes that began before its calls count as
 * joined then. ret_begin_ns: of its first call; 0: there is none. */
const struct row_source *live_window_rows(struct live_window *w, uint64_t *ret_begin_ns);

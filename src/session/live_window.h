/* live_window.h - the last rows of a session of all kinds that analyses read, with what they refer
 * to: a source (events/window.h) for what explains the present. For the thread that looks at rows.
 * Of what is told beside such rows it has processes, communicators, GPUs and the latest events; no
 * maps, notes, periods of bursts, losses, histograms, totals, anomalies or incidents. */
#pragma once

#include "session/session_live.h"

struct live_window;

/* most_bytes: of bulk rows. Names are kept for the session, as they are by whoever looks. */
struct live_window *live_window_new(size_t most_bytes);
void live_window_free(struct live_window *w);

/* A batch, with all of them in their order. */
void live_window_take(struct live_window *w, const struct session_view *v);
/* All rows so far go. */
void live_window_begin_anew(struct live_window *w);

/* What there is now; valid until the next batch. Processes that began before its calls count as
 * joined then. ret_begin_ns: of its first call; 0: there is none. */
const struct row_source *live_window_rows(struct live_window *w, uint64_t *ret_begin_ns);

/* The same with processes as they were told, and calls in no order: nothing is sorted for it. */
const struct row_source *live_window_as_taken(const struct live_window *w);

/* Where rows are left out of the feed it goes on with what it has. Otherwise it begins anew, for a
 * wait that is missing would be taken for running. */
void live_window_bear_gaps(struct live_window *w);

/* As row_window_pack. */
void live_window_pack(struct live_window *w, size_t raw_bytes, uint64_t keep_ns);

/* As row_window_bound. */
void live_window_bound(struct live_window *w, size_t most_bytes);

/* All that has come and ended after this is in it: 0, or when rows went that it had no room for, or
 * when it began anew. */
uint64_t live_window_since_ns(const struct live_window *w);
/* The same of all that there was: nothing was left out of the feed since. */
uint64_t live_window_whole_ns(const struct live_window *w);

/* session_window.h - the rows of some seconds of a session, with tables of their own: a source for
 * analyses (events/window.h). For the thread that looks at rows. */
#pragma once

#include "session/session_live.h"

struct session_window;
struct session_window *session_window_new(void);
void session_window_free(struct session_window *w);

/* Every batch, whether the window is open or not: which processes there are, and which probes a
 * budget has on in bursts alone. */
void session_window_see(struct session_window *w, const struct session_view *v);
/* Whether all calls of a probe are seen, as far as is known. */
bool session_window_sees(const struct session_window *w, uint32_t probe);
/* Whether any is on in bursts alone. */
bool session_window_is_partial(const struct session_window *w);
/* Whether a budget turned probes down, or up again, while it was open: its calls tell of that. */
bool session_window_is_broken(const struct session_window *w);
/* Whether there is such a process, as far as was seen. */
bool session_window_lives(const struct session_window *w, uint32_t pid);

/* share: calls of one process, of which more are left out; at least 1 and at most most_calls. */
void session_window_begin(struct session_window *w, uint64_t most_calls, uint64_t share,
			  uint64_t now_ns);
/* Takes a batch's waits, and its calls of layers that do work and of which all are seen. Returns
 * whether there is no more room for calls. */
bool session_window_take(struct session_window *w, const struct session_view *v);
uint64_t session_window_calls(const struct session_window *w);

/* What it has; processes have no names there. Once, and valid until it is closed. */
const struct row_source *session_window_rows(struct session_window *w);
/* The recording's number of one of the window's strings; 0 = none. */
uint32_t session_window_string(const struct session_window *w, uint32_t number);

/* What it kept is thrown away: nothing grows with the session. */
void session_window_close(struct session_window *w);

/* watch_screen.h - draws the state of `eacgm watch` as lines of text. Does no I/O. */
#pragma once

#include "base/buffer.h"
#include "session/live_state.h"

struct watch_size {
	unsigned columns, rows;
	bool colour;
	bool ascii; /* the locale has no blocks */
};

/* Appends at most rows lines, each of at most columns columns, separated by line breaks; without
 * cursor movements. What does not fit is left out from below. */
void watch_render(struct buf *out, const struct live_state *s, const struct watch_size *size);

/* The whole state in one line, for output that is no terminal. */
void watch_render_line(struct buf *out, const struct live_state *s);

/* The newest n values as blocks, the largest of them full. Unknown ones are spaces. */
void watch_sparkline(struct buf *out, const struct live_history *h, unsigned n, bool ascii);

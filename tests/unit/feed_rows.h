/* feed_rows.h - for tests that make batches of a session's rows by hand. */
#pragma once

#include "session/session_feed.h"

/* It has nothing any more, and holds no memory. */
static inline void feed_batch_empty(struct feed_batch *b)
{
	vec_free(&b->strings);
	buf_free(&b->texts);
	for (unsigned kind = 0; kind < ROW_KINDS; kind++)
		vec_free(&b->numbers[kind]);
	vec_free(&b->threads_gone);
	vec_free(&b->metrics_gone);
#define X(number, NAME, stem, members) vec_free(&b->members);
	ROW_TABLES(X)
	ROW_BULKS(X)
#undef X
}

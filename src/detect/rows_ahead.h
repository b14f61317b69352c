/* rows_ahead.h - blocks of a source in order, each put in order of time, which threads read while
 * the caller is busy with those before. Of calls the order is that of their ends, of spans of the
 * GPU that of their starts, of waits that of their ends.
 *
 * Memory: five blocks of each kind (ahead.h). */
#pragma once

#include "events/visitor.h"

struct ahead_block {
	const void *rows;
	const uint32_t *order; /* of the rows; NULL: as they are */
	size_t len;
};

struct rows_ahead;
/* kinds: 1u << ROW_CALL | 1u << ROW_GPU_SPAN | 1u << ROW_WAIT, or some of these. */
struct rows_ahead *rows_ahead_new(const struct row_source *r, uint32_t kinds);
/* The next block, until the next one of the kind is asked for. NULL: there are no more. What cannot
 * be read has no rows. */
const struct ahead_block *rows_ahead_next(struct rows_ahead *a, enum row_kind kind);
void rows_ahead_free(struct rows_ahead *a);

static inline const void *ahead_row(const struct ahead_block *b, size_t n, size_t row_bytes)
{
	return (const uint8_t *)b->rows + (b->order ? b->order[n] : n) * row_bytes;
}

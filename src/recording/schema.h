/* schema.h - rows to columns and back, of every kind that events/kinds.h lists. Calls have a layout
 * of their own (calls.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "events/kinds.h"

/* What the file itself adds to rows. */
struct string_row {
	uint32_t number;
	uint32_t len;
};
struct end_row {
	uint64_t calls;
	uint64_t calls_dropped;
	uint64_t counters;
	uint64_t monotonic_ns;
};

/* The kind of the rows of a block: BLOCK_STRINGS and BLOCK_END have one too. NULL: calls, and types
 * of later versions. */
const struct row_kind_info *schema_of(uint8_t block_type);

/* The most rows that a block of the kind may have. */
uint32_t schema_most_rows(const struct row_kind_info *k);

/* Appends the columns of n rows to a payload; their numbers where the kind is ROWS_INDEXED. */
void rows_encode(struct buf *payload, const struct row_kind_info *k, const void *rows,
		 const uint32_t *numbers, size_t n);

/* Decodes a payload into n rows, zeroed where a column is absent, and their numbers where the kind
 * is ROWS_INDEXED. Both are malloc'ed. 0 or -EBADMSG. */
int rows_decode(const struct row_kind_info *k, const uint8_t *payload, size_t len, size_t n,
		void **ret_rows, uint32_t **ret_numbers);

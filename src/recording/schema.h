/* schema.h - the fields of every table, once, for writing and for reading. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "events/rows.h"

/* Rows of the dictionaries carry their number. The row comes first: a pointer to one of
 * these is a pointer to the row. */
struct indexed_probe {
	struct m_probe row;
	uint32_t index;
};
struct indexed_thread {
	struct m_thread row;
	uint32_t index;
};
struct indexed_code {
	struct m_code row;
	uint32_t index;
};

struct indexed_frame {
	struct m_frame row;
	uint32_t index;
};
struct indexed_stack {
	struct m_stack row;
	uint32_t index;
};

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

struct field {
	const char *name;
	uint16_t offset;
	uint16_t count;	  /* values a row */
	uint8_t type;	  /* enum column_type */
	uint8_t encoding; /* enum column_encoding */
};

struct table {
	uint8_t block_type; /* enum block_type */
	uint32_t row_bytes;
	uint32_t max_rows; /* in one block */
	uint32_t nfields;
	const struct field *fields;
};

/* The table of a block type, or NULL: CALLS and unknown types have none. */
const struct table *table_of(uint8_t block_type);

/* Appends the columns of n rows to a payload. */
void table_encode(struct buf *payload, const struct table *t, const void *rows, size_t n);

/* Decodes a payload into n rows of t->row_bytes, zeroed where a column is absent. *ret_rows
 * is malloc'ed. 0 or -EBADMSG. */
int table_decode(const struct table *t, const uint8_t *payload, size_t len, size_t n,
		 void **ret_rows);

/* tables.h - the rows that a recording's events refer to, and those that are few: names, processes,
 * threads, stacks. Of a file they are complete once it is open. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/strtab.h"
#include "events/kinds.h"

struct rec_tables {
	struct strtab strings;
/* Of stacks row 0 is no stack; parents are smaller than their children, frames are in range. Losses
 * have also "not_written": calls dropped after a write error. */
#define X(number, NAME, stem, members) VEC(struct m_##stem) members;
	ROW_TABLES(X)
#undef X
/* How many there are to be read, of each kind of bulk rows. */
#define X(number, NAME, stem, members) uint64_t members;
	ROW_BULKS(X)
#undef X
	uint64_t last_ns; /* latest time in the intact blocks of bulk rows; 0 = none */
	uint64_t file_bytes;
	uint64_t damaged_at; /* file offset of the first damage, 0 = none */
	char damage[256];    /* one sentence when damaged_at is set */
	bool complete;	     /* the end block is there: eacgm closed the file itself */
};

/* Rows of one kind of ROW_BULKS. */
struct __attribute__((may_alias)) row_block {
	void *rows;
	size_t len;
	size_t cap;
};
static inline void row_block_free(struct row_block *b)
{
	free(b->rows);
	*b = (struct row_block){0};
}

/* A table's rows without their type: as any of the VECs above. */
struct __attribute__((may_alias)) row_vec {
	uint8_t *data;
	size_t len;
	size_t cap;
};

/* The rows of a kind of ROW_TABLES. */
static inline struct row_vec *rec_table(struct rec_tables *t, const struct row_kind_info *k)
{
	return (struct row_vec *)((uint8_t *)t + k->table);
}

static inline const struct row_vec *rec_rows(const struct rec_tables *t,
					     const struct row_kind_info *k)
{
	return (const struct row_vec *)((const uint8_t *)t + k->table);
}

/* How many rows there are of a kind of ROW_BULKS. */
static inline uint64_t *rec_bulk_count(struct rec_tables *t, const struct row_kind_info *k)
{
	return (uint64_t *)((uint8_t *)t + k->table);
}

/* Adds room for n rows and yields where they begin; they count as there. */
uint8_t *row_vec_add(struct row_vec *v, size_t row_bytes, size_t n);
/* Adds n rows, copied. */
void row_vec_append(struct row_vec *v, size_t row_bytes, const void *rows, size_t n);

void rec_tables_free(struct rec_tables *t);

/* The name of a value of an enumeration (its type as m_probe.arg_enums), or NULL. */
const char *rec_enum_name(const struct rec_tables *t, uint32_t type, int64_t value);

/* What the meta "target" says of record --all. */
#define TARGET_ALL    "all processes"
#define TARGET_CGROUP "cgroup " /* and its path */

/* The value of a meta key, or NULL. */
const char *rec_meta(const struct rec_tables *t, const char *key);

/* When recording ended, ns of CLOCK_MONOTONIC. One that was not closed ends with its last row. */
uint64_t rec_end_ns(const struct rec_tables *t);
/* The same of each source of a merged recording, by its index; of any other there is one. The
 * caller frees it. */
uint64_t *rec_source_ends(const struct rec_tables *t);

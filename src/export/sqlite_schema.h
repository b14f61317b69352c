/* sqlite_schema.h - the SQL of a database of rows: a table of each kind of row, as rows are, and
 * views over them, as people ask. docs/export.md tells the views' columns.
 *
 * Tables and most views are made from the list of kinds (events/kinds.h): a new kind or field needs
 * no line here, unless its numbers are to be shown as words. */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "events/kinds.h"

/* Grows when a view or a column of one goes or changes its meaning. */
#define SQLITE_SCHEMA_VERSION 1
/* "eACG": PRAGMA application_id, by which file(1) and others tell what it is. */
#define SQLITE_APPLICATION_ID 0x65414347

/* How a column's values are kept. */
enum sqlite_column_kind {
	COLUMN_ID,	/* the row's number */
	COLUMN_INTEGER, /* above 2^63 - 1 it is below 0 there: the same 64 bits */
	COLUMN_REAL,
	COLUMN_LIST,  /* as JSON, without the zeros at its end */
	COLUMN_VALUE, /* of a call's argument: by its type */
	COLUMN_NAME,  /* of calls and what is counted like them: the string that names it */
	COLUMN_CODE,  /* of a call: the code's row that names it */
	COLUMN_ENTITY,
};

struct sqlite_column {
	const struct row_field *field; /* NULL of those that are of no field */
	uint8_t k;		       /* the field's k-th value */
	uint8_t kind;		       /* enum sqlite_column_kind */
};

/* A kind of row as a table. */
struct sqlite_table {
	const struct row_kind_info *info;
	const char *view; /* "gpu_spans"; NULL: its view is made by hand */
	unsigned number;  /* ROW_* */
	bool is_bulk;
	VEC(struct sqlite_column) columns; /* in the order of its inserts */
};
typedef VEC(struct sqlite_table) sqlite_tables_t;

/* The tables of all kinds. */
void sqlite_tables_make(sqlite_tables_t *ret);
void sqlite_tables_free(sqlite_tables_t *tables);

/* Statements are put behind what buf holds; none is ended by a NUL. */
void sqlite_create_tables(struct buf *sql, const sqlite_tables_t *tables);
void sqlite_create_views(struct buf *sql, const sqlite_tables_t *tables);
void sqlite_insert(struct buf *sql, const struct sqlite_table *t);

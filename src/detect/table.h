/* table.h - a table of numbers: comma separated values with a header row, as RFC 4180 has them,
 * and rows of numbers alone.
 *
 * Cells that say "nan" or "inf", or nothing, are read as that: a row with one is counted, and has
 * no density. Anything else that is no number is an error. Empty lines are left out. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "analyze/gmm.h"
#include "base/error.h"

#define TABLE_COLUMNS	GMM_MAX_D
#define TABLE_NAME_MOST 255 /* bytes of a column's name */

struct table {
	uint32_t columns;
	char *names[TABLE_COLUMNS];
	size_t rows;
	size_t rows_not_finite; /* with a cell that is not finite */
	double *cells;		/* rows x columns */
};

/* ret is written on success only; table_free it. Memory: an eighth more than the cells, while it
 * is read. -EINVAL: not such a table, with line and column (from 1); -errno: cannot be read. */
int table_read(struct table *ret, const char *path, struct err *e);
/* The same from memory; name is what errors call it. */
int table_parse(struct table *ret, const char *text, size_t len, const char *name, struct err *e);
void table_free(struct table *t);

/* The table's column of each of n names, in that order; others are left out. -EINVAL: one is
 * missing; name is what the error calls the table. */
int table_columns(const struct table *t, char *const *names, uint32_t n, uint32_t *ret_columns,
		  const char *name, struct err *e);

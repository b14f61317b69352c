/* kind_table.h - rows that many share stand once, as their kind.
 *
 * Kinds are looked up in a table of fixed size, so that rows of which no two are alike cost a row
 * each and nothing more. A kind that was pushed out of the table has another row when it comes
 * again: kinds are no identities. */
#pragma once

#include "events/tables.h"

enum { KIND_SLOTS = 1 << 15 };

struct kind_table {
	uint32_t slots[KIND_SLOTS]; /* number of the kind + 1, 0 = free */
	uint32_t last;		    /* that was asked for */
};

/* The number of a kind of so many bytes, a multiple of 8 without padding that differs; added to
 * kinds if it is not in the table. */
uint32_t kind_number(struct kind_table *table, struct row_vec *kinds, const void *kind,
		     size_t bytes);

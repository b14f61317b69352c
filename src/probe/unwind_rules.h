/* unwind_rules.h - the rules of one table in the pool, as the programs find them
 * (struct unwind_table_ref). Rows are most of a table, and few of its pages are ever walked: they
 * can be left in the cache's file until a walk needs those of a page.
 *
 * Used by one thread. Internal to src/probe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "probe/unwind_pool.h"
#include "symbolize/unwind_table.h"

struct unwind_rules {
	uint32_t at,
		words;	/* of the rules and the list of pages; and of all rows, where fd is -1 */
	uint32_t files; /* that have them */
	struct unwind_table_ref ref;
	int fd;		   /* the table's file, which nobody writes to any more; -1: all is there */
	uint32_t pages_at; /* in that file, and rows of page 0; in words */
	uint32_t rows_at;
};

/* fd: of a file that is this table, from which rows come page by page; taken over. -1: all come
 * now. NULL when there is no room; the descriptor is still the caller's then. */
struct unwind_rules *unwind_rules_put(struct unwind_pool *p, const struct unwind_table *t, int fd);
/* When nobody reads them any more. */
void unwind_rules_give(struct unwind_pool *p, struct unwind_rules *r);

/* Whether the rows of a page are not there yet; false where there is no such page. */
bool unwind_rules_lack(const struct unwind_pool *p, const struct unwind_rules *r, uint32_t page);
/* Brings them; a page that cannot be read has none from then on. False when there is no room. */
bool unwind_rules_load(struct unwind_pool *p, struct unwind_rules *r, uint32_t page);

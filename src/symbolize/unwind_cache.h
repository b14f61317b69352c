/* unwind_cache.h - compiled unwind tables on disk, by build id, and by what a file cannot claim:
 * its owner, its size, a sum of its .eh_frame.
 *
 * A file per table (base/cache_folder.h), checked when it is read. Failure to read or write the
 * cache is never an error: the table is compiled instead. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "symbolize/unwind_table.h"

struct unwind_cache;

/* dir: NULL = the folder `unwind` of the caches. max_bytes: the tables longest unused go when there
 * are more; 0 = 512 MiB. Never fails. */
struct unwind_cache *unwind_cache_open(const char *dir, uint64_t max_bytes);
void unwind_cache_close(struct unwind_cache *c);

/* The table of a file: from the cache when it has a build id and is there, else compiled and
 * kept. *ret_hit (may be NULL) tells which. As unwind_table_build. */
int unwind_cache_get(struct unwind_cache *c, const struct elf_file *f, struct unwind_table *ret,
		     bool *ret_hit, struct err *e);

/* The name of a file's table in the folder, malloc'ed; NULL when it is not kept. */
char *unwind_cache_name(const struct elf_file *f);

/* The same in parts, for who has no file at hand: sum is unwind_cache_sum of the file. */
uint32_t unwind_cache_sum(const struct elf_file *f);
char *unwind_cache_name_of(const char *build_id, uid_t owner, uint64_t size, uint32_t sum);
/* name may be NULL. load: a table that was checked, to be freed; false when there is none. */
bool unwind_cache_load(const struct unwind_cache *c, const char *name, struct unwind_table *ret);
/* The file of a table that was loaded or stored, to read its words from; -1 when it is another by
 * now, or none. */
int unwind_cache_file(const struct unwind_cache *c, const char *name, const struct unwind_table *t);
void unwind_cache_store(const struct unwind_cache *c, const char *name,
			const struct unwind_table *t);

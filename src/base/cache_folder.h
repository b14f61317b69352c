/* cache_folder.h - a folder of files that could be made anew: what one run has made, the next
 * finds.
 *
 * A file is written under another name and renamed, so that processes that work on one folder at
 * once see whole files or none. It is not synced: who loads one says whether it is good. Failure to
 * read or write is never an error. A folder or file that belongs to someone else, or that others
 * may write, is not used. Knows nothing of what files hold. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct cache_folder;

struct cache_kind {
	const char *folder;	   /* its name among the caches of eacgm */
	const char *ending;	   /* of its files: ".unt" */
	uint64_t max_bytes;	   /* of all files: those longest unused go when there are more */
	size_t max_files;	   /* likewise */
	uint64_t max_bytes_a_file; /* larger ones are neither kept nor read */
};

/* path: made if need be, with mode 0700; NULL = $EACGM_CACHE/FOLDER, else /var/cache/eacgm/FOLDER
 * for root, else eacgm/FOLDER in $XDG_CACHE_HOME or ~/.cache. kind is copied, its texts are not.
 * Never fails. For one thread. */
struct cache_folder *cache_folder_open(const char *path, const struct cache_kind *kind);
void cache_folder_close(struct cache_folder *c);

/* The bytes of a file, which then counts as used today, to be freed; false when there is none. One
 * that is_good is false of is removed. */
bool cache_folder_load(struct cache_folder *c, const char *name,
		       bool (*is_good)(void *ctx, const uint8_t *bytes, size_t len), void *ctx,
		       struct buf *ret);
/* A file to read from, which nobody writes to any more, whatever becomes of its name; -1 when there
 * is none. */
int cache_folder_open_file(const struct cache_folder *c, const char *name);
/* The name ends with the kind's ending. */
void cache_folder_store(struct cache_folder *c, const char *name, const void *bytes, size_t len);

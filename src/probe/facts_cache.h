/* facts_cache.h - what files were found to hold, on disk, so that the next session of the same
 * files reads none of them. Kept are the answers of the processes without rights that read files:
 * who loads one takes it as such an answer, and checks it as strictly.
 *
 * A file may be anybody's, and a build id is what a file says of itself. So an answer is kept under
 * what only the kernel says of a file: device, inode, size, owner, times. The time of its last
 * change (ctime) is set by the kernel's clock at each write, truncation, change of owner and
 * rename, and by nobody else: a file of the same key has the bytes that were read. What makes that
 * untrue is left out, and is read each time:
 * - a change within one tick of that clock: what changed less than 2 s before it was read;
 * - a change while it is read: the key is made again afterwards, and has to be the same;
 * - file systems that tell what they like (FUSE, network, images that a user may have mounted:
 *   nosuid) or do not set times where a file is written through a mapping (tmpfs).
 * What is left: a file that is written through a mapping while it is executed (its time is set once
 * until the page was written to disk), and a clock that root set back to the very nanosecond. Then
 * places are probed that are no beginnings of functions any more, in a file whose owner rewrites
 * code that runs.
 *
 * A key also has the program that asked (its executable) and all that the answer depends on
 * besides. It is stored whole and compared: no hash stands for it. Only root has a cache: root's
 * answers decide where probes are put in everybody's processes, and a user with capabilities could
 * write his own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

struct facts_cache;

/* dir: NULL = the folder `facts` of the caches. max_bytes: 0 = 128 MiB. Never fails. For one
 * thread. */
struct facts_cache *facts_cache_open(const char *dir, uint64_t max_bytes);
void facts_cache_close(struct facts_cache *c);

/* The key of an answer about the open file, to be freed; asked: whatever else it depends on.
 * Empty: such an answer is not kept. */
void facts_cache_key(const struct facts_cache *c, int fd, unsigned op, const void *asked,
		     size_t len, struct buf *ret);

/* With an empty key nothing is found and nothing stored. load: the answer, to be freed. */
bool facts_cache_load(struct facts_cache *c, const struct buf *key, struct buf *ret);
/* key: as it was before the file was read. */
void facts_cache_store(struct facts_cache *c, int fd, const struct buf *key,
		       const struct buf *answer);

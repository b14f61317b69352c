/* facts_keeper.h - writes answers about files to the cache on a thread of its own: who asks for
 * them has tasks held, and a disk may take seconds. Internal to src/probe. */
#pragma once

#include "base/buffer.h"

struct facts_keeper;

/* Keeps in the folder of facts_cache_open(NULL, 0). Never fails; the thread is started with the
 * first answer. */
struct facts_keeper *facts_keeper_new(void);
/* Writes what waits, for two seconds. */
void facts_keeper_free(struct facts_keeper *k);

/* As facts_cache_store(). The key and the answer are taken over and emptied. Dropped where too much
 * waits already. */
void facts_keeper_store(struct facts_keeper *k, int fd, struct buf *key, struct buf *answer);

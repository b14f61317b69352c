/* unpacker.h - what decompresses zstd, one for each thread. */
#pragma once

#include <zstd.h>

/* The calling thread's own, for as long as it lives: making one takes longer than a small block
 * does. NULL: out of memory. */
ZSTD_DCtx *unpacker(void);

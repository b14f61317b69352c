/* call_blocks.h - reads all calls of a recording with several threads. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "recording/recording.h"

struct call_blocks_options {
	unsigned workers; /* 0 = one for each CPU */
	/* Called from the calling thread now and then; may be NULL. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
};

/* Hands every call to take; each worker has its own state, of state_bytes, zeroed, and
 * threads call take with their own. Returns the states in one array of *ret_workers; the
 * caller frees it. order is the call's place in the file. Blocks that cannot be read are left
 * out. */
typedef void call_blocks_take(void *state, void *ctx, const struct m_call *c, uint64_t order);
void *call_blocks_read(const struct rec_reader *r, const struct call_blocks_options *o,
		       size_t state_bytes, call_blocks_take *take, void *ctx, size_t *ret_workers);

/* gpu_ledger.h - who allocated how much memory, where, and when it was freed. */
#pragma once

#include "analyze/gpu.h"
#include "analyze/gpu_addresses.h"
#include "analyze/gpu_kept.h"

struct gpu_ledger {
	VEC(struct gpu_memory) memory;
	VEC(struct gpu_memory) pinned;
	gpu_ranges_t ranges; /* where memory was; only when they are wanted */
};

/* Goes through the kept calls, sorted by time. */
void gpu_ledger_make(struct gpu_ledger *ret, const struct rec_tables *t, const gpu_kept_t *kept,
		     bool ranges_wanted);

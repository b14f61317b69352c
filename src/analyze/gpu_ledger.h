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

/* Memory that is allocated at a moment. */
struct gpu_live {
	uint32_t pid;
	int32_t device; /* -1 unknown */
	uint32_t thread;
	uint32_t stack; /* of the call that allocated it */
	uint64_t bytes;
	bool pinned;
};
typedef VEC(struct gpu_live) gpu_live_t;

enum gpu_moment {
	GPU_AT_END,  /* of the recording, or of the process where it ended before */
	GPU_AT_PEAK, /* of each process and device for itself; likewise of pinned memory */
	GPU_AT_TIME,
};

/* What is allocated at a moment, of the kept calls sorted by time. At a time: after all that
 * happened up to it. */
void gpu_ledger_live(gpu_live_t *ret, const struct rec_tables *t, const gpu_kept_t *kept,
		     enum gpu_moment at, uint64_t time_ns);

/* Goes through the kept calls, sorted by time. */
void gpu_ledger_make(struct gpu_ledger *ret, const struct rec_tables *t, const gpu_kept_t *kept,
		     bool ranges_wanted);

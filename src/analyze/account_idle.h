/* account_idle.h - what the host did while GPUs were idle: by the waits and samples of the threads
 * that launched the work that came next.
 *
 * A device is one of gpu_gaps.h. Between the end of its work and the next launch it waits for the
 * host; from there until that work begins the time is its own. Does no output. */
#pragma once

#include "analyze/account.h"

struct account_window {
	uint32_t pid;
	uint64_t from_ns, to_ns;
};

struct account_device {
	uint32_t pid;
	int32_t device;
	bool in_window; /* else from its first work to its last */
	uint64_t span_ns;
	uint64_t busy_ns;
	uint64_t work_ns; /* of it, with more than NCCL's kernels, which wait for other ranks */
	uint64_t own_ns;  /* idle, and the work had been launched */
	uint64_t host_ns[ACCOUNT_OWNERS]; /* idle until a launch, by what its thread did */
	uint64_t unknown_ns;		  /* idle, and the launch is not in the recording */
	uint64_t idle_ns;		  /* the last three together */
};

struct account_devices {
	VEC(struct account_device) list; /* by pid, then number */
};

/* Of processes that have a window only what lies in it; those of which nothing does are left out.
 */
void account_idle_make(struct account_devices *ret, const struct row_source *s,
		       const struct timeline *t, const struct account_window *windows, size_t n);
void account_idle_free(struct account_devices *d);

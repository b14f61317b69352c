/* gpu_kept.h - calls that are kept and gone through in order of time: allocations, contexts,
 * captures, graphs. They are few; launches and copies are counted as they are read. */
#pragma once

#include <stdint.h>

#include "analyze/gpu_roles.h"
#include "base/buffer.h"

struct gpu_kept {
	uint64_t time_ns; /* when it takes effect: end of the call, or start (gpu_probe.at_start) */
	uint64_t order;	  /* block and row */
	uint32_t thread;  /* of GPU_PROCESS_END: the process's pid */
	uint32_t probe;
	uint32_t stack; /* as m_call.stack */
	uint8_t role;
	uint8_t rank; /* of what happens at the same time: ends of memory first */
	bool failed;
	int16_t device; /* that the call names itself (torch_alloc), -1 = none */
	uint64_t v[GPU_KEPT_ARGS];
};

typedef VEC(struct gpu_kept) gpu_kept_t;

/* The kept form of a call of a kept role. False: it has no effect (it failed, or has not
 * returned). */
bool gpu_keep(struct gpu_kept *ret, const struct gpu_probe *p, const struct m_call *c,
	      uint64_t order);

/* Adds the ends of processes before to_ns; of one process, or of all where pid is 0. */
void gpu_kept_process_ends(gpu_kept_t *kept, const struct rec_tables *t, uint32_t pid,
			   uint64_t to_ns);

/* Sorts by time. */
void gpu_kept_sort(gpu_kept_t *kept);

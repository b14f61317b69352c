/* launches.h - launches of kernels with their arguments, as CUPTI tells its subscriber at a call's
 * entry and exit: what a probe of the driver's functions sees, at a tenth of its cost. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cupti_abi.h"

struct launch {
	uint64_t start, end;	 /* ticks.h */
	uint64_t kernel, stream; /* handles */
	uint32_t grid[3], block[3];
	uint32_t shared_bytes;
	uint32_t correlation;
	uint32_t result;   /* CUresult */
	uint16_t function; /* CUpti_driver_api_trace_cbid */
	uint8_t depth;	   /* operators around it */
	uint8_t pad;
};
_Static_assert(sizeof(struct launch) == 72, "eight to nine cache lines");

/* Subscribes to CUPTI, where the caller may: while CUDA starts, in the thread that it starts in. */
void launches_subscribe(const struct cupti *c);

/* Each launch goes to `take`, in the thread that makes it; subscribes if need be. False where
 * CUPTI has a subscriber already: CUPTI knows but one. */
bool launches_start(const struct cupti *c, void (*take)(struct launch *launch));

/* No more are told; a thread may still be in `take` for a moment. */
void launches_stop(const struct cupti *c);

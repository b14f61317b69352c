/* gpu_host.h - what threads that launch GPU work did in a span of time: waits for the device,
 * calls of NCCL, times off the CPU. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/timeline.h"

struct host_time {
	uint64_t sync_ns;	/* in waits for the device, and in copies that wait */
	uint64_t sync_end_ns;	/* when the one ended that had begun before; 0 = there was none */
	uint64_t collective_ns; /* in calls of NCCL */
	/* Getting the next batch: in PyTorch's range of that name; where only its beginning is
	 * recorded, from there to the end of the span of time. */
	uint64_t loading_ns;
	/* off the CPU, outside of waits for the device: */
	uint64_t data_ns; /* for the disk, or in a data loader */
	uint64_t preempted_ns;
	uint64_t blocked_ns; /* for anything else; where times off the CPU are not recorded,
			      * for whatever, as far as samples tell: from one and a half of
			      * their periods on */
};

struct gpu_host;

/* Of the threads of the timeline's calls, which is complete before this visitor ends. *ret is there
 * at once, and filled when the visitor ends: then done is called. */
struct row_visitor *gpu_host_visitor(struct gpu_host **ret, const struct row_source *s,
				     const struct timeline *t, void (*done)(void *ctx), void *ctx);
void gpu_host_free(struct gpu_host *h);

/* Times off the CPU are in the recording. */
bool gpu_host_waits(const struct gpu_host *h);

void gpu_host_time(struct host_time *ret, const struct gpu_host *h, uint32_t thread,
		   uint64_t from_ns, uint64_t to_ns);

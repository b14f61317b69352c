/* kernel_times.h - the time that each kernel of the report ran on the device. */
#pragma once

#include <stdint.h>

#include "analyze/gpu.h"
#include "analyze/timeline.h"

struct kernel_time {
	uint64_t count; /* spans */
	uint64_t total_ns, max_ns;
};

struct kernel_times {
	struct kernel_time *rows;  /* by place in gpu_summary.kernels */
	struct kernel_time others; /* of kernels that are not in it: launched by nothing recorded */
};

/* demangle: as of timeline_options; may be NULL. */
void kernel_times_make(struct kernel_times *ret, const struct timeline *t,
		       const struct gpu_summary *gpu,
		       char *(*demangle)(const char *name, int params));
void kernel_times_free(struct kernel_times *k);

/* fixed_work.h - how often the same work was timed on CPUs that a process had, and how long it took
 * in sum. Shared by the BPF programs and user space. */
#pragma once

#include <linux/types.h>

struct fixed_work {
	__u64 n;
	__u64 ns;
	__u64 since_ns; /* CLOCK_MONOTONIC */
};

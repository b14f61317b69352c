/* clock.h - the clock of all times in a recording. */
#pragma once

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, as bpf_ktime_get_ns() gives it. */
static inline uint64_t monotonic_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

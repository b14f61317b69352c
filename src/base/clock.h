/* clock.h - the clock of all times in a recording, and times in nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t timespec_ns(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * 1000000000ULL + (uint64_t)ts->tv_nsec;
}

/* As file systems take the times of files. */
static inline uint64_t realtime_coarse_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	return timespec_ns(&ts);
}

/* CLOCK_MONOTONIC, as bpf_ktime_get_ns() gives it. */
static inline uint64_t monotonic_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return timespec_ns(&ts);
}

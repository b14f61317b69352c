/* clock.h - the clock of all times in a recording, and times in nanoseconds. */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

static inline uint64_t timespec_ns(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * 1000000000ULL + (uint64_t)ts->tv_nsec;
}

/* CLOCK_REALTIME. No file that was written before has a later time, as it may have than
 * CLOCK_REALTIME_COARSE: since Linux 6.13 (multigrain timestamps) its times lie between ticks. */
static inline uint64_t realtime_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	return timespec_ns(&ts);
}

/* CLOCK_MONOTONIC, as bpf_ktime_get_ns() gives it. */
static inline uint64_t monotonic_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return timespec_ns(&ts);
}

/* CLOCK_REALTIME - CLOCK_MONOTONIC, modulo 2^64; true to half of the shortest of some times that
 * reading both took, so that a thread which is preempted between the two does not shift it. */
static inline uint64_t realtime_offset_ns(void)
{
	uint64_t ret = 0, shortest_ns = UINT64_MAX;
	for (int i = 0; i < 8; i++) {
		uint64_t before_ns = monotonic_ns(), real_ns = realtime_ns();
		uint64_t took_ns = monotonic_ns() - before_ns;
		if (took_ns < shortest_ns) {
			shortest_ns = took_ns;
			ret = real_ns - (before_ns + took_ns / 2);
		}
	}
	return ret;
}

/* What this thread has used so far. */
static inline uint64_t thread_cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return timespec_ns(&ts);
}

/* What all threads of a process have used so far, those that ended included; 0: it is not there. */
static inline uint64_t process_cpu_ns(pid_t pid)
{
	clockid_t clock;
	struct timespec ts;
	return clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts) ? 0 : timespec_ns(&ts);
}

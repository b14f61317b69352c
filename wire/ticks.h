/* ticks.h - the processor's counter of time beside CLOCK_MONOTONIC. Read in the job's threads by
 * what is loaded into them; eacgm, and the library's own threads, make nanoseconds of it. A header
 * alone, for both sides compile it. x86-64. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t ticks_monotonic_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* counted: ticks are the counter's, else nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t ticks_read(bool counted)
{
	return counted ? __builtin_ia32_rdtsc() : ticks_monotonic_ns();
}

/* Both clocks at one moment. */
struct ticks_pair {
	uint64_t ticks;
	uint64_t ns;
};

/* As near as the two can be read, some ten nanoseconds. */
static inline struct ticks_pair ticks_pair_read(bool counted)
{
	struct ticks_pair best = {0};
	uint64_t narrowest = UINT64_MAX;
	for (int i = 0; i < 4; i++) {
		uint64_t before = ticks_read(counted), ns = ticks_monotonic_ns();
		uint64_t after = ticks_read(counted);
		if (after - before >= narrowest)
			continue;
		narrowest = after - before;
		best = (struct ticks_pair){before + narrowest / 2, ns};
	}
	return best;
}

/* Line through two pairs; a is the earlier. */
static inline uint64_t ticks_to_ns(const struct ticks_pair *a, const struct ticks_pair *b,
				   uint64_t ticks)
{
	if (b->ticks <= a->ticks)
		return b->ns;
	double rate = (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks);
	return b->ns + (uint64_t)(int64_t)((double)(int64_t)(ticks - b->ticks) * rate);
}

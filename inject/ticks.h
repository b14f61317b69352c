/* ticks.h - the processor's counter of time, read in the job's threads, and what it is on
 * CLOCK_MONOTONIC, worked out in ours.
 *
 * To read the counter takes a third of what clock_gettime(2) does. It is used where the
 * processor says that it runs at one rate in all its states, and Linux keeps its own time by it;
 * else ticks are nanoseconds of CLOCK_MONOTONIC. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

extern bool ticks_are_counted __attribute__((visibility("hidden")));

void ticks_choose(void);
uint64_t ticks_monotonic_ns(void);

static inline uint64_t ticks_now(void)
{
	return ticks_are_counted ? __builtin_ia32_rdtsc() : ticks_monotonic_ns();
}

/* Both clocks at one moment. */
struct ticks_pair {
	uint64_t ticks;
	uint64_t ns;
};

/* As near as the two can be read, some ten nanoseconds. */
struct ticks_pair ticks_pair_now(void);

/* Line through two pairs; a is the earlier. */
uint64_t ticks_to_ns(const struct ticks_pair *a, const struct ticks_pair *b, uint64_t ticks);

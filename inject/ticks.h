/* ticks.h - which clock the job's threads read, chosen once for the process.
 *
 * To read the processor's counter takes a third of what clock_gettime(2) does. It is used where the
 * processor says that it runs at one rate in all its states, and Linux keeps its own time by it;
 * else ticks are nanoseconds of CLOCK_MONOTONIC. */
#pragma once

#include "wire/ticks.h"

extern bool ticks_are_counted __attribute__((visibility("hidden")));

void ticks_choose(void);

static inline uint64_t ticks_now(void)
{
	return ticks_read(ticks_are_counted);
}

static inline struct ticks_pair ticks_pair_now(void)
{
	return ticks_pair_read(ticks_are_counted);
}

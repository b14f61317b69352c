/* hist.h - into which bucket of a histogram (struct hist_value) a duration goes: for the programs
 * in the kernel and for the code inside of processes, which count alike. */
#pragma once

#include "wire/event.h"

/* Bucket of a duration: octave and two more bits (wire/event.h). Without a count of leading zeros:
 * programs in the kernel have none. */
static inline __attribute__((always_inline)) __u32 hist_bucket(__u64 ns)
{
	__u64 v = ns >> HIST_MIN_SHIFT;
	if (!v)
		return 0;
	__u32 octave = 0;
	if (v >> 32) {
		octave += 32;
		v >>= 32;
	}
	if (v >> 16) {
		octave += 16;
		v >>= 16;
	}
	if (v >> 8) {
		octave += 8;
		v >>= 8;
	}
	if (v >> 4) {
		octave += 4;
		v >>= 4;
	}
	if (v >> 2) {
		octave += 2;
		v >>= 2;
	}
	if (v >> 1) {
		octave += 1;
	}
	if (octave >= HIST_OCTAVES)
		return HIST_BUCKETS - 1;
	__u32 fraction = (__u32)(ns >> (HIST_MIN_SHIFT + octave - 2)) & 3;
	return octave * 4 + fraction;
}

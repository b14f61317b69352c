/* launch_start.h - how long the launches that were learned from took until their work went at its
 * usual pace: caches that fill, allocators, tuning. Another launch will, too, and is not judged
 * before. No I/O. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "detect/pace_alarms.h"

#define LAUNCH_START_MOST_NS 30000000000ULL /* what is slow for longer is slow */

/* From the first window to that of three on end that are slow no more, of the launch that took
 * longest; 0 where all were quick at once, or were slow for longer than LAUNCH_START_MOST_NS.
 * windows: in order of recordings, processes and time. */
uint64_t launch_start_ns(const struct paced *windows, size_t n, uint64_t window_ns);
/* Leaves out those of each launch that begin before that. How many are left. */
size_t launch_start_leave_out(struct paced *windows, size_t n, uint64_t start_ns);

/* own_time.h - how long a call took by itself, had the calls that were made within it taken what is
 * usual for them: of whatever layer, and what they lost is theirs, that of calls within them too.
 * Knows no layers and judges nothing.
 *
 * What lies in what is told by times: a call's recorded depth is too small around calls that take
 * long (pipeline/shim_ops.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct own_times;
struct own_times *own_times_new(void);
void own_times_free(struct own_times *o);

struct own_call {
	uint32_t pid, tid;
	uint64_t start_ns, dur_ns;
	double usual_ns; /* NaN: nothing is known of it, and all its time is beyond what is usual */
	bool waits; /* for another thread of the process: what that one's calls lost is not its */
};
/* Of a thread's calls in order of their ends; of those that are waited for as far as they came
 * before. At least 0, at most what it took. */
double own_time_ns(struct own_times *o, const struct own_call *c);

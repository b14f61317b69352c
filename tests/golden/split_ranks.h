/* split_ranks.h - takes a rank out of a recording, as another host's clock would have shown it.
 *
 * Keeps what collectives are seen by: NCCL's calls, the launches of its kernels and those. What it
 * leaves out makes a recording of two ranks small enough to be kept with the tests. */
#pragma once

#include <stdint.h>

#include "recording/recording.h"

struct split_clock {
	const char *host, *boot; /* NULL: as in the recording */
	int64_t shift_ns;	 /* is added to all times */
	double drift;		 /* 1e-6: a microsecond a second is added as well */
	int64_t realtime_error_ns;
};

/* What the clock shows when the recording's shows time_ns. */
uint64_t split_shown(const struct split_clock *c, uint64_t time_ns);

/* pid 0: all ranks. */
int split_ranks(const char *from, const char *to, uint32_t pid, const struct split_clock *c,
		struct err *e);

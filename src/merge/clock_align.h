/* clock_align.h - brings the clocks of several hosts to the first one's, by what their ranks did
 * together.
 *
 * Clocks are taken up one by one, each time that which shares most collectives with those that
 * are aligned already (the reference first), so that also hosts that only talk to each other
 * through others are reached. Of each collective the ranks that are aligned stand on one side, the
 * ranks of the clock at hand on the other: the last start and the first end of either bound the
 * shift (see clock_map.h), the middle ends of both estimate it. The error of the aligned side is
 * added; where the reference takes part in half of the collectives or more it stands there alone,
 * so that errors do not add up.
 *
 * Only calls whose own times are known take part: on the device, or of calls that block. A call
 * that enqueues ends before the collective does, and bounds nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analyze/rank_match.h"
#include "merge/clock_map.h"

struct clock_state {
	struct clock_map map; /* before: a first estimate */
	uint64_t used;	      /* collectives, sends and receives that the map comes from */
	bool aligned;	      /* before: of the reference alone */
};

/* Aligns what can be; the maps of the others stay what they are. */
void clock_align(struct clock_state *clocks, size_t n, const struct rank_matching *m);

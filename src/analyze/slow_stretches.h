/* slow_stretches.h - stretches of a loop in which steps were slow for a time: not single long
 * steps, as a checkpoint, nor what a loop does again and again.
 *
 * The mean of SLOW_STRETCH_STEPS steps or more that take a second in a row is held against that of
 * all such windows of the loop; a step counts three times the median step there at most, so that
 * one long step makes no window slow. A window is slow that is 1.4 x as long as the middle one, and
 * whose robust z is above 3.5, as of slow steps (steps.h). Its spread is the smaller of two: the
 * median distance from the middle one of all windows, and of those that are longer. A job that has
 * been quick for a time is far from the middle below it alone.
 *
 * A stretch goes from the first to the last slow step of slow windows that overlap; a slow step is
 * as long as a slow window's mean has to be. Five of its steps are slow, and it lasts a second. Why
 * they were slow is not asked for. Pure: no I/O. */
#pragma once

#include <stdint.h>

#include "analyze/steps.h"
#include "base/buffer.h"

#define SLOW_STRETCH_STEPS 8

struct slow_stretch {
	uint32_t first, steps;	 /* of the steps that were given */
	uint32_t slow;		 /* of these steps */
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	double lost_ns; /* by which its steps took longer than the usual one, all of them */
};

struct slow_stretches {
	VEC(struct slow_stretch) list; /* in order of time; none: nothing stands out */
	uint32_t slow;		       /* in all */
	double slow_ns, usual_ns;      /* the median slow step; that of the steps in no stretch */
	double lost_ns;		       /* in all */
};

/* Of a loop's steps, in order of time. None is told that begins with the loop's first steps, which
 * warm up; none at all where stretches have more than a third of the steps, or three or more begin
 * evenly far from each other, since these are another kind of steps. The caller frees *ret. */
void slow_stretches_find(struct slow_stretches *ret, const struct steps_step *steps, uint32_t n);
void slow_stretches_free(struct slow_stretches *s);

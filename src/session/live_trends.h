/* live_trends.h - the last minutes of the counters that live_series.h has the last values of, for
 * who draws them. Memory is bounded by the constants below: 700 KB; what finds no room is counted.
 *
 * Not for several threads: the host locks it. */
#pragma once

#include "session/live_series.h"
#include "session/live_state.h"

#define TRENDS	      512
#define TREND_POINTS  300
#define TREND_EACH_NS 2000000000ULL /* between two points: ten minutes of them */

/* Of a counter; a place in the ring is NaN where it was not told. */
struct live_trend {
	uint8_t kind; /* enum entity_kind */
	uint8_t unit; /* enum metric_unit */
	uint32_t pid, gpu;
	int32_t instance; /* -1: none */
	char *label, *name;
	float values[TREND_POINTS]; /* that of tick n at n mod TREND_POINTS */
	uint64_t last;		    /* the last tick in which it was told */
};

/* Of the steps of one process, those that ended between two points: their mean and the longest, ns.
 * NaN where none did. */
struct live_step_trend {
	uint32_t pid;
	uint64_t count;
	char marker[LIVE_NAME_BYTES]; /* whose calls mark them */
	float mean[TREND_POINTS], longest[TREND_POINTS];
};

struct live_trends {
	VEC(struct live_trend) list;
	VEC(struct live_step_trend) steps; /* of LIVE_JOBS processes at most */
	uint64_t ticks;			   /* so far: the newest is ticks - 1 */
	uint64_t last_ns;		   /* of CLOCK_MONOTONIC: the newest */
	uint64_t left_out;		   /* counters that found no room, in the newest */
	/* the rest is its own */
	struct map64 place_of;
};

/* t: zeroed. Adds a point where it is time; returns whether it did. Of processes those that make
 * traced calls alone. */
bool live_trends_tick(struct live_trends *t, const struct live_series *s, uint64_t now_ns);
/* After a tick: the steps that ended since the one before it, as far as their history goes. */
void live_trends_steps(struct live_trends *t, const struct live_jobs *jobs);
void live_trends_free(struct live_trends *t);

/* Points that there are, TREND_POINTS at most; the i-th of a ring of them, the oldest first. */
uint32_t live_trends_points(const struct live_trends *t);
double live_trend_value(const struct live_trends *t, const float *values, uint32_t i);

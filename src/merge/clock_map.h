/* clock_map.h - from the clock of one host to that of another.
 *
 * All times are CLOCK_MONOTONIC, which every host counts from its own boot, at its own rate. Let
 * the shift s(t) be what is added to a time t of the clock at hand to get that of the reference.
 *
 * What bounds it. A collective that synchronises its ranks (all_reduce, all_gather,
 * reduce_scatter, all_to_all, barrier) cannot end on any of them before the last one has begun.
 * With a of the reference and b of the clock at hand:
 *      end_b + s >= start_a     so  s >= start_a - end_b
 *      end_a >= start_b + s     so  s <= end_a - start_b
 * A receive cannot end before its send has begun: one of the two. That is certain, whatever the
 * network does. Each collective gives an interval as wide as both ranks' transfer together (where
 * the one that came last is the only one that did not wait); the intersection is about the
 * shortest transfer of those where a was last, plus that where b was.
 *
 * What estimates it. The ends are nearly simultaneous: s is about end_a - end_b. Not quite: on two
 * H200 over NVLink the rank that came last ends later than one that waited, by about a tenth of the
 * transfer (0 to 4 us of 56 us, 10 us of 120 us, 24 us of 640 us), so that a rank that is always
 * last would pull the clock along. So only short transfers are asked: those of at most twice the
 * tenth shortest of a hundred, in each window of time (10 s, and 64 collectives at least). A line
 * is put through these, by the median of slopes (Theil and Sen) and of what is left, so that up
 * to 29 % of outliers do not move it. A slope of more than 500 ppm is no clock's; fewer than 8
 * ends tell none. Where there are no ends, it is the middle of the bounds. Between the middles of
 * windows s is linear. Then all of it is moved into the intersection of the bounds, where it is
 * not in it.
 *
 * The error is the distance to the farther end of that intersection, certain but for one bound in
 * a hundred, which is left out (a span may be misplaced); or, where that is less, four times the
 * robust spread of the ends that were asked (1.48 times the median of their distances from the
 * line), and a quarter of their transfer at least: this takes it for given that no rank ends
 * before another each time by more than that. Where bounds contradict each other it is that
 * alone. Nothing is assumed about the network being symmetric. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define CLOCK_NO_BOUND	    INT64_MAX
#define CLOCK_ERROR_UNKNOWN UINT64_MAX

/* What one collective says. */
struct clock_bound {
	uint64_t time_ns; /* when, on the clock at hand; all times are below 2^60 */
	int64_t low_ns;	  /* the shift is at least this; -CLOCK_NO_BOUND = not bounded */
	int64_t high_ns;
	int64_t ends_ns;      /* difference of the ends, where there is one */
	uint64_t transfer_ns; /* the shortest that a rank took: without waiting */
	bool has_ends;
};

struct clock_knot {
	uint64_t time_ns; /* of the clock at hand */
	int64_t shift_ns;
};

/* The shift over time: linear between knots, and on beyond them. No knot: the clocks are one. */
struct clock_map {
	VEC(struct clock_knot) knots;
	uint64_t error_ns; /* CLOCK_ERROR_UNKNOWN: nothing bounds it */
};

/* A shift that is the same at all times. */
void clock_map_constant(struct clock_map *m, int64_t shift_ns, uint64_t error_ns);

/* Finds the map; the bounds are put into order of time. False: they do not tell one. */
bool clock_map_fit(struct clock_map *m, struct clock_bound *bounds, size_t n);

int64_t clock_map_shift(const struct clock_map *m, uint64_t time_ns);

/* The time on the reference's clock. Later times stay later or the same. 0, which is no time,
 * stays 0. */
uint64_t clock_map_time(const struct clock_map *m, uint64_t time_ns);

/* How much faster the reference runs, over all of the map: 1e-6 is one ppm. */
double clock_map_drift(const struct clock_map *m);

void clock_map_free(struct clock_map *m);

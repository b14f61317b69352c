/* trend.h - whether a value grows steadily, since when and how fast, from values that come one by
 * one. What is kept is bounded: the last minute in points of a second, and all of it in points that
 * become wider as it gets longer. Of each point the lowest value counts, so that what goes up and
 * comes back, as memory that is collected now and then, does not look like growth. Pure: no I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREND_POINTS 64

struct trend_point {
	uint64_t begin_ns; /* of the first value in it */
	uint64_t ns;	   /* of the lowest */
	double low, high;
	double beside; /* what was told beside the first: a limit */
};

struct trend_history {
	uint64_t width_ns; /* of a point; 0: not begun */
	uint32_t len;
	struct trend_point at[TREND_POINTS];
};

/* Zeroed at its beginning. */
struct trend {
	uint64_t first_ns, last_ns;
	double last;
	struct trend_history recent, life;
};

/* What came is left out where it is older than what came before, or no number. */
void trend_add(struct trend *t, uint64_t ns, double value, double beside);

/* Leaves out a fall within so long before the last value: what a process gives back as it ends. */
void trend_drop_fall(struct trend *t, uint64_t within_ns);

struct trend_growth {
	uint64_t since_ns, until_ns;
	double from, to; /* on the line, not the values */
	double per_s;	 /* above 0 */
	double beside_per_s;
};

/* The longest time up to the last value in which it grew steadily. False: there is none. */
bool trend_steady(const struct trend *t, struct trend_growth *ret);

/* The point of that time, or the last before it; NULL: none is known. */
const struct trend_point *trend_at(const struct trend *t, uint64_t ns);

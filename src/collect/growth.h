/* growth.h - what numbers that only grow tell: rates and shares. A number that shrank, wrapped or
 * jumped further than it can tells nothing, until it has been read twice again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct growth {
	uint64_t last;
	bool known;
};

/* By how much it grew since the last time; false: that is not known. */
static inline bool growth_take(struct growth *g, uint64_t now, uint64_t *ret_by)
{
	bool grew = g->known && now >= g->last;
	*ret_by = grew ? now - g->last : 0;
	*g = (struct growth){now, true};
	return grew;
}

/* It could not be read. */
static inline void growth_forget(struct growth *g)
{
	g->known = false;
}

/* The file and the clock are not read at one moment. */
#define RATIO_SLACK 1.25

/* Reads nearer to each other than this, as the last one before the end may be, tell nothing of the
 * time between them. */
#define PASSED_LEAST_NS 50000000

/* Whether it is time to read again, and how long ago *last_ns was: 0 the first time. */
static inline bool growth_passed(uint64_t *last_ns, uint64_t now_ns, uint64_t *ret_ns)
{
	*ret_ns = *last_ns && now_ns > *last_ns ? now_ns - *last_ns : 0;
	if (*last_ns && *ret_ns < PASSED_LEAST_NS)
		return false;
	*last_ns = now_ns;
	return true;
}

/* A share of what it can be at most. False: that much cannot be. */
static inline bool growth_ratio(uint64_t by, double of, double most, double *ret)
{
	double ratio = of > 0 ? (double)by / of : -1;
	*ret = ratio > most ? most : ratio;
	return ratio >= 0 && ratio <= most * RATIO_SLACK;
}

static inline double growth_per_s(uint64_t by, uint64_t passed_ns)
{
	return (double)by * 1e9 / (double)passed_ns;
}

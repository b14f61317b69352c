/* cusum.h - evidence that adds up over windows: a small shift that lasts.
 *
 * S = max(0, S + u - k), u = -ln p of each window: where all is normal u is exponential with
 * mean 1 (p is uniform), so the height h at which S alarms once in a given number of windows
 * follows from k alone (Page, "Continuous inspection schemes", 1954; the run length by the Markov
 * chain of Brook and Evans, 1972). The one-sided CUSUM says also when the shift began: at the last
 * S = 0. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CUSUM_SLACK 2.0 /* k: a mean of u above it is a shift */
#define CUSUM_MOST  8.0 /* u is cut off there: one window alone is no lasting shift */

struct cusum {
	double sum; /* at most CUSUM_SLACK above the height, so that it falls when the shift ends */
	uint64_t since; /* the windows that made sum what it is: number of the first */
	uint64_t last;	/* and of the last that raised it */
};

/* The height that is reached once in windows_between windows on average, where all is normal;
 * windows_between is put into [10, 10^9]. */
double cusum_height(double windows_between);
/* Adds a window's p (in (0, 1]; NaN: nothing is known, nothing changes). number grows from window
 * to window. Returns whether the sum is above the height and this window raised it. */
bool cusum_add(struct cusum *c, uint64_t number, double p, double height);

/* learn_suspects.h - when recordings that are learned from look faulty: the usual work went on far
 * more slowly than in most of their windows, for some windows on end. No I/O.
 *
 * Pace is the witness, for faults cannot hide from it: a mixture may give them a component, and
 * regimes a kind of work, but the work that the job always does is done less often. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define SUSPECTS_SLOWER 0.2  /* ln pace below the median: faults take more */
#define SUSPECTS_SIGMA	3.0  /* and so many sigma, of most windows */
#define SUSPECTS_ON_END 2    /* fewer are the tail of what is normal */
#define SUSPECTS_MOST	0.5  /* of the windows: of more it is not known which are normal */
#define SUSPECTS_LEAST	30   /* windows that say what the pace is */
#define SUSPECTS_IDLE	4    /* so many still stretches of a recording are how the job waits */
#define SUSPECTS_STILL	0.02 /* a pace at which hardly anything is done */

/* A window of a process, with its pace (of struct feature_row). */
struct paced_window {
	uint32_t recording, pid;
	uint64_t start_ns;
	double pace;  /* 0 unknown */
	double cpus;  /* as in struct feature_row */
	bool parents; /* it is its parent's */
	bool idle;    /* found: nothing is said of its pace then */
};
typedef VEC(struct paced_window) paced_windows;

/* A stretch of a recording, of all its processes. */
struct suspect {
	uint32_t recording;
	uint64_t start_ns, end_ns;
};
typedef VEC(struct suspect) suspects;

/* In order of recordings, processes and time, one of each window: of the layers of a process each
 * has a row of it. */
void learn_suspects_sort(paced_windows *windows);
/* Finds stretches, in order of recordings and time, with the window before and the one after: they
 * do not overlap. Sorts the windows. Where a recording has SUSPECTS_IDLE or more stretches of
 * windows in which hardly anything was done, apart from each other, it idles between requests, and
 * none of these is suspect. There are none where more windows than SUSPECTS_MOST would be suspect.
 */
void learn_suspects_find(suspects *ret, paced_windows *windows, uint64_t window_ns);
/* Whether it lies in one of them. */
bool learn_suspects_at(const suspects *s, uint32_t recording, uint64_t time_ns);

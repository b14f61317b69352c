/* clock.h - how fast the work of a process goes on, whatever that work is.
 *
 * Each call has a usual duration, and a usual time before it, by its function, its sizes and the
 * call before it (usual.h). Summed up over what a process did in a window they say how long that
 * much work usually takes: U. It took A. The speed is U / A: 1 as usual, 0.5 where all takes twice
 * as long. Nothing in it asks for steps, for fixed shapes or for one kind of work: twice as many
 * short steps, an evaluation between, a burst of requests have more usual time in the same window.
 *
 * A model divides that by what most of its windows had: where a part of what was learned from was
 * slow, usual times are too long.
 *
 * One thing it does not see by itself: calls that are made in vain (a copy in each layer, many
 * small kernels) have their usual time, too. So functions are put by hash into CLOCK_PLACES places,
 * and a model says how many calls of each place belong to a second of usual time. In a window where
 * most places (by time) have so many times their calls, P, the work is the usual one at that pace,
 * and calls of a place beyond its most (what training windows had, CLOCK_MORE at least) are beside
 * the work: their time was lost, as is that of calls that nobody knows:
 *
 *   speed = sum over places of usual time x min(1, P x most x usual calls / calls)  /  A
 *
 * Threads that wait for each other's work have times between their calls that are as long as it
 * happens to be given to one or another of them (pools, as XLA's). Where that is so, the window
 * itself is the time that the work took: A is how long it is. Learning takes that where paces
 * differ less by it, by a tenth at least, and nobody waits for the world as it pleases.
 *
 * Where the times of calls say less yet (GPU graphs that are launched by a thread, and waited for
 * by others, as of JAX), calls alone tell: the speed of the usual work is P, over that of most
 * windows that were learned from. Learning takes that where nobody waits for the world as it
 * pleases, 80 % of the windows are of the usual work, its places have 20 calls a window, and paces
 * of these windows differ half as much by it; or hardly more, where the window is the time: how
 * many threads of a pool make the calls changes while a job runs.
 *
 * A place that has more calls than that, of which each took less than half of its usual time, says
 * nothing of the pace: waiting for a GPU that has nothing to do is quick, and is no work.
 *
 * Where places do not agree, it is another mix of known work (an evaluation): U / A then, less the
 * usual time of such quick calls beyond a place's peak (no window that was learned from had more of
 * them), and unknown calls count as they took. So do calls of known functions with sizes that no
 * model has (another batch), until it was learned how long they usually take. Sums are of outermost
 * calls of one layer and of the times between calls; those between calls within another call count
 * in both, measured and usual alike. Calls are counted within others, too: a wait in a call that
 * reads a tensor has its time before it. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect/layer.h"
#include "detect/model.h"

#define CLOCK_MORE    1.25 /* calls of a place vary so much without telling anything */
#define CLOCK_AGREE   0.7  /* share of usual time whose places go at one pace */
#define CLOCK_COVERED 0.05 /* of a window: less time in calls and between them says nothing */
#define CLOCK_UNKNOWN 0.25 /* of the time: more in unknown calls is other work */
#define CLOCK_RESIZED 0.02 /* of a window: more in new sizes may be work of another size, */
#define CLOCK_OF_WORK 0.25 /* if so many of the functions have them */

/* What was done in a window, by one process and layer. Zeroed at its beginning. */
struct clock_sums {
	double ns, usual_ns; /* of calls, and times before them, that have a usual one */
	double unknown_ns;   /* of others */
	double resized_ns; /* of the first: of sizes that no model has, of functions that it has */
	/* Of the first, calls within others too; ns: that they took, and usually take. */
	float calls[CLOCK_PLACES], took[CLOCK_PLACES], usual[CLOCK_PLACES];
	uint64_t resized; /* a bit for each place that has new sizes */
};
_Static_assert(CLOCK_PLACES == 64, "a bit for each place");

/* A call, or the time before it, or the part of it that is in the window. */
struct clock_part {
	uint32_t function; /* as in keys.h's struct detect_keyed */
	bool resized; /* of a size that no model has: usual_ns was learned since, or is not known */
	double ns, usual_ns; /* NaN unknown */
};
void clock_add_call(struct clock_sums *s, const struct clock_part *part, double share);
/* Of a call within another one: that it was made. Its time is the other's, that before it its own.
 */
void clock_add_nested(struct clock_sums *s, const struct clock_part *part, double share);
void clock_add_gap(struct clock_sums *s, const struct clock_part *part);

struct clock_reading {
	double speed;  /* over that of most windows that were learned from; 0: unknown */
	bool agrees;   /* it is the usual work, at one pace */
	bool is_other; /* most of it is of calls that nobody knows */
	/* Shares of the time: in functions that no model has, and in new sizes of others. */
	double unknown, resized;
};

/* Much of the work is of sizes that no model has: slow may be right, also in layers that tell no
 * size. Not where they are of few functions, beside the work. */
bool clock_resized(const struct clock_sums *s, uint64_t window_ns);

/* m: NULL, or without a layer: nothing is known but usual times. */
void clock_read(struct clock_reading *ret, const struct model_clock *m, const struct clock_sums *s,
		uint64_t window_ns);

/* By how much one call more or less moves a pace by calls alone; 0: that is by time. */
double clock_resolution(const struct model_clock *m, uint64_t window_ns);

/* ---- learning ---- */

struct clock_window {
	uint32_t recording, pid;
	uint32_t parent; /* the nearest that makes calls, 0 none */
	uint64_t start_ns;
	enum detect_layer layer;
	double work_ns; /* cpu_speed.h; 0: not known */
	struct clock_sums sums;
};

/* Which layer tells speed best (the windows that have it differ least), by which time, and what
 * belongs to a second of its usual time. waits: what waits for the world is left out. Processes
 * that do less than half as much as the busiest are left out, and those whose parent does a tenth
 * of theirs or more: they work for it, and most of their time is that until it asks again. layer is
 * DETECT_LAYERS where there are too few windows. */
void clock_learn(struct model_clock *ret, const struct clock_window *windows, size_t n,
		 uint64_t window_ns, bool waits);

/* pace_alarms.h - how high the sum of a process's losses (pace_judge.h) has to be for so many false
 * alarms an hour.
 *
 * Conformal, in blocks: of each stretch in which a sum was above 0 its highest value is kept. Such
 * stretches are independent of each other (the sum begins anew), and one that goes above a height
 * is one alarm. What lies above the PACE_STRETCHES highest in an hour falls exponentially, as sums
 * of this kind do (Siegmund, "Sequential Analysis", 1985, ch. 2; Pickands 1975 for peaks over a
 * threshold):
 *
 *   alarms in an hour at height h = rate x exp(-(h - start) / scale)
 *
 * scale is the mean of what the highest lie above start, cut off at four scales by their median: a
 * slow host in the recordings makes a few of them very high, and is not what is normal. With them
 * are PACE_PRIOR_STRETCHES of
 * the value that normal independent windows have, 1 / (2 K). What m stretches say of it is not
 * certain: expected over what it may be, (1 + (h - start) / (m scale))^-m stands in the place of
 * exp. Sums depend on the least effect, so that there is one such tail for each of some least
 * effects; the greatest that is not above the user's counts. A launch that was not learned from
 * differs more from those that were than they do from what they have in common: of n launches each
 * one's offset is taken n / (n - 1) times. What counters add to the sums (pace_judge.h) is in the
 * stretches, so that where they go with the pace by themselves heights are as much higher. No I/O.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PACE_STRETCHES	     60
#define PACE_PRIOR_STRETCHES 5
#define PACE_TAILS	     5

struct pace_tail {
	double start, scale;
	double known; /* stretches that scale is of */
	double rate;  /* stretches in an hour whose highest is above start */
};

/* The least effects that they are of, shares of the time: 0, 0.025, 0.05, 0.1, 0.2. */
extern const double pace_effects[PACE_TAILS];

/* A window that was learned from, in order of recordings, processes and time. */
struct paced {
	uint32_t recording, pid;
	uint64_t start_ns;
	double ln_pace;
	double cpus;	   /* as in struct feature_row */
	double counters_p; /* of the process's counters in it; 0: not known */
};

/* How many of the windows, from the first on, are of its launch; and the middle of the shortest
 * interval that holds 40 % of their ln pace. n is at least 1. */
size_t paced_launch(const struct paced *windows, size_t n);
double paced_usual(const struct paced *windows, size_t n);

/* Sets the tails, and *ret_sigma: by how much windows of one launch differ, at least least_sigma.
 * recordings: how many. */
void pace_alarms_learn(struct pace_tail ret[PACE_TAILS], double *ret_sigma,
		       const struct paced *windows, size_t n, uint32_t recordings,
		       uint64_t window_ns, double least_sigma);

/* The height that is reached alarms_per_hour times in an hour of normal windows, at least 0. Of
 * tails that are all 0, where nothing was learned, that of normal independent windows. */
double pace_alarms_height(const struct pace_tail *tails, double least_effect,
			  double alarms_per_hour);

/* After how many windows work is told that takes `slowdown` times as long as usual, in a launch
 * that is known for a minute; INFINITY: never. sigma: of the model. */
double pace_alarms_windows(const struct pace_tail *tails, double sigma, double least_effect,
			   double alarms_per_hour, double slowdown);

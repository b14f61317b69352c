/* pace_judge.h - is a process's work slower than it usually is? Its pace (clock.h), window by
 * window, in one launch:
 *
 *   loss   L = -ln pace - c
 *   z      = L / s                        s^2 = sigma^2 + T^2 n0 / (n0 + n)
 *   sum    S = max(0, S + min(z, Z) - K)  of windows whose L is at least the least effect;
 *          S = max(0, S + min(z, 0) - K)  of others, 0 after PACE_QUIET of these on end
 *
 * sigma is how much windows of a launch differ (model_clock). c is what this launch has over those
 * that were learned from: the middle of the shortest interval that holds 40 % of its last n
 * windows' losses, shrunk by n / (n0 + n) to 0, where launches lie around with a standard deviation
 * T. It is at most T, for what is slower than that is no way that launches differ; but what is
 * quicker is no fault, and it may be as low as -PACE_QUICKER. One sum for windows by themselves and
 * for what adds up (Page, "Continuous inspection schemes", 1954); how high it has to be is
 * pace_alarms.h's.
 *
 * Where the model leaves out of paces what CPUs do (cpu_speed.h), L is the lesser one of two: of
 * the pace without that, and of the pace as it was, each against what the launch has of it; of the
 * second that is as much less than 0 as it is, since CPUs may be that much quicker. What is told
 * then is slow, and not for slow CPUs; work that goes on as usual while its CPUs are quicker than
 * usual is not slow, whatever else slows it.
 *
 * A window that lost the least effect, and whose counters are rare as well, is slow by evidence of
 * two kinds: of counters with the probability p
 *
 *   S = S + min(max(0, -ln p / m - X) / (2 K), Z)
 *
 * m is the mean of -ln p (of each at most Z) in this launch's last windows, 1 where the model is
 * right of it, so that counters which are always odd on another host say nothing. Over 2 K it falls
 * as steeply as sums of normal windows do (pace_alarms.h), so that these still say how high is how
 * rare. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PACE_KEPT    600  /* windows: ten minutes, in which a launch may drift */
#define PACE_LAUNCH  0.05 /* T: launches on an H200 host differed by 2 to 10 % */
#define PACE_QUICKER 0.22 /* ln of FIT_APART (fit.h): beyond it the model does not fit */
#define PACE_PRIOR   15	  /* n0 */
#define PACE_SLACK   1.0  /* K: half of the shift, in sigma, that it finds soonest */
#define PACE_MOST    8.0  /* Z: no window by itself says more */
#define PACE_PAUSE   10	  /* windows without any: what was before says nothing */
#define PACE_QUIET   5	  /* windows on end without the least effect: likewise */
#define PACE_SIGMA   0.01 /* clocks are no better */
#define PACE_RARE    4.0  /* X: one normal window in fifty has counters as rare */

/* What a launch has. */
struct pace_launch {
	float *losses;	/* -ln pace of the last PACE_KEPT windows, a ring */
	double *sorted; /* the same, in order */
	uint32_t at, len;
	double c;
	double spread; /* sigma of the ring, where no model says it */
};

/* Of one process. Zeroed at its beginning; pace_judge_free it. */
struct pace_judge {
	struct pace_launch launch;
	struct pace_launch whole; /* of paces as they were, where these differed */
	double sum;
	uint32_t quiet;
	uint64_t since_ns; /* where the sum left 0 */
	uint64_t last_ns;
	double rare; /* -ln p of counters in windows whose job was not told to be slow, summed up */
	uint32_t rare_len;
};
void pace_judge_free(struct pace_judge *j);

/* A window's pace as the model has it, once for each window, judged or not, whose job is not told
 * to be slow. cpus: of its logarithm, what was left out of it. learned: there is no model, so that
 * c is whatever the launch has. */
void pace_judge_see(struct pace_judge *j, double pace, double cpus, bool learned);
/* The loss of a window of that pace. */
double pace_judge_loss(const struct pace_judge *j, double pace, double cpus);

/* s: what a loss is measured in. sigma: of the model, 0: there is none. NaN: not known yet. */
double pace_judge_sigma(const struct pace_judge *j, double sigma);
/* A window that is judged: how high the sum is with it. loss, least: L, and that below which it
 * is no evidence. highest: the sum stays below that, so that it falls when the work is quick again.
 */
double pace_judge_add(struct pace_judge *j, uint64_t start_ns, uint64_t window_ns, double loss,
		      double s, double least, double highest);
/* The counters of the window that was judged last: how high the sum is with them, and in *ret_more
 * (may be NULL) what they add. p: what is no probability says nothing. usual: the job is not told
 * to be slow. highest: as above. 0: that window was not judged, or is not slow. */
double pace_judge_counters(struct pace_judge *j, uint64_t start_ns, double p, bool usual,
			   double highest, double *ret_more);
/* What it told of is over: what comes next is told for itself. */
void pace_judge_over(struct pace_judge *j);

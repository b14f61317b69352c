/* pace_alarms.c - stretches of windows, their highest sums, and the tail of these. */
#include "detect/pace_alarms.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/stats.h"
#include "detect/pace_judge.h"

#define SCALE_NORMAL (1 / (2 * PACE_SLACK))
#define CUT_OFF	     4.0 /* scales */

const double pace_effects[PACE_TAILS] = {0, 0.025, 0.05, 0.1, 0.2};

size_t paced_launch(const struct paced *windows, size_t n)
{
	size_t len = 1;
	while (len < n && windows[len].recording == windows->recording &&
	       windows[len].pid == windows->pid)
		len++;
	return len;
}

double paced_usual(const struct paced *windows, size_t n)
{
	double *sorted = xcalloc(n, sizeof(*sorted)), centre, sigma;
	for (size_t i = 0; i < n; i++)
		sorted[i] = windows[i].ln_pace;
	stats_sort(sorted, n);
	stats_shorth_sorted(sorted, n, &centre, &sigma);
	free(sorted);
	return centre;
}

static double sigma_within(const struct paced *windows, size_t n)
{
	double *all = xcalloc(n + 1, sizeof(*all)), centre, sigma;
	for (size_t i = 0, len; i < n; i += len) {
		len = paced_launch(windows + i, n - i);
		double offset = paced_usual(windows + i, len);
		for (size_t k = i; k < i + len; k++)
			all[k] = windows[k].ln_pace - offset;
	}
	stats_sort(all, n);
	stats_shorth_sorted(all, n, &centre, &sigma);
	free(all);
	return fmax(sigma, PACE_SIGMA);
}

/* ---- stretches ---- */

typedef VEC(double) peaks;

struct calibration {
	const struct paced *windows;
	uint32_t recordings;
	uint64_t window_ns;
	double sigma;
};

static void judge_launch(peaks *ret, const struct calibration *c, size_t from, size_t len,
			 double least_effect)
{
	const struct paced *w = c->windows + from;
	double further = c->recordings > 1 ? 1.0 / (c->recordings - 1) : 0;
	/* of both losses: how far CPUs of launches differ is not what is learned here */
	double more = further * paced_usual(w, len), least = -log1p(-least_effect);
	/* s of a launch that is known: else short ones would make sums lower than long ones have */
	const struct pace_judge known = {.launch.len = PACE_KEPT};
	double before = 0, sigma = pace_judge_sigma(&known, c->sigma);
	struct pace_judge j = {0};
	for (size_t i = 0; i < len; i++) {
		double pace = exp(w[i].ln_pace + more);
		pace_judge_see(&j, pace, w[i].cpus, false);
		double sum = pace_judge_add(&j, w[i].start_ns, c->window_ns,
					    pace_judge_loss(&j, pace, w[i].cpus), sigma, least,
					    INFINITY);
		if (w[i].counters_p > 0)
			sum = fmax(sum, pace_judge_counters(&j, w[i].start_ns, w[i].counters_p,
							    true, INFINITY, NULL));
		if (sum > 0 && !(before > 0))
			*vec_push(ret) = sum;
		else if (sum > 0 && ret->len)
			ret->data[ret->len - 1] = fmax(ret->data[ret->len - 1], sum);
		before = sum;
	}
	pace_judge_free(&j);
}

/* Processes of a recording run at once. */
static double hours_of(const struct paced *windows, size_t n, uint64_t window_ns)
{
	size_t sum = 0, longest = 0;
	for (size_t i = 0, len; i < n; i += len) {
		len = paced_launch(windows + i, n - i);
		longest = len > longest ? len : longest;
		if (i + len == n || windows[i + len].recording != windows[i].recording) {
			sum += longest;
			longest = 0;
		}
	}
	return (double)sum * (double)window_ns / 3.6e12;
}

/* The mean of the excesses, each cut off where one in e^4 of an exponential distribution lies,
 * which is by their median; with PACE_PRIOR_STRETCHES that are as normal windows have them. */
static double scale_of(double *sorted, size_t above, double start)
{
	size_t n = above + PACE_PRIOR_STRETCHES;
	double *excess = xcalloc(n, sizeof(*excess)), sum = PACE_PRIOR_STRETCHES * SCALE_NORMAL;
	for (size_t i = 0; i < n; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): above is 0 then */
		excess[i] = i < above ? sorted[i] - start : SCALE_NORMAL * M_LN2;
	double most = CUT_OFF * stats_median(excess, n) / M_LN2;
	for (size_t i = 0; i < above; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): likewise */
		sum += fmin(sorted[i] - start, most) / -expm1(-CUT_OFF);
	free(excess);
	return sum / (double)n;
}

static void tail_of(struct pace_tail *ret, peaks *p, double hours)
{
	size_t above = (size_t)fmin(PACE_STRETCHES * hours, (double)p->len / 2);
	stats_sort(p->data, p->len);
	ret->start = above < p->len ? p->data[p->len - 1 - above] : 0;
	ret->rate = ((double)above + 0.5) / hours;
	ret->known = (double)above + PACE_PRIOR_STRETCHES;
	ret->scale = above ? scale_of(p->data + p->len - above, above, ret->start) : SCALE_NORMAL;
}

void pace_alarms_learn(struct pace_tail ret[PACE_TAILS], double *ret_sigma,
		       const struct paced *windows, size_t n, uint32_t recordings,
		       uint64_t window_ns, double least_sigma)
{
	struct calibration c = {windows, recordings, window_ns,
				fmax(sigma_within(windows, n), least_sigma)};
	for (size_t e = 0; e < PACE_TAILS; e++) {
		peaks p = {0};
		for (size_t i = 0, len; i < n; i += len) {
			len = paced_launch(windows + i, n - i);
			judge_launch(&p, &c, i, len, pace_effects[e]);
		}
		tail_of(&ret[e], &p, hours_of(windows, n, window_ns));
		vec_free(&p);
	}
	*ret_sigma = c.sigma;
}

/* Of nothing that was learned: normal windows, half of which begin a stretch. */
double pace_alarms_height(const struct pace_tail *tails, double least_effect,
			  double alarms_per_hour)
{
	struct pace_tail t = {.scale = SCALE_NORMAL, .rate = 1800, .known = PACE_PRIOR_STRETCHES};
	for (size_t e = 0;
	     tails[0].known > 0 && e < PACE_TAILS && pace_effects[e] <= least_effect + 1e-6; e++)
		t = tails[e];
	return fmax(0,
		    t.start + t.scale * t.known * (pow(t.rate / alarms_per_hour, 1 / t.known) - 1));
}

double pace_alarms_windows(const struct pace_tail *tails, double sigma, double least_effect,
			   double alarms_per_hour, double slowdown)
{
	const struct pace_judge known = {.launch.len = 60};
	double loss = log(slowdown);
	double more = fmin(loss / pace_judge_sigma(&known, sigma), PACE_MOST) - PACE_SLACK;
	if (loss < -log1p(-least_effect) || !(more > 0))
		return INFINITY;
	return floor(pace_alarms_height(tails, least_effect, alarms_per_hour) / more) + 1;
}

/* pace_judge.c - what a launch has, and the sum of what its windows lost. */
#include "detect/pace_judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/stats.h"

#define FIRST_WINDOWS 8	 /* too few to say what a launch has */
#define ALONE_WINDOWS 30 /* to say how much its windows differ */
#define EVERY	      8	 /* so many windows later it is asked again, once there are many */

static void launch_free(struct pace_launch *l)
{
	free(l->losses);
	free(l->sorted);
	l->losses = NULL;
	l->sorted = NULL;
}

void pace_judge_free(struct pace_judge *j)
{
	launch_free(&j->launch);
	launch_free(&j->whole);
}

/* The first place in the sorted ones whose value is not less. */
static size_t place_of(const struct pace_launch *l, double loss)
{
	size_t low = 0, high = l->len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (l->sorted[middle] < loss)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* To sort them anew for each window would be most of what judging takes. */
static void keep(struct pace_launch *l, float loss)
{
	if (!l->losses) {
		l->losses = xcalloc(PACE_KEPT, sizeof(*l->losses));
		l->sorted = xcalloc(PACE_KEPT, sizeof(*l->sorted));
	}
	if (l->len == PACE_KEPT) {
		size_t gone = place_of(l, (double)l->losses[l->at]);
		l->len--;
		memmove(l->sorted + gone, l->sorted + gone + 1,
			(l->len - gone) * sizeof(*l->sorted));
	}
	size_t place = place_of(l, (double)loss);
	memmove(l->sorted + place + 1, l->sorted + place, (l->len - place) * sizeof(*l->sorted));
	l->sorted[place] = (double)loss;
	l->len++;
	l->losses[l->at] = loss;
	l->at = (l->at + 1) % PACE_KEPT;
}

/* Its c, and *ret_centre: that of the launch alone, as if there were no others. */
static double settle(struct pace_launch *l, bool learned, double *ret_centre)
{
	stats_shorth_sorted(l->sorted, l->len, ret_centre, &l->spread);
	double known = learned ? 1 : (double)l->len / (l->len + PACE_PRIOR);
	double c = known * *ret_centre;
	return learned ? c : fmin(fmax(c, -PACE_QUICKER), PACE_LAUNCH);
}

/* Whether it is time to ask again what the launch has. */
static bool see(struct pace_launch *l, double loss)
{
	keep(l, (float)loss);
	return l->len >= FIRST_WINDOWS && (l->len < EVERY * EVERY || l->at % EVERY == 0);
}

void pace_judge_see(struct pace_judge *j, double pace, double cpus, bool learned)
{
	if (!(pace > 0))
		return;
	double centre;
	if (see(&j->launch, -log(pace)))
		j->launch.c = settle(&j->launch, learned, &centre);
	if (!(cpus < 0 || cpus > 0) || !see(&j->whole, cpus - log(pace)))
		return;
	double c = settle(&j->whole, learned, &centre);
	/* CPUs may be quicker than those of the launches that were learned from by anything. */
	j->whole.c = fmin(c, centre);
}

double pace_judge_loss(const struct pace_judge *j, double pace, double cpus)
{
	double loss = -log(pace) - j->launch.c;
	bool known = j->whole.len >= FIRST_WINDOWS;
	return known ? fmin(loss, cpus - log(pace) - j->whole.c) : loss;
}

double pace_judge_sigma(const struct pace_judge *j, double sigma)
{
	if (!(sigma > 0))
		return j->launch.len < ALONE_WINDOWS ? NAN : fmax(j->launch.spread, PACE_SIGMA);
	double open = PACE_LAUNCH * PACE_LAUNCH * PACE_PRIOR / (PACE_PRIOR + j->launch.len);
	return sqrt(sigma * sigma + open);
}

double pace_judge_add(struct pace_judge *j, uint64_t start_ns, uint64_t window_ns, double loss,
		      double s, double least, double highest)
{
	if (j->last_ns && start_ns > j->last_ns + PACE_PAUSE * window_ns)
		j->sum = 0;
	if (j->sum <= 0)
		j->since_ns = start_ns;
	bool slow = loss >= least;
	double z = fmin(loss / s, slow ? PACE_MOST : 0);
	j->last_ns = start_ns;
	j->quiet = slow ? 0 : j->quiet + 1;
	j->sum = j->quiet < PACE_QUIET ? fmin(fmax(0, j->sum + z - PACE_SLACK), highest) : 0;
	return j->sum;
}

/* As much as the last PACE_KEPT windows had, in the end. */
static void see_counters(struct pace_judge *j, double rare)
{
	if (j->rare_len == PACE_KEPT)
		j->rare -= j->rare / PACE_KEPT;
	else
		j->rare_len++;
	j->rare += fmin(rare, PACE_MOST);
}

double pace_judge_counters(struct pace_judge *j, uint64_t start_ns, double p, bool usual,
			   double highest, double *ret_more)
{
	double rare = p >= 0 && p <= 1 ? -log(p) : NAN;
	double mean = (PACE_PRIOR + j->rare) / (PACE_PRIOR + j->rare_len);
	bool slow = j->last_ns == start_ns && !j->quiet;
	double beyond = fmax(0, rare / fmax(mean, 1) - PACE_RARE);
	double more = fmin(beyond / (2 * PACE_SLACK), PACE_MOST);
	if (usual && !isnan(rare))
		see_counters(j, rare);
	if (ret_more)
		*ret_more = slow ? more : 0;
	if (!slow)
		return 0;
	j->sum = fmin(j->sum + more, highest);
	return j->sum;
}

void pace_judge_over(struct pace_judge *j)
{
	j->sum = 0;
}

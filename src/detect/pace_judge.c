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

void pace_judge_free(struct pace_judge *j)
{
	free(j->losses);
	free(j->sorted);
	j->losses = NULL;
	j->sorted = NULL;
}

/* The first place in the sorted ones whose value is not less. */
static size_t place_of(const struct pace_judge *j, double loss)
{
	size_t low = 0, high = j->len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (j->sorted[middle] < loss)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* To sort them anew for each window would be most of what judging takes. */
static void keep(struct pace_judge *j, float loss)
{
	if (!j->losses) {
		j->losses = xcalloc(PACE_KEPT, sizeof(*j->losses));
		j->sorted = xcalloc(PACE_KEPT, sizeof(*j->sorted));
	}
	if (j->len == PACE_KEPT) {
		size_t gone = place_of(j, (double)j->losses[j->at]);
		j->len--;
		memmove(j->sorted + gone, j->sorted + gone + 1,
			(j->len - gone) * sizeof(*j->sorted));
	}
	size_t place = place_of(j, (double)loss);
	memmove(j->sorted + place + 1, j->sorted + place, (j->len - place) * sizeof(*j->sorted));
	j->sorted[place] = (double)loss;
	j->len++;
	j->losses[j->at] = loss;
	j->at = (j->at + 1) % PACE_KEPT;
}

static void settle(struct pace_judge *j, bool learned)
{
	double centre;
	stats_shorth_sorted(j->sorted, j->len, &centre, &j->spread);
	double known = learned ? 1 : (double)j->len / (j->len + PACE_PRIOR);
	j->launch = known * centre;
	if (!learned)
		j->launch = fmin(fmax(j->launch, -PACE_QUICKER), PACE_LAUNCH);
}

void pace_judge_see(struct pace_judge *j, double pace, bool learned)
{
	if (!(pace > 0))
		return;
	keep(j, (float)-log(pace));
	if (j->len >= FIRST_WINDOWS && (j->len < EVERY * EVERY || j->at % EVERY == 0))
		settle(j, learned);
}

double pace_judge_loss(const struct pace_judge *j, double pace)
{
	return -log(pace) - j->launch;
}

double pace_judge_sigma(const struct pace_judge *j, double sigma)
{
	if (!(sigma > 0))
		return j->len < ALONE_WINDOWS ? NAN : fmax(j->spread, PACE_SIGMA);
	double open = PACE_LAUNCH * PACE_LAUNCH * PACE_PRIOR / (PACE_PRIOR + j->len);
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

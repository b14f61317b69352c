/* slow_stretches.c - windows of steps against the loop's other windows. */
#include "analyze/slow_stretches.h"

#include <math.h>

#include "base/stats.h"

#define WINDOW_NS     1e9
#define WINDOWS_LEAST 4	  /* times the steps of one: fewer tell not what is usual */
#define CAP	      3.0 /* times the median: more of a step does not count in a window */
#define SLOW_RATIO    1.4
#define SLOW_Z	      3.5
#define Z_OF_MAD      0.6745 /* the distance of the normal distribution's quartiles from its middle */
#define SLOW_LEAST    5
#define LASTS_NS      1000000000
#define MOST_PART     3 /* one part in so many of the loop's steps are in stretches at most */
#define EVEN_LEAST    3
#define EVEN_RATIO    1.25 /* the longest way from one's beginning to the next's over the shortest */

static double duration(const struct steps_step *s)
{
	return (double)(s->end_ns - s->start_ns);
}

/* ---- windows ---- */

static double median_step(const struct steps_step *steps, uint32_t n)
{
	double *values = xcalloc(n, sizeof(*values));
	for (uint32_t i = 0; i < n; i++)
		values[i] = duration(&steps[i]);
	double ret = stats_median(values, n);
	free(values);
	return ret;
}

/* The mean of each window of k steps, by its first; there are n - k + 1. */
static double *means_of(const struct steps_step *steps, uint32_t n, uint32_t k, double most_ns)
{
	double *ret = xcalloc(n - k + 1, sizeof(*ret)), sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		sum += fmin(duration(&steps[i]), most_ns);
		if (i >= k)
			sum -= fmin(duration(&steps[i - k]), most_ns);
		if (i + 1 >= k)
			ret[i + 1 - k] = sum / k;
	}
	return ret;
}

/* The median distance from the middle of all values, or of those above it. Sorts values. */
static double spread_of(double *sorted, uint32_t n, double middle)
{
	double *far = xcalloc(n, sizeof(*far));
	uint32_t above = n / 2;
	for (uint32_t i = 0; i < n; i++)
		far[i] = fabs(sorted[i] - middle);
	double of_above = stats_median_sorted(far + above, n - above);
	double ret = fmin(of_above, stats_median(far, n));
	free(far);
	return ret;
}

/* How long a slow window's mean is at least, and a slow step. */
static double limit_of(const double *means, uint32_t n)
{
	double *sorted = xcalloc(n, sizeof(*sorted));
	memcpy(sorted, means, n * sizeof(*sorted));
	stats_sort(sorted, n);
	double middle = stats_median_sorted(sorted, n);
	double spread = spread_of(sorted, n, middle);
	free(sorted);
	return fmax(SLOW_RATIO * middle, middle + SLOW_Z / Z_OF_MAD * spread);
}

/* ---- stretches ---- */

/* Without the steps at its ends that are not slow. */
static struct slow_stretch trimmed(const struct steps_step *steps, uint32_t first, uint32_t end,
				   double limit_ns)
{
	while (first < end && duration(&steps[first]) <= limit_ns)
		first++;
	while (end > first && duration(&steps[end - 1]) <= limit_ns)
		end--;
	struct slow_stretch ret = {.first = first, .steps = end - first};
	for (uint32_t i = first; i < end; i++)
		ret.slow += duration(&steps[i]) > limit_ns;
	if (ret.steps) {
		ret.from_ns = steps[first].start_ns;
		ret.to_ns = steps[end - 1].end_ns;
	}
	return ret;
}

static void add(struct slow_stretches *ret, const struct slow_stretch *s)
{
	if (s->slow >= SLOW_LEAST && s->to_ns - s->from_ns >= LASTS_NS)
		*vec_push(&ret->list) = *s;
}

/* Slow windows that overlap are one. */
static void collect(struct slow_stretches *ret, const struct steps_step *steps, const double *means,
		    uint32_t n, uint32_t k, double limit_ns)
{
	uint32_t first = 0, end = 0;
	for (uint32_t i = 0; i + k <= n; i++) {
		if (means[i] <= limit_ns)
			continue;
		if (i >= end) {
			struct slow_stretch s = trimmed(steps, first, end, limit_ns);
			add(ret, &s);
			first = i;
		}
		end = i + k;
	}
	struct slow_stretch s = trimmed(steps, first, end, limit_ns);
	add(ret, &s);
}

/* ---- which are told ---- */

static bool are_even(const struct slow_stretches *s)
{
	double least = INFINITY, most = 0;
	for (size_t i = 1; i < s->list.len; i++) {
		double way = s->list.data[i].first - s->list.data[i - 1].first;
		least = fmin(least, way);
		most = fmax(most, way);
	}
	return s->list.len >= EVEN_LEAST && most <= EVEN_RATIO * least;
}

static bool are_much(const struct slow_stretches *s, uint32_t n)
{
	uint64_t steps = 0;
	for (size_t i = 0; i < s->list.len; i++)
		steps += s->list.data[i].steps;
	return steps * MOST_PART > n;
}

/* The first steps warm up. */
static void leave_start(struct slow_stretches *s, uint32_t k)
{
	if (!s->list.len || s->list.data[0].first >= k)
		return;
	s->list.len--;
	memmove(s->list.data, s->list.data + 1, s->list.len * sizeof(*s->list.data));
}

static void sum_up(struct slow_stretches *ret, const struct steps_step *steps, uint32_t n,
		   double limit_ns)
{
	double *slow = xcalloc(n, sizeof(*slow)), *usual = xcalloc(n, sizeof(*usual));
	size_t at = 0, slow_len = 0, usual_len = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct slow_stretch *s = &ret->list.data[at];
		if (i >= s->first + s->steps && at + 1 < ret->list.len)
			s = &ret->list.data[++at];
		bool within = i >= s->first && i < s->first + s->steps;
		if (within && duration(&steps[i]) > limit_ns)
			slow[slow_len++] = duration(&steps[i]);
		if (!within)
			usual[usual_len++] = duration(&steps[i]);
	}
	ret->slow = (uint32_t)slow_len;
	ret->slow_ns = stats_median(slow, slow_len);
	ret->usual_ns = stats_median(usual, usual_len);
	for (at = 0; at < ret->list.len; at++) {
		struct slow_stretch *s = &ret->list.data[at];
		for (uint32_t i = s->first; i < s->first + s->steps; i++)
			s->lost_ns += duration(&steps[i]) - ret->usual_ns;
		s->lost_ns = fmax(0, s->lost_ns);
		ret->lost_ns += s->lost_ns;
	}
	free(slow);
	free(usual);
}

void slow_stretches_find(struct slow_stretches *ret, const struct steps_step *steps, uint32_t n)
{
	*ret = (struct slow_stretches){0};
	double usual_ns = n ? median_step(steps, n) : 0;
	double k = usual_ns > 0 ? fmax(SLOW_STRETCH_STEPS, ceil(WINDOW_NS / usual_ns)) : INFINITY;
	if (n < WINDOWS_LEAST * k)
		return;
	double *means = means_of(steps, n, (uint32_t)k, CAP * usual_ns);
	double limit_ns = limit_of(means, n - (uint32_t)k + 1);
	collect(ret, steps, means, n, (uint32_t)k, limit_ns);
	free(means);
	if (are_even(ret))
		ret->list.len = 0;
	leave_start(ret, (uint32_t)k);
	if (are_even(ret)) /* without it */
		ret->list.len = 0;
	if (are_much(ret, n))
		ret->list.len = 0;
	if (ret->list.len)
		sum_up(ret, steps, n, limit_ns);
}

void slow_stretches_free(struct slow_stretches *s)
{
	vec_free(&s->list);
}

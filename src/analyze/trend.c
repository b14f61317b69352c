/* trend.c - histories of values, and the line through one (Theil and Sen: the median of the slopes
 * of all pairs of points, which a quarter of wild points does not move). */
#include "analyze/trend.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

#define RECENT_WIDTH_NS 1000000000ULL /* TREND_POINTS of it are a minute */
#define LIFE_WIDTH_NS	200000000ULL  /* to begin with: how often processes are read */

/* A time counts as one of growth where each of its parts has its share of it: one step, or five,
 * are none, nor is what becomes ever slower (an allocator that warms up). */
#define PARTS	   6
#define PART_LEAST 2   /* points in a part, so that its middle is not one value */
#define SHARE_LOW  0.5 /* of the mean growth from part to part; a staircase has less somewhere */
#define SHARE_HIGH 2.5
#define SPREAD	   0.05 /* of the growth: half of the points are at most so far from the line */
#define BEYOND                                                                                     \
	0.5 /* of the growth: is above all that was before. A second tooth of a saw is not         \
	     */

static void begin_point(struct trend_history *h, uint64_t ns, double value, double beside)
{
	h->at[h->len++] = (struct trend_point){ns, ns, value, value, beside};
}

static void join_point(struct trend_point *to, const struct trend_point *p)
{
	if (p->low < to->low) {
		to->low = p->low;
		to->ns = p->ns;
	}
	if (p->high > to->high)
		to->high = p->high;
}

static void drop_oldest(struct trend_history *h)
{
	uint32_t left = TREND_POINTS * 3 / 4;
	memmove(h->at, h->at + h->len - left, left * sizeof(*h->at));
	h->len = left;
}

static void halve(struct trend_history *h)
{
	for (uint32_t i = 0; i < h->len / 2; i++) {
		struct trend_point p = h->at[(size_t)2 * i];
		join_point(&p, &h->at[(size_t)2 * i + 1]);
		h->at[i] = p;
	}
	h->len /= 2;
	h->width_ns *= 2;
}

static void add_to(struct trend_history *h, uint64_t ns, double value, double beside,
		   void (*make_room)(struct trend_history *h))
{
	const struct trend_point p = {ns, ns, value, value, beside};
	if (h->len && ns - h->at[h->len - 1].begin_ns < h->width_ns) {
		join_point(&h->at[h->len - 1], &p);
		return;
	}
	if (h->len == TREND_POINTS)
		make_room(h);
	begin_point(h, ns, value, beside);
}

void trend_add(struct trend *t, uint64_t ns, double value, double beside)
{
	if (!isfinite(value) || (t->first_ns && ns <= t->last_ns))
		return;
	if (!t->first_ns) {
		t->first_ns = ns;
		t->recent.width_ns = RECENT_WIDTH_NS;
		t->life.width_ns = LIFE_WIDTH_NS;
	}
	t->last_ns = ns;
	t->last = value;
	add_to(&t->recent, ns, value, beside, drop_oldest);
	add_to(&t->life, ns, value, beside, halve);
}

static void drop_fall(struct trend_history *h, uint64_t from_ns)
{
	for (uint32_t i = 1; i < h->len; i++) {
		if (h->at[i].ns < from_ns || h->at[i].low >= h->at[i - 1].low)
			continue;
		h->len = i;
		return;
	}
}

void trend_drop_fall(struct trend *t, uint64_t within_ns)
{
	uint64_t from_ns = t->last_ns > within_ns ? t->last_ns - within_ns : 0;
	drop_fall(&t->recent, from_ns);
	drop_fall(&t->life, from_ns);
	if (t->life.len)
		t->last = t->life.at[t->life.len - 1].high;
}

/* ---- the line ---- */

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
	return (double)(to_ns - from_ns) / 1e9;
}

static double slope(const struct trend_point *p, size_t n)
{
	double slopes[TREND_POINTS * (TREND_POINTS - 1) / 2];
	size_t len = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++)
			if (p[k].ns > p[i].ns)
				slopes[len++] = (p[k].low - p[i].low) / seconds(p[i].ns, p[k].ns);
	return len ? stats_median(slopes, len) : 0;
}

/* The middle values of PARTS equal times. False: some have too few points. */
static bool levels(const struct trend_point *p, size_t n, double ret[PARTS])
{
	double span_ns = (double)(p[n - 1].begin_ns - p[0].begin_ns) + 1;
	size_t at = 0;
	for (int part = 0; part < PARTS; part++) {
		double values[TREND_POINTS];
		size_t len = 0;
		double end_ns = span_ns * (part + 1) / PARTS;
		while (at < n && (double)(p[at].begin_ns - p[0].begin_ns) < end_ns)
			values[len++] = p[at++].low;
		if (len < PART_LEAST)
			return false;
		ret[part] = stats_median(values, len);
	}
	return true;
}

static bool parts_grow(const struct trend_point *p, size_t n)
{
	double level[PARTS];
	if (!levels(p, n, level))
		return false;
	double mean = (level[PARTS - 1] - level[0]) / (PARTS - 1);
	for (int i = 1; i < PARTS; i++) {
		double by = level[i] - level[i - 1];
		if (!(mean > 0) || by < SHARE_LOW * mean || by > SHARE_HIGH * mean)
			return false;
	}
	return true;
}

/* The line through points; false: they are not near it. */
static bool line_through(const struct trend_point *p, size_t n, struct trend_growth *ret)
{
	double offsets[TREND_POINTS], far[TREND_POINTS], span_s = seconds(p[0].ns, p[n - 1].ns);
	double per_s = slope(p, n);
	for (size_t i = 0; i < n; i++)
		offsets[i] = far[i] = p[i].low - per_s * seconds(p[0].ns, p[i].ns);
	double from = stats_median(offsets, n);
	for (size_t i = 0; i < n; i++)
		far[i] = fabs(far[i] - from);
	*ret = (struct trend_growth){
		.since_ns = p[0].ns,
		.until_ns = p[n - 1].ns,
		.from = from,
		.to = from + per_s * span_s,
		.per_s = per_s,
		.beside_per_s = (p[n - 1].beside - p[0].beside) / span_s,
	};
	return per_s > 0 && stats_median(far, n) <= SPREAD * per_s * span_s;
}

static double highest(const struct trend_history *h, uint64_t before_ns)
{
	double ret = -INFINITY;
	for (uint32_t i = 0; i < h->len && h->at[i].begin_ns + h->width_ns <= before_ns; i++)
		ret = h->at[i].high > ret ? h->at[i].high : ret;
	return ret;
}

static bool steady_from(const struct trend *t, const struct trend_history *h, uint32_t first,
			struct trend_growth *ret)
{
	const struct trend_point *p = &h->at[first];
	size_t n = h->len - first;
	return n >= (size_t)PARTS * PART_LEAST && parts_grow(p, n) && line_through(p, n, ret) &&
	       ret->to - highest(&t->life, p[0].begin_ns) >= BEYOND * (ret->to - ret->from);
}

/* Steps of an eighth: what came before growth began is left out so finely. */
bool trend_steady(const struct trend *t, struct trend_growth *ret)
{
	for (uint32_t eighth = 0; eighth < 7; eighth++)
		if (steady_from(t, &t->life, t->life.len * eighth / 8, ret))
			return true;
	for (uint32_t eighth = 0; eighth < 7; eighth++)
		if (steady_from(t, &t->recent, t->recent.len * eighth / 8, ret))
			return true;
	return false;
}

const struct trend_point *trend_at(const struct trend *t, uint64_t ns)
{
	const struct trend_history *h = &t->recent;
	const struct trend_point *ret = NULL;
	if (!h->len || h->at[0].begin_ns > ns)
		h = &t->life;
	for (uint32_t i = 0; i < h->len && h->at[i].begin_ns <= ns; i++)
		ret = &h->at[i];
	return ret;
}

/* clock_map.c - fits a shift over time to what collectives say about it. */
#include "merge/clock_map.h"

#include <math.h>

#include "base/stats.h"

#define WINDOW_NS	10000000000ULL
#define WINDOW_BOUNDS	64
#define LINE_ENDS	8    /* fewer tell no slope */
#define LINE_SAMPLES	192  /* their pairs are gone through */
#define MAX_DRIFT	5e-4 /* 500 ppm */
#define SPREAD_OF_ERROR 4
#define TRANSFER_SHARE	4 /* ends differ by less than this part of the transfer */
#define SHORT_SHARE	0.1
#define SHORT_FACTOR	2

/* A line through the shifts of a window: base at time_ns, and a slope. */
struct line {
	uint64_t time_ns;
	int64_t base_ns;
	double slope;
};

void clock_map_constant(struct clock_map *m, int64_t shift_ns, uint64_t error_ns)
{
	m->knots.len = 0;
	if (shift_ns)
		*vec_push(&m->knots) = (struct clock_knot){0, shift_ns};
	m->error_ns = error_ns;
}

void clock_map_free(struct clock_map *m)
{
	vec_free(&m->knots);
}

/* ---- using it ---- */

static int64_t interpolate(const struct clock_knot *a, const struct clock_knot *b, uint64_t time_ns)
{
	double slope = (double)(b->shift_ns - a->shift_ns) / (double)(b->time_ns - a->time_ns);
	double after = (double)((int64_t)time_ns - (int64_t)a->time_ns);
	return a->shift_ns + llround(slope * after);
}

int64_t clock_map_shift(const struct clock_map *m, uint64_t time_ns)
{
	const struct clock_knot *k = m->knots.data;
	size_t n = m->knots.len;
	if (n < 2)
		return n ? k->shift_ns : 0;
	size_t low = 0, high = n - 2; /* the piece that begins at low, the last one for all after */
	while (low < high) {
		size_t middle = low + (high - low + 1) / 2;
		if (k[middle].time_ns <= time_ns)
			low = middle;
		else
			high = middle - 1;
	}
	return interpolate(&k[low], &k[low + 1], time_ns);
}

uint64_t clock_map_time(const struct clock_map *m, uint64_t time_ns)
{
	if (!time_ns || !m->knots.len)
		return time_ns;
	if (time_ns >= 1ULL << 62) /* no clock's */
		return time_ns;
	int64_t time = (int64_t)time_ns + clock_map_shift(m, time_ns);
	return time > 0 ? (uint64_t)time : 1; /* before the reference's boot */
}

double clock_map_drift(const struct clock_map *m)
{
	if (m->knots.len < 2)
		return 0;
	const struct clock_knot *a = m->knots.data, *b = a + m->knots.len - 1;
	return (double)(b->shift_ns - a->shift_ns) / (double)(b->time_ns - a->time_ns);
}

/* ---- fitting ---- */

static int compare_bounds(const void *a, const void *b)
{
	const struct clock_bound *x = a, *y = b;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static double quantile(double *values, size_t n, double part)
{
	stats_sort(values, n);
	return stats_quantile_sorted(values, n, part);
}

static double line_at(const struct line *l, uint64_t time_ns)
{
	return l->slope * (double)((int64_t)time_ns - (int64_t)l->time_ns);
}

/* The median slope of all pairs; 0 where that is none of a clock. */
static double median_slope(const struct clock_bound *const *ends, size_t n)
{
	if (n < LINE_ENDS)
		return 0;
	double *slopes = xrealloc(NULL, n * (n - 1) / 2, sizeof(*slopes));
	size_t pairs = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++)
			if (ends[k]->time_ns > ends[i]->time_ns)
				slopes[pairs++] = (double)(ends[k]->ends_ns - ends[i]->ends_ns) /
						  (double)(ends[k]->time_ns - ends[i]->time_ns);
	double slope = pairs ? quantile(slopes, pairs, 0.5) : 0;
	free(slopes);
	return fabs(slope) <= MAX_DRIFT ? slope : 0;
}

/* The longest transfer whose ends are asked. */
static uint64_t short_transfer(const struct clock_bound *bounds, size_t n)
{
	double *transfers = xrealloc(NULL, n, sizeof(*transfers));
	size_t all = 0;
	for (size_t i = 0; i < n; i++)
		if (bounds[i].has_ends)
			transfers[all++] = (double)bounds[i].transfer_ns;
	double most = all ? SHORT_FACTOR * quantile(transfers, all, SHORT_SHARE) : 0;
	free(transfers);
	return (uint64_t)most;
}

static bool asked(const struct clock_bound *b, uint64_t most_ns)
{
	return b->has_ends && b->transfer_ns <= most_ns;
}

/* By the ends. False: there are none. */
static bool line_by_ends(struct line *l, const struct clock_bound *bounds, size_t n)
{
	const struct clock_bound *ends[LINE_SAMPLES] = {NULL};
	double left[LINE_SAMPLES];
	size_t all = 0, taken = 0, seen = 0;
	uint64_t most_ns = short_transfer(bounds, n);
	for (size_t i = 0; i < n; i++)
		all += asked(&bounds[i], most_ns);
	if (!all)
		return false;
	size_t wanted = all < LINE_SAMPLES ? all : LINE_SAMPLES;
	for (size_t i = 0; i < n && taken < wanted; i++)
		if (asked(&bounds[i], most_ns) && seen++ == taken * all / wanted)
			ends[taken++] = &bounds[i];
	l->time_ns = ends[taken / 2]->time_ns;
	l->base_ns = ends[taken / 2]->ends_ns;
	l->slope = median_slope(ends, taken);
	for (size_t i = 0; i < taken; i++)
		left[i] = (double)(ends[i]->ends_ns - l->base_ns) - line_at(l, ends[i]->time_ns);
	l->base_ns += llround(quantile(left, taken, 0.5));
	return true;
}

/* The middle of the bounds. False: one side has none. */
static bool line_by_bounds(struct line *l, const struct clock_bound *bounds, size_t n)
{
	int64_t low = -CLOCK_NO_BOUND, high = CLOCK_NO_BOUND;
	for (size_t i = 0; i < n; i++) {
		low = bounds[i].low_ns > low ? bounds[i].low_ns : low;
		high = bounds[i].high_ns < high ? bounds[i].high_ns : high;
	}
	if (low == -CLOCK_NO_BOUND || high == CLOCK_NO_BOUND)
		return false;
	*l = (struct line){.time_ns = bounds[n / 2].time_ns, .base_ns = low + (high - low) / 2};
	return true;
}

/* A knot that no clock could get to from the one before it is left out. */
static void add_knot(struct clock_map *m, const struct line *l, uint64_t time_ns)
{
	const struct clock_knot *last = m->knots.len ? &m->knots.data[m->knots.len - 1] : NULL;
	struct clock_knot next = {time_ns, l->base_ns + llround(line_at(l, time_ns))};
	if (last && last->time_ns >= time_ns)
		return;
	if (last && fabs((double)(next.shift_ns - last->shift_ns)) >
			    2 * MAX_DRIFT * (double)(time_ns - last->time_ns) + 1)
		return;
	*vec_push(&m->knots) = next;
}

/* A line for each window: its middle is a knot, and the ends of the first and the last. */
static void fit_windows(struct clock_map *m, const struct clock_bound *bounds, size_t n)
{
	uint64_t span_ns = bounds[n - 1].time_ns - bounds[0].time_ns;
	size_t windows = (size_t)(span_ns / WINDOW_NS);
	if (windows > n / WINDOW_BOUNDS)
		windows = n / WINDOW_BOUNDS;
	windows = windows ? windows : 1;
	struct line l = {0};
	for (size_t w = 0; w < windows; w++) {
		size_t from = n * w / windows, to = n * (w + 1) / windows;
		struct line here;
		if (!line_by_ends(&here, bounds + from, to - from) &&
		    !line_by_bounds(&here, bounds + from, to - from))
			continue;
		l = here;
		uint64_t begin = bounds[from].time_ns, end = bounds[to - 1].time_ns;
		if (!m->knots.len)
			add_knot(m, &l, begin);
		add_knot(m, &l, begin + (end - begin) / 2);
	}
	if (m->knots.len)
		add_knot(m, &l, bounds[n - 1].time_ns);
}

/* What the bounds and ends say of the map that was found. */
struct remainder {
	double low, high; /* the map may be moved by this much; infinite = not bounded */
	double ends;	  /* error by the ends; infinite: they are too few */
};

static struct remainder remainder_of(const struct clock_map *m, const struct clock_bound *bounds,
				     size_t n)
{
	struct remainder r = {-INFINITY, INFINITY, INFINITY};
	double *low = xrealloc(NULL, n, sizeof(*low)), *high = xrealloc(NULL, n, sizeof(*high));
	double *ends = xrealloc(NULL, n, sizeof(*ends));
	size_t lows = 0, highs = 0, all = 0;
	uint64_t most_ns = short_transfer(bounds, n);
	for (size_t i = 0; i < n; i++) {
		int64_t shift = clock_map_shift(m, bounds[i].time_ns);
		if (bounds[i].low_ns != -CLOCK_NO_BOUND)
			low[lows++] = (double)(bounds[i].low_ns - shift);
		if (bounds[i].high_ns != CLOCK_NO_BOUND)
			high[highs++] = (double)(bounds[i].high_ns - shift);
		if (asked(&bounds[i], most_ns))
			ends[all++] = fabs((double)(bounds[i].ends_ns - shift));
	}
	if (lows) /* one in a hundred is left out */
		r.low = quantile(low, lows, lows < 100 ? 1 : 0.99);
	if (highs)
		r.high = quantile(high, highs, highs < 100 ? 0 : 0.01);
	if (all >= LINE_ENDS)
		r.ends = fmax(SPREAD_OF_ERROR * 1.4826 * quantile(ends, all, 0.5),
			      (double)most_ns / TRANSFER_SHARE);
	free(low);
	free(high);
	free(ends);
	return r;
}

bool clock_map_fit(struct clock_map *m, struct clock_bound *bounds, size_t n)
{
	m->knots.len = 0;
	m->error_ns = CLOCK_ERROR_UNKNOWN;
	if (!n)
		return false;
	qsort(bounds, n, sizeof(*bounds), compare_bounds);
	fit_windows(m, bounds, n);
	if (!m->knots.len)
		return false;
	struct remainder r = remainder_of(m, bounds, n);
	double error = INFINITY;
	if (r.low <= r.high) {
		double move = r.low > 0 ? r.low : r.high < 0 ? r.high : 0;
		for (size_t i = 0; i < m->knots.len; i++)
			m->knots.data[i].shift_ns += llround(move);
		error = fmax(r.high - move, move - r.low);
	}
	error = fmin(error, r.ends);
	if (error < 0x1p60)
		m->error_ns = (uint64_t)llround(error);
	return true;
}

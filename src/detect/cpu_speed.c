/* cpu_speed.c - means of windows, and the line through them. */
#include "detect/cpu_speed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/entity.h"
#include "base/stats.h"

#define PERIOD_MOST_NS 1000000000ULL /* that a value is of, at most */
#define LAUNCH_LEAST   10	     /* windows */
#define WINDOWS_NEEDED 30
#define NEAREST	       0.9  /* of the windows: the rest is evaluations, checkpoints */
#define SURE	       5.0  /* times its standard error that the slope is from 0 */
#define TELLS_LEAST    0.15 /* of the variance */
#define SLOPE_MOST     1.5

void cpu_speed_free(struct cpu_speed *s)
{
	for (size_t i = 0; i < s->processes.len; i++)
		vec_free(&s->processes.data[i].list);
	vec_free(&s->processes);
	map64_free(&s->place_of);
}

static struct cpu_works *works_of(const struct cpu_speed *s, uint32_t pid)
{
	uint64_t i;
	return map64_get(&s->place_of, pid, &i) ? &s->processes.data[i] : NULL;
}

void cpu_speed_forget(struct cpu_speed *s, uint32_t pid)
{
	struct cpu_works *w = works_of(s, pid);
	if (!w)
		return;
	vec_free(&w->list);
	size_t at = (size_t)(w - s->processes.data), last = --s->processes.len;
	s->processes.data[at] = s->processes.data[last];
	map64_set(&s->place_of, s->processes.data[at].pid, at);
	map64_del(&s->place_of, pid);
}

static void drop_before(struct cpu_works *w, uint64_t time_ns)
{
	while (w->first < w->list.len && w->list.data[w->first].time_ns < time_ns)
		w->first++;
	if (w->first * 2 < w->list.len || !w->first)
		return;
	w->list.len -= w->first;
	memmove(w->list.data, w->list.data + w->first, w->list.len * sizeof(*w->list.data));
	w->first = 0;
}

/* Processes that have told nothing for so long: their end may be told to nobody. */
static void forget_quiet(struct cpu_speed *s, uint64_t now_ns, uint64_t keep_ns)
{
	if (now_ns < s->swept_ns + keep_ns)
		return;
	s->swept_ns = now_ns;
	for (size_t i = s->processes.len; i-- > 0;) {
		const struct cpu_works *w = &s->processes.data[i];
		if (!w->list.len || w->list.data[w->list.len - 1].time_ns + keep_ns < now_ns)
			cpu_speed_forget(s, w->pid);
	}
}

void cpu_speed_add(struct cpu_speed *s, uint32_t pid, uint64_t time_ns, double ns, uint64_t keep_ns)
{
	if (keep_ns)
		forget_quiet(s, time_ns, keep_ns);
	struct cpu_works *w = works_of(s, pid);
	if (!w) {
		map64_set(&s->place_of, pid, s->processes.len);
		w = vec_push(&s->processes);
		*w = (struct cpu_works){.pid = pid};
	}
	if (w->list.len > w->first && w->list.data[w->list.len - 1].time_ns >= time_ns)
		return;
	*vec_push(&w->list) = (struct cpu_work){time_ns, ns};
	if (keep_ns && time_ns > keep_ns)
		drop_before(w, time_ns - keep_ns);
}

void cpu_speed_counter(struct cpu_speed *s, const struct detect_names *names,
		       const struct m_counter *c, uint64_t keep_ns)
{
	const struct m_metric *m = names->metric(names->ctx, c->metric);
	if (m && m->kind == ENTITY_PROCESS && isfinite(c->value) && c->value > 0 &&
	    !strcmp(names->string(names->ctx, m->name), "fixed_work_ns"))
		cpu_speed_add(s, m->pid, c->time_ns, c->value, keep_ns);
}

/* The first that ends after a time. */
static size_t first_after(const struct cpu_works *w, uint64_t time_ns)
{
	size_t low = w->first, high = w->list.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (w->list.data[middle].time_ns > time_ns)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Since the one before was read. */
static uint64_t begin_of(const struct cpu_works *w, size_t i)
{
	uint64_t end = w->list.data[i].time_ns;
	uint64_t before = i > w->first ? w->list.data[i - 1].time_ns : 0;
	return end - before > PERIOD_MOST_NS ? end - PERIOD_MOST_NS / 2 : before;
}

double cpu_speed_work_ns(const struct cpu_speed *s, uint32_t pid, uint64_t from_ns, uint64_t to_ns)
{
	const struct cpu_works *w = works_of(s, pid);
	double sum = 0, of = 0;
	for (size_t i = w ? first_after(w, from_ns) : 0; w && i < w->list.len; i++) {
		uint64_t begin = begin_of(w, i), end = w->list.data[i].time_ns;
		if (begin >= to_ns)
			break;
		begin = begin > from_ns ? begin : from_ns;
		end = end < to_ns ? end : to_ns;
		sum += (double)(end - begin) * w->list.data[i].ns;
		of += (double)(end - begin);
	}
	return of > 0 && of * 2 >= (double)(to_ns - from_ns) ? sum / of : 0;
}

/* ---- learning ---- */

/* What a window has beyond the median of its launch. */
struct point {
	double x, y;	 /* ln w, ln pace */
	double residual; /* its absolute value */
};

static double median_of(struct point *p, size_t n, bool of_pace, double *room)
{
	for (size_t i = 0; i < n; i++)
		room[i] = of_pace ? p[i].y : p[i].x;
	return stats_median(room, n);
}

static void centre(struct point *p, size_t n, double *room)
{
	double x = median_of(p, n, false, room), y = median_of(p, n, true, room);
	for (size_t i = 0; i < n; i++) {
		p[i].x -= x;
		p[i].y -= y;
	}
}

static int by_residual(const void *a, const void *b)
{
	const struct point *x = a, *y = b;
	return x->residual < y->residual ? -1 : x->residual > y->residual;
}

struct line {
	double slope;	 /* of pace against w: below 0 */
	double error;	 /* its standard error */
	double explains; /* of the variance */
};

static struct line fit(const struct point *p, size_t n)
{
	double xx = 0, xy = 0, yy = 0, sx = 0, sy = 0, count = (double)n;
	for (size_t i = 0; i < n; i++) {
		sx += p[i].x;
		sy += p[i].y;
	}
	for (size_t i = 0; i < n; i++) {
		double x = p[i].x - sx / count, y = p[i].y - sy / count;
		xx += x * x;
		xy += x * y;
		yy += y * y;
	}
	if (!(xx > 0) || !(yy > 0) || n < 3)
		return (struct line){0, INFINITY, 0};
	double slope = xy / xx, rest = fmax(0, yy - slope * xy);
	return (struct line){slope, sqrt(rest / (count - 2) / xx), slope * xy / yy};
}

/* By the windows that lie nearest: to no slope at all, then to the line of the round before. */
static struct line fit_nearest(struct point *p, size_t n)
{
	size_t near = (size_t)(NEAREST * (double)n);
	struct line l = {0};
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < n; i++)
			p[i].residual = fabs(p[i].y - l.slope * p[i].x);
		qsort(p, n, sizeof(*p), by_residual);
		l = fit(p, near);
	}
	return l;
}

static bool is_of_launch(const struct cpu_window *a, const struct cpu_window *b)
{
	return a->recording == b->recording && a->pid == b->pid;
}

void cpu_speed_learn(struct model_clock *ret, const struct cpu_window *windows, size_t n)
{
	struct point *points = xcalloc(n + 1, sizeof(*points));
	double *room = xcalloc(n + 1, sizeof(*room)), *works = xcalloc(n + 1, sizeof(*works));
	size_t len = 0, known = 0;
	ret->work_ns = ret->cpu_slope = 0;
	for (size_t i = 0, end; i < n; i = end) {
		size_t from = len;
		for (end = i; end < n && is_of_launch(&windows[i], &windows[end]); end++) {
			if (!(windows[end].pace > 0) || !(windows[end].work_ns > 0))
				continue;
			works[known++] = windows[end].work_ns;
			points[len++] = (struct point){.x = log(windows[end].work_ns),
						       .y = log(windows[end].pace)};
		}
		if (len - from < LAUNCH_LEAST)
			len = from;
		else
			centre(points + from, len - from, room);
	}
	if (len >= WINDOWS_NEEDED) {
		struct line l = fit_nearest(points, len);
		bool tells = -l.slope > SURE * l.error && l.explains >= TELLS_LEAST;
		ret->cpu_slope = tells ? fmin(-l.slope, SLOPE_MOST) : 0;
		ret->work_ns = tells ? stats_median(works, known) : 0;
	}
	free(points);
	free(room);
	free(works);
}

double cpu_speed_part(const struct model_clock *c, double work_ns)
{
	if (!c || !(c->cpu_slope > 0) || !(work_ns > 0))
		return 0;
	double part = c->cpu_slope * log(work_ns / c->work_ns);
	return fmin(fmax(part, -CPU_PART_MOST), CPU_PART_MOST);
}

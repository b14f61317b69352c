/* own_time.c - fits the line anew with each window. */
#include "session/own_time.h"

#include <math.h>
#include <stdlib.h>

#define KNOWN	    4
#define GROUP_LEAST 2 /* windows */
/* The groups are so far apart, of the calls of the one with the most, and by what takes so much a
 * second, and as much as what stays: the windows of who has settled differ by less, and by noise as
 * much. */
#define APART	   0.25
#define TELLING_NS 2e6
#define TELLING	   1
#define LEARN	   0.5 /* weight of what is new */
#define CALL_LEAST 0.2 /* of what it was taken for at first */
#define CALL_MOST  10
#define ALIKE	   3 /* times the calls */
#define ODD	   2 /* times the median */

void own_time_init(struct own_time *o, double call_ns)
{
	*o = (struct own_time){.call_ns = call_ns, .first_call_ns = call_ns};
}

bool own_time_known(const struct own_time *o)
{
	return o->len >= KNOWN;
}

bool own_time_settled(const struct own_time *o)
{
	return o->len == OWN_WINDOWS;
}

void own_time_skip(struct own_time *o)
{
	o->open = (struct own_window){0};
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double calls_per_s(const struct own_window *w)
{
	return w->calls / w->seconds;
}

static int by_calls(const void *a, const void *b)
{
	double x = calls_per_s(a), y = calls_per_s(b);
	return x < y ? -1 : x > y;
}

/* The lower one of an even number: what is odd takes longer. Sorts them. */
static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_size);
	return values[(n - 1) / 2];
}

static double median_calls(const struct own_window *w, size_t n)
{
	double values[OWN_WINDOWS];
	for (size_t i = 0; i < n; i++)
		values[i] = calls_per_s(&w[i]);
	return median(values, n);
}

static double median_own(const struct own_window *w, size_t n)
{
	double values[OWN_WINDOWS];
	for (size_t i = 0; i < n; i++)
		values[i] = w[i].own_ns / w[i].seconds;
	return median(values, n);
}

static bool is_telling(const struct own_time *o, double calls_per_s)
{
	return calls_per_s * o->call_ns > fmax(TELLING_NS, TELLING * o->fixed_per_s);
}

static double bounded(const struct own_time *o, double call_ns)
{
	return fmin(fmax(call_ns, CALL_LEAST * o->first_call_ns), CALL_MOST * o->first_call_ns);
}

/* w: by their calls. What all of them take bounds it. */
static void fit_call(struct own_time *o, const struct own_window *w)
{
	size_t group = o->len / 3;
	double all = median_calls(w, o->len);
	if (group >= GROUP_LEAST) {
		const struct own_window *most = w + o->len - group;
		double x = median_calls(most, group), dx = x - median_calls(w, group);
		double dy = median_own(most, group) - median_own(w, group);
		if (dx > APART * x && dy > 0 && is_telling(o, dx))
			o->call_ns += LEARN * (bounded(o, dy / dx) - o->call_ns);
	}
	if (is_telling(o, all))
		o->call_ns = bounded(o, fmin(o->call_ns, median_own(w, o->len) / all));
}

/* Of windows with few calls: of others the calls' part is so large that its error hides the rest.
 * All of them where they are about alike, so that the sum is right. */
static void fit_fixed(struct own_time *o, const struct own_window *w)
{
	double left[OWN_WINDOWS], sum = 0;
	double few = median_calls(w, (o->len + 1) / 2);
	size_t n = 0;
	for (; n < o->len && (n < (o->len + 1) / 2 || calls_per_s(&w[n]) <= ALIKE * few); n++)
		left[n] = fmax(w[n].own_ns - w[n].calls * o->call_ns, 0) / w[n].seconds;
	double most = ODD * median(left, n);
	for (size_t i = 0; i < n; i++)
		sum += fmin(left[i], most);
	o->fixed_per_s = sum / (double)n;
}

void own_time_add(struct own_time *o, double seconds, double own_ns, double calls)
{
	struct own_window sorted[OWN_WINDOWS];
	o->open.seconds += seconds;
	o->open.own_ns += own_ns;
	o->open.calls += calls;
	if (o->open.seconds < OWN_WINDOW_S)
		return;
	o->windows[o->next] = o->open;
	o->next = (o->next + 1) % OWN_WINDOWS;
	o->len += o->len < OWN_WINDOWS;
	own_time_skip(o);
	for (size_t i = 0; i < o->len; i++)
		sorted[i] = o->windows[i];
	qsort(sorted, o->len, sizeof(*sorted), by_calls);
	fit_call(o, sorted);
	fit_fixed(o, sorted);
}

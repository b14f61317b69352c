/* learn_suspects.c - stretches of slow windows, against the median pace. */
#include "detect/learn_suspects.h"

#include <math.h>
#include <stdlib.h>

#include "base/stats.h"

static int by_time(const void *a, const void *b)
{
	const struct paced_window *x = a, *y = b;
	if (x->recording != y->recording)
		return x->recording < y->recording ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static int by_start(const void *a, const void *b)
{
	const struct suspect *x = a, *y = b;
	if (x->recording != y->recording)
		return x->recording < y->recording ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool is_paced(const struct paced_window *w)
{
	return w->pace > 0 && !w->idle;
}

void learn_suspects_sort(paced_windows *windows)
{
	size_t kept = 0;
	if (!windows->len)
		return;
	qsort(windows->data, windows->len, sizeof(*windows->data), by_time);
	for (size_t i = 1; i < windows->len; i++)
		if (by_time(&windows->data[kept], &windows->data[i]))
			windows->data[++kept] = windows->data[i];
	windows->len = kept + 1;
}

/* ---- what the pace is ---- */

/* The ln pace below which a window is suspect, by what most of them have; lowest where there are
 * too few, of those that are not suspect. */
static double lowest_of(const paced_windows *windows, const suspects *without, double lowest)
{
	double *paces = xcalloc(windows->len + 1, sizeof(*paces)), centre, sigma;
	size_t n = 0;
	for (size_t i = 0; i < windows->len; i++) {
		const struct paced_window *w = &windows->data[i];
		if (is_paced(w) && !learn_suspects_at(without, w->recording, w->start_ns))
			paces[n++] = log(w->pace);
	}
	if (n >= SUSPECTS_LEAST) {
		stats_sort(paces, n);
		stats_shorth_sorted(paces, n, &centre, &sigma);
		lowest = centre - fmax(SUSPECTS_SLOWER, SUSPECTS_SIGMA * sigma);
	}
	free(paces);
	return lowest;
}

/* lowest: NaN: nothing is known. */
static bool is_slow(double lowest, const struct paced_window *w)
{
	return is_paced(w) && log(w->pace) < lowest;
}

/* ---- stretches ---- */

/* Whether the window after it in the list is the next, or the one after that with nothing known of
 * what is between. */
static bool goes_on(const struct paced_window *w, const struct paced_window *next,
		    uint64_t window_ns)
{
	return next->recording == w->recording && next->pid == w->pid &&
	       next->start_ns <= w->start_ns + 2 * window_ns;
}

static void merge(suspects *s)
{
	size_t kept = 0;
	if (!s->len)
		return;
	qsort(s->data, s->len, sizeof(*s->data), by_start);
	for (size_t i = 1; i < s->len; i++) {
		struct suspect *last = &s->data[kept], *one = &s->data[i];
		if (one->recording != last->recording || one->start_ns > last->end_ns)
			s->data[++kept] = *one;
		else if (one->end_ns > last->end_ns)
			last->end_ns = one->end_ns;
	}
	s->len = kept + 1;
}

static size_t stretches_of(const suspects *s, uint32_t recording)
{
	size_t n = 0;
	for (size_t i = 0; i < s->len; i++)
		n += s->data[i].recording == recording;
	return n;
}

/* Of all processes together: ranks stand still at once. */
static void find_idle(paced_windows *windows, uint64_t window_ns)
{
	suspects still = {0};
	size_t n = 0;
	for (size_t i = 0; i < windows->len; i++) {
		const struct paced_window *w = &windows->data[i];
		if (w->pace > 0 && w->pace < SUSPECTS_STILL)
			*vec_push(&still) = (struct suspect){w->recording, w->start_ns,
							     w->start_ns + window_ns};
	}
	merge(&still);
	for (size_t i = 0; i < windows->len; i++) {
		struct paced_window *w = &windows->data[i];
		if (!i || w->recording != w[-1].recording)
			n = stretches_of(&still, w->recording);
		w->idle = n >= SUSPECTS_IDLE && w->pace > 0 && w->pace < SUSPECTS_STILL;
	}
	vec_free(&still);
}

/* Those that are slow: how many windows, of *ret_paced. */
static size_t find_slow(suspects *ret, size_t *ret_paced, const paced_windows *windows,
			double lowest, uint64_t window_ns)
{
	size_t slow = 0, len;
	const struct paced_window *w = windows->data;
	*ret_paced = 0;
	for (size_t i = 0; i < windows->len; i += len) {
		size_t n = len = is_slow(lowest, &w[i]);
		/* One that nothing is known of does not end it. */
		for (size_t k = i + 1;
		     n && k < windows->len && goes_on(&w[k - 1], &w[k], window_ns); k++) {
			if (w[k].idle || (is_paced(&w[k]) && !is_slow(lowest, &w[k])))
				break;
			n += is_paced(&w[k]);
			len = is_paced(&w[k]) ? k - i + 1 : len;
		}
		len = len ? len : 1;
		for (size_t k = i; k < i + len; k++)
			*ret_paced += is_paced(&w[k]);
		if (n < SUSPECTS_ON_END)
			continue;
		slow += n;
		uint64_t start = w[i].start_ns;
		*vec_push(ret) =
			(struct suspect){w[i].recording, start > window_ns ? start - window_ns : 0,
					 w[i + len - 1].start_ns + 2 * window_ns};
	}
	return slow;
}

/* Faults make the median lower and what is quicker than it more: so again, without those that were
 * found, until no more are. */
void learn_suspects_find(suspects *ret, paced_windows *windows, uint64_t window_ns)
{
	double lowest = NAN;
	size_t paced, slow = 0, before;
	learn_suspects_sort(windows);
	find_idle(windows, window_ns);
	do {
		before = slow;
		lowest = lowest_of(windows, ret, lowest);
		ret->len = 0;
		slow = find_slow(ret, &paced, windows, lowest, window_ns);
		merge(ret);
	} while (slow > before);
	if ((double)slow > SUSPECTS_MOST * (double)paced || paced - slow < SUSPECTS_LEAST)
		ret->len = 0;
}

bool learn_suspects_at(const suspects *s, uint32_t recording, uint64_t time_ns)
{
	size_t low = 0, high = s->len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct suspect *m = &s->data[middle];
		if (m->recording < recording || (m->recording == recording && m->end_ns <= time_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->len && s->data[low].recording == recording &&
	       s->data[low].start_ns <= time_ns;
}

/* clock.c - sums of usual time, and what they say of a window. */
#include "detect/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/stats.h"
#include "detect/pace_judge.h"

#define WINDOWS_LEAST  30   /* that a layer is learned from */
#define PRESENT	       0.8  /* of the windows of the layer that has most */
#define LEADS	       0.5  /* of the usual time of the busiest process */
#define HELPED	       0.1  /* of a child's: more, and it works for its parent */
#define ALIKE	       0.25 /* places within that of the pace agree */
#define LEFT	       0.3  /* of the usual time, where calls in vain are left out */
#define MOST_QUANTILE  0.98 /* of training windows, and */
#define MOST_ROOM      1.1  /* so much more */
#define WALL_STEADIER  0.9  /* as far apart as by the time of the threads */
#define COUNTED_LEAST  0.8  /* of the windows are of the usual work, */
#define COUNTED_CALLS  20.0 /* a window has: with fewer one more or less is too much, */
#define COUNT_STEADIER 0.5  /* and as far apart as by usual times, */
#define COUNT_OF_WALL  1.1  /* where threads wait for each other this */

void clock_add_call(struct clock_sums *s, const struct clock_part *part, double share)
{
	clock_add_nested(s, part, share);
	clock_add_gap(s, part);
}

void clock_add_nested(struct clock_sums *s, const struct clock_part *part, double share)
{
	if (part->resized || !isnan(part->usual_ns))
		s->calls[part->function % CLOCK_PLACES] += (float)share;
}

void clock_add_gap(struct clock_sums *s, const struct clock_part *part)
{
	double usual_ns = part->usual_ns;
	if (part->resized) {
		s->resized_ns += part->ns;
		s->resized |= 1ULL << part->function % CLOCK_PLACES;
		usual_ns = isnan(usual_ns) ? part->ns : usual_ns;
	}
	if (isnan(usual_ns)) {
		s->unknown_ns += part->ns;
		return;
	}
	s->ns += part->ns;
	s->usual_ns += usual_ns;
	s->took[part->function % CLOCK_PLACES] += (float)part->ns;
	s->usual[part->function % CLOCK_PLACES] += (float)usual_ns;
}

/* ---- reading ---- */

/* Each took less than half of its usual time. */
static bool is_quick(const struct clock_sums *s, size_t place)
{
	return s->took[place] < s->usual[place] / 2;
}

struct place_pace {
	double share, ratio; /* of usual time; of calls to the usual ones */
	double room;	     /* that counts have, of the ratio */
	bool quick;	     /* each took less than half of its usual time */
};

static int by_ratio(const void *a, const void *b)
{
	const struct place_pace *x = a, *y = b;
	return x->ratio < y->ratio ? -1 : x->ratio > y->ratio;
}

static double share_of(const struct place_pace *places, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += places[i].share;
	return sum;
}

/* The pace that half of the usual time has at most. places: by rising ratio. */
static double middle(const struct place_pace *places, size_t n)
{
	double below = 0, half = share_of(places, n) / 2;
	for (size_t i = 0; i < n; i++) {
		below += places[i].share;
		if (below >= half)
			return places[i].ratio;
	}
	return 0;
}

/* Calls a window of usual speed has in a place. */
static double usual_calls(const struct model_clock *m, size_t place, uint64_t window_ns)
{
	return m->calls_per_s[place] * (double)window_ns / 1e9;
}

/* The pace that places with so much of their usual time agree on; 0: they do not. */
static double agreed(const struct place_pace *places, size_t n)
{
	double agree = 0, pace = middle(places, n);
	for (size_t i = 0; i < n && pace > 0; i++) {
		/* Counts vary by their root. */
		double room = fmax(ALIKE * pace, places[i].room * sqrt(pace));
		agree += fabs(places[i].ratio - pace) <= room ? places[i].share : 0;
	}
	return agree >= CLOCK_AGREE * share_of(places, n) ? pace : 0;
}

/* The pace that the places agree on, without those of calls in vain if need be; 0: they do not. */
static double pace_of(const struct model_clock *m, const struct clock_sums *s, uint64_t window_ns)
{
	struct place_pace places[CLOCK_PLACES] = {0};
	size_t n = 0, kept = 0;
	for (size_t i = 0; i < CLOCK_PLACES; i++) {
		double usual = usual_calls(m, i, window_ns);
		if (usual > 0)
			places[n++] = (struct place_pace){.share = m->share[i],
							  .ratio = (double)s->calls[i] / usual,
							  .room = 2 / sqrt(usual),
							  .quick = is_quick(s, i)};
	}
	qsort(places, n, sizeof(*places), by_ratio);
	double pace = agreed(places, n), all = share_of(places, n), median = middle(places, n);
	if (pace > 0)
		return pace;
	for (size_t i = 0; i < n; i++)
		if (!places[i].quick || places[i].ratio <= median)
			places[kept++] = places[i];
	return kept < n && share_of(places, kept) >= LEFT * all ? agreed(places, kept) : 0;
}

/* Usual time, less that of calls beside the work: beyond what belongs to that pace. */
static double usual_at(const struct model_clock *m, const struct clock_sums *s, double pace,
		       uint64_t window_ns)
{
	double sum = 0;
	for (size_t i = 0; i < CLOCK_PLACES; i++) {
		double most = pace * m->most[i] * usual_calls(m, i, window_ns);
		double calls = (double)s->calls[i];
		sum += (double)s->usual[i] * (calls > most ? most / calls : 1);
	}
	return sum;
}

/* Likewise of another mix of work, at no pace: of quick calls beyond what any window had. */
static double usual_below_peaks(const struct model_clock *m, const struct clock_sums *s,
				uint64_t window_ns)
{
	double sum = s->usual_ns;
	for (size_t i = 0; m && i < CLOCK_PLACES; i++) {
		double most = MOST_ROOM * m->peak[i] * (double)window_ns / 1e9;
		double calls = (double)s->calls[i];
		if (most > 0 && calls > most && is_quick(s, i))
			sum -= (double)s->usual[i] * (1 - most / calls);
	}
	return sum;
}

bool clock_resized(const struct clock_sums *s, uint64_t window_ns)
{
	double functions = 0, resized = 0;
	for (size_t i = 0; i < CLOCK_PLACES; i++) {
		functions += s->calls[i] > 0;
		resized += s->resized >> i & 1;
	}
	return s->resized_ns > CLOCK_RESIZED * (double)window_ns &&
	       resized >= CLOCK_OF_WORK * functions;
}

void clock_read(struct clock_reading *ret, const struct model_clock *m, const struct clock_sums *s,
		uint64_t window_ns)
{
	double all = s->ns + s->unknown_ns;
	*ret = (struct clock_reading){0};
	if (all < CLOCK_COVERED * (double)window_ns)
		return;
	double pace = m && m->layer < DETECT_LAYERS ? pace_of(m, s, window_ns) : 0;
	double took = m && m->wall ? (double)window_ns : all;
	ret->unknown = s->unknown_ns / all;
	ret->resized = s->resized_ns / all;
	ret->agrees = pace > 0;
	ret->is_other = !ret->agrees && ret->unknown > CLOCK_UNKNOWN;
	if (ret->agrees && m->counted > 0) {
		ret->speed = pace / m->counted;
		return;
	}
	if (ret->agrees)
		ret->speed = usual_at(m, s, pace, window_ns) / took;
	else if (!ret->is_other)
		ret->speed = (usual_below_peaks(m, s, window_ns) + s->unknown_ns) / took;
	if (m)
		ret->speed /= exp(m->centre);
}

/* ---- learning ---- */

struct learned {
	const struct clock_window **sorted; /* all, by layer and process */
	size_t sorted_len;
	const struct clock_window **windows; /* that are learned from, of one layer */
	size_t n;
	uint64_t window_ns;
};

static bool of_one(const struct clock_window *x, const struct clock_window *y)
{
	return x->layer == y->layer && x->recording == y->recording && x->pid == y->pid;
}

static int by_process(const void *a, const void *b)
{
	const struct clock_window *x = *(const struct clock_window *const *)a;
	const struct clock_window *y = *(const struct clock_window *const *)b;
	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	if (x->recording != y->recording)
		return x->recording < y->recording ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* The windows from that place on that are of its process and layer; *ret_usual_ns: theirs. */
static size_t stretch(const struct learned *l, size_t at, double *ret_usual_ns)
{
	size_t end = at;
	*ret_usual_ns = 0;
	for (; end < l->sorted_len && of_one(l->sorted[at], l->sorted[end]); end++)
		*ret_usual_ns += l->sorted[end]->sums.usual_ns;
	return end - at;
}

/* The first place whose window is not before x's process and layer. */
static size_t find_process(const struct learned *l, const struct clock_window *x)
{
	size_t low = 0, high = l->sorted_len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (by_process(&l->sorted[mid], &x) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Whether a process with so much usual time works for its parent. */
static bool is_helper(const struct learned *l, const struct clock_window *w, double usual_ns)
{
	struct clock_window parent = {
		.recording = w->recording, .pid = w->parent, .layer = w->layer};
	size_t at = find_process(l, &parent);
	double parents_ns = 0;
	if (w->parent && at < l->sorted_len && of_one(l->sorted[at], &parent) &&
	    l->sorted[at]->parent != w->pid)
		stretch(l, at, &parents_ns);
	return parents_ns > 0 && parents_ns >= HELPED * usual_ns;
}

/* Puts those of the layer's busiest processes into windows. */
static void choose(struct learned *l, enum detect_layer layer)
{
	double most = 0, usual_ns;
	l->n = 0;
	for (size_t i = 0, len; i < l->sorted_len; i += len) {
		len = stretch(l, i, &usual_ns);
		if (l->sorted[i]->layer == layer && !is_helper(l, l->sorted[i], usual_ns))
			most = fmax(most, usual_ns);
	}
	for (size_t i = 0, len; i < l->sorted_len; i += len) {
		len = stretch(l, i, &usual_ns);
		if (l->sorted[i]->layer != layer || usual_ns < LEADS * most ||
		    is_helper(l, l->sorted[i], usual_ns))
			continue;
		for (size_t k = i; k < i + len; k++)
			if (l->sorted[k]->sums.ns >= CLOCK_COVERED * (double)l->window_ns)
				l->windows[l->n++] = l->sorted[k];
	}
}

static void rates(struct model_clock *m, const struct learned *l)
{
	double usual_ns = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct clock_sums *s = &l->windows[i]->sums;
		usual_ns += s->usual_ns;
		for (size_t p = 0; p < CLOCK_PLACES; p++) {
			m->calls_per_s[p] += (double)s->calls[p];
			m->share[p] += (double)s->usual[p];
		}
	}
	for (size_t p = 0; p < CLOCK_PLACES && usual_ns > 0; p++) {
		m->calls_per_s[p] /= usual_ns / 1e9;
		m->share[p] = fmin(1, m->share[p] / usual_ns); /* floats do not sum up exactly */
		m->most[p] = CLOCK_MORE;
	}
}

/* How many times the pace's calls a place had in training, nearly always: evaluations between steps
 * make forward passes more than backward ones. */
static void mosts(struct model_clock *m, const struct learned *l)
{
	double *ratios = xcalloc(l->n + 1, sizeof(*ratios));
	for (size_t p = 0; p < CLOCK_PLACES; p++) {
		size_t n = 0;
		double usual = usual_calls(m, p, l->window_ns);
		for (size_t i = 0; i < l->n && usual > 0; i++) {
			double calls = (double)l->windows[i]->sums.calls[p];
			double pace = pace_of(m, &l->windows[i]->sums, l->window_ns);
			m->peak[p] = fmax(m->peak[p], calls * 1e9 / (double)l->window_ns);
			if (pace > 0)
				ratios[n++] = calls / usual / pace;
		}
		if (!n)
			continue;
		stats_sort(ratios, n);
		double high = ratios[(size_t)((double)(n - 1) * MOST_QUANTILE)];
		m->most[p] = fmax(CLOCK_MORE, MOST_ROOM * high);
	}
	free(ratios);
}

/* However many were slow. Returns how far all but a fifth of them lie apart. */
static double spread_of(struct model_clock *ret, double *ln_speeds, size_t n)
{
	stats_sort(ln_speeds, n);
	ret->windows = n;
	ret->sigma = 1;
	if (n)
		stats_shorth_sorted(ln_speeds, n, &ret->centre, &ret->sigma);
	ret->sigma = fmax(ret->sigma, PACE_SIGMA);
	return n ? ln_speeds[n - 1 - n / 10] - ln_speeds[n / 10] : INFINITY;
}

static double spread(struct model_clock *m, const struct learned *l)
{
	double *lns = xcalloc(l->n + 1, sizeof(*lns));
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++) {
		struct clock_reading r;
		clock_read(&r, m, &l->windows[i]->sums, l->window_ns);
		if (r.speed > 0)
			lns[n++] = log(r.speed);
	}
	double apart = spread_of(m, lns, n);
	free(lns);
	return apart;
}

double clock_resolution(const struct model_clock *m, uint64_t window_ns)
{
	struct place_pace places[CLOCK_PLACES] = {0};
	size_t n = 0;
	if (!(m->counted > 0))
		return 0;
	for (size_t i = 0; i < CLOCK_PLACES; i++) {
		double usual = m->counted * usual_calls(m, i, window_ns);
		if (usual > 0)
			places[n++] = (struct place_pace){.share = m->share[i], .ratio = usual};
	}
	qsort(places, n, sizeof(*places), by_ratio);
	double calls = middle(places, n);
	return calls > 0 ? 1 / calls : INFINITY;
}

/* By how often calls are made alone, where nearly all windows are of the usual work. Whether they
 * differ much less by that than by usual times, of the same windows; hardly more where threads wait
 * for each other, since then times are of whichever thread was given the work. */
static bool is_counted(struct model_clock *m, const struct learned *l)
{
	struct model_clock timed = *m;
	double *counts = xcalloc(l->n + 1, sizeof(*counts));
	double *times = xcalloc(l->n + 1, sizeof(*times));
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++) {
		struct clock_reading r;
		clock_read(&r, &timed, &l->windows[i]->sums, l->window_ns);
		if (!r.agrees || !(r.speed > 0))
			continue;
		times[n] = log(r.speed);
		counts[n++] = log(pace_of(m, &l->windows[i]->sums, l->window_ns));
	}
	double by_time = spread_of(&timed, times, n);
	struct model_clock counted = {0};
	double by_count = spread_of(&counted, counts, n);
	free(times);
	free(counts);
	m->counted = exp(counted.centre);
	double least = clock_resolution(m, l->window_ns);
	m->sigma = fmax(counted.sigma, least);
	return (double)n >= COUNTED_LEAST * (double)l->n && least <= 1 / COUNTED_CALLS &&
	       by_count < (m->wall ? COUNT_OF_WALL : COUNT_STEADIER) * by_time;
}

/* By the time of its threads, by that of the window, or by its calls alone. Returns by how much
 * windows differ by time. */
static double learn_layer(struct model_clock *ret, const struct learned *l, bool waits)
{
	ret->waits = waits;
	rates(ret, l);
	mosts(ret, l);
	struct model_clock wall = *ret;
	wall.wall = true;
	double apart = spread(ret, l);
	if (!waits && spread(&wall, l) < WALL_STEADIER * apart)
		*ret = wall;
	double sigma = ret->sigma;
	struct model_clock counted = *ret;
	if (!waits && is_counted(&counted, l))
		*ret = counted;
	return sigma;
}

void clock_learn(struct model_clock *ret, const struct clock_window *windows, size_t n,
		 uint64_t window_ns, bool waits)
{
	struct learned l = {.sorted = xcalloc(n + 1, sizeof(*l.sorted)),
			    .sorted_len = n,
			    .windows = xcalloc(n + 1, sizeof(*l.windows)),
			    .window_ns = window_ns};
	struct model_clock tried[DETECT_LAYERS];
	double sigmas[DETECT_LAYERS];
	size_t had[DETECT_LAYERS], most = 0;
	*ret = (struct model_clock){.layer = DETECT_LAYERS};
	for (size_t i = 0; i < n; i++)
		l.sorted[i] = &windows[i];
	qsort(l.sorted, n, sizeof(*l.sorted), by_process);
	for (enum detect_layer layer = 0; layer < DETECT_LAYERS; layer++) {
		choose(&l, layer);
		tried[layer] = (struct model_clock){.layer = layer};
		had[layer] = l.n;
		most = l.n > most ? l.n : most;
		if (l.n < WINDOWS_LEAST)
			continue;
		sigmas[layer] = learn_layer(&tried[layer], &l, waits);
	}
	double least = INFINITY;
	for (enum detect_layer layer = 0; layer < DETECT_LAYERS; layer++) {
		if (had[layer] < WINDOWS_LEAST || (double)had[layer] < PRESENT * (double)most ||
		    !(sigmas[layer] < least))
			continue;
		least = sigmas[layer];
		*ret = tried[layer];
	}
	free(l.sorted);
	free(l.windows);
}

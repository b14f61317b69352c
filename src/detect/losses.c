/* losses.c - events that came and events that were lost, by time. */
#include "detect/losses.h"

#include <string.h>

#define TOTALS_MOST  64		     /* hosts of a merged recording */
#define LONGEST_NS   600000000000ULL /* between two looks at the totals */
#define WINDOWS_MOST 10000	     /* windows of a loss or a row; longer ones are hostile */
#define COUNTER	     "lost_calls"
#define EVENTS_MOST  1e15
#define THOUSAND     1000.0

void losses_forget(struct losses *l)
{
	map64_free(&l->seen);
	map64_free(&l->lost);
	vec_free(&l->totals);
	*l = (struct losses){.window_ns = l->window_ns};
}

void losses_free(struct losses *l)
{
	losses_forget(l);
}

static void add(struct losses *l, struct map64 *to, uint64_t window, uint64_t n)
{
	uint64_t before = 0;
	map64_get(to, window, &before);
	map64_set(to, window, before + n);
	l->first = l->first && l->first < window ? l->first : window;
	l->last = l->last > window ? l->last : window;
}

/* Most events are of the window that the one before was of. */
static void put_count(struct losses *l)
{
	if (l->count)
		add(l, &l->seen, l->window, l->count);
	l->count = 0;
}

void losses_seen(struct losses *l, uint64_t end_ns)
{
	uint64_t window = end_ns / l->window_ns;
	if (window != l->window)
		put_count(l);
	l->window = window;
	l->count++;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The share of [from, to) that lies in a window. */
static double share_of(const struct losses *l, uint64_t window, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t start = window * l->window_ns; /* the last one's end may be too large */
	uint64_t from = later(start, from_ns);
	uint64_t to = to_ns > start ? start + earlier(l->window_ns, to_ns - start) : from;
	return to > from ? (double)(to - from) / (double)(to_ns - from_ns) : 0;
}

void losses_add(struct losses *l, uint64_t from_ns, uint64_t to_ns, double events)
{
	if (!(events > 0) || events > EVENTS_MOST || to_ns <= from_ns ||
	    to_ns - from_ns > LONGEST_NS)
		return;
	uint64_t n = from_ns / l->window_ns, last = (to_ns - 1) / l->window_ns;
	if (last - n >= WINDOWS_MOST)
		return;
	for (; n <= last; n++)
		add(l, &l->lost, n,
		    (uint64_t)(THOUSAND * events * share_of(l, n, from_ns, to_ns) + 0.5));
}

void losses_counter(struct losses *l, const struct detect_names *names, const struct m_counter *c)
{
	size_t i = 0;
	const struct m_metric *m = names->metric(names->ctx, c->metric);
	if (!m || strcmp(names->string(names->ctx, m->name), COUNTER) != 0)
		return;
	while (i < l->totals.len && l->totals.data[i].metric != c->metric)
		i++;
	if (i == TOTALS_MOST)
		return;
	if (i == l->totals.len)
		*vec_push(&l->totals) = (struct loss_total){c->metric, c->time_ns, c->value};
	struct loss_total *t = &l->totals.data[i];
	losses_add(l, t->time_ns, c->time_ns, c->value - t->value);
	*t = (struct loss_total){c->metric, c->time_ns, c->value};
}

/* Windows that are in it in part count by their share. */
bool losses_spoil(struct losses *l, const struct feature_row *row)
{
	double lost = 0, seen = 0;
	if (!l->lost.len || row->layer == DETECT_HARDWARE || row->end_ns <= row->start_ns)
		return false;
	put_count(l);
	uint64_t n = later(row->start_ns / l->window_ns, l->first);
	uint64_t last = earlier((row->end_ns - 1) / l->window_ns, l->last);
	if (last >= n && last - n >= WINDOWS_MOST)
		return false;
	for (; n <= last; n++) {
		uint64_t of_seen = 0, of_lost = 0;
		double share = share_of(l, n, row->start_ns, row->end_ns) *
			       (double)(row->end_ns - row->start_ns) / (double)l->window_ns;
		map64_get(&l->seen, n, &of_seen);
		map64_get(&l->lost, n, &of_lost);
		seen += share * (double)of_seen;
		lost += share * (double)of_lost / THOUSAND;
	}
	return lost > LOSSES_MOST * (lost + seen);
}

/* Both maps anew: of those before there may be very many numbers and few windows. */
static void keep_from(struct losses *l, uint64_t before)
{
	struct losses kept = {0};
	bool any = l->last >= before && l->last - before < WINDOWS_MOST;
	for (uint64_t n = before, of = 0; any && n <= l->last; n++) {
		if (map64_get(&l->seen, n, &of))
			map64_set(&kept.seen, n, of);
		if (map64_get(&l->lost, n, &of))
			map64_set(&kept.lost, n, of);
	}
	map64_free(&l->seen);
	map64_free(&l->lost);
	l->seen = kept.seen;
	l->lost = kept.lost;
	l->first = any ? before : 0;
	l->last = any ? l->last : 0;
}

void losses_upto(struct losses *l, uint64_t before_ns)
{
	uint64_t before = before_ns / l->window_ns;
	put_count(l);
	if (!l->first || l->first >= before)
		return;
	if (before - l->first > WINDOWS_MOST) {
		keep_from(l, before);
		return;
	}
	for (; l->first < before && l->first <= l->last; l->first++) {
		map64_del(&l->seen, l->first);
		map64_del(&l->lost, l->first);
	}
}

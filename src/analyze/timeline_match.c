/* timeline_match.c - aligns the calls of a process with the work of its GPUs.
 *
 * CUPTI numbers API calls as they are made, so both lists are in one order, and pairs of one
 * place are a match as long as nothing is missing. A pair fits when its class, kernel, dimensions
 * and bytes agree, the work does not begin before the call, nor after a wait for it has ended.
 *
 * Where a pair does not fit, something is missing on one side, or two threads called in another
 * order than they were numbered. A few steps are skipped on either side until CONFIRM pairs
 * in a row fit. Where no few steps do (the beginning of a recording that was attached, a hole),
 * the lists are aligned anew: of all places near in time the one that gives most pairs without
 * work before its call; of equally good ones, as loops give, that of the shortest time between
 * call and work. In the end what was skipped on both sides at about the same place is paired.
 *
 * What it cannot tell: of calls of one kernel in a row of which one is missing, which one. */
#include "analyze/timeline_match.h"

#include <stdbool.h>

enum {
	CONFIRM = 8,		/* pairs in a row that end a skip */
	SKIPS = 48,		/* at most: pairs, and what is missing on one side twice */
	CANDIDATES = 4096,	/* places that aligning anew looks at, on each side */
	RUN = 16384,		/* pairs that it looks at for each */
	NEAR = 64,		/* calls before and after that what was skipped may belong to */
	EARLY_NS = 100000,	/* of these: work may seem to begin so long before its call */
	LAUNCH_NS = 10000,	/* an idle device begins work this soon after the call */
	PAIRS_BUDGET = 1 << 28, /* that aligning anew may look at, all together */
};

struct lists {
	struct match_item *calls;
	size_t ncalls;
	struct match_item *groups;
	size_t ngroups;
	uint64_t budget;
};

static bool same_kind(const struct match_item *c, const struct match_item *g)
{
	return c->class == g->class && (c->name == g->name || !c->name || !g->name) &&
	       (c->grid == g->grid || !c->grid || !g->grid) &&
	       (c->block == g->block || !c->block || !g->block) &&
	       (c->bytes == g->bytes || !c->bytes || !g->bytes);
}

static bool in_time(const struct match_item *c, const struct match_item *g)
{
	return c->start_ns <= g->start_ns && g->start_ns <= c->until_ns;
}

static bool fits(const struct lists *l, size_t call, size_t group)
{
	const struct match_item *c = &l->calls[call], *g = &l->groups[group];
	return same_kind(c, g) && in_time(c, g);
}

static void pair(struct lists *l, size_t call, size_t group)
{
	l->calls[call].match = (uint32_t)group;
	l->groups[group].match = (uint32_t)call;
}

/* ---- a few missing ---- */

static bool confirmed(const struct lists *l, size_t call, size_t group)
{
	size_t n = 0;
	while (n < CONFIRM && call + n < l->ncalls && group + n < l->ngroups) {
		if (!fits(l, call + n, group + n))
			return false;
		n++;
	}
	return n > 0;
}

/* Skips as little as possible. Threads that swap make as many skips on both sides, what is missing
 * makes more on one: these cost double, for loops fit again a round later. */
static bool skip_some(const struct lists *l, size_t *call, size_t *group)
{
	for (size_t cost = 1; cost <= SKIPS; cost++) {
		for (size_t more = 0; 2 * more <= cost; more++) {
			size_t both = cost - 2 * more;
			for (int of_calls = 0; of_calls < 2; of_calls++) {
				size_t c = *call + both + (of_calls ? more : 0);
				size_t g = *group + both + (of_calls ? 0 : more);
				if (c >= l->ncalls || g >= l->ngroups || !confirmed(l, c, g))
					continue;
				*call = c;
				*group = g;
				return true;
			}
		}
	}
	return false;
}

/* ---- aligning anew ---- */

struct place {
	size_t call, group;
	size_t pairs;	   /* that fit from here on, RUN at most */
	uint64_t least_ns; /* from a call to its work */
};

/* How well the lists agree from a place on. Two threads may have swapped, so a few pairs need not
 * agree; but no work begins before its call. */
static struct place try_place(struct lists *l, size_t call, size_t group)
{
	struct place p = {call, group, 0, UINT64_MAX};
	size_t bad = 0, seen = 0;
	for (; seen < RUN && call + seen < l->ncalls && group + seen < l->ngroups; seen++) {
		const struct match_item *c = &l->calls[call + seen], *g = &l->groups[group + seen];
		if (!same_kind(c, g)) {
			if (!seen || ++bad > 8 + seen / 10)
				break;
			continue;
		}
		if (!in_time(c, g))
			break;
		p.pairs++;
		if (g->start_ns - c->start_ns < p.least_ns)
			p.least_ns = g->start_ns - c->start_ns;
	}
	l->budget -= l->budget > seen ? seen + 1 : l->budget;
	return p;
}

/* The number of calls that began no later than a time. */
static size_t calls_until(const struct lists *l, uint64_t time_ns)
{
	size_t low = 0, high = l->ncalls;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (l->calls[mid].start_ns <= time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void consider(struct place *best, struct place p)
{
	/* Earlier ones have less time between call and work. */
	if (p.pairs > best->pairs + best->pairs / 50)
		*best = p;
}

/* Moves to the place from which on the lists agree best; false where there is none near. */
static bool align(struct lists *l, size_t *call, size_t *group)
{
	while (*group < l->ngroups && l->groups[*group].start_ns < l->calls[*call].start_ns)
		++*group; /* its call was not recorded */
	if (*group == l->ngroups)
		return false;
	while (*call < l->ncalls && l->calls[*call].until_ns < l->groups[*group].start_ns)
		++*call; /* its work was not recorded */
	if (*call == l->ncalls)
		return false;
	size_t limit = l->budget ? CANDIDATES : NEAR;
	struct place here = try_place(l, *call, *group), best = {0};
	size_t last = calls_until(l, l->groups[*group].start_ns);
	for (size_t n = 0; n < limit && last > *call + 1 + n; n++)
		consider(&best, try_place(l, last - 1 - n, *group));
	/* A recording mostly begins with both complete, which shows in how soon work began. */
	uint64_t soon_ns = best.least_ns < LAUNCH_NS / 2 ? LAUNCH_NS : 2 * best.least_ns;
	if (!*call && !*group && here.pairs >= CONFIRM && here.least_ns <= soon_ns)
		return true;
	consider(&best, here);
	for (size_t n = 1; n < limit && *group + n < l->ngroups; n++)
		consider(&best, try_place(l, *call, *group + n));
	if (!best.pairs)
		return false;
	*call = best.call;
	*group = best.group;
	return true;
}

/* ---- what was skipped ---- */

static bool nearly_fits(const struct match_item *c, const struct match_item *g)
{
	return same_kind(c, g) && c->start_ns <= g->start_ns + EARLY_NS &&
	       g->start_ns <= c->until_ns;
}

/* Of two that fit, the one whose work does not begin before it; then the first. */
static void pair_skipped(struct lists *l)
{
	size_t at = 0; /* the call of the last group that has one */
	for (size_t g = 0; g < l->ngroups; g++) {
		struct match_item *group = &l->groups[g];
		if (group->match != MATCH_NONE) {
			at = group->match;
			continue;
		}
		size_t from = at > NEAR ? at - NEAR : 0, found = l->ncalls;
		for (size_t c = from; c < l->ncalls && c <= at + NEAR; c++) {
			const struct match_item *call = &l->calls[c];
			if (call->match != MATCH_NONE || !nearly_fits(call, group))
				continue;
			if (found == l->ncalls ||
			    (!in_time(&l->calls[found], group) && in_time(call, group)))
				found = c;
		}
		if (found < l->ncalls) {
			pair(l, found, g);
			at = found;
		}
	}
}

void match_make(struct match_item *calls, size_t ncalls, struct match_item *groups, size_t ngroups)
{
	struct lists l = {calls, ncalls, groups, ngroups, PAIRS_BUDGET};
	size_t c = 0, g = 0;
	for (size_t i = 0; i < ncalls; i++)
		calls[i].match = MATCH_NONE;
	for (size_t i = 0; i < ngroups; i++)
		groups[i].match = MATCH_NONE;
	bool aligned = ncalls && ngroups && align(&l, &c, &g);
	while (c < ncalls && g < ngroups) {
		if (fits(&l, c, g)) {
			pair(&l, c++, g++);
		} else if (!aligned || (!skip_some(&l, &c, &g) && !align(&l, &c, &g))) {
			c++;
			g++;
		}
	}
	pair_skipped(&l);
}

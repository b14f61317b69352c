/* timeline_match.c - aligns the calls of a process with the work of its GPUs.
 *
 * CUPTI numbers API calls as they are made, so both lists are in one order, and pairs of one
 * place are a match as long as nothing is missing. A pair fits when its class, kernel, dimensions
 * and bytes agree, the work does not begin before the call, nor after a wait for it has ended.
 *
 * Where only calls that start work are numbered, which is how the shim asks CUPTI, the numbers
 * have no gaps (dense): a gap is work that was lost, and as many calls have none. So after a gap
 * the place is known, also in a loop, whose turns all look alike. Calls that were captured or
 * moved nothing may have taken numbers as well: behind such calls a gap may be theirs.
 *
 * Where a pair does not fit, something is missing on one side, or two threads called in another
 * order than they were numbered. A few steps are skipped on either side until CONFIRM pairs
 * in a row fit. Where no few steps do (the beginning of a recording that was attached, a hole),
 * the lists are aligned anew: of all places near in time the one that gives most pairs without
 * work before its call; of equally good ones, as loops give, that of the shortest time between
 * call and work.
 *
 * Where calls are missing, it is seen only when a pair does not fit: in a loop, or where a kernel
 * is launched many times in a row, pairs may have been wrong since. So from the new place the way
 * is gone back, as far as pairs fit in this alignment too: of these it is not known which are
 * right, and they are undone (unsure). In the end what was skipped on both sides at one
 * place, as many here as there, is paired: there the order was another, and nothing was missing.
 *
 * What it cannot tell: that calls are missing, in a loop, if until the end of the recording no
 * work begins before the call that it would be paired with. */
#include "analyze/timeline_match.h"

#include <stdbool.h>

enum {
	CONFIRM = 8,	   /* pairs in a row that end a skip */
	SKIPS = 48,	   /* at most: pairs, and what is missing on one side twice */
	CANDIDATES = 4096, /* places that aligning anew looks at, on each side */
	RUN = 16384,	   /* pairs that it looks at for each */
	NEAR = 64,	   /* of one list, at most, between two pairs, to be paired in the end */
	TOO_NEAR = 16,	   /* groups between two skips: none of them is sure */
	MISFITS = 2,	   /* in a row that end the way back */
	EARLY_NS = 100000, /* of these: work may seem to begin so long before its call */
	LAUNCH_NS = 10000, /* an idle device begins work this soon after the call */
	PAIRS_BUDGET = 1 << 28, /* that aligning anew may look at, all together */
};

struct lists {
	struct match_item *calls;
	size_t ncalls;
	struct match_item *groups;
	size_t ngroups;
	uint64_t budget;
	size_t skipped; /* to this group, last */
	bool dense;	/* numbers have no gaps but where work is missing */
};

/* What was missing where pairs had not fitted. */
struct skip {
	size_t calls, groups;
};

/* ---- numbers ---- */

static uint32_t numbers_between(const struct lists *l, size_t first, size_t last)
{
	return l->groups[last].number - l->groups[first].number;
}

/* More than half of the work has the number behind that of the work before it. */
static bool are_dense(const struct lists *l)
{
	size_t next = 0;
	for (size_t g = 1; g < l->ngroups; g++)
		next += numbers_between(l, g - 1, g) == 1;
	return 2 * next >= l->ngroups;
}

/* Numbers that are missing before a group; the call has its place if none is. */
static size_t gap_before(const struct lists *l, size_t call, size_t group)
{
	if (!l->dense || !group || call >= l->ncalls || l->calls[call].after_others)
		return 0;
	return numbers_between(l, group - 1, group) - 1;
}

/* Where the call of the next group is, if that of a group is there; may be behind the last. */
static size_t next_call(const struct lists *l, size_t call, size_t group)
{
	return call + 1 + gap_before(l, call + 1, group + 1);
}

/* ---- pairs ---- */

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

/* Or all up to the ends of both lists. */
static bool confirmed(const struct lists *l, size_t call, size_t group)
{
	size_t n = 0;
	for (; n < CONFIRM && call < l->ncalls && group < l->ngroups; n++) {
		if (!fits(l, call, group))
			return false;
		call = next_call(l, call, group++);
	}
	return n == CONFIRM || (n && call == l->ncalls && group == l->ngroups);
}

static size_t skipped_to(const struct lists *l, size_t call, size_t group, size_t to)
{
	while (group < to)
		call = next_call(l, call, group++);
	return call;
}

/* Skips as little as possible. Threads that swap make as many skips on both sides, what is missing
 * makes more on one: these cost double, for loops fit again a round later. */
static bool skip_some(const struct lists *l, size_t *call, size_t *group)
{
	for (size_t cost = 1; cost <= SKIPS; cost++) {
		for (size_t more = 0; 2 * more <= cost; more++) {
			size_t both = cost - 2 * more;
			for (int of_calls = 0; of_calls < 2; of_calls++) {
				size_t g = *group + both + (of_calls ? 0 : more);
				if (g >= l->ngroups)
					continue;
				size_t c = skipped_to(l, *call, *group, g);
				c = of_calls ? c + more : c - more;
				if (c >= l->ncalls || !confirmed(l, c, g))
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
	for (; seen < RUN && call < l->ncalls && group < l->ngroups; seen++) {
		const struct match_item *c = &l->calls[call], *g = &l->groups[group];
		call = next_call(l, call, group++);
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

/* ---- what may be wrong ---- */

static void undo(struct lists *l, uint32_t group)
{
	struct match_item *g = &l->groups[group];
	if (g->match != MATCH_NONE)
		l->calls[g->match].match = MATCH_NONE;
	g->match = MATCH_NONE;
	g->unsure = true;
}

/* Goes back from a new place, until pairs do not fit or are the same as they were. The call of
 * one that fits may have had another group, which is as unsure. */
static void undo_unsure(struct lists *l, size_t call, size_t group)
{
	for (size_t n = 0, misfits = 0; n < RUN && misfits < MISFITS && group && l->budget; n++) {
		size_t back = 1 + gap_before(l, call, group);
		if (back > call)
			return;
		call -= back;
		group--;
		l->budget--;
		if (l->groups[group].match == call)
			return;
		misfits = fits(l, call, group) ? 0 : misfits + 1;
		if (misfits)
			continue;
		if (l->calls[call].match != MATCH_NONE)
			undo(l, l->calls[call].match);
		undo(l, (uint32_t)group);
	}
}

/* Where several are missing that do not stand together, one new place was found for two. What fits
 * at a place between the old one and the new as well is as likely there. */
static bool fits_between(const struct lists *l, size_t call, size_t group, const struct skip *skip,
			 bool later)
{
	for (size_t n = 1; n <= skip->groups; n++) {
		size_t other = later ? group + n : group - n;
		if (n < skip->groups + later && other < l->ngroups && fits(l, call, other))
			return true;
	}
	for (size_t n = 1; n <= skip->calls; n++) {
		size_t other = later ? call + n : call - n;
		if (n < skip->calls + later && other < l->ncalls && fits(l, other, group))
			return true;
	}
	return false;
}

/* The pairs before a place where they did not fit, until one that fits nowhere else. */
static void undo_last(struct lists *l, size_t group, const struct skip *skip)
{
	while (group-- > 0 && l->groups[group].match != MATCH_NONE &&
	       fits_between(l, l->groups[group].match, group, skip, true))
		undo(l, (uint32_t)group);
}

/* ---- what was skipped ---- */

static bool nearly_fits(const struct match_item *c, const struct match_item *g)
{
	return same_kind(c, g) && c->start_ns <= g->start_ns + EARLY_NS &&
	       g->start_ns <= c->until_ns;
}

/* Of two that fit, the one whose work does not begin before it; then the first. */
static void pair_one(struct lists *l, size_t group, size_t from, size_t to)
{
	const struct match_item *g = &l->groups[group];
	size_t found = to;
	for (size_t c = from; c < to; c++) {
		const struct match_item *call = &l->calls[c];
		if (call->match != MATCH_NONE || !nearly_fits(call, g))
			continue;
		if (found == to || (!in_time(&l->calls[found], g) && in_time(call, g)))
			found = c;
	}
	if (found < to)
		pair(l, found, group);
}

/* Nothing is missing between two pairs: as many calls as groups, numbered one after another. */
static bool is_swapped(const struct lists *l, size_t call, size_t calls, size_t group,
		       size_t groups)
{
	bool gaps = false, others = false;
	if (calls != groups || calls > NEAR)
		return false;
	for (size_t g = group; g < group + groups; g++) {
		gaps |= l->dense && g && numbers_between(l, g - 1, g) != 1;
		if (l->groups[g].unsure)
			return false;
	}
	for (size_t c = call; c < call + calls; c++) {
		others |= l->calls[c].after_others;
		if (l->calls[c].match != MATCH_NONE)
			return false;
	}
	return !gaps || others;
}

/* Between each two pairs that follow each other, and before the first and behind the last. */
static void pair_skipped(struct lists *l)
{
	size_t call = 0; /* behind that of the last pair */
	for (size_t g = 0; g <= l->ngroups; g++) {
		size_t first = g;
		while (g < l->ngroups && l->groups[g].match == MATCH_NONE)
			g++;
		size_t next = g < l->ngroups ? l->groups[g].match : l->ncalls;
		if (g > first && next >= call && is_swapped(l, call, next - call, first, g - first))
			for (size_t i = first; i < g; i++)
				pair_one(l, i, call, next);
		call = next + 1;
	}
}

/* To where pairs fit again; false when there is no such place. */
static bool move_on(struct lists *l, size_t *call, size_t *group, struct skip *skip)
{
	size_t c = *call, g = *group, last = l->skipped;
	bool few = skip_some(l, &c, &g), aligned = few || align(l, &c, &g);
	size_t same = few ? skipped_to(l, *call, *group, g) : c; /* without what is missing */
	*skip = (struct skip){.groups = same > c ? same - c : 0, .calls = c > same ? c - same : 0};
	bool swapped = few && !skip->groups && !skip->calls;
	for (size_t i = last; !swapped && last && *group - last < TOO_NEAR && i < *group; i++)
		undo(l, (uint32_t)i);
	if (!aligned)
		return false;
	undo_unsure(l, c, g);
	if (few && !swapped)
		undo_last(l, *group, &(struct skip){c - *call, g - *group});
	if (!swapped)
		l->skipped = g;
	*call = c;
	*group = g;
	return true;
}

static void pair_in_order(struct lists *l)
{
	size_t c = 0, g = 0;
	struct skip skip = {0};
	if (!l->ncalls || !l->ngroups)
		return;
	bool aligned = align(l, &c, &g);
	while (c < l->ncalls && g < l->ngroups) {
		if (!fits(l, c, g) && aligned && move_on(l, &c, &g, &skip))
			continue;
		if (fits(l, c, g) && fits_between(l, c, g, &skip, false)) {
			l->groups[g].unsure = true;
		} else if (fits(l, c, g)) {
			pair(l, c, g);
			skip = (struct skip){0};
		}
		c = next_call(l, c, g++);
	}
}

void match_make(struct match_item *calls, size_t ncalls, struct match_item *groups, size_t ngroups)
{
	struct lists l = {calls, ncalls, groups, ngroups, PAIRS_BUDGET, 0, false};
	for (size_t i = 0; i < ncalls; i++)
		calls[i].match = MATCH_NONE;
	for (size_t i = 0; i < ngroups; i++)
		groups[i].match = MATCH_NONE;
	l.dense = are_dense(&l);
	pair_in_order(&l);
	pair_skipped(&l);
}

/* rank_groups.c - which communicators of several processes are one. */
#include "base/map64.h"

#include "analyze/rank_match_impl.h"

#define SHIFTS_TRIED  4096 /* around the one that the clocks suggest */
#define CALLS_SAMPLED 128
#define AGREE_RATIO   0.95
#define MISFITS_MOST  6	   /* of the samples: with one more they do not agree */
#define SAME_NS	      2000 /* differences of variation that say nothing */

/* Bounds on comparing to find out which communicators are one, by how many calls there are. */
#define LOOKS_FREE     (1u << 26)
#define LOOKS_PER_CALL 1024
#define LOOKS_A_GROUP  8 /* what asking for its members costs beside a look at a call */

static int compare_members(const void *a, const void *b)
{
	const struct rank_member *x = a, *y = b;
	COMPARE(x->group, y->group);
	COMPARE(x->rank, y->rank);
	COMPARE(x->source, y->source);
	COMPARE(x->pid, y->pid);
	return 0;
}

/* The collective of that number, or NULL. */
static const struct rank_call *call_numbered(const struct rank_matching *m,
					     const struct rank_member *x, int64_t sequence)
{
	size_t low = 0, high = x->calls;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if ((int64_t)rank_call_of(m, x, middle)->sequence < sequence)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == x->calls || (int64_t)rank_call_of(m, x, low)->sequence != sequence)
		return NULL;
	return rank_call_of(m, x, low);
}

/* ---- communicators without a hash ---- */

struct shift_fit {
	int64_t shift;
	int64_t distance_ns;   /* median of the ends' differences */
	uint64_t variation_ns; /* median of their distances from that */
};

static int compare_i64(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	COMPARE(*x, *y);
	return 0;
}

static int64_t median(int64_t *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_i64);
	return values[n / 2];
}

static int64_t moment(const struct rank_call *c)
{
	return (int64_t)(c->timed ? c->end_ns : c->host_ns);
}

static bool alike(const struct rank_call *x, const struct rank_call *y)
{
	return x->op == y->op && x->bytes == y->bytes && x->datatype == y->datatype;
}

/* How well y's numbers fit x's when the shift is added. False: the calls are not the same. */
static bool try_shift(const struct rank_matching *m, const struct rank_member *x,
		      const struct rank_member *y, int64_t shift, struct shift_fit *ret,
		      uint64_t *looks)
{
	int64_t differences[CALLS_SAMPLED];
	size_t step = (y->calls + CALLS_SAMPLED - 1) / CALLS_SAMPLED;
	size_t there = 0, same = 0;
	for (size_t i = 0; i < y->calls && there - same <= MISFITS_MOST; i += step, ++*looks) {
		const struct rank_call *c = rank_call_of(m, y, i);
		const struct rank_call *other = call_numbered(m, x, (int64_t)c->sequence + shift);
		if (!other)
			continue;
		if (alike(c, other))
			differences[same++] = moment(c) - moment(other);
		there++;
	}
	size_t fewer = x->calls < y->calls ? x->calls : y->calls;
	if (!same || (double)same < AGREE_RATIO * (double)there ||
	    there * 2 * step < fewer) /* they overlap for less than half of the shorter one */
		return false;
	*looks += same; /* for sorting, twice */
	ret->shift = shift;
	ret->distance_ns = median(differences, same);
	for (size_t i = 0; i < same; i++)
		differences[i] = llabs(differences[i] - ret->distance_ns);
	ret->variation_ns = (uint64_t)median(differences, same);
	return true;
}

/* The shift that the clocks suggest: y's middle call is x's that is nearest in time. */
static int64_t shift_by_time(const struct rank_matching *m, const struct rank_member *x,
			     const struct rank_member *y)
{
	const struct rank_call *c = rank_call_of(m, y, y->calls / 2), *best = rank_call_of(m, x, 0);
	for (size_t i = 1; i < x->calls; i++) {
		const struct rank_call *other = rank_call_of(m, x, i);
		if (llabs(moment(other) - moment(c)) < llabs(moment(best) - moment(c)))
			best = other;
	}
	return (int64_t)best->sequence - (int64_t)c->sequence;
}

static bool better(const struct shift_fit *a, const struct shift_fit *b, bool one_clock)
{
	if (!one_clock && a->variation_ns + SAME_NS < b->variation_ns * 2 / 3)
		return true;
	if (!one_clock && b->variation_ns + SAME_NS < a->variation_ns * 2 / 3)
		return false;
	return llabs(a->distance_ns) < llabs(b->distance_ns);
}

static int64_t number_of(const struct rank_matching *m, const struct rank_member *x, size_t i)
{
	return (int64_t)rank_call_of(m, x, i)->sequence;
}

/* The shift that makes y's calls those of x. False: they are not of one communicator. */
static bool find_shift(const struct rank_matching *m, const struct rank_member *x,
		       const struct rank_member *y, struct shift_fit *ret, uint64_t *looks)
{
	if (!x->calls || !y->calls)
		return false;
	int64_t middle = shift_by_time(m, x, y);
	/* beyond these they have no number in common */
	int64_t least = number_of(m, x, 0) - number_of(m, y, y->calls - 1);
	int64_t most = number_of(m, x, x->calls - 1) - number_of(m, y, 0);
	bool found = false;
	*looks += x->calls;
	for (int64_t k = 0; k < SHIFTS_TRIED && (middle - k / 2 >= least || middle + k / 2 <= most);
	     k++) {
		struct shift_fit fit = {0};
		int64_t shift = middle + (k & 1 ? (k + 1) / 2 : -(k / 2));
		if (shift < least || shift > most || !try_shift(m, x, y, shift, &fit, looks) ||
		    (found && !better(&fit, ret, x->clock == y->clock)))
			continue;
		*ret = fit;
		found = true;
	}
	return found;
}

/* ---- groups ---- */

/* Which group has whom, while groups are put together. */
struct joining {
	struct rank_matching *m;
	struct map64 process_of;  /* source and pid -> a number */
	struct map64 has_process; /* group and that number */
	struct map64 has_rank;	  /* group and rank */
	VEC(uint32_t) first_of;	  /* by group: the first of its members */
	uint64_t looks, most_looks;
};

static uint64_t in_group(uint32_t group, uint32_t what)
{
	return (uint64_t)group << 32 | what;
}

static uint32_t process_number(struct joining *j, const struct rank_member *x)
{
	uint64_t number = j->process_of.len, key = (uint64_t)x->source << 32 | x->pid;
	if (!map64_get(&j->process_of, key, &number))
		map64_set(&j->process_of, key, number);
	return (uint32_t)number;
}

static void join(struct joining *j, uint32_t member, uint32_t group)
{
	struct rank_member *x = &j->m->members.data[member];
	x->group = group;
	map64_set(&j->has_process, in_group(group, process_number(j, x)), 1);
	if (x->rank >= 0)
		map64_set(&j->has_rank, in_group(group, (uint32_t)x->rank), 1);
	if (group == j->first_of.len)
		*vec_push(&j->first_of) = member;
	else if (member < j->first_of.data[group])
		j->first_of.data[group] = member;
}

/* Whether a group lacks the process and its rank. */
static bool lacks(struct joining *j, uint32_t group, const struct rank_member *y)
{
	uint64_t unused;
	if (map64_get(&j->has_process, in_group(group, process_number(j, y)), &unused))
		return false;
	return y->rank < 0 || !map64_get(&j->has_rank, in_group(group, (uint32_t)y->rank), &unused);
}

/* Without a candidate, or where too much was compared before, it is alone. */
static void join_by_pattern(struct joining *j, uint32_t member)
{
	struct rank_matching *m = j->m;
	struct rank_member *y = &m->members.data[member];
	struct shift_fit best = {0};
	uint32_t into = TIMELINE_NONE, g = 0;
	for (; g < m->groups.len && j->looks < j->most_looks; g++) {
		struct shift_fit fit = {0};
		const struct rank_member *x = &m->members.data[j->first_of.data[g]];
		j->looks += LOOKS_A_GROUP;
		if (m->groups.data[g].size != y->size || !lacks(j, g, y) ||
		    !find_shift(m, x, y, &fit, &j->looks) ||
		    (into != TIMELINE_NONE && !better(&fit, &best, x->clock == y->clock)))
			continue;
		into = g;
		best = fit;
		best.shift += x->sequence_shift;
	}
	bool all_compared = g == m->groups.len;
	m->not_compared += !all_compared;
	if (into == TIMELINE_NONE || !all_compared) {
		best.shift = 0;
		into = (uint32_t)m->groups.len;
		*vec_push(&m->groups) = (struct rank_group){.size = y->size};
	}
	y->sequence_shift = best.shift;
	join(j, member, into);
}

static void join_by_hash(struct joining *j)
{
	struct rank_matching *m = j->m;
	struct map64 by_hash = {0};
	for (uint32_t i = 0; i < m->members.len; i++) {
		struct rank_member *x = &m->members.data[i];
		uint64_t group = m->groups.len;
		x->group = TIMELINE_NONE;
		if (!x->hash)
			continue;
		if (!map64_get(&by_hash, x->hash, &group)) {
			*vec_push(&m->groups) = (struct rank_group){.hash = x->hash};
			map64_set(&by_hash, x->hash, group);
		}
		join(j, i, (uint32_t)group);
		if (!m->groups.data[group].size) /* of a split one it may be known to some only */
			m->groups.data[group].size = x->size;
	}
	map64_free(&by_hash);
}

void rank_groups_find(struct rank_matching *m)
{
	struct joining j = {.m = m,
			    .most_looks = LOOKS_FREE + m->order.len * (uint64_t)LOOKS_PER_CALL};
	join_by_hash(&j);
	for (uint32_t i = 0; i < m->members.len; i++)
		if (m->members.data[i].group == TIMELINE_NONE)
			join_by_pattern(&j, i);
	map64_free(&j.process_of);
	map64_free(&j.has_process);
	map64_free(&j.has_rank);
	vec_free(&j.first_of);
	if (m->members.len)
		qsort(m->members.data, m->members.len, sizeof(*m->members.data), compare_members);
	for (size_t i = m->members.len; i-- > 0;) {
		struct rank_group *g = &m->groups.data[m->members.data[i].group];
		g->first_member = (uint32_t)i;
		g->members++;
	}
}

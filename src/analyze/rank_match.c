/* rank_match.c - puts the calls of ranks together: members, then groups, then collectives. */
#include "analyze/rank_match.h"

#include "base/map64.h"

#define SHIFTS_TRIED  4096 /* around the one that the clocks suggest */
#define CALLS_SAMPLED 128
#define AGREE_RATIO   0.95
#define SAME_NS	      2000 /* differences of variation that say nothing */

struct rank_call rank_call_from(const struct collective *c, const struct timeline *t, uint32_t row)
{
	bool on_device = c->device_end_ns != 0;
	bool blocks = t->probes.rows[c->probe].arg[GPU_ARG_STREAM] < 0 && !c->open;
	return (struct rank_call){
		.hash = c->hash,
		.comm = c->comm,
		.sequence = c->sequence,
		.bytes = c->bytes,
		.host_ns = c->start_ns,
		.start_ns = on_device ? c->device_start_ns : c->start_ns,
		.end_ns = on_device ? c->device_end_ns : c->end_ns,
		.datatype = c->datatype,
		.pid = c->pid,
		.comm_row = c->comm_row,
		.row = row,
		.rank = c->rank,
		.size = c->size,
		.root = c->root,
		.peer = c->peer,
		.op = c->op,
		.timed = on_device || blocks,
		.open = c->open,
	};
}

/* ---- sorting ---- */

#define COMPARE(x, y)                                                                              \
	do {                                                                                       \
		if ((x) != (y))                                                                    \
			return (x) < (y) ? -1 : 1;                                                 \
	} while (0)

static bool same_member(const struct rank_call *x, const struct rank_call *y)
{
	return x->source == y->source && x->pid == y->pid && x->comm == y->comm &&
	       x->comm_row == y->comm_row;
}

static int compare_calls(const void *a, const void *b, void *ctx)
{
	const struct rank_call *calls = ctx;
	const struct rank_call *x = &calls[*(const uint32_t *)a];
	const struct rank_call *y = &calls[*(const uint32_t *)b];
	COMPARE(x->source, y->source);
	COMPARE(x->pid, y->pid);
	COMPARE(x->comm, y->comm);
	COMPARE(x->comm_row, y->comm_row);
	COMPARE(rank_call_is_p2p(x), rank_call_is_p2p(y));
	COMPARE(x->sequence, y->sequence);
	COMPARE(x->host_ns, y->host_ns);
	return 0;
}

static int compare_members(const void *a, const void *b)
{
	const struct rank_member *x = a, *y = b;
	COMPARE(x->group, y->group);
	COMPARE(x->rank, y->rank);
	COMPARE(x->source, y->source);
	COMPARE(x->pid, y->pid);
	return 0;
}

/* ---- members ---- */

/* Sums of a few such numbers do not overflow. */
static bool usable(const struct rank_call *c)
{
	const uint64_t most_ns = 1ULL << 60, most_calls = 1ULL << 48;
	return c->host_ns < most_ns && c->start_ns <= c->end_ns && c->end_ns < most_ns &&
	       c->sequence < most_calls;
}

static void find_members(struct rank_matching *m, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (usable(&m->calls[i]))
			*vec_push(&m->order) = (uint32_t)i;
	n = m->order.len;
	if (n)
		qsort_r(m->order.data, n, sizeof(*m->order.data), compare_calls, (void *)m->calls);
	for (size_t i = 0; i < n;) {
		const struct rank_call *c = &m->calls[m->order.data[i]];
		struct rank_member *member = vec_push(&m->members);
		*member = (struct rank_member){.source = c->source,
					       .clock = c->clock,
					       .pid = c->pid,
					       .hash = c->hash,
					       .comm = c->comm,
					       .comm_row = c->comm_row,
					       .rank = c->rank,
					       .size = c->size,
					       .first_call = i};
		for (; i < n && same_member(c, &m->calls[m->order.data[i]]); i++) {
			bool p2p = rank_call_is_p2p(&m->calls[m->order.data[i]]);
			*(p2p ? &member->p2p : &member->calls) += 1;
		}
		member->first_p2p = member->first_call + member->calls;
	}
}

static const struct rank_call *call_of(const struct rank_matching *m, const struct rank_member *x,
				       size_t i)
{
	return &m->calls[m->order.data[x->first_call + i]];
}

/* The collective of that number, or NULL. */
static const struct rank_call *call_numbered(const struct rank_matching *m,
					     const struct rank_member *x, int64_t sequence)
{
	size_t low = 0, high = x->calls;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if ((int64_t)call_of(m, x, middle)->sequence < sequence)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == x->calls || (int64_t)call_of(m, x, low)->sequence != sequence)
		return NULL;
	return call_of(m, x, low);
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
		      const struct rank_member *y, int64_t shift, struct shift_fit *ret)
{
	int64_t differences[CALLS_SAMPLED];
	size_t step = (y->calls + CALLS_SAMPLED - 1) / CALLS_SAMPLED;
	size_t sampled = 0, there = 0, same = 0;
	for (size_t i = 0; i < y->calls; i += step) {
		const struct rank_call *c = call_of(m, y, i);
		const struct rank_call *other = call_numbered(m, x, (int64_t)c->sequence + shift);
		sampled++;
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
	const struct rank_call *c = call_of(m, y, y->calls / 2), *best = call_of(m, x, 0);
	for (size_t i = 1; i < x->calls; i++) {
		const struct rank_call *other = call_of(m, x, i);
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

/* The shift that makes y's calls those of x. False: they are not of one communicator. */
static bool find_shift(const struct rank_matching *m, const struct rank_member *x,
		       const struct rank_member *y, struct shift_fit *ret)
{
	if (!x->calls || !y->calls)
		return false;
	int64_t middle = shift_by_time(m, x, y);
	bool found = false;
	for (int64_t k = 0; k < SHIFTS_TRIED; k++) {
		struct shift_fit fit = {0};
		int64_t shift = middle + (k & 1 ? (k + 1) / 2 : -(k / 2));
		if (!try_shift(m, x, y, shift, &fit) ||
		    (found && !better(&fit, ret, x->clock == y->clock)))
			continue;
		*ret = fit;
		found = true;
	}
	return found;
}

/* ---- groups ---- */

/* Whether a group lacks the rank (or, where ranks are unknown, the process). */
static bool lacks(const struct rank_matching *m, uint32_t group, const struct rank_member *y)
{
	for (size_t i = 0; i < m->members.len; i++) {
		const struct rank_member *x = &m->members.data[i];
		if (x->group != group)
			continue;
		if (x->source == y->source && x->pid == y->pid)
			return false;
		if (x->rank >= 0 && x->rank == y->rank)
			return false;
	}
	return true;
}

static const struct rank_member *first_of(const struct rank_matching *m, uint32_t group)
{
	for (size_t i = 0; i < m->members.len; i++)
		if (m->members.data[i].group == group)
			return &m->members.data[i];
	return NULL;
}

static void join_by_pattern(struct rank_matching *m, struct rank_member *y)
{
	struct shift_fit best = {0};
	uint32_t into = TIMELINE_NONE;
	for (uint32_t g = 0; g < m->groups.len; g++) {
		struct shift_fit fit = {0};
		const struct rank_member *x = first_of(m, g);
		if (!x || m->groups.data[g].size != y->size || !lacks(m, g, y) ||
		    !find_shift(m, x, y, &fit) ||
		    (into != TIMELINE_NONE && !better(&fit, &best, x->clock == y->clock)))
			continue;
		into = g;
		best = fit;
		best.shift += x->sequence_shift;
	}
	if (into == TIMELINE_NONE) {
		into = (uint32_t)m->groups.len;
		*vec_push(&m->groups) = (struct rank_group){.size = y->size};
	}
	y->group = into;
	y->sequence_shift = best.shift;
}

static void find_groups(struct rank_matching *m)
{
	struct map64 by_hash = {0};
	for (size_t i = 0; i < m->members.len; i++) {
		struct rank_member *x = &m->members.data[i];
		uint64_t group = m->groups.len;
		x->group = TIMELINE_NONE;
		if (!x->hash)
			continue;
		if (!map64_get(&by_hash, x->hash, &group)) {
			*vec_push(&m->groups) = (struct rank_group){.hash = x->hash};
			map64_set(&by_hash, x->hash, group);
		}
		x->group = (uint32_t)group;
		if (!m->groups.data[group].size) /* of a split one it may be known to some only */
			m->groups.data[group].size = x->size;
	}
	map64_free(&by_hash);
	for (size_t i = 0; i < m->members.len; i++)
		if (m->members.data[i].group == TIMELINE_NONE)
			join_by_pattern(m, &m->members.data[i]);
	if (m->members.len)
		qsort(m->members.data, m->members.len, sizeof(*m->members.data), compare_members);
	for (size_t i = m->members.len; i-- > 0;) {
		struct rank_group *g = &m->groups.data[m->members.data[i].group];
		g->first_member = (uint32_t)i;
		g->members++;
	}
}

/* ---- collectives ---- */

struct numbered {
	int64_t sequence;
	uint32_t member;
	uint32_t call;
};

static int compare_numbered(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	COMPARE(x->sequence, y->sequence);
	COMPARE(x->member, y->member);
	COMPARE(x->call, y->call);
	return 0;
}

static void match_group(struct rank_matching *m, uint32_t group)
{
	struct rank_group *g = &m->groups.data[group];
	VEC(struct numbered) all = {0};
	for (uint32_t k = g->first_member; k < g->first_member + g->members; k++) {
		const struct rank_member *x = &m->members.data[k];
		for (size_t i = 0; i < x->calls; i++)
			*vec_push(&all) = (struct numbered){(int64_t)call_of(m, x, i)->sequence +
								    x->sequence_shift,
							    k, m->order.data[x->first_call + i]};
	}
	if (all.len)
		qsort(all.data, all.len, sizeof(*all.data), compare_numbered);
	g->first_match = m->matches.len;
	for (size_t i = 0; i < all.len;) {
		int64_t sequence = all.data[i].sequence;
		struct rank_match *match = vec_push(&m->matches);
		*match = (struct rank_match){
			.group = group, .sequence = sequence, .first = m->matched.len};
		for (; i < all.len && all.data[i].sequence == sequence; i++) {
			if (match->calls && all.data[i].member == all.data[i - 1].member)
				continue; /* a number comes once */
			*vec_push(&m->matched) = all.data[i].call;
			*vec_push(&m->matched_members) = all.data[i].member;
			match->calls++;
		}
	}
	g->matches = m->matches.len - g->first_match;
	vec_free(&all);
}

/* ---- send and receive ---- */

struct p2p {
	int32_t from, to; /* ranks */
	uint32_t at;	  /* its place among the group's, by member and number */
	uint32_t call;
};
typedef VEC(struct p2p) p2ps_t;

static int compare_p2p(const void *a, const void *b)
{
	const struct p2p *x = a, *y = b;
	COMPARE(x->from, y->from);
	COMPARE(x->to, y->to);
	COMPARE(x->at, y->at);
	return 0;
}

/* All sends of a group, or all receives, by ranks. */
static p2ps_t p2ps_of(const struct rank_matching *m, const struct rank_group *g, uint8_t op)
{
	p2ps_t ret = {0};
	for (uint32_t k = g->first_member; k < g->first_member + g->members; k++) {
		const struct rank_member *x = &m->members.data[k];
		for (size_t i = 0; i < x->p2p && x->rank >= 0; i++) {
			uint32_t call = m->order.data[x->first_p2p + i];
			const struct rank_call *c = &m->calls[call];
			bool sends = op == COLLECTIVE_SEND;
			if (c->op == op)
				*vec_push(&ret) = (struct p2p){sends ? x->rank : c->peer,
							       sends ? c->peer : x->rank,
							       (uint32_t)ret.len, call};
		}
	}
	if (ret.len)
		qsort(ret.data, ret.len, sizeof(*ret.data), compare_p2p);
	return ret;
}

static int compare_ends(const struct p2p *x, const struct p2p *y)
{
	COMPARE(x->from, y->from);
	COMPARE(x->to, y->to);
	return 0;
}

/* Where there are more of one than of the other, the last have none. */
static void pair_group(struct rank_matching *m, const struct rank_group *g)
{
	p2ps_t sends = p2ps_of(m, g, COLLECTIVE_SEND), recvs = p2ps_of(m, g, COLLECTIVE_RECV);
	for (size_t i = 0, k = 0; i < sends.len && k < recvs.len;) {
		const struct p2p *send = &sends.data[i], *recv = &recvs.data[k];
		int order = compare_ends(send, recv);
		if (!order)
			*vec_push(&m->pairs) = (struct rank_pair){send->call, recv->call};
		i += order <= 0;
		k += order >= 0;
	}
	vec_free(&sends);
	vec_free(&recvs);
}

void rank_matching_make(struct rank_matching *ret, const struct rank_call *calls, size_t n)
{
	*ret = (struct rank_matching){.calls = calls};
	find_members(ret, n);
	find_groups(ret);
	for (uint32_t g = 0; g < ret->groups.len; g++) {
		match_group(ret, g);
		if (ret->groups.data[g].hash)
			pair_group(ret, &ret->groups.data[g]);
	}
}

void rank_matching_free(struct rank_matching *m)
{
	vec_free(&m->order);
	vec_free(&m->members);
	vec_free(&m->groups);
	vec_free(&m->matches);
	vec_free(&m->matched);
	vec_free(&m->matched_members);
	vec_free(&m->pairs);
}

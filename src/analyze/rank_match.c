/* rank_match.c - puts the calls of ranks together: members, then groups, then collectives. */
#include "analyze/rank_match.h"

#include "analyze/rank_match_impl.h"

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
			*vec_push(&all) = (struct numbered){
				(int64_t)rank_call_of(m, x, i)->sequence + x->sequence_shift, k,
				m->order.data[x->first_call + i]};
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
			uint32_t at = (uint32_t)ret.len;
			if (c->op == op)
				*vec_push(&ret) = (struct p2p){sends ? x->rank : c->peer,
							       sends ? c->peer : x->rank, at, call};
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
	rank_groups_find(ret);
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

/* ranks.c - compares what the ranks did: waiting, stragglers, mismatches. */
#include "analyze/ranks.h"

#include <math.h>
#include <stdlib.h>

#include "analyze/ranks_impl.h"

/* How well the clock of a source is known. */
static uint64_t clock_error(const struct ranks *r, uint32_t source)
{
	return source < r->tables->sources.len ? r->tables->sources.data[source].error_ns : 0;
}

/* ---- calls and members ---- */

static void list_calls(struct ranks *r)
{
	const struct collectives *c = r->collectives;
	for (size_t i = 0; i < c->rows.len; i++) {
		if (c->rows.data[i].failed)
			continue;
		struct rank_call *call = vec_push(&r->calls);
		*call = rank_call_from(&c->rows.data[i], c->timeline, (uint32_t)i);
		/* The clocks of merged recordings are aligned already. */
		call->source = process_index_source(&r->processes, call->pid);
	}
}

static const struct collective *row_of(const struct ranks *r, const struct rank_call *c)
{
	return &r->collectives->rows.data[c->row];
}

static const struct rank_call *matched_call(const struct ranks *r, const struct rank_match *match,
					    uint32_t i)
{
	return &r->calls.data[r->matching.matched.data[match->first + i]];
}

/* ---- waiting ---- */

/* Calls whose own beginnings can be compared with each other. */
static bool comparable(const struct ranks *r, const struct rank_match *match)
{
	if (match->calls < 2)
		return false;
	for (uint32_t i = 0; i < match->calls; i++) {
		const struct rank_call *c = matched_call(r, match, i);
		if (!rank_op_synchronises(c->op) || row_of(r, c)->timing == COLLECTIVE_CAPTURED)
			return false;
	}
	return true;
}

/* The next of a group whose kernels were compared already. */
static bool shares_kernels(const struct ranks *r, const struct rank_match *match)
{
	if (!match->first)
		return false;
	const struct rank_call *c = matched_call(r, match, 0);
	const struct rank_match *before = match - 1;
	if (before->group != match->group)
		return false;
	const struct rank_call *other = matched_call(r, before, 0);
	return c->pid == other->pid && row_of(r, c)->group &&
	       row_of(r, c)->group == row_of(r, other)->group;
}

/* What lateness says nothing below; UINT64_MAX: nothing can be said. */
static uint64_t noise_of(const struct ranks *r, const struct rank_match *match, bool on_device)
{
	uint64_t noise = on_device ? RANKS_NOISE_NS : RANKS_HOST_NOISE_NS;
	uint32_t first = matched_call(r, match, 0)->source;
	uint64_t error = clock_error(r, first);
	bool several = false;
	for (uint32_t i = 1; i < match->calls; i++) {
		uint32_t source = matched_call(r, match, i)->source;
		several |= source != first;
		error = clock_error(r, source) > error ? clock_error(r, source) : error;
	}
	return several && error > noise ? error : noise;
}

static uint64_t start_of(const struct rank_call *c, bool timed)
{
	return timed ? c->start_ns : c->host_ns;
}

/* Fills in what a comparable match says. */
static void time_match(const struct ranks *r, const struct rank_match *match,
		       struct ranks_timing *ret)
{
	uint64_t last = 0, before = 0, end = 0, sum = 0;
	bool timed = true;
	for (uint32_t i = 0; i < match->calls; i++)
		timed &= matched_call(r, match, i)->timed;
	for (uint32_t i = 0; i < match->calls; i++) {
		const struct rank_call *c = matched_call(r, match, i);
		uint64_t start = start_of(c, timed);
		if (ret->last == RANKS_NONE || start > last) {
			before = ret->last == RANKS_NONE ? start : last;
			last = start;
			ret->last = r->matching.matched.data[match->first + i];
			ret->last_member = r->matching.matched_members.data[match->first + i];
		} else if (start > before || i == 1) {
			before = start;
		}
		end = c->end_ns > end ? c->end_ns : end;
		sum += start;
	}
	ret->on_device = timed;
	ret->late_ns = last - before;
	ret->wait_ns = last * match->calls - sum;
	ret->transfer_ns = timed && end > last ? end - last : 0;
}

static void add_match(struct ranks *r, const struct rank_match *match,
		      const struct ranks_timing *timing)
{
	struct ranks_comm *comm = &r->comms.data[match->group];
	uint64_t last = start_of(&r->calls.data[timing->last], timing->on_device);
	comm->compared++;
	comm->wait_ns += timing->wait_ns;
	comm->late += timing->late;
	comm->late_ns += timing->late ? timing->late_ns : 0;
	if (timing->on_device) {
		comm->on_device++;
		comm->device_wait_ns += timing->wait_ns;
		comm->transfer_ns += timing->transfer_ns;
		comm->rank_ns += timing->wait_ns + timing->transfer_ns * match->calls;
	}
	if (!comm->first_ns || last < comm->first_ns)
		comm->first_ns = last;
	if (last > comm->last_ns)
		comm->last_ns = last;
	for (uint32_t i = 0; i < match->calls; i++) {
		const struct rank_call *c = matched_call(r, match, i);
		uint32_t member = r->matching.matched_members.data[match->first + i];
		struct ranks_member *m = &r->members.data[member];
		m->compared++;
		m->wait_ns += last - start_of(c, timing->on_device);
		if (c != &r->calls.data[timing->last])
			continue;
		m->last += timing->late_ns != 0; /* of several at once none is */
		m->late += timing->late;
		m->late_ns += timing->late ? timing->late_ns : 0;
		m->waited_for_ns += timing->late ? timing->wait_ns : 0;
	}
}

static void compare_times(struct ranks *r)
{
	for (size_t i = 0; i < r->matching.matches.len; i++) {
		const struct rank_match *match = &r->matching.matches.data[i];
		struct ranks_timing *timing = vec_push(&r->timings);
		timing->last = RANKS_NONE;
		if (!comparable(r, match) || shares_kernels(r, match))
			continue;
		if (noise_of(r, match, true) == UINT64_MAX) {
			r->comms.data[match->group].clocks_unknown = true;
			continue;
		}
		time_match(r, match, timing);
		timing->late = timing->late_ns > noise_of(r, match, timing->on_device);
		add_match(r, match, timing);
	}
}

/* ---- stragglers ---- */

#define LONG_PERCENTILE 97

struct lateness {
	uint32_t member;
	uint64_t late_ns;
};
typedef VEC(struct lateness) latenesses_t;

static int by_member(const void *a, const void *b)
{
	const struct lateness *x = a, *y = b;
	if (x->member != y->member)
		return x->member < y->member ? -1 : 1;
	return x->late_ns < y->late_ns ? -1 : x->late_ns > y->late_ns;
}

static int by_time(const void *a, const void *b)
{
	const struct lateness *x = a, *y = b;
	return x->late_ns < y->late_ns ? -1 : x->late_ns > y->late_ns;
}

static latenesses_t latenesses_of(const struct ranks *r, const struct rank_group *g)
{
	latenesses_t ret = {0};
	for (size_t i = g->first_match; i < g->first_match + g->matches; i++) {
		const struct ranks_timing *t = &r->timings.data[i];
		if (t->late)
			*vec_push(&ret) = (struct lateness){t->last_member, t->late_ns};
	}
	if (ret.len)
		qsort(ret.data, ret.len, sizeof(*ret.data), by_time);
	return ret;
}

/* How many are below; they are sorted by time. */
static size_t count_below(const struct lateness *l, size_t n, uint64_t least_ns)
{
	size_t below = 0;
	while (below < n && l[below].late_ns < least_ns)
		below++;
	return below;
}

/* Of n late collectives as many as of ranks that are late by chance, and two standard deviations
 * more (binomial distribution). */
static bool is_no_chance(size_t late, size_t n, uint32_t members)
{
	double p = 1.0 / members;
	return (double)late >= (double)n * p + 2 * sqrt((double)n * p * (1 - p));
}

static double capped_sum(const struct lateness *l, size_t n, uint64_t most_ns)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (double)(l[i].late_ns < most_ns ? l[i].late_ns : most_ns);
	return sum;
}

/* Which lateness of a communicator counts: what weighs nothing beside the longest does not. Where a
 * rank is late once a step, its other collectives begin later on this rank or that by chance. A few
 * very long ones do not make all others so. */
struct straggling {
	uint64_t least_ns, most_ns;
	size_t n;      /* that count */
	double sum_ns; /* of these, none above most_ns */
};

static struct straggling straggling_of(const latenesses_t *all)
{
	const struct lateness *l = all->data;
	if (!all->len)
		return (struct straggling){0};
	uint64_t least_ns = l[(all->len - 1) * LONG_PERCENTILE / 100].late_ns / 10;
	size_t below = count_below(l, all->len, least_ns);
	struct straggling ret = {.least_ns = least_ns, .n = all->len - below};
	ret.most_ns = 10 * l[below + ret.n / 2].late_ns;
	ret.sum_ns = capped_sum(l + below, ret.n, ret.most_ns);
	return ret;
}

/* own: of one member, sorted by time. */
static bool is_straggler(const struct straggling *s, const struct lateness *own, size_t n,
			 uint32_t members, uint64_t duration_ns)
{
	size_t below = count_below(own, n, s->least_ns);
	double sum_ns = capped_sum(own + below, n - below, s->most_ns);
	n -= below;
	return n >= RANKS_LATE_LEAST && (double)n >= 0.6 * (double)s->n &&
	       is_no_chance(n, s->n, members) && sum_ns >= 0.6 * s->sum_ns &&
	       sum_ns >= 0.01 * (double)duration_ns;
}

static void find_straggler(struct ranks *r, uint32_t group)
{
	const struct rank_group *g = &r->matching.groups.data[group];
	struct ranks_comm *comm = &r->comms.data[group];
	latenesses_t all = latenesses_of(r, g);
	struct straggling s = straggling_of(&all);
	if (all.len)
		qsort(all.data, all.len, sizeof(*all.data), by_member);
	for (size_t i = 0, n; i < all.len; i += n) {
		const struct lateness *own = &all.data[i];
		for (n = 1; i + n < all.len && own[n].member == own->member; n++)
			;
		struct ranks_member *m = &r->members.data[own->member];
		m->p50_late_ns = own[n / 2].late_ns;
		m->max_late_ns = own[n - 1].late_ns;
		if (is_straggler(&s, own, n, g->members, comm->last_ns - comm->first_ns))
			comm->straggler = own->member;
	}
	vec_free(&all);
}

/* ---- mismatches ---- */

static uint8_t difference(const struct rank_call *a, const struct rank_call *b)
{
	uint8_t what = 0;
	if (a->op != b->op)
		what |= RANKS_OTHER_FUNCTION;
	if (a->bytes != b->bytes)
		what |= RANKS_OTHER_BYTES;
	if (a->datatype >= 0 && b->datatype >= 0 && a->datatype != b->datatype)
		what |= RANKS_OTHER_DATATYPE;
	if (a->op == b->op && a->root != b->root)
		what |= RANKS_OTHER_ROOT;
	return what;
}

static void find_mismatches(struct ranks *r)
{
	for (size_t i = 0; i < r->matching.matches.len; i++) {
		const struct rank_match *match = &r->matching.matches.data[i];
		uint8_t what = 0;
		for (uint32_t k = 1; k < match->calls; k++)
			what |= difference(matched_call(r, match, 0), matched_call(r, match, k));
		if (!what)
			continue;
		r->mismatches_total++;
		if (!r->comms.data[match->group].mismatches++ ||
		    r->mismatches.len < RANKS_MISMATCHES)
			*vec_push(&r->mismatches) = (struct ranks_mismatch){(uint32_t)i, what};
	}
}

void ranks_make(struct ranks *ret, const struct row_source *s, const struct collectives *c)
{
	*ret = (struct ranks){.tables = s->tables, .collectives = c};
	process_index_make(&ret->processes, ret->tables);
	list_calls(ret);
	rank_matching_make(&ret->matching, ret->calls.data, ret->calls.len);
	for (size_t i = 0; i < ret->matching.members.len; i++)
		(void)vec_push(&ret->members);
	for (size_t i = 0; i < ret->matching.groups.len; i++) {
		vec_push(&ret->comms)->straggler = RANKS_NONE;
		ret->several |= ret->matching.groups.data[i].members > 1;
	}
	compare_times(ret);
	for (uint32_t g = 0; g < ret->comms.len; g++)
		find_straggler(ret, g);
	find_mismatches(ret);
	ranks_find_hangs(ret, s);
}

void ranks_free(struct ranks *r)
{
	for (size_t i = 0; i < r->hangs.len; i++)
		vec_free(&r->hangs.data[i].ranks);
	vec_free(&r->hangs);
	vec_free(&r->mismatches);
	vec_free(&r->comms);
	vec_free(&r->members);
	vec_free(&r->timings);
	rank_matching_free(&r->matching);
	vec_free(&r->calls);
	process_index_free(&r->processes);
}

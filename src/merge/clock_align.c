/* clock_align.c - collectives of several clocks become bounds of shifts. */
#include "merge/clock_align.h"

typedef VEC(struct clock_bound) bounds_t;

/* One side of a collective: ranks of clocks that are aligned, or of one that is not. */
struct side {
	int64_t last_start, first_end, last_end, shortest;
	unsigned ranks;
};

static void side_add(struct side *s, int64_t start, int64_t end)
{
	if (!s->ranks || start > s->last_start)
		s->last_start = start;
	if (!s->ranks || end < s->first_end)
		s->first_end = end;
	if (!s->ranks || end > s->last_end)
		s->last_end = end;
	if (!s->ranks || end - start < s->shortest)
		s->shortest = end - start;
	s->ranks++;
}

static int64_t middle_end(const struct side *s)
{
	return s->first_end + (s->last_end - s->first_end) / 2;
}

static int64_t aligned_time(const struct clock_state *clocks, uint32_t clock, uint64_t time_ns)
{
	return (int64_t)time_ns + clock_map_shift(&clocks[clock].map, time_ns);
}

/* Which clocks the one at hand is aligned by. */
enum anchors {
	BY_REFERENCE, /* the reference alone, whose error is none */
	BY_ALL,	      /* all that are aligned */
};

static bool is_anchor(const struct clock_state *clocks, uint32_t clock, enum anchors by)
{
	return by == BY_REFERENCE ? !clock : clocks[clock].aligned;
}

static void bound_of_match(const struct clock_state *clocks, uint32_t clock, enum anchors by,
			   const struct rank_matching *m, const struct rank_match *match,
			   bounds_t *ret)
{
	struct side there = {0}, here = {0};
	for (uint32_t i = 0; i < match->calls; i++) {
		const struct rank_call *c = &m->calls[m->matched.data[match->first + i]];
		if (!rank_op_synchronises(c->op) || !c->timed)
			continue;
		if (c->clock == clock)
			side_add(&here, (int64_t)c->start_ns, (int64_t)c->end_ns);
		else if (is_anchor(clocks, c->clock, by))
			side_add(&there, aligned_time(clocks, c->clock, c->start_ns),
				 aligned_time(clocks, c->clock, c->end_ns));
	}
	if (!there.ranks || !here.ranks)
		return;
	*vec_push(ret) = (struct clock_bound){
		.time_ns = (uint64_t)here.last_end,
		.low_ns = there.last_start - here.first_end,
		.high_ns = there.first_end - here.last_start,
		.ends_ns = middle_end(&there) - middle_end(&here),
		.transfer_ns =
			(uint64_t)(there.shortest < here.shortest ? there.shortest : here.shortest),
		.has_ends = true,
	};
}

static void bound_of_pair(const struct clock_state *clocks, uint32_t clock, enum anchors by,
			  const struct rank_matching *m, const struct rank_pair *pair,
			  bounds_t *ret)
{
	const struct rank_call *send = &m->calls[pair->send], *recv = &m->calls[pair->recv];
	if (!send->timed || !recv->timed || send->clock == recv->clock)
		return;
	struct clock_bound b = {.low_ns = -CLOCK_NO_BOUND, .high_ns = CLOCK_NO_BOUND};
	if (recv->clock == clock && is_anchor(clocks, send->clock, by)) {
		b.time_ns = recv->end_ns;
		b.low_ns =
			aligned_time(clocks, send->clock, send->start_ns) - (int64_t)recv->end_ns;
	} else if (send->clock == clock && is_anchor(clocks, recv->clock, by)) {
		b.time_ns = send->start_ns;
		b.high_ns =
			aligned_time(clocks, recv->clock, recv->end_ns) - (int64_t)send->start_ns;
	} else {
		return;
	}
	*vec_push(ret) = b;
}

static void find_bounds(const struct clock_state *clocks, uint32_t clock, enum anchors by,
			const struct rank_matching *m, bounds_t *ret)
{
	ret->len = 0;
	for (size_t i = 0; i < m->matches.len; i++)
		bound_of_match(clocks, clock, by, m, &m->matches.data[i], ret);
	for (size_t i = 0; i < m->pairs.len; i++)
		bound_of_pair(clocks, clock, by, m, &m->pairs.data[i], ret);
}

/* The largest error of the clocks that a clock was aligned by: of all that are aligned, since any
 * of them may have taken part. */
static uint64_t error_before(const struct clock_state *clocks, size_t n)
{
	uint64_t most = 0;
	for (size_t i = 0; i < n; i++)
		if (clocks[i].aligned && clocks[i].map.error_ns > most)
			most = clocks[i].map.error_ns;
	return most;
}

static bool is_open(const struct clock_state *c)
{
	return !c->aligned && !c->used;
}

/* Counts, for each clock that is not aligned, the matches it shares with clocks that are. */
static void count_matches(const struct clock_state *clocks, const struct rank_matching *m,
			  uint64_t *shared, size_t *counted_at)
{
	for (size_t i = 0; i < m->matches.len; i++) {
		const struct rank_match *match = &m->matches.data[i];
		bool anchored = false;
		for (uint32_t k = 0; k < match->calls; k++) {
			const struct rank_call *c = &m->calls[m->matched.data[match->first + k]];
			anchored |= clocks[c->clock].aligned && c->timed;
		}
		for (uint32_t k = 0; anchored && k < match->calls; k++) {
			const struct rank_call *c = &m->calls[m->matched.data[match->first + k]];
			if (!rank_op_synchronises(c->op) || !c->timed ||
			    counted_at[c->clock] == i + 1)
				continue;
			counted_at[c->clock] = i + 1; /* once for each match */
			shared[c->clock]++;
		}
	}
}

static void count_pairs(const struct clock_state *clocks, const struct rank_matching *m,
			uint64_t *shared)
{
	for (size_t i = 0; i < m->pairs.len; i++) {
		const struct rank_call *send = &m->calls[m->pairs.data[i].send];
		const struct rank_call *recv = &m->calls[m->pairs.data[i].recv];
		if (!send->timed || !recv->timed || send->clock == recv->clock)
			continue;
		shared[send->clock] += clocks[recv->clock].aligned;
		shared[recv->clock] += clocks[send->clock].aligned;
	}
}

/* The clock that shares most with those that are aligned. False: none shares anything. */
static bool choose_clock(const struct clock_state *clocks, size_t n, const struct rank_matching *m,
			 uint32_t *ret)
{
	uint64_t *shared = xcalloc(n, sizeof(*shared)), most = 0;
	size_t *counted_at = xcalloc(n, sizeof(*counted_at));
	count_matches(clocks, m, shared, counted_at);
	count_pairs(clocks, m, shared);
	for (uint32_t i = 0; i < n; i++)
		if (is_open(&clocks[i]) && shared[i] > most) {
			most = shared[i];
			*ret = i;
		}
	free(shared);
	free(counted_at);
	return most != 0;
}

/* By the reference alone where it has a part in half of what there is: errors of others are not
 * added then. */
static void align_clock(struct clock_state *clocks, size_t n, uint32_t clock,
			const struct rank_matching *m)
{
	bounds_t all = {0}, direct = {0};
	struct clock_map map = {0};
	uint64_t before = 0;
	find_bounds(clocks, clock, BY_ALL, m, &all);
	find_bounds(clocks, clock, BY_REFERENCE, m, &direct);
	clocks[clock].used = all.len ? all.len : 1;
	bool found = direct.len * 2 >= all.len && clock_map_fit(&map, direct.data, direct.len);
	if (!found) {
		before = error_before(clocks, n);
		found = clock_map_fit(&map, all.data, all.len);
	}
	if (found) {
		bool known = before < CLOCK_ERROR_UNKNOWN - map.error_ns;
		map.error_ns = known ? map.error_ns + before : CLOCK_ERROR_UNKNOWN;
		clock_map_free(&clocks[clock].map);
		clocks[clock].map = map;
		clocks[clock].aligned = true;
	} else {
		clock_map_free(&map);
	}
	vec_free(&all);
	vec_free(&direct);
}

void clock_align(struct clock_state *clocks, size_t n, const struct rank_matching *m)
{
	uint32_t clock;
	while (choose_clock(clocks, n, m, &clock))
		align_clock(clocks, n, clock, m);
}

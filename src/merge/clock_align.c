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

static void bound_of_match(const struct clock_state *clocks, uint32_t clock,
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
		else if (clocks[c->clock].aligned)
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

static void bound_of_pair(const struct clock_state *clocks, uint32_t clock,
			  const struct rank_matching *m, const struct rank_pair *pair,
			  bounds_t *ret)
{
	const struct rank_call *send = &m->calls[pair->send], *recv = &m->calls[pair->recv];
	if (!send->timed || !recv->timed || send->clock == recv->clock)
		return;
	struct clock_bound b = {.low_ns = -CLOCK_NO_BOUND, .high_ns = CLOCK_NO_BOUND};
	if (recv->clock == clock && clocks[send->clock].aligned) {
		b.time_ns = recv->end_ns;
		b.low_ns =
			aligned_time(clocks, send->clock, send->start_ns) - (int64_t)recv->end_ns;
	} else if (send->clock == clock && clocks[recv->clock].aligned) {
		b.time_ns = send->start_ns;
		b.high_ns =
			aligned_time(clocks, recv->clock, recv->end_ns) - (int64_t)send->start_ns;
	} else {
		return;
	}
	*vec_push(ret) = b;
}

static void find_bounds(const struct clock_state *clocks, uint32_t clock,
			const struct rank_matching *m, bounds_t *ret)
{
	ret->len = 0;
	for (size_t i = 0; i < m->matches.len; i++)
		bound_of_match(clocks, clock, m, &m->matches.data[i], ret);
	for (size_t i = 0; i < m->pairs.len; i++)
		bound_of_pair(clocks, clock, m, &m->pairs.data[i], ret);
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

/* Aligns the clock that has most bounds. False: none has any. */
static bool align_next(struct clock_state *clocks, size_t n, const struct rank_matching *m)
{
	bounds_t best = {0}, bounds = {0};
	uint32_t clock = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (clocks[i].aligned || clocks[i].used)
			continue;
		find_bounds(clocks, i, m, &bounds);
		if (bounds.len <= best.len)
			continue;
		bounds_t other = best;
		best = bounds;
		bounds = other;
		clock = i;
	}
	bool found = best.len != 0;
	struct clock_map map = {0};
	if (found)
		clocks[clock].used = best.len;
	if (found && clock_map_fit(&map, best.data, best.len)) {
		uint64_t before = error_before(clocks, n);
		clock_map_free(&clocks[clock].map);
		clocks[clock].map = map;
		clocks[clock].aligned = true;
		if (before < CLOCK_ERROR_UNKNOWN - map.error_ns)
			clocks[clock].map.error_ns += before;
		else
			clocks[clock].map.error_ns = CLOCK_ERROR_UNKNOWN;
	}
	vec_free(&best);
	vec_free(&bounds);
	return found;
}

void clock_align(struct clock_state *clocks, size_t n, const struct rank_matching *m)
{
	while (align_next(clocks, n, m))
		;
}

/* clock_align_test.c - clocks of simulated hosts, skewed by construction: seconds apart, at
 * different rates, with jitter; aligned by what their ranks did together.
 * links: merge analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "merge/clock_align.h"

#define US   1000LL
#define MS   1000000LL
#define S    1000000000LL
#define RING 0xabcULL

/* The same numbers every time. */
static uint64_t chance(void)
{
	static uint64_t state = 1;
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return state >> 33;
}

static int64_t within(int64_t most)
{
	return most ? (int64_t)(chance() % (uint64_t)most) : 0;
}

/* A clock shows (t - zero) * (1 + drift) at true time t. */
struct host {
	int64_t zero;
	double drift;
};

static uint64_t shown(const struct host *h, int64_t t)
{
	return (uint64_t)((t - h->zero) + (int64_t)((double)(t - h->zero) * h->drift));
}

static const struct host reference = {-3000 * S, 0};

struct job {
	unsigned collectives;
	int64_t every, transfer, jitter;
	unsigned outliers; /* in a hundred: a span ends 10 ms late on one rank */
};

static void add_call(rank_calls_t *calls, uint32_t clock, const struct host *h, uint64_t hash,
		     uint64_t sequence, uint8_t op, int32_t rank, int32_t peer, int64_t start,
		     int64_t end)
{
	*vec_push(calls) = (struct rank_call){.hash = hash,
					      .comm = hash,
					      .sequence = sequence,
					      .bytes = 4096 << (sequence % 3),
					      .host_ns = shown(h, start - 20 * US),
					      .start_ns = shown(h, start),
					      .end_ns = shown(h, end),
					      .datatype = 7,
					      .source = clock,
					      .clock = clock,
					      .pid = 100,
					      .rank = rank,
					      .size = 2,
					      .peer = peer,
					      .op = op,
					      .timed = true};
}

/* all_reduces of two ranks, of two clocks. */
static void add_pair(rank_calls_t *calls, const struct job *j, uint64_t hash, uint32_t a,
		     const struct host *host_a, uint32_t b, const struct host *host_b)
{
	for (unsigned i = 0; i < j->collectives; i++) {
		int64_t t = i * j->every + within(j->every / 3);
		int64_t start_a = t + within(MS), start_b = t + within(MS);
		int64_t last = start_a > start_b ? start_a : start_b;
		int64_t late = within(100) < j->outliers ? 10 * MS : 0;
		add_call(calls, a, host_a, hash, i, COLLECTIVE_ALL_REDUCE, 0, 0, start_a,
			 last + j->transfer + within(j->jitter));
		add_call(calls, b, host_b, hash, i, COLLECTIVE_ALL_REDUCE, 1, 0, start_b,
			 last + j->transfer + within(j->jitter) + late);
	}
}

static struct clock_state *aligned(const rank_calls_t *calls, size_t n)
{
	struct rank_matching m;
	struct clock_state *clocks = xcalloc(n, sizeof(*clocks));
	rank_matching_make(&m, calls->data, calls->len);
	clocks[0].aligned = true;
	for (size_t i = 1; i < n; i++)
		clocks[i].map.error_ns = CLOCK_ERROR_UNKNOWN;
	clock_align(clocks, n, &m);
	rank_matching_free(&m);
	return clocks;
}

static void done(struct clock_state *clocks, size_t n, rank_calls_t *calls)
{
	for (size_t i = 0; i < n; i++)
		clock_map_free(&clocks[i].map);
	free(clocks);
	vec_free(calls);
}

/* The worst error from true time 0 to `until`. */
static int64_t worst(const struct clock_map *m, const struct host *h, int64_t until)
{
	int64_t most = 0;
	for (int64_t t = 0; t <= until; t += until / 1000) {
		int64_t got = (int64_t)clock_map_time(m, shown(h, t));
		int64_t error = llabs(got - (int64_t)shown(&reference, t));
		most = error > most ? error : most;
	}
	return most;
}

static void check_aligned(const struct job *j, const struct host *h, int64_t most)
{
	rank_calls_t calls = {0};
	add_pair(&calls, j, RING, 0, &reference, 1, h);
	struct clock_state *clocks = aligned(&calls, 2);
	assert_true(clocks[1].aligned);
	assert_int_equal(clocks[1].used, j->collectives);
	int64_t error = worst(&clocks[1].map, h, j->collectives * j->every);
	if (error > most || (uint64_t)error > clocks[1].map.error_ns)
		fail_msg("off by %lld ns, which is told to be at most %llu", (long long)error,
			 (unsigned long long)clocks[1].map.error_ns);
	done(clocks, 2, &calls);
}

static void skewed_clocks_are_aligned(void **state)
{
	(void)state;
	const struct host hosts[] = {
		{-3000 * S, 0},		   /* the same clock */
		{-3002 * S - 345 * MS, 0}, /* seconds apart */
		{-90000 * S, 40e-6},	   /* up for a day longer, 40 ppm fast */
		{-3000 * S + 7 * US, -80e-6},
	};
	const struct job jobs[] = {
		{.collectives = 3000, .every = 20 * MS, .transfer = 30 * US, .jitter = 10 * US},
		{.collectives = 300, .every = 100 * MS, .transfer = 8 * MS, .jitter = 15 * US},
		{.collectives = 40, .every = 50 * MS, .transfer = 200 * US, .jitter = 5 * US},
		{.collectives = 2000,
		 .every = 20 * MS,
		 .transfer = 100 * US,
		 .jitter = 5 * US,
		 .outliers = 1},
	};
	for (size_t h = 0; h < sizeof(hosts) / sizeof(hosts[0]); h++)
		for (size_t j = 0; j < sizeof(jobs) / sizeof(jobs[0]); j++)
			check_aligned(&jobs[j], &hosts[h], 20 * US);
}

/* Rates change: the clock is 30 ppm fast for half of the time, then 20 ppm slow. */
static void changing_rates_are_followed(void **state)
{
	(void)state;
	const int64_t turn = 100 * S;
	rank_calls_t calls = {0};
	struct host fast = {-50 * S, 30e-6};
	/* shows at the turn what the fast one does */
	struct host slow = {turn - (int64_t)((double)(turn + 50 * S) * (1 + 30e-6) / (1 - 20e-6)),
			    -20e-6};
	for (unsigned i = 0; i < 10000; i++) {
		int64_t t = i * 20 * MS + within(MS), start = t + within(MS);
		const struct host *h = t < turn ? &fast : &slow;
		int64_t end = (t > start ? t : start) + 50 * US;
		add_call(&calls, 0, &reference, RING, i, COLLECTIVE_ALL_REDUCE, 0, 0, t,
			 end + within(5 * US));
		add_call(&calls, 1, h, RING, i, COLLECTIVE_ALL_REDUCE, 1, 0, start,
			 end + within(5 * US));
	}
	struct clock_state *clocks = aligned(&calls, 2);
	assert_true(clocks[1].aligned);
	for (int64_t t = 0; t < 200 * S; t += S) {
		if (llabs(t - turn) < 10 * S) /* a window lies on both sides */
			continue;
		uint64_t there = shown(t < turn ? &fast : &slow, t);
		int64_t error = (int64_t)clock_map_time(&clocks[1].map, there) -
				(int64_t)shown(&reference, t);
		assert_in_range(error + 20 * US, 0, 40 * US);
	}
	done(clocks, 2, &calls);
}

/* Hosts 0 and 2 never talk to each other: 2 is reached through 1. */
static void chains_are_followed(void **state)
{
	(void)state;
	const struct host hosts[] = {reference, {-10 * S, 20e-6}, {-77777 * S, -30e-6}};
	const struct job j = {
		.collectives = 500, .every = 20 * MS, .transfer = 40 * US, .jitter = 5 * US};
	rank_calls_t calls = {0};
	add_pair(&calls, &j, RING, 0, &hosts[0], 1, &hosts[1]);
	add_pair(&calls, &j, RING + 1, 1, &hosts[1], 2, &hosts[2]);
	struct clock_state *clocks = aligned(&calls, 3);
	assert_true(clocks[1].aligned && clocks[2].aligned);
	for (size_t i = 1; i < 3; i++) {
		int64_t error = worst(&clocks[i].map, &hosts[i], 10 * S);
		assert_in_range(error, 0, 20 * US);
		assert_in_range(error, 0, clocks[i].map.error_ns);
	}
	assert_true(clocks[2].map.error_ns > clocks[1].map.error_ns);
	done(clocks, 3, &calls);
}

/* All hosts in one communicator: each is aligned by the reference, and as well as the first. */
static void errors_do_not_add_up(void **state)
{
	(void)state;
	struct host hosts[12];
	rank_calls_t calls = {0};
	for (unsigned h = 0; h < 12; h++)
		hosts[h] = h ? (struct host){-(int64_t)h * 100 * S, h * 5e-6} : reference;
	for (unsigned i = 0; i < 300; i++) {
		int64_t t = i * 20 * MS, starts[12], last = 0;
		for (unsigned h = 0; h < 12; h++) {
			starts[h] = t + within(MS);
			last = starts[h] > last ? starts[h] : last;
		}
		for (unsigned h = 0; h < 12; h++)
			add_call(&calls, h, &hosts[h], RING, i, COLLECTIVE_ALL_REDUCE, (int32_t)h,
				 0, starts[h], last + 40 * US + within(5 * US));
	}
	struct clock_state *clocks = aligned(&calls, 12);
	for (size_t i = 1; i < 12; i++) {
		assert_true(clocks[i].aligned);
		int64_t error = worst(&clocks[i].map, &hosts[i], 6 * S);
		assert_in_range(error, 0, 20 * US);
		assert_in_range(clocks[i].map.error_ns, error, 60 * US);
	}
	done(clocks, 12, &calls);
}

/* A pipeline: activations forward, gradients backward. Both directions bound the shift. */
static void sends_and_receives_bound_it(void **state)
{
	(void)state;
	const struct host h = {-40 * S, 0};
	rank_calls_t calls = {0};
	for (unsigned i = 0; i < 400; i++) {
		int64_t t = i * 10 * MS, back = t + 5 * MS;
		add_call(&calls, 0, &reference, RING, 2 * i, COLLECTIVE_SEND, 0, 1, t, t + 60 * US);
		add_call(&calls, 1, &h, RING, 2 * i, COLLECTIVE_RECV, 1, 0, t - within(MS),
			 t + 30 * US + within(20 * US));
		add_call(&calls, 1, &h, RING, 2 * i + 1, COLLECTIVE_SEND, 1, 0, back,
			 back + 60 * US);
		add_call(&calls, 0, &reference, RING, 2 * i + 1, COLLECTIVE_RECV, 0, 1,
			 back - within(MS), back + 30 * US + within(20 * US));
	}
	struct clock_state *clocks = aligned(&calls, 2);
	assert_true(clocks[1].aligned);
	int64_t error = worst(&clocks[1].map, &h, 4 * S);
	assert_in_range(error, 0, 20 * US);
	assert_in_range(error, 0, clocks[1].map.error_ns);
	assert_in_range(clocks[1].map.error_ns, 1, 40 * US);
	done(clocks, 2, &calls);

	/* one direction alone tells nothing that is certain on the other side */
	for (unsigned i = 0; i < 50; i++) {
		int64_t t = i * 10 * MS;
		add_call(&calls, 0, &reference, RING, i, COLLECTIVE_SEND, 0, 1, t, t + 60 * US);
		add_call(&calls, 1, &h, RING, i, COLLECTIVE_RECV, 1, 0, t, t + 70 * US);
	}
	clocks = aligned(&calls, 2);
	assert_false(clocks[1].aligned);
	done(clocks, 2, &calls);
}

/* Tracing began in the midst: each rank counts from another place, and says nothing about which
 * communicator it is in. Steps vary, as they do. */
static void communicators_without_a_hash_are_found(void **state)
{
	(void)state;
	const struct host h = {-3000 * S + 4 * MS, 0}; /* as wrong as realtime may be */
	const struct job j = {
		.collectives = 300, .every = 20 * MS, .transfer = 40 * US, .jitter = 5 * US};
	for (unsigned one_clock = 0; one_clock < 2; one_clock++) {
		rank_calls_t all = {0}, calls = {0};
		add_pair(&all, &j, 0, 0, &reference, 1, one_clock ? &reference : &h);
		for (size_t i = 0; i < all.len; i++) {
			struct rank_call c = all.data[i];
			unsigned missed = c.rank ? 17 : 5;
			if (c.sequence < missed)
				continue;
			c.sequence -= missed;
			c.clock = one_clock ? 0 : c.clock;
			*vec_push(&calls) = c;
		}
		struct rank_matching m;
		rank_matching_make(&m, calls.data, calls.len);
		assert_int_equal(m.groups.len, 1);
		assert_int_equal(m.members.len, 2);
		assert_int_equal(m.members.data[1].sequence_shift, 12);
		unsigned whole = 0;
		for (size_t i = 0; i < m.matches.len; i++)
			whole += m.matches.data[i].calls == 2;
		assert_int_equal(whole, 300 - 17);
		rank_matching_free(&m);
		vec_free(&all);
		vec_free(&calls);
	}
}

/* Two communicators of one size with different calls are kept apart; of three ranks that cannot
 * all be one of two, none is put where its rank is taken. */
static void patterns_keep_communicators_apart(void **state)
{
	(void)state;
	rank_calls_t calls = {0};
	for (unsigned i = 0; i < 60; i++)
		for (uint32_t p = 0; p < 4; p++) {
			int64_t t = i * 10 * MS;
			add_call(&calls, p, &reference, 0, i, COLLECTIVE_ALL_REDUCE,
				 (int32_t)(p % 2), 0, t, t + 50 * US);
			struct rank_call *c = &calls.data[calls.len - 1];
			c->clock = 0;
			c->bytes = p < 2 ? 4096 : 8192 + i % 5;
		}
	struct rank_matching m;
	rank_matching_make(&m, calls.data, calls.len);
	assert_int_equal(m.groups.len, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(m.groups.data[i].members, 2);
	assert_true(m.members.data[0].source / 2 == m.members.data[1].source / 2);
	assert_true(m.members.data[2].source / 2 == m.members.data[3].source / 2);
	rank_matching_free(&m);
	vec_free(&calls);
}

/* Whatever is given: later times stay later, and nothing overflows. */
static void any_numbers_are_borne(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 200; round++) {
		rank_calls_t calls = {0};
		for (unsigned i = 0; i < 60; i++) {
			struct rank_call *c = vec_push(&calls);
			int shift = (int)(chance() % 64);
			c->hash = chance() % 3;
			c->sequence = chance() % 4 ? chance() % 20 : UINT64_MAX >> shift;
			c->bytes = chance() % 2;
			c->host_ns = (chance() << 31 | chance()) >> shift;
			c->start_ns = (chance() << 31 | chance()) >> shift;
			c->end_ns = c->start_ns + (chance() << 31 >> shift);
			c->source = c->clock = (uint32_t)(chance() % 3);
			c->rank = (int32_t)(chance() % 5) - 1;
			c->peer = (int32_t)(chance() % 3);
			c->op = (uint8_t)(chance() % COLLECTIVE_OPS);
			c->timed = chance() % 4;
		}
		struct clock_state *clocks = aligned(&calls, 3);
		for (size_t i = 0; i < 3; i++) {
			uint64_t before = 0;
			for (unsigned bit = 0; bit < 62; bit++) {
				uint64_t now = clock_map_time(&clocks[i].map, 1ULL << bit);
				assert_true(now >= before);
				before = now;
			}
			assert_int_equal(clock_map_time(&clocks[i].map, 0), 0);
		}
		done(clocks, 3, &calls);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(skewed_clocks_are_aligned),
		cmocka_unit_test(changing_rates_are_followed),
		cmocka_unit_test(chains_are_followed),
		cmocka_unit_test(errors_do_not_add_up),
		cmocka_unit_test(sends_and_receives_bound_it),
		cmocka_unit_test(communicators_without_a_hash_are_found),
		cmocka_unit_test(patterns_keep_communicators_apart),
		cmocka_unit_test(any_numbers_are_borne),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

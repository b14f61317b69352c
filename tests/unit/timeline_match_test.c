/* timeline_match_test.c - calls and work of loops, of which some are missing by chance: a pair is
 * right, or it is not made; where much of both is missing a few are wrong.
 * links: analyze base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/timeline_match.h"

enum { US = 1000, TURN = 60, MOST = 20000 };

/* A loop: turns of TURN launches, in which kernels stand in runs, and a layer of six comes several
 * times; the host waits for the device after some turns. */
struct loop {
	unsigned n;
	unsigned takes_us;	/* of the device for a kernel; the host makes a call in 7 us */
	unsigned turns_to_wait; /* 0: never waits */
	unsigned numbers;	/* from one call to the next: 1 is dense */
	unsigned lost_calls;	/* one in so many, by chance; 0 none */
	unsigned lost_work;	/* likewise */
	unsigned call_holes, work_holes; /* so many whole turns, one after another, each 20 turns */
	bool others;			 /* some calls are numbered and start no work */
	uint32_t seed;
};

static struct match_item calls[MOST], groups[MOST];
static unsigned call_ids[MOST], group_ids[MOST];

struct counts {
	size_t calls, groups, both, right, wrong;
};

static uint32_t chance(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

static uint32_t kernel_of(unsigned place)
{
	static const uint8_t layer[] = {1, 2, 2, 3, 4, 5};
	if (place < 36)
		return layer[place % 6];
	if (place < 50)
		return 6; /* a run */
	return 7 + place % 4;
}

static bool is_lost(uint32_t *seed, unsigned one_in, unsigned hole, unsigned i)
{
	unsigned turn = i / TURN % 20;
	return (one_in && chance(seed) % one_in == 0) || (hole && turn >= 9 && turn < 9 + hole);
}

static struct counts made(const struct loop *l)
{
	struct counts n = {0};
	uint64_t host = 1000, device = 0;
	uint32_t seed = l->seed, number = 5;
	size_t waiting = 0;
	bool others = false;
	for (unsigned i = 0; i < l->n; i++) {
		uint64_t begin = (device > host + 5 ? device : host + 5) + chance(&seed) % 2;
		bool call = !is_lost(&seed, l->lost_calls, l->call_holes, i);
		bool work = !is_lost(&seed, l->lost_work, l->work_holes, i);
		if (l->others && chance(&seed) % 50 == 0) {
			number += 1 + chance(&seed) % 5;
			others = true;
		}
		number += l->numbers;
		if (call) {
			call_ids[n.calls] = i;
			calls[n.calls++] = (struct match_item){.start_ns = host * US,
							       .until_ns = UINT64_MAX,
							       .name = kernel_of(i % TURN),
							       .after_others = others};
			others = false;
		}
		if (work) {
			group_ids[n.groups] = i;
			groups[n.groups++] = (struct match_item){.start_ns = begin * US,
								 .name = kernel_of(i % TURN),
								 .number = number};
		}
		n.both += call && work;
		device = begin + l->takes_us;
		host += 6 + chance(&seed) % 3;
		if (!l->turns_to_wait ||
		    i % (TURN * l->turns_to_wait) != TURN * l->turns_to_wait - 1)
			continue;
		host = (device > host ? device : host) + 5;
		while (waiting < n.calls)
			calls[waiting++].until_ns = host * US;
		host += 3;
	}
	return n;
}

static struct counts matched(const struct loop *l)
{
	struct counts n = made(l);
	match_make(calls, n.calls, groups, n.groups);
	for (size_t g = 0; g < n.groups; g++) {
		if (groups[g].match == MATCH_NONE)
			continue;
		assert_true(groups[g].match < n.calls);
		assert_int_equal(calls[groups[g].match].match, g);
		bool right = call_ids[groups[g].match] == group_ids[g];
		n.right += right;
		n.wrong += !right;
		assert_false(groups[g].unsure);
	}
	return n;
}

/* Of what has both call and work at least so many of 100 are paired; wrong are no more of 10,000
 * pairs than that. */
static void expect(struct loop l, unsigned least_percent, unsigned most_wrong)
{
	struct counts sum = {0};
	for (uint32_t seed = 1; seed <= 20; seed++) {
		l.seed = seed * 2654435761u;
		struct counts n = matched(&l);
		sum.both += n.both;
		sum.right += n.right;
		sum.wrong += n.wrong;
	}
	if (sum.wrong * 10000 > sum.right * most_wrong ||
	    sum.right * 100 < sum.both * least_percent)
		print_error("%zu of %zu right, %zu wrong\n", sum.right, sum.both, sum.wrong);
	assert_true(sum.wrong * 10000 <= sum.right * most_wrong);
	assert_true(sum.right * 100 >= sum.both * least_percent);
}

/* The host is faster, or the device. */
static void both(struct loop l, unsigned least_percent, unsigned most_wrong)
{
	static const unsigned takes[] = {2, 12};
	for (size_t i = 0; i < 2; i++) {
		for (unsigned turns = 1; turns <= 3; turns += 2) {
			l.n = 6000;
			l.takes_us = takes[i];
			l.turns_to_wait = turns;
			if (!l.numbers)
				l.numbers = 1;
			expect(l, least_percent, most_wrong);
		}
	}
}

static void nothing_is_missing(void **state)
{
	(void)state;
	both((struct loop){0}, 100, 0);
	both((struct loop){.numbers = 3}, 100, 0);
	both((struct loop){.others = true}, 100, 0);
}

/* The numbers tell where. */
static void work_is_missing(void **state)
{
	(void)state;
	both((struct loop){.lost_work = 1000}, 100, 0);
	both((struct loop){.lost_work = 100}, 100, 0);
	both((struct loop){.lost_work = 10}, 100, 0);
	both((struct loop){.work_holes = 1}, 100, 0);
	both((struct loop){.work_holes = 3}, 100, 0);
	both((struct loop){.lost_work = 100, .work_holes = 2, .others = true}, 95, 10);
}

/* Nothing tells where, but that pairs do not fit some time later. */
static void calls_are_missing(void **state)
{
	(void)state;
	both((struct loop){.lost_calls = 1000}, 99, 0);
	both((struct loop){.call_holes = 1}, 93, 0);
	both((struct loop){.call_holes = 3}, 93, 0);
	both((struct loop){.lost_calls = 100}, 93, 40);
}

static void both_are_missing(void **state)
{
	(void)state;
	both((struct loop){.lost_calls = 1000, .lost_work = 100}, 99, 1);
	both((struct loop){.lost_calls = 300, .lost_work = 300, .work_holes = 2}, 97, 5);
	both((struct loop){.lost_calls = 1000, .call_holes = 1, .work_holes = 2}, 80, 20);
}

static void numbers_tell_nothing(void **state)
{
	(void)state;
	both((struct loop){.numbers = 3, .lost_work = 1000}, 99, 0);
	both((struct loop){.numbers = 3, .lost_calls = 1000}, 99, 0);
	both((struct loop){.numbers = 3, .work_holes = 1}, 90, 0);
	both((struct loop){.numbers = 3, .call_holes = 1}, 90, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_missing),	cmocka_unit_test(work_is_missing),
		cmocka_unit_test(calls_are_missing),	cmocka_unit_test(both_are_missing),
		cmocka_unit_test(numbers_tell_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* nest_test.c - time lines made of calls: order, nesting, cuts.
 * links: export recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "export/nest.h"
#include "wire/event.h"

#define THREADS 3

typedef VEC(struct m_call) calls_t;

struct event {
	enum span_kind kind;
	uint64_t time_ns;
	struct m_call call;
};
typedef VEC(struct event) events_t;

static void keep(void *ctx, const struct span *span)
{
	events_t *events = ctx;
	*vec_push(events) = (struct event){span->kind, span->time_ns, *span->call};
}

static int by_thread(const void *a, const void *b)
{
	const struct m_call *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	uint64_t x_end = x->start_ns + x->dur_ns, y_end = y->start_ns + y->dur_ns;
	if (x_end != y_end)
		return x_end < y_end ? -1 : 1;
	return y->depth - x->depth;
}

/* Both rounds over blocks of block_len calls, each grouped by thread as in a recording. */
static void run_nest(const calls_t *calls, size_t block_len, events_t *events)
{
	struct rec_tables tables = {0};
	tables.threads.len = THREADS;
	struct nest *n = nest_new(&tables);
	calls_t copy = {0};
	vec_reserve(&copy, calls->len + 1);
	memcpy(copy.data, calls->data, calls->len * sizeof(*copy.data));
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0, block = 0; i < calls->len; i += block_len, block++) {
			size_t len = calls->len - i < block_len ? calls->len - i : block_len;
			qsort(copy.data + i, len, sizeof(*copy.data), by_thread);
			if (round == 0)
				nest_plan(n, block, copy.data + i, len);
			else
				nest_block(n, block, copy.data + i, len, keep, events);
		}
	}
	nest_finish(n, keep, events);
	nest_free(n);
	vec_free(&copy);
}

/* Time never goes back on a thread, and each end is that of the call begun last. */
static void assert_nested(const events_t *events, size_t calls)
{
	struct m_call stack[THREADS][300];
	size_t depth[THREADS] = {0}, begun = 0;
	uint64_t now[THREADS] = {0};
	for (size_t i = 0; i < events->len; i++) {
		const struct event *e = &events->data[i];
		uint32_t t = e->call.thread;
		assert_true(e->time_ns >= now[t]);
		now[t] = e->time_ns;
		if (e->kind == SPAN_BEGIN) {
			assert_int_equal(e->time_ns, e->call.start_ns);
			assert_true(depth[t] < 300);
			stack[t][depth[t]++] = e->call;
			begun++;
		} else if (e->kind == SPAN_END) {
			assert_true(depth[t] > 0);
			assert_memory_equal(&stack[t][--depth[t]], &e->call, sizeof(e->call));
		} else {
			begun++;
		}
	}
	for (uint32_t t = 0; t < THREADS; t++)
		assert_int_equal(depth[t], 0);
	assert_int_equal(begun, calls);
}

static struct m_call *add(calls_t *c, uint64_t start, uint64_t end, uint8_t depth, uint8_t flags)
{
	struct m_call *row = vec_push(c);
	row->start_ns = start;
	row->dur_ns = end - start;
	row->depth = depth;
	row->flags = flags;
	row->args[0] = c->len; /* tells calls apart */
	return row;
}

static uint64_t random_state = 99;
static uint64_t rnd(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

/* A call and what it calls, in order of end; steps of 0 or 1 ns make many ties. */
static void tree(calls_t *c, uint32_t thread, uint8_t depth, uint64_t *now)
{
	uint64_t start = *now;
	*now += rnd(2);
	for (uint64_t i = depth < 6 ? rnd(4) : 0; i; i--)
		tree(c, thread, depth + 1, now);
	*now += rnd(2);
	add(c, start, *now, depth, 0)->thread = thread;
}

static void trees_across_blocks(void **state)
{
	(void)state;
	calls_t calls = {0};
	uint64_t now[THREADS] = {100, 100, 100};
	uint64_t total = 0;
	while (calls.len < 4000) {
		uint32_t t = (uint32_t)rnd(THREADS);
		tree(&calls, t, 0, &now[t]);
	}
	for (size_t i = 0; i < calls.len; i++)
		total += calls.data[i].dur_ns;
	const size_t lens[] = {1, 2, 7, 100, 100000};
	for (size_t k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
		events_t events = {0};
		uint64_t sum = 0;
		run_nest(&calls, lens[k], &events);
		assert_nested(&events, calls.len);
		for (size_t i = 0; i < events.len; i++) {
			if (events.data[i].kind == SPAN_BEGIN)
				sum -= events.data[i].time_ns;
			else
				sum += events.data[i].time_ns;
		}
		if (lens[k] > 10) /* nothing is cut where callers and callees can be told apart */
			assert_int_equal(sum, total);
		vec_free(&events);
	}
	vec_free(&calls);
}

static void assert_events(const calls_t *calls, size_t block_len, const char *want)
{
	events_t events = {0};
	struct buf got = {0};
	run_nest(calls, block_len, &events);
	assert_nested(&events, calls->len);
	for (size_t i = 0; i < events.len; i++)
		buf_printf(&got, "%s%c%u@%u", i ? " " : "", "+-!"[events.data[i].kind],
			   (unsigned)events.data[i].call.args[0], (unsigned)events.data[i].time_ns);
	buf_byte(&got, 0);
	assert_string_equal((char *)got.data, want);
	buf_free(&got);
	vec_free(&events);
}

static void unwound_calls_are_cut(void **state)
{
	(void)state;
	/* 1 was left by an exception that 3 caught; that was noticed when 3 had ended. */
	calls_t calls = {0};
	add(&calls, 20, 70, 2, CALL_UNWOUND);
	add(&calls, 10, 60, 1, 0);
	add(&calls, 0, 100, 0, 0);
	for (size_t len = 1; len <= 3; len++)
		assert_events(&calls, len, "+3@0 +2@10 +1@20 -1@60 -2@60 -3@100");
	calls.len = 0;
	/* Noticed only after 2, which its caller called next. */
	add(&calls, 30, 40, 1, 0);
	add(&calls, 10, 50, 1, CALL_UNWOUND);
	add(&calls, 0, 100, 0, 0);
	for (size_t len = 1; len <= 3; len++)
		assert_events(&calls, len, "+3@0 +2@10 -2@30 +1@30 -1@40 -3@100");
	vec_free(&calls);
}

static void ties_and_instants(void **state)
{
	(void)state;
	calls_t calls = {0};
	add(&calls, 10, 10, 2, CALL_INSTANT);
	add(&calls, 10, 13, 1, 0);
	add(&calls, 15, 15, 1, 0);
	add(&calls, 10, 20, 0, 0);
	add(&calls, 20, 30, 0, 0);
	assert_events(&calls, 100, "+4@10 +2@10 !1@10 -2@13 +3@15 -3@15 -4@20 +5@20 -5@30");
	vec_free(&calls);
}

/* Rows of a damaged or hostile file: any times, any depths. */
static void nonsense_is_still_nested(void **state)
{
	(void)state;
	for (int k = 0; k < 200; k++) {
		calls_t calls = {0};
		events_t events = {0};
		for (int i = 0; i < 60; i++) {
			uint64_t start = rnd(10) ? rnd(100) : UINT64_MAX - rnd(50);
			struct m_call *c = add(&calls, start, start, (uint8_t)rnd(5), 0);
			c->dur_ns = rnd(10) ? rnd(60) : UINT64_MAX - rnd(5);
			c->flags = (uint8_t)(rnd(4) ? 0 : rnd(256));
			c->thread = (uint32_t)rnd(THREADS);
		}
		run_nest(&calls, 1 + rnd(20), &events);
		assert_nested(&events, calls.len);
		vec_free(&events);
		vec_free(&calls);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees_across_blocks),
		cmocka_unit_test(unwound_calls_are_cut),
		cmocka_unit_test(ties_and_instants),
		cmocka_unit_test(nonsense_is_still_nested),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

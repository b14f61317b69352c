/* gpu_arrows_test.c - arrows from operators to launches, wherever the blocks are cut.
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

enum { PYTHON, OPERATOR, RUNTIME, LAUNCH, PROBES };

static struct rec_tables made_tables(void)
{
	static const char *const texts[PROBES][2] = {
		{"python", ""}, {"torch", ""}, {"cuda", ""}, {"cuda", "launch"}};
	struct rec_tables t = {0};
	for (int i = 0; i < PROBES; i++) {
		struct m_probe *p = vec_push(&t.probes);
		p->layer = strtab_add_z(&t.strings, texts[i][0]);
		p->role = strtab_add_z(&t.strings, texts[i][1]);
		p->name_arg = -1;
	}
	t.threads.len = 1;
	return t;
}

static void free_tables(struct rec_tables *t)
{
	vec_free(&t->probes);
	strtab_free(&t->strings);
}

struct seen {
	struct m_call stack[16];
	uint64_t first[16], last[16]; /* the arrows that leave each call on the stack */
	size_t open;
	uint64_t announced, taken, from_operator, from_python, from_itself;
};

static void look(void *ctx, const struct span *span)
{
	struct seen *s = ctx;
	if (span->kind == SPAN_END) {
		s->open--;
		return;
	}
	s->stack[s->open] = *span->call;
	s->first[s->open] = span->flow_first;
	s->last[s->open++] = span->flow_first + span->flows;
	if (span->flows) /* numbers are given out in order */
		assert_int_equal(span->flow_first, s->announced + 1);
	s->announced += span->flows;
	bool launched = span->call->probe == LAUNCH && !(span->call->flags & CALL_ERROR);
	assert_int_equal(span->launch_flow != 0, launched);
	if (!launched)
		return;
	s->taken++;
	size_t from = s->open;
	while (from > 0 &&
	       !(span->launch_flow >= s->first[from - 1] && span->launch_flow < s->last[from - 1]))
		from--;
	assert_true(from > 0); /* an open call announced it */
	bool under_operator = false;
	for (size_t i = 0; i < s->open; i++)
		under_operator |= s->stack[i].probe == OPERATOR;
	switch (s->stack[from - 1].probe) {
	case OPERATOR: /* the nearest */
		for (size_t i = from; i < s->open; i++)
			assert_int_not_equal(s->stack[i].probe, OPERATOR);
		s->from_operator++;
		break;
	case PYTHON:
		assert_false(under_operator);
		s->from_python++;
		break;
	default:
		assert_int_equal(from, s->open);
		s->from_itself++;
	}
}

typedef VEC(struct m_call) calls_t;

/* A call and random ones in it; returns its end. Children come first, as in a recording. */
static uint64_t make_call(calls_t *calls, uint32_t probe, uint64_t start_ns, uint8_t depth)
{
	uint64_t time = start_ns + 1;
	for (int n = probe == LAUNCH || depth > 6 ? 0 : rand() % 4; n > 0; n--)
		time = 1 + make_call(calls, (uint32_t)(rand() % PROBES), time, depth + 1);
	*(struct m_call *)vec_push(calls) = (struct m_call){
		.start_ns = start_ns,
		.dur_ns = time - start_ns,
		.probe = probe,
		.depth = depth,
		.flags = probe == LAUNCH && rand() % 8 == 0 ? CALL_ERROR : 0,
	};
	return time;
}

static struct seen run_nest(const struct rec_tables *t, const calls_t *calls, size_t block_len)
{
	struct seen s = {0};
	struct nest *n = nest_new(t);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0, block = 0; i < calls->len; i += block_len, block++) {
			size_t len = calls->len - i < block_len ? calls->len - i : block_len;
			if (round == 0)
				nest_plan(n, block, calls->data + i, len);
			else
				nest_block(n, block, calls->data + i, len, look, &s);
		}
	nest_finish(n, look, &s);
	nest_free(n);
	assert_int_equal(s.open, 0);
	assert_int_equal(s.announced, s.taken);
	return s;
}

static void each_launch_has_its_arrow(void **state)
{
	(void)state;
	struct rec_tables t = made_tables();
	srand(7);
	for (int trial = 0; trial < 200; trial++) {
		calls_t calls = {0};
		uint64_t time = 1, launches = 0;
		for (int i = 0; i < 10; i++)
			time = 1 + make_call(&calls, (uint32_t)(rand() % 2), time, 0);
		for (size_t i = 0; i < calls.len; i++)
			launches += calls.data[i].probe == LAUNCH && !calls.data[i].flags;
		/* All begins at depth 0 are Python's or operators: no arrow starts alone. */
		assert_int_equal(run_nest(&t, &calls, calls.len).from_itself, 0);
		static const size_t lengths[] = {1, 2, 3, 7, 50};
		for (size_t k = 0; k < 5; k++)
			assert_int_equal(run_nest(&t, &calls, lengths[k]).taken, launches);
		vec_free(&calls);
	}
	free_tables(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_launch_has_its_arrow)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

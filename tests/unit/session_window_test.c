/* session_window_test.c - a window in which steps are looked for has its calls as they were, and
 * takes little memory for many.
 *
 * links: cli */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "feed_rows.h"
#include "session/session_names.h"
#include "session/session_window.h"

#define CALLS	 250000
#define PER_PASS 2500
#define THREADS	 3

static struct session_names names;
static struct detect_names numbers;

static uint32_t text(struct feed_batch *b, uint32_t number, const char *s)
{
	*vec_push(&b->strings) = (struct feed_string){number, (uint32_t)b->texts.len};
	buf_add(&b->texts, s, strlen(s) + 1);
	return number;
}

static void pass(struct session_window *w, struct feed_batch *b)
{
	const struct session_view v = {.batch = b, .names = &numbers};
	session_names_take(&names, b);
	session_window_see(w, &v);
	session_window_take(w, &v);
	session_names_forget(&names, b);
	feed_batch_empty(b);
}

static void define(struct session_window *w)
{
	struct feed_batch b = {0};
	text(&b, 0, "");
	*vec_push(&b.probes) =
		(struct m_probe){.layer = text(&b, 1, "torch"), .name = text(&b, 2, "aten::mm")};
	for (uint32_t i = 0; i < THREADS; i++) {
		*vec_push(&b.threads) = (struct m_thread){.pid = 7, .tid = 7 + i};
		*vec_push(&b.numbers[ROW_THREAD]) = i;
	}
	pass(w, &b);
}

static struct m_call call_of(uint64_t i)
{
	return (struct m_call){.start_ns = 1000 + i * 777,
			       .dur_ns = 100 + i % 13,
			       .thread = (uint32_t)(i % THREADS)};
}

static size_t bytes_in_use(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

/* Those of a thread in their order; how many there were. */
static uint64_t check(const struct row_source *rows)
{
	struct row_block b = {0};
	struct err e;
	uint64_t next[THREADS] = {0, 1, 2}, n = 0;
	for (size_t k = 0; k < rows->blocks(rows->ctx, ROW_CALL); k++) {
		assert_int_equal(rows->read(rows->ctx, ROW_CALL, k, &b, &e), 0);
		const struct m_call *got = b.rows;
		for (size_t i = 0; i < b.len; i++, n++) {
			struct m_call expected = call_of(next[got[i].thread]);
			next[got[i].thread] += THREADS;
			assert_memory_equal(&got[i], &expected, sizeof(expected));
		}
	}
	row_block_free(&b);
	return n;
}

/* Where malloc does not count (sanitizers), nothing is compared. */
static void many_calls_take_little_memory(void **state)
{
	(void)state;
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &numbers);
	struct session_window *w = session_window_new();
	size_t before = bytes_in_use();
	session_window_begin(w, CALLS, CALLS, 0);
	define(w);
	for (uint64_t i = 0; i < CALLS;) {
		struct feed_batch b = {0};
		for (uint32_t k = 0; k < PER_PASS; k++)
			*vec_push(&b.calls) = call_of(i++);
		pass(w, &b);
	}
	assert_int_equal(session_window_calls(w), CALLS);
	assert_true(bytes_in_use() < before + CALLS * sizeof(struct m_call) / 2);
	assert_int_equal(check(session_window_rows(w)), CALLS);
	session_window_free(w);
	session_names_free(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_calls_take_little_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

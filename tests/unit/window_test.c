/* window_test.c - rows in memory are a source as a file is, and the oldest go.
 * links: analyze events recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "events/window.h"

struct seen {
	size_t rows, blocks;
	uint64_t first_ns, last_ns;
	uint32_t thread_changes;
};

static void see_calls(void *ctx, const struct visited_rows *rows)
{
	struct seen *s = ctx;
	const struct m_call *calls = rows->rows;
	s->blocks++;
	for (size_t i = 0; i < rows->len; i++) {
		if (!s->rows++)
			s->first_ns = calls[i].start_ns;
		s->last_ns = calls[i].start_ns > s->last_ns ? calls[i].start_ns : s->last_ns;
		s->thread_changes += i && calls[i].thread != calls[i - 1].thread;
	}
}

static void add_calls(struct row_window *w, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		row_window_add(w, ROW_CALL,
			       &(struct m_call){.start_ns = i, .thread = (uint32_t)(i % 2)}, 1);
}

static void rows_are_a_source(void **state)
{
	struct row_window *w = row_window_new(64 << 20);
	struct seen seen = {0};
	(void)state;
	add_calls(w, 0, 100000);
	const struct row_source *s = row_window_source(w);
	rows_read(s, ROW_CALL, see_calls, &seen);
	assert_int_equal(seen.rows, 100000);
	assert_int_equal(s->tables->calls, 100000);
	assert_int_equal(seen.last_ns, 99999);
	assert_int_equal(seen.thread_changes, seen.blocks); /* a block has a thread's together */
	add_calls(w, 100000, 100010);
	seen = (struct seen){0};
	rows_read(row_window_source(w), ROW_CALL, see_calls, &seen);
	assert_int_equal(seen.rows, 100010);
	row_window_free(w);
}

static void the_oldest_go(void **state)
{
	enum { MOST = 16 << 20 };
	struct row_window *w = row_window_new(MOST);
	struct seen seen = {0};
	(void)state;
	add_calls(w, 0, 1000000);
	rows_read(row_window_source(w), ROW_CALL, see_calls, &seen);
	assert_true(seen.rows * sizeof(struct m_call) <= MOST);
	assert_true(seen.rows * sizeof(struct m_call) > MOST / 2);
	assert_int_equal(seen.last_ns, 999999);
	assert_int_equal(row_window_tables(w)->calls, seen.rows);
	row_window_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_a_source),
		cmocka_unit_test(the_oldest_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* window_test.c - rows in memory are a source as a file is, packed or not, and the oldest go.
 *
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

/* Every row as it was added, whatever was packed. */
struct sums {
	size_t calls, waits;
	uint64_t starts, args, threads, waited;
	uint64_t first_ns;
	bool mixed; /* a block has a thread's calls in two places */
};

static void sum_calls(void *ctx, const struct visited_rows *rows)
{
	struct sums *s = ctx;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		s->first_ns = s->calls++ && s->first_ns < calls[i].start_ns ? s->first_ns
									    : calls[i].start_ns;
		s->starts += calls[i].start_ns;
		s->args += calls[i].args[0] ^ calls[i].args[7];
		s->threads += calls[i].thread;
		s->mixed |= i && calls[i].thread < calls[i - 1].thread;
	}
}

static void sum_waits(void *ctx, const struct visited_rows *rows)
{
	struct sums *s = ctx;
	const struct m_wait *waits = rows->rows;
	s->waits += rows->len;
	for (size_t i = 0; i < rows->len; i++)
		s->waited += waits[i].start_ns;
}

static struct sums sums_of(struct row_window *w)
{
	struct sums ret = {0};
	const struct row_source *s = row_window_source(w);
	rows_read(s, ROW_CALL, sum_calls, &ret);
	rows_read(s, ROW_WAIT, sum_waits, &ret);
	assert_int_equal(s->tables->calls, ret.calls);
	assert_int_equal(s->tables->waits, ret.waits);
	return ret;
}

static uint64_t dice;

static uint64_t chance(void)
{
	dice = dice * 6364136223846793005ULL + 1442695040888963407ULL; /* Knuth's, of MMIX */
	return dice ^ dice >> 29;
}

/* many: arguments of which no two are alike. */
static void add_mixed(struct row_window *w, uint64_t from, uint64_t to, bool many)
{
	for (uint64_t i = from; i < to; i++) {
		struct m_call call = {.start_ns = i, .dur_ns = 5, .thread = (uint32_t)(i % 3)};
		for (int k = 0; k < MODEL_MAX_ARGS && many; k++)
			call.args[k] = chance();
		row_window_add(w, ROW_CALL, &call, 1);
		if (i % 4 == 0)
			row_window_add(w, ROW_WAIT, &(struct m_wait){.start_ns = i}, 1);
	}
}

static void packed_rows_are_as_they_were(void **state)
{
	struct row_window *whole = row_window_new(SIZE_MAX), *w = row_window_new(8 << 20);
	(void)state;
	row_window_pack(w, SIZE_MAX, UINT64_MAX);
	add_mixed(whole, 0, 400000, false);
	add_mixed(w, 0, 400000, false); /* 38 MB, and of another kind 100,000 rows */
	const struct sums is = sums_of(w), was = sums_of(whole);
	assert_int_equal(is.calls, 400000);
	assert_int_equal(is.waits, 100000);
	assert_true(is.starts == was.starts && is.args == was.args && is.threads == was.threads &&
		    is.waited == was.waited);
	assert_false(is.mixed);
	assert_int_equal(row_window_gone_ns(w), 0);
	row_window_free(whole);
	row_window_free(w);
}

/* As packed, the rows have no more than there is room for. */
static void of_packed_rows_the_oldest_go(void **state)
{
	enum { MOST = 8 << 20, ROWS = 400000 };
	struct row_window *w = row_window_new(MOST);
	(void)state;
	row_window_pack(w, SIZE_MAX, UINT64_MAX);
	add_mixed(w, 0, ROWS, true);
	const struct sums is = sums_of(w);
	/* 64 bytes of a row cannot be packed */
	assert_true(is.calls * 64 < MOST && is.calls * sizeof(struct m_call) > MOST);
	assert_int_equal(is.starts, (uint64_t)is.calls * (ROWS - is.calls) +
					    (uint64_t)is.calls * (is.calls - 1) / 2);
	assert_int_equal(row_window_gone_ns(w), ROWS - is.calls - 1 + 5);
	row_window_free(w);
}

/* Times that grow by chance, as those of calls do, of three threads: 9 MB hold them all, which rows
 * as they are would not have room in. */
static void times_that_grow_take_little(void **state)
{
	enum { MOST = 9 << 20, ROWS = 1500000 };
	struct row_window *w = row_window_new(MOST);
	uint64_t now_ns = 1ULL << 50;
	(void)state;
	row_window_pack(w, 1 << 20, UINT64_MAX);
	for (uint32_t i = 0; i < ROWS; i++) {
		now_ns += 5000 + chance() % 4096;
		row_window_add(w, ROW_CALL,
			       &(struct m_call){.start_ns = now_ns,
						.dur_ns = 1000 + chance() % 256,
						.probe = i % 16,
						.thread = i % 3},
			       1);
	}
	assert_int_equal(sums_of(w).calls, ROWS);
	assert_int_equal(row_window_gone_ns(w), 0);
	row_window_free(w);
}

static void what_is_old_is_not_packed(void **state)
{
	enum { MOST = 8 << 20, ROWS = 400000 };
	struct row_window *w = row_window_new(MOST);
	(void)state;
	row_window_pack(w, SIZE_MAX, 20000); /* of these there is room for 80,000 */
	add_mixed(w, 0, ROWS, false);
	struct sums is = sums_of(w);
	assert_true(is.calls * sizeof(struct m_call) <= MOST && is.calls > 40000);
	row_window_pack(w, SIZE_MAX, 200000);
	add_mixed(w, ROWS, 2 * ROWS, false);
	is = sums_of(w);
	assert_true(is.calls > 200000 && is.first_ns <= 2 * ROWS - 200000);
	row_window_free(w);
}

/* As what is copied out of a window does: nothing goes. */
static void rows_beyond_a_bound_are_packed(void **state)
{
	struct row_window *w = row_window_new(SIZE_MAX);
	(void)state;
	row_window_pack(w, 1 << 20, UINT64_MAX);
	add_mixed(w, 0, 300000, true);
	const struct sums is = sums_of(w);
	assert_int_equal(is.calls, 300000);
	assert_int_equal(is.waits, 75000);
	row_window_bound(w, 4 << 20); /* they are packed: what is too much goes */
	const struct sums left = sums_of(w);
	assert_true(left.calls < 4 * (1 << 20) / 64 && left.calls > 30000);
	row_window_free(w);
}

/* What is old goes, as soon as packed rows have half as much as others may. */
static void beyond_a_bound_what_is_old_goes(void **state)
{
	enum { ROWS = 400000, KEPT = 50000, RAW = 2 << 20 };
	struct row_window *w = row_window_new(64 << 20);
	(void)state;
	row_window_pack(w, RAW, KEPT);
	add_mixed(w, 0, ROWS, false);
	const struct sums is = sums_of(w);
	/* 40 bytes and more of a row of add_mixed are packed to few */
	assert_in_range(is.calls, KEPT, ROWS / 2);
	assert_true(is.first_ns <= ROWS - KEPT);
	assert_true(row_window_gone_ns(w) < ROWS - KEPT);
	row_window_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_a_source),
		cmocka_unit_test(the_oldest_go),
		cmocka_unit_test(packed_rows_are_as_they_were),
		cmocka_unit_test(of_packed_rows_the_oldest_go),
		cmocka_unit_test(times_that_grow_take_little),
		cmocka_unit_test(what_is_old_is_not_packed),
		cmocka_unit_test(rows_beyond_a_bound_are_packed),
		cmocka_unit_test(beyond_a_bound_what_is_old_goes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

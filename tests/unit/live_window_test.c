/* live_window_test.c - the last rows of a session as a source: names and numbers mean the same as
 * in the session, what is old goes, and nothing grows with the session.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed_rows.h"
#include "session/live_window.h"
#include "session/session_names.h"

static struct session_names names;
static struct detect_names numbers;
static struct live_window *w;
static uint32_t strings; /* so far */

static void begin(size_t bytes)
{
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &numbers);
	w = live_window_new(bytes);
	strings = 0;
}

static void end(void)
{
	live_window_free(w);
	session_names_free(&names);
}

static const struct row_source *live_rows(void)
{
	uint64_t begin_ns;
	return live_window_rows(w, &begin_ns);
}

static uint32_t text(struct feed_batch *b, const char *s)
{
	*vec_push(&b->strings) = (struct feed_string){strings, (uint32_t)b->texts.len};
	buf_add(&b->texts, s, strlen(s) + 1);
	return strings++;
}

static void thread(struct feed_batch *b, uint32_t number, uint32_t pid, uint32_t tid)
{
	*vec_push(&b->threads) = (struct m_thread){.pid = pid, .tid = tid};
	*vec_push(&b->numbers[ROW_THREAD]) = number;
}

static void frame(struct feed_batch *b, uint32_t number, uint32_t name)
{
	*vec_push(&b->frames) = (struct m_frame){.kind = FRAME_PYTHON, .name = name};
	*vec_push(&b->numbers[ROW_FRAME]) = number;
}

static void native(struct feed_batch *b, uint32_t number, uint32_t name)
{
	*vec_push(&b->frames) = (struct m_frame){
		.kind = FRAME_NATIVE, .name = name, .build_id = 1, .address = number};
	*vec_push(&b->numbers[ROW_FRAME]) = number;
}

static void stack(struct feed_batch *b, uint32_t number, uint32_t parent, uint32_t of)
{
	*vec_push(&b->stacks) = (struct m_stack){.parent = parent, .frame = of};
	*vec_push(&b->numbers[ROW_STACK]) = number;
}

static void sample(struct feed_batch *b, uint64_t time_ns, uint32_t of, uint32_t at)
{
	*vec_push(&b->samples) = (struct m_sample){.time_ns = time_ns, .thread = of, .stack = at};
}

static void call(struct feed_batch *b, uint64_t start_ns, uint32_t of)
{
	*vec_push(&b->calls) = (struct m_call){.start_ns = start_ns, .dur_ns = 1, .thread = of};
}

/* Hands the batch on and empties it. */
static void pass(struct feed_batch *b, uint64_t upto_ns)
{
	const struct session_view v = {.batch = b, .names = &numbers};
	b->upto_ns = upto_ns;
	session_names_take(&names, b);
	live_window_take(w, &v);
	session_names_forget(&names, b);
	feed_batch_empty(b);
}

static const char *function_of(const struct rec_tables *t, uint32_t frame_number)
{
	return strtab_get(&t->strings, t->frames.data[frame_number].name, NULL);
}

static void rows_mean_what_they_meant(void **state)
{
	(void)state;
	struct feed_batch b = {0};
	begin(64 << 20);
	text(&b, "");
	uint32_t outer = text(&b, "main"), inner = text(&b, "train");
	frame(&b, 0, outer);
	frame(&b, 1, inner);
	stack(&b, 900, 0, 0);
	stack(&b, 901, 900, 1);
	thread(&b, 70, 5, 6);
	thread(&b, 71, 5, 7);
	sample(&b, 10, 71, 901);
	call(&b, 12, 70);
	pass(&b, 20);
	*vec_push(&b.threads_gone) = 70; /* what it did stays */
	pass(&b, 30);
	const struct row_source *s = live_rows();
	struct m_samples samples = {0};
	struct err e = {""};
	assert_int_equal(source_sample_blocks(s), 1);
	assert_int_equal(source_read_samples(s, 0, &samples, &e), 0);
	assert_int_equal(samples.len, 1);
	const struct m_sample *row = samples.rows;
	assert_int_equal(s->tables->threads.data[row->thread].tid, 7);
	const struct m_stack *top = &s->tables->stacks.data[row->stack];
	assert_string_equal(function_of(s->tables, top->frame), "train");
	assert_string_equal(function_of(s->tables, s->tables->stacks.data[top->parent].frame),
			    "main");
	assert_int_equal(s->tables->stacks.data[top->parent].parent, 0);
	assert_int_equal(s->tables->calls, 1);
	assert_int_equal(s->tables->last_ns, 30);
	m_samples_free(&samples);
	end();
}

/* Of threads and stacks that nobody names: no stack, and no row. */
static void what_has_no_name_is_left_out(void **state)
{
	(void)state;
	struct feed_batch b = {0};
	begin(64 << 20);
	thread(&b, 1, 5, 5);
	sample(&b, 10, 1, 4242);
	sample(&b, 11, 2, 0);
	pass(&b, 20);
	const struct row_source *s = live_rows();
	struct m_samples samples = {0};
	struct err e = {""};
	assert_int_equal(source_read_samples(s, 0, &samples, &e), 0);
	assert_int_equal(samples.len, 1);
	assert_int_equal(samples.rows[0].stack, 0);
	m_samples_free(&samples);
	end();
}

static void the_oldest_rows_of_any_kind_go(void **state)
{
	(void)state;
	struct feed_batch b = {0};
	uint64_t now = 0;
	begin(24 << 20);
	thread(&b, 0, 5, 5);
	for (int i = 0; i < 300000; i++) /* a long while of samples, then calls */
		sample(&b, ++now, 0, 0);
	pass(&b, now);
	for (int i = 0; i < 400000; i++)
		call(&b, ++now, 0);
	pass(&b, now);
	const struct row_source *s = live_rows();
	assert_true(s->tables->samples < 300000);
	assert_true(s->tables->calls >= 100000);
	struct m_calls calls = {0};
	struct err e = {""};
	size_t blocks = source_call_blocks(s);
	assert_int_equal(source_read_calls(s, blocks - 1, &calls, &e), 0);
	assert_int_equal(calls.rows[calls.len - 1].start_ns, now);
	m_calls_free(&calls);
	end();
}

/* 200,000 threads come and go. */
static void threads_that_are_gone_leave_nothing(void **state)
{
	(void)state;
	struct feed_batch b = {0};
	size_t most = 0;
	begin(64 << 20);
	for (uint32_t i = 0; i < 200000; i++) {
		thread(&b, i, 5, 100 + i);
		sample(&b, i, i, 0);
		*vec_push(&b.threads_gone) = i;
		if (i % 1000 == 999) {
			pass(&b, i);
			size_t n = live_rows()->tables->threads.len;
			most = n > most ? n : most;
		}
	}
	assert_true(most > 1000 && most < 20000);
	assert_true(live_rows()->tables->threads.len > 0);
	end();
}

static struct m_sample only_sample(const struct row_source *s)
{
	struct m_samples samples = {0};
	struct err e = {""};
	assert_int_equal(source_read_samples(s, source_sample_blocks(s) - 1, &samples, &e), 0);
	assert_true(samples.len);
	struct m_sample ret = samples.rows[samples.len - 1];
	m_samples_free(&samples);
	return ret;
}

/* A session's numbers of frames grow; the window has those alone that its rows are of, by the names
 * that they have got meanwhile. */
static void frames_that_no_row_is_of_leave_nothing(void **state)
{
	(void)state;
	struct feed_batch b = {0};
	begin(1 << 20);
	text(&b, "");
	uint32_t first = text(&b, "?"), later = text(&b, "forward");
	thread(&b, 1, 5, 5);
	for (uint32_t i = 1; i <= 300000; i++) {
		native(&b, i, first);
		stack(&b, i, 0, i);
		if (i % 1000)
			continue;
		sample(&b, i, 1, i);
		pass(&b, i);
		native(&b, i, later); /* its name has come */
		pass(&b, i);
		const struct rec_tables *t = live_rows()->tables;
		const struct m_sample last = only_sample(live_rows());
		assert_string_equal(function_of(t, t->stacks.data[last.stack].frame), "forward");
		assert_int_equal(t->frames.len, i / 1000);
	}
	end();
}

/* A session that keeps nothing gives places and stacks new numbers: in the window they stay. */
static void new_numbers_are_of_the_same_rows(void **state)
{
	(void)state;
	struct feed_batch b = {0};
	begin(1 << 20);
	text(&b, "");
	uint32_t outer = text(&b, "main"), inner = text(&b, "train");
	thread(&b, 1, 5, 5);
	for (uint32_t i = 0; i < 20; i++) {
		frame(&b, 2 * i, outer);
		frame(&b, 2 * i + 1, inner);
		stack(&b, 1000 + 2 * i, 0, 2 * i);
		stack(&b, 1001 + 2 * i, 1000 + 2 * i, 2 * i + 1);
		sample(&b, i + 1, 1, 1001 + 2 * i);
		pass(&b, i + 1);
	}
	const struct rec_tables *t = live_rows()->tables;
	assert_int_equal(t->frames.len, 2);
	assert_int_equal(t->stacks.len, 3); /* the first is none */
	const struct m_sample last = only_sample(live_rows());
	assert_string_equal(function_of(t, t->stacks.data[last.stack].frame), "train");
	end();
}

static void processes_that_have_ended_leave_nothing(void **state)
{
	(void)state;
	struct feed_batch b = {0};
	size_t most = 0;
	begin(64 << 20);
	for (uint32_t i = 1; i <= 100000; i++) {
		bool lasts = i % 1000 == 1;
		*vec_push(&b.processes) =
			(struct m_process){.pid = i, .start_ns = i, .end_ns = lasts ? 0 : i + 1};
		if (i % 100)
			continue;
		pass(&b, i);
		size_t n = live_rows()->tables->processes.len;
		most = n > most ? n : most;
	}
	assert_true(most < 7000);
	const struct rec_tables *t = live_rows()->tables;
	size_t alive = 0;
	for (size_t i = 0; i < t->processes.len; i++)
		alive += !t->processes.data[i].end_ns;
	assert_int_equal(alive, 100);
	end();
}

static void those_that_were_there_before_have_joined(void **state)
{
	(void)state;
	struct feed_batch b = {0};
	begin(64 << 20);
	thread(&b, 0, 5, 5);
	*vec_push(&b.processes) = (struct m_process){.pid = 5, .start_ns = 3};
	*vec_push(&b.processes) = (struct m_process){.pid = 6, .start_ns = 2000};
	call(&b, 1000, 0);
	pass(&b, 3000);
	*vec_push(&b.processes) = (struct m_process){.pid = 6, .start_ns = 2000, .end_ns = 3100};
	pass(&b, 3200);
	const struct rec_tables *t = live_rows()->tables;
	assert_int_equal(t->processes.len, 2);
	assert_true(t->processes.data[0].joined);
	assert_int_equal(t->processes.data[0].start_ns, 1000);
	assert_false(t->processes.data[1].joined);
	assert_int_equal(t->processes.data[1].end_ns, 3100);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_mean_what_they_meant),
		cmocka_unit_test(what_has_no_name_is_left_out),
		cmocka_unit_test(the_oldest_rows_of_any_kind_go),
		cmocka_unit_test(threads_that_are_gone_leave_nothing),
		cmocka_unit_test(frames_that_no_row_is_of_leave_nothing),
		cmocka_unit_test(new_numbers_are_of_the_same_rows),
		cmocka_unit_test(processes_that_have_ended_leave_nothing),
		cmocka_unit_test(those_that_were_there_before_have_joined),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

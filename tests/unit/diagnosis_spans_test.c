/* diagnosis_spans_test.c - which steps of a process are slow and which are usual, of steps made by
 * hand; blames nothing.
 *
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/types.h>

#include "incident/diagnosis_impl.h"
#include "made_file.h"
#include "recording/recording.h"

#define MS  1000000ULL
#define JOB 7

static struct rec_reader *reader;
static const struct row_source *source;
static struct timeline timeline;
static struct steps steps;
static struct diagnosis found;
static struct anomaly_list list;
static struct diagnosing x;

/* One thread, and a loop without steps so far. */
static int start(void **state)
{
	(void)state;
	struct err e = {0};
	struct rec_writer *w;
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	rec_add_thread(w, &(struct m_thread){JOB, JOB, 0});
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	source = rec_source(reader);
	timeline_make(&timeline, source, &(struct timeline_options){0});
	steps = (struct steps){0};
	found = (struct diagnosis){0};
	list = (struct anomaly_list){0};
	x = (struct diagnosing){
		.ret = &found, .s = source, .t = &timeline, .steps = &steps, .list = &list};
	x.w = blame_world_new(source, &timeline);
	struct steps_process *p = vec_push(&steps.processes);
	*p = (struct steps_process){.pid = JOB, .tid = JOB};
	*vec_push(&p->loops) = (struct steps_loop){0};
	return 0;
}

static int end(void **state)
{
	(void)state;
	diagnosis_spans_free(&x);
	blame_world_free(x.w);
	timeline_free(&timeline);
	rec_close(reader);
	vec_free(&steps.processes.data[0].loops);
	vec_free(&steps.processes.data[0].steps);
	vec_free(&steps.processes);
	vec_free(&found.incidents);
	return 0;
}

/* Steps of one length, the first of them so long after the last one. Returns its start. */
static uint64_t add(int n, uint64_t ms, uint64_t after_ms)
{
	struct steps_process *p = &steps.processes.data[0];
	uint64_t at = p->steps.len ? p->steps.data[p->steps.len - 1].end_ns : 0;
	uint64_t first = at += after_ms * MS;
	for (; n > 0; n--, at += ms * MS) {
		p->loops.data[0].total_ns += ms * MS;
		*vec_push(&p->steps) = (struct steps_step){
			.start_ns = at, .end_ns = at + ms * MS, .index = p->loops.data[0].steps++};
	}
	p->loops.data[0].mean_ns = (double)p->loops.data[0].total_ns / p->loops.data[0].steps;
	return first;
}

static struct diagnosed *told(uint64_t from_ns, uint64_t to_ns)
{
	struct diagnosed *in = vec_push(&found.incidents);
	*in = (struct diagnosed){.onset_ns = from_ns, .end_ns = to_ns, .pid = JOB};
	return in;
}

/* Of 90 usual steps of 100 ms the loop stood for 3 s before one: an evaluation. */
static void add_usual(void)
{
	add(50, 100, 0);
	add(40, 100, 3000);
}

static void is_compared_with(const struct diagnosed *in, size_t slow, double usual_ms)
{
	struct evidence_question q = {0};
	assert_true(diagnosis_spans(&x, in, &q));
	assert_true(q.by_steps);
	assert_int_equal(q.slow.len, slow);
	assert_true(q.slow.data[0].usual_ns == usual_ms * MS);
	assert_true(diagnosis_mean_length(&q.usual->spans) == usual_ms * MS);
	vec_free(&q.slow);
}

static void steps_without_a_pause_are_compared_with_such(void **state)
{
	(void)state;
	add_usual();
	uint64_t from_ns = add(20, 200, 0), to_ns = from_ns + 4000 * MS;
	is_compared_with(told(from_ns, to_ns), 20, 100);
}

/* Which is as long as it is on average. */
static void where_the_loop_stood_pauses_are_part_of_it(void **state)
{
	(void)state;
	add_usual();
	uint64_t from_ns = add(10, 200, 0), to_ns = from_ns + 7000 * MS;
	add(10, 200, 3000);
	/* without the first five, and ten that are within a second of the incident */
	is_compared_with(told(from_ns, to_ns), 20, (74 * 100 + 3100) / 75.0);
}

/* Both ends, not into another one's time. */
static void incidents_are_spread_over_their_steps(void **state)
{
	(void)state;
	add_usual();
	uint64_t from_ns = add(60, 200, 0);
	add(40, 100, 0);
	told(from_ns + 1000 * MS, from_ns + 4000 * MS);
	told(from_ns + 7000 * MS, from_ns + 11000 * MS);
	diagnosis_spread(&x);
	assert_int_equal(found.incidents.data[0].onset_ns, from_ns);
	assert_int_equal(found.incidents.data[0].end_ns, from_ns + 7000 * MS);
	assert_int_equal(found.incidents.data[1].onset_ns, from_ns + 7000 * MS);
	assert_int_equal(found.incidents.data[1].end_ns, from_ns + 12000 * MS);
}

/* Those that are found now and then say nothing of the time between them. */
static void steps_that_do_not_stand_for_it_move_nothing(void **state)
{
	(void)state;
	add_usual();
	uint64_t from_ns = add(5, 200, 0) + 400 * MS;
	told(from_ns, from_ns + 10000 * MS);
	diagnosis_spread(&x);
	assert_int_equal(found.incidents.data[0].onset_ns, from_ns);
}

static void is_spread_to(uint64_t from_ns, uint64_t to_ns)
{
	diagnosis_spread(&x);
	assert_int_equal(found.incidents.data[0].onset_ns, from_ns);
	assert_int_equal(found.incidents.data[0].end_ns, to_ns);
}

/* Beside it alone usual ones of 100 ms are long. */
static void one_short_step_is_not_what_is_usual(void **state)
{
	(void)state;
	add_usual();
	list.judged_from_ns = add(1, 20, 0);
	add(10, 100, 0);
	uint64_t from_ns = add(20, 140, 0), to_ns = add(9, 100, 0);
	told(from_ns, to_ns);
	is_spread_to(from_ns, to_ns);
}

static void what_was_before_it_was_judged_is_usual_where_nothing_else_is(void **state)
{
	(void)state;
	add_usual();
	uint64_t from_ns = add(20, 200, 0), to_ns = add(9, 100, 0);
	list.judged_from_ns = from_ns;
	told(from_ns + 400 * MS, to_ns);
	is_spread_to(from_ns, to_ns);
}

/* Three usual steps, besides those at the beginning and within a second of it. */
static void beside_next_to_nothing_usual_nothing_moves(void **state)
{
	(void)state;
	add(18, 100, 0);
	uint64_t from_ns = add(20, 200, 0), to_ns = add(9, 100, 0);
	told(from_ns, to_ns - 400 * MS);
	is_spread_to(from_ns, to_ns - 400 * MS);
}

/* As one step in five is anyway. */
static void steps_that_vary_as_usual_are_not_added(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		add(4, 96, 0);
		add(1, 115, 0);
	}
	uint64_t from_ns = add(20, 200, 0), to_ns = add(1, 115, 0);
	add(20, 96, 0);
	told(from_ns, to_ns);
	is_spread_to(from_ns, to_ns);
}

/* Slow steps that were in none when it was told are not usual for the next one. */
static void what_one_took_is_not_usual_for_the_next(void **state)
{
	(void)state;
	add_usual();
	uint64_t first_ns = add(80, 300, 0), until_ns = add(21, 100, 0);
	uint64_t from_ns = add(20, 140, 0), to_ns = add(9, 100, 0);
	told(first_ns, first_ns + 6000 * MS);
	told(from_ns + 420 * MS, to_ns - 420 * MS);
	diagnosis_spread(&x);
	assert_int_equal(found.incidents.data[0].end_ns, until_ns);
	assert_int_equal(found.incidents.data[1].onset_ns, from_ns);
	assert_int_equal(found.incidents.data[1].end_ns, to_ns);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(steps_without_a_pause_are_compared_with_such),
		TEST(where_the_loop_stood_pauses_are_part_of_it),
		TEST(incidents_are_spread_over_their_steps),
		TEST(steps_that_do_not_stand_for_it_move_nothing),
		TEST(one_short_step_is_not_what_is_usual),
		TEST(what_was_before_it_was_judged_is_usual_where_nothing_else_is),
		TEST(beside_next_to_nothing_usual_nothing_moves),
		TEST(steps_that_vary_as_usual_are_not_added),
		TEST(what_one_took_is_not_usual_for_the_next),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

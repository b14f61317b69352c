/* diagnosis_unjudged_test.c - which stretches of an incident are slow, and which are usual, beside
 * times that were not judged.
 *
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "incident/diagnosis_impl.h"
#include "made_file.h"
#include "recording/recording.h"

#define S     1000000000ULL
#define JOB   7
#define BEGIN 100 /* seconds: of the job */
#define END   160

static struct rec_reader *reader;
static struct timeline timeline;
static struct steps steps;
static struct steps_process *process;
static struct anomaly_list list;
static struct diagnosis found;
static struct diagnosing x;
static struct evidence_question q;

/* The job runs all the time. One incident, from 130 s on. */
static void begin(uint64_t until_s)
{
	struct rec_writer *w;
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	rec_put_process(w, &(struct m_process){.pid = JOB, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){JOB, JOB, 0});
	for (uint64_t at = BEGIN * S; at <= END * S; at += S / 10)
		rec_put_sample(w, &(struct m_sample){.time_ns = at, .weight_ns = S / 10});
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&timeline, rec_source(reader), &(struct timeline_options){0});
	found = (struct diagnosis){0};
	*vec_push(&found.incidents) =
		(struct diagnosed){.id = 1, .pid = JOB, .onset_ns = 130 * S, .end_ns = until_s * S};
	steps = (struct steps){0};
	list = (struct anomaly_list){.judged_from_ns = BEGIN * S};
	q = (struct evidence_question){0};
	x = (struct diagnosing){.ret = &found,
				.s = rec_source(reader),
				.t = &timeline,
				.steps = &steps,
				.list = &list,
				.w = blame_world_new(rec_source(reader), &timeline)};
}

static void add_loop(void)
{
	process = vec_push(&steps.processes);
	*process = (struct steps_process){.pid = JOB, .tid = JOB};
	*vec_push(&process->loops) = (struct steps_loop){0};
}

/* So many steps a second, in a time. */
static void add_steps_of(uint64_t from_s, uint64_t to_s, uint32_t a_second)
{
	for (uint64_t at = from_s * S; at < to_s * S; at += S / a_second)
		*vec_push(&process->steps) =
			(struct steps_step){.start_ns = at,
					    .end_ns = at + S / a_second,
					    .index = process->loops.data[0].steps++};
}

/* Of a second each. */
static void add_steps(void)
{
	add_loop();
	add_steps_of(BEGIN, END, 1);
}

/* Of 100 ms each, but twice as long from 130 to 140 s. */
static void add_slow_steps(void)
{
	add_loop();
	add_steps_of(BEGIN, 130, 10);
	add_steps_of(130, 140, 5);
	add_steps_of(140, END, 10);
}

static void end(void)
{
	diagnosis_spans_free(&x);
	blame_world_free(x.w);
	vec_free(&q.slow);
	vec_free(&found.incidents);
	if (steps.processes.len) {
		vec_free(&process->loops);
		vec_free(&process->steps);
	}
	vec_free(&steps.processes);
	timeline_free(&timeline);
	rec_close(reader);
}

static void is_unjudged(uint64_t from_s, uint64_t to_s)
{
	static struct unjudged_time unjudged;
	unjudged = (struct unjudged_time){from_s * S, to_s * S};
	list.unjudged = &unjudged;
	list.unjudged_len = 1;
}

static void ask(uint64_t from_s, uint64_t to_s)
{
	is_unjudged(from_s, to_s);
	assert_true(diagnosis_spans(&x, &found.incidents.data[0], &q));
}

/* An incident that was told of a time, of which some was not judged, has these ends. */
static void spread(uint64_t told_s, uint64_t until_s, uint64_t from_s, uint64_t to_s)
{
	struct diagnosed *in = &found.incidents.data[0];
	in->onset_ns = told_s * S;
	in->end_ns = until_s * S;
	diagnosis_spread(&x);
	assert_int_equal(in->onset_ns, from_s * S);
	assert_int_equal(in->end_ns, to_s * S);
}

/* What of these lies in a time. */
static uint64_t seconds_in(const blame_spans_t *spans, uint64_t from_s, uint64_t to_s)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < spans->len; i++) {
		uint64_t from = spans->data[i].from_ns, to = spans->data[i].to_ns;
		from = from > from_s * S ? from : from_s * S;
		to = to < to_s * S ? to : to_s * S;
		ns += to > from ? to - from : 0;
	}
	return ns / S;
}

static void steps_of_unjudged_time_are_neither_slow_nor_usual(void **state)
{
	(void)state;
	begin(140);
	add_steps();
	ask(132, 145);
	assert_true(q.by_steps);
	assert_int_equal(seconds_in(&q.slow, 130, 132), 2);
	assert_int_equal(seconds_in(&q.slow, 132, 140), 0);
	assert_int_equal(seconds_in(&q.usual->spans, 141, 145), 0);
	assert_int_equal(seconds_in(&q.usual->spans, 145, 160), 15);
	end();
}

static void unjudged_time_is_neither_slow_nor_usual(void **state)
{
	(void)state;
	begin(140);
	ask(132, 145);
	assert_false(q.by_steps);
	assert_int_equal(seconds_in(&q.slow, 130, 132), 2);
	assert_int_equal(seconds_in(&q.slow, 132, 140), 0);
	assert_int_equal(seconds_in(&q.usual->spans, 141, 145), 0);
	assert_int_equal(seconds_in(&q.usual->spans, 145, 160), 15);
	assert_int_equal(seconds_in(&q.usual->spans, BEGIN, 129), 29);
	end();
}

/* Else nothing would be left of it. */
static void an_incident_that_was_hardly_judged_counts_whole(void **state)
{
	(void)state;
	begin(135);
	add_steps();
	ask(130, 145);
	assert_int_equal(seconds_in(&q.slow, 130, 135), 5);
	assert_int_equal(seconds_in(&q.usual->spans, 136, 145), 0);
	end();
}

/* Though the steps that were judged do not last for half of it. */
static void an_incident_that_is_mostly_unjudged_has_its_ends(void **state)
{
	(void)state;
	begin(140);
	add_slow_steps();
	is_unjudged(133, 138);
	spread(132, 139, 130, 140);
	end();
}

static void an_incident_that_was_hardly_judged_has_them_too(void **state)
{
	(void)state;
	begin(140);
	add_slow_steps();
	is_unjudged(130, 141);
	spread(132, 139, 130, 140);
	end();
}

static void unjudged_time_makes_no_incident_longer(void **state)
{
	(void)state;
	begin(140);
	add_slow_steps();
	is_unjudged(136, 145);
	spread(132, 136, 130, 136);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_of_unjudged_time_are_neither_slow_nor_usual),
		cmocka_unit_test(unjudged_time_is_neither_slow_nor_usual),
		cmocka_unit_test(an_incident_that_was_hardly_judged_counts_whole),
		cmocka_unit_test(an_incident_that_is_mostly_unjudged_has_its_ends),
		cmocka_unit_test(an_incident_that_was_hardly_judged_has_them_too),
		cmocka_unit_test(unjudged_time_makes_no_incident_longer),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

/* advice_test.c - what a loop would save: the sums of the model, and a recording made by hand of
 * which it is known where its time went.
 * links: analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/advice.h"
#include "recording/recording.h"
#include "made_file.h"

#define MS   1000000ULL
#define JOB  7
#define STEP 20 /* ms */

static struct rec_writer *w;
static struct rec_reader *reader;

static void is_about(double is, double wanted)
{
	if (is < 0.999 * wanted - 1 || is > 1.001 * wanted + 1)
		fail_msg("%.3f, wanted %.3f", is, wanted);
}

/* ---- the model ---- */

static void workers_that_wait(void **state)
{
	(void)state;
	const struct advice_pace p = {.step_ns = 20,
				      .work_ns = 4,
				      .work_cpu_ns = 4,
				      .batch_ns = 40,
				      .batch_cpu_ns = 1,
				      .workers = 2,
				      .cpus = 2};
	is_about(advice_step_ns(&p), 20);
	assert_int_equal(advice_workers_for(&p), 10); /* 40 / 4, nearly */
	is_about(advice_saved_by_workers(&p, 4), 10);
	is_about(advice_saved_by_workers(&p, 10), 16);
	is_about(advice_saved_by_workers(&p, 40), 16);
	is_about(advice_saved_by_workers(&p, 1), 0);
}

static void workers_that_compute_are_no_faster_than_cpus(void **state)
{
	(void)state;
	const struct advice_pace p = {.step_ns = 44,
				      .work_ns = 4,
				      .work_cpu_ns = 4,
				      .batch_ns = 40,
				      .batch_cpu_ns = 40,
				      .workers = 0,
				      .cpus = 2};
	is_about(advice_step_ns(&p), 44);
	assert_int_equal(advice_workers_for(&p), 2);
	is_about(advice_saved_by_workers(&p, 2), 22); /* 44 ms of CPU time by two */
	is_about(advice_saved_by_workers(&p, 64), 22);
	struct advice_pace one = p;
	one.cpus = 1;
	is_about(advice_saved_by_workers(&one, 8), 0);
}

static void others_want_the_cpus_too(void **state)
{
	(void)state;
	is_about(advice_rivals(2, 95, 5), 0);
	is_about(advice_rivals(2, 25, 75), 7); /* one of eight that share two */
	const struct advice_pace p = {.step_ns = 80,
				      .work_ns = 16,
				      .work_cpu_ns = 4,
				      .batch_ns = 64,
				      .batch_cpu_ns = 16,
				      .cpus = 2,
				      .rivals = 7};
	struct advice_pace then = p;
	then.workers = 3; /* four of eleven */
	is_about(advice_step_ns(&then), 20.0 * 11 / (2 * 4));
	assert_int_equal(advice_workers_for(&p), 2); /* more would only take from others */
}

static void shorter_batches(void **state)
{
	(void)state;
	const struct advice_pace p = {
		.step_ns = 22, .work_ns = 10, .batch_ns = 40, .workers = 2, .cpus = 0};
	is_about(advice_saved_by_batch(&p, 10, 0), 5.0 * 22 / 20);
	is_about(advice_saved_by_batch(&p, 39, 0), 10.0 * 22 / 20); /* the work is left */
	is_about(advice_saved_by_batch(&p, 100, 0), 10.0 * 22 / 20);
	struct advice_pace kept = p;
	kept.batch_cpu_ns = 40;
	kept.kept_ns = 4; /* by workers, of which there is half as much then */
	is_about(advice_saved_by_batch(&kept, 30, 20), 12.0 * 22 / 20);
}

static void how_often_to_save(void **state)
{
	(void)state;
	assert_int_equal(advice_save_every(10, 10, 10000), 50);
	assert_int_equal(advice_save_every(10, 37, 10000), 200); /* 185 */
	assert_int_equal(advice_save_every(10, 37, 100), 100);	 /* one is left */
	assert_int_equal(advice_save_every(1000, 1, 100), 1);
	assert_int_equal(advice_save_every(0, 1, 0), 1);
}

/* ---- a recording ---- */

/* Threads: 0 the main one of the job, 1 its child 8, 2 its child 9. */
static void create(void)
{
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	rec_put_process(w, &(struct m_process){.pid = JOB, .parent_pid = 1, .start_ns = 1});
	rec_put_process(w, &(struct m_process){.pid = 8, .parent_pid = JOB, .start_ns = 1});
	rec_put_process(w, &(struct m_process){.pid = 9, .parent_pid = JOB, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){JOB, JOB, 0});
	rec_add_thread(w, &(struct m_thread){8, 8, 0});
	rec_add_thread(w, &(struct m_thread){9, 9, 0});
}

static uint32_t frame(uint32_t parent, const char *function, const char *file, uint32_t line)
{
	uint32_t n = rec_add_frame(w, &(struct m_frame){.kind = FRAME_PYTHON,
							.name = (uint32_t)rec_string_z(w, function),
							.file = (uint32_t)rec_string_z(w, file),
							.line = line});
	return rec_add_stack(w, &(struct m_stack){parent, n});
}

static void samples(uint32_t thread, uint64_t from_ms, uint64_t to_ms, uint32_t stack)
{
	for (uint64_t at = from_ms; at < to_ms; at++)
		rec_put_sample(w, &(struct m_sample){.time_ns = at * MS + MS / 2,
						     .weight_ns = MS,
						     .thread = thread,
						     .stack = stack});
}

static void wait(uint32_t thread, uint8_t reason, uint64_t from_ms, uint64_t to_ms, uint32_t waker)
{
	rec_put_wait(w, &(struct m_wait){.start_ns = from_ms * MS,
					 .end_ns = to_ms * MS,
					 .thread = thread,
					 .syscall = 202,
					 .waker_pid = waker,
					 .waker_tid = waker,
					 .reason = reason});
}

/* Ten steps of 20 ms, of which so many are until they have their batch; the first and the sixth are
 * longer by so many. */
static struct steps_step steps[10];

static struct advice advise_as(uint64_t load_ms, uint64_t more_ms, bool until_a_batch)
{
	struct account_thread main = {
		.pid = JOB, .wall_ns = (10 * STEP + 2 * more_ms) * MS, .run_ns = MS};
	struct err e = {0};
	struct timeline timeline;
	struct advice ret;
	memset(steps, 0, sizeof(steps));
	for (uint64_t i = 0, at = 0; i < 10; i++) {
		steps[i].start_ns = at;
		at += STEP * MS + (i == 0 || i == 5 ? more_ms * MS : 0);
		steps[i].end_ns = at;
		steps[i].phase_ns[STEPS_LOAD] = load_ms * MS;
	}
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&timeline, rec_source(reader), &(struct timeline_options){0});
	advice_make(&ret, rec_source(reader), &timeline,
		    &(struct advice_loop){.main = &main,
					  .loop = &main,
					  .steps = steps,
					  .count = 10,
					  .until_a_batch = until_a_batch});
	timeline_free(&timeline);
	return ret;
}

static struct advice advise(uint64_t load_ms, uint64_t more_ms)
{
	return advise_as(load_ms, more_ms, true);
}

#define LOADER "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py"

static void what_a_worker_did_while_it_was_waited_for(void **state)
{
	(void)state;
	create();
	uint32_t in_loader = frame(0, "_worker_loop", LOADER, 300);
	uint32_t item = frame(in_loader, "Samples.__getitem__", "/job/train.py", 30);
	uint32_t decode = frame(item, "decode", "/job/train.py", 12);
	uint32_t inner = frame(item, "decode.<locals>.<listcomp>", "/job/train.py", 13);
	uint32_t train = frame(0, "train", "/job/train.py", 50);
	for (uint64_t at = 0; at < 10 * STEP; at += STEP) {
		wait(0, WAIT_POLL, at, at + 16, 8); /* for the child */
		samples(0, at + 16, at + 20, train);
		samples(1, at, at + 2, item);
		samples(1, at + 2, at + 6, decode);
		samples(1, at + 6, at + 12, inner);
		wait(1, WAIT_DISK, at + 12, at + 16, 0);
		wait(1, WAIT_PIPE, at + 16, at + 20, JOB); /* for work */
	}
	samples(1, 10 * STEP, 10 * STEP + 1, item);
	struct advice a = advise(16, 0);
	is_about(a.step_ns, STEP * MS);
	is_about(a.parts[ADVICE_LOADING].data_wall_ns, 160 * MS);
	is_about(a.parts[ADVICE_LOADING].data_ns[BLAME_DISK], 40 * MS);
	is_about(a.parts[ADVICE_WORKING].wall_ns, 40 * MS);
	assert_int_equal(a.workers.count, 1);
	assert_int_equal(a.workers.pids[0], 8);
	is_about(a.workers.run_ns, 119.5 * MS); /* from its first sample on */
	is_about(a.workers.wait_ns, 40 * MS);
	is_about(a.code[ADVICE_CHILD].ns, 100 * MS); /* what it defines within itself is its own */
	assert_int_equal(a.code[ADVICE_CHILD].line, 13);
	assert_int_equal(a.code[ADVICE_LOOP].line, 50);
	assert_false(a.fetches);
	rec_close(reader);
}

/* Each step waits for a worker that decodes for 4 ms until its batch is there, and for one that
 * does for 10 ms later, as an evaluation would. */
static void waits_in_both_parts(void)
{
	create();
	uint32_t item = frame(0, "Samples.__getitem__", "/job/train.py", 30);
	uint32_t decode = frame(item, "decode", "/job/train.py", 12);
	for (uint64_t at = 0; at < 10 * STEP; at += STEP) {
		wait(0, WAIT_POLL, at, at + 4, 8);
		wait(0, WAIT_POLL, at + 8, at + 18, 9);
		samples(1, at, at + 4, decode);
		samples(2, at + 8, at + 18, item);
	}
}

static void what_workers_did_for_the_loops_batches_alone(void **state)
{
	(void)state;
	waits_in_both_parts();
	struct advice a = advise(4, 0);
	assert_int_equal(a.batches, ADVICE_LOADING);
	is_about(a.parts[a.batches].data_wall_ns, 40 * MS);
	is_about(a.code[ADVICE_CHILD].ns, 40 * MS);
	assert_int_equal(a.code[ADVICE_CHILD].line, 12);
	rec_close(reader);
	waits_in_both_parts();
	a = advise_as(4, 0, false); /* when a step has its batch is not known */
	assert_int_equal(a.batches, ADVICE_WORKING);
	is_about(a.parts[a.batches].data_wall_ns, 140 * MS);
	is_about(a.code[ADVICE_CHILD].ns, 100 * MS);
	assert_int_equal(a.code[ADVICE_CHILD].line, 30);
	rec_close(reader);
}

static void the_loops_own_code_is_not_pytorchs(void **state)
{
	(void)state;
	create();
	uint32_t train = frame(0, "train", "/job/train.py", 50);
	uint32_t count = frame(train, "count", "/job/train.py", 20);
	uint32_t model = frame(train, "forward", "/usr/lib/python3/dist-packages/torch/nn/m.py", 1);
	uint32_t next = frame(train, "__next__",
			      "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py", 1);
	uint32_t item = frame(next, "Samples.__getitem__", "/job/train.py", 30);
	for (uint64_t at = 0; at < 10 * STEP; at += STEP) {
		samples(0, at, at + 4, item);
		samples(0, at + 4, at + 5, next);
		samples(0, at + 5, at + 17, model);
		samples(0, at + 17, at + 20, count);
	}
	struct advice a = advise(5, 0);
	is_about(a.code[ADVICE_LOOP].ns, 30 * MS);
	assert_int_equal(a.code[ADVICE_LOOP].line, 20);
	is_about(a.code[ADVICE_FETCH].ns, 40 * MS);
	assert_int_equal(a.code[ADVICE_FETCH].line, 30);
	assert_true(a.fetches && !a.workers.count);
	rec_close(reader);
}

static void steps_that_save_are_longer(void **state)
{
	(void)state;
	create();
	uint32_t train = frame(0, "train", "/job/train.py", 50);
	uint32_t keep = frame(train, "keep", "/job/train.py", 60);
	uint32_t save = frame(keep, "save", "/usr/lib/python3/torch/serialization.py", 400);
	samples(0, 0, 15, train);
	samples(0, 15, 23, save);
	samples(0, 23, 123, train);
	samples(0, 123, 131, save);
	samples(0, 131, 216, train);
	struct advice a = advise(0, 8);
	assert_int_equal(a.saves.count, 2);
	assert_int_equal(a.saves.at.line, 60);
	is_about(a.saves.ns, 16 * MS);
	rec_close(reader);
}

static void imports_that_nothing_uses(void **state)
{
	(void)state;
	create();
	static const char dist[] = "/usr/lib/python3/dist-packages/";
	char big[80], used[80];
	snprintf(big, sizeof(big), "%sbig/__init__.py", dist);
	snprintf(used, sizeof(used), "%sused/__init__.py", dist);
	uint32_t script = frame(0, "<module>", "/job/train.py", 3);
	uint32_t find = frame(script, "_find_and_load", "<frozen importlib._bootstrap>", 1);
	uint32_t module = frame(find, "<module>", big, 10);
	uint32_t nested = frame(frame(module, "_find_and_load", "<frozen importlib._bootstrap>", 1),
				"<module>", used, 1);
	samples(0, 0, 50, module);
	samples(0, 50, 80, nested); /* would be imported anyway */
	samples(0, 80, 90, frame(script, "work", used, 7));
	struct advice a = advise(0, 0);
	assert_string_equal(a.import.package, "big");
	assert_int_equal(a.import.at.line, 3);
	is_about(a.import.at.ns, 50 * MS);
	rec_close(reader);
}

/* Each step waits 16 ms for another rank, which ran for 5 of them, could run and had no CPU for 8,
 * and was woken late by 3; and then that for this one, likewise. */
static void a_rank_that_had_no_cpu_has_no_more_to_do(void **state)
{
	(void)state;
	create();
	rec_put_process(w, &(struct m_process){.pid = 10, .parent_pid = 1, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){10, 10, 0});
	for (uint64_t at = 0; at < 10 * STEP; at += STEP) {
		wait(0, WAIT_NETWORK, at, at + 16, 10);
		wait(3, WAIT_PREEMPTED, at + 5, at + 13, 0);
		rec_put_wait(w, &(struct m_wait){.start_ns = (at + 13) * MS,
						 .end_ns = (at + 16) * MS,
						 .runnable_ns = 3 * MS,
						 .thread = 3,
						 .syscall = 202,
						 .reason = WAIT_SLEEP});
		wait(0, WAIT_PREEMPTED, at + 17, at + 19, 0);
		wait(3, WAIT_NETWORK, at + 16, at + 20, JOB);
	}
	struct advice a = advise(0, 0);
	assert_int_equal(a.peer.pid, 10);
	is_about(a.parts[ADVICE_WORKING].peers_ns, 160 * MS);
	is_about(a.peer.ns, (50 - 20) * MS); /* of this one's: 2 of 4 without a CPU */
	rec_close(reader);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, NULL, NULL)
	const struct CMUnitTest tests[] = {
		T(workers_that_wait),
		T(workers_that_compute_are_no_faster_than_cpus),
		T(others_want_the_cpus_too),
		T(shorter_batches),
		T(how_often_to_save),
		T(what_a_worker_did_while_it_was_waited_for),
		T(what_workers_did_for_the_loops_batches_alone),
		T(the_loops_own_code_is_not_pytorchs),
		T(steps_that_save_are_longer),
		T(imports_that_nothing_uses),
		T(a_rank_that_had_no_cpu_has_no_more_to_do),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

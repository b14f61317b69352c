/* blame_test.c - whose the time of slow stretches is, from recordings made by hand.
 * links: analyze recording base golden */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "analyze/blame.h"
#include "golden/counters.h"
#include "golden/gpu_sample.h"
#include "recording/recording.h"
#include "wire/stalls.h"
#include "made_file.h"

#define MS    1000000ULL
#define JOB   7
#define OTHER 40
#define TICK  (1 * MS)

static struct rec_writer *w;
static struct rec_reader *reader;
static struct timeline timeline;
static struct blame_world *world;

/* Threads: 0 the main one of the job, 1 another of it, 2 of its child 8, 3 of another's process. */
static void create(void)
{
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	rec_put_process(w, &(struct m_process){.pid = JOB, .parent_pid = 1, .start_ns = 1});
	rec_put_process(w, &(struct m_process){.pid = 8, .parent_pid = JOB, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){JOB, JOB, 0});
	rec_add_thread(w, &(struct m_thread){JOB, 9, 0});
	rec_add_thread(w, &(struct m_thread){8, 8, 0});
}

static void wait(uint32_t thread, uint8_t reason, uint64_t from_ms, uint64_t to_ms, uint32_t waker)
{
	rec_put_wait(w, &(struct m_wait){.start_ns = from_ms * MS,
					 .end_ns = to_ms * MS,
					 .thread = thread,
					 .syscall = 202,
					 .waker_pid = waker == 9 ? JOB : waker,
					 .waker_tid = waker,
					 .reason = reason});
}

static void ready_for(uint32_t thread, uint64_t from_ms, uint64_t to_ms, uint32_t rival,
		      uint32_t leader)
{
	rec_put_wait(
		w, &(struct m_wait){.start_ns = from_ms * MS,
				    .end_ns = to_ms * MS,
				    .thread = thread,
				    .runnable_ns = (to_ms - from_ms) * MS,
				    .rival_pid = rival,
				    .rival = rival ? (uint32_t)rec_string_z(w, "hog") : 0,
				    .rival_leader_pid = leader,
				    .rival_leader = leader ? (uint32_t)rec_string_z(w, "make") : 0,
				    .syscall = -1,
				    .reason = WAIT_PREEMPTED});
}

static void ready(uint32_t thread, uint64_t from_ms, uint64_t to_ms, uint32_t rival)
{
	ready_for(thread, from_ms, to_ms, rival, 0);
}

static void stall(uint8_t kind, uint64_t from_ms, uint64_t to_ms)
{
	rec_put_stall(w, &(struct m_stall){.start_ns = from_ms * MS,
					   .end_ns = to_ms * MS,
					   .own_ns = (to_ms - from_ms) * MS,
					   .kind = kind});
}

static uint32_t line(const char *function, uint32_t number)
{
	uint32_t frame = rec_add_frame(
		w, &(struct m_frame){.kind = FRAME_PYTHON,
				     .name = (uint32_t)rec_string_z(w, function),
				     .file = (uint32_t)rec_string_z(w, "/job/train.py"),
				     .line = number});
	return rec_add_stack(w, &(struct m_stack){0, frame});
}

/* A tick each millisecond. */
static void samples(uint32_t thread, uint64_t from_ms, uint64_t to_ms, uint32_t stack)
{
	for (uint64_t at = from_ms; at < to_ms; at++)
		rec_put_sample(w, &(struct m_sample){.time_ns = at * MS + MS / 2,
						     .weight_ns = TICK,
						     .thread = thread,
						     .stack = stack});
}

static void open_world(void)
{
	struct err e = {0};
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&timeline, rec_source(reader), &(struct timeline_options){0});
	world = blame_world_new(rec_source(reader), &timeline);
}

static void done(struct blame *b)
{
	blame_free(b);
	blame_world_free(world);
	timeline_free(&timeline);
	rec_close(reader);
}

static double sum_of(const struct blame *b)
{
	double ns = b->unexplained_ns;
	for (size_t i = 0; i < b->parts.len; i++)
		ns += b->parts.data[i].ns;
	return ns;
}

static const struct blame_part *part(const struct blame *b, enum blame_kind kind,
				     enum blame_via via)
{
	for (size_t i = 0; i < b->parts.len; i++)
		if (b->parts.data[i].owner.kind == kind && b->parts.data[i].owner.via == via)
			return &b->parts.data[i];
	fail_msg("no part of kind %d by %d", kind, via);
	return NULL;
}

static void is_about(double ns, double want_ms, double within_ms)
{
	if (ns < (want_ms - within_ms) * MS || ns > (want_ms + within_ms) * MS)
		fail_msg("%.3f ms, wanted %.3f", ns / MS, want_ms);
}

/* One slow stretch 200..400 by a usual one 0..100. */
static struct blame blame_it(void)
{
	const struct blame_span usual = {0, 0, 100 * MS, 0};
	const struct blame_span slow = {0, 200 * MS, 400 * MS, 100.0 * MS};
	struct blame ret;
	open_world();
	struct blame_usual *u = blame_usual_new(world, &usual, 1);
	blame_make(&ret, NULL, world, &slow, 1, u);
	blame_usual_free(u);
	is_about(sum_of(&ret), 100, 0.01);
	return ret;
}

/* Of a process it is known by itself which of its threads had the CPU: who was seen running. */
static void what_ran_on_its_own_cpu(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	samples(1, 310, 350, line("compute", 27));
	samples(2, 350, 400, line("load", 3)); /* of another process */
	ready(0, 300, 350, JOB);
	ready(0, 350, 360, JOB);
	ready(0, 360, 400, 8);
	struct blame b = blame_it();
	double seen = 0, all = 0;
	for (size_t i = 0; i < b.parts.len; i++) {
		const struct blame_part *p = &b.parts.data[i];
		if (p->owner.kind != BLAME_SIBLING)
			continue;
		all += p->ns;
		seen += p->owner.frame != BLAME_NO_FRAME ? p->ns : 0;
	}
	is_about(all, 100, 0.01);
	is_about(seen, 50, 0.01);
	done(&b);
}

static void who_had_the_cpu(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	ready(0, 300, 370, OTHER);
	ready(0, 370, 390, 0);
	ready(0, 390, 400, JOB);
	struct blame b = blame_it();
	is_about(part(&b, BLAME_RIVAL, VIA_ITSELF)->ns, 70, 0.01);
	assert_int_equal(part(&b, BLAME_RIVAL, VIA_ITSELF)->owner.pid, OTHER);
	is_about(part(&b, BLAME_NO_CPU, VIA_ITSELF)->ns, 20, 0.01);
	is_about(part(&b, BLAME_SIBLING, VIA_ITSELF)->ns, 10, 0.01);
	done(&b);
}

/* A recording may say that all orphans are of PID 1. */
static void the_first_process_leads_nobody(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	ready_for(0, 300, 370, OTHER, 1);
	ready_for(0, 370, 400, OTHER + 1, 30);
	struct blame b = blame_it();
	size_t rivals = 0;
	for (size_t i = 0; i < b.parts.len; i++) {
		const struct blame_owner *o = &b.parts.data[i].owner;
		if (o->kind != BLAME_RIVAL)
			continue;
		rivals++;
		assert_int_equal(o->leader_pid, o->pid == OTHER ? 0 : 30);
		assert_int_equal(o->leader != 0, o->pid != OTHER);
	}
	assert_int_equal(rivals, 2);
	done(&b);
}

static void the_line_that_ran_longer(void **state)
{
	(void)state;
	create();
	uint32_t forward = line("forward", 10), backward = line("backward", 20);
	samples(0, 0, 50, forward);
	samples(0, 50, 100, backward);
	samples(0, 200, 350, forward);
	samples(0, 350, 400, backward);
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_RUNS, VIA_ITSELF);
	assert_int_equal(rec_tables(reader)->frames.data[p->owner.frame].line, 10);
	is_about(p->ns, 100, 1);
	done(&b);
}

static void all_lines_alike_are_none(void **state)
{
	(void)state;
	create();
	uint32_t lines[] = {line("a", 1), line("b", 2), line("c", 3), line("d", 4)};
	for (uint64_t i = 0; i < 4; i++) {
		samples(0, 25 * i, 25 * (i + 1), lines[i]);
		samples(0, 200 + 50 * i, 200 + 50 * (i + 1), lines[i]);
	}
	struct blame b = blame_it();
	is_about(part(&b, BLAME_SPREAD, VIA_ITSELF)->ns, 100, 1);
	assert_int_equal(b.parts.len, 1);
	done(&b);
}

/* What the thread that ended a wait did meanwhile: it could run, and was kept from it. */
static void along_what_was_waited_for(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_POLL, 300, 400, 8);
	wait(2, WAIT_DISK, 300, 360, 0);
	samples(2, 360, 400, line("read_batch", 30));
	struct blame b = blame_it();
	is_about(part(&b, BLAME_DISK, VIA_DATA)->ns, 60, 0.01);
	assert_int_equal(part(&b, BLAME_DISK, VIA_DATA)->owner.frame, BLAME_NO_FRAME);
	const struct blame_part *p = part(&b, BLAME_RUNS, VIA_DATA);
	is_about(p->ns, 40, 0.01);
	assert_int_equal(rec_tables(reader)->frames.data[p->owner.frame].line, 30);
	done(&b);
}

/* Many of one name, each too short for samples, which wait for their files too: it is not asked
 * what they did. */
static void compilers_that_it_waited_for(void **state)
{
	enum { FIRST = 60, N = 10 };
	(void)state;
	create();
	uint32_t comm = (uint32_t)rec_string_z(w, "ptxas");
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	for (uint32_t i = 0; i < N; i++) {
		rec_put_process(w, &(struct m_process){
					   .pid = FIRST + i,
					   .parent_pid = JOB,
					   .start_ns = 1,
					   .command = (uint32_t)rec_string_z(w, "/usr/bin/ptxas"),
					   .comm = comm});
		uint32_t thread = rec_add_thread(w, &(struct m_thread){FIRST + i, FIRST + i, comm});
		wait(0, WAIT_PIPE, 300 + 10 * i, 310 + 10 * i, FIRST + i);
		wait(thread, WAIT_DISK, 300 + 10 * i, 304 + 10 * i, 0);
	}
	samples(4, 314, 315, line("main", 30));
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_COMPILES, VIA_DATA);
	is_about(p->ns, 100, 0.01);
	assert_int_equal(b.parts.len, 1);
	assert_int_equal(p->owner.frame, BLAME_NO_FRAME);
	assert_int_equal(p->owner.thread, 3);
	assert_true(p->owner.pool);
	done(&b);
}

/* A number that a compiler had once is another process's now. */
static void a_compiler_of_before(void **state)
{
	(void)state;
	create();
	uint32_t ld = (uint32_t)rec_string_z(w, "/usr/bin/ld");
	rec_put_process(
		w, &(struct m_process){.pid = 61, .parent_pid = JOB, .start_ns = 1, .command = ld});
	rec_put_process(w, &(struct m_process){.pid = 61,
					       .parent_pid = JOB,
					       .start_ns = 150 * MS,
					       .command = (uint32_t)rec_string_z(w, "/job/load")});
	uint32_t thread = rec_add_thread(w, &(struct m_thread){61, 61, 0});
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_PIPE, 300, 400, 61);
	wait(thread, WAIT_DISK, 300, 400, 0);
	struct blame b = blame_it();
	is_about(part(&b, BLAME_DISK, VIA_DATA)->ns, 100, 0.01);
	done(&b);
}

/* From 300 on the main thread waits for one thread after another, each of which runs the same line
 * meanwhile; tids from 20 on. */
static void released_by(uint32_t threads)
{
	create();
	uint32_t frame =
		rec_add_frame(w, &(struct m_frame){.kind = FRAME_NATIVE,
						   .name = (uint32_t)rec_string_z(w, "spins")});
	uint32_t stack = rec_add_stack(w, &(struct m_stack){0, frame});
	uint32_t pool = (uint32_t)rec_string_z(w, "pool");
	for (uint32_t i = 0; i < threads; i++) {
		uint32_t thread = rec_add_thread(w, &(struct m_thread){JOB, 20 + i, pool});
		uint64_t from = 300 + 100 * i / threads, to = 300 + 100 * (i + 1) / threads;
		rec_put_wait(w, &(struct m_wait){.start_ns = from * MS,
						 .end_ns = to * MS,
						 .thread = 0,
						 .syscall = 202,
						 .waker_pid = JOB,
						 .waker_tid = 20 + i,
						 .reason = WAIT_FUTEX});
		samples(thread, from, to, stack);
	}
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
}

static uint32_t native(uint32_t parent, const char *name, const char *library)
{
	uint32_t frame =
		rec_add_frame(w, &(struct m_frame){.kind = FRAME_NATIVE,
						   .name = (uint32_t)rec_string_z(w, name),
						   .library = (uint32_t)rec_string_z(w, library)});
	return rec_add_stack(w, &(struct m_stack){parent, frame});
}

static void assert_runs(uint32_t stack, const char *name)
{
	rec_put_wait(w, &(struct m_wait){.start_ns = 300 * MS,
					 .end_ns = 400 * MS,
					 .thread = 0,
					 .syscall = 202,
					 .waker_pid = JOB,
					 .waker_tid = 20,
					 .reason = WAIT_FUTEX});
	samples(rec_add_thread(w, &(struct m_thread){JOB, 20, 0}), 300, 400, stack);
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	struct blame b = blame_it();
	const struct rec_tables *t = rec_tables(reader);
	const struct blame_part *p = part(&b, BLAME_RUNS, VIA_LOCK);
	assert_string_equal(strtab_get(&t->strings, t->frames.data[p->owner.frame].name, NULL),
			    name);
	done(&b);
}

/* Not what everybody calls, but who called it; what runs nothing else keeps its name. */
static void functions_of_libc_are_their_callers(void **state)
{
	(void)state;
	create();
	uint32_t starts = native(0, "start_thread", "/lib/libc.so.6");
	uint32_t spins = native(starts, "spins", "/job/libjob.so");
	assert_runs(native(native(spins, "clock_gettime", "/lib/libc.so.6"), "__vdso_clock_gettime",
			   "[vdso]"),
		    "spins");
	create();
	starts = native(0, "start_thread", "/lib/libc.so.6");
	assert_runs(native(starts, "memcpy", "/lib/libc.so.6"), "memcpy");
	create();
	spins = native(0, "spins", "/job/libcrypt.so"); /* not of it */
	assert_runs(native(spins, "turns", "/job/libcrypt.so"), "turns");
}

/* What threads of a pool did is seen together. */
static void threads_of_a_pool_are_one(void **state)
{
	(void)state;
	released_by(10);
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_RUNS, VIA_LOCK);
	is_about(p->ns, 100, 0.01);
	assert_int_equal(p->owner.pool, 1);
	assert_int_equal(rec_tables(reader)->threads.data[p->owner.thread].tid, 20);
	const struct rec_tables *t = rec_tables(reader);
	assert_string_equal(strtab_get(&t->strings, t->frames.data[p->owner.frame].name, NULL),
			    "spins");
	done(&b);
}

static void few_threads_are_no_pool(void **state)
{
	(void)state;
	released_by(5);
	struct blame b = blame_it();
	assert_int_equal(b.parts.len, 5);
	for (size_t i = 0; i < b.parts.len; i++) {
		const struct blame_owner *o = &b.parts.data[i].owner;
		assert_int_equal(o->via, VIA_LOCK);
		is_about(b.parts.data[i].ns, 20, 0.01);
		assert_int_equal(o->pool, 0);
	}
	done(&b);
}

/* The interpreter's lock: a timer ends the wait, and another thread runs Python meanwhile. */
static void who_held_the_lock(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	for (uint64_t at = 300; at < 400; at += 5)
		wait(0, WAIT_FUTEX, at, at + 5, 0);
	samples(1, 300, 400, line("compute", 50));
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_RUNS, VIA_GIL);
	is_about(p->ns, 100, 0.01);
	assert_int_equal(p->owner.thread, 1);
	done(&b);
}

#define STOPPER 55

/* A thread of the job is stopped by a signal of another process's. */
static void stopped(uint32_t thread, uint64_t from_ms, uint64_t to_ms)
{
	rec_put_wait(w, &(struct m_wait){.start_ns = from_ms * MS,
					 .end_ns = to_ms * MS,
					 .thread = thread,
					 .syscall = 202,
					 .waker_pid = STOPPER,
					 .waker_tid = STOPPER,
					 .rival_pid = STOPPER,
					 .rival = (uint32_t)rec_string_z(w, "kill"),
					 .reason = WAIT_STOPPED});
}

static bool has_part(const struct blame *b, enum blame_kind kind)
{
	for (size_t i = 0; i < b->parts.len; i++)
		if (b->parts.data[i].owner.kind == kind)
			return true;
	return false;
}

/* Thread 0 waits for what thread 1 computes, and both are stopped for 60 ms of 100. */
static void is_stopped_and_waits_for_the_other(double stopped_ms, double runs_ms)
{
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_STOPPED, VIA_ITSELF);
	is_about(p->ns, stopped_ms, 0.01);
	assert_int_equal(p->owner.pid, STOPPER);
	p = part(&b, BLAME_RUNS, VIA_LOCK);
	is_about(p->ns, runs_ms, 0.01);
	assert_int_equal(p->owner.thread, 1);
	assert_false(has_part(&b, BLAME_LOCK));
	assert_false(has_part(&b, BLAME_POLL));
	assert_false(has_part(&b, BLAME_NETWORK));
	done(&b);
}

static void create_stopped(void)
{
	create();
	uint32_t computes = native(0, "computes", "libjob.so");
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	samples(1, 300, 320, computes);
	stopped(0, 320, 380);
	stopped(1, 320, 380);
	samples(1, 380, 400, computes);
}

/* The stop ends the wait, by whoever sent the signal or the thread that heard of it first; who ends
 * it once it goes on ends all of it. */
static void a_stop_cuts_a_wait(void **state)
{
	static const uint32_t by[] = {STOPPER, 0, 7};
	(void)state;
	for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
		create_stopped();
		wait(0, WAIT_FUTEX, 300, 320, by[i]);
		wait(0, WAIT_FUTEX, 380, 400, 9);
		is_stopped_and_waits_for_the_other(60, 40);
	}
}

static void a_stop_cuts_a_wait_for_events_in_slices(void **state)
{
	(void)state;
	create_stopped();
	wait(0, WAIT_POLL, 300, 310, 0);
	wait(0, WAIT_POLL, 310, 320, STOPPER);
	wait(0, WAIT_POLL, 380, 390, 0);
	wait(0, WAIT_POLL, 390, 400, 9);
	put_counter_of(w, 1, "pid 7", "net_sent_bytes", 1);
	is_stopped_and_waits_for_the_other(60, 40);
}

/* A wait with an end goes on in another system call. */
static void a_stop_cuts_a_wait_with_an_end(void **state)
{
	(void)state;
	create_stopped();
	wait(0, WAIT_FUTEX, 300, 320, STOPPER);
	rec_put_wait(w, &(struct m_wait){.start_ns = 380 * MS,
					 .end_ns = 400 * MS,
					 .syscall = 219,
					 .waker_pid = JOB,
					 .waker_tid = 9,
					 .reason = WAIT_OTHER});
	is_stopped_and_waits_for_the_other(60, 40);
}

static void restarted(uint64_t from_ms, uint64_t to_ms, uint32_t by_pid, uint32_t by_tid)
{
	rec_put_wait(w, &(struct m_wait){.start_ns = from_ms * MS,
					 .end_ns = to_ms * MS,
					 .syscall = 219,
					 .waker_pid = by_pid,
					 .waker_tid = by_tid,
					 .reason = WAIT_OTHER});
}

static void two_stops_cut_a_wait_with_an_end(void **state)
{
	(void)state;
	create();
	uint32_t computes = native(0, "computes", "libjob.so");
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_FUTEX, 300, 320, STOPPER);
	restarted(340, 360, STOPPER, STOPPER);
	restarted(380, 400, JOB, 9);
	for (uint64_t at = 300; at < 400; at += 40) {
		samples(1, at, at + 20, computes);
		if (at < 380) {
			stopped(0, at + 20, at + 40);
			stopped(1, at + 20, at + 40);
		}
	}
	is_stopped_and_waits_for_the_other(40, 60);
}

/* What it waited for had come before it ran again: nobody knows by whom. */
static void a_wait_that_a_stop_ended(void **state)
{
	(void)state;
	create_stopped();
	wait(0, WAIT_FUTEX, 300, 310, 0);
	wait(0, WAIT_FUTEX, 310, 320, 7);
	uint32_t forward = line("forward", 10);
	samples(0, 380, 400, forward);
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_STOPPED, VIA_ITSELF);
	assert_true(p->ns >= 69.9 * MS);
	assert_int_equal(p->owner.pid, STOPPER);
	done(&b);
}

/* It had waited for longer than the stop lasted before that came: that was for somebody else. */
static void a_short_stop_behind_a_long_wait(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 220, line("forward", 10));
	stopped(0, 380, 390);
	stopped(1, 380, 390);
	wait(0, WAIT_FUTEX, 220, 380, 0);
	samples(0, 390, 400, line("forward", 10));
	struct blame b = blame_it();
	assert_true(part(&b, BLAME_STOPPED, VIA_ITSELF)->ns < 11 * MS);
	assert_true(has_part(&b, BLAME_LOCK));
	done(&b);
}

/* Of a wait that a child ended that is known: it was no stop. */
static void a_child_ended_the_wait_before_the_stop(void **state)
{
	(void)state;
	create_stopped();
	wait(0, WAIT_POLL, 300, 320, 8);
	wait(2, WAIT_DISK, 290, 320, 0);
	samples(0, 380, 400, line("forward", 10));
	struct blame b = blame_it();
	is_about(part(&b, BLAME_DISK, VIA_DATA)->ns, 20, 0.01);
	is_about(part(&b, BLAME_STOPPED, VIA_ITSELF)->ns, 60, 0.01);
	done(&b);
}

/* A wait a while after a stop may be another: it says nothing of who ended that before it. */
static void a_wait_after_a_stop_may_be_another(void **state)
{
	(void)state;
	create_stopped();
	wait(0, WAIT_FUTEX, 300, 320, STOPPER);
	samples(0, 380, 385, line("forward", 10));
	wait(0, WAIT_FUTEX, 385, 400, 9);
	is_stopped_and_waits_for_the_other(80, 15);
}

/* What the kernel did while the thread had its CPU, or slept for it. */
static void what_the_kernel_took(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 400, line("forward", 10));
	stall(STALL_SOFTIRQ, 300, 330);
	stall(STALL_INTERRUPT, 320, 340); /* within the softirq, in part */
	stall(STALL_RECLAIM, 350, 400);
	wait(0, WAIT_PAGE_FAULT, 360, 370, 0);
	struct blame b = blame_it();
	is_about(part(&b, BLAME_INTERRUPTED, VIA_ITSELF)->ns, 40, 0.01);
	is_about(part(&b, BLAME_RECLAIMS, VIA_ITSELF)->ns, 50, 0.01);
	done(&b);
}

/* Samples are taken in interrupts, whose time is not their line's. */
static void samples_in_interrupts_count(void **state)
{
	(void)state;
	create();
	uint32_t forward = line("forward", 10), churn = line("churn", 20);
	samples(0, 0, 100, forward);
	samples(0, 200, 300, forward);
	for (uint64_t at = 301; at < 400; at += 2) {
		samples(0, at, at + 1, churn);
		stall(STALL_INTERRUPT, at, at + 1);
	}
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_RUNS, VIA_ITSELF);
	assert_int_equal(rec_tables(reader)->frames.data[p->owner.frame].line, 20);
	is_about(p->ns, 50, 1);
	is_about(part(&b, BLAME_INTERRUPTED, VIA_ITSELF)->ns, 50, 1);
	done(&b);
}

/* Where stacks of waits were recorded. */
static void the_line_that_slept(void **state)
{
	(void)state;
	create();
	uint32_t pause = line("pause", 60);
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_SLEEP, 300, 400, 0);
	rec_put_sample(w, &(struct m_sample){.time_ns = 400 * MS + 1000,
					     .weight_ns = 100 * MS,
					     .stack = pause,
					     .kind = SAMPLE_OFFCPU,
					     .reason = WAIT_SLEEP});
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_SLEEP, VIA_ITSELF);
	is_about(p->ns, 100, 0.01);
	assert_int_equal(rec_tables(reader)->frames.data[p->owner.frame].line, 60);
	done(&b);
}

static void wait_in_driver(uint32_t thread, uint8_t reason, uint64_t from_ms, uint64_t to_ms,
			   uint32_t waker_pid, uint32_t waker_tid)
{
	rec_put_wait(w, &(struct m_wait){.start_ns = from_ms * MS,
					 .end_ns = to_ms * MS,
					 .thread = thread,
					 .waker_pid = waker_pid,
					 .waker_tid = waker_tid,
					 .reason = reason});
	rec_put_sample(w, &(struct m_sample){.time_ns = to_ms * MS,
					     .weight_ns = (to_ms - from_ms) * MS,
					     .thread = thread,
					     .stack = line("wait", 70),
					     .kind = SAMPLE_OFFCPU,
					     .reason = WAIT_GPU});
}

/* Who waits in the GPU's driver waits for the GPU, if the driver's own thread ended that; another
 * thread that did had one of the driver's locks. */
static void through_a_thread_that_waits_for_the_gpu(void **state)
{
	(void)state;
	create();
	rec_add_thread(w, &(struct m_thread){JOB, 11, rec_string_z(w, "cuda-EvtHandlr")});
	uint32_t other = rec_add_thread(w, &(struct m_thread){JOB, 12, rec_string_z(w, "worker")});
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_FUTEX, 300, 400, 9);
	wait_in_driver(1, WAIT_FUTEX, 300, 360, JOB, 11);
	wait_in_driver(1, WAIT_FUTEX, 360, 400, JOB, 12);
	samples(other, 360, 400, line("submit", 80));
	struct blame b = blame_it();
	is_about(part(&b, BLAME_GPU, VIA_LOCK)->ns, 60, 0.01);
	is_about(part(&b, BLAME_RUNS, VIA_LOCK)->ns, 40, 0.01);
	done(&b);
}

/* What the kernel knows for sure stays that, though the stack ends in the driver. */
static void the_driver_waits_for_more_than_the_gpu(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait_in_driver(0, WAIT_DISK, 300, 330, 0, 0);
	wait_in_driver(0, WAIT_STOPPED, 330, 350, 0, 0);
	wait_in_driver(0, WAIT_FUTEX, 350, 380, 99, 99); /* by whom nothing is known of */
	wait_in_driver(0, WAIT_POLL, 380, 400, 0, 0);
	struct blame b = blame_it();
	is_about(part(&b, BLAME_DISK, VIA_ITSELF)->ns, 30, 0.01);
	is_about(part(&b, BLAME_STOPPED, VIA_ITSELF)->ns, 20, 0.01);
	is_about(part(&b, BLAME_LOCK, VIA_ITSELF)->ns, 30, 0.01);
	is_about(part(&b, BLAME_GPU, VIA_ITSELF)->ns, 20, 0.01);
	done(&b);
}

/* What shrank was waited for anyway: the parts are smaller, and add up. */
static void what_was_absorbed(void **state)
{
	(void)state;
	create();
	samples(0, 0, 50, line("forward", 10));
	wait(0, WAIT_SLEEP, 50, 100, 0);
	samples(0, 200, 250, line("forward", 10));
	ready(0, 250, 400, OTHER);
	struct blame b = blame_it();
	is_about(part(&b, BLAME_RIVAL, VIA_ITSELF)->ns, 100, 0.01);
	is_about(part(&b, BLAME_RIVAL, VIA_ITSELF)->whole_ns, 150, 0.01);
	is_about(b.absorbed_ns, 50, 0.01);
	done(&b);
}

/* Threads that end each other's waits are no endless walk. */
static void circles_end(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_FUTEX, 300, 400, 9);
	wait(1, WAIT_FUTEX, 290, 400, JOB);
	struct blame b = blame_it();
	is_about(part(&b, BLAME_LOCK, VIA_LOCK)->ns, 100, 0.01);
	done(&b);
}

static void steps_add_up_one_by_one(void **state)
{
	(void)state;
	const struct blame_span usual[] = {{0, 0, 50 * MS, 0}, {0, 50 * MS, 100 * MS, 0}};
	const struct blame_span slow[] = {{0, 200 * MS, 300 * MS, 50.0 * MS},
					  {0, 300 * MS, 400 * MS, 50.0 * MS}};
	struct blame b, each[2];
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 250, line("forward", 10));
	samples(0, 250, 260, line("other", 11));
	ready(0, 260, 300, OTHER);
	samples(0, 300, 350, line("forward", 10));
	wait(0, WAIT_DISK, 350, 400, 0);
	open_world();
	struct blame_usual *u = blame_usual_new(world, usual, 2);
	blame_make(&b, each, world, slow, 2, u);
	is_about(sum_of(&b), 100, 0.01);
	is_about(sum_of(&each[0]), 50, 0.01);
	is_about(sum_of(&each[1]), 50, 0.01);
	is_about(part(&each[0], BLAME_RIVAL, VIA_ITSELF)->ns, 40, 0.5);
	is_about(part(&each[1], BLAME_DISK, VIA_ITSELF)->ns, 50, 0.5);
	blame_free(&each[0]);
	blame_free(&each[1]);
	blame_usual_free(u);
	done(&b);
}

static void without_samples_running_is_unexplained(void **state)
{
	(void)state;
	create();
	wait(0, WAIT_SLEEP, 50, 100, 0);
	wait(0, WAIT_SLEEP, 250, 300, 0);
	struct blame b = blame_it();
	is_about(b.unexplained_ns, 100, 0.01);
	assert_int_equal(b.parts.len, 0);
	done(&b);
}

/* ---- paths ---- */

#define US 1000ULL

/* Of the stretch 200..400; what is left out with it makes it whole. */
static struct blame_path path_of(uint64_t least_ns, size_t most)
{
	struct blame_path p = {.least_ns = least_ns, .most = most};
	uint64_t at = 200 * MS;
	open_world();
	blame_path_add(&p, world, 0, at, 400 * MS);
	for (size_t i = 0; i < p.pieces.len; i++) {
		assert_int_equal(p.pieces.data[i].from_ns, at);
		assert_true(p.pieces.data[i].to_ns > at);
		at = p.pieces.data[i].to_ns;
	}
	assert_int_equal(at + p.left_out_ns, 400 * MS);
	assert_int_equal(p.left_out != 0, p.left_out_ns != 0);
	return p;
}

static void path_done(struct blame_path *p)
{
	struct blame none = {0};
	blame_path_free(p);
	done(&none);
}

static void is_piece(const struct blame_path *p, size_t i, enum blame_kind kind, enum blame_via via,
		     uint64_t to_us)
{
	assert_true(i < p->pieces.len);
	assert_int_equal(p->pieces.data[i].owner.kind, kind);
	assert_int_equal(p->pieces.data[i].owner.via, via);
	assert_int_equal(p->pieces.data[i].to_ns, to_us * US);
}

static uint32_t line_of(const struct blame_path *p, size_t i)
{
	uint32_t frame = p->pieces.data[i].owner.frame;
	return frame == BLAME_NO_FRAME ? 0 : rec_tables(reader)->frames.data[frame].line;
}

static void the_path_is_whole_and_in_order(void **state)
{
	(void)state;
	create();
	uint32_t forward = line("forward", 10), backward = line("backward", 20);
	samples(0, 200, 210, forward);
	samples(0, 210, 220, backward);
	ready(0, 220, 260, OTHER);
	wait(0, WAIT_FUTEX, 260, 300, 9); /* meanwhile the other thread slept, then it ran */
	wait(1, WAIT_SLEEP, 250, 280, 0);
	samples(1, 280, 300, line("holder", 30));
	stall(STALL_INTERRUPT, 310, 320);
	wait(0, WAIT_SLEEP, 320, 400, 0);
	struct blame_path p = path_of(20 * US, 100);
	is_piece(&p, 0, BLAME_RUNS, VIA_ITSELF, 209500);
	is_piece(&p, 1, BLAME_RUNS, VIA_ITSELF, 219500); /* by the sample behind it */
	is_piece(&p, 2, BLAME_RUNS, VIA_ITSELF, 220000); /* no sample says what */
	is_piece(&p, 3, BLAME_RIVAL, VIA_ITSELF, 260000);
	is_piece(&p, 4, BLAME_SLEEP, VIA_LOCK, 280000);
	is_piece(&p, 5, BLAME_RUNS, VIA_LOCK, 299500);
	is_piece(&p, 6, BLAME_RUNS, VIA_LOCK, 300000);
	is_piece(&p, 7, BLAME_RUNS, VIA_ITSELF, 310000);
	is_piece(&p, 8, BLAME_INTERRUPTED, VIA_ITSELF, 320000);
	is_piece(&p, 9, BLAME_SLEEP, VIA_ITSELF, 400000);
	assert_int_equal(p.pieces.len, 10);
	assert_int_equal(line_of(&p, 0), 10);
	assert_int_equal(line_of(&p, 1), 20);
	assert_int_equal(line_of(&p, 2), 0);
	assert_int_equal(p.pieces.data[3].owner.pid, OTHER);
	assert_int_equal(p.pieces.data[4].owner.thread, 1);
	assert_int_equal(line_of(&p, 5), 30);
	path_done(&p);
}

static void short_wait(uint64_t from_us, uint64_t to_us)
{
	rec_put_wait(w, &(struct m_wait){.start_ns = from_us * US,
					 .end_ns = to_us * US,
					 .syscall = -1,
					 .reason = WAIT_SLEEP});
}

static void short_pieces_are_of_their_neighbours(void **state)
{
	(void)state;
	create();
	short_wait(200000, 200010);			  /* nothing before it: of what follows */
	short_wait(300000, 300019);			  /* of what comes before */
	for (uint64_t at = 350000; at < 350100; at += 10) /* five of each */
		if (at % 20 == 0)
			short_wait(at, at + 11);
	short_wait(399000, 400000);
	struct blame_path p = path_of(20 * US, 100);
	is_piece(&p, 0, BLAME_RUNS, VIA_ITSELF, 350000);
	is_piece(&p, 1, BLAME_SLEEP, VIA_ITSELF, 350091); /* the longer ones have it */
	is_piece(&p, 2, BLAME_RUNS, VIA_ITSELF, 399000);
	is_piece(&p, 3, BLAME_SLEEP, VIA_ITSELF, 400000);
	assert_int_equal(p.pieces.len, 4);
	path_done(&p);
	create();
	short_wait(200000, 200010);
	p = path_of(0, 100); /* all of them */
	is_piece(&p, 0, BLAME_SLEEP, VIA_ITSELF, 200010);
	is_piece(&p, 1, BLAME_RUNS, VIA_ITSELF, 400000);
	path_done(&p);
}

static void the_rest_of_a_long_path_is_counted(void **state)
{
	(void)state;
	create();
	for (uint64_t at = 200; at < 400; at += 2)
		ready(0, at, at + 1, OTHER);
	struct blame_path p = path_of(20 * US, 30);
	assert_int_equal(p.pieces.len, 30);
	assert_int_equal(p.left_out, 170);
	assert_int_equal(p.left_out_ns, 170 * MS);
	path_done(&p);
}

static void work_of(uint32_t pid, const char *name, uint64_t from_ms, uint64_t to_ms)
{
	static uint32_t correlation;
	correlation++;
	rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = from_ms * MS,
						 .end_ns = to_ms * MS,
						 .pid = pid,
						 .stream = 7,
						 .correlation = correlation,
						 .name = (uint32_t)rec_string_z(w, name)});
}

static void work(const char *name, uint64_t from_ms, uint64_t to_ms)
{
	work_of(JOB, name, from_ms, to_ms);
}

/* Work and other ranks are waited for at a time: then it is work. */
static void what_the_gpu_did(void **state)
{
	(void)state;
	create();
	gpu_sample_probes(w);
	GPU_CALL(w, 0, GS_SYNC, 220 * MS, 180 * MS, 0x70);
	work("add", 210, 260);
	work("mul", 300, 310);
	work("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 240, 330);
	struct blame_path p = path_of(20 * US, 100);
	is_piece(&p, 0, BLAME_RUNS, VIA_ITSELF, 220000);
	is_piece(&p, 1, BLAME_GPU_WORKS, VIA_ITSELF, 260000);
	is_piece(&p, 2, BLAME_RANKS, VIA_ITSELF, 300000);
	is_piece(&p, 3, BLAME_GPU_WORKS, VIA_ITSELF, 310000);
	is_piece(&p, 4, BLAME_RANKS, VIA_ITSELF, 330000);
	is_piece(&p, 5, BLAME_GPU_IDLE, VIA_ITSELF, 400000);
	assert_int_equal(p.pieces.len, 6);
	path_done(&p);
}

static void collectives_beside_kernels_are_work(void **state)
{
	(void)state;
	create();
	gpu_sample_probes(w);
	GPU_CALL(w, 0, GS_SYNC, 300 * MS, 100 * MS, 0x70);
	work("add", 300, 340);
	work("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 320, 390);
	struct blame b = blame_it();
	is_about(part(&b, BLAME_GPU_WORKS, VIA_ITSELF)->whole_ns, 40, 0.01);
	is_about(part(&b, BLAME_RANKS, VIA_ITSELF)->whole_ns, 50, 0.01);
	is_about(part(&b, BLAME_GPU_IDLE, VIA_ITSELF)->whole_ns, 10, 0.01);
	done(&b);
}

/* ---- other ranks ---- */

#define RANK   50 /* another process; its threads are 3, the main one, and 4, which sends */
#define SENDER 51
#define PEER   4 /* as owners have it */

static void create_ranks(void)
{
	create();
	rec_put_process(
		w, &(struct m_process){.pid = RANK, .parent_pid = 1, .start_ns = 1, .rank = 1});
	rec_add_thread(w, &(struct m_thread){RANK, RANK, 0});
	rec_add_thread(w, &(struct m_thread){RANK, SENDER, 0});
}

/* What it did while it was waited for was mostly its usual work, which others had made late. */
static void why_a_rank_was_late(void **state)
{
	(void)state;
	create_ranks();
	uint32_t forward = line("forward", 10);
	samples(0, 0, 90, forward);
	wait(0, WAIT_POLL, 90, 100, SENDER);
	samples(3, 0, 100, forward);
	samples(0, 200, 290, forward);
	wait(0, WAIT_NETWORK, 290, 400, SENDER);
	ready(3, 200, 300, OTHER);
	samples(3, 300, 400, forward);
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_RIVAL, VIA_ITSELF);
	is_about(p->ns, 100, 0.01);
	assert_int_equal(p->owner.peer, PEER);
	assert_int_equal(p->owner.pid, OTHER);
	assert_int_equal(b.parts.len, 1);
	done(&b);
}

static void ranks_that_wait_for_each_other_wait_for_the_network(void **state)
{
	(void)state;
	create_ranks();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_POLL, 300, 400, SENDER);
	wait(3, WAIT_FUTEX, 290, 400, SENDER);
	wait(4, WAIT_POLL, 290, 400, JOB);
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_NETWORK, VIA_LOCK);
	is_about(p->ns, 100, 0.01);
	assert_int_equal(p->owner.peer, PEER);
	done(&b);
}

/* Who waits for events in slices waits for who ends the last of them. */
static void a_rank_that_ran_a_slow_line(void **state)
{
	(void)state;
	create_ranks();
	uint32_t forward = line("forward", 10), slow = line("read_batch", 30);
	samples(0, 0, 100, forward);
	samples(3, 0, 100, forward);
	samples(0, 200, 300, forward);
	for (uint64_t at = 300; at < 400; at += 10)
		if (at == 350) /* and between two had no CPU */
			ready(0, at, at + 10, 0);
		else
			wait(0, WAIT_POLL, at, at + 10, at == 390 ? SENDER : 0);
	samples(3, 200, 300, slow);
	samples(3, 300, 400, forward);
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_RUNS, VIA_ITSELF);
	is_about(p->ns, 90, 5);
	assert_int_equal(p->owner.peer, PEER);
	assert_int_equal(rec_tables(reader)->frames.data[p->owner.frame].line, 30);
	done(&b);
}

/* Children that bring data wait for one another's locks and pipes. */
static void children_are_no_ranks(void **state)
{
	(void)state;
	create_ranks();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_POLL, 300, 400, 8);
	wait(2, WAIT_PIPE, 300, 400, SENDER);
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_PIPE, VIA_DATA);
	is_about(p->ns, 100, 0.01);
	assert_int_equal(p->owner.peer, 0);
	done(&b);
}

/* For comparison: a wait is its own, whoever ended it. */
static void without_the_walk(void **state)
{
	const struct blame_span usual = {0, 0, 100 * MS, 0};
	const struct blame_span slow = {0, 200 * MS, 400 * MS, 100.0 * MS};
	struct blame b;
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_POLL, 300, 400, 8);
	wait(2, WAIT_DISK, 300, 400, 0);
	open_world();
	blame_world_forget_wakers(world);
	struct blame_usual *u = blame_usual_new(world, &usual, 1);
	blame_make(&b, NULL, world, &slow, 1, u);
	blame_usual_free(u);
	is_about(part(&b, BLAME_POLL, VIA_ITSELF)->ns, 100, 0.01);
	done(&b);
}

/* Who has connections, and whose wait for events nobody of the job ended. */
static void events_from_elsewhere_are_the_network(void **state)
{
	(void)state;
	for (int connected = 0; connected < 2; connected++) {
		create();
		samples(0, 0, 100, line("forward", 10));
		samples(0, 200, 300, line("forward", 10));
		wait(0, WAIT_POLL, 300, 400, 0);
		if (connected)
			put_counter_of(w, 1, "pid 7", "net_sent_bytes", 1);
		struct blame b = blame_it();
		is_about(part(&b, connected ? BLAME_NETWORK : BLAME_POLL, VIA_ITSELF)->ns, 100,
			 0.01);
		done(&b);
	}
}

/* Thread 1 waits for events in slices. Nobody of the job ended the last of them, it woke the main
 * thread, and another wait for events began. Who ends that one has nothing to do with it. */
static void what_an_event_ended_goes_on_to_nobody(void **state)
{
	(void)state;
	create();
	samples(0, 0, 100, line("forward", 10));
	samples(0, 200, 300, line("forward", 10));
	wait(0, WAIT_FUTEX, 300, 390, 9);
	for (uint64_t at = 290; at < 390; at += 10)
		wait(1, WAIT_POLL, at, at + 10, 0);
	wait(1, WAIT_POLL, 390, 395, JOB);
	samples(0, 390, 400, line("forward", 10));
	put_counter_of(w, 1, "pid 7", "net_sent_bytes", 1);
	struct blame b = blame_it();
	is_about(part(&b, BLAME_NETWORK, VIA_LOCK)->ns, 90, 0.01);
	done(&b);
}

/* Steps of one's own and of others, one by one. */
static void steps_of_ranks_add_up(void **state)
{
	(void)state;
	const struct blame_span usual[] = {{0, 0, 100 * MS, 0}};
	const struct blame_span slow[] = {{0, 200 * MS, 300 * MS, 50.0 * MS},
					  {0, 300 * MS, 400 * MS, 50.0 * MS}};
	struct blame b, each[2];
	create_ranks();
	samples(0, 0, 100, line("forward", 10));
	samples(3, 0, 100, line("forward", 10));
	samples(0, 200, 250, line("forward", 10));
	wait(0, WAIT_NETWORK, 250, 300, SENDER);
	samples(0, 300, 360, line("forward", 10));
	wait(0, WAIT_NETWORK, 360, 400, SENDER);
	samples(3, 200, 240, line("forward", 10));
	wait(3, WAIT_DISK, 240, 300, 0);
	samples(3, 300, 350, line("forward", 10));
	ready(3, 350, 400, OTHER);
	open_world();
	struct blame_usual *u = blame_usual_new(world, usual, 1);
	blame_make(&b, each, world, slow, 2, u);
	is_about(sum_of(&b), 100, 0.01);
	is_about(sum_of(&each[0]), 50, 0.01);
	is_about(sum_of(&each[1]), 50, 0.01);
	is_about(part(&b, BLAME_DISK, VIA_ITSELF)->ns + part(&b, BLAME_RIVAL, VIA_ITSELF)->ns, 90,
		 1);
	blame_free(&each[0]);
	blame_free(&each[1]);
	blame_usual_free(u);
	done(&b);
}

static void reduce(uint32_t thread, uint32_t pid, uint64_t sequence, uint64_t host_ms,
		   uint64_t from_ms, uint64_t to_ms)
{
	static uint32_t correlation = 1000;
	const char *name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
	gpu_sample_call_full(w, thread, GS_LAUNCH, host_ms * MS + 1000, 1000,
			     (const uint64_t[8]){rec_string_z(w, name), 1, 1, 0x70}, 1, 0, 0);
	GPU_CALL(w, thread, GS_ALL_REDUCE, host_ms * MS, 5000, 4096, 1024, 7, 0, 0x5500 + pid, 0x70,
		 sequence);
	correlation++;
	rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = from_ms * MS,
						 .end_ns = to_ms * MS,
						 .pid = pid,
						 .stream = 7,
						 .correlation = correlation,
						 .name = (uint32_t)rec_string_z(w, name)});
}

static void communicator(uint32_t pid, int32_t rank)
{
	rec_put_comm(w, &(struct m_comm){.pid = pid,
					 .rank = rank,
					 .size = 2,
					 .handle = 0x5500 + pid,
					 .hash = 0xabc,
					 .start_ns = 1});
}

/* The GPU waits in a collective for a rank that others keep from its CPU, then for the bytes. */
static void who_came_last_to_a_collective(void **state)
{
	(void)state;
	create_ranks();
	gpu_sample_probes(w);
	communicator(JOB, 0);
	communicator(RANK, 1);
	GPU_CALL(w, 0, GS_SYNC, 60 * MS, 40 * MS, 0x70);
	reduce(0, JOB, 0, 50, 60, 100);
	reduce(3, RANK, 0, 50, 60, 100);
	GPU_CALL(w, 0, GS_SYNC, 260 * MS, 140 * MS, 0x70);
	reduce(0, JOB, 1, 250, 260, 400);
	ready(3, 240, 340, OTHER);
	reduce(3, RANK, 1, 350, 360, 400);
	struct blame b = blame_it();
	const struct blame_part *p = part(&b, BLAME_RIVAL, VIA_ITSELF);
	assert_int_equal(p->owner.peer, PEER);
	assert_int_equal(p->owner.pid, OTHER);
	is_about(p->ns, 100, 0.01);
	done(&b);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, NULL, NULL)
	const struct CMUnitTest tests[] = {
		T(who_had_the_cpu),
		T(the_first_process_leads_nobody),
		T(what_ran_on_its_own_cpu),
		T(the_line_that_ran_longer),
		T(all_lines_alike_are_none),
		T(along_what_was_waited_for),
		T(compilers_that_it_waited_for),
		T(a_compiler_of_before),
		T(without_the_walk),
		T(functions_of_libc_are_their_callers),
		T(threads_of_a_pool_are_one),
		T(few_threads_are_no_pool),
		T(who_held_the_lock),
		T(a_stop_cuts_a_wait),
		T(a_stop_cuts_a_wait_for_events_in_slices),
		T(two_stops_cut_a_wait_with_an_end),
		T(a_wait_that_a_stop_ended),
		T(a_stop_cuts_a_wait_with_an_end),
		T(a_short_stop_behind_a_long_wait),
		T(a_child_ended_the_wait_before_the_stop),
		T(a_wait_after_a_stop_may_be_another),
		T(what_was_absorbed),
		T(what_the_kernel_took),
		T(samples_in_interrupts_count),
		T(the_line_that_slept),
		T(through_a_thread_that_waits_for_the_gpu),
		T(the_driver_waits_for_more_than_the_gpu),
		T(circles_end),
		T(steps_add_up_one_by_one),
		T(without_samples_running_is_unexplained),
		T(the_path_is_whole_and_in_order),
		T(short_pieces_are_of_their_neighbours),
		T(the_rest_of_a_long_path_is_counted),
		T(what_the_gpu_did),
		T(collectives_beside_kernels_are_work),
		T(why_a_rank_was_late),
		T(ranks_that_wait_for_each_other_wait_for_the_network),
		T(a_rank_that_ran_a_slow_line),
		T(steps_of_ranks_add_up),
		T(children_are_no_ranks),
		T(events_from_elsewhere_are_the_network),
		T(what_an_event_ended_goes_on_to_nobody),
		T(who_came_last_to_a_collective),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

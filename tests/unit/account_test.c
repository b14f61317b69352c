/* account_test.c - where the time of main threads went, from recordings made by hand: each instant
 * has one owner.
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

#include "analyze/account.h"
#include "golden/gpu_sample.h"
#include "recording/recording.h"
#include "made_file.h"

#define MS     1000000ULL
#define PERIOD (10 * MS)

enum { MAIN, HELPER, CHILD };

static struct rec_writer *w;
static struct rec_reader *reader;
static struct timeline timeline;
static struct summary summary;
static struct account account;

static void process(uint32_t pid, uint32_t parent, const char *command)
{
	rec_put_process(w, &(struct m_process){.pid = pid,
					       .parent_pid = parent,
					       .command = rec_string_z(w, command),
					       .start_ns = 1,
					       .rank = -1});
}

/* Process 7 with its threads 7 and 9, and its child 8. */
static void create(void)
{
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	gpu_sample_probes(w);
	process(7, 1, "/usr/bin/python3");
	process(8, 7, "/usr/bin/python3");
	rec_add_thread(w, &(struct m_thread){7, 7, rec_string_z(w, "python3")});
	rec_add_thread(w, &(struct m_thread){7, 9, rec_string_z(w, "helper")});
	rec_add_thread(w, &(struct m_thread){8, 8, rec_string_z(w, "python3")});
	rec_put_meta(w, "program", "train.py");
}

static void make(void)
{
	struct err e = {0};
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&timeline, rec_source(reader), &(struct timeline_options){0});
	summary_make(&summary, rec_source(reader), &(struct summary_options){0});
	account_make(&account, rec_source(reader), &timeline, &summary, 0);
	for (size_t i = 0; i < account.threads.len; i++) {
		uint64_t sum_ns = 0;
		for (int k = 0; k < ACCOUNT_OWNERS; k++)
			sum_ns += account.threads.data[i].ns[k];
		assert_int_equal(sum_ns, account.threads.data[i].wall_ns);
	}
}

static void done(void)
{
	account_free(&account);
	summary_free(&summary);
	timeline_free(&timeline);
	rec_close(reader);
}

/* From 0 to 1 s. */
static void total(uint32_t thread, uint8_t reason, uint64_t waited_ms, uint64_t runnable_ms)
{
	rec_put_wait_total(w, &(struct m_wait_total){.thread = thread,
						     .reason = reason,
						     .since_ns = MS,
						     .until_ns = 1001 * MS,
						     .count = 1,
						     .waited_ns = waited_ms * MS,
						     .runnable_ns = runnable_ms * MS});
}

static void wait(uint32_t thread, uint8_t reason, uint64_t from_ms, uint64_t to_ms, uint32_t pid,
		 uint32_t tid)
{
	rec_put_wait(w, &(struct m_wait){.start_ns = from_ms * MS,
					 .end_ns = to_ms * MS,
					 .thread = thread,
					 .waker_pid = pid,
					 .waker_tid = tid,
					 .reason = reason});
}

static void expect_ms(enum account_owner owner, uint64_t ms)
{
	assert_int_equal(account_main(&account)->ns[owner], ms * MS);
}

static void totals_and_what_is_left(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_SLEEP, 300, 10);
	total(MAIN, WAIT_PREEMPTED, 0, 90);
	total(HELPER, WAIT_FUTEX, 900, 0); /* not the main thread's */
	make();
	assert_int_equal(account.threads.len, 1);
	assert_string_equal(account_main(&account)->program, "train.py");
	assert_int_equal(account_main(&account)->wall_ns, 1000 * MS);
	expect_ms(ACCOUNT_SLEEP, 300);
	expect_ms(ACCOUNT_RUNNABLE, 100);
	expect_ms(ACCOUNT_CPU, 600);
	assert_int_equal(account_main(&account)->run_ns, 600 * MS);
	done();
}

static void who_ends_waits(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_POLL, 500, 0);
	total(MAIN, WAIT_FUTEX, 200, 0);
	total(CHILD, WAIT_SLEEP, 900, 0);
	wait(MAIN, WAIT_POLL, 10, 310, 8, 8);
	wait(MAIN, WAIT_POLL, 320, 420, 0, 0);
	wait(MAIN, WAIT_FUTEX, 500, 650, 7, 9);
	make();
	expect_ms(ACCOUNT_DATA, 300);
	expect_ms(ACCOUNT_POLL, 200);
	expect_ms(ACCOUNT_LOCK, 200);
	expect_ms(ACCOUNT_CPU, 300);
	const struct account_peer *by = account_main(&account)->peers[ACCOUNT_UNLOCKERS].top;
	assert_int_equal(by->tid, 9);
	assert_int_equal(by->ns, 150 * MS);
	assert_string_equal(by->name, "helper");
	done();
}

static void who_had_the_cpu(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_PREEMPTED, 0, 500);
	for (uint32_t i = 0; i < 4; i++)
		rec_put_wait(w, &(struct m_wait){.start_ns = (10 + 100 * i) * MS,
						 .end_ns = (60 + 100 * i) * MS,
						 .runnable_ns = 50 * MS,
						 .thread = MAIN,
						 .reason = WAIT_PREEMPTED,
						 .rival_pid = i ? 42 : 43,
						 .rival = rec_string_z(w, i ? "hog" : "other")});
	make();
	expect_ms(ACCOUNT_RUNNABLE, 500);
	const struct account_thread *th = account_main(&account);
	const struct account_peers *rivals = &th->peers[ACCOUNT_RIVALS];
	assert_int_equal(rivals->count, 2);
	assert_int_equal(rivals->ns, 200 * MS);
	assert_int_equal(rivals->top[0].pid, 42);
	assert_int_equal(rivals->top[0].ns, 150 * MS);
	assert_string_equal(rivals->top[0].name, "hog");
	assert_int_equal(rivals->top[0].kin, KIN_STRANGER);
	done();
}

/* A call that waits for the GPU has its time, whether it sleeps or spins, and no sample of it is
 * anybody's. */
static void gpu_has_its_waits(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_POLL, 300, 0);
	GPU_CALL(w, MAIN, GS_SYNC, 100 * MS, 400 * MS, 0x70);
	wait(MAIN, WAIT_POLL, 150, 350, 0, 0); /* within */
	wait(MAIN, WAIT_POLL, 450, 550, 0, 0); /* half of it within */
	for (uint64_t ms = 105; ms < 145; ms += 10)
		rec_put_sample(w, &(struct m_sample){.time_ns = ms * MS, .weight_ns = PERIOD});
	make();
	expect_ms(ACCOUNT_GPU, 400);
	expect_ms(ACCOUNT_POLL, 50);
	expect_ms(ACCOUNT_CPU, 550);
	assert_int_equal(account_main(&account)->samples, 0);
	done();
}

static uint32_t frame(uint8_t kind, const char *file, const char *library)
{
	return rec_add_frame(w, &(struct m_frame){.kind = kind,
						  .file = rec_string_z(w, file),
						  .library = rec_string_z(w, library)});
}

static uint32_t stack(uint32_t parent, uint32_t of)
{
	return rec_add_stack(w, &(struct m_stack){parent, of});
}

static void samples(uint64_t n, uint32_t of)
{
	for (uint64_t i = 0; i < n; i++)
		rec_put_sample(
			w, &(struct m_sample){.time_ns = MS + i, .weight_ns = PERIOD, .stack = of});
}

static uint32_t line_of(const char *name, const char *file, uint32_t line)
{
	return rec_add_frame(w, &(struct m_frame){.kind = FRAME_PYTHON,
						  .name = rec_string_z(w, name),
						  .file = rec_string_z(w, file),
						  .line = line});
}

static void running_is_split(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_SLEEP, 200, 0);
	uint32_t python = stack(0, frame(FRAME_PYTHON, "train.py", ""));
	uint32_t torch = stack(python, frame(FRAME_NATIVE, "", "/x/libtorch_cpu.so"));
	uint32_t mkl = stack(torch, frame(FRAME_NATIVE, "", "/x/libmkl.so"));
	uint32_t import = stack(python, frame(FRAME_PYTHON, "<frozen importlib._bootstrap>", ""));
	samples(2, stack(python, frame(FRAME_NATIVE, "", "/lib/libc.so.6")));
	samples(2, mkl);
	samples(1, stack(import, frame(FRAME_NATIVE, "", "/x/libother.so")));
	samples(1, stack(mkl, frame(FRAME_KERNEL, "", "")));
	uint32_t mpi = stack(python, frame(FRAME_NATIVE, "", "/x/libmpi.so.40"));
	samples(1, stack(mpi, frame(FRAME_NATIVE, "", "/x/libother.so")));
	samples(1, stack(python, frame(FRAME_NATIVE, "", "/x/libother.so")));
	make();
	expect_ms(ACCOUNT_PYTHON, 200);
	expect_ms(ACCOUNT_OPERATORS, 200);
	expect_ms(ACCOUNT_MPI, 100);
	expect_ms(ACCOUNT_IMPORT, 100);
	expect_ms(ACCOUNT_KERNEL, 100);
	expect_ms(ACCOUNT_NATIVE, 100);
	expect_ms(ACCOUNT_CPU, 0);
	done();
}

/* Waits for others while a compiler ran that it, or its child, had started; no other waits. */
static void waits_for_compilers(void **state)
{
	(void)state;
	create();
	rec_put_process(w, &(struct m_process){.pid = 20,
					       .parent_pid = 8,
					       .command = rec_string_z(w, "/usr/bin/ptxas"),
					       .comm = rec_string_z(w, "ptxas"),
					       .start_ns = 101 * MS,
					       .end_ns = 301 * MS,
					       .rank = -1});
	rec_put_process(w, &(struct m_process){.pid = 21,
					       .parent_pid = 1,
					       .command = rec_string_z(w, "/usr/bin/cc1"),
					       .comm = rec_string_z(w, "cc1"),
					       .start_ns = 1,
					       .end_ns = 900 * MS,
					       .rank = -1});
	total(MAIN, WAIT_FUTEX, 200, 0);
	total(MAIN, WAIT_SLEEP, 50, 0);
	wait(MAIN, WAIT_FUTEX, 1, 151, 7, 9);	/* 50 ms of it */
	wait(MAIN, WAIT_SLEEP, 160, 210, 0, 0); /* that is its own */
	wait(MAIN, WAIT_FUTEX, 211, 261, 7, 9); /* all of it */
	make();
	expect_ms(ACCOUNT_COMPILERS, 100);
	expect_ms(ACCOUNT_LOCK, 100);
	expect_ms(ACCOUNT_SLEEP, 50);
	assert_int_equal(account_main(&account)->peers[ACCOUNT_UNLOCKERS].ns, 100 * MS);
	assert_true(account_is_compiler("x86_64-linux-gnu-gcc-12"));
	assert_true(account_is_compiler("python3 -m torch._inductor.compile_worker"));
	assert_false(account_is_compiler("train.py"));
	done();
}

/* Python code of a compiler, but not that which it imports or has compiled. */
static void compiling_is_running(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_SLEEP, 200, 0);
	uint32_t jax = stack(0, line_of("backend_compile", "/x/jax/_src/compiler.py", 9));
	uint32_t import = stack(jax, frame(FRAME_PYTHON, "<frozen importlib._bootstrap>", ""));
	samples(2, stack(jax, frame(FRAME_NATIVE, "", "/x/libjax_common.so")));
	samples(1, stack(import, line_of("<module>", "/x/jax/_src/compiler.py", 1)));
	samples(1, stack(0, line_of("<module>", "/x/torch/_dynamo/convert_frame.py", 1)));
	make();
	expect_ms(ACCOUNT_COMPILE, 400);
	expect_ms(ACCOUNT_IMPORT, 200);
	expect_ms(ACCOUNT_PYTHON, 200);
	done();
}

/* Totals that are more than there was time for do not make more of it. */
static void sums_that_cannot_be(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_SLEEP, 900, 0);
	total(MAIN, WAIT_POLL, 300, 0);
	make();
	assert_int_equal(account_main(&account)->wall_ns, 1200 * MS);
	expect_ms(ACCOUNT_CPU, 0);
	done();
}

/* The first process, unless it waits for a busier one. */
static void busy_child_tells_more(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_CHILD, 990, 0);
	total(CHILD, WAIT_DISK, 100, 0);
	make();
	assert_int_equal(account_main(&account)->pid, 8);
	done();
}

/* A child that burns CPU is not what the job is: it is who had the CPU, by name and number. */
/* A launcher that computes, and then becomes what it launches, is under its own name. */
static void process_becomes_another(void **state)
{
	(void)state;
	create();
	process(12, 1, "/usr/bin/python3");
	uint32_t before = rec_add_thread(w, &(struct m_thread){12, 12, rec_string_z(w, "poetry")});
	uint32_t after = rec_add_thread(w, &(struct m_thread){12, 12, rec_string_z(w, "python3")});
	total(MAIN, WAIT_CHILD, 999, 0);
	rec_put_wait_total(w, &(struct m_wait_total){.thread = before,
						     .reason = WAIT_DISK,
						     .since_ns = 1,
						     .until_ns = 800 * MS,
						     .count = 1,
						     .waited_ns = MS});
	total(after, WAIT_DISK, 100, 0);
	make();
	assert_int_equal(account_main(&account)->thread, after);
	assert_int_equal(account.threads.len, 3);
	for (size_t i = 0; i < account.threads.len; i++)
		if (account.threads.data[i].thread == before)
			assert_string_equal(account.threads.data[i].program, "poetry");
	done();
}

static void hog_is_no_main(void **state)
{
	(void)state;
	create();
	process(10, 7, "/usr/bin/yes");
	rec_put_process(w, &(struct m_process){.pid = 11,
					       .parent_pid = 7,
					       .command = rec_string_z(w, "/usr/bin/python3"),
					       .comm = rec_string_z(w, "python3"),
					       .script = rec_string_z(w, "train.py"),
					       .start_ns = 1,
					       .rank = -1});
	uint32_t hog = rec_add_thread(w, &(struct m_thread){10, 10, rec_string_z(w, "yes")});
	uint32_t train = rec_add_thread(w, &(struct m_thread){11, 11, rec_string_z(w, "python3")});
	total(MAIN, WAIT_CHILD, 990, 0);
	total(hog, WAIT_PREEMPTED, 0, 30);
	rec_put_wait_total(w, &(struct m_wait_total){.thread = train,
						     .reason = WAIT_PREEMPTED,
						     .since_ns = MS,
						     .until_ns = 1001 * MS,
						     .count = 1,
						     .runnable_ns = 970 * MS,
						     .cpus = 1});
	rec_put_wait(w, &(struct m_wait){.start_ns = 2 * MS,
					 .end_ns = 902 * MS,
					 .runnable_ns = 900 * MS,
					 .thread = train,
					 .reason = WAIT_PREEMPTED,
					 .rival_pid = 10,
					 .rival = rec_string_z(w, "yes")});
	make();
	const struct account_thread *th = account_main(&account);
	assert_int_equal(th->pid, 11);
	assert_string_equal(th->program, "train.py");
	assert_int_equal(th->cpus, 1);
	const struct account_peers *rivals = &th->peers[ACCOUNT_RIVALS];
	assert_int_equal(rivals->count, 1);
	assert_int_equal(rivals->top[0].pid, 10);
	assert_string_equal(rivals->top[0].name, "yes");
	assert_int_equal(rivals->top[0].kin, KIN_JOB);
	done();
}

/* Of a thread that has no CPU it is not known that it only waits: what it started is its child. */
static void starved_by_its_child(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_PREEMPTED, 0, 970);
	total(CHILD, WAIT_PREEMPTED, 0, 10);
	rec_put_wait(w, &(struct m_wait){.start_ns = 2 * MS,
					 .end_ns = 902 * MS,
					 .runnable_ns = 900 * MS,
					 .thread = MAIN,
					 .reason = WAIT_PREEMPTED,
					 .rival_pid = 8,
					 .rival = rec_string_z(w, "python3")});
	make();
	const struct account_thread *th = account_main(&account);
	assert_int_equal(th->pid, 7);
	assert_int_equal(th->peers[ACCOUNT_RIVALS].top[0].pid, 8);
	assert_int_equal(th->peers[ACCOUNT_RIVALS].top[0].kin, KIN_CHILD);
	done();
}

/* Processes of one interpreter have the names of their scripts; a name that a process gave itself
 * says more. */
static void programs_have_names(void **state)
{
	static const struct {
		const char *comm, *script, *name;
	} cases[] = {
		{"python3", "train.py", "train.py"},
		{"pt_main_thread", "train.py", "train.py"},
		{"pt_data_worker", "train.py", "pt_data_worker"},
		{"sh", "configure", "configure"},
		{"mpirun", "", "mpirun"},
	};
	(void)state;
	create();
	for (uint32_t i = 0; i < 5; i++) {
		rec_put_process(w, &(struct m_process){.pid = 100 + i,
						       .comm = rec_string_z(w, cases[i].comm),
						       .script = rec_string_z(w, cases[i].script),
						       .start_ns = 1,
						       .rank = -1});
		total(rec_add_thread(w, &(struct m_thread){100 + i, 100 + i, 0}), WAIT_SLEEP, 10,
		      0);
	}
	make();
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(account.threads.data[i].program, cases[i].name);
	done();
}

/* The job's own lines: where it waited, by samples of waits; where the thread that released the
 * lock was in that time, by samples of that. */
static void lines_of_locks(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_FUTEX, 600, 0);
	wait(MAIN, WAIT_FUTEX, 100, 400, 7, 9);
	wait(MAIN, WAIT_FUTEX, 500, 800, 7, 9);
	uint32_t begins = stack(0, line_of("run", "/usr/lib/python3/threading.py", 9));
	uint32_t work = stack(begins, line_of("worker", "/job/train.py", 30));
	uint32_t holds = stack(work, line_of("hold", "/job/train.py", 20));
	uint32_t waits = stack(stack(0, line_of("main", "/job/train.py", 7)),
			       line_of("acquire", "/usr/lib/python3/threading.py", 5));
	rec_put_sample(w, &(struct m_sample){.time_ns = 400 * MS,
					     .weight_ns = 300 * MS,
					     .thread = MAIN,
					     .stack = waits,
					     .kind = SAMPLE_OFFCPU,
					     .reason = WAIT_FUTEX});
	for (uint64_t ms = 5; ms < 400; ms += 10)
		rec_put_sample(w, &(struct m_sample){.time_ns = ms * MS,
						     .weight_ns = PERIOD,
						     .thread = HELPER,
						     .stack = ms < 100 ? work : holds});
	make();
	const struct account_lock *lock = &account.lock;
	assert_true(lock->has_waits);
	assert_string_equal(lock->waits.function, "main");
	assert_string_equal(lock->waits.file, "train.py");
	assert_int_equal(lock->waits.line, 7);
	assert_int_equal(lock->waits.ns, 300 * MS);
	assert_string_equal(lock->holds.function, "hold");
	assert_int_equal(lock->holds.line, 20);
	assert_int_equal(lock->holds.ns, 300 * MS); /* the samples before the wait are not of it */
	assert_string_equal(lock->runs.function, "worker");
	done();
}

/* Who ended the waits, and who ended those of that, for just as long; and what the last one ran. */
static void locks_are_followed(void **state)
{
	(void)state;
	create();
	uint32_t worker = rec_add_thread(w, &(struct m_thread){7, 10, rec_string_z(w, "worker")});
	uint32_t code = stack(0, frame(FRAME_NATIVE, "", "/x/libwork.so"));
	total(MAIN, WAIT_FUTEX, 400, 0);
	wait(MAIN, WAIT_FUTEX, 101, 501, 7, 9);
	wait(HELPER, WAIT_FUTEX, 51, 451, 7, 10); /* 350 ms of it while that is waited for */
	wait(HELPER, WAIT_FUTEX, 600, 900, 7, 9); /* nobody waits */
	wait(worker, WAIT_DISK, 151, 251, 0, 0);
	for (uint64_t ms = 5; ms < 900; ms += 10)
		rec_put_sample(w, &(struct m_sample){.time_ns = ms * MS,
						     .weight_ns = PERIOD,
						     .thread = worker,
						     .stack = code});
	make();
	const struct account_holder *h = account.lock.holders;
	assert_int_equal(account.lock.nholders, 2);
	assert_int_equal(h[0].tid, 9);
	assert_int_equal(h[0].wall_ns, 400 * MS);
	assert_int_equal(h[0].ns[ACCOUNT_LOCK], 350 * MS);
	assert_int_equal(h[0].ns[ACCOUNT_CPU], 50 * MS);
	assert_int_equal(h[1].tid, 10);
	assert_string_equal(h[1].name, "worker");
	assert_int_equal(h[1].wall_ns, 350 * MS);
	assert_int_equal(h[1].ns[ACCOUNT_DISK], 100 * MS);
	assert_int_equal(h[1].ns[ACCOUNT_NATIVE], 250 * MS);
	assert_string_equal(h[1].in.file, "libwork.so");
	done();
}

static void waits_in_driver(uint32_t thread, uint64_t to_ms, uint64_t ms)
{
	rec_put_sample(
		w, &(struct m_sample){.time_ns = to_ms * MS,
				      .weight_ns = ms * MS,
				      .thread = thread,
				      .stack = stack(0, frame(FRAME_NATIVE, "", "/x/libcuda.so.1")),
				      .kind = SAMPLE_OFFCPU,
				      .reason = WAIT_GPU});
}

/* A thread of its own waited for the GPU, and handed over what came, as XLA's do: by stacks of
 * waits.
 */
static void waits_through_threads_for_the_gpu(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_FUTEX, 700, 0);
	wait(MAIN, WAIT_FUTEX, 101, 501, 7, 9);
	wait(MAIN, WAIT_FUTEX, 601, 901, 7, 9);
	wait(HELPER, WAIT_FUTEX, 101, 451, 0, 0);
	waits_in_driver(HELPER, 451, 350);
	make();
	expect_ms(ACCOUNT_GPU, 350);
	expect_ms(ACCOUNT_LOCK, 350);
	account_cut(&account, rec_source(reader), &timeline, 201 * MS, 701 * MS);
	assert_int_equal(account.phases[ACCOUNT_BEFORE].ns[ACCOUNT_GPU], 100 * MS);
	assert_int_equal(account.phases[ACCOUNT_LOOP].ns[ACCOUNT_GPU], 250 * MS);
	assert_int_equal(account.phases[ACCOUNT_LOOP].ns[ACCOUNT_LOCK], 150 * MS);
	done();
}

/* A child's GPU, and a disk: the first is data to who waits for it. */
static void waits_that_are_not_for_its_gpu(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_POLL, 400, 0);
	total(MAIN, WAIT_DISK, 200, 0);
	total(MAIN, WAIT_FUTEX, 110, 0);
	wait(MAIN, WAIT_FUTEX, 851, 961, 0, 0);
	waits_in_driver(MAIN, 961, 110);
	wait(MAIN, WAIT_POLL, 101, 501, 8, 8);
	wait(CHILD, WAIT_FUTEX, 101, 451, 0, 0);
	waits_in_driver(CHILD, 451, 350);
	wait(MAIN, WAIT_DISK, 601, 801, 0, 0);
	waits_in_driver(MAIN, 801, 200);
	make();
	expect_ms(ACCOUNT_GPU, 110);
	expect_ms(ACCOUNT_DATA, 400);
	expect_ms(ACCOUNT_DISK, 200);
	done();
}

static void signals(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_SIGNAL, 900, 0);
	make();
	expect_ms(ACCOUNT_SIGNAL, 900);
	done();
}

/* Waits with rows are in the phase in which they were, and what crosses a border is in both; short
 * ones are spread; a stop without a row was before the loop. Each phase adds up. */
static void loop_is_cut_out(void **state)
{
	static const uint64_t walls_ms[] = {500, 400, 100};
	(void)state;
	create();
	total(MAIN, WAIT_SLEEP, 400, 0);
	total(MAIN, WAIT_POLL, 150, 0);
	total(MAIN, WAIT_PREEMPTED, 0, 80);
	total(MAIN, WAIT_HELD, 100, 0);
	wait(MAIN, WAIT_SLEEP, 401, 801, 0, 0); /* 100 ms, then 300 */
	wait(MAIN, WAIT_POLL, 901, 951, 0, 0);
	uint32_t python = stack(0, frame(FRAME_PYTHON, "train.py", ""));
	rec_put_sample(w, &(struct m_sample){.time_ns = 20 * MS, .weight_ns = PERIOD});
	rec_put_sample(
		w, &(struct m_sample){.time_ns = 850 * MS, .weight_ns = PERIOD, .stack = python});
	make();
	assert_false(account.has_loop);
	assert_ptr_equal(account_subject(&account), account_main(&account));
	account_cut(&account, rec_source(reader), &timeline, 501 * MS, 901 * MS);
	assert_true(account.has_loop);
	for (int k = 0; k < ACCOUNT_PHASES; k++) {
		uint64_t sum_ns = 0;
		for (int i = 0; i < ACCOUNT_OWNERS; i++)
			sum_ns += account.phases[k].ns[i];
		assert_int_equal(sum_ns, walls_ms[k] * MS);
		assert_int_equal(account.phases[k].wall_ns, walls_ms[k] * MS);
	}
	const struct account_thread *before = &account.phases[ACCOUNT_BEFORE];
	const struct account_thread *loop = account_subject(&account);
	assert_int_equal(before->ns[ACCOUNT_SLEEP], 100 * MS);
	assert_int_equal(before->ns[ACCOUNT_HELD], 100 * MS);
	assert_int_equal(loop->ns[ACCOUNT_SLEEP], 300 * MS);
	assert_int_equal(loop->ns[ACCOUNT_HELD], 0);
	/* short: 100 ms of polls and 80 ms without a CPU in 450 ms, of which the loop has 100 */
	assert_true(loop->ns[ACCOUNT_POLL] / MS == 22);
	assert_true(loop->ns[ACCOUNT_RUNNABLE] / MS == 17);
	assert_int_equal(loop->ns[ACCOUNT_PYTHON], loop->run_ns);
	assert_int_equal(before->ns[ACCOUNT_PYTHON], 0);
	assert_int_equal(before->ns[ACCOUNT_NATIVE], before->run_ns);
	expect_ms(ACCOUNT_SLEEP, 400); /* all of it is as it was */
	done();
}

/* A stop that has a row is where it was. */
static void stop_within_the_loop(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_HELD, 100, 0);
	wait(MAIN, WAIT_HELD, 601, 701, 0, 0);
	make();
	account_cut(&account, rec_source(reader), &timeline, 501 * MS, 901 * MS);
	assert_int_equal(account.phases[ACCOUNT_BEFORE].ns[ACCOUNT_HELD], 0);
	assert_int_equal(account_subject(&account)->ns[ACCOUNT_HELD], 100 * MS);
	done();
}

/* Who ended waits, and calls that wait for the GPU, are told of the loop alone. */
static void loop_has_its_own_peers(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_FUTEX, 300, 0);
	total(MAIN, WAIT_POLL, 100, 0);
	wait(MAIN, WAIT_FUTEX, 101, 301, 7, 9);
	wait(MAIN, WAIT_FUTEX, 601, 701, 7, 9);
	wait(MAIN, WAIT_POLL, 751, 851, 8, 8);
	GPU_CALL(w, MAIN, GS_SYNC, 451 * MS, 100 * MS, 0x70);
	make();
	account_cut(&account, rec_source(reader), &timeline, 501 * MS, 901 * MS);
	const struct account_thread *loop = account_subject(&account);
	assert_int_equal(loop->ns[ACCOUNT_LOCK], 100 * MS);
	assert_int_equal(loop->ns[ACCOUNT_DATA], 100 * MS);
	assert_int_equal(loop->ns[ACCOUNT_GPU], 50 * MS);
	assert_int_equal(loop->peers[ACCOUNT_UNLOCKERS].ns, 100 * MS);
	assert_int_equal(account.phases[ACCOUNT_BEFORE].peers[ACCOUNT_UNLOCKERS].ns, 200 * MS);
	done();
}

/* A loop that the thread was not there for is none. */
static void loop_outside_the_time(void **state)
{
	(void)state;
	create();
	total(MAIN, WAIT_FUTEX, 300, 0);
	make();
	account_cut(&account, rec_source(reader), &timeline, 2000 * MS, 3000 * MS);
	assert_false(account.has_loop);
	assert_ptr_equal(account_subject(&account), account_main(&account));
	done();
}

static void nothing_without_totals(void **state)
{
	(void)state;
	create();
	make();
	assert_null(account_main(&account));
	done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_and_what_is_left),
		cmocka_unit_test(who_ends_waits),
		cmocka_unit_test(gpu_has_its_waits),
		cmocka_unit_test(running_is_split),
		cmocka_unit_test(sums_that_cannot_be),
		cmocka_unit_test(busy_child_tells_more),
		cmocka_unit_test(nothing_without_totals),
		cmocka_unit_test(who_had_the_cpu),
		cmocka_unit_test(process_becomes_another),
		cmocka_unit_test(hog_is_no_main),
		cmocka_unit_test(starved_by_its_child),
		cmocka_unit_test(programs_have_names),
		cmocka_unit_test(lines_of_locks),
		cmocka_unit_test(signals),
		cmocka_unit_test(locks_are_followed),
		cmocka_unit_test(waits_for_compilers),
		cmocka_unit_test(compiling_is_running),
		cmocka_unit_test(loop_is_cut_out),
		cmocka_unit_test(stop_within_the_loop),
		cmocka_unit_test(loop_has_its_own_peers),
		cmocka_unit_test(loop_outside_the_time),
		cmocka_unit_test(waits_through_threads_for_the_gpu),
		cmocka_unit_test(waits_that_are_not_for_its_gpu),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

/* programs_test.c - processes by program, how long ranks wait for each other, and whose code a
 * function is.
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

#include "analyze/cost.h"
#include "analyze/profile.h"
#include "analyze/programs.h"
#include "analyze/rank_times.h"
#include "recording/recording.h"
#include "made_file.h"

#define S 1000000000ULL

static struct rec_writer *created(void)
{
	struct rec_writer *w = NULL;
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	return w;
}

static struct rec_reader *closed(struct rec_writer *w)
{
	struct rec_reader *r = NULL;
	struct err e = {0};
	if (rec_writer_close(w, false, &e) || rec_open(&r, path, &e))
		fail_msg("%s", e.msg);
	return r;
}

static void put_process(struct rec_writer *w, uint32_t pid, const char *comm, const char *command,
			uint64_t life_ns, uint64_t cpu_ns, int32_t rank)
{
	struct m_process p = {.pid = pid,
			      .comm = rec_string_z(w, comm),
			      .command = rec_string_z(w, command),
			      .start_ns = S,
			      .end_ns = S + life_ns,
			      .rank = rank,
			      .cpu_ns = cpu_ns};
	rec_put_process(w, &p);
}

static void made(struct programs *ret, struct rec_reader *r)
{
	struct summary s;
	summary_make(&s, rec_source(r), &(struct summary_options){0});
	programs_make(ret, rec_source(r), &s, 100 * S);
	summary_free(&s);
}

static void those_of_one_program_are_put_together(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	put_process(w, 1, "make", "/usr/bin/make", 60 * S, S / 10, -1);
	put_process(w, 2, "cc1plus", "/usr/lib/gcc/cc1plus", 3 * S, 2 * S, -1);
	put_process(w, 3, "cc1plus", "/usr/lib/gcc/cc1plus", 5 * S, 4 * S, -1);
	put_process(w, 4, "x86_64-linux-gn", "/usr/bin/x86_64-linux-gnu-as", S, S / 2, -1);
	put_process(w, 5, "pt_data_worker", "/usr/bin/python3", S, 0, 3);
	struct rec_reader *r = closed(w);
	struct programs p;
	made(&p, r);
	assert_int_equal(p.processes, 5);
	assert_int_equal(p.list.len, 4);
	const struct program *g = &p.list.data[0];
	assert_string_equal(g->name, "cc1plus");
	assert_int_equal(g->processes, 2);
	assert_int_equal(g->cpu_ns, 6 * S);
	assert_int_equal(g->longest_ns, 5 * S);
	assert_string_equal(p.list.data[1].name, "x86_64-linux-gnu-as"); /* its name was cut */
	assert_string_equal(p.list.data[2].name, "make");
	g = &p.list.data[3]; /* what it calls itself */
	assert_string_equal(g->name, "pt_data_worker");
	assert_int_equal(g->cpu_unknown, 1);
	assert_int_equal(g->rank_low, 3);
	assert_int_equal(p.cpu_ns, 6 * S + S / 2 + S / 10);
	assert_int_equal(p.elsewhere_ns, 6 * S + S / 2);
	programs_free(&p);
	rec_close(r);
}

/* Of a recording of the whole host, or of a cgroup: of others eACGM itself is the job. */
static void programs_of(struct programs *ret, const char *target)
{
	struct rec_writer *w = created();
	rec_put_meta(w, "target", target);
	rec_put_meta(w, "own_executable", "/usr/bin/eacgm");
	put_process(w, 1, "eacgm-parsers", "/usr/bin/eacgm", 9 * S, S, -1);
	put_process(w, 2, "eacgm-parser", "/usr/bin/eacgm", 2 * S, 3 * S, -1);
	put_process(w, 3, "eacgm", "/opt/eacgm", S, S / 2, -1);
	put_process(w, 4, "sh", "/bin/sh", S, S / 2, -1);
	struct rec_reader *r = closed(w);
	made(ret, r);
	rec_close(r);
}

static void our_own_are_apart(void **state)
{
	(void)state;
	static const char *const of_all[] = {"all processes", "cgroup /job"};
	struct programs p;
	for (int i = 0; i < 2; i++) {
		programs_of(&p, of_all[i]);
		assert_int_equal(p.processes, 2);
		assert_int_equal(p.list.len, 2);
		assert_string_equal(p.list.data[0].name, "eacgm"); /* another of that name */
		assert_int_equal(p.cpu_ns, S);
		assert_int_equal(p.own.processes, 2);
		assert_int_equal(p.own.cpu_ns, 4 * S);
		programs_free(&p);
	}
	programs_of(&p, "command eacgm");
	assert_int_equal(p.processes, 4);
	assert_int_equal(p.own.processes, 0);
	programs_free(&p);
}

static double job_of(const char *told, uint64_t first_ns, uint64_t second_ns)
{
	struct rec_writer *w = created();
	put_process(w, 1, "sh", "/bin/sh", 60 * S, first_ns, -1);
	put_process(w, 2, "daemon", "/bin/daemon", 60 * S, second_ns, -1);
	if (told)
		rec_put_meta(w, "job_cpu_ns", told);
	struct rec_reader *r = closed(w);
	double ret = cost_job_cpu_s(rec_source(r)->tables);
	rec_close(r);
	return ret;
}

static void the_job_is_the_sum_of_its_processes(void **state)
{
	(void)state;
	assert_float_equal(job_of("2110000000", 2 * S, 19 * S), 21, 1e-9);
	assert_float_equal(job_of("2110000000", 2 * S, S / 100), 2.01, 1e-9);
	assert_float_equal(job_of("2110000000", 2 * S, 0), 2.11, 1e-9); /* who did not tell */
	assert_float_equal(job_of("2110000000", 5 * S, 0), 5, 1e-9);
	assert_float_equal(job_of(NULL, 5 * S, 0), 0, 1e-9);
	assert_float_equal(job_of(NULL, 5 * S, S), 6, 1e-9);
}

/* ---- ranks ---- */

static void put_call(struct rec_writer *w, uint32_t thread, uint32_t probe, uint64_t start_ns,
		     uint64_t dur_ns)
{
	struct m_call c = {
		.start_ns = start_ns, .dur_ns = dur_ns, .thread = thread, .probe = probe};
	rec_put_calls(w, &c, 1);
}

static uint32_t put_probe(struct rec_writer *w, const char *name)
{
	return rec_add_probe(w, &(struct m_probe){.layer = rec_string_z(w, "user"),
						  .name = rec_string_z(w, name),
						  .name_arg = -1});
}

/* Three ranks; waits: of each in MPI_Allreduce. Returns which is slow. */
static size_t slow_of(const uint64_t waits[3])
{
	struct rec_writer *w = created();
	uint32_t reduce = put_probe(w, "MPI_Allreduce"), work = put_probe(w, "work");
	for (uint32_t i = 0; i < 3; i++) {
		put_process(w, 10 + i, "solver", "/solver", 50 * S, S, (int32_t)(2 - i));
		uint32_t thread =
			rec_add_thread(w, &(struct m_thread){.pid = 10 + i, .tid = 10 + i});
		put_call(w, thread, work, S, 20 * S);
		put_call(w, thread, reduce, 21 * S, waits[2 - i] / 2);
		put_call(w, thread, reduce, 41 * S, waits[2 - i] - waits[2 - i] / 2);
	}
	struct rec_reader *r = closed(w);
	struct rank_times t;
	struct row_visitor *v = rank_times_visitor(&t, rec_source(r), 0);
	rows_visit(rec_source(r), &v, 1, NULL);
	const struct rec_tables *tables = rec_tables(r);
	const char *layer = strtab_get(&tables->strings, tables->probes.data[0].layer, NULL);
	const struct rank_function *f = rank_times_of(&t, layer, "MPI_Allreduce");
	assert_null(rank_times_of(&t, layer, "work"));
	assert_non_null(f);
	assert_int_equal(f->ranks.len, 3);
	for (size_t i = 0; i < 3; i++) { /* in order of the ranks, not of the processes */
		assert_int_equal(f->ranks.data[i].rank, i);
		assert_int_equal(f->ranks.data[i].calls, 2);
		assert_int_equal(f->ranks.data[i].total_ns, waits[i]);
	}
	size_t slow = f->slow;
	rank_times_free(&t);
	rec_close(r);
	return slow;
}

static void who_waits_least_is_the_slow_one(void **state)
{
	(void)state;
	assert_int_equal(slow_of((uint64_t[3]){8 * S, 2 * S, 9 * S}), 1);
	assert_int_equal(slow_of((uint64_t[3]){2 * S, 2 * S, 9 * S}), RANK_TIMES_NONE);
	assert_int_equal(slow_of((uint64_t[3]){8 * S, 9 * S, 7 * S}), RANK_TIMES_NONE);
	/* of no weight in 60 s */
	assert_int_equal(slow_of((uint64_t[3]){9000, 1000, 9000}), RANK_TIMES_NONE);
}

/* ---- whose code ---- */

static enum profile_code code(uint8_t kind, const char *name, const char *file, bool in_program)
{
	bool made = !strcmp(file, LIBRARY_OF_MADE_CODE);
	struct profile_function f = {
		.kind = kind, .name = name, .file = made ? "" : file, .library = made ? file : ""};
	return profile_code_of(&f, in_program);
}

static void code_is_its_writers(void **state)
{
	(void)state;
	enum calltree_kind py = CALLTREE_PYTHON, native = CALLTREE_NATIVE;
	assert_int_equal(code(py, "main (train.py)", "/job/train.py", false), PROFILE_USER);
	assert_int_equal(code(py, "f (<string>)", "<string>", false), PROFILE_USER);
	assert_int_equal(code(py, "Module._call_impl (module.py)",
			      "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", false),
			 PROFILE_LIBRARY);
	assert_int_equal(
		code(py, "dumps (__init__.py)", "/usr/lib/python3.11/json/__init__.py", false),
		PROFILE_LIBRARY);
	assert_int_equal(code(py, "_find_and_load (<frozen importlib._bootstrap>)",
			      "<frozen importlib._bootstrap>", false),
			 PROFILE_START);
	assert_int_equal(code(py, "Thread._bootstrap (threading.py)",
			      "/usr/lib/python3.11/threading.py", false),
			 PROFILE_START);
	assert_int_equal(code(native, "_start", "", false), PROFILE_START);
	assert_int_equal(code(native, "__libc_start_call_main", "", false), PROFILE_START);
	assert_int_equal(code(native, PROFILE_INTERPRETER, "", false), PROFILE_START);
	assert_int_equal(code(native, "sgemm_kernel", "", false), PROFILE_NATIVE);
	assert_int_equal(code(native, "solve", "", true), PROFILE_USER);
	assert_int_equal(code(native, "_start", "", true), PROFILE_START);
	assert_int_equal(code(native, "[solver]", "", true), PROFILE_NATIVE);
	assert_int_equal(code(native, "fib (x.js:3)", LIBRARY_OF_MADE_CODE, false), PROFILE_USER);
	assert_int_equal(code(native, "Fib.fib", LIBRARY_OF_MADE_CODE, false), PROFILE_USER);
	assert_int_equal(code(native, "java.util.ArrayList.get", LIBRARY_OF_MADE_CODE, false),
			 PROFILE_LIBRARY);
	assert_int_equal(code(native, "Interpreter", LIBRARY_OF_MADE_CODE, false), PROFILE_NATIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_of_one_program_are_put_together),
		cmocka_unit_test(our_own_are_apart),
		cmocka_unit_test(the_job_is_the_sum_of_its_processes),
		cmocka_unit_test(who_waits_least_is_the_slow_one),
		cmocka_unit_test(code_is_its_writers),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

/* processes_test.c - a process has one row, a name, and its own program's path, in whatever order
 * it is told of and met.
 *
 * links: pipeline recording symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "pipeline/pipeline_impl.h"

struct heard {
	struct pipeline *p;
	VEC(char *) strings;
	VEC(struct m_process) rows; /* as they are now: told again under the same key */
	uint32_t pid;		    /* of a process that has ended */
};

static void on_string(void *ctx, uint32_t number, const char *text)
{
	struct heard *h = ctx;
	assert_int_equal(number, h->strings.len);
	*vec_push(&h->strings) = xstrdup(text);
}

static void on_rows(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	struct heard *h = ctx;
	const struct m_process *row = rows;
	size_t i = 0;
	(void)number;
	if (kind != ROW_PROCESS)
		return;
	assert_int_equal(n, 1);
	while (i < h->rows.len &&
	       (h->rows.data[i].pid != row->pid || h->rows.data[i].start_ns != row->start_ns))
		i++;
	*(i < h->rows.len ? &h->rows.data[i] : vec_push(&h->rows)) = *row;
}

static uint32_t ended_process(void)
{
	pid_t pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return (uint32_t)pid;
}

static int begin(void **state)
{
	struct heard *h = xcalloc(1, sizeof(*h));
	struct rec_writer *w;
	struct err e;
	assert_int_equal(rec_writer_open(&w, NULL, NULL, &e), 0);
	h->p = pipeline_new(w, "/proc", NULL);
	h->pid = ended_process();
	pipeline_listen(h->p,
			&(struct event_listener){.ctx = h, .string = on_string, .rows = on_rows});
	*state = h;
	return 0;
}

static int end(void **state)
{
	struct heard *h = *state;
	struct err e;
	pipeline_unlisten(h->p, h);
	assert_int_equal(pipeline_close(h->p, &e), 0);
	for (size_t i = 0; i < h->strings.len; i++)
		free(h->strings.data[i]);
	vec_free(&h->strings);
	vec_free(&h->rows);
	free(h);
	return 0;
}

static void task(struct heard *h, uint8_t kind, uint64_t time_ns, const char *comm)
{
	struct rec_task r = {.kind = kind,
			     .tgid = h->pid,
			     .tid = h->pid,
			     .parent_tgid = (uint32_t)getpid(),
			     .time_ns = time_ns};
	memcpy(r.comm, comm, strlen(comm));
	pipeline_task(h->p, &r);
	pipeline_pass_end(h->p);
}

/* A call of the process. */
static void met(struct heard *h)
{
	struct pipeline_probe probe = {.layer = "torch",
				       .library = "",
				       .symbol = "x",
				       .name = (char[]){"aten::mm"},
				       .name_arg = -1};
	struct rec_call c = {.kind = REC_CALL, .tgid = h->pid, .tid = h->pid, .start_ns = 1};
	pipeline_define_probe(h->p, &probe);
	pipeline_record(h->p, &c, sizeof(c));
	pipeline_pass_end(h->p);
}

static const char *text(const struct heard *h, uint32_t string)
{
	return string < h->strings.len ? h->strings.data[string] : "";
}

static const struct m_process *only_row(const struct heard *h)
{
	const struct m_process *ret = NULL;
	for (size_t i = 0; i < h->rows.len; i++) {
		if (h->rows.data[i].pid != h->pid)
			continue;
		assert_null(ret);
		ret = &h->rows.data[i];
	}
	assert_non_null(ret);
	return ret;
}

static void test_met_before_its_fork_is_told(void **state)
{
	struct heard *h = *state;
	uint64_t forked_ns = monotonic_ns();
	met(h);
	task(h, REC_FORK, forked_ns, "sh");
	task(h, REC_EXEC, monotonic_ns(), "true");
	task(h, REC_EXIT, monotonic_ns(), "true");
	assert_string_equal(text(h, only_row(h)->comm), "true");
	assert_int_not_equal(only_row(h)->end_ns, 0);
	assert_false(only_row(h)->joined);
}

/* What it executes, and its end, may be read after calls that came later. */
static void test_met_before_it_is_told_to_execute(void **state)
{
	struct heard *h = *state;
	uint64_t began_ns = monotonic_ns();
	met(h);
	task(h, REC_EXEC, began_ns, "true");
	task(h, REC_EXIT, monotonic_ns(), "true");
	assert_int_not_equal(only_row(h)->end_ns, 0);
	assert_string_equal(text(h, only_row(h)->comm), "true");
}

static void test_met_by_its_execution(void **state)
{
	struct heard *h = *state;
	uint64_t began_ns = monotonic_ns();
	usleep(1000);
	task(h, REC_EXEC, began_ns, "true");
	assert_int_equal(only_row(h)->start_ns, began_ns);
	task(h, REC_EXIT, began_ns + 500, "true");
	assert_int_equal(only_row(h)->end_ns, began_ns + 500);
}

static void test_met_after_its_end(void **state)
{
	struct heard *h = *state;
	uint64_t ended_ns = monotonic_ns();
	met(h);
	task(h, REC_EXIT, ended_ns, "true");
	assert_int_equal(only_row(h)->end_ns, only_row(h)->start_ns);
}

/* Whoever was met before has ended, and was not told of. */
static void test_a_fork_after_it_was_met_is_another(void **state)
{
	struct heard *h = *state;
	met(h);
	task(h, REC_FORK, monotonic_ns() + 1, "sh");
	assert_int_equal(h->rows.len, 2);
	assert_int_not_equal(h->rows.data[0].start_ns, h->rows.data[1].start_ns);
}

static void test_what_executes_and_ends_is_not_its_parents_program(void **state)
{
	struct heard *h = *state;
	uint32_t child = h->pid;
	h->pid = (uint32_t)getpid();
	met(h); /* the parent is known, and alive */
	const char *parents = text(h, only_row(h)->command);
	assert_string_not_equal(parents, "");
	h->pid = child;
	task(h, REC_FORK, monotonic_ns(), "sh");
	assert_string_equal(text(h, only_row(h)->command), parents);
	task(h, REC_EXEC, monotonic_ns(), "true");
	assert_string_equal(text(h, only_row(h)->comm), "true");
	assert_string_equal(text(h, only_row(h)->command), "");
}

static void test_one_that_ended_is_no_target(void **state)
{
	struct heard *h = *state;
	pipeline_process(h->p, (pid_t)h->pid);
	pipeline_process(h->p, getpid());
	pipeline_pass_end(h->p);
	assert_int_equal(h->rows.len, 1);
	assert_int_equal(h->rows.data[0].pid, getpid());
}

static void test_none_is_without_a_name(void **state)
{
	struct heard *h = *state;
	met(h);
	assert_string_equal(text(h, only_row(h)->comm), "(ended)");
	task(h, REC_EXIT, monotonic_ns(), "worker");
	assert_string_equal(text(h, only_row(h)->comm), "worker");
}

static void test_one_that_runs_on_tells_what_it_used(void **state)
{
	struct heard *h = *state;
	met(h);
	pipeline_process_used(h->p, (pid_t)h->pid, 7000);
	pipeline_process_used(h->p, (pid_t)h->pid + 1, 8000); /* whom nobody knows */
	pipeline_pass_end(h->p);
	assert_int_equal(only_row(h)->cpu_ns, 7000);
	assert_int_equal(only_row(h)->end_ns, 0);
	task(h, REC_EXIT, monotonic_ns(), "sh"); /* its end tells better, whichever comes first */
	assert_int_equal(only_row(h)->cpu_ns, 0);
	pipeline_process_used(h->p, (pid_t)h->pid, 9000);
	pipeline_pass_end(h->p);
	assert_int_equal(only_row(h)->cpu_ns, 0);
}

static void leave_alone(struct heard *h, bool alone)
{
	pipeline_leave_alone(h->p, (pid_t)h->pid, alone, 0);
	pipeline_pass_end(h->p);
}

static void test_one_left_alone_is_a_job_no_more(void **state)
{
	struct heard *h = *state;
	pipeline_tell_jobs_alone(h->p);
	met(h);
	assert_true(pipeline_is_job(h->p, h->pid));
	assert_int_equal(only_row(h)->end_ns, 0);
	leave_alone(h, true);
	uint64_t ended_ns = only_row(h)->end_ns, calls = h->p->calls;
	assert_int_not_equal(ended_ns, 0);
	met(h); /* of before its rule was known */
	assert_false(pipeline_is_job(h->p, h->pid));
	assert_int_equal(h->p->calls, calls);
	task(h, REC_EXIT, monotonic_ns() + 1, "true");
	assert_int_equal(only_row(h)->end_ns, ended_ns);
}

static void test_one_left_alone_may_be_a_job_again(void **state)
{
	struct heard *h = *state;
	pipeline_tell_jobs_alone(h->p);
	leave_alone(h, true);
	met(h);
	assert_int_equal(h->rows.len, 0);
	leave_alone(h, false);
	met(h);
	assert_int_equal(only_row(h)->end_ns, 0);
}

static void test_what_one_left_alone_forks_is_no_job(void **state)
{
	struct heard *h = *state;
	uint32_t child = h->pid;
	pipeline_tell_jobs_alone(h->p);
	h->pid = (uint32_t)getpid();
	leave_alone(h, true);
	h->pid = child;
	task(h, REC_FORK, monotonic_ns(), "sh");
	met(h);
	assert_int_equal(h->rows.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_met_before_its_fork_is_told, begin, end),
		cmocka_unit_test_setup_teardown(test_met_before_it_is_told_to_execute, begin, end),
		cmocka_unit_test_setup_teardown(test_met_after_its_end, begin, end),
		cmocka_unit_test_setup_teardown(test_met_by_its_execution, begin, end),
		cmocka_unit_test_setup_teardown(test_one_that_runs_on_tells_what_it_used, begin,
						end),
		cmocka_unit_test_setup_teardown(test_a_fork_after_it_was_met_is_another, begin,
						end),
		cmocka_unit_test_setup_teardown(
			test_what_executes_and_ends_is_not_its_parents_program, begin, end),
		cmocka_unit_test_setup_teardown(test_one_that_ended_is_no_target, begin, end),
		cmocka_unit_test_setup_teardown(test_none_is_without_a_name, begin, end),
		cmocka_unit_test_setup_teardown(test_one_left_alone_is_a_job_no_more, begin, end),
		cmocka_unit_test_setup_teardown(test_one_left_alone_may_be_a_job_again, begin, end),
		cmocka_unit_test_setup_teardown(test_what_one_left_alone_forks_is_no_job, begin,
						end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

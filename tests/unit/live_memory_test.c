/* live_memory_test.c - what has ended leaves nothing: a job that makes and ends threads, or
 * processes, for days takes no more memory than one that does for minutes. Bytes are counted by the
 * C library's malloc; where that does not count (sanitizers) so are the tables.
 *
 * links: incident detect analyze recording base */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "incident/detector_impl.h"
#include "detect/hardware_impl.h"
#include "detect_names.h"

#define SECOND	    1000000000ULL
#define BEGIN_NS    (5000 * SECOND)
#define GROWTH_MOST (1u << 20)
#define PER_PROCESS 64 /* thread indices of one, of which it uses the first */

static struct fake_names fake;
static struct detect_names names;
static struct m_thread thread;
static uint32_t threads_of_one; /* process of thread n: n / threads_of_one + 1 */

static const struct m_thread *get_thread(void *ctx, uint32_t index)
{
	(void)ctx;
	thread = (struct m_thread){index / threads_of_one + 1, 1000000 + index, 0};
	return &thread;
}

static struct detector *begin(uint32_t per_process)
{
	fake_names_make(&fake);
	names = fake_names_of(&fake);
	names.thread = get_thread;
	threads_of_one = per_process;
	return detector_new(&(struct detector_options){.follow = true});
}

static void end(struct detector *d)
{
	detector_free(d);
	strtab_free(&fake.strings);
	vec_free(&fake.metrics);
}

static size_t bytes_in_use(void)
{
	return mallinfo2().uordblks;
}

static void call(struct detector *d, enum fake_probe probe, uint32_t index, uint64_t start_ns)
{
	struct m_call c = fake_call(probe, index, start_ns, 100000 + start_ns % 997);
	c.args[0] = 1;
	c.args[1] = 1 << 20;
	detector_call(d, &names, &c);
}

/* One process whose threads each take part in a few collectives: 100,000, of which a thousand are
 * there at a time. */
static void threads_leave_nothing(void **state)
{
	(void)state;
	struct detector *d = begin(1u << 30);
	size_t early = 0;
	for (uint32_t i = 0; i < 100000; i++) {
		uint64_t now_ns = BEGIN_NS + i * (SECOND / 100);
		for (uint32_t k = 0; k < 4; k++)
			call(d, FAKE_ALL_REDUCE, i, now_ns + k * 200000);
		call(d, FAKE_COPY, i, now_ns + SECOND / 200);
		if (i >= 1000)
			detector_thread_gone(d, i - 1000);
		if (i % 50 == 0)
			detector_upto(d, now_ns);
		if (i == 50000)
			early = bytes_in_use();
	}
	assert_true(bytes_in_use() < early + GROWTH_MOST);
	assert_true(windows_threads(d->windows) <= 1001);
	end(d);
}

static uint32_t metric_of_pid(uint32_t pid)
{
	char entity[32];
	snprintf(entity, sizeof(entity), "pid %u", pid);
	return fake_metric(&fake, entity, "cpu_ratio");
}

/* Two seconds of calls and counters. */
static void live(struct detector *d, uint32_t pid, uint64_t now_ns)
{
	uint32_t index = (pid - 1) * PER_PROCESS;
	struct m_counter c = {.time_ns = now_ns, .metric = metric_of_pid(pid), .value = 0.5};
	detector_counter(d, &names, &c);
	for (uint32_t i = 0; i < 3; i++)
		call(d, FAKE_OPERATOR, index, now_ns + i * 1000000);
}

/* 10,000 processes, a new one each 200 ms; each is told to have ended, and its thread some time
 * after that. */
static void processes_leave_nothing(void **state)
{
	(void)state;
	struct detector *d = begin(PER_PROCESS);
	size_t early = 0;
	for (uint32_t pid = 1; pid <= 10000; pid++)
		metric_of_pid(pid); /* not the detector's */
	for (uint32_t pid = 1; pid <= 10000; pid++) {
		uint64_t now_ns = BEGIN_NS + pid * (SECOND / 5);
		struct m_process row = {.pid = pid, .start_ns = now_ns};
		detector_process(d, &row);
		for (uint32_t old = pid > 10 ? pid - 10 : 1; old <= pid; old++)
			live(d, old, now_ns);
		if (pid > 10) {
			row = (struct m_process){.pid = pid - 10, .end_ns = now_ns + SECOND / 10};
			detector_process(d, &row);
		}
		if (pid > 100)
			detector_metric_gone(d, metric_of_pid(pid - 100));
		if (pid > 100)
			detector_thread_gone(d, (pid - 101) * PER_PROCESS);
		detector_upto(d, now_ns);
		if (pid == 5000)
			early = bytes_in_use();
	}
	assert_true(bytes_in_use() < early + GROWTH_MOST);
	assert_true(windows_processes(d->windows) < 100);
	assert_true(d->hardware->units.len < 100);
	assert_true(d->hardware->unit_of_metric.len <= 100);
	assert_true(d->judging.series.list.len < 500);
	assert_true(d->job.work_since.len < 100 && d->ended.len < 100);
	end(d);
}

/* A process's number goes to another soon: the new one is not forgotten with the old one. */
static void a_number_that_is_used_again_stays(void **state)
{
	(void)state;
	struct detector *d = begin(PER_PROCESS);
	for (uint32_t i = 0; i < 600; i++) {
		uint64_t now_ns = BEGIN_NS + i * (SECOND / 10);
		struct m_process row = {.pid = 1, .start_ns = BEGIN_NS, .end_ns = 0};
		if (i == 100)
			row.end_ns = now_ns;
		if (i == 100 || i == 150)
			detector_process(d, &row);
		live(d, 1, now_ns);
		detector_upto(d, now_ns);
	}
	assert_int_equal(d->ended.len, 0);
	assert_int_equal(windows_processes(d->windows), 1);
	assert_int_equal(d->hardware->units.len, 1);
	end(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_leave_nothing),
		cmocka_unit_test(processes_leave_nothing),
		cmocka_unit_test(a_number_that_is_used_again_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

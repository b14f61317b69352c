/* incidents_test.c - which anomalies are one incident, when it begins and ends, and which of them
 * says most of why.
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "incident/incidents.h"

#define S 1000000000ULL

enum { SHELL = 10, TRAINER = 100, LOADER = 101, RANK = 102, STRANGER = 200 };

static uint32_t parent_of(const void *ctx, uint32_t pid)
{
	(void)ctx;
	switch (pid) {
	case TRAINER:
	case RANK:
		return SHELL;
	case LOADER:
		return TRAINER;
	case STRANGER:
		return 1;
	default:
		return 0;
	}
}

static struct incidents incidents;

static int begin(void **state)
{
	(void)state;
	incidents = (struct incidents){.parent_of = parent_of};
	return 0;
}

static int end(void **state)
{
	(void)state;
	incidents_free(&incidents);
	return 0;
}

static struct anomaly found(uint64_t from, uint64_t to, uint32_t process)
{
	struct anomaly a = {.start_ns = from * S, .end_ns = to * S};
	incidents_told(&incidents, &a, process);
	return a;
}

static void ended(struct anomaly *a, uint64_t to)
{
	a->end_ns = to * S;
	a->ended = true;
	incidents_told(&incidents, a, 0);
}

static void layers_and_processes_are_one(void **state)
{
	(void)state;
	struct anomaly a = found(10, 11, TRAINER), b = found(10, 11, TRAINER);
	struct anomaly loader = found(11, 12, LOADER), rank = found(11, 12, RANK);
	struct anomaly gpu = found(12, 13, 0);
	assert_true(a.incident == 1 && a.incident_begins && !b.incident_begins);
	assert_true(b.incident == 1 && loader.incident == 1 && rank.incident == 1);
	assert_int_equal(gpu.incident, 1);
	struct anomaly other = found(12, 13, STRANGER);
	assert_true(other.incident == 2 && other.incident_begins);
	ended(&a, 14);
	ended(&b, 14);
	ended(&loader, 15);
	ended(&rank, 15);
	assert_false(rank.incident_ends);
	ended(&gpu, 16);
	assert_true(gpu.incident_ends && !gpu.incident_begins);
	ended(&other, 16);
	assert_true(other.incident_ends);
}

static void those_apart_are_others(void **state)
{
	(void)state;
	struct anomaly first = found(10, 11, TRAINER);
	ended(&first, 14);
	struct anomaly soon = found(16, 17, TRAINER);
	assert_true(soon.incident == 1 && soon.incident_begins); /* it lasts again */
	ended(&soon, 17);
	struct anomaly later = found(20, 21, TRAINER);
	assert_int_equal(later.incident, 2);
	struct anomaly while_open = found(90, 91, LOADER);
	assert_int_equal(while_open.incident, 2);
	ended(&later, 92);
	ended(&while_open, 92);
	found(100, 101, TRAINER);
	assert_int_equal(incidents.list.len, 1); /* those that are over are forgotten */
}

static void many_processes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3 * INCIDENT_PROCESSES; i++)
		found(10, 11, 1000 + i);
	struct anomaly again = found(11, 12, 1000);
	assert_int_equal(again.incident, 1);
}

static void what_says_most_comes_first(void **state)
{
	(void)state;
	const struct anomaly in_order[] = {
		{.layer = DETECT_NCCL, .name = "ncclAllReduce", .p_value = 0},
		{.layer = DETECT_HOST, .name = "preempted_ratio", .p_value = 0.01},
		{.layer = DETECT_TORCH,
		 .name = "aten::mm",
		 .p_value = 0.01,
		 .lost_ns = 100,
		 .calls = {{.more_ns = 60}},
		 .calls_len = 1},
		{.layer = DETECT_HARDWARE, .name = "sm_clock_mhz", .p_value = 0.01},
		{.layer = DETECT_CUDA,
		 .name = "cudaLaunchKernel",
		 .p_value = 0.01,
		 .lost_ns = 100,
		 .calls = {{.more_ns = 40}},
		 .calls_len = 1},
		{.layer = DETECT_PYTHON, .name = "forward", .p_value = 1e-9},
		{.layer = DETECT_HOST, .name = "calls_per_s", .p_value = 1e-9},
		{.layer = DETECT_STEP, .name = "load", .p_value = 1e-9},
	};
	for (size_t i = 1; i < sizeof(in_order) / sizeof(in_order[0]); i++)
		assert_true(incident_rank(&in_order[i - 1]) < incident_rank(&in_order[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(layers_and_processes_are_one, begin, end),
		cmocka_unit_test_setup_teardown(those_apart_are_others, begin, end),
		cmocka_unit_test_setup_teardown(many_processes, begin, end),
		cmocka_unit_test(what_says_most_comes_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

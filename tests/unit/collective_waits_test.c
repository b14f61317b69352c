/* collective_waits_test.c - a rank that all others wait for is told by rule, with its numbers,
 * whatever was learned: once, and of no other.
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "incident/anomaly_text.h"
#include "incident/detector.h"
#include "detect_names.h"

#define MS    1000000ULL
#define RANKS 4

struct job {
	struct fake_names names;
	struct detect_names n;
	struct detector *detector;
	uint32_t told;
	struct anomaly last;
};

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	struct job *j = ctx;
	j->told++;
	j->last = *a;
	j->last.name = "";
}

static int begin(void **state)
{
	struct job *j = xcalloc(1, sizeof(*j));
	fake_names_make(&j->names);
	fake_probe(&j->names, FAKE_OTHER_LAYER, "user", "MPI_Allreduce", "");
	j->n = fake_names_of(&j->names);
	j->detector = detector_new(&(struct detector_options){.tell = on_anomaly, .tell_ctx = j});
	for (uint32_t i = 0; i < RANKS; i++)
		detector_process(
			j->detector,
			&(struct m_process){.pid = 100 + i, .rank = (int32_t)i, .start_ns = 1});
	*state = j;
	return 0;
}

static int end(void **state)
{
	struct job *j = *state;
	detector_free(j->detector);
	strtab_free(&j->names.strings);
	vec_free(&j->names.metrics);
	free(j);
	return 0;
}

static void call(struct job *j, uint32_t rank, uint64_t from_ms, uint64_t to_ms)
{
	struct m_call c =
		fake_call(FAKE_OTHER_LAYER, rank * 2, from_ms * MS, (to_ms - from_ms) * MS);
	c.nargs = 0;
	detector_call(j->detector, &j->n, &c);
}

/* All enter at the time, the late one later. */
static void collective(struct job *j, uint64_t at_ms, uint32_t late, uint64_t late_ms)
{
	for (uint32_t i = 0; i < RANKS; i++)
		call(j, i, at_ms + i + (i == late ? late_ms : 0), at_ms + late_ms + 20 + i);
}

static void the_last_one_is_told(void **state)
{
	struct job *j = *state;
	char line[ANOMALY_LINE_BYTES];
	for (uint64_t i = 0; i < 20; i++)
		collective(j, 1000 + 100 * i, 1, 30);
	assert_int_equal(j->told, 0);
	collective(j, 10000, 1, 7000);
	assert_int_equal(j->told, 1);
	assert_int_equal(j->last.pid, 101);
	assert_true(j->last.ended);
	assert_string_equal(j->last.layer_name, "host");
	assert_string_equal(anomaly_line(line, &j->last),
			    "host, pid 101: rank 1 came last into MPI_Allreduce: all others waited "
			    "for it, for 7.00 s (lasted 7.00 s, by rule)");
}

static void calls_come_in_any_order(void **state)
{
	struct job *j = *state;
	collective(j, 1000, 0, 10);
	call(j, 2, 13000, 13020); /* the late one's first */
	call(j, 0, 10000, 13020);
	call(j, 3, 10500, 13021);
	assert_int_equal(j->told, 0); /* rank 1 may have come even later */
	call(j, 1, 10100, 13022);
	assert_int_equal(j->told, 1);
	assert_int_equal(j->last.pid, 102);
}

static void a_short_wait_and_two_late_ones_are_none(void **state)
{
	struct job *j = *state;
	collective(j, 1000, 1, 1500);
	collective(j, 5000, 1, 10);
	for (uint32_t i = 0; i < RANKS; i++) /* ranks 2 and 3 come together */
		call(j, i, 10000 + (i > 1 ? 5000 : 0), 15020);
	assert_int_equal(j->told, 0);
}

static void the_same_rank_is_told_again_when_it_is_worse(void **state)
{
	struct job *j = *state;
	collective(j, 10000, 1, 3000);
	for (uint64_t i = 1; i < 5; i++)
		collective(j, 10000 + 4000 * i, 1, 3000);
	assert_int_equal(j->told, 1);
	collective(j, 40000, 1, 9000);
	assert_int_equal(j->told, 2);
	collective(j, 60000, 2, 3000); /* another rank */
	assert_int_equal(j->told, 3);
	collective(j, 130000, 1, 3000); /* long after */
	assert_int_equal(j->told, 4);
}

static void one_that_has_ended_is_not_waited_for(void **state)
{
	struct job *j = *state;
	collective(j, 1000, 1, 10);
	detector_process(
		j->detector,
		&(struct m_process){.pid = 103, .rank = 3, .start_ns = 1, .end_ns = 5000 * MS});
	for (uint32_t i = 0; i < 3; i++)
		call(j, i, 10000 + (i == 0 ? 4000 : 0), 14020);
	assert_int_equal(j->told, 1);
	assert_int_equal(j->last.pid, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_last_one_is_told, begin, end),
		cmocka_unit_test_setup_teardown(calls_come_in_any_order, begin, end),
		cmocka_unit_test_setup_teardown(a_short_wait_and_two_late_ones_are_none, begin,
						end),
		cmocka_unit_test_setup_teardown(the_same_rank_is_told_again_when_it_is_worse, begin,
						end),
		cmocka_unit_test_setup_teardown(one_that_has_ended_is_not_waited_for, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* beside_test.c - which cause came beside one that stood, and in which seconds: of crafted ones,
 * and of seconds as they were measured on a job. links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "incident/diagnosis_impl.h"

#define SLICES 12

static double explains[SLICES][CAUSE_COUNT];
static struct slice_judged slices[SLICES];

/* Each of half a second of usual work, which takes a second: the host is slow. */
static int set_up(void **state)
{
	(void)state;
	memset(explains, 0, sizeof(explains));
	for (size_t i = 0; i < SLICES; i++) {
		explains[i][CAUSE_MEM_BANDWIDTH] = 0.4e9;
		slices[i] = (struct slice_judged){explains[i], 0.5e9, 0.5e9};
	}
	return 0;
}

static void add(size_t i, enum cause c, double ns)
{
	explains[i][c] += ns;
	slices[i].excess_ns += ns;
}

static void is(enum cause c, size_t first, size_t end)
{
	struct beside b;
	assert_true(diagnosis_beside(&b, slices, SLICES, CAUSE_MEM_BANDWIDTH));
	assert_int_equal(b.cause, c);
	assert_int_equal(b.first, first);
	assert_int_equal(b.end, end);
}

static void is_none(void)
{
	struct beside b;
	assert_false(diagnosis_beside(&b, slices, SLICES, CAUSE_MEM_BANDWIDTH));
}

static void what_comes_to_it_is_found_where_it_is(void **state)
{
	(void)state;
	is_none();
	for (size_t i = 5; i < 9; i++)
		add(i, CAUSE_PYTHON_GC, 0.2e9);
	is(CAUSE_PYTHON_GC, 5, 9);
	add(2, CAUSE_INTERRUPTS, 0.6e9); /* one second is no stretch */
	is(CAUSE_PYTHON_GC, 5, 9);
}

static void of_two_the_dearer_one_is_found_first(void **state)
{
	(void)state;
	for (size_t i = 3; i < 6; i++)
		add(i, CAUSE_PYTHON_GC, 0.2e9);
	for (size_t i = 9; i < 12; i++)
		add(i, CAUSE_INTERRUPTS, 0.6e9);
	is(CAUSE_INTERRUPTS, 9, 12);
}

/* Seconds of a generation, one of eight with collections, as they were on a GPU host. */
static void it_need_not_be_in_each_second(void **state)
{
	static const double collects[] = {0, 0,	      0.239e9, 0,      0.271e9, 0.347e9,
					  0, 0.296e9, 0,       0.27e9, 0,	0};
	(void)state;
	for (size_t i = 0; i < SLICES; i++)
		add(i, CAUSE_PYTHON_GC, collects[i]);
	is(CAUSE_PYTHON_GC, 2, 10);
}

static void what_was_there_all_the_time_is_none(void **state)
{
	(void)state;
	for (size_t i = 0; i < SLICES; i++)
		add(i, CAUSE_CPU_CONTENTION, i % 3 ? 0.2e9 : 0.3e9);
	is_none();
	for (size_t i = 4; i < 8; i++) /* twice as much is no other thing */
		add(i, CAUSE_CPU_CONTENTION, 0.2e9);
	is_none();
}

static void what_is_little_is_none(void **state)
{
	(void)state;
	for (size_t i = 4; i < 8; i++)
		add(i, CAUSE_PYTHON_GIL, 0.04e9);
	is_none();
}

/* The same time is explained in another way, and nothing got slower. */
static void what_adds_nothing_is_none(void **state)
{
	(void)state;
	for (size_t i = 4; i < 8; i++)
		explains[i][CAUSE_PYTHON_GIL] = 0.3e9;
	is_none();
}

static void what_is_left_over_is_none(void **state)
{
	static const enum cause left[] = {CAUSE_SLOW_CODE, CAUSE_SLOW_CALL, CAUSE_OTHER_WORK};
	(void)state;
	for (size_t k = 0; k < 3; k++)
		for (size_t i = 4; i < 8; i++)
			add(i, left[k], 0.3e9);
	is_none();
}

/* It was there from the beginning: which of both stands is the cut's concern. */
static void what_begins_with_it_is_none(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++)
		add(i, CAUSE_PYTHON_GC, 0.2e9);
	is_none();
}

static void times_that_cannot_be_end_nothing(void **state)
{
	(void)state;
	for (size_t i = 5; i < 9; i++)
		add(i, CAUSE_PYTHON_GC, 0.2e9);
	slices[3].usual_ns = 0;
	is_none();
	struct beside b;
	assert_false(diagnosis_beside(&b, slices, 0, CAUSE_DISK));
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup(test, set_up)
	const struct CMUnitTest tests[] = {
		WITH(what_comes_to_it_is_found_where_it_is),
		WITH(of_two_the_dearer_one_is_found_first),
		WITH(it_need_not_be_in_each_second),
		WITH(what_was_there_all_the_time_is_none),
		WITH(what_is_little_is_none),
		WITH(what_adds_nothing_is_none),
		WITH(what_is_left_over_is_none),
		WITH(what_begins_with_it_is_none),
		WITH(times_that_cannot_be_end_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

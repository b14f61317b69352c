/* diagnosis_edges_test.c - from which step to which an incident goes, of steps made by hand.
 *
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/types.h>

#include "incident/diagnosis_impl.h"

#define MS    1000000ULL
#define USUAL (100.0 * MS)

static const struct usual_length all_alike = {USUAL, USUAL};
static blame_spans_t steps;

static int start(void **state)
{
	(void)state;
	steps = (blame_spans_t){0};
	return 0;
}

static int end(void **state)
{
	(void)state;
	vec_free(&steps);
	return 0;
}

static uint64_t now(void)
{
	return steps.len ? steps.data[steps.len - 1].to_ns : 0;
}

/* Some more of one length; returns where they begin. */
static uint64_t more(int n, uint64_t ms)
{
	uint64_t from_ns = now();
	for (uint64_t at = from_ns; n > 0; n--, at += ms * MS)
		*vec_push(&steps) = (struct blame_span){.from_ns = at, .to_ns = at + ms * MS};
	return from_ns;
}

static void expect(struct diagnosis_range told, uint64_t from_ns, uint64_t to_ns)
{
	const struct diagnosis_range all = {0, UINT64_MAX};
	diagnosis_edges(&steps, &all_alike, &all, &told);
	assert_int_equal(told.from_ns, from_ns);
	assert_int_equal(told.to_ns, to_ns);
}

static void slow_steps_beside_it_are_of_it(void **state)
{
	(void)state;
	more(50, 100);
	uint64_t from_ns = more(30, 200), to_ns = more(50, 100);
	expect((struct diagnosis_range){from_ns + 1500 * MS, to_ns - 800 * MS}, from_ns, to_ns);
}

/* Where it was told as far as it went, or farther, it stays. */
static void usual_ones_are_not(void **state)
{
	(void)state;
	more(50, 100);
	uint64_t from_ns = more(30, 200), to_ns = more(50, 100);
	expect((struct diagnosis_range){from_ns, to_ns}, from_ns, to_ns);
	expect((struct diagnosis_range){from_ns - 250 * MS, to_ns + 250 * MS}, from_ns - 250 * MS,
	       to_ns + 250 * MS);
}

/* As garbage is collected in each third one. */
static void every_third_is_enough(void **state)
{
	(void)state;
	more(50, 100);
	uint64_t from_ns = now();
	for (int i = 0; i < 20; i++) {
		more(1, 250);
		more(2, 100);
	}
	uint64_t to_ns = more(50, 100) - 200 * MS; /* the last slow one */
	expect((struct diagnosis_range){from_ns + 2250 * MS, to_ns - 1800 * MS}, from_ns, to_ns);
}

/* Neither what was slow long before, nor what is far longer than any step of it, as a pause. */
static void other_slowness_is_not(void **state)
{
	(void)state;
	more(5, 200);
	more(15, 100);
	uint64_t from_ns = more(30, 200);
	uint64_t to_ns = more(1, 5000);
	more(20, 100);
	expect((struct diagnosis_range){from_ns + 1000 * MS, to_ns - 1000 * MS}, from_ns, to_ns);
}

static void a_gap_ends_it(void **state)
{
	(void)state;
	more(30, 200);
	uint64_t from_ns = now() + 900 * MS;
	*vec_push(&steps) = (struct blame_span){.from_ns = from_ns, .to_ns = from_ns + 200 * MS};
	more(20, 200);
	uint64_t to_ns = more(20, 100);
	expect((struct diagnosis_range){from_ns + 600 * MS, to_ns}, from_ns, to_ns);
}

/* The change lies within it. */
static void a_step_that_is_partly_slow_is_of_it(void **state)
{
	(void)state;
	more(20, 100);
	uint64_t from_ns = more(1, 130);
	more(20, 200);
	more(1, 120);
	uint64_t to_ns = more(20, 100);
	expect((struct diagnosis_range){from_ns + 1130 * MS, to_ns - 1120 * MS}, from_ns, to_ns);
}

/* Where one step in five is longer by 15 % anyway, one beside an incident says nothing. */
static void a_step_that_is_as_long_as_usual_ones_get_is_not(void **state)
{
	(void)state;
	const struct usual_length usual = {USUAL, 115.0 * MS};
	const struct diagnosis_range all = {0, UINT64_MAX};
	for (int i = 0; i < 10; i++) {
		more(4, 96);
		more(1, 115);
	}
	uint64_t from_ns = more(20, 200), to_ns = more(1, 115);
	more(4, 96);
	struct diagnosis_range told = {from_ns, to_ns};
	diagnosis_edges(&steps, &usual, &all, &told);
	assert_int_equal(told.from_ns, from_ns);
	assert_int_equal(told.to_ns, to_ns);
}

static void it_keeps_to_time_that_is_free(void **state)
{
	(void)state;
	more(20, 200);
	const struct diagnosis_range free_ns = {1000 * MS, 3000 * MS};
	struct diagnosis_range told = {1800 * MS, 2200 * MS};
	diagnosis_edges(&steps, &all_alike, &free_ns, &told);
	assert_int_equal(told.from_ns, 1000 * MS);
	assert_int_equal(told.to_ns, 3000 * MS);
}

static void without_slow_or_usual_steps_nothing_moves(void **state)
{
	(void)state;
	const struct diagnosis_range all = {0, UINT64_MAX};
	struct diagnosis_range told = {1800 * MS, 2200 * MS};
	diagnosis_edges(&steps, &all_alike, &all, &told);
	assert_int_equal(told.from_ns, 1800 * MS);
	more(40, 100);
	diagnosis_edges(&steps, &all_alike, &all, &told);
	assert_int_equal(told.from_ns, 1800 * MS);
	assert_int_equal(told.to_ns, 2200 * MS);
	diagnosis_edges(&steps, &(struct usual_length){0, 0}, &all, &told);
	assert_int_equal(told.from_ns, 1800 * MS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(slow_steps_beside_it_are_of_it),
		TEST(usual_ones_are_not),
		TEST(every_third_is_enough),
		TEST(other_slowness_is_not),
		TEST(a_gap_ends_it),
		TEST(a_step_that_is_partly_slow_is_of_it),
		TEST(a_step_that_is_as_long_as_usual_ones_get_is_not),
		TEST(it_keeps_to_time_that_is_free),
		TEST(without_slow_or_usual_steps_nothing_moves),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

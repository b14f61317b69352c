/* own_time_test.c - what calls took by themselves, where others are made in them.
 * links: detect base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/own_time.h"

static struct own_times *own;

static int begin(void **state)
{
	(void)state;
	own = own_times_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	own_times_free(own);
	return 0;
}

static double call_of(uint32_t tid, uint64_t start_ns, uint64_t dur_ns, double usual_ns)
{
	return own_time_ns(own, &(struct own_call){.pid = 1,
						   .tid = tid,
						   .start_ns = start_ns,
						   .dur_ns = dur_ns,
						   .usual_ns = usual_ns});
}

static double call(uint64_t start_ns, uint64_t dur_ns, double usual_ns)
{
	return call_of(1, start_ns, dur_ns, usual_ns);
}

static void time_lost_in_a_call_is_the_innermost_ones(void **state)
{
	(void)state;
	assert_true(call(120, 60, 10) == 60); /* loses 50 */
	assert_true(call(110, 75, 25) == 25);
	assert_true(call(190, 10, 10) == 10);
	assert_true(call(100, 110, 60) == 60);
	assert_true(call(300, 60, 60) == 60); /* not around any of them */
}

static void a_call_may_lose_time_beside_those_in_it(void **state)
{
	(void)state;
	call(110, 20, 10);
	assert_true(call(100, 100, 40) == 90);
}

/* Each took as long as ever: that there were more is the call's. */
static void more_calls_in_it_are_its_own(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		call(100 + 10 * i, 10, 10);
	assert_true(call(100, 80, 20) == 80);
}

static void quicker_calls_in_it_do_not_make_it_longer_than_it_was(void **state)
{
	(void)state;
	call(110, 10, 50);
	assert_true(call(100, 40, 60) == 40);
}

static void all_of_an_unknown_call_is_its_own(void **state)
{
	(void)state;
	call(110, 50, NAN);
	assert_true(call(100, 60, 10) == 10);
}

static void threads_are_apart(void **state)
{
	(void)state;
	call_of(1, 110, 50, 10);
	assert_true(call_of(2, 100, 70, 70) == 70);
	assert_true(call_of(1, 100, 70, 30) == 30);
}

/* As a backward pass, whose nodes run on another thread. */
static void what_is_waited_for_is_in_a_call(void **state)
{
	(void)state;
	call_of(2, 50, 20, 10);
	call_of(2, 110, 50, 10);
	struct own_call c = {
		.pid = 1, .tid = 1, .start_ns = 100, .dur_ns = 70, .usual_ns = 30, .waits = true};
	assert_true(own_time_ns(own, &c) == 30);
	c.pid = 2; /* none of its threads ran */
	assert_true(own_time_ns(own, &c) == 70);
	assert_true(call_of(2, 105, 60, 20) == 20); /* its calls are its still */
}

static double pass(uint64_t start_ns, uint64_t dur_ns, double usual_ns)
{
	return own_time_ns(own, &(struct own_call){.pid = 1,
						   .tid = 1,
						   .start_ns = start_ns,
						   .dur_ns = dur_ns,
						   .usual_ns = usual_ns,
						   .waits = true});
}

/* Of one thread, what was known, and no more than lay in it. */
static void what_is_not_waited_for_is_not(void **state)
{
	(void)state;
	call_of(2, 5000, 500, 100); /* after it */
	call_of(3, 110, 90, NAN);
	assert_true(pass(100, 100, 100) == 100);
	for (uint32_t tid = 4; tid < 8; tid++)
		call_of(tid, 1100, 100, 50);
	assert_true(pass(1000, 400, 200) == 350);
}

/* Whose calls nothing is around, of which the older were put together. */
static void what_is_waited_for_of_many_calls(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		call_of(2, i * 100, i == 4200 ? 1090 : 90, 90);
	double ns = pass(400000, 101000, 100000);
	assert_true(ns > 99900 && ns < 100100);
}

/* Of tens of thousands the sum is kept. */
static void many_calls_in_one(void **state)
{
	(void)state;
	const uint64_t n = 50000;
	for (uint64_t i = 0; i < n; i++)
		call(1000 + 100 * i, 60, 50);
	assert_true(call(1000 + 100 * n, 100, 100) == 100);
	assert_true(call(1000, 100 * n + 100, 1) == 90.0 * (double)n + 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(time_lost_in_a_call_is_the_innermost_ones, begin,
						end),
		cmocka_unit_test_setup_teardown(a_call_may_lose_time_beside_those_in_it, begin,
						end),
		cmocka_unit_test_setup_teardown(more_calls_in_it_are_its_own, begin, end),
		cmocka_unit_test_setup_teardown(
			quicker_calls_in_it_do_not_make_it_longer_than_it_was, begin, end),
		cmocka_unit_test_setup_teardown(all_of_an_unknown_call_is_its_own, begin, end),
		cmocka_unit_test_setup_teardown(threads_are_apart, begin, end),
		cmocka_unit_test_setup_teardown(what_is_waited_for_is_in_a_call, begin, end),
		cmocka_unit_test_setup_teardown(what_is_not_waited_for_is_not, begin, end),
		cmocka_unit_test_setup_teardown(what_is_waited_for_of_many_calls, begin, end),
		cmocka_unit_test_setup_teardown(many_calls_in_one, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* learn_suspects_test.c - which stretches of recordings look faulty: slow ones on end; and
 * which do not: single ones, many, work that differs by itself.
 * links: detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "detect/learn_suspects.h"

#define S 1000000000ULL

static paced_windows windows;
static suspects found;

static int end(void **state)
{
	(void)state;
	vec_free(&windows);
	vec_free(&found);
	return 0;
}

static void add(uint32_t recording, uint64_t second, double pace)
{
	*vec_push(&windows) = (struct paced_window){
		.recording = recording, .pid = 7, .start_ns = second * S, .pace = pace};
}

/* Seconds from..to of a job whose pace differs by a twentieth. */
static void add_usual(uint32_t recording, uint64_t from, uint64_t to)
{
	uint64_t seed = 1 + recording;
	for (uint64_t i = from; i < to; i++)
		add(recording, i, exp(0.05 * random_normal(&seed)));
}

static void set(uint64_t second, double pace)
{
	windows.data[second - 100].pace = pace;
}

static void find(void)
{
	learn_suspects_find(&found, &windows, S);
}

static void test_slow_stretches(void **state)
{
	(void)state;
	add_usual(0, 100, 150);
	for (uint64_t i = 120; i < 125; i++)
		set(i, 0.6);
	set(140, 0.5);
	set(141, 0); /* nothing is known of it */
	set(142, 0.5);
	add_usual(1, 100, 130);
	add(1, 130, 0.7);
	add(1, 131, 0.7);
	find();
	assert_int_equal(found.len, 3);
	assert_int_equal(found.data[0].start_ns, 119 * S);
	assert_int_equal(found.data[0].end_ns, 126 * S);
	assert_int_equal(found.data[1].start_ns, 139 * S);
	assert_int_equal(found.data[1].end_ns, 144 * S);
	assert_int_equal(found.data[2].recording, 1);
	assert_int_equal(found.data[2].start_ns, 129 * S);
	assert_true(learn_suspects_at(&found, 0, 119 * S));
	assert_true(learn_suspects_at(&found, 0, 126 * S - 1));
	assert_false(learn_suspects_at(&found, 0, 126 * S));
	assert_false(learn_suspects_at(&found, 0, 119 * S - 1));
	assert_true(learn_suspects_at(&found, 0, 143 * S));
	assert_false(learn_suspects_at(&found, 1, 120 * S));
	assert_true(learn_suspects_at(&found, 1, 131 * S));
	assert_false(learn_suspects_at(&found, 2, 131 * S));
}

/* Every layer of a process has a row of the window, and ranks are slow together. */
static void test_once(void **state)
{
	(void)state;
	add_usual(0, 100, 150);
	set(120, 0.5);
	add(0, 120, 0.5);
	add(0, 120, 0.5);
	find();
	assert_int_equal(found.len, 0);
	set(130, 0.5);
	set(131, 0.5);
	for (uint64_t i = 100; i < 150; i++) {
		add(0, i, i == 131 || i == 132 ? 0.5 : 1);
		windows.data[windows.len - 1].pid = 8;
	}
	find();
	assert_int_equal(found.len, 1);
	assert_int_equal(found.data[0].start_ns, 129 * S);
	assert_int_equal(found.data[0].end_ns, 134 * S);
}

static void test_tail(void **state)
{
	(void)state;
	add_usual(0, 100, 200);
	for (uint64_t i = 105; i < 200; i += 10)
		set(i, 0.5);
	set(116, 0);
	find();
	assert_int_equal(found.len, 0);
}

/* More than half of it: that is how the job is. And a job whose pace is never the same. */
static void test_many_and_varied(void **state)
{
	uint64_t seed = 5;
	(void)state;
	add_usual(0, 100, 200);
	for (uint64_t i = 110; i < 155; i++)
		set(i, 0.5 * exp(0.1 * random_normal(&seed)));
	find();
	assert_int_equal(found.len, 1);
	found.len = 0;
	for (uint64_t i = 155; i < 175; i++)
		set(i, 0.5 * exp(0.1 * random_normal(&seed)));
	find();
	assert_int_equal(found.len, 0);
	for (uint64_t i = 100; i < 200; i++)
		set(i, exp(0.4 * random_normal(&seed)));
	find();
	assert_int_equal(found.len, 0);
}

/* So many windows are normal that they say what is. */
static void test_few(void **state)
{
	(void)state;
	add_usual(0, 100, 134);
	for (uint64_t i = 110; i < 115; i++)
		set(i, 0.5);
	find();
	assert_int_equal(found.len, 0);
	add_usual(1, 100, 101);
	find();
	assert_int_equal(found.len, 1);
}

/* Severe faults hide light ones, as long as they count. */
static void test_light_ones(void **state)
{
	uint64_t seed = 5;
	(void)state;
	for (uint64_t i = 100; i < 200; i++)
		add(0, i, exp(0.1 * random_normal(&seed)));
	for (uint64_t i = 110; i < 128; i++)
		set(i, 0.3);
	for (uint64_t i = 150; i < 156; i++)
		set(i, 0.69);
	find();
	assert_int_equal(found.len, 2);
	assert_true(learn_suspects_at(&found, 0, 152 * S));
}

/* Requests come in between: the windows around are partly busy. And one fault. */
static void server(size_t idles)
{
	add_usual(0, 100, 200);
	add_usual(1, 100, 130);
	add(1, 130, 0.0002); /* of the other recording, it does not count */
	for (uint64_t at = 110; at < 110 + 12 * idles; at += 12) {
		set(at - 1, 0.5);
		for (uint64_t i = at; i < at + 4; i++)
			set(i, 0.0002);
		set(at + 4, 0.6);
	}
	for (uint64_t i = 170; i < 175; i++)
		set(i, 0.6);
	find();
}

static void test_idle_between_requests(void **state)
{
	(void)state;
	server(4);
	assert_int_equal(found.len, 1);
	assert_int_equal(found.data[0].start_ns, 169 * S);
}

/* Too seldom to be how it works. */
static void test_still(void **state)
{
	(void)state;
	server(3);
	assert_int_equal(found.len, 4);
	assert_int_equal(found.data[0].start_ns, 108 * S);
	assert_int_equal(found.data[0].end_ns, 116 * S);
}

/* Two ranks that stand still twice, together. */
static void test_still_ranks(void **state)
{
	(void)state;
	add_usual(0, 100, 150);
	for (uint64_t i = 100; i < 150; i++) {
		bool still = (i > 110 && i < 115) || (i > 130 && i < 135);
		if (still)
			set(i, 0.0002);
		add(0, i, still ? 0.0002 : 1);
		windows.data[windows.len - 1].pid = 8;
	}
	find();
	assert_int_equal(found.len, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_slow_stretches, end),
		cmocka_unit_test_teardown(test_once, end),
		cmocka_unit_test_teardown(test_tail, end),
		cmocka_unit_test_teardown(test_many_and_varied, end),
		cmocka_unit_test_teardown(test_few, end),
		cmocka_unit_test_teardown(test_light_ones, end),
		cmocka_unit_test_teardown(test_idle_between_requests, end),
		cmocka_unit_test_teardown(test_still, end),
		cmocka_unit_test_teardown(test_still_ranks, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

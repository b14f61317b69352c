/* learn_suspects_test.c - which stretches of recordings look faulty: slow ones on end, of work of
 * their own kind too; and which do not: single ones, many, work that differs by itself.
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

enum { SIZES = REGIME_SIZES };

#define S 1000000000ULL

static struct regimes *regimes;
static paced_windows windows;
static suspects found;

/* Two kinds of work: the second is the first at this pace, with as many other calls beside it, that
 * have sizes in every third place. */
static void regimes_of_two(float pace)
{
	struct model_regime one = {.windows = 60, .sized = 32000}, two = {.windows = 10};
	float more = 0, all = 0;
	for (size_t i = 0; i < REGIME_SIZES; i++)
		one.places[REGIME_SIZES + i] = 0.5f / SIZES;
	for (size_t i = 0; i < REGIME_SIZES; i++) {
		more = i % 3 ? 0 : 2 + (float)i / 10;
		two.places[REGIME_SIZES + i] = pace + more;
		all += pace + more;
	}
	for (size_t i = 0; i < REGIME_SIZES; i++)
		two.places[REGIME_SIZES + i] /= 2 * all;
	two.sized = (double)all * one.sized / SIZES;
	regimes_add(regimes, &one);
	regimes_add(regimes, &two);
}

static int begin(void **state)
{
	(void)state;
	regimes = regimes_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	regimes_free(regimes);
	vec_free(&windows);
	vec_free(&found);
	return 0;
}

static void add(uint32_t recording, uint64_t second, uint32_t regime, double pace)
{
	*vec_push(&windows) = (struct paced_window){.recording = recording,
						    .pid = 7,
						    .regime = regime,
						    .start_ns = second * S,
						    .pace = pace};
}

/* Seconds from..to of a job whose pace differs by a twentieth. */
static void add_usual(uint32_t recording, uint64_t from, uint64_t to)
{
	uint64_t seed = 1 + recording;
	for (uint64_t i = from; i < to; i++)
		add(recording, i, 1, exp(0.05 * random_normal(&seed)));
}

static void set(uint64_t second, uint32_t regime, double pace)
{
	windows.data[second - 100].regime = regime;
	windows.data[second - 100].pace = pace;
}

static void find(void)
{
	learn_suspects_find(&found, &windows, S, regimes);
}

static void test_slow_stretches(void **state)
{
	(void)state;
	regimes_of_two(0.5f);
	add_usual(0, 100, 150);
	for (uint64_t i = 120; i < 125; i++)
		set(i, 1, 0.6);
	set(140, 1, 0.5);
	set(141, 1, 0); /* nothing is known of it */
	set(142, 1, 0.5);
	add_usual(1, 100, 130);
	add(1, 130, 1, 0.7);
	add(1, 131, 1, 0.7);
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
	regimes_of_two(0.5f);
	add_usual(0, 100, 150);
	set(120, 1, 0.5);
	add(0, 120, 1, 0.5);
	add(0, 120, 1, 0.5);
	find();
	assert_int_equal(found.len, 0);
	set(130, 1, 0.5);
	set(131, 1, 0.5);
	for (uint64_t i = 100; i < 150; i++) {
		add(0, i, 1, i == 131 || i == 132 ? 0.5 : 1);
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
	regimes_of_two(0.5f);
	add_usual(0, 100, 200);
	for (uint64_t i = 105; i < 200; i += 10)
		set(i, 1, 0.5);
	set(116, 1, 0);
	find();
	assert_int_equal(found.len, 0);
}

/* A third of it: two kinds of days. And a job whose pace is never the same. */
static void test_many_and_varied(void **state)
{
	uint64_t seed = 5;
	(void)state;
	regimes_of_two(0.5f);
	add_usual(0, 100, 200);
	for (uint64_t i = 110; i < 145; i++)
		set(i, 1, 0.5);
	find();
	assert_int_equal(found.len, 0);
	for (uint64_t i = 110; i < 130; i++)
		set(i, 1, exp(0.05 * random_normal(&seed)));
	find();
	assert_int_equal(found.len, 1);
	found.len = 0;
	for (uint64_t i = 100; i < 200; i++)
		set(i, 1, exp(0.4 * random_normal(&seed)));
	find();
	assert_int_equal(found.len, 0);
}

/* So many windows are normal that they say what is. */
static void test_few(void **state)
{
	(void)state;
	regimes_of_two(0.5f);
	add_usual(0, 100, 134);
	for (uint64_t i = 110; i < 115; i++)
		set(i, 1, 0.5);
	find();
	assert_int_equal(found.len, 0);
	add_usual(1, 100, 101);
	find();
	assert_int_equal(found.len, 1);
}

/* A fault's own calls made a kind of work of it, whose pace is usual for it. */
static void kind_of_work(float pace, size_t stretches)
{
	regimes_of_two(pace);
	add_usual(0, 100, 150);
	for (uint64_t i = 120; i < 128; i++)
		set(i, 2, 1);
	find();
	assert_int_equal(found.len, stretches);
	if (!stretches)
		return;
	assert_int_equal(found.data[0].start_ns, 119 * S);
	assert_int_equal(found.data[0].end_ns, 129 * S);
}

static void test_kind_of_work_slowed(void **state)
{
	(void)state;
	kind_of_work(0.5f, 1);
}

static void test_kind_of_work_not_slowed(void **state)
{
	(void)state;
	kind_of_work(1, 0);
}

/* One that is slower still, of which too much else is unlike the first. */
static void test_slowed_twice(void **state)
{
	struct model_regime m[3] = {{.windows = 200}, {.windows = 40}, {.windows = 15}};
	double usual[3][3] = {{1, 1, 1}, {2.6, 0.6, 0.6}, {1.56, 0.36, 5}};
	(void)state;
	for (size_t k = 0; k < 3; k++) {
		double all = 0;
		for (size_t i = 0; i < REGIME_SIZES; i++)
			all += usual[k][i % 3];
		for (size_t i = 0; i < REGIME_SIZES; i++)
			m[k].places[REGIME_SIZES + i] = (float)(usual[k][i % 3] / 2 / all);
		m[k].sized = 1000 * all;
		regimes_add(regimes, &m[k]);
	}
	assert_float_equal(regimes_pace_in(regimes, 1, 2), 0.6, 0.001);
	assert_float_equal(regimes_pace_in(regimes, 2, 3), 0.6, 0.001);
	assert_float_equal(regimes_pace_in(regimes, 1, 3), 0, 0);
	add_usual(0, 100, 355);
	for (uint64_t i = 150; i < 190; i++)
		set(i, 2, 1);
	for (uint64_t i = 250; i < 265; i++)
		set(i, 3, 1.8); /* quick for the second, slow for the first */
	find();
	assert_int_equal(found.len, 2);
	assert_int_equal(found.data[1].start_ns, 249 * S);
	assert_int_equal(found.data[1].end_ns, 266 * S);
	/* At the pace of the first, by both ratios. */
	found.len = 0;
	for (uint64_t i = 250; i < 265; i++)
		set(i, 3, 1 / 0.36);
	find();
	assert_int_equal(found.len, 1);
}

/* Calls that it does not have, as evaluation: it is no slower training. */
static void other_work(size_t without)
{
	struct model_regime other = {.windows = 10, .sized = 16000};
	regimes_of_two(0.5f);
	for (size_t i = without; i < REGIME_SIZES; i++)
		other.places[REGIME_SIZES + i] = 0.5f / (float)(SIZES - without);
	regimes_add(regimes, &other);
	add_usual(0, 100, 150);
	for (uint64_t i = 120; i < 128; i++)
		set(i, 3, 1);
	find();
}

static void test_other_work(void **state)
{
	(void)state;
	other_work(REGIME_SIZES / 2);
	assert_int_equal(found.len, 0);
}

static void test_partly_other_work(void **state)
{
	(void)state;
	other_work(REGIME_SIZES / 5);
	assert_int_equal(found.len, 0);
}

static void test_all_of_the_work(void **state)
{
	(void)state;
	other_work(0);
	assert_int_equal(found.len, 1);
}

/* Severe faults hide light ones, as long as they count. */
static void test_light_ones(void **state)
{
	uint64_t seed = 5;
	(void)state;
	regimes_of_two(0.5f);
	for (uint64_t i = 100; i < 200; i++)
		add(0, i, 1, exp(0.1 * random_normal(&seed)));
	for (uint64_t i = 110; i < 128; i++)
		set(i, 1, 0.3);
	for (uint64_t i = 150; i < 156; i++)
		set(i, 1, 0.69);
	find();
	assert_int_equal(found.len, 2);
	assert_true(learn_suspects_at(&found, 0, 152 * S));
}

/* What has more windows than the half of the other's is usual work itself. */
static void test_common_work(void **state)
{
	(void)state;
	regimes_of_two(0.5f);
	add_usual(0, 100, 200);
	for (uint64_t i = 150; i < 185; i++)
		set(i, 2, 1);
	find();
	assert_int_equal(found.len, 0);
}

/* Requests come in between: the windows around are partly busy. And one fault. */
static void server(size_t idles)
{
	regimes_of_two(0.5f);
	add_usual(0, 100, 200);
	add_usual(1, 100, 130);
	add(1, 130, 1, 0.0002); /* of the other recording, it does not count */
	for (uint64_t at = 110; at < 110 + 12 * idles; at += 12) {
		set(at - 1, 1, 0.5);
		for (uint64_t i = at; i < at + 4; i++)
			set(i, 1, 0.0002);
		set(at + 4, 1, 0.6);
	}
	for (uint64_t i = 170; i < 175; i++)
		set(i, 1, 0.6);
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
	regimes_of_two(0.5f);
	add_usual(0, 100, 150);
	for (uint64_t i = 100; i < 150; i++) {
		bool still = (i > 110 && i < 115) || (i > 130 && i < 135);
		if (still)
			set(i, 1, 0.0002);
		add(0, i, 1, still ? 0.0002 : 1);
		windows.data[windows.len - 1].pid = 8;
	}
	find();
	assert_int_equal(found.len, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_slow_stretches, begin, end),
		cmocka_unit_test_setup_teardown(test_once, begin, end),
		cmocka_unit_test_setup_teardown(test_tail, begin, end),
		cmocka_unit_test_setup_teardown(test_many_and_varied, begin, end),
		cmocka_unit_test_setup_teardown(test_few, begin, end),
		cmocka_unit_test_setup_teardown(test_kind_of_work_slowed, begin, end),
		cmocka_unit_test_setup_teardown(test_kind_of_work_not_slowed, begin, end),
		cmocka_unit_test_setup_teardown(test_slowed_twice, begin, end),
		cmocka_unit_test_setup_teardown(test_other_work, begin, end),
		cmocka_unit_test_setup_teardown(test_partly_other_work, begin, end),
		cmocka_unit_test_setup_teardown(test_all_of_the_work, begin, end),
		cmocka_unit_test_setup_teardown(test_light_ones, begin, end),
		cmocka_unit_test_setup_teardown(test_common_work, begin, end),
		cmocka_unit_test_setup_teardown(test_idle_between_requests, begin, end),
		cmocka_unit_test_setup_teardown(test_still, begin, end),
		cmocka_unit_test_setup_teardown(test_still_ranks, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

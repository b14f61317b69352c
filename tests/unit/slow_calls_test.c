/* slow_calls_test.c - calls of which it is known exactly which were delayed: those are told, others
 * that are around them or in them are not.
 * links: incident detect analyze base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "detect/own_time.h"
#include "incident/slow_calls.h"

#define SECOND	  1000000000ULL
#define SECONDS	  30
#define FROM	  15 /* of the fault */
#define PID	  7
#define FUNCTIONS 5
#define CALLS_MAX 1500000

enum { MODULE, LINEAR, PRODUCT, COPY, NORM }; /* a product lies in a linear, all in a module */

struct made {
	uint32_t function;
	uint64_t start_ns, dur_ns;
	bool delayed;
};

static const double medians_ns[] = {0, 0, 60e3, 5e3, 30e3};
static struct made calls[CALLS_MAX];
static size_t calls_len;
static uint64_t now_ns, seed;
static struct baseline usual[FUNCTIONS];
static uint64_t until;	     /* of the fault, in seconds */
static double delay_ratio;   /* of calls, in the fault */
static double delayed_times; /* what they take of the usual */
static double all_times;     /* what all calls take of it, in the fault */

static bool in_fault(void)
{
	return now_ns >= FROM * SECOND && now_ns < until * SECOND;
}

/* Usual ones have a normal logarithm, and one in five hundred is three times as long. */
static double takes(uint32_t function)
{
	double ns = medians_ns[function] * exp(0.12 * random_normal(&seed));
	if (random_uniform(&seed) < 0.002)
		ns *= 3;
	return ns * (in_fault() ? all_times : 1);
}

static void emit(uint32_t function, uint64_t start_ns, bool delayed)
{
	assert_true(calls_len < CALLS_MAX);
	calls[calls_len++] = (struct made){function, start_ns, now_ns - start_ns, delayed};
}

static void leaf(uint32_t function)
{
	uint64_t start = now_ns;
	double ns = takes(function);
	bool may = function == PRODUCT || function == NORM;
	bool delayed = may && in_fault() && random_uniform(&seed) < delay_ratio;
	now_ns += (uint64_t)(delayed ? ns * delayed_times : ns);
	emit(function, start, delayed);
}

static void linear(void)
{
	uint64_t start = now_ns;
	leaf(COPY);
	leaf(PRODUCT);
	emit(LINEAR, start, false);
}

static void module(void)
{
	uint64_t start = now_ns;
	linear();
	leaf(NORM);
	linear();
	emit(MODULE, start, false);
	now_ns += 1000;
}

static double own_of(struct own_times *own, const struct made *c)
{
	return own_time_ns(own, &(struct own_call){.pid = PID,
						   .tid = PID,
						   .start_ns = c->start_ns,
						   .dur_ns = c->dur_ns,
						   .usual_ns = usual[c->function].usual_ns});
}

static void learn(void)
{
	struct baseline_sample *samples[FUNCTIONS];
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		samples[i] = baseline_sample_new(i);
	calls_len = 0;
	now_ns = (SECONDS + 10) * SECOND; /* beyond the fault */
	for (int i = 0; i < 2000; i++)
		module();
	for (size_t i = 0; i < calls_len; i++)
		baseline_sample_add(samples[calls[i].function], calls[i].dur_ns);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		assert_true(baseline_of_sample(&usual[i], samples[i]));
		baseline_sample_free(samples[i]);
	}
}

static void make(void)
{
	learn();
	calls_len = 0;
	now_ns = 0;
	while (now_ns < SECONDS * SECOND)
		module();
}

struct told {
	size_t calls, delayed, told, right;
	size_t told_of[FUNCTIONS], in_fault_of[FUNCTIONS];
};

static void pass(struct slow_calls *slow, struct told *ret)
{
	struct own_times *own = own_times_new();
	for (size_t i = 0; i < calls_len; i++) {
		const struct made *m = &calls[i];
		struct slow_call c = {.pid = PID,
				      .function = m->function,
				      .key = m->function,
				      .end_ns = m->start_ns + m->dur_ns,
				      .own_ns = own_of(own, m),
				      .usual = &usual[m->function]};
		if (!ret) {
			slow_calls_count(slow, &c);
			continue;
		}
		bool told = slow_calls_is(slow, &c);
		ret->calls++;
		ret->delayed += m->delayed;
		ret->told += told;
		ret->right += told && m->delayed;
		ret->told_of[m->function] += told;
		ret->in_fault_of[m->function] +=
			m->start_ns >= FROM * SECOND && c.end_ns < until * SECOND;
	}
	own_times_free(own);
}

/* from, to: seconds that an anomaly is told of; 0, 0: none is. */
static struct told judge(uint64_t from, uint64_t to, double least_effect)
{
	struct told ret = {0};
	struct slow_calls *slow = slow_calls_new(SECOND, least_effect);
	if (to)
		slow_calls_anomaly(slow, PID, from * SECOND, to * SECOND);
	pass(slow, NULL);
	slow_calls_find(slow);
	pass(slow, &ret);
	slow_calls_free(slow);
	return ret;
}

static int begin(void **state)
{
	(void)state;
	seed = 11;
	until = 20;
	delay_ratio = 0;
	delayed_times = all_times = 1;
	return 0;
}

/* Five in a hundred calls of two functions take 2.5 times as long. */
static void delayed_calls_are_told(void **state)
{
	(void)state;
	delay_ratio = 0.05;
	delayed_times = 2.5;
	make();
	struct told t = judge(FROM, until, 0.1);
	assert_true(t.delayed > 1000);
	assert_true((double)t.right >= 0.9 * (double)t.told);
	assert_true((double)t.right >= 0.9 * (double)t.delayed);
	assert_int_equal(t.told_of[MODULE] + t.told_of[LINEAR], 0);
}

/* What was seen of the fault is a part of it, or its surroundings too. */
static void an_anomalys_edges_hardly_matter(void **state)
{
	(void)state;
	delay_ratio = 0.5;
	delayed_times = 2.5;
	make();
	const uint64_t cases[][2] = {{FROM + 1, until - 1}, {FROM - 8, until + 8}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct told t = judge(cases[i][0], cases[i][1], 0.1);
		assert_true((double)t.right >= 0.95 * (double)t.told);
		assert_true((double)t.right >= 0.95 * (double)t.delayed);
	}
}

/* Of an anomaly as long as the recording nothing else tells what is usual but the model. */
static void an_anomaly_may_be_all_there_is(void **state)
{
	(void)state;
	delay_ratio = 0.5;
	delayed_times = 2.5;
	make();
	struct told t = judge(0, SECONDS, 0.1);
	assert_true((double)t.right >= 0.9 * (double)t.told);
	assert_true((double)t.right >= 0.9 * (double)t.delayed);
}

/* All calls that take their time by themselves are slow; those around them are not. */
static void where_everything_is_slow_most_calls_are(void **state)
{
	(void)state;
	all_times = 1.6;
	make();
	struct told t = judge(FROM, until, 0.1);
	for (uint32_t f = COPY; f < FUNCTIONS; f++)
		assert_true((double)t.told_of[f] > 0.8 * (double)t.in_fault_of[f]);
	assert_true((double)t.told_of[PRODUCT] > 0.8 * (double)t.in_fault_of[PRODUCT]);
	assert_int_equal(t.told_of[MODULE] + t.told_of[LINEAR], 0);
}

/* The delays come to six in a hundred of the time. */
static void nobody_minds_a_small_effect(void **state)
{
	(void)state;
	delay_ratio = 0.02;
	delayed_times = 4;
	make();
	struct told t = judge(FROM, until, 0.9);
	assert_int_equal(t.told, 0);
	t = judge(FROM, until, 0.01);
	assert_true((double)t.right > 0.8 * (double)t.delayed);
}

static void usual_calls_are_not_told(void **state)
{
	(void)state;
	make();
	struct told t = judge(FROM, until, 1e-9);
	assert_true((double)t.told < 1e-3 * (double)t.calls);
	t = judge(0, 0, 1e-9);
	assert_true((double)t.told < 1e-3 * (double)t.calls);
	t = judge(0, 0, 0.1);
	assert_int_equal(t.told, 0);
}

/* For so short a part of the recording that the others tell what is usual. */
static void delays_are_told_without_an_anomaly(void **state)
{
	(void)state;
	until = FROM + 2;
	delay_ratio = 0.5;
	delayed_times = 2.5;
	make();
	struct told t = judge(0, 0, 0.1);
	assert_true((double)t.right >= 0.95 * (double)t.told);
	assert_true((double)t.right >= 0.9 * (double)t.delayed);
}

/* All are slower, and some so much that the others do not matter. */
static void calls_that_lost_little_beside_slow_ones_are_not_told(void **state)
{
	(void)state;
	delay_ratio = 0.5;
	delayed_times = 80;
	all_times = 1.4;
	make();
	struct told t = judge(FROM, until, 0.1);
	assert_true((double)t.right >= 0.9 * (double)(t.told_of[PRODUCT] + t.told_of[NORM]));
	assert_true((double)t.right >= 0.95 * (double)t.delayed);
}

/* Outside of anomalies too. */
static void a_long_stall_is_told_by_itself(void **state)
{
	(void)state;
	make();
	size_t at = calls_len / 4;
	while (calls[at].function != COPY)
		at++;
	calls[at].dur_ns += SECOND / 200;
	struct told t = judge(0, 0, 0.1);
	assert_int_equal(t.told, 0);
	calls[at].dur_ns += SECOND / 5;
	t = judge(0, 0, 0.1);
	assert_int_equal(t.told, 1);
	assert_int_equal(t.told_of[COPY], 1);
}

/* ---- of keys, processes and times of their own: a call each, made of its number ---- */

struct one {
	struct slow_call call;
	bool delayed;
};
typedef struct one (*make_one)(size_t i);

static struct told judge_ones(make_one make_it, size_t n, uint64_t from, uint64_t to)
{
	struct told ret = {.calls = n};
	struct slow_calls *slow = slow_calls_new(SECOND, 0.1);
	if (to)
		slow_calls_anomaly(slow, PID, from * SECOND, to * SECOND);
	for (size_t i = 0; i < n; i++) {
		struct one o = make_it(i);
		slow_calls_count(slow, &o.call);
	}
	slow_calls_find(slow);
	for (size_t i = 0; i < n; i++) {
		struct one o = make_it(i);
		bool told = slow_calls_is(slow, &o.call);
		ret.delayed += o.delayed;
		ret.told += told;
		ret.right += told && o.delayed;
	}
	slow_calls_free(slow);
	return ret;
}

/* A usual one of a tenth of a millisecond to a second, by its number. */
static double noisy(size_t i, double ns, double sigma)
{
	uint64_t of = i * 2654435761U + 1;
	return ns * exp(sigma * random_normal(&of));
}

static struct baseline model_of(double ns, double sigma)
{
	return (struct baseline){.count = 500,
				 .log_median = log(ns),
				 .sigma = sigma,
				 .usual_ns = (uint64_t)ns,
				 .q99_ns = (uint64_t)(ns * exp(2.33 * sigma))};
}

static const struct baseline *hundred_us(void)
{
	static struct baseline ret;
	ret = model_of(1e5, 0.05);
	return &ret;
}

/* One shape of a function is slower than in the model, for good; of another some calls are delayed.
 */
static struct one two_shapes(size_t i)
{
	uint64_t second = i / 400;
	bool second_shape = i % 2,
	     delayed = second_shape && second >= 30 && second < 32 && i % 4 == 1;
	double ns = noisy(i, second_shape ? 1e5 : 1.6e5, 0.05);
	return (struct one){.call = {.pid = PID,
				     .function = 1,
				     .key = second_shape,
				     .end_ns = second * SECOND + i % 400 * 1000000,
				     .own_ns = delayed ? ns * 1.6 : ns,
				     .usual = hundred_us()},
			    .delayed = delayed};
}

static void shapes_of_a_function_are_apart(void **state)
{
	(void)state;
	struct told t = judge_ones(two_shapes, 400 * 60, 0, 0);
	assert_int_equal(t.delayed, 200);
	assert_true(t.right >= 180);
	assert_true((double)t.right >= 0.9 * (double)t.told);
}

/* One of sixteen processes is always half as slow again: that is usual for it. */
static struct one many_processes(size_t i)
{
	uint32_t pid = i % 16;
	double ns = noisy(i, 1e6, 0.05);
	return (struct one){.call = {.pid = PID + pid,
				     .function = 1,
				     .end_ns = i * 1000000,
				     .own_ns = pid ? ns : ns * 1.5,
				     .usual = hundred_us()}};
}

static void processes_are_apart(void **state)
{
	(void)state;
	struct told t = judge_ones(many_processes, 60000, 0, 0);
	assert_true(t.told < 60);
}

static struct baseline of_test;
static struct one one_a_second(size_t i)
{
	return (struct one){.call = {.pid = PID,
				     .function = 1,
				     .end_ns = i * SECOND,
				     .own_ns = noisy(i, 3e8, 0.1),
				     .usual = &of_test}};
}

/* A window in ten has a call that is as rare as one in ten. */
static void few_calls_of_many_windows_are_not_told(void **state)
{
	(void)state;
	of_test = model_of(3e8, 0.1);
	struct told t = judge_ones(one_a_second, 3600, 0, 0);
	assert_true(t.told <= 2);
}

#define SHAPES		  300
#define SECONDS_OF_SHAPES 2000

static struct one of_shapes(size_t i)
{
	uint64_t second = i / SHAPES;
	bool slow = second >= SECONDS_OF_SHAPES - 20;
	double ns = noisy(i, 1e5, 0.05);
	return (struct one){.call = {.pid = PID,
				     .function = i % 3,
				     .key = i % SHAPES,
				     .end_ns = second * SECOND + i % SHAPES * 1000000,
				     .own_ns = slow ? ns * 6 : ns,
				     .usual = hundred_us()},
			    .delayed = slow};
}

/* More windows and shapes than are held at a time: those without losses make room. */
static void long_recordings_have_slow_calls_too(void **state)
{
	(void)state;
	struct told t = judge_ones(of_shapes, (size_t)SHAPES * SECONDS_OF_SHAPES,
				   SECONDS_OF_SHAPES - 20, SECONDS_OF_SHAPES);
	assert_int_equal(t.delayed, SHAPES * 20);
	assert_true((double)t.right >= 0.99 * (double)t.delayed);
	assert_true((double)t.right >= 0.9 * (double)t.told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(delayed_calls_are_told, begin),
		cmocka_unit_test_setup(an_anomalys_edges_hardly_matter, begin),
		cmocka_unit_test_setup(an_anomaly_may_be_all_there_is, begin),
		cmocka_unit_test_setup(where_everything_is_slow_most_calls_are, begin),
		cmocka_unit_test_setup(nobody_minds_a_small_effect, begin),
		cmocka_unit_test_setup(usual_calls_are_not_told, begin),
		cmocka_unit_test_setup(delays_are_told_without_an_anomaly, begin),
		cmocka_unit_test_setup(calls_that_lost_little_beside_slow_ones_are_not_told, begin),
		cmocka_unit_test(shapes_of_a_function_are_apart),
		cmocka_unit_test(processes_are_apart),
		cmocka_unit_test(few_calls_of_many_windows_are_not_told),
		cmocka_unit_test(long_recordings_have_slow_calls_too),
		cmocka_unit_test_setup(a_long_stall_is_told_by_itself, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

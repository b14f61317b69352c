/* clock_test.c - how fast work goes on, from sums made by hand: of jobs of several functions, with
 * calls beside the work, evaluations, work that nobody knows; and what is learned of windows.
 * links: detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/random.h"
#include "detect/clock.h"

#define SECOND 1000000000ULL
#define CALLS  400 /* of each function, in a second of usual time */

enum { FORWARD, BACKWARD, UPDATE, FUNCTIONS };
/* Of a second. */
static const double share[FUNCTIONS] = {0.3, 0.5, 0.2};

static VEC(struct clock_window) windows;
static struct model_clock clock;

static int end(void **state)
{
	(void)state;
	vec_free(&windows);
	return 0;
}

/* So many usual seconds of a function, in so many real ones. */
static void add(struct clock_sums *s, uint32_t function, double usual_s, double slower)
{
	double calls = CALLS * usual_s / share[function];
	for (int i = 0; i < (int)calls; i++)
		clock_add_call(s,
			       &(struct clock_part){function, false, 1e9 * usual_s * slower / calls,
						    1e9 * usual_s / calls},
			       1);
}

/* A second of steps, each so many times as long as usual. */
static struct clock_sums steps(double slower)
{
	struct clock_sums s = {0};
	for (uint32_t f = 0; f < FUNCTIONS; f++)
		add(&s, f, share[f] / slower, slower);
	return s;
}

static void push(enum detect_layer layer, uint32_t pid, uint64_t second, struct clock_sums sums)
{
	*vec_push(&windows) = (struct clock_window){
		.pid = pid, .start_ns = second * SECOND, .layer = layer, .sums = sums};
}

static void learn(void)
{
	uint64_t seed = 3;
	for (uint64_t i = 0; i < 60; i++)
		push(DETECT_TORCH, 7, i, steps(exp(0.02 * random_normal(&seed))));
	clock_learn(&clock, windows.data, windows.len, SECOND, false);
	assert_int_equal(clock.layer, DETECT_TORCH);
}

static void expect(const struct model_clock *m, const struct clock_sums *s, double speed,
		   bool agrees)
{
	struct clock_reading r;
	clock_read(&r, m, s, SECOND);
	if (fabs(r.speed - speed) > 0.02 || r.agrees != agrees)
		fail_msg("speed %g is not %g, or it agrees: %d", r.speed, speed, r.agrees);
}

static void slow_steps(void **state)
{
	(void)state;
	learn();
	for (double slower = 0.5; slower < 40; slower *= 1.7) {
		struct clock_sums s = steps(slower);
		expect(&clock, &s, 1 / slower, true);
		expect(NULL, &s, 1 / slower, false);
	}
}

/* One function alone is slow: all goes on at the pace that this leaves. */
static void a_slow_function(void **state)
{
	struct clock_sums s = {0};
	(void)state;
	learn();
	for (uint32_t f = 0; f < FUNCTIONS; f++)
		add(&s, f, share[f] / 1.5, f == BACKWARD ? 2 : 1);
	expect(&clock, &s, 1 / 1.5, true);
}

/* Many calls of a function that is known, in half of the time. Their usual time is none of the
 * work's. */
static void calls_in_vain(void **state)
{
	struct clock_sums s = steps(2);
	(void)state;
	s.ns /= 2;
	learn();
	add(&s, UPDATE, 0.5, 1);
	expect(&clock, &s, 0.5 + (CLOCK_MORE - 1) * share[UPDATE] / 2, true);
	expect(NULL, &s, 1, false); /* without a model nobody can know */
}

/* Forward passes alone are known work, and as fast as ever; or slower. */
static void evaluation(void **state)
{
	(void)state;
	learn();
	for (double slower = 1; slower < 3; slower += 0.7) {
		struct clock_sums s = {0};
		add(&s, FORWARD, 1 / slower, slower);
		expect(&clock, &s, 1 / slower, false);
	}
}

/* As usual between the steps: then no window is surprising. */
static void evaluation_in_training(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 60; i++) {
		struct clock_sums s = {0};
		double of = i % 3 ? 0 : 0.3; /* of the second */
		for (uint32_t f = 0; f < FUNCTIONS; f++)
			add(&s, f, share[f] * (1 - of), 1);
		if (of > 0)
			add(&s, FORWARD, of, 1);
		push(DETECT_TORCH, 7, i, s);
	}
	clock_learn(&clock, windows.data, windows.len, SECOND, false);
	for (size_t i = 0; i < windows.len; i++) {
		struct clock_reading r;
		clock_read(&r, &clock, &windows.data[i].sums, SECOND);
		assert_true(fabs(r.speed - 1) < 0.03);
	}
}

static void unknown_calls(void **state)
{
	struct clock_sums some = steps(2), other = {0};
	struct clock_reading r;
	(void)state;
	learn();
	some.ns /= 2;
	clock_add_call(&some, &(struct clock_part){50, false, 5e8, NAN}, 1);
	expect(&clock, &some, 0.5, true);
	clock_add_call(&other, &(struct clock_part){50, false, 9e8, NAN}, 1);
	clock_add_gap(&other, &(struct clock_part){50, false, 1e8, NAN});
	clock_read(&r, &clock, &other, SECOND);
	assert_true(r.is_other && r.speed == 0);
}

/* Of another batch: they count as they took, or as was learned since, and it is said. */
static void new_sizes(void **state)
{
	struct clock_sums s = steps(2), learned = steps(2);
	struct clock_reading r;
	(void)state;
	learn();
	s.ns /= 2;
	learned.ns /= 2;
	for (uint32_t i = 0; i < CALLS / 2; i++) {
		clock_add_call(&s, &(struct clock_part){FORWARD, true, 1e9 / CALLS, NAN}, 1);
		clock_add_call(&learned,
			       &(struct clock_part){FORWARD, true, 1e9 / CALLS, 5e8 / CALLS}, 1);
	}
	clock_read(&r, &clock, &s, SECOND);
	assert_true(clock_resized(&s, SECOND) && fabs(r.speed - 1) < 0.1);
	clock_read(&r, &clock, &learned, SECOND);
	assert_true(clock_resized(&learned, SECOND) && fabs(r.speed - 0.75) < 0.1);
}

static void too_little_says_nothing(void **state)
{
	struct clock_sums s = {0};
	(void)state;
	learn();
	add(&s, FORWARD, 0.01, 3);
	expect(&clock, &s, 0, false);
}

/* The layer whose windows differ least; processes that work for another are left out of it. */
static void what_is_learned(void **state)
{
	uint64_t seed = 9;
	(void)state;
	for (uint64_t i = 0; i < 60; i++) {
		struct clock_sums worker = {0};
		add(&worker, UPDATE, 0.2, exp(random_normal(&seed)));
		push(DETECT_CUDA, 7, i, steps(exp(0.2 * random_normal(&seed))));
		push(DETECT_TORCH, 7, i, steps(exp(0.02 * random_normal(&seed))));
		push(DETECT_TORCH, 8, i, worker);
	}
	clock_learn(&clock, windows.data, windows.len, SECOND, false);
	assert_int_equal(clock.layer, DETECT_TORCH);
	for (uint32_t f = 0; f < FUNCTIONS; f++) {
		assert_true(fabs(clock.share[f] - share[f]) < 0.01);
		assert_true(fabs(clock.calls_per_s[f] / CALLS - 1) < 0.02);
		assert_true(clock.most[f] == CLOCK_MORE);
	}
	vec_free(&windows);
	for (uint64_t i = 0; i < 29; i++)
		push(DETECT_TORCH, 7, i, steps(1));
	clock_learn(&clock, windows.data, windows.len, SECOND, false);
	assert_int_equal(clock.layer, DETECT_LAYERS); /* too few */
	clock_learn(&clock, NULL, 0, SECOND, false);
	assert_int_equal(clock.layer, DETECT_LAYERS);
}

/* Loaders of data have more time than the loop they work for, most of it waits; how fast they are
 * says nothing of it. Of two that each say that the other is its parent none is left out by that.
 */
static void loaders_of_data(void **state)
{
	(void)state;
	for (uint32_t parent = 0; parent < 2; parent++) {
		vec_free(&windows);
		for (uint64_t i = 0; i < 60; i++) {
			push(DETECT_TORCH, 7, i, steps(1.5));
			for (uint32_t pid = 8; pid < 10; pid++) {
				struct clock_sums waits = {0};
				add(&waits, UPDATE, 2, 1);
				push(DETECT_TORCH, pid, i, waits);
				windows.data[windows.len - 1].parent = 7 * parent;
			}
		}
		clock_learn(&clock, windows.data, windows.len, SECOND, false);
		assert_int_equal(clock.windows, parent ? 60 : 120);
		struct clock_sums s = steps(1.5);
		if (parent)
			expect(&clock, &s, 1, true);
	}
	for (size_t i = 0; i < windows.len; i++)
		windows.data[i].parent = windows.data[i].pid == 7 ? 8 : 7;
	clock_learn(&clock, windows.data, windows.len, SECOND, false);
	assert_int_equal(clock.windows, 60); /* 9 works for 7, which does less than half of 8 */
}

/* A pool of threads: what one waits for the others is long or short as it happens. */
static void the_windows_time(void **state)
{
	uint64_t seed = 9;
	struct clock_sums slow = steps(2);
	(void)state;
	vec_free(&windows);
	for (uint64_t i = 0; i < 60; i++) {
		struct clock_sums s = steps(exp(0.02 * random_normal(&seed)));
		clock_add_gap(&s, &(struct clock_part){UPDATE, false,
						       1e9 * exp(random_normal(&seed)), 1e9});
		push(DETECT_TORCH, 7, i, s);
	}
	clock_learn(&clock, windows.data, windows.len, SECOND, false);
	assert_true(clock.wall && clock.sigma < 0.05);
	clock_add_gap(&slow, &(struct clock_part){UPDATE, false, 5e8, 5e8});
	expect(&clock, &slow, 0.5, true);
	/* where the world is waited for, the window has more than the work */
	clock_learn(&clock, windows.data, windows.len, SECOND, true);
	assert_true(!clock.wall && clock.waits && clock.sigma > 0.1);
	vec_free(&windows);
	learn();
	assert_false(clock.wall);
}

/* Of calls whose times are anything the number alone tells; of another mix of work it does not. */
static void the_calls_alone(void **state)
{
	uint64_t seed = 9;
	(void)state;
	vec_free(&windows);
	for (uint64_t i = 0; i < 60; i++) {
		struct clock_sums s = steps(1.25);
		for (uint32_t f = 0; f < FUNCTIONS; f++) {
			double usual = s.usual[f] * exp(0.5 * random_normal(&seed));
			s.usual_ns += usual - s.usual[f];
			s.usual[f] = (float)usual;
		}
		push(DETECT_TORCH, 7, i, s);
	}
	clock_learn(&clock, windows.data, windows.len, SECOND, false);
	assert_true(clock.counted > 0 && clock.sigma < 0.05);
	for (double slower = 1; slower < 20; slower *= 1.7) {
		struct clock_sums s = steps(1.25 * slower);
		s.usual_ns *= 3;
		expect(&clock, &s, 1 / slower, true);
	}
	struct clock_sums evaluation = {0};
	add(&evaluation, FORWARD, 0.5, 1);
	struct clock_reading r;
	clock_read(&r, &clock, &evaluation, SECOND);
	assert_false(r.agrees);
	/* where the world is waited for they say how much there was to do */
	clock_learn(&clock, windows.data, windows.len, SECOND, true);
	assert_true(clock.counted == 0);
	vec_free(&windows);
	learn();
	assert_true(clock.counted == 0);
}

/* A pool that grows: as many calls, of threads that each waited longer before them. That the job
 * was quicker for a while makes both, numbers and times, differ alike. */
static void learn_pool(bool sizes)
{
	uint64_t seed = 9;
	vec_free(&windows);
	for (uint64_t i = 0; i < 60; i++) {
		struct clock_sums s = steps((i < 30 ? 1 : 1.3) * exp(0.02 * random_normal(&seed)));
		for (uint32_t f = 0; f < FUNCTIONS && sizes && i % 2; f++)
			s.calls[f] /= 2; /* of twice the size */
		clock_add_gap(&s,
			      &(struct clock_part){UPDATE, false, 1e9 * exp(random_normal(&seed)),
						   3e8 * exp(0.5 * random_normal(&seed))});
		push(DETECT_TORCH, 7, i, s);
	}
	clock_learn(&clock, windows.data, windows.len, SECOND, false);
	assert_true(clock.wall);
}

static void the_calls_of_a_pool(void **state)
{
	(void)state;
	learn_pool(true);
	assert_true(clock.counted == 0);
	learn_pool(false);
	assert_true(clock.counted > 0);
	struct clock_sums few = steps(1.3), many = steps(1.3);
	clock_add_gap(&few, &(struct clock_part){UPDATE, false, 1e9, 1e9});
	clock_add_gap(&many, &(struct clock_part){UPDATE, false, 9e9, 9e9});
	struct clock_reading by_few, by_many;
	clock_read(&by_few, &clock, &few, SECOND);
	clock_read(&by_many, &clock, &many, SECOND);
	assert_true(by_few.agrees && by_many.agrees);
	assert_float_equal(by_few.speed, by_many.speed, 1e-9);
}

/* A step waits for the GPU once, for half of its time; now it does so six times as often, and waits
 * for nothing. */
static void waits_in_vain(void **state)
{
	struct clock_sums s = steps(3);
	(void)state;
	learn();
	for (int i = 0; i < 5 * CALLS; i++)
		clock_add_call(
			&s, &(struct clock_part){BACKWARD, false, 0.05 * 5e8 / CALLS, 5e8 / CALLS},
			1);
	expect(&clock, &s, 0.33, true);
}

/* Reads of a tensor, each of which waits for the GPU within: what usually passes before such a wait
 * is no work where there are many of them. */
static void nested_in_vain(void **state)
{
	enum { WAIT = FUNCTIONS, WAITS = 2 };
	const struct clock_part wait = {WAIT, false, 1e3, 5e6};
	(void)state;
	vec_free(&windows);
	for (uint64_t i = 0; i < 60; i++) {
		struct clock_sums s = steps(1);
		for (int k = 0; k < WAITS; k++) {
			clock_add_nested(&s, &wait, 1);
			clock_add_gap(&s, &wait);
		}
		push(DETECT_TORCH, 7, i, s);
	}
	clock_learn(&clock, windows.data, windows.len, SECOND, false);
	struct clock_sums slow = steps(3);
	for (int k = 0; k < 500 * WAITS; k++) {
		clock_add_nested(&slow, &wait, 1);
		clock_add_gap(&slow, &wait);
	}
	expect(&clock, &slow, 0.33, true);
}

/* Between two kinds of work no pace is agreed on; what is made in vain is no work there either. */
static void in_vain_in_other_work(void **state)
{
	struct clock_sums s = {0}, vain = {0};
	(void)state;
	learn();
	add(&s, FORWARD, 0.6, 1); /* as an evaluation has it */
	vain = s;
	add(&vain, UPDATE, 0.04, 1);
	for (int i = 0; i < 20 * CALLS; i++)
		clock_add_call(&vain, &(struct clock_part){UPDATE, false, 5e7 / CALLS, 2e8 / CALLS},
			       1);
	struct clock_reading r;
	clock_read(&r, &clock, &vain, SECOND);
	assert_false(r.agrees);
	assert_true(r.speed < 0.6); /* 4.6 of usual time in 1.6 s */
}

/* Sizes that are new in a few functions are no other work: they are made beside it. */
static void new_sizes_beside_the_work(void **state)
{
	struct clock_sums s = steps(2);
	(void)state;
	learn();
	for (uint32_t f = 4; f < 20; f++)
		clock_add_call(&s, &(struct clock_part){f, false, 1e6, 1e6}, 1);
	for (uint32_t i = 0; i < CALLS; i++)
		clock_add_call(&s, &(struct clock_part){50, true, 5e8 / CALLS, NAN}, 1);
	assert_false(clock_resized(&s, SECOND));
	for (uint32_t f = 4; f < 20; f++)
		clock_add_call(&s, &(struct clock_part){f, true, 1e6, NAN}, 1);
	assert_true(clock_resized(&s, SECOND));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(slow_steps, end),
		cmocka_unit_test_teardown(a_slow_function, end),
		cmocka_unit_test_teardown(calls_in_vain, end),
		cmocka_unit_test_teardown(evaluation, end),
		cmocka_unit_test_teardown(evaluation_in_training, end),
		cmocka_unit_test_teardown(unknown_calls, end),
		cmocka_unit_test_teardown(new_sizes, end),
		cmocka_unit_test_teardown(the_calls_alone, end),
		cmocka_unit_test_teardown(the_calls_of_a_pool, end),
		cmocka_unit_test_teardown(waits_in_vain, end),
		cmocka_unit_test_teardown(nested_in_vain, end),
		cmocka_unit_test_teardown(in_vain_in_other_work, end),
		cmocka_unit_test_teardown(new_sizes_beside_the_work, end),
		cmocka_unit_test_teardown(the_windows_time, end),
		cmocka_unit_test_teardown(too_little_says_nothing, end),
		cmocka_unit_test_teardown(what_is_learned, end),
		cmocka_unit_test_teardown(loaders_of_data, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

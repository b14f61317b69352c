/* excuses_test.c - the table of excuses: that each is turned off by its own.
 * links: rows incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rare_rows.h"

static void each_has_a_bit(void **state)
{
	(void)state;
	uint32_t bits = 0;
#define X(name, stage, holds, what)                                                                \
	assert_int_equal(bits &excuse_bit(name), 0);                                               \
	bits |= excuse_bit(name);
	EXCUSES(X, X)
#undef X
	assert_int_equal(bits, (1u << 9) - 1);
	assert_int_equal(excuse_bit("nothing"), 0);
}

/* A row that is given at second 20, after usual ones, and which excuse it has. */
static void warm_up(void)
{
	second = BEGIN; /* the first of another process */
	struct feature_row row = rare_row(DETECT_TORCH, PID + 1, RARE);
	give(&row);
}

static void new_sizes(void)
{
	unjudged_row(RARE);
}

static void other_work(void)
{
	struct feature_row row = rare_row(DETECT_TORCH, PID, RARE);
	row.other_work = true;
	give(&row);
}

/* After its warm-up the first window of another process says how well the model fits. */
static void stale_model(void)
{
	for (int i = 0; i < 6; i++) {
		struct feature_row row = rare_row(DETECT_TORCH, PID + 1, USUAL);
		row.pace = 0;
		give(&row);
		second++;
	}
	struct feature_row row = rare_row(DETECT_TORCH, PID + 1, RARE);
	row.pace = 0;
	row.unknown_share = 1;
	give(&row);
}

static void new_work(void)
{
	row_with(RARE, 2, 1);
}

static const struct {
	const char *name;
	void (*give)(void);
	uint32_t pid;
	size_t at;
} cases[] = {
	{"warm-up", warm_up, PID + 1, 0},    {"new-sizes", new_sizes, PID, 20},
	{"other-work", other_work, PID, 20}, {"stale-model", stale_model, PID + 1, 26},
	{"new-work", new_work, PID, 20},
};

static double p_without(size_t i, uint32_t excuses)
{
	options.without_excuses = excuses;
	start(false);
	rows(20, USUAL);
	cases[i].give();
	stop();
	return p_at(DETECT_TORCH, cases[i].pid, cases[i].at);
}

static void each_is_turned_off_by_its_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t bit = excuse_bit(cases[i].name);
		assert_true(isnan(p_without(i, 0)));
		assert_true(isnan(p_without(i, ~bit)));
		double p = p_without(i, bit);
		if (!(p < 10 * RARE))
			fail_msg("%s: p is %g", cases[i].name, p);
	}
}

/* New work that goes on at its pace tells by that whether it is slow, unless its sizes are new. */
static double p_of_new_work(double pace, bool resized)
{
	options.least_effect = LEAST_EFFECT;
	options.without_excuses = 0;
	start(false);
	rows(20, USUAL);
	struct feature_row row = rare_row(DETECT_TORCH, PID, RARE);
	row.regime = 2;
	row.pace = pace;
	row.resized = resized;
	give(&row);
	stop();
	options.least_effect = NO_EFFECT;
	return p_at(DETECT_TORCH, PID, 20);
}

static void new_work_is_judged_by_its_pace(void **state)
{
	(void)state;
	assert_false(isnan(p_of_new_work(0.5, false)));
	assert_false(isnan(p_of_new_work(1, false)));
	assert_true(isnan(p_of_new_work(0.5, true)));
	assert_true(isnan(p_of_new_work(0, false))); /* it has none */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_a_bit),
		cmocka_unit_test_setup(each_is_turned_off_by_its_name, begin),
		cmocka_unit_test_setup(new_work_is_judged_by_its_pace, begin),
	};
	return cmocka_run_group_tests(tests, make_model, free_model);
}

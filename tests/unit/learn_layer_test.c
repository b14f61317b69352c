/* learn_layer_test.c - which rows make which mixture: counters of who tells a pace, and of helpers.
 * links: detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/learn_layer.h"

#define TRAINS 10
#define LOADS  20
#define RESTS  30 /* calls nothing */
#define ROWS   60 /* of each */

enum role { OWN, PARENTS, NONE };

static struct feature_row rows[4 * ROWS];
static size_t len;
static struct map64 own; /* who has a pace of its own */

static void row(uint32_t recording, uint32_t pid, enum role role, double x)
{
	uint32_t n;
	struct feature_row *r = &rows[len++];
	*r = (struct feature_row){.start_ns = len,
				  .layer = DETECT_HOST,
				  .pid = pid,
				  .gpu = -1,
				  .recording = recording,
				  .pace = role == NONE ? 0 : 1,
				  .parents_pace = role == PARENTS};
	if (role != NONE)
		learn_role(&own, recording, pid, role == OWN);
	features_of(DETECT_HOST, &n);
	for (uint32_t f = 0; f < FEATURES_MOST; f++)
		r->x[f] = f < n ? x + sin((double)(len * (f + 3))) : NAN;
}

static int begin(void **state)
{
	(void)state;
	len = 0;
	map64_free(&own);
	own = (struct map64){0};
	return 0;
}

static void helpers_come_last(void **state)
{
	(void)state;
	row(0, LOADS, PARENTS, 0);
	row(0, TRAINS, OWN, 0);
	row(0, RESTS, NONE, 0);
	row(0, TRAINS, NONE, 0); /* it waits for a second */
	row(0, TRAINS, OWN, 0);
	row(1, LOADS, OWN, 0); /* the number is another process's there */
	row(0, LOADS, OWN, 0); /* one second alone */
	row(0, LOADS, PARENTS, 0);
	assert_int_equal(learn_helpers_last(rows, len, &own), 4);
	static const uint64_t order[] = {2, 4, 5, 6, 1, 3, 7, 8};
	for (size_t i = 0; i < len; i++)
		assert_int_equal(rows[i].start_ns, order[i]);
	assert_int_equal(learn_helpers_last(rows, 0, &own), 0);
}

static void learn(struct model *m, enum detect_layer layer)
{
	const struct learn_mixture_options o = {.seed = 1};
	struct err e;
	model_init(m);
	for (size_t i = 0; i < len; i++)
		rows[i].layer = layer;
	if (learn_layer(m, layer, rows, len, &own, &o, &e))
		fail_msg("%s", e.msg);
}

static void each_has_its_mixture(void **state)
{
	struct model m;
	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		row(0, TRAINS, OWN, 0);
		row(0, LOADS, PARENTS, 8);
		row(0, RESTS, NONE, 8);
	}
	learn(&m, DETECT_HOST);
	assert_int_equal(m.layers[DETECT_HOST].gmm.rows, ROWS);
	assert_int_equal(m.helpers.gmm.rows, 2 * ROWS);
	assert_true(fabs(m.layers[DETECT_HOST].centre[0]) < 1 && m.helpers.centre[0] > 6);
	assert_ptr_equal(model_mixture_of(&m, DETECT_HOST, true), &m.helpers);
	assert_ptr_equal(model_mixture_of(&m, DETECT_HOST, false), &m.layers[DETECT_HOST]);
	assert_ptr_equal(model_mixture_of(&m, DETECT_CUDA, true), &m.layers[DETECT_CUDA]);
	model_free(&m);
}

/* Where too few are of one kind, or nothing tells who is which; and in other layers. */
static void else_there_is_one(void **state)
{
	static const struct {
		size_t own, none;
		enum detect_layer layer;
	} cases[] = {{ROWS, LEARN_LEAST_ROWS - 1, DETECT_HOST},
		     {LEARN_LEAST_ROWS - 1, ROWS, DETECT_HOST},
		     {0, ROWS, DETECT_HOST},
		     {ROWS, ROWS, DETECT_STEP}};
	struct model m;
	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		begin(NULL);
		for (size_t i = 0; i < cases[c].own; i++)
			row(0, TRAINS, OWN, 0);
		for (size_t i = 0; i < cases[c].none; i++)
			row(0, RESTS, NONE, 0);
		learn(&m, cases[c].layer);
		assert_true(m.layers[cases[c].layer].gmm.rows > ROWS || !cases[c].own);
		assert_int_equal(m.helpers.columns, 0);
		assert_ptr_equal(model_mixture_of(&m, DETECT_HOST, true), &m.layers[DETECT_HOST]);
		model_free(&m);
	}
}

/* Enough rows, of which too few are known: all of them make one. */
static void rows_that_are_not_known(void **state)
{
	struct model m;
	(void)state;
	for (size_t i = 0; i < LEARN_LEAST_ROWS; i++) {
		row(0, TRAINS, OWN, i ? 0 : NAN);
		row(0, LOADS, PARENTS, 0);
	}
	learn(&m, DETECT_HOST);
	assert_true(m.layers[DETECT_HOST].gmm.rows > LEARN_LEAST_ROWS);
	assert_int_equal(m.helpers.columns, 0);
	model_free(&m);
}

static void how_rare_counters_were(void **state)
{
	struct model m;
	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		row(0, TRAINS, OWN, 0);
		row(0, LOADS, PARENTS, 8);
	}
	learn(&m, DETECT_HOST);
	row(0, TRAINS, OWN, 8); /* what a loader does */
	struct paced windows[] = {{.pid = TRAINS, .start_ns = rows[0].start_ns},
				  {.pid = TRAINS, .start_ns = rows[len - 1].start_ns},
				  {.pid = TRAINS, .start_ns = 999},
				  {.recording = 1, .pid = TRAINS, .start_ns = rows[0].start_ns}};
	learn_counters_p(windows, 4, &m, rows, len);
	assert_true(windows[0].counters_p > 0.001 && windows[0].counters_p <= 1);
	assert_true(windows[1].counters_p > 0 && windows[1].counters_p < 0.001);
	assert_true(windows[2].counters_p == 0 && windows[3].counters_p == 0);
	model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(helpers_come_last, begin),
		cmocka_unit_test_setup(each_has_its_mixture, begin),
		cmocka_unit_test_setup(else_there_is_one, begin),
		cmocka_unit_test_setup(rows_that_are_not_known, begin),
		cmocka_unit_test_setup(how_rare_counters_were, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

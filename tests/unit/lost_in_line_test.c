/* lost_in_line_test.c - anomalies that are put down to a line of Python, and the times of lines as
 * samples come.
 * links: base analyze detect incident */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "incident/incidents.h"
#include "incident/line_times.h"
#include "incident/lost_in_line.h"

#define S  1000000000ULL
#define MS 1000000ULL

static const struct anomaly_line collect = {
	.function = "Loop.collect", .file = "/x/train.py", .line = 9, .ns = 2e9, .usual_ns = 1e8};

static struct anomaly of_torch(void)
{
	return (struct anomaly){.layer = DETECT_TORCH,
				.layer_name = "torch",
				.name = "aten::add_",
				.p_value = 1e-6,
				.lost_ns = 3e9,
				.between_calls = true,
				.why = "before"};
}

static void lost_between_calls_is_the_lines(void **state)
{
	(void)state;
	struct anomaly a = of_torch();
	lost_in_line(&a, &collect);
	assert_int_equal(a.layer, DETECT_PYTHON);
	assert_string_equal(a.layer_name, "python");
	assert_string_equal(a.name, "Loop.collect");
	assert_string_equal(a.why, "Loop.collect (train.py:9) took 2.00 s where 100 ms is usual, "
				   "between calls of torch");
	/* it says more of why than other calls do, and than Python's functions within each other */
	struct anomaly other = of_torch(), functions = of_torch();
	functions.layer = DETECT_PYTHON;
	assert_true(incident_rank(&a) < incident_rank(&other));
	assert_true(incident_rank(&other) < incident_rank(&functions));
}

static void lost_in_calls_stays(void **state)
{
	(void)state;
	struct anomaly a = of_torch();
	a.between_calls = false;
	lost_in_line(&a, &collect);
	assert_int_equal(a.layer, DETECT_TORCH);
	assert_string_equal(a.why, "before");
	assert_string_equal(a.line.function, "Loop.collect"); /* where it was called */

	/* the line waited in a call of CUDA that is no probe's */
	struct anomaly_line waits = collect;
	waits.called_ns = 1.5e9;
	a = of_torch();
	lost_in_line(&a, &waits);
	assert_int_equal(a.layer, DETECT_TORCH);
	assert_non_null(a.line.function);
}

static void less_than_half_says_nothing(void **state)
{
	(void)state;
	struct anomaly a = of_torch(), unknown = of_torch();
	a.lost_ns = 4e9;
	lost_in_line(&a, &collect);
	assert_int_equal(a.layer, DETECT_TORCH);
	assert_null(a.line.function);
	unknown.lost_ns = NAN;
	lost_in_line(&unknown, &collect);
	assert_null(unknown.line.function);
	struct anomaly counters = of_torch();
	counters.layer = DETECT_HOST;
	lost_in_line(&counters, &collect);
	assert_int_equal(counters.layer, DETECT_HOST);
}

/* ---- times of lines ---- */

static const struct detect_line forward = {
	.frame = 1, .line = 1, .function = "forward", .file = "m.py", .called = true};
static const struct detect_line clean = {
	.frame = 2, .line = 2, .function = "clean", .file = "m.py"};

/* A second: forward for 900 ms and clean for 100, or clean for all of it. */
static void second(struct line_times *l, uint32_t pid, uint64_t n, bool slow)
{
	for (uint64_t i = 0; i < 100; i++)
		line_times_add(l, pid, slow || i >= 90 ? &clean : &forward, n * S + i * 10 * MS,
			       10 * MS);
}

static void the_line_beyond_what_is_usual(void **state)
{
	(void)state;
	struct line_times l = {0};
	struct anomaly_line line;
	for (uint64_t n = 1; n <= 40; n++) {
		second(&l, 7, n, n > 36);
		second(&l, 8, n, false);
	}
	assert_true(line_times_most(&l, 7, 37 * S, 41 * S, &line));
	assert_string_equal(line.function, "clean");
	assert_true(line.ns == 4.0 * S && line.called_ns == 0);
	assert_true(line.usual_ns > 0.38 * S && line.usual_ns < 0.42 * S);
	/* that it goes on says nothing of what is usual */
	assert_true(line_times_most(&l, 7, 37 * S, 38 * S, &line));
	assert_string_equal(line.function, "clean");
	assert_true(line.usual_ns > 0.095 * S && line.usual_ns < 0.105 * S);
	assert_true(!line_times_most(&l, 7, 30 * S, 34 * S, &line) ||
		    line.ns < 1.05 * line.usual_ns);
	/* where it was that slow from the beginning, what came after says it */
	assert_true(line_times_most(&l, 7, S, 2 * S, &line));
	assert_string_equal(line.function, "forward");
	assert_true(line.called_ns == line.ns);
	/* another process, and one that is not there */
	assert_true(!line_times_most(&l, 8, 37 * S, 41 * S, &line) ||
		    line.ns < 1.05 * line.usual_ns);
	assert_false(line_times_most(&l, 9, 37 * S, 41 * S, &line));
	line_times_forget(&l, 7);
	assert_false(line_times_most(&l, 7, 37 * S, 41 * S, &line));
	line_times_free(&l);
}

/* A session that keeps nothing gives a place another number: what is usual of it goes on. */
static void a_line_is_its_place(void **state)
{
	(void)state;
	struct line_times l = {0};
	struct anomaly_line line;
	for (uint64_t n = 0; n < 600; n++) {
		struct detect_line at = forward;
		at.frame += n >= 300 ? 1000 : 0;
		line_times_add(&l, 7, &at, n * 100 * MS, 100 * MS);
	}
	assert_int_equal(l.totals.len, 1);
	assert_false(line_times_most(&l, 7, 35 * S, 40 * S, &line) &&
		     line.ns > 1.1 * line.usual_ns);
	line_times_free(&l);
}

static void memory_is_bounded(void **state)
{
	(void)state;
	struct line_times l = {0};
	struct anomaly_line line;
	for (uint32_t i = 1; i < 4 * LINE_TIMES_MOST; i++) {
		struct detect_line rare = {.line = i + 10, .function = "rare", .file = "x"};
		line_times_add(&l, 7, &rare, i * 100 * MS, MS);
		line_times_add(&l, 7, &clean, i * 100 * MS, 50 * MS);
	}
	assert_true(l.totals.len <= LINE_TIMES_MOST);
	assert_true(l.recent.len <= 2 * 10 * 120 + 2);
	assert_true(line_times_most(&l, 7, l.last_ns - 5 * S, l.last_ns + 1, &line));
	assert_string_equal(line.function, "clean");
	line_times_free(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_between_calls_is_the_lines),
		cmocka_unit_test(lost_in_calls_stays),
		cmocka_unit_test(less_than_half_says_nothing),
		cmocka_unit_test(the_line_beyond_what_is_usual),
		cmocka_unit_test(a_line_is_its_place),
		cmocka_unit_test(memory_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

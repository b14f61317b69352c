/* detector_marked_test.c - which rows and events are of an anomaly, one by one, once it is known.
 * links: rows incident detect analyze recording base */
#include <linux/types.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rare_rows.h"

#define MARKED_MOST 4000

/* ---- rows ---- */

static void expect_alarmed(uint64_t from, const char *marks)
{
	for (size_t i = 0; marks[i]; i++)
		if (is_alarmed_at(DETECT_TORCH, PID, from - BEGIN + i) != (marks[i] == '!'))
			fail_msg("row %zu of '%s'", i, marks);
}

/* Those of a file are told what they are of; those that are merely less rare stay in it. */
static void quiet_rows_within_an_anomaly_are_none_of_it(void **state)
{
	(void)state;
	start(true);
	rows(20, USUAL);
	rows(6, RARE);
	rows(1, USUAL);
	rows(1, RARE);
	rows(1, 0.025);
	rows(1, RARE);
	rows(1, 0.05);
	rows(1, RARE);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 32);
	expect_alarmed(BEGIN + 18, "..!!!!!!.!!!.!..");
	start(true); /* of rows that are hardly rare one of p = 0.15 is rare enough */
	rows(20, USUAL);
	rows(10, 0.03);
	rows(1, 0.15);
	rows(10, 0.03);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_alarmed(BEGIN + 26, "!!!!!!!!!");
}

/* Of a row within an anomaly that was not judged nobody knows that it is of it, however rare the
 * others are. */
static void unjudged_rows_within_an_anomaly_are_none_of_it(void **state)
{
	(void)state;
	static const double p[] = {RARE, 0.03};
	for (int whole = 0; whole < 2; whole++)
		for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
			options.alarms_per_hour = 20; /* of the sum of those that are hardly rare */
			start(whole);
			rows(20, USUAL);
			rows(10, p[i]);
			unjudged_row(RARE);
			rows(10, p[i]);
			unjudged_row(RARE);
			rows(10, USUAL);
			stop();
			assert_true(isnan(p_of(30)) && isnan(p_of(41)));
			assert_int_equal(found_len, 1);
			assert_int_equal(found[0].start_ns, (BEGIN + 20) * SECOND);
			assert_in_range(found[0].end_ns, (BEGIN + 39) * SECOND,
					(BEGIN + 41) * SECOND);
			assert_int_equal(found[0].windows,
					 (found[0].end_ns - found[0].start_ns) / SECOND - 1);
			if (whole)
				expect_alarmed(BEGIN + 26, "!!!!.!!!!!!!!");
			assert_false(is_alarmed_at(DETECT_TORCH, PID, 30));
			assert_false(is_alarmed_at(DETECT_TORCH, PID, 41));
		}
}

/* ---- events ---- */

static uint32_t mm;
static size_t marked_len;
static uint64_t marked[MARKED_MOST]; /* starts of those that are anomalous, in 0.1 s */

static void on_event(void *ctx, const struct detector_event *e)
{
	(void)ctx;
	if (e->anomalous)
		marked[marked_len++] = e->start_ns / (SECOND / 10);
}

/* Ten events in the second of the next row: the z of each is 4 ('!') or 0. */
static void events(const char *z)
{
	for (uint64_t i = 0; z[i]; i++) {
		struct windows_event e = {
			.start_ns = second * SECOND + i * SECOND / 10,
			.dur_ns = SECOND / 20,
			.key = mm,
			.pid = PID,
			.layer = DETECT_TORCH,
			.usual = {.z = z[i] == '!' ? 4 : 0, .gap_z = NAN, .usual_ns = NAN}};
		told_events_hold(&detector->events, &e);
	}
}

static void start_with_events(bool whole)
{
	options.event = on_event;
	start(whole);
	marked_len = 0;
	mm = detect_keys_text(detector->known.keys, DETECT_TORCH, "aten::mm");
}

/* Those of this tenth of a second to before the other, and no others. */
static void expect_marked(size_t *at, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		if (*at == marked_len || marked[*at] != i)
			fail_msg("event %.1f s is not anomalous", (double)i / 10 - BEGIN);
		(*at)++;
	}
}

static void events_of_quiet_rows_are_not_marked(void **state)
{
	(void)state;
	static const double p[] = {USUAL, RARE, RARE, RARE, USUAL, RARE, RARE, USUAL, USUAL};
	for (int whole = 0; whole < 2; whole++) {
		const uint64_t from = (BEGIN + 21) * 10;
		size_t at = 0;
		start_with_events(whole);
		rows(20, USUAL);
		for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
			events("..........");
			rows(1, p[i]);
		}
		stop();
		assert_int_equal(found_len, 1);
		/* An event that ends where a row begins, or begins where it ends, is not in it. */
		expect_marked(&at, from, from + 30);
		expect_marked(&at, from + 40, from + 60);
		assert_int_equal(at, marked_len);
	}
}

/* Nor of one that lacks calls. */
static void rows_that_lack_calls_are_not_marked(void **state)
{
	(void)state;
	start(true);
	rows(20, USUAL);
	rows(3, RARE);
	detector_lost(detector, second * SECOND, (second + 1) * SECOND, 1000);
	rows(4, RARE);
	rows(10, USUAL);
	stop();
	assert_true(isnan(p_of(23)));
	assert_int_equal(found_len, 1);
	assert_int_equal(found[0].start_ns, (BEGIN + 20) * SECOND);
	assert_int_equal(found[0].end_ns, (BEGIN + 27) * SECOND);
	expect_alarmed(BEGIN + 18, "..!!!.!!!...");
}

static void events_of_unjudged_rows_are_not_marked(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		const uint64_t from = (BEGIN + 20) * 10;
		size_t at = 0;
		start_with_events(whole);
		rows(20, USUAL);
		for (size_t i = 0; i < 8; i++) {
			events("!!!!!!!!!!");
			if (i == 3 || i == 7)
				unjudged_row(RARE);
			else
				rows(1, RARE);
		}
		rows(5, USUAL);
		stop();
		assert_int_equal(found_len, 1);
		expect_marked(&at, from, from + 30);
		expect_marked(&at, from + 40, from + 70);
		assert_int_equal(at, marked_len);
	}
}

/* Twenty rare rows after one that is as rare as said; that one, and the last, have these events. */
static void run_edges(double first_p, const char *first, const char *last, bool whole)
{
	options.alarms_per_hour = 20; /* sums alarm early */
	start_with_events(whole);
	rows(20, USUAL);
	events(first);
	rows(1, first_p);
	rows(1, 0.01); /* rare, but alarms with the next ones only */
	rows(18, RARE);
	events(last);
	rows(1, RARE);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 41);
}

/* Of a first window that is less rare than half the others its events are looked at; the last one
 * is as rare as they are. */
static void an_edge_is_where_the_evidence_rises(void **state)
{
	(void)state;
	static const struct {
		double p;
		const char *first;
		uint64_t from;
	} cases[] = {
		{0.026, "..!...!!!!", 6}, {0.026, "....!!.!!!", 4}, {0.026, "!!!!......", 0},
		{0.026, "..........", 0}, {RARE, "......!!!!", 0},
	};
	const uint64_t first = (BEGIN + 20) * 10, last = (BEGIN + 40) * 10;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int whole = 0; whole < 2; whole++) {
			size_t at = 0;
			run_edges(cases[i].p, cases[i].first, "!!!!......", whole);
			expect_marked(&at, first + cases[i].from, first + 10);
			expect_marked(&at, last, last + 10);
			assert_int_equal(at, marked_len);
		}
}

/* A sum that rises above its height by a row that is hardly rare, and ends there. */
static void run_end(const char *last, bool whole)
{
	const double of_five = 5 * (CUSUM_MOST - CUSUM_SLACK);
	model.layers[DETECT_TORCH].cusum_ratio =
		(of_five + 0.8) / cusum_height(exp2(ALARM_HEIGHTS - 2));
	options.alarms_per_hour = 1e-6; /* no row by itself */
	start_with_events(whole);
	rows(20, USUAL);
	rows(5, RARE);
	events(last);
	rows(1, 0.0284);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 26);
}

static void an_edge_is_where_the_evidence_ends(void **state)
{
	(void)state;
	static const struct {
		const char *last;
		uint64_t to;
	} cases[] = {{"!!!!......", 4}, {"!!.!!.....", 5}, {"..........", 10}};
	const uint64_t last = (BEGIN + 25) * 10;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int whole = 0; whole < 2; whole++) {
			size_t at = 0;
			run_end(cases[i].last, whole);
			expect_marked(&at, last, last + cases[i].to);
			assert_int_equal(at, marked_len);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(quiet_rows_within_an_anomaly_are_none_of_it, begin),
		cmocka_unit_test_setup(unjudged_rows_within_an_anomaly_are_none_of_it, begin),
		cmocka_unit_test_setup(events_of_quiet_rows_are_not_marked, begin),
		cmocka_unit_test_setup(rows_that_lack_calls_are_not_marked, begin),
		cmocka_unit_test_setup(events_of_unjudged_rows_are_not_marked, begin),
		cmocka_unit_test_setup(an_edge_is_where_the_evidence_rises, begin),
		cmocka_unit_test_setup(an_edge_is_where_the_evidence_ends, begin),
	};
	return cmocka_run_group_tests(tests, make_model, free_model);
}

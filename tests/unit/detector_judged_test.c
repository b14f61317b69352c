/* detector_judged_test.c - which rows are judged, and how rare they are found: of new and of other
 * work, of lost calls, of checkpoints, of processes that work for others.
 * links: rows incident detect analyze recording base */
#include <linux/types.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/learn.h"
#include "detect_names.h"
#include "rare_rows.h"

/* ---- work that is new or slowed, rows that lack something ---- */

/* Rows of work that no model knows, at this pace; returns the anomalies. */
static size_t of_new_work(double pace, bool whole)
{
	start(whole);
	rows(20, USUAL);
	for (int i = 0; i < 5; i++)
		row_with(RARE, 2, pace);
	rows(10, USUAL);
	stop();
	assert_true(isnan(p_of(22)) == (found_len == 0));
	if (found_len)
		expect_anomaly(0, BEGIN + 20, BEGIN + 25);
	return found_len;
}

static void slowed_work_is_no_new_work(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		assert_int_equal(of_new_work(0.5, whole), 1);
		assert_int_equal(of_new_work(0.95, whole), 0);
		assert_int_equal(of_new_work(1.5, whole), 0);
		assert_int_equal(of_new_work(0, whole), 0); /* unknown */
		model.without = WITHOUT_PACE;
		assert_int_equal(of_new_work(0.5, whole), 0);
		model.without = 0;
	}
}

/* New work that goes on for a while, after which it is known: its slow rows are none of that. */
static void new_work_is_learned_from_what_is_not_slowed(void **state)
{
	(void)state;
	start(false);
	rows(20, USUAL);
	for (int i = 0; i < REBASE_ROWS / 2; i++)
		row_with(RARE, 2, 0.5);
	for (int i = 0; i < REBASE_ROWS; i++)
		row_with(USUAL, 2, 1);
	size_t at = second - BEGIN;
	row_with(USUAL, 2, 1);
	stop();
	assert_true(isnan(p_of(at - 1)) && p_of(at) > 0.01);
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 20 + REBASE_ROWS / 2);
}

/* Windows with so many calls of keys that are new. */
static size_t with_new_keys(double pace, uint32_t calls)
{
	start(false);
	rows(20, USUAL);
	for (int i = 0; i < 5; i++) {
		new_calls(second, calls);
		row_with(RARE, 1, pace);
	}
	rows(10, USUAL);
	stop();
	assert_true(isnan(p_of(22)) == (found_len == 0));
	return found_len;
}

static void slowed_work_with_new_keys_is_judged(void **state)
{
	(void)state;
	assert_int_equal(with_new_keys(0.5, 50), 1);
	assert_int_equal(with_new_keys(0.95, 50), 0);
	assert_int_equal(with_new_keys(0, 50), 0);
	assert_int_equal(with_new_keys(0, 5), 1); /* of 100 */
}

/* Of four windows of 100 calls each, of which so many are new, whether the second is judged. */
static bool is_second_judged(const uint32_t calls[4])
{
	start(false);
	rows(20, USUAL);
	for (size_t i = 0; i < 4; i++)
		new_calls(second + i, calls[i]);
	rows(4, USUAL);
	rows(10, USUAL);
	stop();
	return !isnan(p_of(21));
}

/* New work begins and ends within windows, which have less of it; by themselves so few are none. */
static void windows_that_new_work_begins_or_ends_in_are_of_it(void **state)
{
	(void)state;
	static const struct {
		uint32_t calls[4];
		bool judged;
	} cases[] = {
		{{0, 11, 0, 0}, false}, {{0, 10, 0, 0}, true},	{{50, 9, 0, 0}, false},
		{{0, 9, 50, 0}, false}, {{11, 8, 0, 0}, false}, {{0, 8, 11, 0}, false},
		{{50, 7, 50, 0}, true}, {{10, 9, 10, 0}, true}, {{0, 9, 0, 50}, true},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (is_second_judged(cases[i].calls) != cases[i].judged)
			fail_msg("case %zu", i);
}

/* Seconds of 1000 calls, of which so many were lost while they went by. */
static size_t with_lost_calls(uint64_t lost, bool whole)
{
	struct detector_stats st;
	start(whole);
	rows(20, USUAL);
	for (int i = 0; i < 5; i++) {
		for (uint64_t k = lost; k < 1000; k++)
			losses_seen(&detector->losses, second * SECOND + k * 1000000);
		detector_lost(detector, second * SECOND, (second + 1) * SECOND, lost);
		row_with(RARE, 1, 1);
	}
	rows(10, USUAL);
	detector_stats(detector, &st);
	stop();
	if (!whole)
		assert_int_equal(st.lossy_rows, found_len ? 0 : 5);
	assert_true(isnan(p_of(22)) == (found_len == 0));
	return found_len;
}

static void rows_that_lack_calls_are_not_judged(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		assert_int_equal(with_lost_calls(0, whole), 1);
		assert_int_equal(with_lost_calls(5, whole), 1);
		assert_int_equal(with_lost_calls(20, whole), 0);
		assert_int_equal(with_lost_calls(1000, whole), 0);
	}
}

/* What one launch says of others: -ln p is a quarter less, of three a tenth. */
static void few_recordings_make_rows_less_rare(void **state)
{
	(void)state;
	static const struct {
		uint32_t recordings;
		double less;
	} cases[] = {{UINT32_MAX, 1}, {0, 0.75}, {1, 0.75}, {3, 0.9}, {1000, 1}};
	double most = 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		model.recordings = cases[i].recordings;
		start(false);
		rows(20, USUAL);
		rows(1, RARE);
		stop();
		if (i == 0)
			most = log(p_of(20));
		double less = log(p_of(20)) / most;
		if (fabs(less - cases[i].less) > 0.01)
			fail_msg("%u recordings: %g", cases[i].recordings, less);
	}
	assert_true(fabs(most / log(RARE) - 1) < 0.1);
}

/* ---- checkpoints ---- */

static struct fake_names fake;
static struct detect_names names;

static int begin_saving(void **state)
{
	begin(state);
	fake_names_make(&fake);
	names = fake_names_of(&fake);
	fake.codes[2] = (struct m_code){fake_string(&fake, "save"),
					fake_string(&fake, "/lib/torch/serialization.py"), 960};
	return 0;
}

static int end_saving(void **state)
{
	(void)state;
	strtab_free(&fake.strings);
	return 0;
}

/* A call of code 2, which saves, or 1, that ends in the second of the next row; of another process
 * where the thread is 5. */
static void call(uint64_t code, uint32_t thread)
{
	struct m_call c = fake_call(FAKE_FUNCTION, thread, second * SECOND, SECOND / 2);
	c.args[0] = code;
	detector_call(detector, &names, &c);
}

static void stop_saving(void)
{
	detector->last_event_ns = UINT64_MAX; /* rows alone: none of them ends early */
	stop();
}

/* Two slow windows, or more, of which so many have a call that ends in them. */
static size_t of_checkpoint(uint64_t code, uint32_t thread, size_t slow, size_t calls, bool whole)
{
	start(whole);
	rows(20, USUAL);
	for (size_t i = 0; i < slow; i++) {
		if (i < calls)
			call(code, thread);
		rows(1, RARE);
	}
	rows(20, USUAL);
	stop_saving();
	return found_len;
}

static void a_checkpoint_is_no_fault(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		assert_int_equal(of_checkpoint(2, 0, 2, 2, whole), 0);
		assert_true(isnan(p_of(20)) && isnan(p_of(21)) && isnan(p_of(22)));
		assert_true(p_of(19) > 0.1 && p_of(23) > 0.1);
		assert_int_equal(of_checkpoint(2, 0, 2, 1, whole), 0);
		assert_true(isnan(p_of(21)) && p_of(22) > 0.1);
		assert_int_equal(of_checkpoint(2, 5, 2, 2, whole), 0); /* other ranks wait */
		assert_int_equal(of_checkpoint(1, 0, 2, 2, whole), 1); /* saves nothing */
		expect_anomaly(0, BEGIN + 20, BEGIN + 22);
		/* What is slow beyond it is told. */
		assert_int_equal(of_checkpoint(2, 0, 8, 2, whole), 1);
		expect_anomaly(0, BEGIN + 23, BEGIN + 28);
	}
}

static void saving_again_and_again_is(void **state)
{
	(void)state;
	assert_int_equal(of_checkpoint(2, 0, 12, 12, true), 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 32);
	/* Live it is known from the third on. */
	assert_int_equal(of_checkpoint(2, 0, 12, 12, false), 1);
	expect_anomaly(0, BEGIN + 22, BEGIN + 32);
	/* Every four seconds as well. */
	start(false);
	rows(20, USUAL);
	for (int i = 0; i < 5; i++) {
		call(2, 0);
		rows(1, RARE);
		rows(3, USUAL);
	}
	stop_saving();
	assert_int_equal(found_len, 3);
	expect_anomaly(0, BEGIN + 28, BEGIN + 29);
	/* Every fifteen seconds it is a job that saves. */
	start(true);
	rows(20, USUAL);
	for (int i = 0; i < 4; i++) {
		call(2, 0);
		rows(2, RARE);
		rows(13, USUAL);
	}
	stop_saving();
	assert_int_equal(found_len, 0);
}

/* Threads end their calls in any order, and most windows have several. */
static void windows_of_saves_are_in_order(void **state)
{
	(void)state;
	start(false);
	for (uint64_t i = 0; i < 40; i++) {
		struct windows_event e = {.start_ns = (BEGIN + i * 7 % 20) * SECOND, .saves = true};
		saves_event(&detector->saves, &e);
	}
	assert_int_equal(detector->saves.windows.len, 20);
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(detector->saves.windows.data[i], BEGIN + i);
	detector_free(detector);
}

static void saves_are_forgotten(void **state)
{
	(void)state;
	size_t most = 0;
	start(false);
	for (uint64_t i = 0; i < 100000; i++) {
		struct windows_event e = {.start_ns = (BEGIN + i) * SECOND, .saves = true};
		saves_event(&detector->saves, &e);
		detector_upto(detector, e.start_ns + SECOND);
		most = detector->saves.windows.len > most ? detector->saves.windows.len : most;
	}
	assert_in_range(most, 20, 100);
	assert_int_equal(detector->saves.windows.data[detector->saves.windows.len - 1],
			 BEGIN + 99999);
	detector_free(detector);
}

/* ---- other work ---- */

static void other_row(bool other_work)
{
	struct feature_row row = rare_row(DETECT_TORCH, PID, RARE);
	struct feature_row step = rare_row(DETECT_STEP, PID, RARE);
	row.other_work = other_work; /* nobody knows it of a step */
	row.pace = step.pace = 0;
	give(&row);
	give(&step);
	second++;
}

/* Nor are the steps in its windows; those that come after it are. */
static void other_work_is_not_judged(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start(whole);
		rows(20, USUAL);
		for (int i = 0; i < 10; i++)
			other_row(true);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 0);
		assert_true(isnan(p_of(20)) && isnan(p_of(29)) && !isnan(p_of(30)));
		start(whole);
		rows(20, USUAL);
		other_row(true);
		rows(10, USUAL);
		for (int i = 0; i < 10; i++)
			other_row(false);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 2); /* calls and steps */
	}
}

#define STRANGER 300

enum calls { KNOWN_CALLS, OTHER_CALLS, CALLS_OF_NEW_WORK, NEW_CALLS };

static void calls_row(uint32_t pid, enum calls calls)
{
	struct feature_row row = rare_row(DETECT_TORCH, pid, USUAL);
	row.pace = calls == KNOWN_CALLS;
	row.regime = calls == CALLS_OF_NEW_WORK ? 2 : 1;
	row.other_work = calls == OTHER_CALLS;
	if (calls == NEW_CALLS)
		new_calls(second, 50);
	give(&row);
}

/* A second of two processes' calls, and of the counters of the first and of its GPU: of so many
 * events that those of new calls among them tell nothing. */
static void counted_second(enum calls own, enum calls strangers, double p, double pace)
{
	struct feature_row gpu = rare_row(DETECT_HARDWARE, 0, p);
	struct feature_row host = rare_row(DETECT_HOST, PID, p);
	gpu.gpu_pid = PID;
	gpu.pace = host.pace = pace;
	gpu.events = host.events = 10000;
	calls_row(PID, own);
	calls_row(STRANGER, strangers);
	give(&gpu);
	give(&host);
	second++;
}

/* Counters that are rare in one second, in which calls are as said. Whether they were judged. */
static bool are_counters_judged(enum calls own, enum calls strangers, double pace, bool whole)
{
	start(whole);
	for (int i = 0; i < 20; i++)
		counted_second(KNOWN_CALLS, KNOWN_CALLS, USUAL, 1);
	counted_second(own, strangers, RARE, pace);
	for (int i = 0; i < 10; i++)
		counted_second(KNOWN_CALLS, KNOWN_CALLS, USUAL, 1);
	stop();
	bool judged = !isnan(p_at(DETECT_HOST, PID, 20));
	assert_true(isnan(p_at(DETECT_HARDWARE, 0, 20)) == !judged);
	assert_int_equal(found_len, judged ? 2 : 0);
	return judged;
}

/* What counters say is said of all the calls in their window. */
static void counters_of_new_and_other_work_are_not_judged(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		assert_true(are_counters_judged(KNOWN_CALLS, KNOWN_CALLS, 0, whole));
		for (enum calls calls = OTHER_CALLS; calls <= NEW_CALLS; calls++) {
			assert_false(are_counters_judged(calls, KNOWN_CALLS, 0, whole));
			assert_true(are_counters_judged(calls, KNOWN_CALLS, 0.5, whole));
		}
		assert_true(are_counters_judged(KNOWN_CALLS, OTHER_CALLS, 0, whole));
		assert_true(are_counters_judged(KNOWN_CALLS, CALLS_OF_NEW_WORK, 0, whole));
	}
}

/* Work of a new kind is learned from for counters, too: after thirty rows they are judged. */
static void counters_of_work_that_stays_are_judged(void **state)
{
	(void)state;
	start(false);
	rows(20, USUAL);
	for (int i = 0; i < 60; i++) {
		struct feature_row row = rare_row(DETECT_TORCH, PID, USUAL);
		struct feature_row counters = rare_row(DETECT_HOST, PID, USUAL);
		row.regime = counters.regime = 7;
		give(&row);
		give(&counters);
		second++;
	}
	stop();
	assert_true(isnan(p_at(DETECT_HOST, PID, 25)));
	assert_false(isnan(p_at(DETECT_HOST, PID, 75)));
}

/* What the process does later says nothing of a row: they may come late, as of a file without a
 * model. */
static void counters_of_before_new_work_are_judged(void **state)
{
	(void)state;
	start(false);
	for (int i = 0; i < 40; i++) {
		struct feature_row row = rare_row(DETECT_TORCH, PID, USUAL);
		row.other_work = i >= 30;
		give(&row);
		second++;
	}
	second -= 20;
	for (int i = 0; i < 20; i++) {
		struct feature_row row = rare_row(DETECT_HOST, PID, USUAL);
		give(&row);
		second++;
	}
	stop();
	assert_false(isnan(p_at(DETECT_HOST, PID, 25)));
	assert_true(isnan(p_at(DETECT_HOST, PID, 39)));
}

/* A step is judged after the window that it ends in. */
static void steps_are_due_with_their_window(void **state)
{
	(void)state;
	struct feature_row step = {.layer = DETECT_STEP, .end_ns = 40300000000};
	struct feature_row row = {.layer = DETECT_TORCH, .end_ns = 40300000000};
	assert_int_equal(feature_row_due(&step, SECOND), 41 * SECOND);
	assert_int_equal(feature_row_due(&step, 2 * SECOND), 42 * SECOND);
	assert_int_equal(feature_row_due(&step, SECOND / 10), 40300000000);
	assert_int_equal(feature_row_due(&row, SECOND), 40300000000);
}

/* Of processes that have ended nobody's parent is known; of those that come with no parent any
 * more neither. */
static void parents_are_forgotten(void **state)
{
	(void)state;
	start(false);
	for (uint32_t pid = 1000; pid < 3000; pid++) {
		struct m_process row = {.pid = pid, .parent_pid = PID};
		detector_process(detector, &row);
		row.end_ns = second * SECOND;
		detector_process(detector, &row);
	}
	detector_process(detector, &(struct m_process){.pid = 5000, .parent_pid = PID});
	detector_process(detector, &(struct m_process){.pid = 5000});
	assert_int_equal(windows_parent_of(detector->windows, 2999), PID);
	assert_int_equal(windows_parent_of(detector->windows, 5000), 0);
	detector_upto(detector, second * SECOND + 2 * DETECTOR_GONE_NS);
	assert_int_equal(windows_parent_of(detector->windows, 2999), 0);
	assert_int_equal(detector->job.left_work.len, 0);
	detector_free(detector);
}

/* Another process may have the number of one that has ended. */
static void what_a_process_did_is_forgotten(void **state)
{
	(void)state;
	start(false);
	detector_process(detector, &(struct m_process){.pid = PID, .parent_pid = 50});
	rows(20, USUAL);
	row_with(RARE, 1, 0.5);
	row_with(USUAL, 2, 1);
	assert_int_equal(detector->job.told_slow.len, 1);
	assert_int_equal(detector->job.told_children.len, 1);
	assert_int_equal(detector->job.left_work.len, 1);
	detector_process(
		detector,
		&(struct m_process){.pid = PID, .parent_pid = 50, .end_ns = second * SECOND});
	detector_upto(detector, second * SECOND + 2 * DETECTOR_GONE_NS);
	assert_int_equal(detector->job.told_slow.len, 0);
	assert_int_equal(detector->job.told_children.len, 0);
	assert_int_equal(detector->job.left_work.len, 0);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(slowed_work_is_no_new_work, begin),
		cmocka_unit_test_setup(new_work_is_learned_from_what_is_not_slowed, begin),
		cmocka_unit_test_setup(slowed_work_with_new_keys_is_judged, begin),
		cmocka_unit_test_setup(windows_that_new_work_begins_or_ends_in_are_of_it, begin),
		cmocka_unit_test_setup(rows_that_lack_calls_are_not_judged, begin),
		cmocka_unit_test_setup(few_recordings_make_rows_less_rare, begin),
		cmocka_unit_test_setup_teardown(a_checkpoint_is_no_fault, begin_saving, end_saving),
		cmocka_unit_test_setup_teardown(saving_again_and_again_is, begin_saving,
						end_saving),
		cmocka_unit_test_setup(windows_of_saves_are_in_order, begin),
		cmocka_unit_test_setup(saves_are_forgotten, begin),
		cmocka_unit_test_setup(other_work_is_not_judged, begin),
		cmocka_unit_test_setup(counters_of_new_and_other_work_are_not_judged, begin),
		cmocka_unit_test_setup(counters_of_work_that_stays_are_judged, begin),
		cmocka_unit_test_setup(counters_of_before_new_work_are_judged, begin),
		cmocka_unit_test(steps_are_due_with_their_window),
		cmocka_unit_test_setup(parents_are_forgotten, begin),
		cmocka_unit_test_setup(what_a_process_did_is_forgotten, begin),
	};
	return cmocka_run_group_tests(tests, make_model, free_model);
}

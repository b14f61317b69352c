/* detector_episodes_test.c - rows, each as rare as it is asked for: what makes an anomaly of them,
 * where it begins and where it ends.
 * links: rows incident detect analyze recording base */
#include <linux/types.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/learn.h"
#include "rare_rows.h"

static void quiet_rows_end_an_anomaly(void **state)
{
	(void)state;
	static const struct {
		size_t quiet;
		double p;
		size_t anomalies;
	} cases[] = {
		{4, USUAL, 2}, {4, 0.2, 2},  {2, USUAL, 2}, {1, USUAL, 1},
		{1, 1, 1},     {2, 0.06, 2}, {2, 2e-3, 1},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int whole = 0; whole < 2; whole++) {
			const uint64_t from = BEGIN + 20, again = from + 3 + cases[i].quiet;
			start(whole);
			rows(20, USUAL);
			rows(3, RARE);
			rows(cases[i].quiet, cases[i].p);
			rows(3, RARE);
			rows(20, USUAL);
			stop();
			assert_int_equal(found_len, cases[i].anomalies);
			if (found_len == 1) {
				expect_anomaly(0, from, again + 3);
				continue;
			}
			expect_anomaly(0, from, from + 3);
			expect_anomaly(1, again, again + 3);
		}
}

/* A row that alarms by itself is of an anomaly, also where quiet rows are on both its sides. */
static void no_alarmed_row_is_left_out(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++)
		for (size_t times = 1; times < 4; times++) {
			start(whole);
			rows(20, USUAL);
			rows(3, RARE);
			for (size_t i = 0; i < times; i++) {
				rows(1, USUAL);
				rows(1, RARE);
			}
			rows(10, USUAL);
			stop();
			assert_int_equal(found_len, 1);
			expect_anomaly(0, BEGIN + 20, BEGIN + 23 + 2 * times);
		}
}

/* Rows that are rather rare after a fault are not the fault, however many there are; of one that is
 * as slight as they are they are. */
static void what_lingers_is_none_of_it(void **state)
{
	(void)state;
	for (int slight = 0; slight < 2; slight++) {
		start(false);
		rows(20, USUAL);
		rows(10, slight ? 0.009 : RARE);
		rows(7, 0.03);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 1);
		expect_anomaly(0, BEGIN + 20, BEGIN + (slight ? 36 : 30));
	}
}

/* By how much an anomaly is rare is asked far beyond what a sum counts. */
static void what_lingers_of_very_rare_rows_is_none_of_it(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start(whole);
		rows(20, USUAL);
		rows(5, 1e-12);
		rows(4, 1e-3); /* a quarter of that */
		rows(10, USUAL);
		stop();
		assert_true(found_len >= 1);
		assert_int_equal(found[0].end_ns, (BEGIN + 25) * SECOND);
	}
}

/* What was rather rare belongs to an anomaly that follows at once, not to one that begins after
 * rows that would have ended it. Sums alone alarm here, and they have risen since then. */
static void an_onset_is_not_before_quiet_rows(void **state)
{
	(void)state;
	options.alarms_per_hour = 1e-6;
	for (size_t quiet = 0; quiet < 4; quiet += 2) {
		start(true);
		rows(20, USUAL);
		rows(14, 0.05);
		rows(quiet, USUAL);
		rows(4, RARE);
		rows(20, USUAL);
		stop();
		assert_int_equal(found_len, 1);
		expect_anomaly(0, BEGIN + (quiet ? 34 + quiet : 20), BEGIN + 38 + quiet);
	}
}

/* Rather rare rows of the work before are none of the anomaly of the work after. */
static void an_onset_is_not_before_other_work(void **state)
{
	(void)state;
	start(true);
	rows(20, USUAL);
	rows(2, 0.005);
	row_with(USUAL, 7, 1);
	rows(5, RARE);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	assert_int_equal(found[0].start_ns, (BEGIN + 23) * SECOND);
}

/* What was slow is over with the work that was; what comes back after it is another anomaly. */
static void an_anomaly_ends_with_its_work(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start(whole);
		rows(20, USUAL);
		rows(5, RARE);
		row_with(RARE, 7, 1);
		row_with(RARE, 7, 1);
		rows(5, RARE);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 2);
		expect_anomaly(0, BEGIN + 20, BEGIN + 25);
		expect_anomaly(1, BEGIN + 27, BEGIN + 32);
	}
}

/* ---- rows that are not judged ---- */

/* Two of them an anomaly goes over. After three it is another one, and the fourth ends the first:
 * of what comes nothing is known yet. */
static void unjudged_rows_end_an_anomaly(void **state)
{
	(void)state;
	for (size_t n = 1; n <= 4; n++) {
		start(false);
		rows(20, USUAL);
		rows(3, RARE);
		for (size_t i = 0; i < n; i++)
			unjudged_row(RARE);
		assert_int_equal(found_len, n == 4);
		rows(3, RARE);
		rows(10, USUAL);
		stop();
		if (n > 2) {
			assert_int_equal(found_len, 2);
			expect_anomaly(0, BEGIN + 20, BEGIN + 23);
			expect_anomaly(1, BEGIN + 23 + n, BEGIN + 26 + n);
			continue;
		}
		assert_int_equal(found_len, 1);
		assert_int_equal(found[0].start_ns, (BEGIN + 20) * SECOND);
		assert_int_equal(found[0].end_ns, (BEGIN + 26 + n) * SECOND);
		assert_int_equal(found[0].windows, 6);
	}
}

/* What was rather rare belongs to an anomaly that follows at once. */
static void an_onset_is_not_before_unjudged_rows(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++)
		for (size_t unjudged = 0; unjudged < 2; unjudged++) {
			start(whole);
			rows(20, USUAL);
			rows(2, 0.005);
			for (size_t i = 0; i < unjudged; i++)
				unjudged_row(RARE);
			rows(5, RARE);
			rows(10, USUAL);
			stop();
			assert_int_equal(found_len, 1);
			expect_anomaly(0, BEGIN + (unjudged ? 23 : 20), BEGIN + 27 + unjudged);
		}
}

/* Nor are rows of minutes before near. */
static void an_onset_is_not_before_a_pause(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start(whole);
		rows(20, USUAL);
		rows(2, 0.005);
		second += 300;
		rows(6, RARE);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 1);
		expect_anomaly(0, BEGIN + 322, BEGIN + 328);
	}
}

/* Of rows that alarm together alone. */
static void a_sum_does_not_go_over_unjudged_rows(void **state)
{
	(void)state;
	options.alarms_per_hour = 1e-6;
	for (int whole = 0; whole < 2; whole++)
		for (size_t unjudged = 0; unjudged < 2; unjudged++) {
			start(whole);
			rows(20, USUAL);
			rows(3, RARE);
			for (size_t i = 0; i < unjudged; i++)
				unjudged_row(RARE);
			rows(3, RARE);
			rows(10, USUAL);
			stop();
			assert_int_equal(found_len, !unjudged);
		}
}

/* ---- what is beside a row that is anomalous by itself ---- */

#define CHILD	 200 /* loads data for PID */
#define STRANGER 300
#define BELOW	 (0.9 * BESIDE_P)
#define ABOVE	 (1.1 * BESIDE_P)
#define SLOW	 (SLOWED - 0.01)

/* Of a second the process's calls; all other rows: of its loader, its counters and its GPU, and of
 * a process, with another GPU, that has nothing to do with it. */
struct job_rows {
	double p, pace, p_beside, pace_beside;
};
static const struct job_rows usual_rows = {USUAL, 1, USUAL, 1};

static void give_calls(uint32_t pid, double p, double pace, bool parents_pace)
{
	struct feature_row row = rare_row(DETECT_TORCH, pid, p);
	row.pace = pace;
	row.parents_pace = parents_pace;
	give(&row);
}

static void give_counters(uint32_t pid, int32_t gpu, double p, double pace)
{
	struct feature_row of_gpu = rare_row(DETECT_HARDWARE, 0, p);
	struct feature_row host = rare_row(DETECT_HOST, pid, p);
	of_gpu.gpu = gpu;
	of_gpu.gpu_pid = pid;
	of_gpu.pace = host.pace = pace;
	give(&of_gpu);
	give(&host);
}

static void seconds(size_t n, struct job_rows r)
{
	for (size_t i = 0; i < n; i++, second++) {
		give_calls(PID, r.p, r.pace, false);
		give_calls(CHILD, r.p_beside, r.pace_beside, true);
		give_counters(PID, 0, r.p_beside, r.pace_beside);
		give_calls(STRANGER, r.p_beside, r.pace_beside, false);
		give_counters(STRANGER, 1, r.p_beside, r.pace_beside);
	}
}

/* No sums: what alarms does so alone. */
static void start_job(bool whole)
{
	model.without |= WITHOUT_CUSUM;
	start(whole);
	detector_process(detector, &(struct m_process){.pid = CHILD, .parent_pid = PID});
	seconds(20, usual_rows);
}

static void stop_job(void)
{
	seconds(5, usual_rows);
	stop();
}

static bool is_of_calls(const struct anomaly *a, uint32_t pid)
{
	return a->layer == DETECT_TORCH && a->pid == pid;
}

static bool is_stranger(const struct anomaly *a)
{
	return a->pid == STRANGER || a->gpu == 1;
}

/* The anomalies that are not of the process's calls. */
static size_t beside_len(void)
{
	size_t n = 0;
	for (size_t i = 0; i < found_len; i++)
		n += !is_of_calls(&found[i], PID);
	return n;
}

/* Each of the job has one, with all rows in it, that begins here and ends before there. */
static void expect_beside(uint64_t from, uint64_t to)
{
	assert_int_equal(beside_len(), 3);
	for (size_t i = 0; i < found_len; i++) {
		assert_false(is_stranger(&found[i]));
		if (!is_of_calls(&found[i], PID))
			expect_anomaly(i, BEGIN + from, BEGIN + to);
	}
}

static void expect_rows_beside(size_t at, bool alarmed)
{
	assert_int_equal(is_alarmed_at(DETECT_TORCH, CHILD, at), alarmed);
	assert_int_equal(is_alarmed_at(DETECT_HARDWARE, 0, at), alarmed);
	assert_int_equal(is_alarmed_at(DETECT_HOST, PID, at), alarmed);
}

/* One row that is anomalous by itself has its job's in its window and the next. */
static void what_is_beside_a_slow_job_is_of_it(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start_job(whole);
		seconds(1, (struct job_rows){RARE, SLOW, BELOW, SLOW});
		seconds(5, (struct job_rows){USUAL, SLOW, BELOW, SLOW});
		stop_job();
		assert_int_equal(found_len, 4);
		expect_beside(20, 22);
		for (size_t at = 19; at < 24; at++)
			expect_rows_beside(at, at == 20 || at == 21);
	}
}

static void a_slow_job_has_what_is_beside_it_as_long_as_it_is(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start_job(whole);
		seconds(10, (struct job_rows){RARE, 0.5, BELOW, 0.5});
		stop_job();
		assert_int_equal(found_len, 4);
		expect_beside(20, 30);
	}
}

/* Nor does one such row have the next. */
static void what_is_beside_carries_nothing_on(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start_job(whole);
		seconds(1, (struct job_rows){RARE, SLOW, BELOW, SLOW});
		seconds(8, (struct job_rows){BELOW, SLOW, BELOW, SLOW});
		stop_job();
		assert_int_equal(found_len, 4);
		expect_beside(20, 22);
		for (size_t i = 0; i < found_len; i++)
			if (is_of_calls(&found[i], PID))
				expect_anomaly(i, BEGIN + 20, BEGIN + 22);
	}
}

/* Where an anomaly begins beside others alone no other begins beside it. */
static void what_begins_beside_others_begins_nothing(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start_job(whole);
		for (int i = 0; i < 4; i++, second++) {
			give_calls(PID, i == 0 ? RARE : USUAL, SLOW, false);
			give_counters(PID, 0, i == 1 ? BELOW : USUAL, SLOW);
			give_calls(CHILD, i == 2 ? BELOW : USUAL, SLOW, true);
		}
		stop_job();
		assert_int_equal(found_len, 3);
		for (size_t i = 0; i < found_len; i++)
			expect_anomaly(i, BEGIN + 20 + !is_of_calls(&found[i], PID),
				       BEGIN + 21 + !is_of_calls(&found[i], PID));
	}
}

static void what_is_not_slow_or_not_rare_is_none_of_it(void **state)
{
	(void)state;
	static const struct job_rows cases[] = {
		{RARE, SLOW, ABOVE, SLOW},  {RARE, SLOW, BELOW, SLOWED},
		{RARE, SLOW, BELOW, 0},	    {RARE, SLOWED, BELOW, SLOW},
		{RARE, 0, BELOW, SLOW},	    {USUAL, SLOW, BELOW, SLOW},
		{0.001, SLOW, BELOW, SLOW},
	};
	for (int whole = 0; whole < 2; whole++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			start_job(whole);
			seconds(5, cases[i]);
			stop_job();
			if (beside_len() > 0 || found_len != (cases[i].p == RARE))
				fail_msg("case %zu: %zu anomalies", i, found_len);
		}
	model.without |= WITHOUT_PACE; /* nothing is known to be slow */
	start_job(true);
	seconds(5, (struct job_rows){RARE, SLOW, BELOW, SLOW});
	stop_job();
	assert_int_equal(beside_len(), 0);
}

/* What was odd beside the job before it became slow is not of it. */
static void what_is_beside_does_not_begin_before(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start_job(whole);
		seconds(2, (struct job_rows){BELOW, SLOW, BELOW, SLOW});
		seconds(1, (struct job_rows){RARE, SLOW, BELOW, SLOW});
		stop_job();
		assert_int_equal(found_len, 4);
		expect_beside(22, 23);
	}
}

/* A loader is of the job as long as its parent is known, and its pace is the parent's. */
static void a_process_with_a_pace_of_its_own_is_no_loader(void **state)
{
	(void)state;
	for (int known = 0; known < 2; known++)
		for (int parents_pace = 0; parents_pace < 2; parents_pace++) {
			start_job(true);
			if (!known)
				detector_process(detector, &(struct m_process){.pid = CHILD});
			for (int i = 0; i < 5; i++, second++) {
				give_calls(PID, RARE, SLOW, false);
				give_calls(CHILD, BELOW, SLOW, parents_pace);
			}
			stop_job();
			assert_int_equal(beside_len(), known && parents_pace);
		}
}

/* What a GPU, or a process's counters, are found to be is known of the process's calls in the next
 * window: they were judged before. */
static void counters_tell_of_their_process(void **state)
{
	(void)state;
	for (int of_stranger = 0; of_stranger < 2; of_stranger++) {
		start_job(true);
		give_calls(PID, USUAL, SLOW, false);
		give_counters(of_stranger ? STRANGER : PID, of_stranger, RARE, SLOW);
		second++;
		give_calls(PID, BELOW, SLOW, false);
		second++;
		stop_job();
		assert_int_equal(found_len, of_stranger ? 2 : 3);
		assert_false(is_alarmed_at(DETECT_TORCH, PID, 20));
		assert_int_equal(is_alarmed_at(DETECT_TORCH, PID, 21), !of_stranger);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(quiet_rows_end_an_anomaly, begin),
		cmocka_unit_test_setup(no_alarmed_row_is_left_out, begin),
		cmocka_unit_test_setup(what_lingers_is_none_of_it, begin),
		cmocka_unit_test_setup(what_lingers_of_very_rare_rows_is_none_of_it, begin),
		cmocka_unit_test_setup(an_onset_is_not_before_quiet_rows, begin),
		cmocka_unit_test_setup(an_onset_is_not_before_other_work, begin),
		cmocka_unit_test_setup(an_anomaly_ends_with_its_work, begin),
		cmocka_unit_test_setup(an_onset_is_not_before_a_pause, begin),
		cmocka_unit_test_setup(unjudged_rows_end_an_anomaly, begin),
		cmocka_unit_test_setup(an_onset_is_not_before_unjudged_rows, begin),
		cmocka_unit_test_setup(a_sum_does_not_go_over_unjudged_rows, begin),
		cmocka_unit_test_setup(what_is_beside_a_slow_job_is_of_it, begin),
		cmocka_unit_test_setup(a_slow_job_has_what_is_beside_it_as_long_as_it_is, begin),
		cmocka_unit_test_setup(what_is_beside_carries_nothing_on, begin),
		cmocka_unit_test_setup(what_begins_beside_others_begins_nothing, begin),
		cmocka_unit_test_setup(what_is_not_slow_or_not_rare_is_none_of_it, begin),
		cmocka_unit_test_setup(what_is_beside_does_not_begin_before, begin),
		cmocka_unit_test_setup(a_process_with_a_pace_of_its_own_is_no_loader, begin),
		cmocka_unit_test_setup(counters_tell_of_their_process, begin),
	};
	return cmocka_run_group_tests(tests, make_model, free_model);
}

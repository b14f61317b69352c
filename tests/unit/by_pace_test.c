/* by_pace_test.c - what the pace of a process decides about its rows: its calls, its counters, its
 * loaders, and where somebody minds whatever is lost.
 * links: rows incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rare_rows.h"

#define CHILD  200
#define PARENT 90
#define OTHER  300
#define SIGMA  0.03
#define MINDED 0.1

/* A model whose clock is of TORCH, and that alarms at a sum of 2. */
static int begin_with_clock(void **state)
{
	begin(state);
	options.least_effect = MINDED;
	model.clock = (struct model_clock){.layer = DETECT_TORCH, .sigma = SIGMA};
	for (size_t i = 0; i < PACE_TAILS; i++)
		model.clock.tails[i] = (struct pace_tail){2, 1e-6, 65, 1};
	return 0;
}

static int without_clock(void **state)
{
	(void)state;
	model.clock = (struct model_clock){.layer = DETECT_LAYERS};
	return 0;
}

static void usual_rows(size_t n)
{
	for (size_t i = 0; i < n; i++)
		row_with(USUAL, 1, 1);
}

/* How many anomalies rows of that pace, as rare as that, have among usual ones. */
static size_t found_at(double pace, double p, double least_effect, size_t n)
{
	options.least_effect = least_effect;
	start(false);
	usual_rows(40);
	for (size_t i = 0; i < n; i++)
		row_with(p, 1, pace);
	usual_rows(10);
	stop();
	return found_len;
}

/* However rare its calls are. */
static void slow_is_what_costs_time(void **state)
{
	(void)state;
	assert_int_equal(found_at(0.8, USUAL, MINDED, 3), 1);
	assert_int_equal(found_at(0.8, RARE, MINDED, 3), 1);
	assert_int_equal(found_at(0.95, RARE, MINDED, 3), 0);
	assert_int_equal(found_at(1.2, RARE, MINDED, 3), 0);
	assert_int_equal(found_at(0.85, USUAL, 0.2, 10), 0);
	assert_int_equal(found_at(0.75, USUAL, 0.2, 3), 1);
}

static void an_anomaly_is_as_long_as_it_is_slow(void **state)
{
	(void)state;
	assert_int_equal(found_at(0.7, USUAL, MINDED, 7), 1);
	expect_anomaly(0, BEGIN + 40, BEGIN + 47);
	assert_true(is_alarmed_at(DETECT_TORCH, PID, 40));
	assert_false(is_alarmed_at(DETECT_TORCH, PID, 47));
	assert_true(p_of(43) < 1e-4 && p_of(47) > 0.1);
}

/* Small losses add up, where they are minded. */
static void losses_add_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < PACE_TAILS; i++)
		model.clock.tails[i].start = 5;
	assert_int_equal(found_at(0.88, USUAL, MINDED, 1), 0);
	assert_int_equal(found_at(0.88, USUAL, MINDED, 6), 1);
}

/* Then what is rare by its mixture is told as well. */
static void whatever_is_lost(void **state)
{
	(void)state;
	assert_int_equal(found_at(1, RARE, NO_EFFECT, 1), 1);
	assert_int_equal(found_at(0.95, USUAL, NO_EFFECT, 10), 1);
	assert_int_equal(found_at(1, USUAL, NO_EFFECT, 10), 0);
}

/* A launch that is slower by 4 % for good is as launches are; by 15 % it is not. */
static void launches_differ(void **state)
{
	(void)state;
	for (int much = 0; much < 2; much++) {
		start(false);
		for (size_t i = 0; i < 60; i++)
			row_with(USUAL, 1, much ? 0.85 : 0.96);
		for (size_t i = 0; i < 3 && !much; i++)
			row_with(USUAL, 1, 0.9); /* is 6 % below what it has */
		stop();
		assert_int_equal(found_len, much);
	}
}

/* ---- one after the other ---- */

static void rows_at(double pace, size_t n)
{
	for (size_t i = 0; i < n; i++)
		row_with(USUAL, 1, pace);
}

static size_t incidents(void)
{
	size_t n = 0;
	for (size_t i = 0; i < found_len; i++)
		n += !i || found[i].incident != found[i - 1].incident;
	return n;
}

/* A little slow for long, then far slower: the first does not hide the second. */
static void a_jump_begins_another_incident(void **state)
{
	(void)state;
	start(false);
	usual_rows(40);
	rows_at(0.85, 6);
	rows_at(0.4, 5);
	usual_rows(10);
	stop();
	assert_int_equal(found_len, 2);
	expect_anomaly(0, BEGIN + 40, BEGIN + 46);
	expect_anomaly(1, BEGIN + 46, BEGIN + 51);
	assert_int_equal(incidents(), 2);
	assert_true(found[1].told_ns <= (BEGIN + 48) * SECOND);
}

/* Nor where one row alone is far slower, nor where the first of a fault is so in part. */
static void one_row_is_no_jump(void **state)
{
	(void)state;
	for (int first = 0; first < 2; first++) {
		start(false);
		usual_rows(40);
		rows_at(0.8, first ? 1 : 4);
		rows_at(0.4, first ? 4 : 1);
		rows_at(0.8, first ? 0 : 4);
		usual_rows(10);
		stop();
		assert_int_equal(incidents(), 1);
		assert_int_equal(found[0].start_ns, (BEGIN + 40) * SECOND);
	}
}

/* Nor is it lost where it is the last of its work, or where the next was not judged. */
static void a_last_far_slower_row_is_of_it(void **state)
{
	(void)state;
	for (int unjudged = 0; unjudged < 2; unjudged++) {
		start(true);
		usual_rows(40);
		rows_at(0.8, 4);
		rows_at(0.4, 1);
		if (unjudged)
			unjudged_row(USUAL);
		stop();
		assert_int_equal(found_len, 1);
		expect_anomaly(0, BEGIN + 40, BEGIN + 45);
	}
}

/* What was slightly odd before a fault is not the fault. */
static void an_onset_is_where_it_is_slow(void **state)
{
	(void)state;
	for (size_t i = 0; i < PACE_TAILS; i++)
		model.clock.tails[i].start = 5;
	start(false);
	usual_rows(40);
	rows_at(0.89, 2);
	rows_at(0.5, 5);
	usual_rows(10);
	stop();
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 42, BEGIN + 47);
}

/* A sum that a fault has left high tells nothing of what comes after it. */
static void a_fault_leaves_nothing(void **state)
{
	(void)state;
	start(false);
	usual_rows(40);
	rows_at(0.5, 5);
	usual_rows(3);
	rows_at(0.89, 1);
	usual_rows(10);
	stop();
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 40, BEGIN + 45);
}

/* ---- what is beside ---- */

static size_t anomalies_of(enum detect_layer layer, uint32_t pid)
{
	size_t n = 0;
	for (size_t i = 0; i < found_len; i++)
		n += found[i].layer == layer && found[i].pid == pid;
	return n;
}

static void seconds_of_job(size_t n, double pace, double p_beside)
{
	for (size_t i = 0; i < n; i++, second++) {
		struct feature_row own = rare_row(DETECT_TORCH, PID, USUAL);
		struct feature_row host = rare_row(DETECT_HOST, PID, p_beside);
		struct feature_row child = rare_row(DETECT_TORCH, CHILD, p_beside);
		own.pace = host.pace = child.pace = pace;
		child.parents_pace = true;
		give(&own);
		give(&host);
		give(&child);
	}
}

static void run_job(double pace, double p_beside)
{
	start(false);
	detector_process(detector, &(struct m_process){.pid = CHILD, .parent_pid = PID});
	seconds_of_job(40, 1, USUAL);
	seconds_of_job(5, pace, p_beside);
	seconds_of_job(10, 1, USUAL);
	stop();
}

/* Counters and loaders are of a slow job's anomaly where they are unusual, and of none else. */
static void what_is_beside(void **state)
{
	(void)state;
	run_job(0.7, RARE);
	assert_int_equal(anomalies_of(DETECT_TORCH, PID), 1);
	assert_int_equal(anomalies_of(DETECT_HOST, PID), 1);
	assert_int_equal(anomalies_of(DETECT_TORCH, CHILD), 1);
	run_job(0.7, USUAL);
	assert_int_equal(found_len, 1);
	run_job(0.97, RARE);
	assert_int_equal(found_len, 0);
}

/* Of two ranks one is slow for longer: what is beside that lasts as long. */
static void a_rank_that_recovers_ends_nothing_of_another(void **state)
{
	(void)state;
	start(false);
	detector_process(detector, &(struct m_process){.pid = PID, .parent_pid = PARENT});
	detector_process(detector, &(struct m_process){.pid = CHILD, .parent_pid = PARENT});
	for (int i = 0; i < 70; i++, second++) {
		bool slow = i >= 40 && i < 60, first_slow = i >= 40 && i < 46;
		struct feature_row one = rare_row(DETECT_TORCH, PID, USUAL);
		struct feature_row other = rare_row(DETECT_TORCH, CHILD, USUAL);
		struct feature_row host = rare_row(DETECT_HOST, CHILD, slow ? RARE : USUAL);
		one.pace = first_slow ? 0.7 : 1;
		other.pace = host.pace = slow ? 0.7 : 1;
		give(&one);
		give(&other);
		give(&host);
	}
	stop();
	assert_int_equal(anomalies_of(DETECT_TORCH, PID), 1);
	assert_int_equal(anomalies_of(DETECT_TORCH, CHILD), 1);
	assert_int_equal(anomalies_of(DETECT_HOST, CHILD), 1);
}

/* What began beside a jump is told again, as of the incident that begins there. */
static void what_is_beside_goes_with_the_jump(void **state)
{
	(void)state;
	start(false);
	seconds_of_job(40, 1, USUAL);
	seconds_of_job(6, 0.85, USUAL);
	seconds_of_job(5, 0.4, RARE);
	seconds_of_job(10, 1, USUAL);
	stop();
	assert_int_equal(anomalies_of(DETECT_HOST, PID), 1);
	assert_int_equal(anomalies_of(DETECT_TORCH, PID), 2);
	uint64_t first = 0, last = 0;
	for (size_t i = 0; i < told_len; i++)
		if (told[i].layer == DETECT_HOST && !told[i].ended) {
			first = first ? first : told[i].incident;
			last = told[i].incident;
		}
	assert_int_equal(first, 1);
	assert_int_equal(last, 2);
	bool moved = false, first_ended = false;
	for (size_t i = 0; i < told_len; i++) {
		moved |= told[i].moved && told[i].layer == DETECT_HOST;
		first_ended |= told[i].incident == 1 && told[i].incident_ends;
	}
	assert_true(moved && first_ended);
}

/* What another series lost after the jump is of the incident that begins there. */
static void an_incident_has_its_own_losses(void **state)
{
	(void)state;
	start(false);
	detector_process(detector, &(struct m_process){.pid = CHILD, .parent_pid = PID});
	for (size_t i = 0; i < 61; i++, second++) {
		double pace = i < 40 || i > 50 ? 1 : i < 46 ? 0.85 : 0.4;
		struct feature_row own = rare_row(DETECT_TORCH, PID, USUAL);
		struct feature_row child = rare_row(DETECT_TORCH, CHILD, pace < 1 ? RARE : USUAL);
		own.pace = child.pace = pace;
		child.parents_pace = true;
		give(&own);
		give_losing(&child, 1 - pace);
	}
	stop();
	assert_int_equal(found_len, 4);
	for (size_t i = 0; i < found_len; i++) {
		bool first = found[i].start_ns == (BEGIN + 40) * SECOND;
		assert_int_equal(found[i].end_ns, (BEGIN + (first ? 46 : 51)) * SECOND);
		assert_int_equal(found[i].incident, first ? 1 : 2);
		assert_int_equal(found[i].windows, first ? 6 : 5);
		assert_true(fabs(found[i].lost_ns / SECOND - (first ? 0.9 : 3)) < 0.01);
	}
}

/* Where a window alone is not slow enough: when the job was told to be slow, in seconds after its
 * fault began; 0: never. before: of counters in all the seconds before. */
static uint64_t told_after(double pace, double p_before, double p_beside)
{
	for (size_t i = 0; i < PACE_TAILS; i++)
		model.clock.tails[i].start = 9.4;
	start(true);
	seconds_of_job(40, 1, p_before);
	seconds_of_job(3, pace, p_beside);
	seconds_of_job(10, 1, USUAL);
	stop();
	for (size_t i = 0; i < told_len; i++)
		if (told[i].layer == DETECT_TORCH && told[i].pid == PID)
			return told[i].told_ns / SECOND - (BEGIN + 40);
	return 0;
}

/* Counters that are rare in the same window say it at once, of what loses the least effect. */
static void counters_tell_it_sooner(void **state)
{
	(void)state;
	assert_int_equal(told_after(0.8, USUAL, USUAL), 3);
	assert_int_equal(told_after(0.8, USUAL, RARE), 1);
	assert_int_equal(found[0].start_ns, (BEGIN + 40) * SECOND);
	assert_int_equal(anomalies_of(DETECT_TORCH, PID), 1);
	assert_int_equal(anomalies_of(DETECT_HOST, PID), 1);
	assert_int_equal(told_after(0.97, USUAL, RARE), 0);
}

/* Not those that are always odd in this launch. */
static void counters_that_do_not_fit_say_nothing(void **state)
{
	(void)state;
	assert_int_equal(told_after(0.8, RARE, RARE), 3);
}

/* What is odd for who tells the pace is what its loaders do all the time, and the other way round:
 * once it is known who is which. */
static void helpers_are_judged_among_themselves(void **state)
{
	(void)state;
	make_helpers(10);
	start(false);
	detector_process(detector, &(struct m_process){.pid = CHILD, .parent_pid = PID});
	for (size_t i = 0; i < 45; i++, second++) {
		double pace = i < 40 ? 1 : 0.7, p = i < 40 ? USUAL : RARE;
		struct feature_row own = rare_row(DETECT_TORCH, PID, USUAL);
		struct feature_row child = rare_row(DETECT_TORCH, CHILD, USUAL);
		struct feature_row host = rare_row(DETECT_HOST, PID, p);
		struct feature_row of_child = rare_row(DETECT_HOST, CHILD, p);
		own.pace = child.pace = host.pace = of_child.pace = pace;
		child.parents_pace = of_child.parents_pace = true;
		give(&own);
		give(&child);
		give(&host);
		give(&of_child);
	}
	stop();
	forget_helpers();
	assert_true(p_at(DETECT_HOST, PID, 42) < 1e-4);
	assert_true(p_at(DETECT_HOST, CHILD, 42) > 0.1);
	assert_int_equal(anomalies_of(DETECT_HOST, PID), 1);
	assert_int_equal(anomalies_of(DETECT_HOST, CHILD), 0);
}

/* Work of a new kind, in which a process is a helper at first, and tells a pace later: what is
 * usual in it was learned against the mixture of helpers, and is judged by that of the others. */
static void a_helper_that_is_none_any_more(void **state)
{
	enum { HELPS = 60, LEADS = 140, SLOW = 5 };
	(void)state;
	make_helpers(1);
	model.helpers.centre[0] = 5;
	for (int odd = 0; odd < 2; odd++) {
		start(false);
		detector_process(detector, &(struct m_process){.pid = CHILD, .parent_pid = PID});
		for (int i = 0; i < HELPS + LEADS + SLOW; i++, second++) {
			struct feature_row calls = rare_row(DETECT_TORCH, CHILD, USUAL);
			struct feature_row host = rare_row(DETECT_HOST, CHILD, USUAL);
			bool slow = i >= HELPS + LEADS;
			calls.pace = host.pace = slow ? 0.7 : 1;
			calls.parents_pace = host.parents_pace = i < HELPS;
			host.regime = model.regimes.len + 1;
			host.x[0] = slow && odd ? 13 : 7;
			give(&calls);
			give(&host);
		}
		stop();
		assert_int_equal(anomalies_of(DETECT_TORCH, CHILD), 1);
		assert_int_equal(anomalies_of(DETECT_HOST, CHILD), odd);
	}
	forget_helpers();
}

/* Of a process that has no pace, or makes no calls any more, its mixture decides. */
static void what_has_no_pace(void **state)
{
	(void)state;
	assert_int_equal(found_at(0, RARE, MINDED, 1), 0); /* its calls are of other work */
	start(false);
	rows(40, USUAL);
	rows(1, RARE);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	start(false);
	seconds_of_job(40, 1, USUAL);
	for (size_t i = 0; i < 10; i++, second++) {
		struct feature_row host = rare_row(DETECT_HOST, PID, i < 5 ? USUAL : RARE);
		give(&host);
	}
	stop();
	assert_int_equal(anomalies_of(DETECT_HOST, PID), 1);
}

enum resting { RESTS, RESTS_BELOW_ANOTHER, PARENT_STUCK, PARENT_SLOW, LEADS };

/* Counters of a child that makes no calls any more, which are odd. */
static size_t found_of_child(enum resting how)
{
	enum { USUALLY = 40, ODD = 10 };
	start(false);
	uint32_t between = how == RESTS_BELOW_ANOTHER ? OTHER : PID;
	detector_process(detector, &(struct m_process){.pid = OTHER, .parent_pid = PID});
	detector_process(detector, &(struct m_process){.pid = CHILD, .parent_pid = between});
	for (int i = 0; i < USUALLY + ODD; i++, second++) {
		struct feature_row own = rare_row(DETECT_TORCH, PID, USUAL);
		struct feature_row child = rare_row(DETECT_TORCH, CHILD, USUAL);
		struct feature_row host = rare_row(DETECT_HOST, CHILD, i < USUALLY ? USUAL : RARE);
		own.pace = i >= USUALLY && how == PARENT_SLOW ? 0 : 1;
		child.pace = 1;
		child.parents_pace = how != LEADS;
		if (i < USUALLY || how != PARENT_STUCK)
			give(&own);
		if (i < USUALLY)
			give(&child);
		give(&host);
	}
	stop();
	return anomalies_of(DETECT_HOST, CHILD);
}

/* While who a helper works for goes on it is none of the job's losses, however long that goes;
 * where that one has no pace any more either, or the process leads its own work, counters tell. */
static void a_helper_that_rests(void **state)
{
	(void)state;
	assert_int_equal(found_of_child(RESTS), 0);
	assert_int_equal(found_of_child(RESTS_BELOW_ANOTHER), 0);
	assert_int_equal(found_of_child(PARENT_STUCK), 1);
	assert_int_equal(found_of_child(PARENT_SLOW), 1);
	assert_int_equal(found_of_child(LEADS), 1);
}

static size_t found_losing(double lost_s, double least_effect)
{
	options.least_effect = least_effect;
	start(false);
	rows(40, USUAL);
	for (size_t i = 0; i < 4; i++)
		losing_row(RARE, lost_s);
	rows(10, USUAL);
	stop();
	return found_len;
}

/* Without a pace the times of its calls say what it costs. */
static void what_has_no_pace_and_costs_nothing(void **state)
{
	(void)state;
	assert_int_equal(found_losing(0.005, MINDED), 0);
	assert_int_equal(found_losing(-0.2, MINDED), 0);
	assert_int_equal(found_losing(0.2, MINDED), 1);
	assert_int_equal(found_losing(NAN, MINDED), 1);
	assert_int_equal(found_losing(0.005, NO_EFFECT), 1); /* somebody minds */
}

/* Another job than the one that was learned: how long that one's steps take says nothing of it. */
static void steps_of_work_that_nobody_knows(void **state)
{
	(void)state;
	start(false);
	for (size_t i = 0; i < 40; i++, second++) {
		struct feature_row other = rare_row(DETECT_TORCH, OTHER, USUAL);
		struct feature_row known = rare_row(DETECT_TORCH, PID, USUAL);
		known.pace = 1;
		struct feature_row steps[] = {rare_row(DETECT_STEP, PID, USUAL),
					      rare_row(DETECT_STEP, OTHER, USUAL)};
		give(&known);
		give(&other);
		give(&steps[0]);
		give(&steps[1]);
	}
	stop();
	assert_false(isnan(p_at(DETECT_STEP, PID, 30)));
	assert_true(isnan(p_at(DETECT_STEP, OTHER, 30)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, begin_with_clock, without_clock)
		T(slow_is_what_costs_time),
		T(an_anomaly_is_as_long_as_it_is_slow),
		T(losses_add_up),
		T(whatever_is_lost),
		T(launches_differ),
		T(what_is_beside),
		T(what_is_beside_goes_with_the_jump),
		T(an_incident_has_its_own_losses),
		T(a_rank_that_recovers_ends_nothing_of_another),
		T(counters_tell_it_sooner),
		T(counters_that_do_not_fit_say_nothing),
		T(helpers_are_judged_among_themselves),
		T(a_helper_that_is_none_any_more),
		T(what_has_no_pace),
		T(a_helper_that_rests),
		T(what_has_no_pace_and_costs_nothing),
		T(steps_of_work_that_nobody_knows),
		T(a_jump_begins_another_incident),
		T(one_row_is_no_jump),
		T(a_last_far_slower_row_is_of_it),
		T(an_onset_is_where_it_is_slow),
		T(a_fault_leaves_nothing),
#undef T
	};
	return cmocka_run_group_tests(tests, make_model, free_model);
}

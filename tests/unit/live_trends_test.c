/* live_trends_test.c - the last minutes of counters: as many points as there is room for, the
 * oldest goes, what is not told is no number, what has not been told for long gives its room back.
 *
 * links: cli */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/entity.h"
#include "session/live_trends.h"

static struct live_series s;
static struct live_trends t;
static uint64_t now_ns;

static int begin(void **unused)
{
	(void)unused;
	s = (struct live_series){0};
	t = (struct live_trends){0};
	now_ns = 1000000000000ULL;
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	live_trends_free(&t);
	live_series_free(&s);
	return 0;
}

static struct live_metric *metric(uint8_t kind, uint32_t gpu, const char *name)
{
	struct live_metric *m = vec_push(&s.metrics);
	*m = (struct live_metric){.kind = kind,
				  .there = true,
				  .gpu = gpu,
				  .instance = -1,
				  .label = xstrdup(""),
				  .name = xstrdup(name)};
	return m;
}

/* All that are there are told. */
static bool tick(double value)
{
	now_ns += TREND_EACH_NS;
	s.now_ns = now_ns;
	for (size_t i = 0; i < s.metrics.len; i++) {
		s.metrics.data[i].value = value;
		s.metrics.data[i].time_ns = now_ns;
	}
	return live_trends_tick(&t, &s, now_ns);
}

static void points_come_in_their_time(void **unused)
{
	(void)unused;
	metric(ENTITY_HOST, 0, "cpu_ratio");
	assert_true(tick(1));
	assert_false(live_trends_tick(&t, &s, now_ns + TREND_EACH_NS - 1));
	assert_true(tick(2));
	assert_int_equal(live_trends_points(&t), 2);
	assert_int_equal(t.list.len, 1);
	assert_true(live_trend_value(&t, t.list.data[0].values, 0) == 1);
	assert_true(live_trend_value(&t, t.list.data[0].values, 1) == 2);
}

static void the_oldest_goes(void **unused)
{
	(void)unused;
	metric(ENTITY_GPU, 0, "power_w");
	for (int i = 0; i < TREND_POINTS + 7; i++)
		tick(i);
	assert_int_equal(live_trends_points(&t), TREND_POINTS);
	assert_true(live_trend_value(&t, t.list.data[0].values, 0) == 7);
	assert_true(live_trend_value(&t, t.list.data[0].values, TREND_POINTS - 1) ==
		    TREND_POINTS + 6);
}

static void what_is_not_told_is_no_number(void **unused)
{
	(void)unused;
	metric(ENTITY_GPU, 0, "power_w");
	tick(1);
	s.metrics.data[0].there = false;
	tick(2);
	s.metrics.data[0].there = true;
	tick(3);
	assert_true(isnan(live_trend_value(&t, t.list.data[0].values, 1)));
	assert_true(live_trend_value(&t, t.list.data[0].values, 2) == 3);
	/* another begins later: it had no values before */
	metric(ENTITY_GPU, 1, "power_w");
	tick(4);
	assert_int_equal(t.list.len, 2);
	assert_true(isnan(live_trend_value(&t, t.list.data[1].values, 2)));
	assert_true(live_trend_value(&t, t.list.data[1].values, 3) == 4);
}

static void processes_that_are_no_jobs_have_none(void **unused)
{
	(void)unused;
	metric(ENTITY_PROCESS, 0, "rss_bytes")->pid = 7;
	metric(ENTITY_FILESYSTEM, 0, "available_bytes");
	tick(1);
	assert_int_equal(t.list.len, 0);
	assert_int_equal(t.left_out, 0);
}

static void what_finds_no_room_is_counted_and_room_comes_back(void **unused)
{
	(void)unused;
	for (uint32_t i = 0; i < TRENDS + 5; i++)
		metric(ENTITY_GPU, i, "power_w");
	tick(1);
	assert_int_equal(t.list.len, TRENDS);
	assert_int_equal(t.left_out, 5);
	for (size_t i = 0; i < TRENDS; i++)
		s.metrics.data[i].there = false;
	for (int i = 0; i < TREND_POINTS + 1; i++)
		tick(2);
	assert_int_equal(t.left_out, 0);
	assert_int_equal(t.list.len, 5);
	for (size_t i = 0; i < t.list.len; i++)
		assert_true(t.list.data[i].gpu >= TRENDS);
	assert_true(live_trend_value(&t, t.list.data[0].values, TREND_POINTS - 1) == 2);
}

static void steps_end(struct live_steps_view *of, int n, float ns)
{
	for (int i = 0; i < n; i++)
		live_history_add(&of->history, (double)ns);
	of->count += (uint64_t)n;
}

static double step_mean(size_t of, uint32_t i)
{
	return live_trend_value(&t, t.steps.data[of].mean, i);
}

static void steps_are_those_that_ended_since(void **unused)
{
	(void)unused;
	struct live_jobs *jobs = xcalloc(1, sizeof(*jobs));
	struct live_steps_view *of = &jobs->of[0];
	of->pid = 7;
	jobs->len = 1;
	metric(ENTITY_HOST, 0, "cpu_ratio");
	steps_end(of, 3, 10);
	tick(0);
	live_trends_steps(&t, jobs); /* when they ended is not known */
	steps_end(of, 1, 20);
	steps_end(of, 1, 40);
	tick(0);
	live_trends_steps(&t, jobs);
	tick(0);
	live_trends_steps(&t, jobs);
	assert_true(isnan(step_mean(0, 0)) && isnan(step_mean(0, 2)));
	assert_true(step_mean(0, 1) == 30);
	assert_true(live_trend_value(&t, t.steps.data[0].longest, 1) == 40);
	free(jobs);
}

static void each_process_has_steps_of_its_own(void **unused)
{
	(void)unused;
	struct live_jobs *jobs = xcalloc(1, sizeof(*jobs));
	jobs->of[0].pid = 7;
	jobs->of[1].pid = 8;
	metric(ENTITY_HOST, 0, "cpu_ratio");
	for (int i = 0; i < 3; i++) {
		jobs->len = i ? 2 : 1;
		steps_end(&jobs->of[0], 5, 10);
		steps_end(&jobs->of[1], 5, 30);
		tick(0);
		live_trends_steps(&t, jobs);
	}
	assert_int_equal(t.steps.len, 2);
	assert_true(step_mean(0, 1) == 10 && step_mean(0, 2) == 10);
	assert_true(isnan(step_mean(1, 1)) && step_mean(1, 2) == 30);
	free(jobs);
}

static void steps_of_processes_that_have_gone_make_room(void **unused)
{
	(void)unused;
	struct live_jobs *jobs = xcalloc(1, sizeof(*jobs));
	metric(ENTITY_HOST, 0, "cpu_ratio");
	for (uint32_t turn = 0; turn < 2; turn++) {
		jobs->len = LIVE_JOBS;
		for (uint32_t i = 0; i < LIVE_JOBS; i++)
			jobs->of[i].pid = 1 + i + (turn ? 1 : 0);
		tick(0);
		live_trends_steps(&t, jobs);
	}
	assert_int_equal(t.steps.len, LIVE_JOBS);
	assert_int_equal(t.steps.data[0].pid, LIVE_JOBS + 1); /* 1 has gone */
	free(jobs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(points_come_in_their_time, begin, end),
		cmocka_unit_test_setup_teardown(the_oldest_goes, begin, end),
		cmocka_unit_test_setup_teardown(what_is_not_told_is_no_number, begin, end),
		cmocka_unit_test_setup_teardown(processes_that_are_no_jobs_have_none, begin, end),
		cmocka_unit_test_setup_teardown(what_finds_no_room_is_counted_and_room_comes_back,
						begin, end),
		cmocka_unit_test_setup_teardown(steps_are_those_that_ended_since, begin, end),
		cmocka_unit_test_setup_teardown(each_process_has_steps_of_its_own, begin, end),
		cmocka_unit_test_setup_teardown(steps_of_processes_that_have_gone_make_room, begin,
						end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

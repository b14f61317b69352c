/* slow_stretches_test.c - which steps were slow for a time, of loops made by hand, and what the
 * report says of it. What loops do again and again, and how they begin, is nothing.
 *
 * links: report incident detect analyze symbolize parser recording events base golden */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "analyze/slow_stretches.h"
#include "base/random.h"
#include "golden/gpu_sample.h"
#include "recording/recording.h"
#include "report/report.h"
#include "made_file.h"

#define MS    1000000ULL
#define STEPS 600

/* Of one step by its number, in ms. */
typedef double loop_fn(uint32_t i);

static struct steps_step steps[STEPS];
static struct slow_stretches found;

static void find(loop_fn *takes, double noise)
{
	uint64_t now_ns = 5 * MS, random = 7;
	for (uint32_t i = 0; i < STEPS; i++) {
		double ms = takes(i) * (1 + noise * (2 * random_uniform(&random) - 1));
		steps[i] = (struct steps_step){.start_ns = now_ns,
					       .end_ns = now_ns + (uint64_t)(ms * 1e6)};
		now_ns = steps[i].end_ns;
	}
	slow_stretches_find(&found, steps, STEPS);
}

static void is_about(double is, double wanted)
{
	if (is < 0.97 * wanted || is > 1.03 * wanted)
		fail_msg("is %g, wanted %g", is, wanted);
}

static void finds_none(loop_fn *takes, double noise)
{
	find(takes, noise);
	assert_int_equal(found.list.len, 0);
	slow_stretches_free(&found);
}

static double even(uint32_t i)
{
	(void)i;
	return 100;
}

static double slow_for_a_time(uint32_t i)
{
	return i >= 300 && i < 340 ? 200 : 100;
}

static void a_time_of_slow_steps(void **state)
{
	(void)state;
	find(slow_for_a_time, 0.1);
	assert_int_equal(found.list.len, 1);
	const struct slow_stretch *s = &found.list.data[0];
	assert_int_equal(s->first, 300);
	assert_int_equal(s->steps, 40);
	assert_int_equal(s->slow, 40);
	assert_int_equal(found.slow, 40);
	assert_int_equal(s->from_ns, steps[300].start_ns);
	assert_int_equal(s->to_ns, steps[339].end_ns);
	is_about(found.slow_ns, 200e6);
	is_about(found.usual_ns, 100e6);
	is_about(found.lost_ns, 40 * 100e6);
	slow_stretches_free(&found);
}

/* A loader of two processes is waited for each second step. */
static double slow_each_second(uint32_t i)
{
	return i >= 300 && i < 340 && i % 2 ? 300 : 100;
}

static void slow_steps_with_quick_ones_between(void **state)
{
	(void)state;
	find(slow_each_second, 0.1);
	assert_int_equal(found.list.len, 1);
	assert_int_equal(found.list.data[0].first, 301);
	assert_int_equal(found.list.data[0].steps, 39);
	assert_int_equal(found.slow, 20);
	is_about(found.slow_ns, 300e6);
	is_about(found.lost_ns, 20 * 200e6);
	slow_stretches_free(&found);
}

static double slow_twice(uint32_t i)
{
	return (i >= 200 && i < 220) || (i >= 500 && i < 530) ? 180 : 100;
}

static void two_times_of_slow_steps(void **state)
{
	(void)state;
	find(slow_twice, 0.05);
	assert_int_equal(found.list.len, 2);
	assert_int_equal(found.list.data[1].first, 500);
	assert_int_equal(found.slow, 50);
	is_about(found.lost_ns, 50 * 80e6);
	slow_stretches_free(&found);
}

/* What was quick before makes the spread wide below the usual step alone: with the slow ones it is
 * more than half of all. */
static double quick_then_slow(uint32_t i)
{
	return i < 270 ? 66 : i >= 400 && i < 450 ? 175 : 100;
}

static void a_job_that_was_quicker_before(void **state)
{
	(void)state;
	find(quick_then_slow, 0.03);
	assert_int_equal(found.list.len, 1);
	assert_int_equal(found.list.data[0].first, 400);
	assert_int_equal(found.slow, 50);
	slow_stretches_free(&found);
}

/* A checkpoint soon after it is not of it. */
static double slow_then_pauses(uint32_t i)
{
	return i == 350 ? 3000 : slow_for_a_time(i);
}

static void a_pause_after_slow_steps(void **state)
{
	(void)state;
	find(slow_then_pauses, 0.05);
	assert_int_equal(found.list.len, 1);
	assert_int_equal(found.list.data[0].first, 300);
	assert_int_equal(found.list.data[0].steps, 40);
	is_about(found.lost_ns, 40 * 100e6);
	slow_stretches_free(&found);
}

/* A host that is now busy and now not. */
static double now_quick_now_slow(uint32_t i)
{
	uint64_t random = 1 + i / 15;
	return 40 + 160 * random_uniform(&random);
}

static void steady_loops(void **state)
{
	(void)state;
	finds_none(even, 0);
	finds_none(even, 0.1);
	finds_none(even, 0.6);
	finds_none(now_quick_now_slow, 0.05);
}

static double warms_up(uint32_t i)
{
	return i < 3 ? 400 : i < 60 ? 200 : 100;
}

static void the_first_steps_warm_up(void **state)
{
	(void)state;
	finds_none(warms_up, 0.05);
}

/* Evaluation and checkpoint: single long steps. */
static double each_50th_pauses(uint32_t i)
{
	return i % 50 == 49 ? 3000 : 100;
}

static double each_5th_pauses(uint32_t i)
{
	return i % 5 == 4 ? 1000 : 100;
}

static double pauses_once(uint32_t i)
{
	return i == 300 ? 60000 : 100;
}

static void pauses(void **state)
{
	(void)state;
	finds_none(each_50th_pauses, 0.05);
	finds_none(each_5th_pauses, 0.05);
	finds_none(pauses_once, 0.05);
}

static double two_kinds(uint32_t i)
{
	return i % 2 ? 300 : 100;
}

static double two_kinds_by_blocks(uint32_t i)
{
	return i / 20 % 2 ? 200 : 100;
}

/* An epoch's first steps are longer. */
static double slow_in_each_epoch(uint32_t i)
{
	return i % 100 >= 40 && i % 100 < 60 ? 200 : 100;
}

/* The first steps warm up as well, which is not as far from the first of these. */
static double warms_up_then_slow_in_each_epoch(uint32_t i)
{
	return i < 30 || (i >= 300 && i % 100 < 20) ? 200 : 100;
}

static double slow_for_long(uint32_t i)
{
	return i >= 380 ? 200 : 100;
}

static void what_a_loop_does_again_and_again(void **state)
{
	(void)state;
	finds_none(two_kinds, 0.05);
	finds_none(two_kinds_by_blocks, 0.05);
	finds_none(slow_in_each_epoch, 0.05);
	finds_none(warms_up_then_slow_in_each_epoch, 0.05);
	finds_none(slow_for_long, 0.05);
}

static double a_little_slower(uint32_t i)
{
	return i >= 300 && i < 340 ? 130 : 100;
}

/* Four steps. */
static double slow_for_a_moment(uint32_t i)
{
	return i >= 300 && i < 304 ? 300 : 100;
}

static double slow_for_less_than_a_second(uint32_t i)
{
	return i >= 300 && i < 325 ? 30 : 10;
}

static void little(void **state)
{
	(void)state;
	finds_none(a_little_slower, 0.05);
	finds_none(slow_for_a_moment, 0.05);
	finds_none(slow_for_less_than_a_second, 0.05);
	slow_stretches_find(&found, steps, 0);
	assert_int_equal(found.list.len, 0);
	slow_stretches_find(&found, steps, 20);
	assert_int_equal(found.list.len, 0);
}

/* Steps of no time at all. */
static double none(uint32_t i)
{
	(void)i;
	return 0;
}

static void damaged_steps(void **state)
{
	(void)state;
	finds_none(none, 0);
}

/* ---- the report ---- */

#define STREAM 0x70

static struct rec_writer *w;

static void launch(const char *name, uint64_t at_ns)
{
	GPU_CALL(w, 0, GS_LAUNCH, at_ns, 1000, rec_string_z(w, name), dim3_pack(1, 1, 1),
		 dim3_pack(32, 1, 1), STREAM);
}

/* One thread whose steps are two launches each. */
static void record(loop_fn *takes)
{
	struct err e = {0};
	uint64_t now_ns = MS;
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	gpu_sample_probes(w);
	rec_put_process(w, &(struct m_process){.pid = 7, .parent_pid = 1, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){7, 7, 0});
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t ns = (uint64_t)(takes(i) * 1e6);
		launch("add", now_ns);
		launch("mul", now_ns + ns / 4);
		now_ns += ns;
	}
	rec_put_wait_total(w, &(struct m_wait_total){.reason = WAIT_SLEEP,
						     .since_ns = MS,
						     .until_ns = now_ns,
						     .count = 1,
						     .waited_ns = 1});
	if (rec_writer_close(w, false, &e))
		fail_msg("%s", e.msg);
}

static char *reported(int (*write)(FILE *out, const struct report *r))
{
	struct err e = {0};
	struct rec_reader *reader = NULL;
	struct report report;
	struct report_options options = {.top = 10, .width = 1000};
	char *ret = NULL;
	size_t len;
	FILE *f = open_memstream(&ret, &len);
	if (rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	report_make(&report, "run.eacgm", rec_source(reader), &options,
		    &(struct visit_options){.threads = 1});
	assert_int_equal(write(f, &report), 0);
	fclose(f);
	report_free(&report);
	rec_close(reader);
	return ret;
}

static int as_text(FILE *out, const struct report *r)
{
	report_text(out, r);
	return 0;
}

/* The finding, or NULL; *ret_all is to be given back. */
static const json_t *finding(json_t **ret_all)
{
	char *text = reported(report_json);
	*ret_all = json_loads(text, 0, NULL);
	free(text);
	const json_t *list = json_object_get(json_object_get(*ret_all, "account"), "stands_out");
	assert_true(json_is_array(list));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *f = json_array_get(list, i);
		if (!strcmp(json_string_value(json_object_get(f, "name")), "slow_steps"))
			return f;
	}
	return NULL;
}

static double slow_early(uint32_t i)
{
	return i >= 100 && i < 140 ? 200 : 100;
}

/* A minute before it: then diagnose needs no model. */
static double slow_late(uint32_t i)
{
	return i >= 550 && i < 580 ? 300 : 120;
}

static void the_report_says_so(void **state)
{
	(void)state;
	record(slow_early);
	char *text = reported(as_text);
	const char *said = "  - 40 of its 600 inference steps were slow, from 10.1 s to 18.0 s: "
			   "200 ms instead of "
			   "100 ms in the median, 3.98 s lost in all; `eacgm diagnose run.eacgm -m "
			   "MODEL` says "
			   "why, by a MODEL that `eacgm learn` makes of a run without it.\n";
	if (!strstr(text, said))
		fail_msg("does not say it:\n%s", text);
	free(text);
	record(slow_late);
	text = reported(as_text);
	if (!strstr(text, "; `eacgm diagnose run.eacgm` says why.\n"))
		fail_msg("does not say who says why:\n%s", text);
	free(text);
}

static void the_report_says_so_in_json(void **state)
{
	json_t *all, *slow;
	const json_t *f;
	(void)state;
	record(slow_early);
	f = finding(&all);
	assert_non_null(f);
	slow = json_object_get(f, "slow_steps");
	assert_int_equal(json_integer_value(json_object_get(slow, "count")), 40);
	is_about(json_number_value(json_object_get(slow, "median_ns")), 200e6);
	is_about(json_number_value(json_object_get(slow, "usual_ns")), 100e6);
	is_about(json_number_value(json_object_get(f, "cost_ns")), 4e9);
	const json_t *stretch = json_array_get(json_object_get(slow, "stretches"), 0);
	assert_int_equal(json_integer_value(json_object_get(stretch, "steps")), 40);
	is_about(json_number_value(json_object_get(stretch, "start_ns")), 10e9);
	is_about(json_number_value(json_object_get(stretch, "end_ns")), 18e9);
	is_about(json_number_value(json_object_get(stretch, "lost_ns")), 4e9);
	json_decref(all);
}

/* One part in a hundred of the loop. */
static double slow_for_little(uint32_t i)
{
	return i >= 300 && i < 306 ? 200 : 100;
}

static void of_others_it_says_nothing(void **state)
{
	loop_fn *const loops[] = {even, warms_up, each_50th_pauses, slow_for_little};
	(void)state;
	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
		json_t *all;
		record(loops[i]);
		assert_null(finding(&all));
		json_decref(all);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_time_of_slow_steps),
		cmocka_unit_test(slow_steps_with_quick_ones_between),
		cmocka_unit_test(two_times_of_slow_steps),
		cmocka_unit_test(a_job_that_was_quicker_before),
		cmocka_unit_test(a_pause_after_slow_steps),
		cmocka_unit_test(steady_loops),
		cmocka_unit_test(the_first_steps_warm_up),
		cmocka_unit_test(pauses),
		cmocka_unit_test(what_a_loop_does_again_and_again),
		cmocka_unit_test(little),
		cmocka_unit_test(damaged_steps),
		cmocka_unit_test(the_report_says_so),
		cmocka_unit_test(the_report_says_so_in_json),
		cmocka_unit_test(of_others_it_says_nothing),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

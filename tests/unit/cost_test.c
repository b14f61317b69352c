/* cost_test.c - what is told of the cost of recording: bounds, shares, and how it is added up.
 * links: analyze events base session */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/cost.h"
#include "session/running_cost.h"

static struct cost reckon(double job, double running, double held)
{
	const struct cost_seen seen = {
		.job_cpu_s = job, .running_cpu_s = running, .held_cpu_s = held};
	struct cost c;
	cost_reckon(&c, &seen);
	return c;
}

static void a_share_is_of_what_the_job_used(void **state)
{
	(void)state;
	struct cost c = reckon(7.5, 0.14, 0.5);
	assert_float_equal(c.ran_cpu_s, 7, 1e-9);
	assert_float_equal(c.ratio, 0.02, 1e-9);
	assert_float_equal(c.held_cpu_s, 0.5, 1e-9);
}

static void no_part_is_more_than_there_was(void **state)
{
	(void)state;
	struct cost c = reckon(1, 14.92, 0.25);
	assert_float_equal(c.running_cpu_s, 0.75, 1e-9);
	assert_float_equal(c.ratio, 1, 1e-9);
	c = reckon(1, 0.5, 3);
	assert_float_equal(c.held_cpu_s, 1, 1e-9);
	assert_float_equal(c.running_cpu_s, 0, 1e-9);
	assert_true(c.ratio < 0);
	c = reckon(1, -1, -1);
	assert_float_equal(c.ratio, 0, 1e-9);
}

static void a_share_of_little_is_not_told(void **state)
{
	(void)state;
	struct cost c = reckon(0.003, 0.002, 0);
	assert_true(c.ratio < 0);
	assert_float_equal(c.running_cpu_s, 0.002, 1e-9);
	c = reckon(0, 0.002, 0.1); /* how much the job used is not known: neither are bounds */
	assert_true(c.ratio < 0 && c.ran_cpu_s < 0);
	assert_float_equal(c.running_cpu_s, 0.002, 1e-9);
}

/* ---- what has run ---- */

static const struct call_costs host = {
	.traps = {.entry_ns = 500, .stepped_ns = 10500, .return_ns = 400, .mapping_ns = 5000},
	.call_ns = 1150,
	.return_ns = 100,
};

static double sum_of(const struct tracer_spending *spent, const struct call_costs *costs)
{
	struct running_cost c;
	running_cost_reckon(&c, spent, 0, costs);
	assert_float_equal(c.programs_ns + c.traps_ns + c.caches_ns, c.sum_ns, 1e-3);
	return c.sum_ns;
}

static void calls_of_a_tight_loop_cost_what_was_measured(void **state)
{
	(void)state;
	struct tracer_spending spent[SPENT_KINDS] = {
		[SPENT_CALLS] = {1000, 150e3}, [SPENT_RETURNS] = {1000, 100e3}};
	assert_float_equal(sum_of(spent, &host), 1000 * (150 + 100 + 500 + 400), 1);
	spent[SPENT_STEPPED] = spent[SPENT_CALLS];
	spent[SPENT_CALLS] = (struct tracer_spending){0};
	assert_float_equal(sum_of(spent, &host), 1000 * (150 + 100 + 10500 + 400), 1);
}

static void where_our_programs_are_slow_so_is_the_kernel(void **state)
{
	(void)state;
	struct tracer_spending spent[SPENT_KINDS] = {
		[SPENT_CALLS] = {1000, 300e3}, [SPENT_RETURNS] = {1000, 200e3}};
	/* twice as slow, and the job waits for its caches as long as we did */
	assert_float_equal(sum_of(spent, &host), 1000 * (1150 * 2 + 1150), 1);
	spent[SPENT_RETURNS].ns = 1000 * 100e3; /* not without bound */
	assert_true(sum_of(spent, &host) < 1000 * (100e3 + 300 + 900 * 4) * 2);
	spent[SPENT_RETURNS] = (struct tracer_spending){10, 10 * 5000}; /* too few to tell */
	spent[SPENT_CALLS] = (struct tracer_spending){10, 1500};
	assert_float_equal(sum_of(spent, &host), 10 * (150 + 500 + 5000 + 400), 1);
}

static void new_processes_have_their_part(void **state)
{
	(void)state;
	struct tracer_spending spent[SPENT_KINDS] = {0};
	assert_float_equal(sum_of(spent, &host), 0, 1e-9);
	spent[SPENT_EXECS] = (struct tracer_spending){100, 100 * 9000};
	double execs_ns = sum_of(spent, &host);
	assert_true(execs_ns > 100 * (9000 + 5000));
	spent[SPENT_TICKS] = (struct tracer_spending){10, 10 * 20000};
	assert_float_equal(sum_of(spent, &host), execs_ns + 200e3, 1);
}

static void places_of_files_that_are_mapped_cost_a_part_of_a_mapping(void **state)
{
	(void)state;
	const struct tracer_spending spent[SPENT_KINDS] = {0};
	struct running_cost c;
	running_cost_reckon(&c, spent, 3000, &host);
	assert_float_equal(c.traps_ns, 2 * 3000 * 5000.0 / MAPPING_PLACES, 1);
	assert_float_equal(c.sum_ns, c.traps_ns, 1);
}

static void without_what_the_host_takes_only_programs_count(void **state)
{
	(void)state;
	const struct call_costs unknown = {0};
	const struct tracer_spending spent[SPENT_KINDS] = {
		[SPENT_CALLS] = {1000, 150e3}, [SPENT_RETURNS] = {1000, 100e3}};
	assert_float_equal(sum_of(spent, &unknown), 250e3, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_is_of_what_the_job_used),
		cmocka_unit_test(no_part_is_more_than_there_was),
		cmocka_unit_test(a_share_of_little_is_not_told),
		cmocka_unit_test(calls_of_a_tight_loop_cost_what_was_measured),
		cmocka_unit_test(where_our_programs_are_slow_so_is_the_kernel),
		cmocka_unit_test(new_processes_have_their_part),
		cmocka_unit_test(places_of_files_that_are_mapped_cost_a_part_of_a_mapping),
		cmocka_unit_test(without_what_the_host_takes_only_programs_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

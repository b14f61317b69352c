/* standing_told_test.c - a job that stands still as the detector tells it: once, by rule, as an
 * incident that lasts until it goes on, or until nothing more comes.
 *
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "incident/detector.h"

#define S 1000000000ULL

static VEC(struct anomaly) told;
static struct detector *d;

static void tell(void *ctx, const struct anomaly *a)
{
	(void)ctx;
	*vec_push(&told) = *a;
}

static int begin(void **state)
{
	(void)state;
	d = detector_new(&(struct detector_options){.tell = tell});
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_free(d);
	vec_free(&told);
	told.len = 0;
	return 0;
}

static void standing(uint32_t pid, uint64_t now_s, bool ended)
{
	detector_standing(
		d, &(struct job_standing){
			   .pid = pid, .ended = ended, .since_ns = 100 * S, .now_ns = now_s * S});
}

static void it_is_told_once_and_when_it_goes_on(void **state)
{
	(void)state;
	standing(42, 103, false);
	assert_int_equal(told.len, 1);
	const struct anomaly *a = &told.data[0];
	assert_true(a->pid == 42 && a->start_ns == 100 * S && !a->ended && a->incident_begins);
	assert_true(a->p_value == 0 && a->lost_ns == 3e9);
	assert_string_equal(a->name, "standing_still");
	assert_string_equal(a->why, "it waits, and has made no call for 3.00 s");
	standing(42, 104, false);
	standing(43, 104, true); /* of this one nothing was told */
	assert_int_equal(told.len, 1);
	standing(42, 120, true);
	assert_int_equal(told.len, 2);
	assert_true(told.data[1].ended && told.data[1].incident_ends);
	assert_true(told.data[1].id == told.data[0].id && told.data[1].lost_ns == 20e9);
	assert_int_equal(told.data[1].incident, told.data[0].incident);
	assert_string_equal(told.data[1].why, "it waited, and made no call for 20.0 s");
	standing(42, 130, false); /* and once more */
	assert_int_equal(told.len, 3);
	assert_int_not_equal(told.data[2].id, told.data[0].id);
}

static void it_ends_when_nothing_more_comes(void **state)
{
	(void)state;
	standing(42, 103, false);
	detector_upto(d, 110 * S);
	detector_end(d);
	assert_int_equal(told.len, 2);
	assert_true(told.data[1].ended && told.data[1].end_ns == 110 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_is_told_once_and_when_it_goes_on, begin, end),
		cmocka_unit_test_setup_teardown(it_ends_when_nothing_more_comes, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* changes_test.c - when other work is told, and how often.
 * links: incident base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "incident/changes.h"

#define SECOND 1000000000ULL

static struct changes all;
static struct change told[8];
static size_t told_len;
static uint64_t second;

static void on_change(void *ctx, const struct change *c)
{
	(void)ctx;
	assert_true(told_len < 8);
	told[told_len++] = *c;
}

static int begin(void **state)
{
	(void)state;
	all = (struct changes){.tell = on_change};
	told_len = 0;
	second = 100;
	return 0;
}

static int end(void **state)
{
	(void)state;
	changes_free(&all);
	return 0;
}

static void windows(size_t n, enum change_kind kind, uint32_t regime)
{
	for (size_t i = 0; i < n; i++, second++)
		changes_window(&all, 1, second * SECOND, (second + 1) * SECOND, kind, regime);
}

static void usual_work_is_none(void **state)
{
	(void)state;
	windows(20, CHANGE_NONE, 1);
	windows(1, CHANGE_SIZES, 1); /* too short to say anything */
	windows(5, CHANGE_NONE, 1);
	windows(1, CHANGE_SIZES, 1);
	assert_int_equal(told_len, 0);
}

/* It is no anomaly by itself, which is not to say that nothing is wrong. */
static void in_a_line(void **state)
{
	char line[CHANGE_LINE_BYTES];
	(void)state;
	windows(2, CHANGE_WORK, 2);
	assert_int_equal(told_len, 1);
	assert_string_equal(
		change_line(line, &told[0]),
		"other work, pid 1: another phase than was learned, or another job in the "
		"process (by itself no anomaly)");
}

static void each_is_told_once(void **state)
{
	(void)state;
	windows(5, CHANGE_NONE, 1);
	windows(4, CHANGE_SIZES, 1);
	assert_int_equal(told_len, 1);
	assert_int_equal(told[0].kind, CHANGE_SIZES);
	assert_int_equal(told[0].start_ns, 105 * SECOND);
	windows(5, CHANGE_NONE, 1);
	windows(3, CHANGE_SIZES, 1);
	windows(5, CHANGE_NONE, 1);
	windows(1, CHANGE_SAVES, 1);
	windows(5, CHANGE_NONE, 1);
	windows(6, CHANGE_WORK, 2);
	windows(5, CHANGE_NONE, 1);
	windows(6, CHANGE_WORK, 3);
	assert_int_equal(told_len, 4);
	assert_int_equal(told[1].kind, CHANGE_SAVES);
	assert_int_equal(told[3].regime, 3);
	assert_int_equal(all.list.data[0].times, 2);
	assert_int_equal(all.list.data[0].windows, 7);
	assert_int_equal(all.list.data[0].last_ns, 117 * SECOND);
}

/* A window of usual work does not end it, nor do sizes within work of another kind. */
static void what_goes_on(void **state)
{
	(void)state;
	windows(1, CHANGE_SIZES, 1);
	windows(1, CHANGE_WORK, 2);
	windows(1, CHANGE_SIZES, 1);
	windows(2, CHANGE_NONE, 1);
	windows(3, CHANGE_WORK, 2);
	assert_int_equal(told_len, 1);
	assert_int_equal(told[0].kind, CHANGE_WORK);
	assert_int_equal(told[0].start_ns, 100 * SECOND);
	assert_int_equal(all.list.data[0].times, 1);
}

static void processes_are_apart(void **state)
{
	(void)state;
	for (uint32_t pid = 1; pid <= 2; pid++)
		for (uint64_t s = 0; s < 3; s++)
			changes_window(&all, pid, s * SECOND, (s + 1) * SECOND, CHANGE_SIZES, 1);
	assert_int_equal(told_len, 2);
	changes_forget(&all, 1);
	assert_int_equal(all.now.len, 1);
	assert_int_equal(all.list.len, 1);
	for (uint64_t s = 0; s < 3; s++) /* another of its number is another */
		changes_window(&all, 1, s * SECOND, (s + 1) * SECOND, CHANGE_SIZES, 1);
	assert_int_equal(told_len, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(usual_work_is_none, begin, end),
		cmocka_unit_test_setup_teardown(in_a_line, begin, end),
		cmocka_unit_test_setup_teardown(each_is_told_once, begin, end),
		cmocka_unit_test_setup_teardown(what_goes_on, begin, end),
		cmocka_unit_test_setup_teardown(processes_are_apart, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

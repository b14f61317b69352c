/* launch_start_test.c - how long launches take until they are as usual.
 * links: base analyze detect */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "detect/launch_start.h"

#define S 1000000000ULL

static VEC(struct paced) windows;

/* A launch of a minute whose first windows are slow, as its letters say: s slow, q quick. */
static void launch(uint32_t recording, const char *first)
{
	for (uint64_t i = 0, past = 0; i < 60; i++) {
		past |= !first[i * !past];
		*vec_push(&windows) = (struct paced){
			.recording = recording,
			.pid = 7,
			.start_ns = (100 + i) * S,
			.ln_pace = !past && first[i] == 's' ? -0.5 : 0.01 * (double)(i % 3)};
	}
}

static int end(void **state)
{
	(void)state;
	vec_free(&windows);
	return 0;
}

static void until_three_are_as_usual(void **state)
{
	(void)state;
	launch(1, "sssqqssss");
	assert_int_equal(launch_start_ns(windows.data, windows.len, S), 9 * S);
	launch(2, "ss");
	assert_int_equal(launch_start_ns(windows.data, windows.len, S), 9 * S);
	assert_int_equal(launch_start_leave_out(windows.data, windows.len, 9 * S), 102);
	assert_int_equal(windows.data[0].start_ns, 109 * S);
	assert_int_equal(windows.data[51].recording, 2);
	assert_int_equal(windows.data[51].start_ns, 109 * S);
}

static void slow_later_is_no_start(void **state)
{
	(void)state;
	launch(1, "qqsssss");
	assert_int_equal(launch_start_ns(windows.data, windows.len, S), 0);
	launch(2, "ssssssssssssssssssssssssssssssssss"); /* for 34 s */
	assert_int_equal(launch_start_ns(windows.data, windows.len, S), 0);
	assert_int_equal(launch_start_leave_out(windows.data, windows.len, 0), 120);
	assert_int_equal(launch_start_ns(NULL, 0, S), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(until_three_are_as_usual, end),
		cmocka_unit_test_teardown(slow_later_is_no_start, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

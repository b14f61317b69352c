/* detector_saves_test.c - which windows a checkpoint excuses that takes many of them.
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "incident/detector_impl.h"

#define SECOND 1000000000ULL

static struct detector *detector;

static int begin(void **state)
{
	(void)state;
	detector = detector_new(&(struct detector_options){.whole = true});
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_free(detector);
	return 0;
}

/* In tenths of a second. */
static void save(uint64_t from, uint64_t to)
{
	saves_event(&detector->saves, &(struct windows_event){.start_ns = from * SECOND / 10,
							      .dur_ns = (to - from) * SECOND / 10,
							      .saves = true});
}

/* '.' is not judged, from this second on. */
static void expect_excused(uint64_t from, const char *windows)
{
	for (size_t i = 0; windows[i]; i++) {
		struct feature_row row = {.start_ns = (from + i) * SECOND,
					  .end_ns = (from + i + 1) * SECOND};
		if (saves_cover(&detector->saves, &row) != (windows[i] == '.'))
			fail_msg("window %zu of '%s'", i, windows);
	}
}

static void a_long_one_excuses_all_its_windows(void **state)
{
	(void)state;
	save(1023, 1300); /* inner calls end first */
	save(1021, 1305);
	expect_excused(100, "!!..............................!!");
	save(2021, 2029);
	expect_excused(200, "!!..!!");
}

static void long_ones_again_and_again_are_none(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		save(1000 + 30 * i, 1025 + 30 * i);
	expect_excused(120, "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!");
}

static void long_ones_are_forgotten(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		save(1000 + 30 * i, 1025 + 30 * i);
		saves_upto(&detector->saves, (102 + 3 * i) * SECOND);
	}
	assert_in_range(detector->saves.longer.len, 2, 30);
	saves_upto(&detector->saves, 5000 * SECOND);
	assert_int_equal(detector->saves.longer.len + detector->saves.windows.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_long_one_excuses_all_its_windows, begin, end),
		cmocka_unit_test_setup_teardown(long_ones_again_and_again_are_none, begin, end),
		cmocka_unit_test_setup_teardown(long_ones_are_forgotten, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

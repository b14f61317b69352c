/* call_costs_test.c - figures of this host are kept, and only for it and this program; a child that
 * calls functions tells how long that takes.
 * links: probe symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/call_costs.h"
#include "probe/call_timer.h"

static const struct call_costs some = {
	.traps = {.entry_ns = 1, .stepped_ns = 2, .return_ns = 3, .mapping_ns = 4},
	.call_ns = 5,
	.return_ns = 6,
};

static void what_was_stored_is_found_for_the_same_method(void **state)
{
	(void)state;
	char dir[] = "/tmp/eacgm-costs-XXXXXX", path[64];
	struct call_costs found;
	assert_non_null(mkdtemp(dir));
	assert_false(call_costs_load(&found, ATTACH_SESSION, dir));
	call_costs_store(&some, ATTACH_SESSION, dir);
	assert_true(call_costs_load(&found, ATTACH_SESSION, dir));
	assert_memory_equal(&found, &some, sizeof(some));
	assert_false(call_costs_load(&found, ATTACH_SINGLE, dir));
	snprintf(path, sizeof(path), "%s/calls.cost", dir);
	unlink(path); /* is_good was false: it may be gone */
	rmdir(dir);
}

static void what_is_cut_or_changed_is_not_taken(void **state)
{
	(void)state;
	char dir[] = "/tmp/eacgm-costs-XXXXXX", path[64];
	struct call_costs found;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/calls.cost", dir);
	call_costs_store(&some, ATTACH_SESSION, dir);
	assert_int_equal(truncate(path, 100), 0);
	assert_false(call_costs_load(&found, ATTACH_SESSION, dir));
	call_costs_store(&some, ATTACH_SESSION, dir);
	FILE *f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fseek(f, 10, SEEK_SET), 0); /* another boot */
	assert_int_equal(fputc('#', f), '#');
	fclose(f);
	assert_false(call_costs_load(&found, ATTACH_SESSION, dir));
	unlink(path);
	rmdir(dir);
}

static void calls_take_time_and_mappings_more(void **state)
{
	(void)state;
	struct call_timer c;
	struct err e;
	uint64_t offsets[2];
	assert_int_equal(call_timer_start(&c, &e), 0);
	double plain_ns = call_timer_run(&c, TIMED_PLAIN);
	double mapping_ns = call_timer_run(&c, TIMED_MAPPING);
	call_timer_stop(&c);
	assert_true(plain_ns > 0);
	assert_true(mapping_ns > plain_ns);
	assert_true(timed_function_offset(TIMED_ENTRY, &offsets[0]));
	assert_true(timed_function_offset(TIMED_SPAN, &offsets[1]));
	assert_true(offsets[0] != offsets[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_stored_is_found_for_the_same_method),
		cmocka_unit_test(what_is_cut_or_changed_is_not_taken),
		cmocka_unit_test(calls_take_time_and_mappings_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* refusal_test.c - of libbpf's messages the one with a verifier's log: which program was refused,
 * why, and what was said last.
 * links: probe symbolize parser base */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/refusal.h"

#define BEGIN "libbpf: prog 'on_end': -- BEGIN PROG LOAD LOG --\n"
#define END   "-- END PROG LOAD LOG --\n"
#define LAST                                                                                       \
	"75: (0f) r2 += r1\n"                                                                      \
	"math between map_value pointer and register with unbounded min value is not allowed\n"    \
	"processed 76 insns (limit 1000000) max_states_per_insn 0 total_states 4 peak_states 4\n"

static void a_program_and_why(void **state)
{
	(void)state;
	struct refusal r = {0};
	assert_true(refusal_read(&r, BEGIN "0: R1=ctx(off=0,imm=0)\n" LAST END));
	assert_string_equal(r.program, "on_end");
	assert_string_equal(r.reason, "math between map_value pointer and register with unbounded "
				      "min value is not allowed");
	assert_string_equal(r.lines, "0: R1=ctx(off=0,imm=0)\n" LAST);
}

static void what_was_said_last(void **state)
{
	(void)state;
	char message[8192] = BEGIN;
	struct refusal r = {0};
	for (int i = 0; i < 100; i++)
		snprintf(message + strlen(message), sizeof(message) - strlen(message),
			 "%d: (bf) r1 = r2\n", i);
	strcat(message, LAST END);
	assert_true(refusal_read(&r, message));
	assert_string_equal(r.reason + strlen(r.reason) - 7, "allowed");
	assert_memory_equal(r.lines, "88: (bf) r1 = r2\n", 17);
	assert_string_equal(r.lines + strlen(r.lines) - strlen(LAST), LAST);
}

static void lines_that_do_not_fit(void **state)
{
	(void)state;
	char message[8192] = BEGIN, line[1500];
	struct refusal r = {0};
	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = 0;
	snprintf(message + strlen(message), sizeof(message) - strlen(message), "%s\n%s\nwhy\n" END,
		 line, line);
	assert_true(refusal_read(&r, message));
	assert_string_equal(r.reason, "why");
	assert_int_equal(strlen(r.lines), strlen(line) + strlen("\nwhy\n"));
}

static void other_messages(void **state)
{
	(void)state;
	struct refusal r = {.program = "before"};
	assert_false(refusal_read(&r, ""));
	assert_false(refusal_read(&r, "libbpf: failed to load object 'eacgm_bpf'\n"));
	assert_false(refusal_read(
		&r, "libbpf: prog 'on_end': BPF program load failed: Permission denied\n"));
	assert_string_equal(r.program, "before");
	assert_true(refusal_read(&r, BEGIN));
	assert_string_equal(r.program, "on_end");
	assert_string_equal(r.reason, "");
	assert_true(refusal_read(&r, BEGIN "cut"));
	assert_string_equal(r.lines, "");
	assert_true(refusal_read(&r, BEGIN "\n" END));
	assert_string_equal(r.lines, "\n");
}

static void how_loading_ended(void **state)
{
	(void)state;
	static const int no_refusals[] = {0, -ENOMEM}, refusals[] = {-EACCES, -EINVAL, -E2BIG};
	for (size_t i = 0; i < sizeof(no_refusals) / sizeof(*no_refusals); i++) {
		struct refusal r = {0};
		assert_true(refusal_read(&r, BEGIN LAST END));
		refusal_settle(&r, no_refusals[i]);
		assert_string_equal(r.program, "");
		assert_string_equal(r.reason, "");
		assert_string_equal(r.lines, "");
	}
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct refusal r = {0};
		assert_true(refusal_read(&r, BEGIN LAST END));
		refusal_settle(&r, refusals[i]);
		assert_string_equal(r.program, "on_end");
		assert_string_equal(r.lines, LAST);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_and_why),	 cmocka_unit_test(what_was_said_last),
		cmocka_unit_test(lines_that_do_not_fit), cmocka_unit_test(other_messages),
		cmocka_unit_test(how_loading_ended),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

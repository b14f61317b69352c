/* python_calls_test.c - calls of Python functions in a thread that is made up: what goes into its
 * ring, and which files are chosen.
 *
 * links: shim */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../inject/calls/python_calls.h"
#include "../../inject/calls/python_filter.h"

/* ---- what the rest of the library would do ---- */

__thread struct call_thread *calls_own;
struct call_header *eacgm_call_header;
extern bool ticks_are_counted;
bool ticks_are_counted = false;
static unsigned slotless, looked;

struct call_thread *calls_begin_thread(void)
{
	return calls_own;
}

void calls_count_slotless(void)
{
	slotless++;
}

void calls_look_for_eacgm(struct call_thread *t, uint64_t now)
{
	(void)t;
	(void)now;
	looked++;
}

static struct call_header header;
static struct call_slot slot;
static uint64_t ring[CALL_RING_BYTES / 8];
static struct call_thread thread;

static int set_up(void **state)
{
	(void)state;
	memset(&header, 0, sizeof(header));
	memset(&slot, 0, sizeof(slot));
	slotless = looked = 0;
	thread = (struct call_thread){.slot = &slot, .header = &header, .ring = ring, .used = true};
	calls_own = &thread;
	eacgm_call_header = &header;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	python_drop_all(&thread);
	return 0;
}

/* The n-th of records of calls, which have four words each, from the ring's beginning on. */
static struct call_record record_at(size_t n, uint64_t *code)
{
	struct call_record r;
	memcpy(&r, &ring[4 * n], sizeof(r));
	*code = ring[4 * n + 3];
	return r;
}

static void assert_record(size_t n, uint64_t code, uint8_t depth, uint8_t flags)
{
	uint64_t seen;
	struct call_record r = record_at(n, &seen);
	assert_int_equal(r.probe, CALL_PYTHON);
	assert_int_equal(seen, code);
	assert_int_equal(r.depth, depth);
	assert_int_equal(r.flags, flags);
	assert_int_equal(r.nargs, 1);
	assert_true(r.start && r.end >= r.start);
}

static size_t records(void)
{
	assert_int_equal(slot.head % 32, 0);
	return slot.head / 32;
}

static void test_nesting(void **state)
{
	(void)state;
	python_enter(&thread, 5, 0);
	python_enter(&thread, 6, 0);
	assert_int_equal(slot.python_depth, 2);
	assert_int_equal(slot.python[1].code, 6);
	python_leave(&thread, 6, 0);
	python_leave(&thread, 5, 0);
	assert_int_equal(records(), 2);
	assert_record(0, 6, 1, CALL_NESTED);
	assert_record(1, 5, 0, 0);
	assert_int_equal(slot.python_depth, 0);
}

static void test_entered_before(void **state)
{
	(void)state;
	python_leave(&thread, 5, 0);
	assert_int_equal(records(), 0);
	assert_int_equal(slot.unmatched, 0);
}

/* Two stacks in one thread: the end of a call is that of its own function. */
static void test_switched_stacks(void **state)
{
	(void)state;
	python_enter(&thread, 1, 0);
	python_enter(&thread, 2, 0);
	python_enter(&thread, 3, 0);
	python_leave(&thread, 2, 0);
	assert_int_equal(slot.python_depth, 2);
	assert_int_equal(slot.python[1].code, 3);
	python_leave(&thread, 9, 0);
	assert_int_equal(slot.unmatched, 1);
	python_leave(&thread, 1, 0);
	python_leave(&thread, 3, 0);
	assert_int_equal(records(), 3);
	assert_record(0, 2, 1, CALL_NESTED);
	assert_record(1, 1, 0, 0);
	assert_record(2, 3, 0, 0);
}

/* Of two calls of one function the one whose frame it is. */
static void test_switched_stacks_of_one_function(void **state)
{
	(void)state;
	python_enter(&thread, 1, 10);
	python_enter(&thread, 1, 20);
	uint64_t second = slot.python[1].start;
	python_leave(&thread, 1, 30);
	assert_int_equal(slot.unmatched, 1);
	python_leave(&thread, 1, 10);
	assert_int_equal(slot.python_depth, 1);
	assert_int_equal(slot.python[0].start, second);
	python_leave(&thread, 1, 20);
	assert_int_equal(records(), 2);
	assert_record(0, 1, 0, 0);
	assert_record(1, 1, 0, 0);
}

/* Deeper than what eacgm can read, and than a record can say. */
static void test_deep(void **state)
{
	const uint32_t n = 5000;
	(void)state;
	for (uint32_t i = 1; i <= n; i++)
		python_enter(&thread, i, 0);
	assert_int_equal(slot.python_depth, n);
	for (uint32_t i = n; i; i--)
		python_leave(&thread, i, 0);
	assert_int_equal(records(), n);
	assert_record(0, n, UINT8_MAX, CALL_NESTED);
	assert_record(n - 1, 1, 0, 0);
	assert_int_equal(slot.deep, 0);
}

static void test_full_ring(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CALL_RING_BYTES / 32 + 10; i++) {
		python_enter(&thread, 1, 0);
		python_leave(&thread, 1, 0);
	}
	assert_int_equal(slot.full, 10);
	assert_int_equal(looked, 10);
	assert_int_equal(slot.head, CALL_RING_BYTES);
	assert_int_equal(python_tell_code(&thread, "f", "f.py", 1), 0);
	slot.tail = 4096;
	assert_int_not_equal(python_tell_code(&thread, "f", "f.py", 1), 0);
}

static void test_lost_sight(void **state)
{
	(void)state;
	python_enter(&thread, 1, 0);
	python_enter(&thread, 2, 0);
	python_lose_sight(&thread);
	assert_int_equal(records(), 2);
	assert_record(0, 2, 1, CALL_NESTED | CALL_OPEN);
	assert_record(1, 1, 0, CALL_OPEN);
	assert_int_equal(slot.no_return, 2);
}

static void test_no_slot(void **state)
{
	struct call_thread nobody = {.header = &header};
	(void)state;
	calls_own = &nobody;
	assert_null(python_thread(true));
	assert_null(python_thread(false));
	assert_int_equal(slotless, 1);
	assert_false(python_has_stopped());
}

static void test_stopped(void **state)
{
	(void)state;
	assert_false(python_has_stopped());
	header.stop = 1;
	assert_true(python_has_stopped());
}

/* ---- codes ---- */

static void test_codes(void **state)
{
	struct call_code code;
	(void)state;
	uint32_t first = python_tell_code(&thread, "fun", "file.py", 12);
	memcpy(&code, ring, sizeof(code));
	assert_int_equal(code.probe, CALL_CODE);
	assert_int_equal(code.code, first);
	assert_int_equal(code.line, 12);
	assert_int_equal(code.nargs, 2);
	assert_int_equal(slot.head, sizeof(code) + 16);
	assert_memory_equal(&ring[3], "funfile.py", 10);
	assert_int_equal(python_tell_code(&thread, "g", "", 1), first + 1);
	assert_true(python_code_is_told(first));
	python_begin_child();
	assert_false(python_code_is_told(first + 1));
	assert_true(python_code_is_told(python_tell_code(&thread, "g", "", 1)));
}

/* No character is cut in two. */
static void test_long_texts(void **state)
{
	char name[2000], file[3000];
	struct call_code code;
	(void)state;
	for (size_t i = 0; i + 2 < sizeof(name); i += 2)
		memcpy(name + i, "\xc3\xa9", 3);
	memset(file, 'x', sizeof(file));
	file[sizeof(file) - 1] = 0;
	memmove(name + 1, name, sizeof(name) - 1);
	name[0] = 'x';
	name[sizeof(name) - 1] = 0;
	assert_int_not_equal(python_tell_code(&thread, name, file, 1), 0);
	memcpy(&code, ring, sizeof(code));
	assert_int_equal(code.name_bytes, CALL_CODE_NAME - 1);
	assert_int_equal(code.file_bytes, CALL_CODE_FILE);
	assert_int_equal(slot.head, sizeof(code) + 8u * code.nargs);
}

/* ---- files ---- */

static void test_filter(void **state)
{
	(void)state;
	assert_true(python_filter_wants(NULL, NULL, "/a/b.py"));
	assert_true(python_filter_wants("", "", "/a/b.py"));
	assert_true(python_filter_wants("b.py", NULL, "/a/b.py"));
	assert_false(python_filter_wants("b.py", NULL, "/a/b.py/c.py"));
	assert_true(python_filter_wants("x,,/a/*", NULL, "/a/b/c.py"));
	assert_false(python_filter_wants("/a/*", "c.py", "/a/b/c.py"));
	assert_false(python_filter_wants(NULL, "<frozen *>", "<frozen importlib._bootstrap>"));
	assert_true(python_filter_wants("b.py", NULL, "b.py"));
	assert_false(python_filter_wants("*/b.py", NULL, "b.py"));
	assert_false(python_filter_wants("[", NULL, "b.py"));
}

static void test_long_glob(void **state)
{
	char glob[3000];
	(void)state;
	memset(glob, '*', sizeof(glob));
	glob[sizeof(glob) - 1] = 0;
	assert_false(python_filter_wants(glob, NULL, "b.py"));
	strcpy(glob + sizeof(glob) - 6, ",b.py");
	assert_true(python_filter_wants(glob, NULL, "b.py"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nesting),
		TEST(test_entered_before),
		TEST(test_switched_stacks),
		TEST(test_switched_stacks_of_one_function),
		TEST(test_deep),
		TEST(test_full_ring),
		TEST(test_lost_sight),
		TEST(test_no_slot),
		TEST(test_stopped),
		TEST(test_codes),
		TEST(test_long_texts),
		TEST(test_filter),
		TEST(test_long_glob),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

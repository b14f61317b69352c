/* inside_stacks_test.c - stacks of threads are read as far as they are mapped, in any order of
 * threads: of this process, with pages that cannot be read between.
 * links: probe symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/inside_stacks.h"

#define PAGE	4096
#define PAGES	12
#define THREADS 150 /* more than are read at once */

static char *memory; /* pages 0 to 7 and 9 can be read; each word has its place */
static void *room;
static proc_maps_t maps; /* none, or what is mapped */

static int make(void **state)
{
	(void)state;
	memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	room = malloc(INSIDE_STACKS_ROOM);
	if (memory == MAP_FAILED || !room)
		return -1;
	for (size_t i = 0; i < (size_t)PAGES * PAGE / 8; i++)
		((uint64_t *)(void *)memory)[i] = 8 * i;
	return mprotect(memory + 8 * PAGE, PAGE, PROT_NONE) ||
	       mprotect(memory + 10 * PAGE, 2 * PAGE, PROT_NONE);
}

static int end(void **state)
{
	(void)state;
	free(room);
	return munmap(memory, (size_t)PAGES * PAGE);
}

struct seen {
	size_t visits;
	struct {
		uint64_t first, len;
	} of[THREADS];
};

static void see(void *ctx, const uint64_t *words, size_t n)
{
	struct seen *s = ctx;
	for (size_t i = 0; i < n; i++)
		assert_int_equal(words[i], words[0] + 8 * i);
	s->of[s->visits].first = words[0];
	s->of[s->visits++].len = 8 * n;
}

static struct hold_thread at(size_t place)
{
	return (struct hold_thread){.sp = (uint64_t)(uintptr_t)memory + place};
}

static void stacks_end_where_nothing_is_mapped(void **state)
{
	(void)state;
	const struct hold_thread threads[] = {
		at(64),			 /* whole, in five pieces */
		at(PAGE),		 /* whole, in four */
		at(7 * PAGE + 8),	 /* the rest of a page */
		at(8 * PAGE),		 /* nothing */
		at(9 * PAGE + PAGE - 8), /* one word */
		at(10 * PAGE + 16),	 /* nothing */
		at(6 * PAGE),		 /* two pages */
	};
	struct seen s = {0};
	inside_stacks_visit(getpid(), &maps, threads, sizeof(threads) / sizeof(threads[0]), room,
			    see, &s);
	assert_int_equal(s.visits, 5);
	assert_int_equal(s.of[0].first, 64);
	assert_int_equal(s.of[0].len, INSIDE_STACK_BYTES);
	assert_int_equal(s.of[1].first, PAGE);
	assert_int_equal(s.of[1].len, INSIDE_STACK_BYTES);
	assert_int_equal(s.of[2].first, 7 * PAGE + 8);
	assert_int_equal(s.of[2].len, PAGE - 8);
	assert_int_equal(s.of[3].first, 9 * PAGE + PAGE - 8);
	assert_int_equal(s.of[3].len, 8);
	assert_int_equal(s.of[4].first, 6 * PAGE);
	assert_int_equal(s.of[4].len, 2 * PAGE);
}

static void maps_that_are_known(void **state)
{
	struct err e;
	assert_int_equal(proc_maps_read("/proc", getpid(), &maps, &e), 0);
	stacks_end_where_nothing_is_mapped(state);
	proc_maps_free(&maps);
	maps = (proc_maps_t){0};
}

static void many_threads(void **state)
{
	(void)state;
	struct hold_thread threads[THREADS];
	struct seen s = {0};
	for (size_t i = 0; i < THREADS; i++)
		threads[i] = at(i % 3 == 2 ? 8 * PAGE : 8 * i);
	inside_stacks_visit(getpid(), &maps, threads, THREADS, room, see, &s);
	assert_int_equal(s.visits, 100);
	for (size_t i = 0, k = 0; i < THREADS; i++)
		if (i % 3 != 2)
			assert_int_equal(s.of[k++].first, 8 * i);
}

static void no_threads(void **state)
{
	(void)state;
	struct seen s = {0};
	inside_stacks_visit(getpid(), &maps, NULL, 0, room, see, &s);
	assert_int_equal(s.visits, 0);
}

static void process_that_has_ended(void **state)
{
	(void)state;
	struct hold_thread thread = at(0);
	struct seen s = {0};
	inside_stacks_visit(0x7ffffff0, &maps, &thread, 1, room, see, &s);
	assert_int_equal(s.visits, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_end_where_nothing_is_mapped),
		cmocka_unit_test(maps_that_are_known),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(no_threads),
		cmocka_unit_test(process_that_has_ended),
	};
	return cmocka_run_group_tests(tests, make, end);
}

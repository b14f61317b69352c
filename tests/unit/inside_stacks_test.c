/* inside_stacks_test.c - stacks of threads are read as far as they are mapped, in any order of
 * threads, and what cannot be read is told: of this process, with pages that cannot be read
 * between. links: probe base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/inside_stacks.h"

#define PAGE	4096
#define PAGES	12
#define THREADS 150 /* more than are read at once */

static char *memory; /* of pages 8, 10 and 11 nothing is mapped; each word has its place */
static void *room;
static int file;

static int make(void **state)
{
	(void)state;
	memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	room = malloc(INSIDE_STACKS_ROOM);
	file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	if (memory == MAP_FAILED || !room || file < 0)
		return -1;
	for (size_t i = 0; i < (size_t)PAGES * PAGE / 8; i++)
		((uint64_t *)(void *)memory)[i] = 8 * i;
	/* a mapping of its own, as mlock(2) and madvise(2) make of parts of a stack */
	return madvise(memory + 2 * PAGE, PAGE, MADV_DONTFORK) || munmap(memory + 8 * PAGE, PAGE) ||
	       munmap(memory + 10 * PAGE, 2 * PAGE);
}

static int end(void **state)
{
	(void)state;
	free(room);
	close(file);
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
	return (struct hold_thread){.tid = getpid(), .sp = (uint64_t)(uintptr_t)memory + place};
}

static void check(const struct seen *s, size_t i, uint64_t first, uint64_t len)
{
	assert_int_equal(s->of[i].first, first);
	assert_int_equal(s->of[i].len, len);
}

static void stacks_end_where_nothing_is_mapped(void **state)
{
	(void)state;
	const struct hold_thread threads[] = {
		at(64),			 /* whole, in five pieces of three mappings */
		at(PAGE + 5),		 /* whole, from the word that it points into */
		at(7 * PAGE + 8),	 /* the rest of a page */
		at(8 * PAGE),		 /* nothing */
		at(9 * PAGE + PAGE - 8), /* one word */
		at(10 * PAGE + 16),	 /* nothing */
		{.tid = getpid()},	 /* likewise, */
		{.tid = getpid(), .sp = UINT64_MAX - 20}, /* and likewise */
		at(6 * PAGE),				  /* two pages */
	};
	struct seen s = {0};
	assert_true(inside_stacks_visit(threads, sizeof(threads) / sizeof(threads[0]), file, room,
					see, &s));
	assert_int_equal(s.visits, 5);
	check(&s, 0, 64, INSIDE_STACK_BYTES);
	check(&s, 1, PAGE, INSIDE_STACK_BYTES);
	check(&s, 2, 7 * PAGE + 8, PAGE - 8);
	check(&s, 3, 9 * PAGE + PAGE - 8, 8);
	check(&s, 4, 6 * PAGE, 2 * PAGE);
}

static void many_threads(void **state)
{
	(void)state;
	struct hold_thread threads[THREADS];
	struct seen s = {0};
	for (size_t i = 0; i < THREADS; i++)
		threads[i] = at(i % 3 == 2 ? 8 * PAGE : 8 * i);
	assert_true(inside_stacks_visit(threads, THREADS, file, room, see, &s));
	assert_int_equal(s.visits, 100);
	for (size_t i = 0, k = 0; i < THREADS; i++)
		if (i % 3 != 2)
			check(&s, k++, 8 * i, INSIDE_STACK_BYTES);
}

static void no_threads(void **state)
{
	(void)state;
	struct seen s = {0};
	assert_true(inside_stacks_visit(NULL, 0, file, room, see, &s));
	assert_int_equal(s.visits, 0);
}

/* By a thread that has ended, as where the quick way is refused. */
static void what_is_refused_is_read_by_itself(void **state)
{
	(void)state;
	struct hold_thread threads[] = {at(0), at(7 * PAGE), at(8 * PAGE)};
	struct seen s = {0};
	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++)
		threads[i].tid = 0x7ffffff0;
	assert_true(inside_stacks_visit(threads, 3, file, room, see, &s));
	assert_int_equal(s.visits, 2);
	check(&s, 0, 0, INSIDE_STACK_BYTES);
	check(&s, 1, 7 * PAGE, PAGE);
}

static void what_cannot_be_read_is_told(void **state)
{
	(void)state;
	struct hold_thread threads[] = {at(0), at(PAGE)};
	struct seen s = {0};
	threads[1].tid = threads[0].tid = 0x7ffffff0;
	assert_false(inside_stacks_visit(threads, 2, -1, room, see, &s));
	assert_int_equal(s.visits, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_end_where_nothing_is_mapped),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(no_threads),
		cmocka_unit_test(what_is_refused_is_read_by_itself),
		cmocka_unit_test(what_cannot_be_read_is_told),
	};
	return cmocka_run_group_tests(tests, make, end);
}

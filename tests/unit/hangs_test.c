/* hangs_test.c - who is told to be late, when, and who is not.
 * links: base pipeline recording symbolize */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/hangs.h"

#define S 1000000000ULL

/* What was told, a line each: kind, ranks, sentence. */
static char told[8192];

static void tell(void *ctx, const struct hang *h)
{
	static const char *const kinds[] = {"stuck", "resumed", "mismatch"};
	(void)ctx;
	size_t n = strlen(told);
	n += (size_t)snprintf(told + n, sizeof(told) - n, "%s", kinds[h->kind]);
	for (unsigned i = 0; i < h->nranks; i++)
		n += (size_t)snprintf(told + n, sizeof(told) - n, "%s %s", i ? "," : "",
				      h->ranks[i]);
	snprintf(told + n, sizeof(told) - n, "; %s\n", h->sentence);
}

static struct hangs *start(void)
{
	told[0] = 0;
	return hangs_new(tell, NULL);
}

static struct m_comm comm(int rank, int size)
{
	return (struct m_comm){.pid = 100 + (uint32_t)rank,
			       .rank = rank,
			       .size = size,
			       .hash = 0x1f,
			       .handle = 0x7000,
			       .start_ns = S};
}

static void enter(struct hangs *h, int rank, int size, uint64_t sequence, uint64_t time_ns)
{
	struct m_comm c = comm(rank, size);
	hangs_entered(h, &c, &(struct hang_call){"ncclAllReduce", sequence, 400, time_ns});
}

static void join(struct hangs *h, int from, int to, int size)
{
	for (int rank = from; rank < to; rank++) {
		struct m_comm c = comm(rank, size);
		hangs_member(h, &c);
	}
}

static void one_that_does_not_come_is_told_once(void **state)
{
	(void)state;
	struct hangs *h = start();
	join(h, 0, 3, 3);
	for (uint64_t n = 0; n < 5; n++)
		for (int rank = 0; rank < 3; rank++)
			if (n < 4 || rank != 1)
				enter(h, rank, 3, n, (2 + n) * S);
	hangs_check(h, 6 * S + HANG_QUIET_NS - 1);
	assert_string_equal(told, "");
	hangs_check(h, 6 * S + HANG_QUIET_NS);
	hangs_check(h, 60 * S);
	assert_string_equal(told, "stuck rank 1; communicator 0x1f (3 ranks): no progress for 5 s; "
				  "ncclAllReduce #4 was entered by ranks 0, 2, not by rank 1\n");
	told[0] = 0;
	enter(h, 1, 3, 4, 61 * S);
	hangs_check(h, 61 * S + 1);
	hangs_check(h, 600 * S);
	assert_string_equal(told, "resumed rank 1; communicator 0x1f (3 ranks): goes on after "
				  "55.0 s: #4 was entered by all\n");
	hangs_free(h);
}

static void level_ranks_are_never_told(void **state)
{
	(void)state;
	struct hangs *h = start();
	join(h, 0, 2, 4);
	hangs_check(h, 100 * S);
	enter(h, 0, 4, 0, 101 * S);
	enter(h, 1, 4, 0, 102 * S);
	hangs_check(h, 1000 * S);
	assert_string_equal(told, "");
	assert_true(hangs_asks(h));
	hangs_free(h);
}

static void who_is_gone_waits_for_nobody(void **state)
{
	(void)state;
	struct hangs *h = start();
	struct m_comm c = comm(0, 2);
	join(h, 0, 2, 2);
	enter(h, 0, 2, 0, 2 * S);
	hangs_destroyed(h, &c);
	hangs_check(h, 100 * S);
	assert_string_equal(told, "");
	hangs_ended(h, 101);
	hangs_check(h, 200 * S);
	assert_string_equal(told, "");
	assert_false(hangs_asks(h));
	hangs_free(h);
}

static void who_has_gone_is_waited_for(void **state)
{
	(void)state;
	struct hangs *h = start();
	struct m_comm c = comm(2, 3);
	join(h, 0, 3, 3);
	enter(h, 0, 3, 0, 2 * S);
	hangs_ended(h, 101);
	hangs_destroyed(h, &c);
	hangs_check(h, 8 * S);
	assert_string_equal(told, "stuck rank 1, rank 2; communicator 0x1f (3 ranks): no progress "
				  "for 6 s; ncclAllReduce #0 was entered by rank 0, not by ranks "
				  "1 (has ended), 2 (has destroyed it)\n");
	hangs_free(h);
}

static void unknown_ranks_and_untraced_ones(void **state)
{
	(void)state;
	struct hangs *h = start();
	struct m_comm c = {.pid = 7, .rank = -1, .hash = 2, .handle = 1};
	hangs_member(h, &c);
	c.pid = 9;
	hangs_member(h, &c);
	hangs_entered(h, &c, &(struct hang_call){"ncclReduce", 0, 4, S});
	hangs_check(h, 7 * S);
	assert_string_equal(told, "stuck process 7; communicator 0x2 (2 ranks traced): no progress "
				  "for 6 s; ncclReduce #0 was entered by process 9, not by process "
				  "7\n");
	told[0] = 0;
	join(h, 2, 4, 8);
	enter(h, 3, 8, 0, 10 * S);
	hangs_check(h, 15 * S);
	assert_string_equal(told,
			    "stuck rank 2; communicator 0x1f (8 ranks, 2 of them traced): no "
			    "progress for 5 s; ncclAllReduce #0 was entered by rank 3, not by "
			    "rank 2\n");
	hangs_free(h);
}

static void without_a_hash_nobody_is_compared(void **state)
{
	(void)state;
	struct hangs *h = start();
	struct m_comm c = {.pid = 7, .rank = 0, .size = 2, .handle = 1};
	hangs_member(h, &c);
	hangs_entered(h, &c, &(struct hang_call){"ncclReduce", 0, 4, S});
	c.pid = 8;
	hangs_member(h, &c);
	hangs_check(h, 70 * S);
	assert_string_equal(told, "");
	hangs_free(h);
}

static void other_sizes_and_functions_are_told_at_once(void **state)
{
	(void)state;
	struct hangs *h = start();
	struct m_comm c = comm(1, 2);
	join(h, 0, 2, 2);
	enter(h, 0, 2, 0, 2 * S);
	hangs_entered(h, &c, &(struct hang_call){"ncclAllReduce", 0, 404, 2 * S});
	assert_string_equal(told, "mismatch rank 1; communicator 0x1f (2 ranks): #0 is "
				  "ncclAllReduce of 400 bytes on rank 0, ncclAllReduce of 404 "
				  "bytes on rank 1\n");
	for (uint64_t n = 1; n < 20; n++) {
		enter(h, 0, 2, n, 3 * S);
		hangs_entered(h, &c, &(struct hang_call){"ncclReduce", n, 400, 3 * S});
	}
	unsigned lines = 0;
	for (const char *p = told; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, HANG_MISMATCHES);
	hangs_free(h);
}

/* A call is seen while it is open and again when it has returned; ranks are further apart than
 * the window. */
static void the_same_call_twice_and_ranks_far_apart(void **state)
{
	(void)state;
	struct hangs *h = start();
	join(h, 0, 2, 2);
	for (uint64_t n = 0; n < 3 * HANG_WINDOW; n++)
		enter(h, 0, 2, n, 2 * S);
	enter(h, 1, 2, 0, 2 * S);
	enter(h, 1, 2, 0, 2 * S);
	enter(h, 1, 2, UINT64_MAX, 2 * S);
	hangs_check(h, 7 * S);
	assert_string_equal(told, "stuck rank 1; communicator 0x1f (2 ranks): no progress for 5 s; "
				  "collective #1 was entered by rank 0, not by rank 1\n");
	hangs_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_does_not_come_is_told_once),
		cmocka_unit_test(level_ranks_are_never_told),
		cmocka_unit_test(who_is_gone_waits_for_nobody),
		cmocka_unit_test(who_has_gone_is_waited_for),
		cmocka_unit_test(unknown_ranks_and_untraced_ones),
		cmocka_unit_test(without_a_hash_nobody_is_compared),
		cmocka_unit_test(other_sizes_and_functions_are_told_at_once),
		cmocka_unit_test(the_same_call_twice_and_ranks_far_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

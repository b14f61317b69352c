/* live_comms_test.c - which communicators the processes of a session have: until they are destroyed
 * or their process ends, each once, those of most ranks first, and no more than there is room for.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "feed_rows.h"
#include "session/live_comms.h"

static struct live_comms *c;
static struct live_series s;
static struct feed_batch b;

static int begin(void **unused)
{
	(void)unused;
	c = live_comms_new();
	s = (struct live_series){0};
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	live_comms_free(c);
	live_series_free(&s);
	return 0;
}

static void comm(uint32_t pid, uint64_t handle, uint64_t hash, int32_t size, uint64_t start_ns,
		 uint64_t end_ns)
{
	*vec_push(&b.comms) = (struct m_comm){.pid = pid,
					      .handle = handle,
					      .hash = hash,
					      .size = size,
					      .start_ns = start_ns,
					      .end_ns = end_ns};
}

static const char *no_text(void *ctx, uint32_t number)
{
	(void)ctx;
	(void)number;
	return "";
}

static void pass(void)
{
	const struct detect_names names = {.string = no_text};
	const struct session_view v = {.batch = &b, .names = &names};
	live_series_batch(&s, &v, 1);
	live_comms_batch(c, &v, &s);
	feed_batch_empty(&b);
}

static void process_ended(uint32_t pid)
{
	*vec_push(&b.processes) = (struct m_process){.pid = pid, .start_ns = 1, .end_ns = 9};
}

static bool has(uint64_t hash)
{
	const uint64_t asked[] = {77777, hash};
	return live_comms_have(c, asked, 2);
}

static void until_they_are_destroyed(void **unused)
{
	(void)unused;
	comm(5, 0x1000, 11, 4, 100, 0);
	comm(5, 0x2000, 0, 4, 100, 0); /* its making was not seen: it has no identity */
	comm(6, 0x1000, 12, 4, 100, 0);
	pass();
	assert_true(has(11) && has(12) && !has(0) && !has(13));
	assert_false(live_comms_have(c, NULL, 0));
	comm(5, 0x1000, 11, 4, 100, 200);
	comm(5, 0x1000, 14, 4, 300, 0); /* where it was */
	comm(6, 0x1000, 12, 4, 50, 99); /* one that was there before it */
	pass();
	assert_true(!has(11) && has(12) && has(14));
}

static void until_their_process_ends(void **unused)
{
	(void)unused;
	comm(5, 0x1000, 11, 4, 100, 0);
	comm(6, 0x1000, 12, 4, 100, 0);
	pass();
	process_ended(5);
	pass();
	assert_true(!has(11) && has(12));
	comm(5, 0x2000, 13, 4, 101, 0); /* is read late */
	pass();
	assert_false(has(13));
	comm(6, 0x2000, 14, 4, 101, 0);
	process_ended(6);
	pass();
	assert_true(!has(12) && !has(14));
}

static void those_of_most_ranks_first(void **unused)
{
	(void)unused;
	uint64_t found[4];
	comm(5, 0x1000, 11, 2, 100, 0);
	comm(5, 0x2000, 12, 0, 100, 0); /* of how many is not known yet */
	comm(6, 0x1000, 12, 8, 100, 0); /* another rank of it */
	comm(6, 0x2000, 13, 4, 100, 0);
	pass();
	assert_int_equal(live_comms_of(c, 0, found, 4), 3);
	assert_true(found[0] == 12 && found[1] == 13 && found[2] == 11);
	assert_int_equal(live_comms_of(c, 0, found, 2), 2);
	assert_true(found[0] == 12 && found[1] == 13);
	assert_int_equal(live_comms_of(c, 5, found, 4), 2);
	assert_true(found[0] == 11 && found[1] == 12);
	comm(5, 0x2000, 12, 8, 100, 0); /* more is known now */
	pass();
	assert_int_equal(live_comms_of(c, 5, found, 4), 2);
	assert_true(found[0] == 12 && found[1] == 11);
	assert_int_equal(live_comms_of(c, 7, found, 4), 0);
}

static void no_more_than_there_is_room_for(void **unused)
{
	(void)unused;
	for (uint32_t i = 0; i < LIVE_COMMS + 3; i++)
		comm(5, 0x1000 + i, 1000000 + i, 2, 100, 0);
	pass();
	assert_true(has(1000000 + LIVE_COMMS - 1) && !has(1000000 + LIVE_COMMS));
	comm(5, 0x1000, 1000000, 2, 100, 200);
	comm(5, 0x1000 + LIVE_COMMS, 1000000 + LIVE_COMMS, 2, 100, 0);
	pass();
	assert_true(!has(1000000) && has(1000000 + LIVE_COMMS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(until_they_are_destroyed, begin, end),
		cmocka_unit_test_setup_teardown(until_their_process_ends, begin, end),
		cmocka_unit_test_setup_teardown(those_of_most_ranks_first, begin, end),
		cmocka_unit_test_setup_teardown(no_more_than_there_is_room_for, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

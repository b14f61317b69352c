/* live_collectives_test.c - collectives of a running session by process, communicator and
 * operation: sizes and bus bytes as nccl-tests has them, boundedly; how long before the last rank
 * each one entered, where that can be known.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed_rows.h"
#include "serve/collective_series.h"
#include "serve/exposition.h"
#include "session/live_series.h"
#include "session/session_live.h"
#include "session/session_names.h"

#define US     1000ULL
#define SECOND 1000000000ULL
#define AT     (100 * SECOND) /* where calls begin */
#define WORLD  0x10	      /* handles */
#define PAIR   0x20

enum { ALL_REDUCE, ALL_GATHER, SEND, GROUP };
enum { ARG_BYTES, ARG_COMM, ARG_SEQUENCE, ARGS };

static struct session_names names;
static struct detect_names numbers;
static struct live_series s;
static struct feed_batch b;
static uint32_t strings, comm_text;

static uint32_t text(const char *string)
{
	*vec_push(&b.strings) = (struct feed_string){strings, (uint32_t)b.texts.len};
	buf_add(&b.texts, string, strlen(string) + 1);
	return strings++;
}

static void pass_at(uint64_t now_ns)
{
	const struct session_view v = {.batch = &b, .names = &numbers};
	session_names_take(&names, &b);
	live_series_batch(&s, &v, now_ns);
	session_names_forget(&names, &b);
	feed_batch_empty(&b);
}

static void pass(void)
{
	pass_at(AT);
}

static void probe(uint32_t number, const char *name, const char *role)
{
	*vec_push(&b.probes) =
		(struct m_probe){.layer = text("nccl"),
				 .name = text(name),
				 .role = text(role),
				 .name_arg = -1,
				 .nargs = ARGS,
				 .arg_names = {text("bytes"), text("comm"), text("sequence")},
				 .arg_types = {ARG_TYPE_BYTES}};
	*vec_push(&b.numbers[ROW_PROBE]) = number;
}

/* A process and its thread, both of that number. */
static void process(uint32_t pid, uint64_t end_ns)
{
	*vec_push(&b.processes) = (struct m_process){
		.pid = pid, .comm = comm_text, .rank = -1, .start_ns = 1, .end_ns = end_ns};
	if (end_ns)
		return;
	*vec_push(&b.threads) = (struct m_thread){.pid = pid, .tid = pid};
	*vec_push(&b.numbers[ROW_THREAD]) = pid;
}

static void comm(uint32_t pid, uint64_t handle, uint64_t hash, int32_t rank, int32_t size,
		 uint64_t end_ns)
{
	*vec_push(&b.comms) = (struct m_comm){.pid = pid,
					      .rank = rank,
					      .size = size,
					      .handle = handle,
					      .hash = hash,
					      .start_ns = AT,
					      .end_ns = end_ns};
}

static struct m_call *call(uint32_t pid, uint32_t number, uint64_t handle, uint64_t bytes)
{
	struct m_call *c = vec_push(&b.calls);
	*c = (struct m_call){.start_ns = AT + US,
			     .dur_ns = 500000,
			     .thread = pid,
			     .probe = number,
			     .nargs = ARGS,
			     .args = {bytes, handle}};
	return c;
}

static int begin(void **unused)
{
	(void)unused;
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &numbers);
	s = (struct live_series){0};
	strings = 0;
	uint32_t empty = text("");
	(void)empty;
	comm_text = text("python3");
	probe(ALL_REDUCE, "ncclAllReduce", "collective");
	probe(ALL_GATHER, "ncclAllGather", "collective");
	probe(SEND, "ncclSend", "p2p");
	probe(GROUP, "ncclGroupEnd", "nccl_group");
	process(7, 0);
	pass();
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	feed_batch_empty(&b);
	live_series_free(&s);
	session_names_free(&names);
	return 0;
}

static void has(const char *line, bool there)
{
	struct exposition x = {0};
	const struct series_sink sink = exposition_sink(&x);
	collective_series_write(&sink, &s);
	buf_byte(&x.text, 0);
	if ((strstr((char *)x.text.data, line) != NULL) != there)
		fail_msg("%s: %s\n%s", there ? "not there" : "there", line, (char *)x.text.data);
	buf_free(&x.text);
}

#define OF(number, communicator, rank, ranks, operation)                                           \
	"_total{pid=\"" number "\",comm=\"python3\",communicator=\"" communicator                  \
	"\",communicator_rank=\"" rank "\",communicator_ranks=\"" ranks                            \
	"\",operation=\"" operation "\"} "

/* ---- what was called ---- */

static void sizes_and_bus_bytes_are_those_of_nccl_tests(void **unused)
{
	(void)unused;
	comm(7, WORLD, 0xabc, 1, 4, 0);
	comm(7, PAIR, 0, 0, 2, 0); /* its making was not seen */
	call(7, ALL_REDUCE, WORLD, 1000);
	call(7, ALL_REDUCE, WORLD, 1000);
	call(7, ALL_REDUCE, WORLD, 5000)->flags = CALL_ERROR;
	call(7, ALL_GATHER, WORLD, 1000);
	call(7, GROUP, WORLD, 1000);
	pass();
	call(7, ALL_REDUCE, PAIR, 300);
	call(7, SEND, WORLD, 70);
	pass();
	has("eacgm_collective_calls" OF("7", "0xabc", "1", "4", "all_reduce") "2\n", true);
	has("eacgm_collective_bytes" OF("7", "0xabc", "1", "4", "all_reduce") "2000\n", true);
	has("eacgm_collective_bus_bytes" OF("7", "0xabc", "1", "4", "all_reduce") "3000\n", true);
	has("eacgm_collective_call_seconds" OF("7", "0xabc", "1", "4", "all_reduce") "0.001\n",
	    true);
	has("eacgm_collective_bytes" OF("7", "0xabc", "1", "4", "all_gather") "4000\n", true);
	has("eacgm_collective_bus_bytes" OF("7", "0xabc", "1", "4", "all_gather") "3000\n", true);
	has("eacgm_collective_bus_bytes" OF("7", "handle 0x20", "0", "2", "all_reduce") "300\n",
	    true);
	has("eacgm_collective_bus_bytes" OF("7", "0xabc", "1", "4", "send") "70\n", true);
	assert_int_equal(s.collectives.rows.len, 4);
	has("# TYPE eacgm_collective_bus_bytes_total counter\n", true);
	has("compared_total{", false); /* one rank alone */
}

/* The first calls of a process may come before what it has mapped. */
static void ranks_that_are_known_later_count_for_all_calls(void **unused)
{
	(void)unused;
	comm(7, WORLD, 0, -1, 0, 0);
	call(7, ALL_GATHER, WORLD, 1000);
	call(7, ALL_REDUCE, WORLD, 1000);
	pass();
	has("eacgm_collective_bytes_total{pid=\"7\",comm=\"python3\",communicator=\"handle 0x10\","
	    "operation=\"all_gather\"} 1000\n",
	    true);
	has("bus_bytes_total{", false);
	comm(7, WORLD, 0, 2, 4, 0);
	call(7, ALL_GATHER, WORLD, 1000);
	pass();
	has("eacgm_collective_calls" OF("7", "handle 0x10", "2", "4", "all_gather") "2\n", true);
	has("eacgm_collective_bytes" OF("7", "handle 0x10", "2", "4", "all_gather") "8000\n", true);
	has("eacgm_collective_bus_bytes" OF("7", "handle 0x10", "2", "4", "all_gather") "6000\n",
	    true);
	assert_int_equal(s.collectives.rows.len, 2);
}

/* A communicator may lie where another one was. */
static void count_told(void *ctx, uint64_t what, uint64_t ahead_ns)
{
	(void)what;
	(void)ahead_ns;
	++*(unsigned *)ctx;
}

static void rank(struct live_arrivals *a, uint32_t pid, uint64_t hash, uint64_t start_ns,
		 uint64_t end_ns)
{
	live_arrivals_comm(a, &(struct m_comm){.pid = pid,
					       .handle = 0xabc,
					       .size = 2,
					       .hash = hash,
					       .start_ns = start_ns,
					       .end_ns = end_ns});
}

static void enters(struct live_arrivals *a, uint32_t pid, unsigned *told)
{
	live_arrivals_enter(
		a,
		&(struct live_arrival){.pid = pid, .handle = 0xabc, .start_ns = 90, .end_ns = 99},
		count_told, told);
}

/* Who was last of some of its ranks says nothing. */
static void a_communicator_of_more_ranks_than_there_is_room_for(void **unused)
{
	struct live_arrivals a = {0};
	unsigned told = 0;
	(void)unused;
	for (uint32_t pid = 0; pid < ARRIVALS_RANKS - 2; pid++)
		rank(&a, 1000 + pid, 1, 5, 0);
	for (uint32_t pid = 7; pid < 10; pid++)
		rank(&a, pid, 2, 5, 0);
	enters(&a, 7, &told);
	enters(&a, 8, &told);
	assert_int_equal(told, 0);
	live_arrivals_free(&a);
}

/* Of the one before that is told after the one that is there now. */
static void the_end_of_another_at_its_handle(void **unused)
{
	struct live_arrivals a = {0};
	unsigned told = 0;
	(void)unused;
	for (uint32_t pid = 7; pid < 9; pid++) {
		rank(&a, pid, 1, 5, 0);
		rank(&a, pid, 2, 50, 0);
		rank(&a, pid, 1, 5, 40);
	}
	live_arrivals_forget(&a);
	enters(&a, 7, &told);
	enters(&a, 8, &told);
	assert_int_equal(told, 2);
	live_arrivals_free(&a);
}

static void a_handle_is_used_again(void **unused)
{
	(void)unused;
	comm(7, WORLD, 0xabc, 0, 2, 0);
	call(7, ALL_REDUCE, WORLD, 1000);
	pass();
	call(7, ALL_REDUCE, WORLD, 1000);
	pass();
	comm(7, WORLD, 0xabc, 0, 2, AT + SECOND);
	*vec_push(&b.comms) = (struct m_comm){.pid = 7,
					      .rank = 1,
					      .size = 3,
					      .handle = WORLD,
					      .hash = 0xdef,
					      .start_ns = AT + 2 * SECOND};
	call(7, ALL_REDUCE, WORLD, 1000);
	call(7, ALL_REDUCE, WORLD, 1000)->start_ns = AT + 2 * SECOND;
	pass();
	call(7, ALL_REDUCE, WORLD, 1000)->start_ns = AT + 3 * SECOND;
	pass();
	has("eacgm_collective_calls" OF("7", "0xabc", "0", "2", "all_reduce") "3\n", true);
	has("eacgm_collective_calls" OF("7", "0xdef", "1", "3", "all_reduce") "2\n", true);
}

static void many_communicators_are_others(void **unused)
{
	(void)unused;
	for (unsigned turn = 0; turn < 2; turn++) {
		for (unsigned i = 0; i < COLLECTIVES_OF_PROCESS + 10; i++) {
			comm(7, 0x1000 + i, 1 + i, 0, 4, 0);
			call(7, ALL_REDUCE, 0x1000 + i, 100);
		}
		pass();
	}
	call(7, ALL_REDUCE, 0x1000 + COLLECTIVES_OF_PROCESS, 100);
	pass();
	call(7, ALL_REDUCE, 0x1000 + COLLECTIVES_OF_PROCESS, 100);
	pass();
	assert_int_equal(s.collectives.rows.len, COLLECTIVES_OF_PROCESS + 1);
	has("eacgm_collective_calls" OF("7", "0x1", "0", "4", "all_reduce") "2\n", true);
	has("eacgm_collective_calls_total{pid=\"7\",comm=\"python3\",communicator=\"(other)\","
	    "operation=\"all_reduce\"} 22\n",
	    true);
	has("eacgm_collective_bus_bytes_total{pid=\"7\",comm=\"python3\",communicator=\"(other)\","
	    "operation=\"all_reduce\"} 3300\n",
	    true);
}

/* Of each process one, as long as there is room for these. */
static void others_have_a_bound(void **unused)
{
	(void)unused;
	enum { ROOM = COLLECTIVES_ALL + COLLECTIVES_OTHERS, MORE = 5 };
	for (uint32_t i = 0; i < ROOM + MORE; i++) {
		process(1000 + i, 0);
		call(1000 + i, ALL_REDUCE, WORLD, 100);
	}
	pass();
	assert_int_equal(s.collectives.rows.len, ROOM);
	assert_int_equal(s.collectives.left_out, MORE);
}

static void a_communicator_that_has_ended_goes(void **unused)
{
	(void)unused;
	for (uint32_t i = 0; i < 2; i++) {
		comm(7, WORLD + i, 0xabc + i, 0, 2, 0);
		call(7, ALL_REDUCE, WORLD + i, 1000);
	}
	pass();
	comm(7, WORLD, 0xabc, 0, 2, AT + SECOND);
	pass_at(AT + SECOND);
	has("eacgm_collective_calls" OF("7", "0xabc", "0", "2", "all_reduce") "1\n", true);
	pass_at(AT + 2 * SECOND + SERIES_OLD_NS);
	has("0xabc", false);
	has("eacgm_collective_calls" OF("7", "0xabd", "0", "2", "all_reduce") "1\n", true);
}

static void what_has_ended_goes(void **unused)
{
	(void)unused;
	process(8, 0);
	comm(7, WORLD, 0xabc, 0, 2, 0);
	comm(8, WORLD, 0xabc, 1, 2, 0);
	call(7, ALL_REDUCE, WORLD, 1000);
	call(8, ALL_REDUCE, WORLD, 1000);
	pass();
	process(7, AT + SECOND);
	pass_at(AT + SECOND);
	has("eacgm_collective_calls" OF("7", "0xabc", "0", "2", "all_reduce") "1\n", true);
	process(9, 0);
	pass_at(AT + 2 * SECOND + SERIES_OLD_NS);
	has("pid=\"7\"", false);
	call(8, ALL_REDUCE, WORLD, 1000);
	pass_at(AT + 3 * SECOND + SERIES_OLD_NS);
	has("eacgm_collective_calls" OF("8", "0xabc", "1", "2", "all_reduce") "2\n", true);
}

/* ---- who came before whom ---- */

static void enter(uint32_t pid, uint64_t handle, uint64_t sequence, uint64_t after_ms)
{
	struct m_call *c = call(pid, ALL_REDUCE, handle, 8);
	c->start_ns = AT + US + after_ms * 1000 * US;
	c->args[ARG_SEQUENCE] = sequence;
}

static void three_ranks(void)
{
	for (uint32_t i = 0; i < 3; i++) {
		if (i)
			process(7 + i, 0);
		comm(7 + i, WORLD + i, 0xabc, (int32_t)i, 3, 0);
		comm(7 + i, PAIR, 0, (int32_t)i, 3, 0);
	}
	pass();
}

#define COMPARED(number, rank)                                                                     \
	"eacgm_collective_compared" OF(number, "0xabc", rank, "3", "all_reduce")
#define AHEAD(number, rank)                                                                        \
	"eacgm_collective_ahead_seconds" OF(number, "0xabc", rank, "3", "all_reduce")

static void ranks_come_before_the_last(void **unused)
{
	(void)unused;
	three_ranks();
	enter(7, WORLD, 0, 0);
	enter(7, WORLD, 1, 100);
	enter(9, WORLD + 2, 0, 50);
	pass();
	has("compared_total{", false); /* one has not come */
	enter(9, WORLD + 2, 1, 80);
	enter(8, WORLD + 1, 0, 20);
	pass();
	has(COMPARED("7", "0") "1\n", true);
	has(AHEAD("7", "0") "0.05\n", true);
	has(AHEAD("8", "1") "0.03\n", true);
	has(AHEAD("9", "2") "0\n", true);
	enter(8, WORLD + 1, 1, 300);
	enter(7, PAIR, 0, 0); /* of that nobody knows whose others are */
	enter(8, PAIR, 0, 1);
	enter(9, PAIR, 0, 2);
	pass();
	has(COMPARED("9", "2") "2\n", true);
	has(AHEAD("7", "0") "0.25\n", true);
	has(AHEAD("8", "1") "0.03\n", true);
	has(AHEAD("9", "2") "0.22\n", true);
	has("compared_total{pid=\"7\",comm=\"python3\",communicator=\"handle", false);
}

/* Of a host's ranks the communicator of the last may be told when others have called. */
static void a_rank_that_is_told_late_is_waited_for(void **unused)
{
	(void)unused;
	for (uint32_t i = 0; i < 2; i++) {
		process(8 + i, 0);
		comm(7 + i, WORLD + i, 0xabc, (int32_t)i, 3, 0);
		enter(7 + i, WORLD + i, 0, 10 * i);
	}
	pass();
	has("compared_total{", false);
	comm(9, WORLD + 2, 0xabc, 2, 3, 0);
	enter(9, WORLD + 2, 0, 70);
	pass();
	has(AHEAD("7", "0") "0.07\n", true);
	has(AHEAD("8", "1") "0.06\n", true);
	has(AHEAD("9", "2") "0\n", true);
}

static void ranks_on_other_hosts_are_not_waited_for_long(void **unused)
{
	(void)unused;
	process(8, 0);
	for (uint32_t i = 0; i < 2; i++) {
		comm(7 + i, WORLD + i, 0xabc, (int32_t)i, 3, 0);
		enter(7 + i, WORLD + i, 0, i);
		enter(7 + i, WORLD + i, 1, ARRIVALS_TOLD_NS / 1000 / US + 40 * i);
	}
	pass();
	has(COMPARED("7", "0") "1\n", true);
	has(AHEAD("7", "0") "0.04\n", true);
}

/* What it entered others may come to. */
static void a_rank_that_has_left_counts_until_all_have(void **unused)
{
	(void)unused;
	three_ranks();
	enter(7, WORLD, 0, 0);
	comm(7, WORLD, 0xabc, 0, 3, AT + SECOND);
	process(9, AT + SECOND);
	enter(9, WORLD + 2, 0, 10);
	pass();
	enter(8, WORLD + 1, 0, 20);
	pass();
	has(AHEAD("7", "0") "0.02\n", true);
	has(COMPARED("9", "2") "1\n", true);
	assert_int_equal(s.collectives.arrivals.ranks.len, 3);
	enter(8, WORLD + 1, 1, 30);
	comm(8, WORLD + 1, 0xabc, 1, 3, AT + SECOND);
	pass();
	has(COMPARED("8", "1") "1\n", true); /* nobody else entered that */
	assert_int_equal(s.collectives.arrivals.ranks.len, 0);
}

static void ranks_that_are_too_far_apart_are_not_compared(void **unused)
{
	(void)unused;
	three_ranks();
	for (uint32_t i = 0; i <= ARRIVALS_WINDOW; i++)
		enter(7, WORLD, i, i);
	for (uint32_t i = 0; i < 2; i++) {
		enter(8, WORLD + 1, i, 1000);
		enter(9, WORLD + 2, i, 1000);
	}
	pass();
	has(COMPARED("7", "0") "1\n", true);
	has(AHEAD("7", "0") "0.999\n", true);
}

static void calls_that_a_budget_left_out_end_it(void **unused)
{
	(void)unused;
	three_ranks();
	for (uint32_t i = 0; i < 3; i++)
		enter(7 + i, WORLD + i, 0, i);
	*vec_push(&b.coverages) = (struct m_coverage){.probe = GROUP, .on_ns = 1, .off_ns = 1};
	*vec_push(&b.coverages) = (struct m_coverage){.probe = ALL_REDUCE, .on_ns = 1};
	pass();
	has(COMPARED("7", "0") "1\n", true);
	*vec_push(&b.coverages) = (struct m_coverage){.probe = ALL_GATHER, .on_ns = 1, .off_ns = 1};
	for (uint32_t i = 0; i < 3; i++)
		enter(7 + i, WORLD + i, 1, i);
	pass();
	has(COMPARED("7", "0") "1\n", true);
	has("eacgm_collective_calls" OF("7", "0xabc", "0", "3", "all_reduce") "2\n", true);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sizes_and_bus_bytes_are_those_of_nccl_tests),
		TEST(ranks_that_are_known_later_count_for_all_calls),
		TEST(a_handle_is_used_again),
		TEST(the_end_of_another_at_its_handle),
		TEST(a_communicator_of_more_ranks_than_there_is_room_for),
		TEST(many_communicators_are_others),
		TEST(others_have_a_bound),
		TEST(a_communicator_that_has_ended_goes),
		TEST(what_has_ended_goes),
		TEST(ranks_come_before_the_last),
		TEST(a_rank_that_is_told_late_is_waited_for),
		TEST(ranks_on_other_hosts_are_not_waited_for_long),
		TEST(a_rank_that_has_left_counts_until_all_have),
		TEST(ranks_that_are_too_far_apart_are_not_compared),
		TEST(calls_that_a_budget_left_out_end_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

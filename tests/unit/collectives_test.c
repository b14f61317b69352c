/* collectives_test.c - kernels, groups, sizes, bandwidths and overlap of collectives, and which
 * connections carry NCCL, from recordings made by hand.
 * links: analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "analyze/collectives.h"
#include "analyze/connections.h"
#include "recording/recording.h"
#include "wire/event.h"
#include "made_file.h"

#define US     1000ULL
#define COMM   0xc0
#define STREAM 0x70
#define HASH   0xabcdef

enum probe {
	ALL_REDUCE,
	REDUCE_SCATTER,
	BROADCAST,
	SEND,
	RECV,
	GROUP_START,
	GROUP_END,
	LAUNCH,
	CAPTURE,
	CAPTURE_END,
	PROBES,
};

static const struct {
	const char *name, *role;
	const char *args[6];
} probes[PROBES] = {
	[ALL_REDUCE] = {"ncclAllReduce",
			"collective",
			{"bytes", "datatype", "comm", "stream", "sequence"}},
	[REDUCE_SCATTER] = {"ncclReduceScatter",
			    "collective",
			    {"bytes", "datatype", "comm", "stream", "sequence"}},
	[BROADCAST] = {"ncclBroadcast",
		       "collective",
		       {"bytes", "datatype", "comm", "stream", "sequence", "root"}},
	[SEND] = {"ncclSend", "p2p", {"bytes", "datatype", "comm", "stream", "sequence", "peer"}},
	[RECV] = {"ncclRecv", "p2p", {"bytes", "datatype", "comm", "stream", "sequence", "peer"}},
	[GROUP_START] = {"ncclGroupStart", "nccl_group", {NULL}},
	[GROUP_END] = {"ncclGroupEnd", "nccl_group", {NULL}},
	[LAUNCH] = {"cuLaunchKernel", "launch", {"kernel", "stream"}},
	[CAPTURE] = {"cuStreamBeginCapture_v2", "capture_begin", {"stream"}},
	[CAPTURE_END] = {"cuStreamEndCapture", "capture_end", {"stream", "graph"}},
};

static uint8_t nargs_of(enum probe probe)
{
	uint8_t n = 0;
	while (n < 6 && probes[probe].args[n])
		n++;
	return n;
}

/* Rank 1 of 4, process 7, one thread. */
static struct rec_writer *created(void)
{
	struct rec_writer *w = NULL;
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < PROBES; i++) {
		struct m_probe p = {.name = rec_string_z(w, probes[i].name),
				    .symbol = rec_string_z(w, probes[i].name),
				    .role = rec_string_z(w, probes[i].role),
				    .kind = SITE_SPAN,
				    .name_arg = -1,
				    .nargs = nargs_of((enum probe)i)};
		for (int k = 0; k < p.nargs; k++) {
			p.arg_names[k] = rec_string_z(w, probes[i].args[k]);
			p.arg_types[k] = i == LAUNCH && !k ? ARG_TYPE_STRING : ARG_TYPE_U64;
		}
		rec_add_probe(w, &p);
	}
	rec_add_thread(w, &(struct m_thread){7, 7, 0});
	rec_put_comm(w, &(struct m_comm){.pid = 7,
					 .rank = 1,
					 .size = 4,
					 .handle = COMM,
					 .hash = HASH,
					 .start_ns = US});
	return w;
}

static void call(struct rec_writer *w, enum probe probe, uint64_t us, uint64_t dur_us,
		 const uint64_t *args)
{
	struct m_call c = {.start_ns = us * US,
			   .dur_ns = dur_us * US,
			   .probe = probe,
			   .nargs = nargs_of(probe)};
	memcpy(c.args, args, c.nargs * sizeof(*args));
	rec_put_calls(w, &c, 1);
}
#define CALL(w, probe, us, dur_us, ...) call(w, probe, us, dur_us, (const uint64_t[8]){__VA_ARGS__})

static uint32_t correlations;

static void kernel(struct rec_writer *w, const char *name, uint64_t us, uint64_t dur_us)
{
	rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = us * US,
						 .end_ns = (us + dur_us) * US,
						 .pid = 7,
						 .device = 3,
						 .correlation = ++correlations,
						 .name = rec_string_z(w, name),
						 .stream = 7});
}

static void launch(struct rec_writer *w, const char *name, uint64_t us, uint64_t stream)
{
	CALL(w, LAUNCH, us, 1, rec_string_z(w, name), stream);
}

static struct rec_reader *reader;
static struct timeline timeline;
static struct collectives got;

static void make(struct rec_writer *w, uint32_t longest)
{
	struct err e = {0};
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&timeline, rec_source(reader), &(struct timeline_options){0});
	collectives_make(&got, &timeline, longest);
}

static void done(void)
{
	collectives_free(&got);
	timeline_free(&timeline);
	rec_close(reader);
}

static void near(double value, double expected)
{
	if (value < expected * 0.9999 || value > expected * 1.0001)
		fail_msg("%g is not %g", value, expected);
}

#define NCCL "_Z32ncclDevKernel_AllReduce_Sum_f32v"
#define MINE "compute"

static void sizes_and_factors_are_those_of_nccl_tests(void **state)
{
	(void)state;
	static const struct {
		const char *function;
		uint64_t total; /* of 100 bytes a rank, 4 ranks */
		double factor;
	} all[] = {
		{"ncclAllReduce", 100, 1.5},   {"ncclReduceScatter", 400, 0.75},
		{"ncclAllGather", 400, 0.75},  {"ncclAlltoAll", 400, 0.75},
		{"ncclBroadcast", 100, 1},     {"ncclReduce", 100, 1},
		{"ncclGather", 400, 0.75},     {"ncclScatter", 400, 0.75},
		{"ncclSend", 100, 1},	       {"ncclRecv", 100, 1},
		{"ncclOfAnotherTime", 100, 1},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		enum collective_op op = collective_op_from(all[i].function);
		assert_int_equal(collective_total_bytes(op, 100, 4), all[i].total);
		near(collective_bus_factor(op, 4), all[i].factor);
		assert_int_equal(collective_total_bytes(op, 100, 0), 100);
		assert_true(collective_bus_factor(op, 0) == 0);
		assert_int_equal(collective_total_bytes(op, UINT64_MAX / 2, 4), UINT64_MAX / 2);
	}
	assert_string_equal(collective_op_name(COLLECTIVE_ALL_TO_ALL), "all_to_all");
	assert_true(collective_is_kernel("_Z15ncclKernel_Sumv") &&
		    collective_is_kernel("ncclDevKernel_Generic") && !collective_is_kernel(MINE));
}

/* Two all-reduces of 3 MB and 1.5 MB: 100 and 60 us, of which 30 us of the first beside others. */
static void a_call_has_the_time_of_its_kernel(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	CALL(w, ALL_REDUCE, 10, 5, 3000000, 7, COMM, STREAM, 0);
	launch(w, NCCL, 12, STREAM);
	launch(w, MINE, 20, 0x99);
	launch(w, MINE, 22, 0x99);
	CALL(w, ALL_REDUCE, 30, 5, 1500000, 7, COMM, STREAM, 1);
	launch(w, NCCL, 32, STREAM);
	CALL(w, BROADCAST, 40, 5, 100, 0, COMM, STREAM, 2, 3);
	correlations = 0;
	kernel(w, NCCL, 100, 100);
	kernel(w, MINE, 90, 20);  /* 10 us of it beside the first */
	kernel(w, MINE, 105, 25); /* and 20 more that were not counted yet */
	kernel(w, NCCL, 300, 60);
	make(w, 1);
	assert_int_equal(got.rows.len, 3);
	const struct collective *c = got.rows.data;
	assert_int_equal(c[0].device_start_ns, 100 * US);
	assert_int_equal(c[0].device_end_ns, 200 * US);
	assert_int_equal(c[0].overlap_ns, 30 * US);
	assert_int_equal(c[0].rank, 1);
	assert_int_equal(c[0].size, 4);
	assert_int_equal(c[0].hash, HASH);
	assert_int_equal(c[0].device, 3);
	assert_int_equal(c[0].datatype, 7);
	assert_int_equal(c[0].root, COLLECTIVE_NO_PEER);
	assert_int_equal(c[0].timing, COLLECTIVE_TIMED);
	assert_int_equal(c[0].group, 0);
	assert_int_equal(c[1].sequence, 1);
	assert_int_equal(c[1].device_end_ns - c[1].device_start_ns, 60 * US);
	assert_int_equal(c[1].overlap_ns, 0);
	assert_int_equal(c[2].timing, COLLECTIVE_UNTIMED);
	assert_int_equal(c[2].root, 3);
	assert_int_equal(c[2].device_end_ns, 0);
	/* 3 MB and 1.5 MB are of two sizes: [2^21, 2^22) and [2^20, 2^21) */
	assert_int_equal(got.sums.len, 3);
	const struct collective_sum *s = &got.sums.data[0];
	assert_int_equal(s->from_bytes, 1 << 21);
	assert_int_equal(s->p50_ns, 100 * US);
	near(s->algorithm_bandwidth, 3000000 / 100e-6);
	near(s->bus_bandwidth, 1.5 * 3000000 / 100e-6);
	assert_int_equal(s->overlap_ns, 30 * US);
	assert_int_equal(got.sums.data[2].timed, 0);
	assert_int_equal(got.longest.len, 1);
	assert_int_equal(got.longest.data[0], 0);
	assert_int_equal(got.timed, 2);
	assert_int_equal(got.untimed, 1);
	done();
}

static void a_group_is_one(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	CALL(w, GROUP_START, 10, 1, 0);
	CALL(w, ALL_REDUCE, 12, 1, 1000, 7, COMM, STREAM, 0);
	CALL(w, ALL_REDUCE, 14, 1, 3000, 7, COMM, STREAM, 1);
	CALL(w, GROUP_END, 20, 10, 0);
	launch(w, "ncclDevKernel_Generic", 22, STREAM);
	/* all_to_all: to and from every rank */
	CALL(w, GROUP_START, 40, 1, 0);
	for (uint64_t peer = 0; peer < 4; peer++) {
		CALL(w, SEND, 42 + 4 * peer, 1, 500, 7, COMM, STREAM, 2 * peer, peer);
		CALL(w, RECV, 44 + 4 * peer, 1, 500, 7, COMM, STREAM, 2 * peer + 1, peer);
	}
	CALL(w, GROUP_END, 60, 10, 0);
	launch(w, "ncclDevKernel_SendRecv", 62, STREAM);
	/* with the neighbours only, on two streams: two kernels */
	CALL(w, GROUP_START, 80, 1, 0);
	CALL(w, SEND, 82, 1, 700, 7, COMM, STREAM, 8, 2);
	CALL(w, RECV, 84, 1, 900, 7, COMM, STREAM, 9, 0);
	CALL(w, REDUCE_SCATTER, 86, 1, 250, 7, COMM, 0x71, 2);
	CALL(w, GROUP_END, 90, 10, 0);
	launch(w, "ncclDevKernel_SendRecv", 92, STREAM);
	launch(w, "ncclDevKernel_ReduceScatter", 94, 0x71);
	correlations = 0;
	kernel(w, "ncclDevKernel_Generic", 100, 40);
	kernel(w, "ncclDevKernel_SendRecv", 200, 20);
	kernel(w, "ncclDevKernel_SendRecv", 300, 10);
	kernel(w, "ncclDevKernel_ReduceScatter", 305, 30);
	make(w, 10);
	const struct collective *c = got.rows.data;
	assert_int_equal(got.rows.len, 2 + 8 + 3);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(c[i].group_calls, 2);
		assert_int_equal(c[i].group_bytes, 4000);
		assert_int_equal(c[i].device_end_ns - c[i].device_start_ns, 40 * US);
	}
	assert_int_equal(c[0].group, c[1].group);
	for (int i = 2; i < 10; i++) {
		assert_int_equal(c[i].group_op, COLLECTIVE_ALL_TO_ALL);
		assert_int_equal(c[i].group_bytes, 2000);
		assert_int_equal(c[i].peer, (i - 2) / 2);
		assert_int_equal(c[i].device_start_ns, 200 * US);
	}
	assert_int_equal(c[10].group_op, COLLECTIVE_SEND_RECV);
	assert_int_equal(c[10].group_bytes, 900);
	assert_int_equal(c[10].device_start_ns, 300 * US);
	assert_int_equal(c[12].group_calls, 1);
	assert_int_equal(c[12].group_op, COLLECTIVE_REDUCE_SCATTER);
	assert_int_equal(c[12].total_bytes, 1000);
	assert_int_equal(c[12].device_start_ns, 305 * US);
	assert_int_equal(got.sums.len, 4);
	for (size_t i = 0; i < got.sums.len; i++) {
		const struct collective_sum *s = &got.sums.data[i];
		assert_int_equal(s->count, 1);
		assert_int_equal(s->grouped, s->op != COLLECTIVE_REDUCE_SCATTER);
		if (s->op == COLLECTIVE_ALL_TO_ALL)
			near(s->bus_bandwidth, 0.75 * 2000 / 20e-6);
		if (s->op == COLLECTIVE_ALL_REDUCE)
			near(s->bus_bandwidth, 1.5 * 4000 / 40e-6);
	}
	assert_int_equal(got.longest.len, 4);
	assert_int_equal(got.longest.data[0], 0);
	done();
}

static void captured_ones_have_no_time(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	CALL(w, CAPTURE, 5, 1, STREAM);
	CALL(w, ALL_REDUCE, 10, 5, 1000, 7, COMM, STREAM, 0);
	launch(w, NCCL, 12, STREAM);
	CALL(w, CAPTURE_END, 20, 1, STREAM, 0x9);
	CALL(w, ALL_REDUCE, 30, 5, 1000, 7, COMM, STREAM, 1);
	launch(w, NCCL, 32, STREAM);
	correlations = 0;
	kernel(w, NCCL, 100, 10);
	make(w, 5);
	assert_int_equal(got.rows.len, 2);
	assert_int_equal(got.rows.data[0].timing, COLLECTIVE_CAPTURED);
	assert_int_equal(got.rows.data[1].device_start_ns, 100 * US);
	assert_int_equal(got.captured, 1);
	assert_int_equal(got.sums.len, 1);
	assert_int_equal(got.sums.data[0].count, 2);
	assert_int_equal(got.sums.data[0].timed, 1);
	assert_int_equal(got.sums.data[0].timed_bytes, 1000);
	done();
}

static void without_spans_there_are_the_hosts_times(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	CALL(w, ALL_REDUCE, 10, 5, 1000, 7, COMM, STREAM, 0);
	CALL(w, ALL_REDUCE, 20, 7, 1000, 7, 0xdead, STREAM, 0);
	make(w, 5);
	assert_false(got.has_spans);
	assert_int_equal(got.rows.data[0].timing, COLLECTIVE_NO_SPANS);
	assert_int_equal(got.rows.data[1].comm_row, TIMELINE_NONE);
	assert_int_equal(got.rows.data[1].rank, -1);
	assert_int_equal(got.sums.len, 2);
	assert_int_equal(got.sums.data[0].host_ns + got.sums.data[1].host_ns, 12 * US);
	assert_true(got.sums.data[0].algorithm_bandwidth == 0);
	assert_int_equal(got.longest.len, 0);
	done();
}

static void connection_in(struct rec_writer *w, uint32_t pid, const char *source,
			  const char *destination, const char *opener, uint64_t sent,
			  uint64_t netns, bool by_nccl)
{
	rec_put_connection(w, &(struct m_connection){.pid = pid,
						     .source = rec_string_z(w, source),
						     .destination = rec_string_z(w, destination),
						     .opener = rec_string_z(w, opener),
						     .first_ns = 5,
						     .netns = netns,
						     .by_nccl = by_nccl,
						     .bytes_sent = sent});
}

static void connection(struct rec_writer *w, uint32_t pid, const char *source,
		       const char *destination, const char *opener, uint64_t sent)
{
	connection_in(w, pid, source, destination, opener, sent, 1, false);
}

static void expect_uses(const uint8_t *expected, size_t n, struct connections_sum sum)
{
	const struct rec_tables *t = rec_tables(reader);
	assert_int_equal(t->connections.len, n);
	uint8_t *uses = connections_uses(t);
	assert_memory_equal(uses, expected, n);
	struct connections_sum nccl = connections_nccl(t, uses, 0);
	assert_int_equal(nccl.count, sum.count);
	assert_int_equal(nccl.bytes_sent, sum.bytes_sent);
	free(uses);
}

static void what_nccls_code_opens_and_its_other_end(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	connection_in(w, 7, "10.0.0.1:1", "10.0.0.2:1", "python3", 1, 1, true);
	connection_in(w, 8, "10.0.0.2:1", "10.0.0.1:1", "python3", 2, 2, false); /* elsewhere */
	connection_in(w, 7, "127.0.0.1:1", "127.0.0.1:2", "python3", 4, 1, true);
	connection_in(w, 8, "127.0.0.1:2", "127.0.0.1:1", "python3", 8, 2, false); /* another */
	connection_in(w, 9, "127.0.0.1:2", "127.0.0.1:1", "python3", 16, 1, false);
	connection_in(w, 9, "127.0.0.1:2", "127.0.0.1:3", "python3", 32, 1, false);
	make(w, 0);
	static const uint8_t expected[] = {CONNECTION_NCCL,  CONNECTION_NCCL, CONNECTION_NCCL,
					   CONNECTION_OTHER, CONNECTION_NCCL, CONNECTION_OTHER};
	expect_uses(expected, sizeof(expected),
		    (struct connections_sum){.count = 4, .bytes_sent = 1 + 2 + 4 + 16});
	done();
}

static void connections_that_carry_nccl(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	rec_put_comm(w, &(struct m_comm){.pid = 8, .handle = 1});
	connection(w, 7, "a:1", "b:1", "NCCL Service 0", 10);
	connection(w, 8, "b:1", "a:1", "", 0);
	connection(w, 7, "a:2", "b:2", "python3", 0); /* both have communicators, but who opened */
	connection(w, 8, "b:2", "a:2", "", 0);
	connection(w, 7, "a:3", "b:3", "", 0);
	connection(w, 8, "b:3", "a:3", "", 0);
	connection(w, 9, "c:4", "a:4", "", 0); /* has none */
	connection(w, 7, "a:4", "c:4", "", 0);
	connection(w, 7, "a:1", "b:1", "NCCL Service 0", 20); /* the first, later */
	make(w, 0);
	const struct rec_tables *t = rec_tables(reader);
	static const uint8_t expected[] = {
		CONNECTION_NCCL,       CONNECTION_NCCL,	      CONNECTION_OTHER, CONNECTION_OTHER,
		CONNECTION_MAYBE_NCCL, CONNECTION_MAYBE_NCCL, CONNECTION_OTHER, CONNECTION_OTHER};
	assert_int_equal(t->connections.data[0].bytes_sent, 20);
	expect_uses(expected, sizeof(expected),
		    (struct connections_sum){.count = 2, .bytes_sent = 20});
	done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_and_factors_are_those_of_nccl_tests),
		cmocka_unit_test(a_call_has_the_time_of_its_kernel),
		cmocka_unit_test(a_group_is_one),
		cmocka_unit_test(captured_ones_have_no_time),
		cmocka_unit_test(without_spans_there_are_the_hosts_times),
		cmocka_unit_test(connections_that_carry_nccl),
		cmocka_unit_test(what_nccls_code_opens_and_its_other_end),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

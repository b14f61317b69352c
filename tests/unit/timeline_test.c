/* timeline_test.c - which call started which work, from recordings made by hand: whole ones, ones
 * that begin in the midst, with losses, with threads that swap, graphs, waits, groups of NCCL.
 * links: analyze recording base golden */
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

#include "analyze/timeline.h"
#include "golden/gpu_sample.h"
#include "recording/recording.h"
#include "wire/event.h"
#include "made_file.h"

#define US     1000ULL
#define STREAM 0x70
#define NAMES  3 /* kernels that loops launch in turn */

/* Threads 0 and 1 of process 7, thread 2 of process 8. */
static struct rec_writer *created(void)
{
	struct rec_writer *w = NULL;
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	gpu_sample_probes(w);
	rec_add_thread(w, &(struct m_thread){7, 7, 0});
	rec_add_thread(w, &(struct m_thread){7, 9, 0});
	rec_add_thread(w, &(struct m_thread){8, 8, 0});
	return w;
}

static struct rec_reader *reader;

static struct timeline made(struct rec_writer *w, struct timeline_options o)
{
	struct err e = {0};
	struct timeline t;
	if (w && rec_writer_close(w, false, &e))
		fail_msg("%s", e.msg);
	if (rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&t, rec_source(reader), &o);
	return t;
}

static uint8_t role_of(const struct timeline *t, size_t call)
{
	return timeline_call_kind_of(t, &t->calls.data[call])->role;
}

static void done(struct timeline *t)
{
	timeline_free(t);
	rec_close(reader);
}

static uint64_t kernel_name(struct rec_writer *w, unsigned n)
{
	char name[32];
	snprintf(name, sizeof(name), "kernel_%u", n);
	return rec_string_z(w, name);
}

static void launch(struct rec_writer *w, uint32_t thread, uint64_t name, uint64_t us)
{
	GPU_CALL(w, thread, GS_LAUNCH, us * US, 3 * US, name, dim3_pack(1, 1, 1),
		 dim3_pack(32, 1, 1), STREAM);
}

static void kernel(struct rec_writer *w, uint32_t correlation, uint64_t name, uint64_t us,
		   uint64_t dur_us)
{
	rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = us * US,
						 .end_ns = (us + dur_us) * US,
						 .pid = 7,
						 .correlation = correlation,
						 .name = (uint32_t)name,
						 .stream = 7});
}

/* A loop: launches of n kernels every `every` us, each of which takes `takes` us and runs after
 * the one before; a wait for the stream after each step. What skip says is not recorded. */
struct loop {
	unsigned n, step, names;
	uint64_t every, takes;
	bool (*no_call)(unsigned i);
	bool (*no_span)(unsigned i);
};

static void put_loop(struct rec_writer *w, const struct loop *l)
{
	uint64_t host = 1000, device = 0;
	for (unsigned i = 0; i < l->n; i++) {
		uint64_t name = kernel_name(w, i % l->step % l->names);
		device = device > host + 5 ? device : host + 5;
		if (!l->no_call || !l->no_call(i))
			launch(w, 0, name, host);
		if (!l->no_span || !l->no_span(i))
			kernel(w, 100 + i * 3, name, device, l->takes);
		device += l->takes;
		host += l->every;
		if (i % l->step != l->step - 1)
			continue;
		uint64_t end = (device > host ? device : host) + 5;
		GPU_CALL(w, 0, GS_SYNC, host * US, (end - host) * US, STREAM);
		host = end + 3;
	}
}

/* The place in the loop of what started a span; spans are numbered by it too. */
static void check_loop(const struct timeline *t, const struct loop *l, uint64_t missing_spans,
		       uint64_t missing_calls)
{
	uint64_t *starts = calloc(l->n, sizeof(*starts)), host = 1000, device = 0;
	uint64_t wrong = 0;
	for (unsigned i = 0; i < l->n; i++) {
		starts[i] = host * US;
		device = (device > host + 5 ? device : host + 5) + l->takes;
		host += l->every;
		if (i % l->step == l->step - 1)
			host = (device > host ? device : host) + 8;
	}
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		if (s->call != TIMELINE_NONE)
			wrong += t->calls.data[s->call].start_ns !=
				 starts[(s->correlation - 100) / 3];
	}
	free(starts);
	assert_int_equal(wrong, 0);
	assert_int_equal(t->unmatched_spans, missing_calls);
	assert_int_equal(t->unmatched_calls, missing_spans);
	assert_int_equal(t->matched_spans, t->spans.len - missing_calls);
	assert_int_equal(t->early_spans, 0);
}

static void try_loop(struct loop l, uint64_t missing_spans, uint64_t missing_calls)
{
	struct rec_writer *w = created();
	put_loop(w, &l);
	struct timeline t = made(w, (struct timeline_options){0});
	check_loop(&t, &l, missing_spans, missing_calls);
	done(&t);
}

static bool first_ten(unsigned i)
{
	return i < 10;
}

static bool first_steps(unsigned i)
{
	return i < 2503;
}

static bool last_ones(unsigned i)
{
	return i >= 4990;
}

static bool a_hole(unsigned i)
{
	return i >= 1000 && i < 1777;
}

static bool some(unsigned i)
{
	return i % 97 == 13;
}

static void all_is_recorded(void **state)
{
	(void)state;
	try_loop((struct loop){.n = 5000, .step = 100, .names = 7, .every = 7, .takes = 2}, 0, 0);
	/* One kernel alone, and a device that is always behind. */
	try_loop((struct loop){.n = 5000, .step = 5000, .names = 1, .every = 7, .takes = 20}, 0, 0);
	try_loop((struct loop){.n = 5000, .step = 100, .names = 1, .every = 7, .takes = 2}, 0, 0);
}

static void beginnings_and_ends_are_missing(void **state)
{
	(void)state;
	struct loop busy = {.n = 5000, .step = 100, .names = 7, .every = 7, .takes = 20};
	struct loop bound = {.n = 5000, .step = 100, .names = 7, .every = 7, .takes = 2};
	for (int i = 0; i < 2; i++) {
		struct loop l = i ? busy : bound;
		l.no_span = first_ten;
		try_loop(l, 10, 0);
		l.no_span = first_steps; /* step by step it looks the same */
		try_loop(l, 2503, 0);
		l.no_span = last_ones;
		try_loop(l, 10, 0);
		l.no_span = NULL;
		l.no_call = first_ten;
		try_loop(l, 0, 10);
		l.no_call = first_steps;
		try_loop(l, 0, 2503);
		l.no_call = last_ones;
		try_loop(l, 0, 10);
	}
}

static void some_are_missing(void **state)
{
	(void)state;
	struct loop l = {.n = 5000, .step = 100, .names = 7, .every = 7, .takes = 2};
	l.no_span = a_hole;
	try_loop(l, 777, 0);
	l.no_span = some;
	try_loop(l, 52, 0);
	l.no_call = a_hole;
	l.no_span = NULL;
	try_loop(l, 0, 777);
	l.no_call = some;
	try_loop(l, 0, 52);
}

/* Thread 1 is numbered before thread 0, though it called after it. */
static void threads_swap(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t us = 100 + i * 20;
		bool swaps = i % 10 == 3;
		launch(w, 0, kernel_name(w, 0), us);
		launch(w, 1, kernel_name(w, 1), us + 1);
		kernel(w, 10 + i * 2 + swaps, kernel_name(w, 0), us + 6, 1);
		kernel(w, 10 + i * 2 + !swaps, kernel_name(w, 1), us + 8, 1);
	}
	struct timeline t = made(w, (struct timeline_options){0});
	assert_int_equal(t.matched_spans, 2000);
	assert_int_equal(t.unmatched_calls, 0);
	for (size_t i = 0; i < t.spans.len; i++) {
		const struct timeline_span *s = &t.spans.data[i];
		const struct timeline_call *c = &t.calls.data[s->call];
		assert_int_equal(timeline_kind_of(&t, s)->name, timeline_call_kind_of(&t, c)->name);
		assert_true(s->start_ns - c->start_ns < 10 * US);
	}
	done(&t);
}

static void work(struct rec_writer *w, struct m_gpu_span s)
{
	s.pid = 7;
	rec_put_gpu_span(w, &s);
}

static void classes_are_told_apart(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t name = rec_string_z(w, "add");
	launch(w, 0, name, 10);
	GPU_CALL(w, 0, GS_HTOD_ASYNC, 20 * US, 3 * US, 4096, STREAM);
	GPU_CALL(w, 0, GS_SET_ASYNC, 30 * US, 3 * US, 64, STREAM);
	GPU_CALL(w, 0, GS_GRAPH_LAUNCH, 40 * US, 3 * US, 0x9000, STREAM);
	gpu_sample_call_full(w, 0, GS_LAUNCH, 50 * US, US, (const uint64_t[8]){name}, 0, CALL_ERROR,
			     1);
	GPU_CALL(w, 0, GS_SYNC, 60 * US, 30 * US, STREAM);
	launch(w, 0, name, 100);
	work(w, (struct m_gpu_span){16 * US, 17 * US, .correlation = 1, .name = (uint32_t)name});
	work(w, (struct m_gpu_span){26 * US, 27 * US, .correlation = 2, .work = WORK_COPY});
	work(w, (struct m_gpu_span){36 * US, 37 * US, .correlation = 3, .work = WORK_SET});
	for (uint64_t i = 0; i < 3; i++)
		work(w, (struct m_gpu_span){(46 + i) * US, (47 + i) * US, .correlation = 4,
					    .graph_node = 5 + i});
	work(w, (struct m_gpu_span){61 * US, 89 * US, .correlation = 6, .work = WORK_SYNC,
				    .copy_kind = SYNC_STREAM});
	work(w, (struct m_gpu_span){99 * US, 109 * US, .correlation = 7, .name = (uint32_t)name});
	struct timeline t = made(w, (struct timeline_options){0});
	static const uint8_t roles[] = {GPU_LAUNCH,	  GPU_COPY,	    GPU_SET,
					GPU_GRAPH_LAUNCH, GPU_GRAPH_LAUNCH, GPU_GRAPH_LAUNCH,
					GPU_SYNC,	  GPU_LAUNCH};
	assert_int_equal(t.spans.len, 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(role_of(&t, t.spans.data[i].call), roles[i]);
	assert_int_equal(t.calls.data[t.spans.data[3].call].spans, 3);
	assert_int_equal(t.by_call.data[t.calls.data[t.spans.data[3].call].first_span], 3);
	assert_int_equal(t.early_spans, 1); /* the last one, by a microsecond */
	assert_int_equal(t.matched_spans, 7);
	assert_int_equal(t.unmatched_calls, 0);
	assert_int_equal(t.first_ns, 16 * US);
	assert_int_equal(t.last_ns, 109 * US);
	done(&t);
	t = made(NULL, (struct timeline_options){.from_ns = 36 * US, .to_ns = 48 * US});
	assert_int_equal(t.spans.len, 3);
	assert_int_equal(t.calls.data[t.spans.data[2].call].spans, 2);
	done(&t);
	t = made(NULL, (struct timeline_options){.pid = 8});
	assert_int_equal(t.spans.len + t.calls.len, 0);
	done(&t);
}

/* One call is missing among copies of many sizes; one that copies nothing starts nothing. */
static void copies_are_told_by_bytes(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t bytes = (i * 7 % 13 + 1) * 512;
		if (i != 40)
			GPU_CALL(w, 0, GS_HTOD_ASYNC, (100 + i * 10) * US, 3 * US, bytes, STREAM);
		if (i == 60)
			GPU_CALL(w, 0, GS_HTOD_ASYNC, (105 + i * 10) * US, 3 * US, 0, STREAM);
		work(w, (struct m_gpu_span){.start_ns = (5000 + i) * US,
					    .end_ns = (5001 + i) * US,
					    .correlation = (uint32_t)i,
					    .work = WORK_COPY,
					    .bytes = bytes});
	}
	struct timeline t = made(w, (struct timeline_options){0});
	assert_int_equal(t.matched_spans, 99);
	for (size_t i = 0; i < 100; i++)
		if (i == 40)
			assert_int_equal(t.spans.data[i].call, TIMELINE_NONE);
		else
			assert_int_equal(t.calls.data[t.spans.data[i].call].start_ns,
					 (100 + i * 10) * US);
	done(&t);
}

static void captured_calls_start_nothing(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t name = rec_string_z(w, "add");
	GPU_CALL(w, 0, GS_CAPTURE, 10 * US, US, STREAM);
	launch(w, 0, name, 20);
	GPU_CALL(w, 0, GS_CAPTURE_END, 30 * US, US, STREAM, 0x9000);
	launch(w, 0, name, 40);
	kernel(w, 5, name, 46, 1);
	struct timeline t = made(w, (struct timeline_options){0});
	assert_int_equal(t.calls.len, 1);
	assert_int_equal(t.calls.data[t.spans.data[0].call].start_ns, 40 * US);
	done(&t);
}

/* Numbers of 32 bits begin again after the last. */
static void correlation_numbers_wrap(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	for (unsigned i = 0; i < 100; i++) {
		launch(w, 0, kernel_name(w, i % NAMES), 100 + i * 10);
		kernel(w, UINT32_MAX - 50 + i, kernel_name(w, i % NAMES), 106 + i * 10, 1);
	}
	struct timeline t = made(w, (struct timeline_options){0});
	assert_int_equal(t.matched_spans, 100);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(t.spans.data[i].call, i);
	done(&t);
}

/* What CUPTI says of a call goes before all order. */
static void known_calls_are_taken(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t name = rec_string_z(w, "add");
	struct m_gpu_span s = {.pid = 7, .name = (uint32_t)name};
	for (uint64_t i = 0; i < 100; i++) {
		launch(w, i % 2 ? 1 : 0, name, 100 + i * 2); /* each ends after the next began */
		s.start_ns = (1000 + i) * US;
		s.end_ns = s.start_ns + 1;
		s.correlation = (uint32_t)(200 - i);
		s.called_ns = i % 10 ? (101 + i * 2) * US : 0;
		s.called_dur_ns = US;
		s.called_tid = i % 2 ? 9 : 7;
		rec_put_gpu_span(w, &s);
	}
	s.called_ns = 5000 * US; /* not recorded */
	rec_put_gpu_span(w, &s);
	struct timeline t = made(w, (struct timeline_options){0});
	assert_int_equal(t.unmatched_spans, 1);
	assert_int_equal(t.matched_spans, 100);
	for (size_t i = 0; i < 100; i++)
		if (i % 10)
			assert_int_equal(t.spans.data[i].call, i);
	done(&t);
}

/* eacgm came to a running job: work and calls of one kind are there before the other's. */
static void what_was_not_traced_is_told_apart(void **state)
{
	(void)state;
	for (unsigned calls_first = 0; calls_first < 2; calls_first++) {
		struct rec_writer *w = created();
		for (unsigned i = 0; i < 300; i++) {
			uint64_t name = kernel_name(w, i); /* no loop, which fits elsewhere too */
			if ((calls_first || i >= 100) && i != 200)
				launch(w, 0, name, 100 + i * 10);
			if ((!calls_first || i >= 100) && i != 250)
				kernel(w, 10 + i, name, 106 + i * 10, 1);
		}
		struct timeline t = made(w, (struct timeline_options){0});
		assert_int_equal(t.unmatched_spans, calls_first ? 1 : 101);
		assert_int_equal(t.unmatched_calls, calls_first ? 101 : 1);
		assert_int_equal(t.outside_spans, calls_first ? 0 : 100);
		assert_int_equal(t.outside_calls, calls_first ? 100 : 0);
		done(&t);
	}
}

/* A launch that was asked for has work, even when that begins after what was asked for. */
static void work_after_the_asked_time_is_not_missing(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	for (unsigned i = 0; i < 100; i++) {
		launch(w, 0, kernel_name(w, i % NAMES), 100 + i * 10);
		kernel(w, 10 + i, kernel_name(w, i % NAMES), 250 + i * 10, 1);
	}
	struct timeline t = made(w, (struct timeline_options){.to_ns = 500 * US});
	assert_int_equal(t.matched_spans, 25);
	assert_int_equal(t.unmatched_calls, 0);
	assert_int_equal(t.spans.len, 25);
	done(&t);
}

static void groups_hold_collectives(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t name = rec_string_z(w, "ncclDevKernel");
	/* alone: its launch is in it */
	GPU_CALL(w, 0, GS_ALL_REDUCE, 10 * US, 20 * US, 64, 16, 7, 0, 0x55, STREAM, 3);
	launch(w, 0, name, 15);
	/* in a group: the launch is in the call that ends it */
	GPU_CALL(w, 0, GS_GROUP_START, 100 * US, US, 0);
	GPU_CALL(w, 0, GS_GROUP_START, 102 * US, US, 0);
	GPU_CALL(w, 0, GS_ALL_REDUCE, 104 * US, 2 * US, 64, 16, 7, 0, 0x55, STREAM, 4);
	GPU_CALL(w, 0, GS_GROUP_END, 107 * US, US, 0);
	GPU_CALL(w, 0, GS_SEND, 110 * US, 2 * US, 64, 16, 7, 1, 0x55, STREAM, 0);
	GPU_CALL(w, 0, GS_GROUP_END, 120 * US, 20 * US, 0);
	launch(w, 0, name, 125);
	launch(w, 1, name, 126); /* of another thread */
	struct timeline t = made(w, (struct timeline_options){0});
	const struct timeline_call *c = t.calls.data;
	assert_int_equal(t.calls.len, 10);
	const struct timeline_call_kind *first = timeline_call_kind_of(&t, c);
	assert_int_equal(first->sequence, 3);
	assert_int_equal(first->comm, 0x55);
	assert_int_equal(first->bytes, 64);
	assert_int_equal(c[1].parent, 0);
	assert_int_equal(role_of(&t, 4), GPU_COLLECTIVE);
	assert_int_equal(c[4].parent, 7);
	assert_int_equal(role_of(&t, 6), GPU_P2P);
	assert_int_equal(c[6].parent, 7);
	assert_int_equal(c[7].parent, TIMELINE_NONE);
	assert_int_equal(c[8].parent, 7);
	assert_int_equal(c[9].parent, TIMELINE_NONE);
	assert_int_equal(t.unmatched_calls, 3);
	done(&t);
}

/* The driver's call of a span may be long before it, or, of clocks that differ, behind it. */
static void calls_are_known_from_far(void **state)
{
	(void)state;
	static const uint64_t called_us[] = {9000000 - 6000000, 9000000 - 1, 9000000, 9000003, 0};
	struct rec_writer *w = created();
	for (uint32_t i = 0; i < 5; i++)
		rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = 9000000 * US,
							 .end_ns = 9000001 * US,
							 .pid = 7,
							 .correlation = i,
							 .called_ns = called_us[i] * US,
							 .called_tid = 7});
	struct timeline t = made(w, (struct timeline_options){0});
	assert_int_equal(t.spans.len, 5);
	for (size_t i = 0; i < t.spans.len; i++)
		assert_int_equal(timeline_called_ns(&t, &t.spans.data[i]), called_us[i] * US);
	done(&t);
}

/* More kinds than are kept to be looked up, each of them twice. */
static void kinds_are_many(void **state)
{
	enum { KINDS = 70000 };
	(void)state;
	struct rec_writer *w = created();
	for (uint32_t i = 0; i < 2 * KINDS; i++)
		rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = (100 + i) * US,
							 .end_ns = (100 + i) * US,
							 .pid = 7,
							 .work = WORK_COPY,
							 .bytes = i % KINDS,
							 .stream = i % KINDS});
	struct timeline t = made(w, (struct timeline_options){0});
	assert_int_equal(t.spans.len, 2 * KINDS);
	for (uint32_t i = 0; i < 2 * KINDS; i++) {
		const struct timeline_kind *k = timeline_kind_of(&t, &t.spans.data[i]);
		assert_int_equal(k->bytes, i % KINDS);
		assert_int_equal(k->stream, i % KINDS);
	}
	assert_true(t.kinds.len >= KINDS && t.kinds.len <= 2 * KINDS);
	done(&t);
}

/* What a report holds of millions of them. */
static void spans_are_small(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct timeline_span), 32);
	struct rec_writer *w = created();
	for (uint32_t i = 0; i < 10000; i++)
		kernel(w, i, kernel_name(w, i % 40), 100 + i * 10, 5);
	struct timeline t = made(w, (struct timeline_options){0});
	assert_int_equal(t.kinds.len, 40);
	done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_recorded),
		cmocka_unit_test(beginnings_and_ends_are_missing),
		cmocka_unit_test(some_are_missing),
		cmocka_unit_test(threads_swap),
		cmocka_unit_test(classes_are_told_apart),
		cmocka_unit_test(copies_are_told_by_bytes),
		cmocka_unit_test(captured_calls_start_nothing),
		cmocka_unit_test(correlation_numbers_wrap),
		cmocka_unit_test(known_calls_are_taken),
		cmocka_unit_test(what_was_not_traced_is_told_apart),
		cmocka_unit_test(work_after_the_asked_time_is_not_missing),
		cmocka_unit_test(groups_hold_collectives),
		cmocka_unit_test(calls_are_known_from_far),
		cmocka_unit_test(kinds_are_many),
		cmocka_unit_test(spans_are_small),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

/* session_feed_test.c - the queue between recording and detecting: all that is passed comes out
 * once and in order, names before the rows that need them; where the reader is slow events are left
 * out, exactly as many as are counted, and names never.
 *
 * links: cli */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/pipeline_impl.h"
#include "session/session_feed.h"
#include "session/session_names.h"

struct run {
	struct pipeline *p;
	struct feed *feed;
};

static void begin_for(struct run *r, size_t most_bytes, unsigned readers)
{
	struct rec_writer *w;
	struct err e = {""};
	if (rec_writer_open(&w, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	r->p = pipeline_new(w, "/proc", NULL);
	r->feed = feed_new(most_bytes, readers);
	feed_listen(r->feed, r->p);
}

static void begin(struct run *r, size_t most_bytes)
{
	begin_for(r, most_bytes, 1);
}

static void end(struct run *r)
{
	struct err e = {""};
	assert_int_equal(pipeline_close(r->p, &e), 0);
	feed_free(r->feed);
}

static void end_all(struct run *r)
{
	feed_end(r->feed);
	feed_end_of(r->feed, 0);
}

static void define(struct run *r, uint32_t id)
{
	char name[32];
	snprintf(name, sizeof(name), "function %u", id);
	struct pipeline_probe probe = {.id = id,
				       .layer = "torch",
				       .library = "libx.so",
				       .symbol = "x",
				       .name = name,
				       .name_arg = -1};
	pipeline_define_probe(r->p, &probe);
}

static void pass(struct run *r, uint32_t probe, uint64_t first, uint64_t n)
{
	for (uint64_t i = first; i < first + n; i++) {
		struct rec_call c = {.kind = REC_CALL,
				     .probe = probe,
				     .tgid = (uint32_t)getpid(),
				     .tid = (uint32_t)getpid(),
				     .start_ns = i,
				     .dur_ns = 1};
		pipeline_record(r->p, &c, sizeof(c));
	}
	pipeline_pass_end(r->p);
	feed_pass(r->feed, (first + n) * 1000000000ULL);
}

#define PASSES	 300
#define PER_PASS 500

struct reader {
	struct run *run;
	uint64_t calls, wrong, upto_ns;
	uint32_t batches;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;
	struct session_names names;
	struct detect_names n;
	const struct feed_batch *b;
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &n);
	while ((b = feed_take(r->run->feed, 0))) {
		session_names_take(&names, b);
		r->batches++;
		r->wrong += b->upto_ns && b->upto_ns <= r->upto_ns;
		r->upto_ns = b->upto_ns ? b->upto_ns : r->upto_ns;
		for (size_t i = 0; i < b->calls.len; i++) {
			const struct m_call *c = &b->calls.data[i];
			const struct m_probe *probe = n.probe(n.ctx, c->probe);
			const struct m_thread *thread = n.thread(n.ctx, c->thread);
			char expected[32];
			snprintf(expected, sizeof(expected), "function %u",
				 (unsigned)(c->start_ns / PER_PASS));
			r->wrong += c->start_ns != r->calls++ || !probe || !thread ||
				    thread->pid != (uint32_t)getpid() ||
				    strcmp(n.string(n.ctx, probe->name), expected);
		}
		session_names_forget(&names, b);
		feed_give_back(r->run->feed, 0, b);
	}
	session_names_free(&names);
	return NULL;
}

static void test_all_comes_once(void **state)
{
	(void)state;
	struct run run;
	struct reader reader = {.run = &run};
	pthread_t thread;
	begin(&run, FEED_BYTES);
	assert_int_equal(pthread_create(&thread, NULL, read_all, &reader), 0);
	for (uint32_t i = 0; i < PASSES; i++) {
		define(&run, i);
		pass(&run, i, (uint64_t)i * PER_PASS, PER_PASS);
	}
	end_all(&run);
	pthread_join(thread, NULL);
	assert_int_equal(reader.calls, PASSES * PER_PASS);
	assert_int_equal(reader.wrong, 0);
	assert_true(reader.batches > 1);
	assert_int_equal(feed_overruns(run.feed, 0), 0);
	end(&run);
}

/* Nobody reads until all was passed. */
static void test_slow_reader(void **state)
{
	(void)state;
	struct run run;
	struct session_names names;
	struct detect_names n;
	const struct feed_batch *b;
	uint64_t calls = 0, before = UINT64_MAX, left_out = 0;
	begin(&run, 1000 * sizeof(struct m_call));
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &n);
	for (uint32_t i = 0; i < 10; i++) {
		define(&run, i);
		pass(&run, i, i * 300u, 300);
	}
	end_all(&run);
	while ((b = feed_take(run.feed, 0))) {
		session_names_take(&names, b);
		for (size_t i = 0; i < b->calls.len; i++, calls++) {
			assert_true(before == UINT64_MAX || b->calls.data[i].start_ns > before);
			before = b->calls.data[i].start_ns;
		}
		left_out += b->overruns;
		assert_true(!b->overruns || !b->calls.len);
		feed_give_back(run.feed, 0, b);
	}
	assert_int_equal(calls, 900); /* whole passes */
	assert_int_equal(feed_overruns(run.feed, 0), 2100);
	assert_int_equal(left_out, 2100);
	for (uint32_t i = 0; i < 10; i++) {
		char expected[32];
		snprintf(expected, sizeof(expected), "function %u", i);
		assert_non_null(n.probe(n.ctx, i));
		assert_string_equal(n.string(n.ctx, n.probe(n.ctx, i)->name), expected);
	}
	session_names_free(&names);
	end(&run);
}

/* What the reader gave back makes room again. */
static void test_room_comes_back(void **state)
{
	(void)state;
	struct run run;
	begin(&run, 1000 * sizeof(struct m_call));
	define(&run, 0);
	for (uint32_t i = 0; i < 50; i++) {
		pass(&run, 0, i * 900u, 900);
		const struct feed_batch *b = feed_take(run.feed, 0);
		assert_int_equal(b->calls.len, 900);
		feed_give_back(run.feed, 0, b);
	}
	assert_int_equal(feed_overruns(run.feed, 0), 0);
	end_all(&run);
	end(&run);
}

/* One of two readers stands still: the other has all, and of what waited the oldest rows are left
 * out for the first alone. Names never are, and nothing more comes for each when it is told so. */
static void test_one_of_two_lags(void **state)
{
	(void)state;
	struct run run;
	const struct feed_batch *b;
	uint64_t calls = 0, left_out = 0, probes = 0, first_ns = 0;
	begin_for(&run, 1000 * sizeof(struct m_call), 2);
	for (uint32_t i = 0; i < 10; i++) {
		define(&run, i);
		pass(&run, i, i * 300u, 300);
		b = feed_take(run.feed, 0);
		assert_int_equal(b->calls.len, 300);
		assert_int_equal(b->overruns, 0);
		feed_give_back(run.feed, 0, b);
	}
	feed_end(run.feed);
	feed_end_of(run.feed, 1);
	while ((b = feed_take(run.feed, 1))) {
		if (!calls && b->calls.len)
			first_ns = b->calls.data[0].start_ns;
		calls += b->calls.len;
		left_out += b->overruns;
		probes += b->probes.len;
		feed_give_back(run.feed, 1, b);
	}
	assert_int_equal(probes, 10);
	assert_int_equal(calls, 900);
	assert_int_equal(first_ns, 2100);
	assert_int_equal(left_out, 2100);
	assert_int_equal(feed_overruns(run.feed, 0), 0);
	assert_int_equal(feed_overruns(run.feed, 1), 2100);
	end(&run);
}

/* While nobody has read anything the new rows are left out; what one gives back then, the other
 * does without. */
static void test_one_lags_after_both(void **state)
{
	(void)state;
	struct run run;
	begin_for(&run, 1000 * sizeof(struct m_call), 2);
	define(&run, 0);
	pass(&run, 0, 0, 900);
	pass(&run, 0, 900, 300);
	pass(&run, 0, 1200, 300);
	assert_int_equal(feed_overruns(run.feed, 0), 600);
	assert_int_equal(feed_overruns(run.feed, 1), 600);
	for (unsigned i = 0; i < 3; i++)
		feed_give_back(run.feed, 0, feed_take(run.feed, 0));
	pass(&run, 0, 1500, 900);
	assert_int_equal(feed_overruns(run.feed, 0), 600);
	assert_int_equal(feed_overruns(run.feed, 1), 1500);
	const struct feed_batch *b = feed_take(run.feed, 0);
	assert_int_equal(b->calls.len, 900);
	feed_give_back(run.feed, 0, b);
	end_all(&run);
	end(&run);
}

/* What one looks at stays as it is, however long that takes; then the new ones are left out. */
static void test_what_is_read_stays(void **state)
{
	(void)state;
	struct run run;
	begin_for(&run, 1000 * sizeof(struct m_call), 2);
	define(&run, 0);
	pass(&run, 0, 0, 900);
	const struct feed_batch *held = feed_take(run.feed, 1), *b = feed_take(run.feed, 0);
	feed_give_back(run.feed, 0, b);
	pass(&run, 0, 900, 300);
	assert_int_equal(held->calls.len, 900);
	assert_int_equal(held->calls.data[899].start_ns, 899);
	feed_give_back(run.feed, 1, held);
	for (unsigned reader = 0; reader < 2; reader++) {
		b = feed_take(run.feed, reader);
		assert_int_equal(b->calls.len, 0);
		assert_int_equal(b->overruns, 300);
		feed_give_back(run.feed, reader, b);
		assert_int_equal(feed_overruns(run.feed, reader), 300);
	}
	pass(&run, 0, 1200, 900);
	b = feed_take(run.feed, 0);
	assert_int_equal(b->calls.len, 900);
	feed_give_back(run.feed, 0, b);
	end_all(&run);
	end(&run);
}

static size_t bytes_in_use(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static uint64_t take_all(struct run *r, uint64_t upto_ns)
{
	uint64_t calls = 0, seen_ns = 0;
	while (seen_ns < upto_ns) {
		const struct feed_batch *b = feed_take(r->feed, 0);
		calls += b->calls.len;
		seen_ns = b->upto_ns;
		feed_give_back(r->feed, 0, b);
	}
	return calls;
}

/* Many calls at once, and a reader who stands still: what they took is given back some time later,
 * here and in the pipeline. Where malloc does not count (sanitizers), nothing is compared. */
static void test_a_pause_leaves_nothing(void **state)
{
	(void)state;
	struct run run;
	uint64_t now = 0, calls = 0;
	size_t before = 0;
	begin(&run, FEED_BYTES);
	define(&run, 0);
	for (uint32_t i = 0; i < 100; i++, now += 100) {
		pass(&run, 0, now, 100);
		calls += take_all(&run, (now + 100) * 1000000000ULL);
	}
	before = bytes_in_use();
	for (uint32_t i = 0; i < 12; i++, now += 30000)
		pass(&run, 0, now, 30000);
	calls += take_all(&run, now * 1000000000ULL);
	for (uint32_t i = 0; i < 5000; i++, now += 100) {
		pass(&run, 0, now, 100);
		calls += take_all(&run, (now + 100) * 1000000000ULL);
	}
	assert_int_equal(calls, now);
	assert_true(bytes_in_use() < before + (1u << 20));
	end_all(&run);
	end(&run);
}

/* A reader who falls behind once makes batches that are as large as is usual then: of those few are
 * kept. The first takes of the pipeline what it needs for so many calls. */
static void test_large_batches_are_few(void **state)
{
	(void)state;
	struct run run;
	uint64_t now = 0, calls = 0;
	begin(&run, FEED_BYTES);
	define(&run, 0);
	for (uint32_t i = 0; i < 2; i++, now += 30000)
		pass(&run, 0, now, 30000);
	calls += take_all(&run, now * 1000000000ULL);
	size_t before = bytes_in_use();
	for (uint32_t i = 0; i < 8; i++, now += 30000)
		pass(&run, 0, now, 30000);
	calls += take_all(&run, now * 1000000000ULL);
	assert_int_equal(calls, now);
	assert_true(bytes_in_use() < before + (4u << 20));
	end_all(&run);
	end(&run);
}

static void pass_counters(struct run *r, uint64_t now, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		pipeline_counter(r->p, now + i, &ENTITY_OF_GPU(0, -1, 0), "power_w", i);
	pipeline_pass_end(r->p);
	feed_pass(r->feed, (now + n) * 1000000000ULL);
}

static uint64_t take_counters(struct run *r, uint64_t upto_ns)
{
	uint64_t counters = 0, seen_ns = 0;
	while (seen_ns < upto_ns) {
		const struct feed_batch *b = feed_take(r->feed, 0);
		counters += b->counters.len;
		seen_ns = b->upto_ns;
		feed_give_back(r->feed, 0, b);
	}
	return counters;
}

/* Likewise of other rows than calls. */
static void test_large_batches_of_counters(void **state)
{
	(void)state;
	struct run run;
	uint64_t now = 0, counters = 0;
	begin(&run, FEED_BYTES);
	for (uint32_t i = 0; i < 2; i++, now += 60000)
		pass_counters(&run, now, 60000);
	counters += take_counters(&run, now * 1000000000ULL);
	size_t before = bytes_in_use();
	for (uint32_t i = 0; i < 8; i++, now += 60000)
		pass_counters(&run, now, 60000);
	counters += take_counters(&run, now * 1000000000ULL);
	assert_int_equal(counters, now);
	assert_true(bytes_in_use() < before + (4u << 20));
	end_all(&run);
	end(&run);
}

static void test_counters_that_wait_take_their_room(void **state)
{
	(void)state;
	struct run run;
	uint64_t now = 0;
	begin(&run, 300000 * sizeof(struct m_counter));
	for (uint32_t i = 0; i < 2; i++, now += 9000)
		pass_counters(&run, now, 9000);
	assert_int_equal(take_counters(&run, now * 1000000000ULL), now);
	size_t before = bytes_in_use();
	for (uint32_t i = 0; i < 32; i++, now += 9000)
		pass_counters(&run, now, 9000);
	assert_true(bytes_in_use() < before + 300000 * sizeof(struct m_counter) * 5 / 4);
	take_counters(&run, now * 1000000000ULL);
	assert_int_equal(feed_overruns(run.feed, 0), 0);
	end_all(&run);
	end(&run);
}

/* Calls of which there are a few more than there was room for: where many batches wait, that is
 * given back. */
static void test_what_waits_takes_its_room(void **state)
{
	(void)state;
	struct run run;
	uint64_t now = 0;
	begin(&run, 300000 * sizeof(struct m_call));
	define(&run, 0);
	for (uint32_t i = 0; i < 2; i++, now += 9000)
		pass(&run, 0, now, 9000);
	assert_int_equal(take_all(&run, now * 1000000000ULL), now);
	size_t before = bytes_in_use();
	for (uint32_t i = 0; i < 32; i++, now += 9000)
		pass(&run, 0, now, 9000);
	assert_true(bytes_in_use() < before + 300000 * sizeof(struct m_call) * 5 / 4);
	take_all(&run, now * 1000000000ULL);
	assert_int_equal(feed_overruns(run.feed, 0), 0);
	end_all(&run);
	end(&run);
}

/* A session closes its pipeline after the feed: what that tells then is for nobody. */
static void test_nothing_after_the_end(void **state)
{
	(void)state;
	struct run run;
	const struct feed_batch *b;
	size_t calls = 0, losses = 0, probes = 0;
	begin(&run, FEED_BYTES);
	define(&run, 0);
	pass(&run, 0, 0, 10);
	end_all(&run);
	define(&run, 1);
	pass(&run, 1, 10, 10);
	pipeline_loss(run.p, "bad_record", 0, 1);
	while ((b = feed_take(run.feed, 0))) {
		calls += b->calls.len;
		feed_give_back(run.feed, 0, b);
	}
	end_all(&run); /* hands out whatever came meanwhile */
	while ((b = feed_take(run.feed, 0))) {
		calls += b->calls.len;
		losses += b->losses.len;
		probes += b->probes.len;
		feed_give_back(run.feed, 0, b);
	}
	assert_int_equal(calls, 10);
	assert_int_equal(losses, 0);
	assert_int_equal(probes, 0);
	end(&run);
}

/* Counters of 500 processes, one after the other for ten seconds each: their names go a minute
 * later, and those of the ones that are there are known. */
static void test_names_of_processes_go(void **state)
{
	(void)state;
	struct run run;
	struct session_names names;
	struct detect_names n;
	uint32_t strings = 0;
	size_t gone = 0, most = 0;
	begin(&run, FEED_BYTES);
	pipeline_forget_ended(run.p);
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &n);
	for (uint32_t i = 0; i < 50000; i++) {
		char entity[32];
		uint32_t pid = 300 + i / 100;
		struct entity of = i % 2 ? ENTITY_OF_PID(pid) : ENTITY_OF_GPU(0, -1, pid);
		entity_text(entity, sizeof(entity), &of);
		uint64_t now_ns = (i + 1) * 100000000ULL;
		pipeline_counter(run.p, now_ns, &ENTITY_OF_GPU(0, -1, 0), "power_w", 1);
		pipeline_counter(run.p, now_ns, &of, "cpu_ratio", 1);
		pipeline_note(run.p, entity, entity);
		pipeline_event(run.p, now_ns, entity, "anomaly", entity);
		pipeline_pass_end(run.p);
		feed_pass(run.feed, now_ns);
		const struct feed_batch *b = feed_take(run.feed, 0);
		session_names_take(&names, b);
		assert_int_equal(b->counters.len, 2);
		assert_int_equal(n.metric(n.ctx, b->counters.data[0].metric)->pid, 0);
		const struct m_metric *m = n.metric(n.ctx, b->counters.data[1].metric);
		assert_int_equal(m->kind, of.kind);
		assert_int_equal(m->pid, pid);
		assert_string_equal(n.string(n.ctx, m->name), "cpu_ratio");
		session_names_forget(&names, b);
		gone += b->metrics_gone.len;
		most = names.metrics.len > most ? names.metrics.len : most;
		feed_give_back(run.feed, 0, b);
		strings = i == 100 ? rec_string_count(run.p->writer) : strings;
	}
	assert_true(gone > 900 && most < 30);
	assert_int_equal(rec_string_count(run.p->writer), strings);
	assert_int_equal(names.strings.len, strings);
	assert_null(n.metric(n.ctx, 0x7fffffff));
	end_all(&run);
	session_names_free(&names);
	end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_comes_once),
		cmocka_unit_test(test_slow_reader),
		cmocka_unit_test(test_room_comes_back),
		cmocka_unit_test(test_one_of_two_lags),
		cmocka_unit_test(test_one_lags_after_both),
		cmocka_unit_test(test_what_is_read_stays),
		cmocka_unit_test(test_a_pause_leaves_nothing),
		cmocka_unit_test(test_large_batches_are_few),
		cmocka_unit_test(test_large_batches_of_counters),
		cmocka_unit_test(test_what_waits_takes_its_room),
		cmocka_unit_test(test_counters_that_wait_take_their_room),
		cmocka_unit_test(test_nothing_after_the_end),
		cmocka_unit_test(test_names_of_processes_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* call_rings_forged_test.c - files of calls that make no sense cost what they say, and nothing
 * else.
 *
 * links: base collect symbolize */
#include "ring_process.h"

#include <sys/stat.h>

#include "base/clock.h"

/* ---- what makes no sense ---- */

/* What is behind it comes again, where the writer goes on from a place that makes sense. */
static void goes_on(struct process *p, uint64_t head)
{
	p->heads[0] = head;
	forget_told();
	put_call(p, 0, 777, 778);
	assert_int_equal(call_rings_drain(t.rings), 1);
	assert_int_equal(t.calls.data[0].call.start_ns, 777);
	assert_int_equal(tail_of(p, 0), p->heads[0]);
}

static void test_forged_heads(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	put_call(&p, 0, 10, 20);
	assert_int_equal(call_rings_drain(t.rings), 1);
	const uint64_t tail = p.heads[0];
	const uint64_t heads[] = {tail - 8,
				  0,
				  tail + CALL_RING_BYTES + 8,
				  tail + 8,  /* amid a record */
				  tail + 24, /* of zeros, and not as many as it says */
				  1ULL << 63,
				  UINT64_MAX - 7};
	for (size_t i = 0; i < COUNT(heads); i++) {
		/* back to where it was */
		struct call_rings_stats before = stats();
		uint64_t words[3] = {0x0008000000000000ULL, 1, 2}; /* eight arguments */
		uint64_t head = heads[i];
		if (i == 4) {
			p.heads[0] = tail_of(&p, 0);
			put_words(&p, 0, words, 3);
			head = p.heads[0];
		} else if (i == 3) {
			head = tail_of(&p, 0) + 8;
		}
		PUT_SLOT(&p, 0, head, head);
		assert_int_equal(call_rings_drain(t.rings), 0);
		assert_int_equal(stats().bad_records, before.bad_records + 1);
		assert_int_equal(tail_of(&p, 0), head);
		assert_int_equal(call_rings_drain(t.rings), 0);
		assert_int_equal(stats().bad_records, before.bad_records + 1);
		if (head < 1ULL << 62)
			goes_on(&p, head);
	}
	close(p.fd);
}

static void test_odd_head(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	put_call(&p, 0, 10, 20);
	for (uint64_t odd = 1; odd < 8; odd++) {
		PUT_SLOT(&p, 0, head, p.heads[0] + odd);
		assert_int_equal(call_rings_drain(t.rings), 0);
		assert_int_equal(stats().bad_records, odd);
	}
	close(p.fd);
}

/* "Of a ring that makes no sense all that is in it is skipped, and counted once." */
static void test_odd_head_counts_once(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	PUT_SLOT(&p, 0, head, 36);
	call_rings_drain(t.rings);
	assert_int_equal(stats().bad_records, 1);
	for (int i = 0; i < 5; i++)
		call_rings_drain(t.rings);
	assert_int_equal(stats().bad_records, 1);
	close(p.fd);
}

static void test_forged_records(void **state)
{
	static const struct call_record forged[] = {
		{.nargs = MAX_ARGS + 1, .start = 1, .end = 2},
		{.nargs = UINT8_MAX, .start = 1, .end = 2},
		{.start = 2, .end = 1},
		{.start = UINT64_MAX, .end = 0},
		{.flags = CALL_INSTANT, .start = 1, .end = 2},
		{.flags = CALL_OPEN, .start = 1, .end = 2},
		{.flags = UINT8_MAX, .start = 1, .end = 2},
		{.probe = MAX_PROBES, .start = 1, .end = 2},
		{.probe = UINT32_MAX, .start = 1, .end = 2},
		{.marked = 2, .start = 1, .end = 2},
		{.marked = UINT8_MAX, .nargs = MAX_ARGS, .start = 1, .end = 2},
	};
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	for (size_t i = 0; i < COUNT(forged); i++) {
		forget_told();
		put_call(&p, 0, 10, 20);
		put_record(&p, 0, &forged[i]);
		put_call(&p, 0, 30, 40); /* whether a record is there cannot be told */
		assert_int_equal(call_rings_drain(t.rings), 1);
		assert_int_equal(t.calls.data[0].call.start_ns, 10);
		assert_int_equal(stats().bad_records, i + 1);
		assert_int_equal(tail_of(&p, 0), p.heads[0]);
		goes_on(&p, p.heads[0]);
	}
	close(p.fd);
}

/* It costs that thread's calls alone. */
static void test_other_threads_go_on(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		begin_thread(&p, i, 100 + i);
		put_call(&p, i, 10, 20);
	}
	PUT_SLOT(&p, 1, head, 12345678ULL);
	assert_int_equal(call_rings_drain(t.rings), 2);
	assert_int_equal(stats().bad_records, 1);
	close(p.fd);
}

/* A slot whose thread has left is free, also when nothing of it could be read. */
static void test_forged_slot_is_freed(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	PUT_SLOT(&p, 0, head, 12345678ULL);
	PUT_SLOT(&p, 0, state, CALL_SLOT_LEFT);
	assert_int_equal(call_rings_drain(t.rings), 0);
	assert_int_equal(state_of(&p, 0), CALL_SLOT_FREE);
	assert_int_equal(tail_of(&p, 0), 12345678ULL);
	begin_thread(&p, 1, 1235);
	PUT_SLOT(&p, 1, state, 77);
	put_call(&p, 1, 10, 20);
	assert_int_equal(call_rings_drain(t.rings), 1);
	close(p.fd);
}

/* Cut short, from the beginning or later. */
static void test_truncated(void **state)
{
	const off_t lengths[] = {
		0,
		1,
		sizeof(struct call_header) - 1,
		sizeof(struct call_header),
		CALL_HEADER_BYTES,
		CALL_HEADER_BYTES + 1,
		CALL_HEADER_BYTES + offsetof(struct call_slot, depth) - 1,
		CALL_HEADER_BYTES + offsetof(struct call_slot, depth),
		CALL_HEADER_BYTES + sizeof(struct call_slot) - 1,
		CALL_HEADER_BYTES + sizeof(struct call_slot),
		CALL_HEADER_BYTES + CALL_SLOT_HEADER,
		CALL_HEADER_BYTES + CALL_SLOT_HEADER + 31,
		CALL_HEADER_BYTES + CALL_SLOT_HEADER + 32,
		CALL_HEADER_BYTES + CALL_SLOT_HEADER + 40,
		CALL_HEADER_BYTES + CALL_SLOT_BYTES,
	};
	(void)state;
	for (size_t i = 0; i < COUNT(lengths); i++) {
		char name[64];
		struct stat st;
		size_t calls = 0;
		snprintf(name, sizeof(name), "%d.%zu", getpid(), i);
		struct process p = make_process(name, false);
		begin_thread(&p, 0, 1234);
		put_call(&p, 0, 10, 20);
		put_call(&p, 0, 30, 40);
		if (i % 2) /* it was whole when it was found */
			calls = drain_until(i + 1);
		assert_int_equal(ftruncate(p.fd, lengths[i]), 0);
		calls += drain_until(i + 1);
		for (int k = 0; k < 3; k++)
			calls += call_rings_drain(t.rings);
		call_rings_open_calls(t.rings);
		call_rings_stop(t.rings);
		assert_in_range(calls, i % 2 ? 2 : 0, 2);
		/* nothing of it grew but for the word that says to stop */
		assert_int_equal(fstat(p.fd, &st), 0);
		assert_true(st.st_size <= lengths[i] ||
			    st.st_size <= (off_t)sizeof(struct call_header));
		close(p.fd);
	}
	struct process whole = make_process(own_name(), false);
	begin_thread(&whole, 0, 1234);
	put_call(&whole, 0, 50, 60);
	assert_int_equal(drain_until(COUNT(lengths) + 1), 1);
	close(whole.fd);
}

/* A ring's part that ends behind its beginning, and whose file ends before. */
static void test_truncated_amid_wrap(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < CALL_RING_BYTES / 64 + 1000; i++)
			put_record(&p, 0, &(struct call_record){.nargs = 4, .start = i, .end = i});
		put_head(&p, 0);
		if (round)
			assert_int_equal(ftruncate(p.fd, CALL_HEADER_BYTES + CALL_SLOT_BYTES / 2),
					 0);
		call_rings_drain(t.rings);
	}
	assert_int_equal(stats().bad_records, 1);
	assert_int_equal(tail_of(&p, 0), p.heads[0]);
	close(p.fd);
}

/* ---- threads' numbers ---- */

static void test_huge_tid(void **state)
{
	static const uint32_t tids[] = {(1u << 22) + 1, INT_MAX, 1u << 31, UINT32_MAX};
	struct process p = make_process(own_name(), false);
	(void)state;
	for (uint32_t i = 0; i < COUNT(tids); i++) {
		begin_thread(&p, i, tids[i]);
		put_call(&p, i, 10 + i, 20 + i);
	}
	call_rings_drain(t.rings);
	for (size_t i = 0; i < t.calls.len; i++)
		assert_int_equal(t.calls.data[i].call.tid, 0);
	close(p.fd);
}

static void test_huge_tid_of_open_call(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_open o = {.start = 10};
	(void)state;
	begin_thread(&p, 0, UINT32_MAX);
	put_open(&p, 0, 0, &o);
	PUT_SLOT(&p, 0, depth, 1);
	drain_until(1);
	call_rings_open_calls(t.rings);
	for (size_t i = 0; i < t.calls.len; i++)
		assert_int_equal(t.calls.data[i].call.tid, 0);
	close(p.fd);
}

/* A thread that is being given slot 0 (claim() and tid are two steps) beside one that has slot 1:
 * "all calls of the process that ended before have come". */
static void test_slot_without_tid(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	drain_until(1);
	PUT_SLOT(&p, 0, state, CALL_SLOT_USED);
	begin_thread(&p, 1, 1235);
	uint64_t now_ns = monotonic_ns();
	put_call(&p, 1, now_ns - 10, now_ns);
	for (int i = 0; i < 3; i++)
		call_rings_drain(t.rings);
	PUT_SLOT(&p, 0, tid, 1234);
	call_rings_drain(t.rings);
	assert_int_equal(t.calls.len, 1);
	assert_false(t.late);
	close(p.fd);
}

/* ---- open calls ---- */

static void test_open_calls(void **state)
{
	struct process p = make_process(own_name(), false);
	uint64_t before = monotonic_ns();
	(void)state;
	begin_thread(&p, 0, 1234);
	begin_thread(&p, 1, 1235);
	for (uint32_t k = 0; k < 3; k++) {
		struct call_open o = {.sp = 1000 - k,
				      .start = before - 100 + k,
				      .probe = 10 + k,
				      .flags = k ? CALL_NESTED | CALL_INSTANT : CALL_ERROR,
				      .nargs = (uint8_t)k,
				      .mark = k * 5,
				      .args = {k, k + 1}};
		put_open(&p, 0, k, &o);
	}
	PUT_SLOT(&p, 0, depth, 2); /* the third has returned */
	drain_until(1);
	assert_int_equal(t.calls.len, 0);
	call_rings_open_calls(t.rings);
	uint64_t after = monotonic_ns();
	assert_int_equal(t.calls.len, 2);
	for (uint32_t k = 0; k < 2; k++) {
		const struct rec_call *c = &t.calls.data[k].call;
		assert_int_equal(c->kind, REC_CALL);
		assert_int_equal(c->flags, (k ? CALL_NESTED : CALL_ERROR) | CALL_OPEN);
		assert_int_equal(c->depth, k);
		assert_int_equal(c->probe, 10 + k);
		assert_int_equal(c->nargs, k);
		assert_int_equal(c->tid, 1234);
		assert_int_equal(c->tgid, getpid());
		assert_int_equal(c->start_ns, before - 100 + k);
		assert_in_range(c->start_ns + c->dur_ns, before, after);
		assert_int_equal(c->args[0], k);
		assert_int_equal(t.calls.data[k].mark, k * 5);
	}
	assert_int_equal(stats().calls, 0); /* they have not returned */
	/* they are no business of a thread that has left */
	forget_told();
	PUT_SLOT(&p, 0, state, CALL_SLOT_LEFT);
	call_rings_open_calls(t.rings);
	PUT_SLOT(&p, 0, state, CALL_SLOT_FREE);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, 0);
	close(p.fd);
}

static void test_forged_open_calls(void **state)
{
	static const struct call_open forged[] = {
		{.start = 1, .probe = MAX_PROBES},
		{.start = 1, .probe = UINT32_MAX},
		{.start = 1, .nargs = MAX_ARGS + 1},
		{.start = 1, .nargs = UINT8_MAX},
		{.start = UINT64_MAX},
		{.start = 1ULL << 63},
	};
	struct process p = make_process(own_name(), false);
	struct call_open good = {.start = 1, .probe = 3, .nargs = MAX_ARGS, .flags = UINT8_MAX};
	(void)state;
	begin_thread(&p, 0, 1234);
	drain_until(1);
	for (uint32_t i = 0; i < COUNT(forged); i++)
		put_open(&p, 0, i, &forged[i]);
	put_open(&p, 0, COUNT(forged), &good);
	PUT_SLOT(&p, 0, depth, COUNT(forged) + 1);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, 1);
	assert_int_equal(t.calls.data[0].call.depth, COUNT(forged));
	assert_int_equal(t.calls.data[0].call.flags, SIMPLE_FLAGS | CALL_OPEN);
	/* no more than there is room for */
	forget_told();
	for (uint32_t i = 0; i < MAX_OPEN_CALLS; i++)
		put_open(&p, 0, i, &good);
	PUT_SLOT(&p, 0, depth, UINT32_MAX);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, MAX_OPEN_CALLS);
	close(p.fd);
}

/* A file that nobody has finished says nothing. */
static void test_open_calls_without_header(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_open o = {.start = 1};
	uint64_t magic = 0;
	(void)state;
	put(&p, offsetof(struct call_header, magic), &magic, sizeof(magic));
	begin_thread(&p, 0, 1234);
	put_open(&p, 0, 0, &o);
	PUT_SLOT(&p, 0, depth, 1);
	drain_until(1);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, 0);
	close(p.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_forged_heads),
		TEST(test_odd_head),
		TEST(test_odd_head_counts_once),
		TEST(test_forged_records),
		TEST(test_other_threads_go_on),
		TEST(test_forged_slot_is_freed),
		TEST(test_truncated),
		TEST(test_truncated_amid_wrap),
		TEST(test_huge_tid),
		TEST(test_huge_tid_of_open_call),
		TEST(test_slot_without_tid),
		TEST(test_open_calls),
		TEST(test_forged_open_calls),
		TEST(test_open_calls_without_header),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

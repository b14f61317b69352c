/* call_rings_hists_test.c - the histograms that processes keep of their calls.
 *
 * links: base collect symbolize */
#include "ring_process.h"

#include "base/clock.h"

struct told_hist {
	struct hist_key key;
	struct hist_value value;
};

static VEC(struct told_hist) hists;

static void on_hist(void *ctx, const struct hist_key *key, const struct hist_value *value)
{
	assert_ptr_equal(ctx, &t);
	assert_int_equal(key->tgid != 0, 1);
	*vec_push(&hists) = (struct told_hist){*key, *value};
}

static size_t look_at_hists(void)
{
	vec_free(&hists);
	call_rings_histograms(t.rings, on_hist, &t);
	return hists.len;
}

static const struct hist_value *hist_of(uint32_t probe, uint64_t name)
{
	for (size_t i = 0; i < hists.len; i++)
		if (hists.data[i].key.probe == probe && hists.data[i].key.name == name)
			return &hists.data[i].value;
	return NULL;
}

static int tear_down_hists(void **state)
{
	vec_free(&hists);
	return tear_down(state);
}

static off_t hist_at(uint32_t i, uint32_t k)
{
	return (off_t)(CALL_HISTS_BEGIN + (uint64_t)i * CALL_HISTS_BYTES + 2 * CALL_HISTS_INDEX +
		       (uint64_t)k * sizeof(struct call_hist));
}

static void put_hist(const struct process *p, uint32_t i, uint32_t k, const struct call_hist *h)
{
	put(p, hist_at(i, k), h, sizeof(*h));
	PUT_SLOT(p, i, hists, k + 1);
}

static struct call_hist hist_like(uint32_t probe, uint64_t name, uint32_t calls)
{
	struct call_hist h = {.probe = probe,
			      .name = name,
			      .value = {.count = calls,
					.errors = calls / 2,
					.nested = calls / 3,
					.total_ns = calls * 100ULL,
					.max_ns = 100}};
	h.value.buckets[2] = calls;
	return h;
}

static void assert_hist(uint32_t probe, uint64_t name, uint64_t calls, uint64_t errors)
{
	const struct hist_value *v = hist_of(probe, name);
	assert_non_null(v);
	assert_int_equal(v->count, calls);
	assert_int_equal(v->errors, errors);
	assert_int_equal(v->total_ns, calls * 100);
	assert_int_equal(v->max_ns, 100);
	assert_int_equal(v->buckets[2], calls);
}

static void test_hists(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_hist a = hist_like(5, 0, 10), b = hist_like(5, 7, 3), c = hist_like(6, 0, 8);
	struct call_hist none = hist_like(9, 0, 0);
	(void)state;
	begin_thread(&p, 0, 1234);
	begin_thread(&p, 1, 1235);
	put_hist(&p, 0, 0, &a);
	put_hist(&p, 0, 1, &b);
	put_hist(&p, 0, 2, &none); /* being made */
	put_hist(&p, 1, 0, &c);
	put_hist(&p, 1, 1, &a);
	drain_until(1);
	for (int i = 0; i < 3; i++) { /* they are what they are, however often it is asked */
		assert_int_equal(look_at_hists(), 3);
		assert_hist(5, 0, 20, 10);
		assert_hist(5, 7, 3, 1);
		assert_hist(6, 0, 8, 4);
		assert_int_equal(stats().counted, 31);
	}
	assert_int_equal(hists.data[0].key.tgid, getpid());
	/* who leaves a slot, and who comes into it, leave what was counted */
	PUT_SLOT(&p, 0, state, CALL_SLOT_LEFT);
	call_rings_drain(t.rings);
	begin_thread(&p, 0, 1236);
	a = hist_like(5, 0, 11);
	put_hist(&p, 0, 0, &a);
	PUT_SLOT(&p, 0, hists, 3);
	PUT_SLOT(&p, 0, uncounted, 5);
	PUT_SLOT(&p, 1, uncounted, 6);
	PUT_SLOT(&p, 1, kept, 2);
	call_rings_drain(t.rings);
	assert_int_equal(look_at_hists(), 3);
	assert_hist(5, 0, 21, 10);
	assert_int_equal(stats().uncounted, 11);
	assert_int_equal(stats().kept, 2);
	assert_int_equal(stats().bad_records, 0);
	close(p.fd);
}

/* Two programs of a process that ends, one after the other, and what they had open. */
static void test_hists_of_dead(void **state)
{
	struct process p, q;
	(void)state;
	pid_t pid = make_dead(&p, &q);
	struct call_hist a = hist_like(5, 0, 10), b = hist_like(6, 0, 8);
	uint64_t now_ns = monotonic_ns();
	struct call_open open[] = {
		{.start = now_ns - 50, .probe = 5, .keep = MODE_STATS, .flags = CALL_ERROR},
		{.start = now_ns - 50, .probe = 7, .keep = MODE_STATS | CALL_KEEP_ALWAYS},
		{.start = now_ns - 50, .probe = 8, .keep = MODE_TAIL}, /* no threshold: slow */
		{.start = now_ns - 50, .probe = 9, .keep = MODE_TAIL},
		{.start = now_ns - 50, .probe = 10, .keep = MODE_TRACE},
		{.start = now_ns - 50, .probe = 11, .keep = 0x7f},
		{.start = now_ns - 50,
		 .probe = 12,
		 .keep = MODE_STATS,
		 .flags = CALL_NAMED,
		 .nargs = 1,
		 .args = {77}},
	};
	call_rings_set_threshold(t.rings, 9, 1ULL << 62);
	begin_thread(&p, 0, (uint32_t)pid);
	put_hist(&p, 0, 0, &a);
	put_hist(&p, 0, 1, &b);
	begin_thread(&q, 0, (uint32_t)pid);
	put_hist(&q, 0, 0, &a);
	for (uint32_t k = 0; k < COUNT(open); k++)
		put_open(&q, 0, k, &open[k]);
	PUT_SLOT(&q, 0, depth, COUNT(open));
	call_rings_drain(t.rings);
	assert_int_equal(access(p.path, F_OK), -1);
	assert_int_equal(access(q.path, F_OK), -1);
	static const uint32_t told[] = {7, 8, 10};
	assert_int_equal(t.calls.len, COUNT(told));
	for (size_t i = 0; i < COUNT(told); i++) {
		assert_int_equal(t.calls.data[i].call.probe, told[i]);
		assert_int_equal(t.calls.data[i].call.flags, CALL_UNWOUND);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(look_at_hists(), 7);
		assert_int_equal(hist_of(5, 0)->count, 21);
		assert_int_equal(hist_of(5, 0)->errors, 11);
		assert_hist(6, 0, 8, 4);
		for (uint32_t probe = 7; probe <= 11; probe++)
			assert_int_equal(probe == 10 || hist_of(probe, 0)->count == 1, 1);
		assert_null(hist_of(10, 0));
		assert_int_equal(hist_of(12, 77)->count, 1);
		assert_true(hist_of(12, 77)->max_ns >= 50);
	}
	assert_int_equal(stats().counted, 21 + 8 + 5);
	close(p.fd);
	close(q.fd);
}

/* No figure says more than there was time for, or than the others allow; and nobody else's is
 * touched. */
static void test_forged_hists(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_hist good = hist_like(5, 0, 10), forged[6];
	(void)state;
	for (uint32_t i = 0; i < COUNT(forged); i++)
		forged[i] = hist_like(20 + i, 0, 10);
	forged[0].probe = MAX_PROBES;
	forged[1].probe = UINT32_MAX;
	forged[2].value.count = 1ULL << 40;
	forged[3].value.count = UINT64_MAX;
	forged[4].value.buckets[127] = UINT32_MAX;
	memset(forged[5].value.buckets, 0xff, sizeof(forged[5].value.buckets));
	for (uint32_t i = 0; i < COUNT(forged); i++) {
		begin_thread(&p, i, 1234 + i);
		put_hist(&p, i, 0, &good);
		put_hist(&p, i, 1, &forged[i]);
		put_hist(&p, i, 2, &good); /* not believed any more */
	}
	begin_thread(&p, 6, 1300);
	good.value.errors = good.value.nested = good.value.total_ns = good.value.max_ns =
		UINT64_MAX;
	good.probe = 6;
	put_hist(&p, 6, 0, &good);
	drain_until(1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(look_at_hists(), 2);
		assert_hist(5, 0, 60, 30);
		const struct hist_value *v = hist_of(6, 0);
		assert_int_equal(v->count, 10);
		assert_int_equal(v->errors, 10);
		assert_int_equal(v->nested, 10);
		assert_true(v->max_ns < 600000000000ULL && v->total_ns <= 10 * v->max_ns);
		assert_int_equal(stats().bad_records, COUNT(forged)); /* each once */
	}
	close(p.fd);
}

/* As many as there is room for, and beyond. */
static void test_many_hists(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	begin_thread(&p, 1, 1235);
	for (uint32_t k = 0; k < CALL_HISTS_MOST; k++) {
		struct call_hist h = hist_like(1, k + 1, 1), other = hist_like(2, k + 1, 1);
		put(&p, hist_at(0, k), &h, sizeof(h));
		put(&p, hist_at(1, k), &other, sizeof(other));
	}
	PUT_SLOT(&p, 0, hists, UINT32_MAX);
	PUT_SLOT(&p, 1, hists, UINT32_MAX);
	drain_until(1);
	assert_int_equal(look_at_hists(), 8192); /* of a process */
	assert_int_equal(look_at_hists(), 8192);
	assert_int_equal(stats().counted, 8192);
	assert_int_equal(stats().uncounted, 2 * CALL_HISTS_MOST - 8192);
	close(p.fd);
}

static void test_truncated_hists(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_hist h = hist_like(5, 0, 10);
	(void)state;
	begin_thread(&p, 0, 1234);
	put_hist(&p, 0, 0, &h);
	PUT_SLOT(&p, 0, hists, 600);
	drain_until(1);
	const off_t lengths[] = {hist_at(0, 600) - 1, hist_at(0, 0) + 1, hist_at(0, 0),
				 (off_t)CALL_HISTS_BEGIN, CALL_HEADER_BYTES};
	for (size_t i = 0; i < COUNT(lengths); i++) {
		assert_int_equal(ftruncate(p.fd, lengths[i]), 0);
		assert_in_range(look_at_hists(), 0, 1);
	}
	assert_in_range(stats().bad_records, 1, 2);
	close(p.fd);
}

#define TEST_HISTS(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down_hists)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_HISTS(test_hists),		  TEST_HISTS(test_hists_of_dead),
		TEST_HISTS(test_forged_hists),	  TEST_HISTS(test_many_hists),
		TEST_HISTS(test_truncated_hists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

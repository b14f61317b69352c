/* world_test.c - waits for the world: which they are, how much of a time between calls they are,
 * and whether a recording's are irregular. links: detect analyze recording base golden */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "detect/world.h"
#include "golden/gpu_sample.h"
#include "recording/recording.h"
#include "made_file.h"

#define MS     1000000ULL
#define SECOND (1000 * MS)

static struct m_wait wait_of(uint8_t reason, uint64_t from_ms, uint64_t to_ms, uint64_t runnable_ms)
{
	return (struct m_wait){.reason = reason,
			       .start_ns = from_ms * MS,
			       .end_ns = to_ms * MS,
			       .runnable_ns = runnable_ms * MS};
}

static void which_they_are(void **state)
{
	(void)state;
	for (int reason = 0; reason < WAIT_REASONS; reason++) {
		struct m_wait w = wait_of((uint8_t)reason, 10, 20, 0);
		bool is = reason == WAIT_NETWORK || reason == WAIT_POLL || reason == WAIT_SLEEP;
		assert_true(world_may_be(&w) == is);
	}
	struct m_wait all_runnable = wait_of(WAIT_POLL, 10, 20, 10);
	struct m_wait damaged = wait_of(WAIT_POLL, 20, 10, 0);
	assert_false(world_may_be(&all_runnable));
	assert_false(world_may_be(&damaged));
}

static void add(struct world_waits *w, uint64_t from_ms, uint64_t to_ms, uint64_t runnable_ms)
{
	struct m_wait one = wait_of(WAIT_POLL, from_ms, to_ms, runnable_ms);
	world_add(w, &one);
}

static uint64_t waited_ms(const struct world_waits *w, uint64_t before_ms, uint64_t call_ms)
{
	return world_waited_ns(w, before_ms * MS, call_ms * MS) / MS;
}

static void how_much(void **state)
{
	struct world_waits w = {0};
	(void)state;
	assert_int_equal(waited_ms(&w, 0, 1000), 0);
	add(&w, 100, 200, 20); /* 20 ms of it had no CPU */
	assert_int_equal(waited_ms(&w, 0, 1000), 80);
	assert_int_equal(waited_ms(&w, 80, 1000), 0); /* the call before ended after it */
	assert_int_equal(waited_ms(&w, 0, 90), 0);    /* it was within the call */
	add(&w, 300, 310, 0);
	assert_int_equal(waited_ms(&w, 0, 250), 80);
	/* A service that ticks: hundreds of waits in one time between calls, however regular
	 * before. */
	for (uint64_t i = 0; i < 500; i++)
		add(&w, 1000 + 20 * i, 1000 + 20 * i + 15, 0);
	assert_int_equal(waited_ms(&w, 90, 20000), 7500);
	uint64_t before = w.total_ns / MS;
	add(&w, 12000, 12050, 0);
	assert_int_equal(waited_ms(&w, before, 13000), 50);
}

/* ---- of a recording ---- */

/* 40 s in which a thread waits so long in even and in odd seconds; calls: how many that one and
 * another made. */
static bool irregular(uint64_t even_ms, uint64_t odd_ms, uint64_t calls, uint64_t others)
{
	struct err e = {0};
	struct rec_writer *w;
	struct rec_reader *r = NULL;
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	rec_add_thread(w, &(struct m_thread){7, 7, rec_string_z(w, "python3")});
	rec_add_thread(w, &(struct m_thread){7, 9, rec_string_z(w, "helper")});
	for (uint64_t s = 0; s < 40; s++) {
		struct m_wait wait = wait_of(WAIT_POLL, 1000 * (s + 5),
					     1000 * (s + 5) + (s % 2 ? odd_ms : even_ms), 0);
		rec_put_wait(w, &wait);
	}
	if (rec_writer_close(w, false, &e) || rec_open(&r, path, &e))
		fail_msg("%s", e.msg);
	bool ret = world_is_irregular(rec_source(r), (uint64_t[]){calls, others}, 2, 5 * SECOND);
	rec_close(r);
	return ret;
}

static void whether_irregular(void **state)
{
	(void)state;
	assert_true(irregular(100, 800, 1000, 0));
	assert_true(irregular(0, 300, 1000, 1000));
	assert_false(irregular(500, 500, 1000, 0)); /* as regular as all else */
	assert_false(irregular(10, 150, 1000, 0));
	assert_false(irregular(100, 800, 10, 1000)); /* another thread does the work */
	assert_false(irregular(100, 800, 0, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_they_are),
		cmocka_unit_test(how_much),
		cmocka_unit_test_setup_teardown(whether_irregular, make_path, remove_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

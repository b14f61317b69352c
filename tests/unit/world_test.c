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
	for (uint8_t reason = 0; reason < WAIT_REASONS; reason++) {
		struct m_wait w = wait_of(reason, 10, 20, 0);
		bool is = reason == WAIT_NETWORK || reason == WAIT_POLL || reason == WAIT_SLEEP;
		assert_true(world_may_be(&w) == is);
	}
	struct m_wait all_runnable = wait_of(WAIT_POLL, 10, 20, 10);
	struct m_wait damaged = wait_of(WAIT_POLL, 20, 10, 0);
	assert_false(world_may_be(&all_runnable));
	assert_false(world_may_be(&damaged));
}

static uint64_t waited_ms(const struct world_waits *w, uint64_t from_ms, uint64_t to_ms)
{
	return world_waited_ns(w, from_ms * MS, to_ms * MS) / MS;
}

static void how_much(void **state)
{
	struct world_waits w = {0};
	(void)state;
	assert_int_equal(waited_ms(&w, 0, 1000), 0);
	struct m_wait one = wait_of(WAIT_POLL, 100, 200, 20); /* 20 ms of it had no CPU */
	world_add(&w, &one);
	assert_int_equal(waited_ms(&w, 0, 1000), 80);
	assert_int_equal(waited_ms(&w, 140, 1000), 40);
	assert_int_equal(waited_ms(&w, 180, 1000), 0);
	assert_int_equal(waited_ms(&w, 120, 130), 10);
	/* Short ones on end are one, with what lies between taken off. */
	for (uint64_t i = 0; i < 1000; i++) {
		struct m_wait next = wait_of(WAIT_POLL, 300 + i, 301 + i, 0);
		next.end_ns -= MS / 2;
		world_add(&w, &next);
	}
	assert_in_range(waited_ms(&w, 0, 2000), 579, 581);
	/* Of many apart the last are remembered. */
	for (uint64_t i = 0; i < 40; i++) {
		struct m_wait next = wait_of(WAIT_SLEEP, 3000 + 10 * i, 3005 + 10 * i, 0);
		world_add(&w, &next);
	}
	assert_int_equal(waited_ms(&w, 2000, 9000), 5 * WORLD_WAITS);
	assert_int_equal(waited_ms(&w, 3392, 3393), 1);
}

/* ---- of a recording ---- */

static char path[] = "/tmp/eacgm-world-XXXXXX";

static int make_path(void **state)
{
	(void)state;
	int fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

/* 40 s in which a thread waits so long in even and in odd seconds; calls: how many that one and
 * another made. */
static bool irregular(uint64_t even_ms, uint64_t odd_ms, uint64_t calls, uint64_t others)
{
	struct err e = {0};
	struct rec_writer *w;
	struct rec_reader *r;
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

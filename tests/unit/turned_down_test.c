/* turned_down_test.c - whose calls are passed over, by rows of a batch.
 * links: session base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/turned_down.h"

static void tell(struct feed_batch *b, uint32_t probe, bool in_bursts)
{
	*vec_push(&b->coverages) = (struct m_coverage){.probe = probe, .in_bursts = in_bursts};
}

static void batch_free(struct feed_batch *b)
{
	vec_free(&b->coverages);
	vec_free(&b->calls);
	vec_free(&b->windows);
}

static void changes(void **state)
{
	(void)state;
	struct turned_down t = {0};
	struct feed_batch none = {0}, down = {0}, up = {0}, odd = {0};
	tell(&down, 7, true);
	tell(&down, 2, true);
	tell(&up, 7, false);
	tell(&odd, UINT32_MAX, true);
	assert_false(turned_down_take(&t, &none));
	assert_true(turned_down_take(&t, &down));
	assert_true(turned_down_has(&t, 7) && turned_down_has(&t, 2));
	assert_false(turned_down_has(&t, 3) || turned_down_has(&t, 1000));
	assert_false(turned_down_take(&t, &down)); /* told again each five seconds */
	assert_true(turned_down_take(&t, &up));
	assert_false(turned_down_has(&t, 7));
	assert_int_equal(t.len, 1);
	assert_false(turned_down_take(&t, &odd));
	turned_down_free(&t);
	batch_free(&down);
	batch_free(&up);
	batch_free(&odd);
}

static void batches(void **state)
{
	(void)state;
	struct turned_down t = {0};
	struct feed_batch b = {.upto_ns = 5}, last = {0};
	for (uint32_t i = 0; i < 10; i++)
		*vec_push(&b.calls) = (struct m_call){.start_ns = i, .probe = i % 2};
	*vec_push(&b.windows) = (struct m_window){.start_ns = 1, .end_ns = 2};
	const struct feed_batch *all = turned_down_without(&t, &b);
	assert_true(all->calls.len == 10 && !all->windows.len && all->upto_ns == 5);
	tell(&b, 1, true);
	assert_true(turned_down_take(&t, &b));
	const struct feed_batch *some = turned_down_without(&t, &b);
	assert_true(some->calls.len == 5 && !some->coverages.len);
	for (size_t i = 0; i < some->calls.len; i++)
		assert_true(!some->calls.data[i].probe && some->calls.data[i].start_ns == 2 * i);
	assert_int_equal(turned_down_without(&t, &last)->calls.len, 0);
	assert_int_equal(b.calls.len, 10);
	turned_down_free(&t);
	batch_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes),
		cmocka_unit_test(batches),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

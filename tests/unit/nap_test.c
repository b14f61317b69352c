/* nap_test.c - sleep that others end.
 *
 * links: base */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdatomic.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/nap.h"
#include "base/thread.h"

#define HOUR_NS 3600000000000ULL

struct sleeper {
	struct nap nap;
	atomic_bool began;
};

static void *sleep_long(void *arg)
{
	struct sleeper *s = arg;
	atomic_store(&s->began, true);
	nap_for(&s->nap, HOUR_NS);
	return NULL;
}

/* Whether it sleeps already or is about to: it is joined long before its hour is over. */
static void test_ended_by_others(void **state)
{
	struct sleeper s = {0};
	pthread_t thread;
	(void)state;
	nap_init(&s.nap);
	assert_int_equal(thread_start(&thread, sleep_long, &s, "sleeper"), 0);
	while (!atomic_load(&s.began))
		;
	nap_end(&s.nap);
	pthread_join(thread, NULL);
	nap_free(&s.nap);
}

static void test_nobody_sleeps_afterwards(void **state)
{
	struct nap n;
	(void)state;
	nap_init(&n);
	nap_end(&n);
	nap_for(&n, HOUR_NS);
	nap_for(&n, HOUR_NS);
	nap_free(&n);
}

static void test_sleeps(void **state)
{
	struct nap n;
	uint64_t begin_ns = monotonic_ns();
	(void)state;
	nap_init(&n);
	nap_for(&n, 2000000);
	assert_true(monotonic_ns() - begin_ns >= 2000000);
	nap_free(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ended_by_others),
		cmocka_unit_test(test_nobody_sleeps_afterwards),
		cmocka_unit_test(test_sleeps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

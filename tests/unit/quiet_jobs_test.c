/* quiet_jobs_test.c - when a process that called operators is looked at: once it has been quiet for
 * two seconds, then again while it may stand still; not one that only waits for requests.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect_names.h"
#include "session/quiet_jobs.h"

#define S 1000000000ULL

static struct fake_names f;
static struct detect_names names;
static struct quiet_jobs q;
static bool does_train;

static int begin(void **state)
{
	(void)state;
	fake_names_make(&f);
	names = fake_names_of(&f);
	q = (struct quiet_jobs){0};
	does_train = true;
	return 0;
}

static int end(void **state)
{
	(void)state;
	quiet_jobs_free(&q);
	strtab_free(&f.strings);
	vec_free(&f.metrics);
	return 0;
}

static bool trains(const void *ctx, uint32_t pid)
{
	(void)ctx;
	(void)pid;
	return does_train;
}

static void looked(double now_s)
{
	quiet_jobs_looked(&q, (uint64_t)(now_s * 1e9), trains, NULL);
}

static bool is_due(double now_s)
{
	return quiet_jobs_due(&q, (uint64_t)(now_s * 1e9));
}

/* So many calls, the last of which ends then. */
static void calls(enum fake_probe probe, unsigned n, uint64_t end_ns)
{
	struct feed_batch b = {.upto_ns = end_ns};
	for (unsigned i = 0; i < n; i++)
		*vec_push(&b.calls) = fake_call(probe, 0, end_ns - (n - i) * 1000, 1000);
	quiet_jobs_take(&q, &(struct session_view){.batch = &b, .names = &names});
	vec_free(&b.calls);
}

static uint32_t pid(void)
{
	return names.thread(names.ctx, 0)->pid;
}

static void what_trains_is_looked_at_again(void **state)
{
	(void)state;
	calls(FAKE_OPERATOR, 300, 10 * S);
	assert_false(is_due(11.9));
	assert_true(is_due(12));
	looked(12);
	assert_false(is_due(12.9));
	assert_true(is_due(13));
	looked(13);
	assert_false(is_due(14.9));
	assert_true(is_due(15));
	calls(FAKE_OPERATOR, 1, 15 * S); /* it goes on, and is quiet once more */
	assert_false(is_due(16.9));
	assert_true(is_due(17));
	looked(17);
	assert_true(is_due(18));
	assert_int_equal(quiet_jobs_last_ns(&q, pid()), 15 * S);
}

static void what_waits_for_requests_has_a_rest(void **state)
{
	(void)state;
	does_train = false;
	calls(FAKE_OPERATOR, 300, 10 * S);
	looked(12);
	assert_false(is_due(1000)); /* however long it waits */
	calls(FAKE_OPERATOR, 1, 20 * S);
	assert_false(is_due(22));
	calls(FAKE_OPERATOR, 1, 41 * S);
	assert_true(is_due(43));
}

static void what_has_hardly_worked_is_no_job(void **state)
{
	(void)state;
	calls(FAKE_OPERATOR, 20, 10 * S);
	assert_false(is_due(20));
	calls(FAKE_LAUNCH, 1000, 11 * S); /* no operators */
	assert_false(is_due(20));
	assert_int_equal(quiet_jobs_last_ns(&q, pid()), 10 * S);
}

static void what_has_ended_is_forgotten(void **state)
{
	(void)state;
	struct feed_batch b = {.upto_ns = 11 * S};
	calls(FAKE_OPERATOR, 300, 10 * S);
	*vec_push(&b.processes) = (struct m_process){.pid = pid(), .end_ns = 11 * S};
	quiet_jobs_take(&q, &(struct session_view){.batch = &b, .names = &names});
	vec_free(&b.processes);
	assert_false(is_due(20));
	assert_int_equal(quiet_jobs_last_ns(&q, pid()), 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		T(what_trains_is_looked_at_again),
		T(what_waits_for_requests_has_a_rest),
		T(what_has_hardly_worked_is_no_job),
		T(what_has_ended_is_forgotten),
	};
#undef T
	return cmocka_run_group_tests(tests, NULL, NULL);
}

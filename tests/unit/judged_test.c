/* judged_test.c - which of a detector's rows are kept: the latest, or of all the time those that
 * alarmed first.
 *
 * links: incident detect analyze recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "incident/judged.h"

static void add(struct judged *j, uint64_t n, bool alarmed)
{
	const struct feature_row row = {.start_ns = n, .end_ns = n + 1, .gpu = -1};
	judged_row(j, &row, 1, alarmed);
}

static size_t alarmed(const struct judged_layer *l)
{
	size_t n = 0;
	for (uint32_t i = 0; i < judged_len(l); i++)
		n += judged_at(l, i)->alarmed;
	return n;
}

static void the_latest(void **state)
{
	(void)state;
	struct judged *j = judged_new(false);
	for (uint64_t n = 0; n < 5 * JUDGED_ROWS / 2; n++)
		add(j, n, false);
	assert_int_equal(judged_len(&j->layers[0]), JUDGED_ROWS);
	assert_int_equal(judged_at(&j->layers[0], 0)->start_ns, 3 * JUDGED_ROWS / 2);
	judged_free(j);
}

static void of_all_the_time(void **state)
{
	(void)state;
	struct judged *j = judged_new(true);
	for (uint64_t n = 0; n < 100 * JUDGED_ROWS; n++)
		add(j, n, n % 1000 == 0);
	const struct judged_layer *l = &j->layers[0];
	assert_int_equal(alarmed(l), 100 * JUDGED_ROWS / 1000);
	assert_true(judged_len(l) > JUDGED_ROWS / 2);
	assert_true(judged_at(l, judged_len(l) - 1)->start_ns > 95 * JUDGED_ROWS);
	judged_free(j);
}

static void more_alarms_than_there_is_room_for(void **state)
{
	(void)state;
	struct judged *j = judged_new(true);
	for (uint64_t n = 0; n < 3 * JUDGED_ROWS; n++)
		add(j, n, n % 8 != 7);
	assert_int_equal(judged_len(&j->layers[0]), JUDGED_ROWS);
	assert_true(alarmed(&j->layers[0]) >= JUDGED_ROWS - 1);
	assert_in_range(j->layers[0].each, 1, 1 << 20);
	judged_free(j);
}

/* Where loaders are judged among themselves the picture is of the others. */
static void helpers_are_not_drawn(void **state)
{
	const struct feature_row own = {.layer = DETECT_HOST, .pid = 1, .pace = 1},
				 loader = {.layer = DETECT_HOST,
					   .pid = 2,
					   .pace = 1,
					   .parents_pace = true},
				 idle = {.layer = DETECT_HOST, .pid = 3},
				 calls = {.layer = DETECT_TORCH, .pid = 3};
	static struct model m;
	const struct detect_layers layers = {0};
	(void)state;
	model_init(&m);
	for (int apart = 0; apart < 2; apart++) {
		struct judged *j = judged_new(false);
		m.helpers.columns = (uint32_t)apart;
		judged_mixtures(j, &m, &layers);
		judged_row(j, &own, 0, false);
		judged_row(j, &loader, 0, false);
		judged_row(j, &idle, 0, false);
		judged_row(j, &calls, 0, false);
		assert_int_equal(judged_len(&j->layers[DETECT_HOST]), apart ? 2 : 3);
		assert_int_equal(judged_len(&j->layers[DETECT_TORCH]), 1);
		judged_free(j);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_latest),
		cmocka_unit_test(of_all_the_time),
		cmocka_unit_test(more_alarms_than_there_is_room_for),
		cmocka_unit_test(helpers_are_not_drawn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

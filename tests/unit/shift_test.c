/* shift_test.c - what is usual in a kind of work, against the mixture: the medians of its first
 * rows, learned anew where that is asked for, and of a process that is judged by another mixture
 * from now on.
 * links: detect analyze base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/shift.h"

static struct shifts shifts;

/* Of names that are literals: not to be freed. */
static struct model_mixture mixture_of(const char *first, double a, const char *second, double b)
{
	struct model_mixture m = {.columns = second ? 2 : 1, .centre = {a, b}, .scale = {1, 1}};
	m.names[0] = (char *)first;
	m.names[1] = (char *)second;
	return m;
}

static size_t at(const char *name)
{
	size_t ret = feature_place(DETECT_HOST, name);
	assert_true(ret < FEATURES_MOST);
	return ret;
}

static void collect(struct shift *s, const struct model_mixture *m, double cpu, double rss)
{
	struct feature_row row = {.layer = DETECT_HOST};
	for (size_t f = 0; f < FEATURES_MOST; f++)
		row.x[f] = NAN;
	row.x[at("cpu_ratio")] = cpu;
	row.x[at("rss_bytes")] = rss;
	shift_collect(s, m, &row);
}

static void collect_all(struct shift *s, const struct model_mixture *m, double cpu, double rss)
{
	for (int i = 0; i < REBASE_ROWS; i++)
		collect(s, m, cpu, rss);
}

static int end(void **state)
{
	(void)state;
	shifts_free(&shifts);
	return 0;
}

static void medians_are_what_is_usual(void **state)
{
	const struct model_mixture m = mixture_of("cpu_ratio", 2, "rss_bytes", 10);
	struct shift *s = shifts_make(&shifts, 3, false);
	(void)state;
	for (int i = 1; i < REBASE_ROWS; i++) {
		collect(s, &m, i == 7 ? 1e9 : 5, i < 5 ? 8 : NAN);
		assert_true(!s->known && s->centre[at("cpu_ratio")] == 0);
	}
	collect(s, &m, -1e9, NAN);
	assert_true(s->known && !s->collected);
	assert_true(s->centre[at("cpu_ratio")] == 3 && s->centre[at("rss_bytes")] == -2);
	assert_ptr_equal(shifts_find(&shifts, 3), s);
	assert_null(shifts_find(&shifts, 4));
}

/* Features that the mixture has not, or that no row knows. */
static void what_is_not_known_is_not_shifted(void **state)
{
	const struct model_mixture m = mixture_of("rss_bytes", 1, "no feature", 2);
	struct shift *s = shifts_make(&shifts, 3, false);
	(void)state;
	collect_all(s, &m, 5, NAN);
	for (size_t f = 0; f < FEATURES_MOST; f++)
		assert_true(s->centre[f] == 0);
	assert_true(s->known);
}

/* Half collected, then told to forget: so many rows again, and none of those before. */
static void forgotten_it_is_collected_anew(void **state)
{
	const struct model_mixture m = mixture_of("cpu_ratio", 0, NULL, 0);
	struct shift *s = shifts_make(&shifts, 3, false);
	(void)state;
	for (int i = 0; i < REBASE_ROWS - 1; i++)
		collect(s, &m, 5, NAN);
	shift_forget(s);
	collect_all(s, &m, 7, NAN);
	assert_true(s->known && s->centre[at("cpu_ratio")] == 7);
	shift_forget(s);
	assert_false(s->known);
	collect_all(s, &m, 9, NAN);
	assert_true(s->known && s->centre[at("cpu_ratio")] == 9);
}

/* Its process is a helper no more, in the midst of it: by whose mixture it is judged counts. */
static void another_mixture_while_it_is_collected(void **state)
{
	const struct model_mixture helpers = mixture_of("cpu_ratio", 1, NULL, 0);
	const struct model_mixture others = mixture_of("cpu_ratio", 4, NULL, 0);
	struct shift *s = shifts_make(&shifts, 3, false);
	(void)state;
	for (int i = 0; i < REBASE_ROWS / 2; i++)
		collect(s, &helpers, 6, NAN);
	shift_against(s, &others, DETECT_HOST);
	for (int i = REBASE_ROWS / 2; i < REBASE_ROWS; i++)
		collect(s, &others, 6, NAN);
	assert_true(s->centre[at("cpu_ratio")] == 2);
}

/* And afterwards: what is usual stays where it is, there and back. */
static void another_mixture_once_it_is_known(void **state)
{
	const struct model_mixture helpers = mixture_of("cpu_ratio", 1, NULL, 0);
	const struct model_mixture others = mixture_of("rss_bytes", 7, "cpu_ratio", 4);
	struct shift *s = shifts_make(&shifts, 3, false);
	(void)state;
	collect_all(s, &helpers, 6, 9);
	shift_against(s, &helpers, DETECT_HOST);
	assert_true(s->centre[at("cpu_ratio")] == 5 && s->centre[at("rss_bytes")] == 0);
	s->centre[at("cpu_ratio")] += 0.5; /* it was followed */
	for (int i = 0; i < 2; i++) {
		shift_against(s, &others, DETECT_HOST);
		assert_true(s->centre[at("cpu_ratio")] == 2.5 && s->centre[at("rss_bytes")] == 0);
		shift_against(s, &helpers, DETECT_HOST);
		assert_true(s->centre[at("cpu_ratio")] == 5.5 && s->centre[at("rss_bytes")] == 0);
	}
	shift_forget(s);
	collect_all(s, &others, 6, 9);
	assert_true(s->centre[at("cpu_ratio")] == 2 && s->centre[at("rss_bytes")] == 2);
	shift_against(s, &helpers, DETECT_HOST);
	assert_true(s->centre[at("cpu_ratio")] == 5 && s->centre[at("rss_bytes")] == 2);
	shift_against(s, &others, DETECT_HOST);
	assert_true(s->centre[at("cpu_ratio")] == 2 && s->centre[at("rss_bytes")] == 2);
}

/* Work that the model has: each mixture knows by itself what is usual in it. */
static void what_the_model_knows_stays(void **state)
{
	const struct model_mixture helpers = mixture_of("cpu_ratio", 1, NULL, 0);
	const struct model_mixture others = mixture_of("cpu_ratio", 4, NULL, 0);
	struct shift *s = shifts_make(&shifts, 1, true);
	(void)state;
	shift_against(s, &helpers, DETECT_HOST);
	shift_against(s, &others, DETECT_HOST);
	assert_true(s->known && s->centre[at("cpu_ratio")] == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_teardown(name, end)
		T(medians_are_what_is_usual),	     T(what_is_not_known_is_not_shifted),
		T(forgotten_it_is_collected_anew),   T(another_mixture_while_it_is_collected),
		T(another_mixture_once_it_is_known), T(what_the_model_knows_stays),
#undef T
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

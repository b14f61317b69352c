/* episode_why_test.c - the reason of an anomaly, once told, stays: at its end the figures are new,
 * of the same call, phase or counter; where they say it no more, the sentence stays as it was.
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "incident/episodes.h"

#define MS 1e6

static struct known known;
static struct episode episode;

static int begin(void **state)
{
	(void)state;
	known_make(&known, 0, 0);
	episode = (struct episode){.a = {.start_ns = 1, .end_ns = 1000000001, .name = ""}};
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (size_t i = 0; i < episode.texts.len; i++)
		free(episode.texts.data[i]);
	vec_free(&episode.texts);
	vec_free(&episode.calls);
	known_free(&known);
	return 0;
}

static void feature(const char *name, double value)
{
	uint32_t at = episode.a.features_len++;
	episode.a.features[at].name = name;
	episode.a.features[at].unit = "ratio";
	episode.a.features[at].value = value;
	episode.a.features[at].usual = 0;
}

static void call(const char *text, double more_ms, double gap_ms)
{
	uint32_t key = detect_keys_text(known.keys, DETECT_TORCH, text);
	assert_int_not_equal(key, 0);
	*vec_push(&episode.calls) = (struct window_key){.key = key,
							.calls = 10,
							.total_ns = (100 + more_ms) * MS,
							.usual_ns = 100 * MS,
							.gap_ns = gap_ms * MS};
}

static const char *described(bool keep)
{
	episode_describe(&known, &episode, keep);
	return episode.a.why;
}

static void a_call_stays_the_reason(void **state)
{
	(void)state;
	episode.a.layer = DETECT_TORCH;
	call("aten::mm", 50, 0);
	assert_string_equal(described(true),
			    "aten::mm took 1.5 x as long as usual, 50.0 ms more in "
			    "1.00 s");
	episode.calls.data[0].total_ns += 50 * MS;
	call("aten::gelu", 400, 900);
	assert_string_equal(described(true), "aten::mm took 2 x as long as usual, 100 ms more in "
					     "1.00 s");
	assert_string_equal(episode.a.name, "aten::mm");
	assert_string_equal(episode.a.calls[0].key, "aten::gelu"); /* the table has them all */
	episode.calls.data[0].total_ns = 90 * MS;
	assert_string_equal(described(true), "aten::mm took 2 x as long as usual, 100 ms more in "
					     "1.00 s");
	assert_non_null(strstr(described(false), "before calls of aten::gelu"));
}

static void a_phase_stays_the_reason(void **state)
{
	(void)state;
	episode.a.layer = DETECT_STEP;
	feature("duration", log(2));
	feature("load", 0.5);
	assert_string_equal(described(true), "steps took 2 x as long as usual, most of it in load");
	episode.a.features_len = 0;
	feature("duration", log(3));
	feature("optimizer", 2);
	feature("load", 0.5);
	assert_string_equal(described(true), "steps took 3 x as long as usual, most of it in load");
	episode.a.features_len = 0;
	feature("optimizer", 2);
	assert_string_equal(described(true), "steps took 3 x as long as usual, most of it in load");
	assert_string_equal(episode.a.name, "load");
}

static void a_counter_stays_the_reason(void **state)
{
	(void)state;
	episode.a.layer = DETECT_HOST;
	feature("cpu_ratio", 3);
	assert_string_equal(described(true), "cpu_ratio was 3 where 0 is usual, for 1.00 s");
	episode.a.features_len = 0;
	feature("preemptions_per_s", 9);
	feature("cpu_ratio", 4);
	assert_string_equal(described(true), "cpu_ratio was 4 where 0 is usual, for 1.00 s");
}

/* Without an exponent, and shares without a unit. */
static void numbers_are_read_at_a_glance(void **state)
{
	(void)state;
	episode.a.layer = DETECT_HOST;
	feature("calls_per_s", 13412);
	episode.a.features[0].usual = 238.4;
	episode.a.features[0].unit = "1/s";
	assert_string_equal(described(true),
			    "calls_per_s was 13,412 where 238 is usual, for 1.00 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_call_stays_the_reason, begin, end),
		cmocka_unit_test_setup_teardown(a_phase_stays_the_reason, begin, end),
		cmocka_unit_test_setup_teardown(a_counter_stays_the_reason, begin, end),
		cmocka_unit_test_setup_teardown(numbers_are_read_at_a_glance, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

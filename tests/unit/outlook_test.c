/* outlook_test.c - which series of counters are warned of, and which are not.
 * links: incident detect analyze events base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "incident/outlook.h"
#include "detect_names.h"

#define S     1000000000ULL
#define BEGAN (1000 * S)
#define MB    1e6
#define GB    1e9

static struct fake_names fake;
static struct detect_names names;
static struct outlook *o;
static struct outlook_warning told[64];
static char entities[64][64];
static size_t told_len;

static void on_warning(void *ctx, const struct outlook_warning *w)
{
	(void)ctx;
	assert_true(told_len < 64);
	entity_text(entities[told_len], sizeof(entities[0]), &w->of);
	told[told_len++] = *w;
}

static void begin_as(bool whole)
{
	outlook_free(o);
	o = outlook_new(&(struct outlook_options){.whole = whole, .tell = on_warning});
	told_len = 0;
}

static int begin(void **state)
{
	(void)state;
	fake_names_make(&fake);
	names = fake_names_of(&fake);
	begin_as(true);
	return 0;
}

static int end(void **state)
{
	(void)state;
	outlook_free(o);
	o = NULL;
	strtab_free(&fake.strings);
	vec_free(&fake.metrics);
	return 0;
}

static void put(const char *entity, const char *name, double at_s, double value)
{
	struct m_counter c = {.time_ns = BEGAN + (uint64_t)(at_s * 1e9),
			      .metric = fake_metric(&fake, entity, name),
			      .value = value};
	outlook_counter(o, &names, &c);
}

/* Feeds what a function makes of the time, as often as that counter is told. */
static void run(const char *entity, const char *name, double every_s, double from_s, double to_s,
		double (*value)(double at_s))
{
	for (double at_s = from_s; at_s < to_s; at_s += every_s)
		put(entity, name, at_s, value(at_s));
}

static void near(double value, double truth, double share)
{
	if (fabs(value - truth) > share * truth)
		fail_msg("%g is not %g", value, truth);
}

static void told_once(enum outlook_kind kind, const char *entity)
{
	outlook_end(o);
	assert_int_equal(told_len, 1);
	assert_int_equal(told[0].kind, kind);
	assert_string_equal(entities[0], entity);
	assert_false(told[0].ended);
}

static void silent(void)
{
	outlook_end(o);
	if (told_len)
		fail_msg("%s: %s by %g/s", entities[0], outlook_kind_name(told[0].kind),
			 told[0].per_s);
}

/* ---- what is used ---- */

static uint64_t noise_state;

static double noise(void)
{
	return random_uniform(&noise_state);
}

static double leak_30(double s)
{
	return 100 * MB + 30 * MB * s;
}

static double leak_30_noisy(double s)
{
	return leak_30(s) + 20 * MB * noise();
}

static double flat(double s)
{
	(void)s;
	return 2 * GB;
}

static double flat_noisy(double s)
{
	(void)s;
	return 2 * GB + 100 * MB * noise();
}

static double one_step(double s)
{
	return s < 10 ? 200 * MB : 5 * GB;
}

static double three_steps(double s)
{
	return 200 * MB + 500 * MB * floor(s / 5);
}

/* An allocator that warms up. */
static double settles(double s)
{
	return 3 * GB * (1 - exp(-s / 6));
}

/* Collected every 7 s, and every 0.7 s. */
static double saw(double s)
{
	return 500 * MB + 100 * MB * fmod(s, 7);
}
static double fine_saw(double s)
{
	return 500 * MB + 1000 * MB * fmod(s, 0.7);
}

static double saw_that_leaks(double s)
{
	return fine_saw(s) + 50 * MB * s;
}

static double loads_then_works(double s)
{
	return s < 20 ? 200 * MB + 150 * MB * s : 3200 * MB;
}

static double freed_at_end(double s)
{
	return s < 19.5 ? leak_30(s) : 20 * MB;
}

static void a_leak_is_told_with_its_rate(void **state)
{
	static double (*const leaks[])(double s) = {leak_30, leak_30_noisy, freed_at_end};
	(void)state;
	for (size_t i = 0; i < sizeof(leaks) / sizeof(leaks[0]); i++) {
		begin_as(true);
		run("pid 7", "rss_anon_bytes", 0.2, 0, 20, leaks[i]);
		told_once(OUTLOOK_LEAK, "pid 7");
		near(told[0].per_s, 30 * MB, 0.1);
		near(told[0].value, 690 * MB, 0.05);
		assert_string_equal(told[0].name, "rss_anon_bytes");
		assert_true(isnan(told[0].left_s) && isnan(told[0].limit));
	}
	begin_as(true);
	run("pid 7", "rss_anon_bytes", 0.2, 0, 60, saw_that_leaks);
	told_once(OUTLOOK_LEAK, "pid 7");
	near(told[0].per_s, 50 * MB, 0.1);
	begin_as(true); /* hours of it */
	run("gpu 1 pid 7", "memory_used_bytes", 1, 0, 9000, leak_30);
	told_once(OUTLOOK_LEAK, "gpu 1 pid 7");
	near(told[0].per_s, 30 * MB, 0.01);
}

static void what_is_no_trend_is_not_told(void **state)
{
	static double (*const others[])(double s) = {
		flat, flat_noisy, one_step, three_steps, settles, saw, fine_saw, loads_then_works,
	};
	static const double ends_s[] = {13, 20, 31, 47, 90, 600, 4000};
	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		for (size_t k = 0; k < sizeof(ends_s) / sizeof(ends_s[0]); k++) {
			bool still_loads = others[i] == loads_then_works && ends_s[k] < 21;
			if (others[i] == three_steps && ends_s[k] > 21)
				continue; /* many steps are a trend */
			begin_as(true);
			run("pid 7", "rss_anon_bytes", 0.2, 0, ends_s[k], others[i]);
			if (!still_loads)
				silent();
		}
}

/* What wanders about, as the memory of a host does. */
static void chance_is_seldom_told(void **state)
{
	unsigned times = 0;
	(void)state;
	for (unsigned run_ = 0; run_ < 400; run_++) {
		double value = 5 * GB;
		begin_as(true);
		for (double s = 0; s < 60; s += 0.2)
			put("pid 7", "rss_anon_bytes", s, value += (noise() - 0.5) * 50 * MB);
		outlook_end(o);
		times += told_len > 0;
	}
	if (times > 8)
		fail_msg("told %u times of 400", times);
}

static void resident_memory_stands_in(void **state)
{
	(void)state;
	run("pid 7", "rss_bytes", 0.2, 0, 20, leak_30);
	told_once(OUTLOOK_LEAK, "pid 7");
	assert_string_equal(told[0].name, "rss_bytes");
	begin_as(true); /* pages of files: the kernel takes them back */
	for (double s = 0; s < 20; s += 0.2) {
		put("pid 7", "rss_bytes", s, leak_30(s));
		put("pid 7", "rss_anon_bytes", s, flat(s));
	}
	silent();
}

/* ---- what runs out ---- */

static double device_used(double s)
{
	return 20 * GB + 100 * MB * s;
}

static void memory_runs_out_in_time(void **state)
{
	(void)state;
	put("gpu 0", "memory_total_bytes", 0, 24 * GB);
	run("gpu 0", "memory_used_bytes", 0.1, 0, 20, device_used);
	told_once(OUTLOOK_RUNS_OUT, "gpu 0");
	near(told[0].left_s, 20, 0.1); /* 4 GB, of which 2 are gone */
	near(told[0].per_s, 100 * MB, 0.05);
	near(told[0].limit, 24 * GB, 0);
	begin_as(true);
	put("cgroup /job", "memory_limit_bytes", 0, 40 * GB);
	run("cgroup /job", "memory_unreclaimable_bytes", 2, 0, 120, device_used);
	told_once(OUTLOOK_RUNS_OUT, "cgroup /job");
	near(told[0].left_s, (40 * GB - device_used(118)) / (100 * MB), 0.1);
}

static double available(double s)
{
	return 5 * GB - 30 * MB * s - 10 * MB * noise();
}

static void what_is_left_falls(void **state)
{
	(void)state;
	for (double s = 0; s < 60; s += 0.2) {
		put("pid 7", "rss_anon_bytes", s, leak_30(s));
		put("pid 8", "rss_anon_bytes", s, flat(s));
		if (fmod(s, 1) < 0.2)
			put("host", "memory_available_bytes", s, available(s));
	}
	outlook_end(o);
	assert_int_equal(told_len, 2);
	size_t host = told[0].kind == OUTLOOK_RUNS_OUT ? 0 : 1;
	assert_string_equal(entities[host], "host");
	near(told[host].left_s, available(59) / (30 * MB), 0.1);
	assert_int_equal(told[host].by_pid, 7);
	near(told[host].by_per_s, 30 * MB, 0.1);
	assert_true(told[host].from > told[host].value);
}

static double fills_slowly(double s)
{
	return 40 * GB - 20 * MB * s;
}

static void file_systems_fill(void **state)
{
	(void)state;
	run("file system /data", "available_bytes", 5, 0, 600, fills_slowly);
	told_once(OUTLOOK_FILLS, "file system /data");
	near(told[0].left_s, fills_slowly(595) / (20 * MB), 0.1);
	begin_as(true); /* a file of some size is written within a minute */
	run("file system /data", "available_bytes", 5, 0, 50, fills_slowly);
	silent();
}

static void what_is_far_off_is_not_told(void **state)
{
	(void)state;
	put("gpu 0", "memory_total_bytes", 0, 900 * GB);
	put("gpu 0 pid 7", "memory_used_bytes", 0, 20 * GB);
	run("gpu 0", "memory_used_bytes", 0.1, 0, 20, device_used);
	silent();
	begin_as(true); /* there is no limit, and of the cgroup no leak is told: that is of
			   processes */
	run("cgroup /job", "memory_unreclaimable_bytes", 2, 0, 120, device_used);
	silent();
	begin_as(true); /* a device whose processes nobody can see */
	put("gpu 0", "memory_total_bytes", 0, 900 * GB);
	run("gpu 0", "memory_used_bytes", 0.1, 0, 20, device_used);
	told_once(OUTLOOK_LEAK, "gpu 0");
}

static void a_limit_may_grow(void **state)
{
	(void)state;
	for (double s = 0; s < 60; s += 0.5) { /* as fast as what is used */
		put("cgroup /job", "memory_limit_bytes", s, device_used(s) + 1 * GB);
		put("cgroup /job", "memory_unreclaimable_bytes", s, device_used(s));
	}
	silent();
	begin_as(true);
	for (double s = 0; s < 60; s += 0.5) { /* half as fast */
		put("cgroup /job", "memory_limit_bytes", s, 27 * GB + 50 * MB * s);
		put("cgroup /job", "memory_unreclaimable_bytes", s, device_used(s));
	}
	told_once(OUTLOOK_RUNS_OUT, "cgroup /job");
	near(told[0].left_s, (7 * GB - 59.5 * 50 * MB) / (50 * MB), 0.1);
}

static void odd_numbers_do_no_harm(void **state)
{
	(void)state;
	for (double s = 0; s < 20; s += 0.2) {
		put("pid 7", "rss_anon_bytes", s, leak_30(s));
		put("pid 7", "rss_anon_bytes", s, NAN);
		put("pid 7", "rss_anon_bytes", s + 0.05, INFINITY);
		put("pid 7", "rss_anon_bytes", s + 0.1, -5);
		put("pid 7", "rss_anon_bytes", s - 3, 1e15); /* came too late */
	}
	told_once(OUTLOOK_LEAK, "pid 7");
	near(told[0].per_s, 30 * MB, 0.1);
	begin_as(true); /* counters that wrap */
	for (double s = 0; s < 60; s += 0.2)
		put("pid 7", "rss_anon_bytes", s, fmod(300 * MB * s, 4.3 * GB));
	silent();
}

/* ---- what has begun ---- */

static void new_errors_are_told(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		put("gpu 0", "ecc_corrected_errors", i * 10, 5);
	put("gpu 0", "remapped_rows", 0, 2);
	assert_int_equal(told_len, 0);
	put("gpu 0", "ecc_corrected_errors", 100, 6);
	assert_int_equal(told_len, 1);
	assert_int_equal(told[0].kind, OUTLOOK_ERRORS);
	near(told[0].value, 1, 0);
	for (int i = 7; i < 16; i++)
		put("gpu 0", "ecc_corrected_errors", 100 + i * 10, i);
	assert_int_equal(told_len, 2); /* ten times as many */
	near(told[1].value, 10, 0);
	assert_int_equal(told[1].id, told[0].id);
	put("gpu 0", "ecc_corrected_errors", 400, 0); /* the driver was loaded anew */
	assert_int_equal(told_len, 2);
	put("gpu 0", "ecc_corrected_errors", 410, 3);
	assert_int_equal(told_len, 3);
	near(told[2].value, 3, 0);
	put("gpu 0", "remapped_rows", 500, 2);
	assert_int_equal(told_len, 3);
}

/* So many segments are sent again each second, of so many bytes. */
static void send(double again, double bytes, double to_s)
{
	for (double s = 0; s < to_s; s++) {
		put("pid 7", "net_sent_bytes", s, bytes * s);
		put("pid 7", "net_retransmits", s, floor(again * s));
	}
}

static double twenty(double s)
{
	(void)s;
	return 20;
}

static double burst(double s)
{
	return s > 20 && s < 24 ? 500 : 0;
}

static void segments_that_are_sent_again(void **state)
{
	(void)state;
	send(20, 1448 * 1000, 60);
	outlook_end(o);
	assert_true(told_len == 2 && told[0].id == told[1].id); /* and what it came to */
	assert_int_equal(told[1].kind, OUTLOOK_RESENDS);
	near(told[1].per_s, 20, 0.1);
	near(told[1].share, 0.02, 0.1);
	begin_as(true);
	send(20, 1448 * 1e6, 60); /* of a million a second: no matter */
	silent();
	begin_as(true);
	send(0.2, 1448 * 10, 60);
	silent();
	begin_as(true);
	run("host", "tcp_retransmits_per_s", 1, 0, 60, twenty);
	outlook_end(o);
	assert_int_equal(told_len, 2);
	near(told[1].per_s, 20, 0.1);
	begin_as(true);
	run("host", "tcp_retransmits_per_s", 1, 0, 60, burst);
	silent();
}

static double heats_on(double s)
{
	return floor(70 + s / 5);
}

/* Towards 80, and towards 95. */
static double settles_below(double s)
{
	return floor(80 - 40 * exp(-s / 40));
}
static double settles_above(double s)
{
	return floor(95 - 40 * exp(-s / 40));
}

static void heat(double to_s, double (*value)(double s))
{
	begin_as(true);
	put("gpu 0", "temperature_slowdown_celsius", 0, 87);
	run("gpu 0", "temperature_celsius", 0.5, 0, to_s, value);
}

static void a_gpu_warms_up(void **state)
{
	(void)state;
	heat(60, heats_on);
	told_once(OUTLOOK_HEATS, "gpu 0");
	near(told[0].left_s, 27, 0.2); /* 70 + 17 are reached at 85 s, the last one was at 59.5 */
	for (double s = 20; s < 200; s += 10) {
		heat(s, settles_below);
		silent();
	}
	heat(50, settles_above);
	told_once(OUTLOOK_HEATS, "gpu 0");
	near(told[0].left_s, 40 * log(40.0 / 8) - 49.5, 0.4);
	begin_as(true); /* no limit is known */
	run("gpu 0", "temperature_celsius", 0.5, 0, 60, heats_on);
	silent();
}

/* ---- live ---- */

static double leaks_then_ends(double s)
{
	return leak_30(s < 120 ? s : 120);
}

static void told_once_and_taken_back(void **state)
{
	(void)state;
	begin_as(false);
	run("pid 7", "rss_anon_bytes", 0.2, 0, 200, leaks_then_ends);
	assert_int_equal(told_len, 2);
	assert_false(told[0].ended);
	near((double)(told[0].now_ns - BEGAN) / 1e9, 63, 0.1);
	assert_true(told[1].ended && told[1].id == told[0].id);
	near((double)(told[1].now_ns - BEGAN) / 1e9, 145, 0.1);
	begin_as(false);
	run("pid 7", "rss_anon_bytes", 0.2, 0, 90, loads_then_works);
	assert_int_equal(told_len, 0);
	begin_as(false); /* it ended, and so it is over */
	run("pid 7", "rss_anon_bytes", 0.2, 0, 90, leak_30);
	assert_int_equal(told_len, 1);
	outlook_upto(o, BEGAN + 100 * S);
	assert_int_equal(told_len, 1);
	outlook_upto(o, BEGAN + 110 * S);
	assert_int_equal(told_len, 2);
	outlook_end(o);
	assert_int_equal(told_len, 2);
}

static void live_memory_that_runs_out(void **state)
{
	(void)state;
	begin_as(false);
	put("gpu 0", "memory_total_bytes", 0, 80 * GB);
	run("gpu 0", "memory_used_bytes", 0.1, 0, 100, device_used);
	assert_int_equal(told_len, 1);
	assert_int_equal(told[0].kind, OUTLOOK_RUNS_OUT);
	near(told[0].left_s, (80 * GB - told[0].value) / (100 * MB), 0.1);
	run("gpu 0", "memory_used_bytes", 0.1, 100, 130, flat);
	assert_int_equal(told_len, 2);
	assert_true(told[1].ended);
}

/* ---- bounds ---- */

static void thousands_are_bounded(void **state)
{
	char entity[32];
	(void)state;
	begin_as(false);
	for (int second = 0; second < 3; second++)
		for (int pid = 1; pid <= 3 * OUTLOOK_SERIES_MOST; pid++) {
			snprintf(entity, sizeof(entity), "pid %d", pid);
			struct m_counter c = {
				.time_ns = BEGAN + second * S,
				.metric = second ? (uint32_t)pid - 1
						 : fake_metric(&fake, entity, "rss_anon_bytes"),
				.value = pid};
			outlook_counter(o, &names, &c);
		}
	assert_int_equal(outlook_left_out(o), 3 * 2 * OUTLOOK_SERIES_MOST);
	put("pid 99999", "rss_anon_bytes", 4, 1);
	assert_int_equal(outlook_left_out(o), 3 * 2 * OUTLOOK_SERIES_MOST + 1);
	run("pid 99999", "rss_anon_bytes", 0.2, 200, 290, leak_30); /* the others have gone */
	assert_int_equal(told_len, 1);
	assert_string_equal(entities[0], "pid 99999");
}

static void a_number_may_be_anothers(void **state)
{
	(void)state;
	begin_as(false);
	run("pid 7", "rss_anon_bytes", 0.2, 0, 50, leak_30);
	outlook_metric_gone(o, fake_metric(&fake, "pid 7", "rss_anon_bytes"));
	fake.metrics.data[0].pid = 8;
	struct m_counter c = {.time_ns = BEGAN + 51 * S, .metric = 0, .value = 1};
	outlook_counter(o, &names, &c);
	run("pid 7", "rss_anon_bytes", 0.2, 51, 80, leak_30); /* by a new number */
	assert_int_equal(told_len, 1);
	assert_string_equal(entities[0], "pid 7");
}

static void the_words(void **state)
{
	char line[OUTLOOK_LINE_BYTES];
	(void)state;
	put("gpu 0", "memory_total_bytes", 0, 24 * GB);
	run("gpu 0", "memory_used_bytes", 0.1, 0, 20.05, device_used);
	told_once(OUTLOOK_RUNS_OUT, "gpu 0");
	told[0].of = ENTITY_OF_GPU(0, -1, 0);
	assert_string_equal(outlook_line(line, &told[0]),
			    "early warning, gpu 0: device memory runs out in 20 s: 22.0 GB of 24.0 "
			    "GB are used, 100 MB more each second for 20 s");
	told[0].ended = true;
	assert_string_equal(outlook_line(line, &told[0]),
			    "early warning, gpu 0: is over (runs-out)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_leak_is_told_with_its_rate, begin, end),
		cmocka_unit_test_setup_teardown(what_is_no_trend_is_not_told, begin, end),
		cmocka_unit_test_setup_teardown(chance_is_seldom_told, begin, end),
		cmocka_unit_test_setup_teardown(resident_memory_stands_in, begin, end),
		cmocka_unit_test_setup_teardown(memory_runs_out_in_time, begin, end),
		cmocka_unit_test_setup_teardown(what_is_left_falls, begin, end),
		cmocka_unit_test_setup_teardown(file_systems_fill, begin, end),
		cmocka_unit_test_setup_teardown(what_is_far_off_is_not_told, begin, end),
		cmocka_unit_test_setup_teardown(a_limit_may_grow, begin, end),
		cmocka_unit_test_setup_teardown(odd_numbers_do_no_harm, begin, end),
		cmocka_unit_test_setup_teardown(new_errors_are_told, begin, end),
		cmocka_unit_test_setup_teardown(segments_that_are_sent_again, begin, end),
		cmocka_unit_test_setup_teardown(a_gpu_warms_up, begin, end),
		cmocka_unit_test_setup_teardown(told_once_and_taken_back, begin, end),
		cmocka_unit_test_setup_teardown(live_memory_that_runs_out, begin, end),
		cmocka_unit_test_setup_teardown(thousands_are_bounded, begin, end),
		cmocka_unit_test_setup_teardown(a_number_may_be_anothers, begin, end),
		cmocka_unit_test_setup_teardown(the_words, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

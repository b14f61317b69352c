/* cpu_speed_test.c - means of windows from counters that come, and the line through paces.
 * links: detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/cpu_speed.h"
#include "detect_names.h"

#define SECOND 1000000000ULL
#define HALF   (SECOND / 2)
#define N      120

static void near(double got, double want, double off)
{
	if (!(fabs(got - want) <= off))
		fail_msg("%g, wanted %g", got, want);
}

static void windows_have_the_mean_of_what_covers_them(void **state)
{
	(void)state;
	struct cpu_speed s = {0};
	/* each is of the half second before it */
	for (uint64_t i = 0; i < 10; i++)
		cpu_speed_add(&s, 7, 100 * SECOND + SECOND / 4 + i * HALF, 800 + 100 * (double)i,
			      0);
	/* [101, 102): a quarter of a second of 1000, a half of 1100, a quarter of 1200 */
	near(cpu_speed_work_ns(&s, 7, 101 * SECOND, 102 * SECOND), 1100, 1e-6);
	/* half of it is covered at the end; less is not known */
	near(cpu_speed_work_ns(&s, 7, 104 * SECOND, 105 * SECOND), 1650, 60);
	near(cpu_speed_work_ns(&s, 7, 104 * SECOND + HALF, 105 * SECOND + HALF), 0, 0);
	near(cpu_speed_work_ns(&s, 7, 90 * SECOND, 91 * SECOND), 0, 0);
	near(cpu_speed_work_ns(&s, 8, 101 * SECOND, 102 * SECOND), 0, 0);
	cpu_speed_free(&s);
}

/* What comes after a pause is of no more than half a second before it. */
static void a_pause_is_not_covered(void **state)
{
	(void)state;
	struct cpu_speed s = {0};
	cpu_speed_add(&s, 7, 100 * SECOND, 500, 0);
	cpu_speed_add(&s, 7, 110 * SECOND, 900, 0);
	near(cpu_speed_work_ns(&s, 7, 105 * SECOND, 106 * SECOND), 0, 0);
	near(cpu_speed_work_ns(&s, 7, 109 * SECOND, 110 * SECOND), 900, 1e-6);
	cpu_speed_add(&s, 7, 105 * SECOND, 100, 0); /* not in order: is left out */
	near(cpu_speed_work_ns(&s, 7, 104 * SECOND, 105 * SECOND), 0, 0);
	cpu_speed_free(&s);
}

static void old_ones_and_processes_go(void **state)
{
	(void)state;
	struct cpu_speed s = {0};
	for (uint32_t pid = 1000; pid < 1100; pid++) /* nobody tells of their ends */
		cpu_speed_add(&s, pid, 99 * SECOND, 1, 60 * SECOND);
	assert_int_equal(s.processes.len, 100);
	for (uint64_t i = 0; i < 10000; i++)
		for (uint32_t pid = 1; pid <= 3; pid++)
			cpu_speed_add(&s, pid, 100 * SECOND + i * HALF, pid, 60 * SECOND);
	assert_int_equal(s.processes.len, 3);
	for (size_t i = 0; i < s.processes.len; i++)
		assert_true(s.processes.data[i].list.len <= 300);
	cpu_speed_forget(&s, 1);
	cpu_speed_forget(&s, 1);
	uint64_t now = 100 * SECOND + 9999 * HALF;
	near(cpu_speed_work_ns(&s, 1, now - SECOND, now), 0, 0);
	near(cpu_speed_work_ns(&s, 2, now - SECOND, now), 2, 1e-9);
	near(cpu_speed_work_ns(&s, 3, now - SECOND, now), 3, 1e-9);
	cpu_speed_free(&s);
}

static void other_counters_are_not_taken(void **state)
{
	(void)state;
	struct fake_names fake = {0};
	struct cpu_speed s = {0};
	fake_names_make(&fake);
	struct detect_names names = fake_names_of(&fake);
	uint32_t work = fake_metric(&fake, "pid 100", "fixed_work_ns"),
		 other = fake_metric(&fake, "pid 100", "rss_bytes");
	cpu_speed_counter(&s, &names, &(struct m_counter){SECOND, other, 5}, 0);
	cpu_speed_counter(&s, &names, &(struct m_counter){SECOND, work, NAN}, 0);
	cpu_speed_counter(&s, &names, &(struct m_counter){SECOND, work, 0}, 0);
	cpu_speed_counter(&s, &names, &(struct m_counter){SECOND, 99999, 5}, 0);
	assert_int_equal(s.processes.len, 0);
	cpu_speed_counter(&s, &names, &(struct m_counter){SECOND, work, 640}, 0);
	near(cpu_speed_work_ns(&s, 100, HALF, SECOND), 640, 1e-9);
	cpu_speed_free(&s);
	strtab_free(&fake.strings);
	vec_free(&fake.metrics);
}

/* ---- the line ---- */

static uint32_t seed = 1;
static double chance(void)
{
	seed = seed * 1664525 + 1013904223;
	return (double)(seed >> 8) / (1 << 24) - 0.5;
}

/* Launches with speeds of their own, of whose windows every tenth does something else. */
static size_t made(struct cpu_window w[2 * N], double slope, double noise)
{
	for (size_t i = 0; i < 2 * (size_t)N; i++) {
		double x = 0.4 * chance();
		double y = (i < N ? 0.3 : -0.2) - slope * x + noise * chance();
		w[i] = (struct cpu_window){(uint32_t)(i / N), 7, exp(i % 10 ? y : y - 1.5),
					   800 * exp(x)};
	}
	return 2 * (size_t)N;
}

static void the_slope_is_found(void **state)
{
	(void)state;
	struct cpu_window w[2 * N];
	struct model_clock c = {0};
	for (double slope = 0.4; slope < 1.3; slope += 0.2) {
		cpu_speed_learn(&c, w, made(w, slope, 0.1));
		near(c.cpu_slope, slope, 0.06);
		near(c.work_ns, 800, 40);
	}
	/* 1.3 times as slow, which the CPUs were */
	near(-1.2 * log(1.3) + cpu_speed_part(&c, 1.3 * c.work_ns), 0, 0.03);
	near(cpu_speed_part(&c, 0), 0, 0); /* it is not known how fast they were */
}

static void what_does_not_tell_corrects_nothing(void **state)
{
	(void)state;
	struct cpu_window w[2 * N];
	struct model_clock c = {.cpu_slope = 9};
	cpu_speed_learn(&c, w, made(w, 0, 0.3)); /* it waits for its GPU */
	near(c.cpu_slope, 0, 0);
	near(cpu_speed_part(&c, 2000), 0, 0);
	cpu_speed_learn(&c, w, made(w, -1, 0.1)); /* faster on slower CPUs: chance */
	near(c.cpu_slope, 0, 0);
	made(w, 1, 0.1);
	cpu_speed_learn(&c, w, 29); /* too few */
	near(c.cpu_slope, 0, 0);
	for (size_t i = 0; i < 2 * (size_t)N; i++)
		w[i].work_ns = i % 2 ? 800 : 0; /* always alike, or not known */
	cpu_speed_learn(&c, w, 2 * (size_t)N);
	near(c.cpu_slope, 0, 0);
	cpu_speed_learn(&c, w, 0);
	near(c.cpu_slope, 0, 0);
}

/* However slow they were, a stop is none that they explain. */
static void a_correction_has_bounds(void **state)
{
	(void)state;
	struct model_clock c = {.work_ns = 500, .cpu_slope = 1};
	near(cpu_speed_part(&c, 1e9), 1, 1e-9);
	near(cpu_speed_part(&c, 1e-3), -1, 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_have_the_mean_of_what_covers_them),
		cmocka_unit_test(a_pause_is_not_covered),
		cmocka_unit_test(old_ones_and_processes_go),
		cmocka_unit_test(other_counters_are_not_taken),
		cmocka_unit_test(the_slope_is_found),
		cmocka_unit_test(what_does_not_tell_corrects_nothing),
		cmocka_unit_test(a_correction_has_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

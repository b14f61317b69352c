/* hardware_test.c - rows of GPUs and processes from counters and waits, and rows of steps.
 * links: detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/hardware.h"
#include "detect/step_rows.h"
#include "detect_names.h"

#define SECOND	  1000000000ULL
#define ROWS_KEPT 256

static struct fake_names fake;
static struct detect_names names;
static struct counters_usual *usual;
static struct hardware *hardware;
static struct feature_row rows[ROWS_KEPT];
static double values[ROWS_KEPT][FEATURES_MOST];
static size_t rows_len;

static void on_row(void *ctx, const struct feature_row *row, const double v[FEATURES_MOST])
{
	(void)ctx;
	assert_true(rows_len < ROWS_KEPT);
	memcpy(values[rows_len], v, sizeof(values[0]));
	rows[rows_len++] = *row;
}

static int begin(void **state)
{
	(void)state;
	fake_names_make(&fake);
	names = fake_names_of(&fake);
	usual = counters_usual_new(1);
	hardware = hardware_new(&(struct hardware_options){.window_ns = SECOND,
							   .late_ns = SECOND / 2,
							   .usual = usual,
							   .learn = true,
							   .row = on_row});
	rows_len = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	hardware_free(hardware);
	counters_usual_free(usual);
	strtab_free(&fake.strings);
	vec_free(&fake.metrics);
	return 0;
}

static void counter(const char *entity, const char *name, double seconds, double value)
{
	struct m_counter c = {.time_ns = (uint64_t)(seconds * 1e9),
			      .metric = fake_metric(&fake, entity, name),
			      .value = value};
	hardware_counter(hardware, &names, &c);
}

static int feature(enum detect_layer layer, const char *name)
{
	uint32_t n;
	const struct feature *f = features_of(layer, &n);
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(f[i].name, name))
			return (int)i;
	fail_msg("no feature %s", name);
	return -1;
}

static double value(size_t row, const char *name)
{
	assert_true(row < rows_len);
	return values[row][feature(rows[row].layer, name)];
}

static double z(size_t row, const char *name)
{
	assert_true(row < rows_len);
	return rows[row].x[feature(rows[row].layer, name)];
}

static void gpus_have_means(void **state)
{
	(void)state;
	counter("gpu 1", "power_w", 10.1, 600);
	counter("gpu 1", "power_w", 10.6, 700);
	counter("gpu 1", "power_w", 11.2, 500);
	counter("gpu 1", "clocks_held_reasons", 10.1, 0x4);
	counter("gpu 1", "clocks_held_reasons", 10.3, 0x1);
	counter("gpu 0", "sm_ratio", 10.5, 0.5);
	counter("node2 gpu 3", "sm_ratio", 10.5, 0.25);
	counter("gpu 0 mig 1", "sm_ratio", 10.5, 0.1);
	counter("gpu 0 pid x", "sm_ratio", 10.5, 0.2);
	counter("gpu 1x", "sm_ratio", 10.5, 0.2);
	counter("eacgm", "sm_ratio", 10.5, 0.3);
	counter("gpu 1", "fan_ratio", 10.5, 0.3);
	counter("gpu 1", "power_w", 10.7, NAN);
	hardware_end(hardware);
	assert_int_equal(rows_len, 4);
	assert_int_equal(rows[0].gpu, 1);
	assert_int_equal(rows[0].layer, DETECT_HARDWARE);
	assert_int_equal(rows[0].pid, 0);
	assert_int_equal(rows[0].start_ns, 10 * SECOND);
	assert_true(value(0, "power_w") == 650);
	assert_true(value(0, "clocks_held") == 0.5);
	assert_true(isnan(value(0, "sm_ratio")));
	assert_int_equal(rows[1].gpu, 0);
	assert_true(value(1, "sm_ratio") == 0.5);
	assert_int_equal(rows[2].gpu, 3);
	assert_int_equal(rows[3].start_ns, 11 * SECOND);
	assert_true(value(3, "power_w") == 500);
	assert_true(value(3, "clocks_held") == 0.5); /* the last that was said */
}

/* Some counters come every two seconds; what is older than ten says nothing. */
static void values_are_held_for_a_while(void **state)
{
	(void)state;
	counter("gpu 0", "gpm_dram_ratio", 10.1, 0.7);
	for (int s = 10; s < 30; s++)
		counter("gpu 0", "power_w", s + 0.5, 600);
	hardware_end(hardware);
	assert_int_equal(rows_len, 20);
	assert_true(value(5, "gpm_dram_ratio") == 0.7);
	assert_true(isnan(value(15, "gpm_dram_ratio")));
}

static void processes_have_rates_and_waits(void **state)
{
	(void)state;
	const struct m_sample waits[] = {
		{.time_ns = 12 * SECOND,
		 .weight_ns = SECOND + SECOND / 2,
		 .thread = 0,
		 .kind = SAMPLE_OFFCPU,
		 .reason = WAIT_NETWORK},
		{.time_ns = 11 * SECOND + SECOND / 4,
		 .weight_ns = SECOND / 4,
		 .thread = 1,
		 .kind = SAMPLE_OFFCPU,
		 .reason = WAIT_NETWORK},
		{.time_ns = 11 * SECOND + SECOND / 4,
		 .weight_ns = SECOND / 4,
		 .thread = 1,
		 .kind = SAMPLE_OFFCPU,
		 .reason = WAIT_PREEMPTED},
		{.time_ns = 11 * SECOND + SECOND / 4,
		 .weight_ns = SECOND / 4,
		 .thread = 1,
		 .kind = SAMPLE_CPU},
		{.time_ns = 11 * SECOND,
		 .weight_ns = UINT64_MAX,
		 .thread = 1,
		 .kind = SAMPLE_OFFCPU,
		 .reason = WAIT_REASONS},
	};
	counter("pid 100", "net_sent_bytes", 10.25, 1000);
	counter("pid 100", "net_sent_bytes", 11.25, 5000);
	counter("pid 100", "net_sent_bytes", 11.75, 6000);
	counter("pid 100", "net_sent_bytes", 12.75, 0); /* another process of that number */
	counter("pid 102", "cpu_ratio", 11.1, 3);
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		hardware_sample(hardware, &names, &waits[i]);
	hardware_mix(hardware, 100, 11 * SECOND, &(struct work){.regime = 3, .events = 5000});
	hardware_end(hardware);
	assert_int_equal(rows_len, 2);
	assert_int_equal(rows[0].layer, DETECT_HOST);
	assert_int_equal(rows[0].pid, 100);
	assert_int_equal(rows[0].gpu, -1);
	assert_int_equal(rows[0].regime, 3);
	assert_int_equal(rows[0].events, 5000);
	assert_true(value(0, "net_sent_bytes_per_s") == 3000);
	assert_true(value(0, "wait_network_ratio") == 1.25);
	assert_true(value(0, "preempted_ratio") == 0.25);
	assert_true(value(0, "wait_gil_ratio") == 0);
	assert_true(isnan(value(0, "cpu_ratio")));
	assert_int_equal(rows[1].pid, 102);
	assert_true(value(1, "cpu_ratio") == 3);
	assert_true(isnan(value(1, "wait_network_ratio"))); /* it has no samples */
}

static void wait_of(double seconds, double duration, uint8_t reason)
{
	struct m_sample wait = {.time_ns = (uint64_t)(seconds * 1e9),
				.weight_ns = (uint64_t)(duration * 1e9),
				.kind = SAMPLE_OFFCPU,
				.reason = reason};
	hardware_sample(hardware, &names, &wait);
}

/* From the 26th second on two more threads wait for good; in the 32nd they work for a while. */
static void threads_that_idle_are_not_unusual(void **state)
{
	(void)state;
	static const uint8_t reasons[] = {WAIT_FUTEX, WAIT_OTHER, WAIT_NETWORK};
	for (int second = 0; second < 40; second++) {
		counter("pid 100", "cpu_ratio", second + 0.1, 1);
		for (size_t i = 0; i < 3; i++) {
			wait_of(second + 0.5, 0.25, reasons[i]);
			for (int thread = 0; thread < (second >= 26 ? 2 : 0); thread++)
				wait_of(second + 1, second == 32 ? 0.75 : 1, reasons[i]);
		}
	}
	hardware_end(hardware);
	assert_int_equal(rows_len, 40);
	assert_true(value(30, "wait_other_ratio") == 2.25);
	assert_true(fabs(z(30, "wait_other_ratio")) < 1);
	assert_true(fabs(z(30, "wait_futex_ratio")) < 1);
	assert_true(z(30, "wait_network_ratio") > 10);
	assert_true(z(32, "wait_other_ratio") > 10);
	assert_true(z(32, "wait_futex_ratio") > 10);
}

/* Until it is known where the processes are, any may be the job's. */
static void gpus_of_other_jobs_are_left_out(void **state)
{
	(void)state;
	static const char *const names_of_gpus[] = {"gpu 0", "gpu 1", "gpu 2"};
	for (int s = 10; s < 20; s++) {
		for (size_t i = 0; i < 3; i++)
			counter(names_of_gpus[i], "power_w", s + 0.5, 100 + (double)i);
		if (s == 12) {
			counter("gpu 1 pid 100", "memory_used_bytes", s + 0.6, 1e9);
			counter("gpu 2 pid 101", "memory_used_bytes", s + 0.6, 1e9);
		}
		hardware_upto(hardware, (uint64_t)s * SECOND + SECOND * 7 / 10);
	}
	hardware_end(hardware);
	assert_int_equal(rows_len, 3 + 9 * 2);
	for (size_t i = 3; i < rows_len; i++)
		assert_true(rows[i].gpu == 1 || rows[i].gpu == 2);
}

static void of_job(uint64_t at_10, uint64_t at_30, bool lists)
{
	hardware_forget_rows(hardware);
	rows_len = 0;
	for (int s = 10; s < 50; s++) {
		if (lists)
			counter("gpu 0", "other_processes", s + 0.4, 2);
		counter("gpu 0", "power_w", s + 0.5, 100);
		hardware_mix(hardware, 100, (uint64_t)s * SECOND,
			     &(struct work){.regime = 1,
					    .events = 1000,
					    .cuda_events = s == 10   ? at_10
							   : s == 30 ? at_30
								     : 0});
		hardware_upto(hardware, (uint64_t)(s + 1) * SECOND);
	}
	hardware_end(hardware);
}

/* A job on the CPU, on a host with GPUs, may ask how many there are. Once it uses them any may be
 * its own, also while it stands still; and so may they all be where nobody listens to CUDA, unless
 * the driver lists processes and has none of the job's. */
static void gpus_of_a_job_without_are_left_out(void **state)
{
	(void)state;
	of_job(2, 0, false);
	assert_int_equal(rows_len, 0);
	of_job(2, 100, false);
	/* The one before comes when it is known, too. */
	assert_int_equal(rows_len, 21);
	assert_int_equal(rows[0].start_ns, 29 * SECOND);
	of_job(0, 0, false);
	assert_int_equal(rows_len, 40);
	of_job(0, 0, true);
	assert_int_equal(rows_len, 0);
	/* In a PID namespace the driver's numbers are others. */
	of_job(100, 0, true);
	assert_int_equal(rows_len, 40);
}

/* What is usual is learned for each regime; that of a GPU is its process's. */
static void regimes_are_judged_apart(void **state)
{
	(void)state;
	for (int s = 10; s < 70; s++) {
		bool training = s < 40;
		counter("gpu 0 pid 100", "memory_used_bytes", s + 0.1, 1e9);
		counter("gpu 0", "power_w", s + 0.5, (training ? 600 : 200) + s % 3);
		hardware_mix(hardware, 100, (uint64_t)s * SECOND,
			     &(struct work){.regime = training ? 1 : 2, .events = 1000});
		hardware_mix(hardware, 104, (uint64_t)s * SECOND,
			     &(struct work){.regime = 9, .events = 9000}); /* not on the GPU */
		hardware_upto(hardware, (uint64_t)(s + 1) * SECOND);
	}
	hardware_end(hardware);
	assert_int_equal(rows_len, 60);
	assert_int_equal(rows[29].regime, 1);
	assert_int_equal(rows[30].regime, 2);
	assert_true(fabs(z(29, "power_w")) < 1);
	assert_true(z(31, "power_w") < -10); /* not known yet: against whatever was done */
	assert_true(fabs(z(59, "power_w")) < 1);
	assert_true(isnan(z(5, "power_w")));
}

/* A process that stands still is alive by its counters, and does what it did before; of its first
 * and last window it is not known how much of them it had. */
static void what_stands_still_has_no_calls(void **state)
{
	(void)state;
	for (int s = 10; s < 60; s++) {
		counter("pid 100", "cpu_ratio", s + 0.5, 1);
		counter("gpu 0", "sm_ratio", s + 0.5, s < 50);
		if (s < 50)
			hardware_mix(hardware, 100, (uint64_t)s * SECOND,
				     &(struct work){.regime = 2,
						    .events = (uint64_t)(5000 + s % 3),
						    .cuda_events = 1000});
		hardware_upto(hardware, (uint64_t)s * SECOND + SECOND * 7 / 10);
	}
	hardware_end(hardware);
	assert_int_equal(rows_len, 100);
	for (size_t i = 0; i < rows_len; i++) {
		uint64_t s = rows[i].start_ns / SECOND;
		assert_int_equal(rows[i].regime, 2);
		if (rows[i].layer != DETECT_HOST)
			continue;
		if (s == 10 || s == 59)
			assert_true(isnan(value(i, "calls_per_s")));
		else
			assert_true(value(i, "calls_per_s") == (s < 50 ? 5000 + s % 3 : 0));
		assert_true(s < 50 || s == 59 || z(i, "calls_per_s") < -8);
	}
}

/* Nothing was heard of it for a while: it may have begun in this window. */
static void what_was_away_has_no_rate(void **state)
{
	(void)state;
	for (int s = 10; s < 30; s++) {
		if (s == 20)
			continue;
		counter("pid 100", "cpu_ratio", s + 0.5, 1);
		hardware_mix(hardware, 100, (uint64_t)s * SECOND,
			     &(struct work){.regime = 2, .events = 5000});
	}
	hardware_end(hardware);
	assert_int_equal(rows_len, 19);
	assert_true(value(8, "calls_per_s") == 5000);
	assert_true(isnan(value(9, "calls_per_s")));
	assert_int_equal(rows[10].start_ns, 21 * SECOND);
	assert_true(isnan(value(10, "calls_per_s")));
	assert_true(value(11, "calls_per_s") == 5000);
}

static void hostile_counters(void **state)
{
	(void)state;
	char entity[64];
	for (int i = 0; i < 20000; i++) {
		snprintf(entity, sizeof(entity), "pid %d", i);
		counter(entity, "cpu_ratio", 10.5, 1);
		if (i % 1000 == 0) {
			rows_len = 0;
		}
	}
	struct m_counter c = {.time_ns = UINT64_MAX,
			      .metric = fake_metric(&fake, "gpu 0", "power_w"),
			      .value = INFINITY};
	hardware_counter(hardware, &names, &c);
	c.value = 1e308;
	hardware_counter(hardware, &names, &c);
	c.time_ns = 0;
	hardware_counter(hardware, &names, &c);
	struct m_sample s = {.time_ns = UINT64_MAX, .weight_ns = UINT64_MAX, .kind = SAMPLE_OFFCPU};
	hardware_sample(hardware, &names, &s);
	s.thread = FAKE_THREADS + 1;
	hardware_sample(hardware, &names, &s);
	counter("gpu 99999999999999999999", "power_w", 1, 1);
	counter("", "power_w", 1, 1);
	counter("gpu 0", "", 1, 1);
}

/* ---- steps ---- */

/* A loop of steps of 100 ms: loading 10, forward 40, backward 50. */
static struct steps made_steps(struct steps_process *p, struct steps_loop *loop, uint32_t n)
{
	*p = (struct steps_process){.pid = 7};
	*loop = (struct steps_loop){.kind = STEPS_TRAINING, .steps = n};
	for (uint32_t i = 0; i < n; i++)
		*vec_push(&p->steps) =
			(struct steps_step){.start_ns = i * SECOND / 10,
					    .end_ns = (i + 1) * SECOND / 10,
					    .phase_ns = {SECOND / 100, SECOND / 25, SECOND / 20},
					    .launches = 20,
					    .index = i,
					    .ops = 100};
	*vec_push(&p->loops) = *loop;
	struct steps s = {0};
	*vec_push(&s.processes) = *p;
	return s;
}

static void steps_against_their_loop(void **state)
{
	(void)state;
	struct steps_process p;
	struct steps_loop loop;
	struct step_rows r;
	struct steps s = made_steps(&p, &loop, 20);
	struct steps_step *slow = &s.processes.data[0].steps.data[5];
	slow->end_ns += SECOND / 10; /* loading took 100 ms longer */
	slow->phase_ns[STEPS_LOAD] += SECOND / 10;
	slow->launches = 41;
	step_rows_make(&r, &s, NULL);
	assert_int_equal(r.rows.len, 20);
	assert_int_equal(r.rows.data[0].layer, DETECT_STEP);
	assert_int_equal(r.rows.data[0].regime, STEPS_TRAINING + 1);
	for (int i = 0; i < 9; i++)
		assert_true(fabs(r.rows.data[0].x[i]) < 1e-9);
	const double *x = r.rows.data[5].x;
	assert_true(fabs(x[feature(DETECT_STEP, "duration")] - log(2)) < 1e-9);
	assert_true(fabs(x[feature(DETECT_STEP, "load")] - log(2)) < 1e-9);
	assert_true(fabs(x[feature(DETECT_STEP, "backward")]) < 1e-9);
	assert_true(fabs(x[feature(DETECT_STEP, "launches")] - log(2)) < 1e-9);
	assert_true(isnan(x[9]));
	step_rows_free(&r);

	/* By a model's: steps usually take half as long. */
	struct step_usual model[STEPS_KINDS] = {0};
	step_usual_of(model, &s);
	assert_int_equal(model[STEPS_TRAINING].steps, 20);
	assert_int_equal(model[STEPS_INFERENCE].steps, 0);
	assert_true(model[STEPS_TRAINING].duration_ns == 1e8);
	model[STEPS_TRAINING].duration_ns = 5e7;
	step_rows_make(&r, &s, model);
	assert_true(fabs(r.rows.data[0].x[0] - log(2)) < 1e-9);
	step_rows_free(&r);
	vec_free(&s.processes.data[0].steps);
	vec_free(&s.processes.data[0].loops);
	vec_free(&s.processes);
}

static void few_steps_need_a_model(void **state)
{
	(void)state;
	struct steps_process p;
	struct steps_loop loop;
	struct step_rows r;
	struct steps s = made_steps(&p, &loop, STEP_ROWS_LEAST - 1);
	step_rows_make(&r, &s, NULL);
	assert_int_equal(r.rows.len, 0);
	step_rows_free(&r);
	struct step_usual model[STEPS_KINDS] = {
		[STEPS_TRAINING] = {.steps = 100, .duration_ns = 1e8, .phase_ns = {1e9}}};
	step_rows_make(&r, &s, model);
	assert_int_equal(r.rows.len, STEP_ROWS_LEAST - 1);
	/* A phase whose usual time is beyond the step's: a floor, not a logarithm of less than 0.
	 */
	assert_true(isfinite(r.rows.data[0].x[feature(DETECT_STEP, "load")]));
	step_rows_free(&r);
	vec_free(&s.processes.data[0].steps);
	vec_free(&s.processes.data[0].loops);
	vec_free(&s.processes);
}

/* A model that knows training alone says nothing of batches without an update; one that knows no
 * steps judges each loop by its own. */
static void loops_of_other_kinds_have_no_rows(void **state)
{
	(void)state;
	struct steps_process p;
	struct steps_loop loop;
	struct step_rows r;
	struct steps s = made_steps(&p, &loop, 20);
	struct step_usual model[STEPS_KINDS] = {
		[STEPS_TRAINING] = {.steps = 100, .duration_ns = 1e8}};
	const struct step_usual none[STEPS_KINDS] = {0};
	*vec_push(&s.processes.data[0].loops) =
		(struct steps_loop){.kind = STEPS_EVALUATION, .first = 10, .steps = 10};
	s.processes.data[0].loops.data[0].steps = 10;
	step_rows_make(&r, &s, model);
	assert_int_equal(r.rows.len, 10);
	for (size_t i = 0; i < r.rows.len; i++)
		assert_int_equal(r.rows.data[i].regime, STEPS_TRAINING + 1);
	step_rows_free(&r);
	model[STEPS_EVALUATION] = model[STEPS_TRAINING];
	step_rows_make(&r, &s, model);
	assert_int_equal(r.rows.len, 20);
	assert_int_equal(r.rows.data[19].regime, STEPS_EVALUATION + 1);
	step_rows_free(&r);
	step_rows_make(&r, &s, none);
	assert_int_equal(r.rows.len, 20);
	step_rows_free(&r);
	vec_free(&s.processes.data[0].steps);
	vec_free(&s.processes.data[0].loops);
	vec_free(&s.processes);
}

/* Sources of a file come one after the other: each begins at the first window again. */
static void windows_come_in_any_order(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		int s = i * 67 % 200;
		counter("gpu 0", "power_w", 10.25 + s, s);
	}
	hardware_upto(hardware, 60 * SECOND + SECOND / 2);
	assert_int_equal(rows_len, 50);
	for (int s = 199; s >= 0; s--)
		counter("gpu 0", "power_w", 10.75 + s, s + 2);
	hardware_end(hardware);
	assert_int_equal(rows_len, 200);
	for (size_t i = 0; i < rows_len; i++) {
		assert_int_equal(rows[i].start_ns, (10 + i) * SECOND);
		assert_true(value(i, "power_w") == (double)(i < 50 ? i : i + 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(gpus_have_means, begin, end),
		cmocka_unit_test_setup_teardown(gpus_of_other_jobs_are_left_out, begin, end),
		cmocka_unit_test_setup_teardown(gpus_of_a_job_without_are_left_out, begin, end),
		cmocka_unit_test_setup_teardown(values_are_held_for_a_while, begin, end),
		cmocka_unit_test_setup_teardown(processes_have_rates_and_waits, begin, end),
		cmocka_unit_test_setup_teardown(threads_that_idle_are_not_unusual, begin, end),
		cmocka_unit_test_setup_teardown(regimes_are_judged_apart, begin, end),
		cmocka_unit_test_setup_teardown(what_stands_still_has_no_calls, begin, end),
		cmocka_unit_test_setup_teardown(what_was_away_has_no_rate, begin, end),
		cmocka_unit_test_setup_teardown(windows_come_in_any_order, begin, end),
		cmocka_unit_test_setup_teardown(hostile_counters, begin, end),
		cmocka_unit_test(steps_against_their_loop),
		cmocka_unit_test(few_steps_need_a_model),
		cmocka_unit_test(loops_of_other_kinds_have_no_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

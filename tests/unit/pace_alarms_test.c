/* pace_alarms_test.c - how often sums of losses alarm, against how often it was asked for, on
 * simulated launches; and that what slows a job is found.
 * links: detect analyze base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "detect/pace_alarms.h"
#include "detect/pace_judge.h"

#define SECOND	 1000000000ULL
#define MINUTE	 60
#define LAUNCHES 6

/* A launch: an offset of its own, windows that resemble the one before, and now and then a longer
 * one. */
struct job {
	double sigma, launch, alike, heavy;
	double with_counters; /* by how much these go with it; 0: it has none */
};

static uint64_t state_of_chance;

static double uniform(void)
{
	state_of_chance = state_of_chance * 6364136223846793005ULL + 1442695040888963407ULL;
	return ((double)(state_of_chance >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

struct launch {
	const struct job *job;
	double offset, last;
};

static struct launch launch_of(const struct job *job)
{
	return (struct launch){job, job->launch * normal(), normal()};
}

static double next_loss(struct launch *l)
{
	const struct job *j = l->job;
	l->last = j->alike * l->last + sqrt(1 - j->alike * j->alike) * normal();
	double tail = j->heavy > 0 ? -j->heavy * log(uniform()) : 0;
	return l->offset + j->sigma * (l->last + tail);
}

/* Of the counters of the same window, how rare they are; 0: there are none. */
static double next_counters_p(const struct launch *l)
{
	double with = l->job->with_counters;
	double x = with * l->last + sqrt(1 - with * with) * (with > 0 ? normal() : 0);
	return with > 0 ? erfc(x / M_SQRT2) / 2 : 0;
}

static void learn(struct pace_tail tails[PACE_TAILS], double *sigma, const struct job *job,
		  uint32_t launches, size_t windows)
{
	struct paced *all = xcalloc(launches * windows, sizeof(*all));
	size_t n = 0;
	for (uint32_t i = 0; i < launches; i++) {
		struct launch l = launch_of(job);
		for (size_t w = 0; w < windows; w++) {
			double loss = next_loss(&l);
			all[n++] = (struct paced){.recording = i,
						  .pid = 1,
						  .start_ns = w * SECOND,
						  .ln_pace = -loss,
						  .counters_p = next_counters_p(&l)};
		}
	}
	pace_alarms_learn(tails, sigma, all, n, launches, SECOND, 0);
	free(all);
}

/* What is asked for, and its alarms: those that follow each other within five windows are one. */
struct asked {
	double an_hour, height;
	struct pace_judge judge;
	uint64_t quiet;
	size_t got;
};

static void judge(struct asked *a, uint64_t window, double pace, double counters_p, double sigma,
		  double least_effect)
{
	struct pace_judge *j = &a->judge;
	double loss = pace_judge_loss(j, pace, 0), least = -log1p(-least_effect);
	double sum = pace_judge_add(j, window * SECOND, SECOND, loss, pace_judge_sigma(j, sigma),
				    least, a->height + PACE_MOST);
	if (counters_p > 0)
		sum = fmax(sum, pace_judge_counters(j, window * SECOND, counters_p, true,
						    a->height + PACE_MOST, NULL));
	bool alarm = sum > a->height && loss >= least;
	a->got += alarm && a->quiet >= PACE_QUIET;
	a->quiet = alarm ? 0 : a->quiet + 1;
}

#define RATES 3
/* Launches of an hour. */
static void run_hours(struct asked asked[RATES], const struct job *job, double sigma, size_t hours,
		      double least_effect)
{
	for (size_t h = 0; h < hours; h++) {
		struct launch l = launch_of(job);
		for (size_t a = 0; a < RATES; a++) {
			asked[a].judge = (struct pace_judge){0};
			asked[a].quiet = PACE_QUIET;
		}
		for (uint64_t w = 0; w < 3600; w++) {
			double pace = exp(-next_loss(&l)), counters_p = next_counters_p(&l);
			pace_judge_see(&asked[0].judge, pace, 0, false);
			for (size_t a = 0; a < RATES; a++) {
				asked[a].judge.launch.c = asked[0].judge.launch.c;
				asked[a].judge.launch.len = asked[0].judge.launch.len;
				judge(&asked[a], w, pace, counters_p, sigma, least_effect);
			}
		}
		pace_judge_free(&asked[0].judge);
	}
}

/* Of models of an hour: by a factor of two at most, and of three where one in ten hours is asked
 * for, which an hour says little of. */
static void what_was_asked_for(void **state)
{
	static const struct {
		const char *name;
		struct job job;
	} jobs[] = {
		{"independent", {.sigma = 0.03}},
		{"launches differ", {.sigma = 0.03, .launch = 0.025}},
		{"windows alike", {.sigma = 0.03, .launch = 0.02, .alike = 0.5}},
		{"heavy tail", {.sigma = 0.03, .launch = 0.02, .alike = 0.3, .heavy = 0.7}},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		struct asked asked[RATES] = {{.an_hour = 0.1}, {.an_hour = 1}, {.an_hour = 10}};
		enum { MODELS = 30, HOURS = 10 };
		state_of_chance = 7 + i;
		for (size_t m = 0; m < MODELS; m++) {
			struct pace_tail tails[PACE_TAILS];
			double sigma;
			learn(tails, &sigma, &jobs[i].job, LAUNCHES, (size_t)10 * MINUTE);
			for (size_t a = 0; a < RATES; a++)
				asked[a].height = pace_alarms_height(tails, 0, asked[a].an_hour);
			run_hours(asked, &jobs[i].job, sigma, HOURS, 0);
		}
		for (size_t a = 0; a < RATES; a++) {
			double got = (double)asked[a].got / (MODELS * HOURS);
			double factor = asked[a].an_hour < 1 ? 3 : 2;
			printf("%s: asked for %g an hour, got %.3g\n", jobs[i].name,
			       asked[a].an_hour, got);
			assert_true(got <= factor * asked[a].an_hour);
			assert_true(got >= asked[a].an_hour / factor);
		}
	}
}

/* Of a launch that is slower by 4 % for good: how many windows a slowdown takes until it alarms. */
static uint64_t windows_until_found(double slowdown, double least_effect)
{
	struct job job = {.sigma = 0.03, .launch = 0.02};
	struct pace_tail tails[PACE_TAILS];
	double sigma;
	state_of_chance = 3;
	learn(tails, &sigma, &job, LAUNCHES, (size_t)10 * MINUTE);
	struct asked a = {.height = pace_alarms_height(tails, least_effect, 1),
			  .quiet = PACE_QUIET};
	struct launch l = {&job, 0.04, 0};
	uint64_t w = 0;
	for (; w < 200 && !a.got; w++) {
		double pace = exp(-next_loss(&l)) / (w < 100 ? 1 : slowdown);
		pace_judge_see(&a.judge, pace, 0, false);
		judge(&a, w, pace, 0, sigma, least_effect);
	}
	pace_judge_free(&a.judge);
	return w - 100;
}

static void what_is_slow(void **state)
{
	(void)state;
	assert_int_equal(windows_until_found(1.5, 0.1), 1);
	assert_int_equal(windows_until_found(1.25, 0.1), 1);
	assert_true(windows_until_found(1.15, 0.1) <= 3);
	assert_true(windows_until_found(1.05, 0.1) == 100); /* nobody minds */
	assert_true(windows_until_found(1.05, 0) <= 20);
}

/* Nothing was learned: it is as of normal windows. */
static void without_a_model(void **state)
{
	(void)state;
	const struct pace_tail none[PACE_TAILS] = {{0}};
	double often = pace_alarms_height(none, 0, 100), seldom = pace_alarms_height(none, 0, 0.1);
	assert_true(often > 0 && seldom > often && seldom < 20);
}

/* sigma 0.03 and the launch's 0.022: s is 0.038. */
static void how_soon(void **state)
{
	struct pace_tail tails[PACE_TAILS];
	(void)state;
	for (size_t e = 0; e < PACE_TAILS; e++)
		tails[e] = (struct pace_tail){.start = 3, .scale = 0.5, .known = 65, .rate = 60};
	double height = pace_alarms_height(tails, 0.1, 1); /* 5.1 */
	assert_true(height > 5 && height < 5.3);
	assert_true(
		isinf(pace_alarms_windows(tails, 0.03, 0.1, 1, 1.1))); /* too little for anyone */
	assert_true(pace_alarms_windows(tails, 0.03, 0.1, 1, 1.2) == 2);
	assert_true(pace_alarms_windows(tails, 0.03, 0.1, 1, 2) == 1);
	assert_true(isinf(pace_alarms_windows(tails, 0.3, 0.1, 1, 1.2)));
}

/* What counters add is learned as well, also where they are rare in slow windows by themselves: by
 * a factor of two at most. */
static void with_counters(void **state)
{
	static const double goes_with[] = {1e-9, 0.5, 0.8};
	enum { MODELS = 20, HOURS = 10 };
	(void)state;
	for (size_t i = 0; i < sizeof(goes_with) / sizeof(goes_with[0]); i++) {
		const struct job job = {
			.sigma = 0.06, .launch = 0.02, .with_counters = goes_with[i]};
		struct asked asked[RATES] = {{.an_hour = 0.3}, {.an_hour = 1}, {.an_hour = 10}};
		state_of_chance = 17 + i;
		for (size_t m = 0; m < MODELS; m++) {
			struct pace_tail tails[PACE_TAILS];
			double sigma;
			learn(tails, &sigma, &job, LAUNCHES, (size_t)10 * MINUTE);
			for (size_t a = 0; a < RATES; a++)
				asked[a].height = pace_alarms_height(tails, 0.1, asked[a].an_hour);
			run_hours(asked, &job, sigma, HOURS, 0.1);
		}
		for (size_t a = 0; a < RATES; a++) {
			double got = (double)asked[a].got / (MODELS * HOURS);
			printf("counters that go with it by %.1g: asked for %g an hour, got %.3g\n",
			       goes_with[i], asked[a].an_hour, got);
			assert_true(got <= 2 * asked[a].an_hour);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_asked_for), cmocka_unit_test(with_counters),
		cmocka_unit_test(what_is_slow),	      cmocka_unit_test(without_a_model),
		cmocka_unit_test(how_soon),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

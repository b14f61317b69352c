/* watch_steps_test.c - steps that are counted while jobs run: of each of several, fast and slow
 * ones beside one another, of one that begins later and of one that ends; no more than there is
 * room for; of one alone, where no more is asked for; and by what a budget leaves of their calls.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed_rows.h"
#include "cli/watch_steps.h"
#include "session/session_names.h"

#define MS	 1000000ULL
#define BATCH_NS (100 * MS)
#define PID	 (1u << 30) /* no process's: the kernel's end at 2^22 */
#define JOBS	 80

static const char *const step[] = {"aten::embedding", "aten::linear", "aten::relu",
				   "aten::linear",    "aten::mean",   "backward",
				   "aten::mul_",      "aten::add_",   "aten::addcdiv_"};
#define OPS (sizeof(step) / sizeof(*step))

struct job {
	uint64_t every_ns, next_ns; /* a step; 0: it has none */
	uint64_t done;
	bool there;
};

static struct session_names names;
static struct detect_names numbers;
static struct watch_steps *w;
static struct live_jobs seen;
static struct feed_batch b;
static struct job jobs[JOBS];
static uint32_t strings;
static uint64_t now_ns, told;
static bool turned_down[OPS];
static bool is_partial; /* some are */
static bool two_rings;	/* of what a batch has the later half comes first */
static uint64_t first_end_ns;
static uint32_t batches; /* calls of what was turned down come in one of 20 */

static uint32_t text(const char *string)
{
	*vec_push(&b.strings) = (struct feed_string){strings, (uint32_t)b.texts.len};
	buf_add(&b.texts, string, strlen(string) + 1);
	return strings++;
}

static void pass(void)
{
	const struct session_view v = {.batch = &b, .names = &numbers};
	session_names_take(&names, &b);
	watch_steps_batch(w, &v, now_ns);
	session_names_forget(&names, &b);
	feed_batch_empty(&b);
}

static void on_end(void *ctx, const struct live_steps_view *of, uint64_t end_ns, bool first)
{
	(void)ctx;
	assert_true(of->pid >= PID && of->pid < PID + JOBS && end_ns < now_ns + 3000 * MS);
	told += !first;
	if (first)
		first_end_ns = end_ns;
	assert_true(end_ns >= first_end_ns || !two_rings);
}

static int begin(void **unused)
{
	(void)unused;
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &numbers);
	memset(jobs, 0, sizeof(jobs));
	now_ns = 1000 * MS;
	told = strings = 0;
	memset(turned_down, 0, sizeof(turned_down));
	is_partial = two_rings = false;
	text("");
	uint32_t layer = text("torch"), backward = text("backward");
	for (uint32_t i = 0; i < OPS; i++) {
		*vec_push(&b.probes) =
			(struct m_probe){.layer = layer,
					 .name = text(step[i]),
					 .role = strcmp(step[i], "backward") ? 0 : backward,
					 .name_arg = -1};
		*vec_push(&b.numbers[ROW_PROBE]) = i;
	}
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	watch_steps_free(w);
	session_names_free(&names);
	feed_batch_empty(&b);
	return 0;
}

static void start(uint32_t job, uint64_t every_ns)
{
	jobs[job] = (struct job){.every_ns = every_ns, .next_ns = now_ns, .there = true};
	*vec_push(&b.threads) = (struct m_thread){.pid = PID + job, .tid = PID + job};
	*vec_push(&b.numbers[ROW_THREAD]) = job;
	*vec_push(&b.processes) =
		(struct m_process){.pid = PID + job, .rank = -1, .start_ns = now_ns};
}

static void stop(uint32_t job)
{
	jobs[job] = (struct job){0};
	*vec_push(&b.processes) =
		(struct m_process){.pid = PID + job, .rank = -1, .start_ns = 1, .end_ns = now_ns};
	*vec_push(&b.threads_gone) = job;
}

static void put_step(uint32_t job)
{
	uint64_t each_ns = jobs[job].every_ns / (2 * OPS);
	for (uint32_t i = 0; i < OPS; i++)
		if (!turned_down[i] || batches % 20 == 0)
			*vec_push(&b.calls) =
				(struct m_call){.start_ns = jobs[job].next_ns + i * each_ns,
						.dur_ns = each_ns / 2,
						.thread = job,
						.probe = i};
	jobs[job].next_ns += jobs[job].every_ns;
	jobs[job].done++;
}

/* The thread went to another CPU, whose ring is read before. */
static void swap_halves(void)
{
	size_t half = b.calls.len / OPS / 2 * OPS, n = b.calls.len;
	struct m_call *all = xcalloc(n + 1, sizeof(*all));
	for (size_t i = 0; i < n; i++)
		all[(i + n - half) % n] = b.calls.data[i];
	if (n)
		memcpy(b.calls.data, all, n * sizeof(*all));
	free(all);
}

static void run(unsigned seconds)
{
	for (uint64_t until_ns = now_ns + seconds * 1000 * MS; now_ns < until_ns;) {
		for (uint32_t i = 0; i < JOBS; i++)
			while (jobs[i].there && jobs[i].next_ns < now_ns)
				put_step(i);
		if (two_rings)
			swap_halves();
		pass();
		batches++;
		now_ns += BATCH_NS;
	}
	watch_steps_jobs(w, &seen, now_ns);
}

static const struct live_steps_view *steps_of(uint32_t job)
{
	for (uint32_t i = 0; i < seen.len; i++)
		if (seen.of[i].pid == PID + job)
			return &seen.of[i];
	return NULL;
}

/* Of all phases together. */
static double phases_ns(const struct live_steps_view *s)
{
	double ret = 0;
	for (uint32_t i = 0; i < s->phase_sum_len; i++)
		ret += s->phase_sum[i].ns;
	return ret;
}

/* All of its steps of the last seconds were counted, and their phases add up to them. */
static void assert_counted(uint32_t job, unsigned seconds)
{
	const struct live_steps_view *s = steps_of(job);
	uint64_t before = s ? s->count : 0, done = jobs[job].done;
	assert_non_null(s);
	double phases_before_ns = phases_ns(s);
	run(seconds);
	s = steps_of(job);
	assert_non_null(s);
	assert_int_equal(s->count - before, jobs[job].done - done);
	assert_in_range(s->median_ns, jobs[job].every_ns - MS, jobs[job].every_ns + MS);
	assert_string_equal(s->kind, "training");
	double phases = phases_ns(s) - phases_before_ns,
	       steps = (double)((s->count - before) * jobs[job].every_ns);
	if (is_partial)
		assert_true(!s->phase_len && !*s->phases && phases == 0);
	else
		assert_true(s->phase_len && strstr(s->phases, "of training") &&
			    phases > 0.99 * steps && phases < 1.01 * steps);
}

static void steps_of_each_job_are_counted(void **unused)
{
	(void)unused;
	w = watch_steps_new(LIVE_JOBS);
	watch_steps_tell(w, &(struct watch_steps_told){NULL, on_end});
	start(0, 2 * MS);
	start(1, 20 * MS);
	start(2, 3000 * MS); /* a step is longer than the first look */
	run(60);
	start(3, 50 * MS);
	run(60);
	for (uint32_t i = 0; i < 4; i++)
		assert_counted(i, 30);
	assert_int_equal(seen.len, 4);
	assert_int_equal(told, steps_of(0)->count + steps_of(1)->count + steps_of(2)->count +
				       steps_of(3)->count);
	stop(1);
	run(2);
	assert_non_null(steps_of(1)); /* whoever looks each second has its last ones */
	run(10);
	assert_null(steps_of(1));
	start(1, 20 * MS); /* another one of its number */
	run(30);
	assert_counted(1, 10);
}

static void turn(uint32_t op, bool down)
{
	turned_down[op] = down;
	is_partial = false;
	for (uint32_t i = 0; i < OPS; i++)
		is_partial |= turned_down[i];
	*vec_push(&b.coverages) = (struct m_coverage){.probe = op, .in_bursts = down};
}

static void what_a_budget_leaves_is_counted(void **unused)
{
	(void)unused;
	uint32_t backward = 5;
	w = watch_steps_new(LIVE_JOBS);
	start(0, 200 * MS);
	run(10);
	assert_counted(0, 10); /* by what is rarest in each step */
	for (uint32_t i = 0; i < OPS; i++)
		turn(i, i != backward);
	run(30);
	assert_counted(0, 20);
	start(1, 700 * MS); /* of which no more was seen ever */
	run(60);
	assert_counted(0, 20);
	assert_counted(1, 20);
	turn(backward, true);
	run(1);
	assert_null(steps_of(0)); /* none is better than a wrong one */
	assert_null(steps_of(1));
	turn(backward, false);
	run(60);
	assert_counted(0, 20);
	for (uint32_t i = 0; i < OPS; i++)
		turn(i, false);
	run(30);
	assert_counted(1, 20);
}

static void there_is_room_for_so_many(void **unused)
{
	(void)unused;
	w = watch_steps_new(LIVE_JOBS);
	for (uint32_t i = 0; i < JOBS; i++)
		start(i, 40 * MS);
	run(120);
	assert_int_equal(seen.len, LIVE_JOBS);
	assert_int_equal(seen.left_out, JOBS - LIVE_JOBS);
	for (uint32_t i = 0; i < LIVE_JOBS; i++)
		assert_true(seen.of[i].count > 200);
	for (uint32_t i = 0; i < 20; i++)
		stop(seen.of[i].pid - PID);
	run(120);
	assert_int_equal(seen.len, JOBS - 20);
	assert_int_equal(seen.left_out, 0);
}

static void one_alone_is_the_one_that_tells_most(void **unused)
{
	struct live_steps_view one;
	struct live_phases phases;
	(void)unused;
	w = watch_steps_new(1);
	start(0, 20 * MS);
	run(1);
	watch_steps_get(w, &one, &phases);
	assert_true(phases.looking);
	run(9);
	start(1, 30 * MS);
	run(30);
	watch_steps_get(w, &one, &phases);
	assert_false(phases.looking);
	assert_int_equal(one.pid, PID);
	assert_int_equal(phases.len, 2);
	assert_true(one.count > 1500 && phases.intervals > 3);
	stop(0);
	run(30);
	watch_steps_get(w, &one, &phases);
	assert_int_equal(one.pid, PID + 1);
}

static void no_step_ends_before_the_first(void **unused)
{
	(void)unused;
	w = watch_steps_new(LIVE_JOBS);
	watch_steps_tell(w, &(struct watch_steps_told){NULL, on_end});
	two_rings = true;
	start(0, 20 * MS);
	run(20);
	assert_true(told > 500 && first_end_ns);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(steps_of_each_job_are_counted),	    TEST(no_step_ends_before_the_first),
		TEST(what_a_budget_leaves_is_counted),	    TEST(there_is_room_for_so_many),
		TEST(one_alone_is_the_one_that_tells_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* watch_screen_test.c - the screen of `eacgm watch` for given states and sizes: the whole text, and
 * that no size makes it larger than that.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/human.h"
#include "cli/watch_screen.h"
#include "events/rows.h"

#define SECOND 1000000000ULL

static void add_layer(struct live_state *s, const char *name, double rate, const char *busiest,
		      double ns)
{
	struct live_layer *l = &s->layers[s->layers_len++];
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->calls_per_s = rate;
	l->calls = (uint64_t)rate * 8;
	for (int i = 1; i <= 8; i++)
		live_history_add(&l->history, rate * i / 8);
	snprintf(l->busiest, sizeof(l->busiest), "%s", busiest);
	l->busiest_ns_per_s = ns;
}

static void add_anomaly(struct live_state *s, uint64_t start_ns, uint64_t end_ns, bool ended,
			const char *why)
{
	struct live_anomaly *a = &s->latest[s->latest_next++ % LIVE_ANOMALIES];
	*a = (struct live_anomaly){
		.id = ++s->anomalies, .start_ns = start_ns, .end_ns = end_ns, .ended = ended};
	snprintf(a->layer, sizeof(a->layer), "torch");
	snprintf(a->entity, sizeof(a->entity), "pid 4242");
	snprintf(a->why, sizeof(a->why), "%s", why);
	s->lasting += !ended;
}

/* A training on a GPU, two minutes after the beginning at 12:00:00 UTC. */
static struct live_state *busy(void)
{
	static struct live_state s;
	s = (struct live_state){
		.target = "python3, pid 4242",
		.now_ns = 220 * SECOND,
		.start_ns = 100 * SECOND,
		.realtime_offset_ns = 12 * 3600 * SECOND - 100 * SECOND,
		.processes = 3,
		.job_cpu = 2,
		.probe_cpu = 0.01,
		.own_cpu = 0.031,
		.own_rss_bytes = 97e6,
		.judges = true,
		.learn_left_s = NAN,
	};
	add_layer(&s, "torch", 45201, "aten::addmm", 312e6);
	add_layer(&s, "cuda", 12000, "cuLaunchKernel", 41e6);
	add_layer(&s, "nccl", 0, "", 0);
	s.gpus[1] = (struct live_gpu){.known = true,
				      .name = "NVIDIA H200",
				      .busy_ratio = 0.83,
				      .memory_used_bytes = 3.62e9,
				      .memory_total_bytes = 151e9,
				      .power_w = 412,
				      .power_limit_w = 700,
				      .temperature_celsius = 39};
	s.steps = (struct live_steps_view){.count = 1204,
					   .kind = "training",
					   .marker = "backward",
					   .pid = 4242,
					   .last_ns = 7950000,
					   .median_ns = 7900000,
					   .longest_ns = 16000000,
					   .since_ns = 220 * SECOND - 1000};
	const double ms[] = {8, 8, 6, 16, 8, 2};
	for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++)
		live_history_add(&s.steps.history, ms[i] * 1e6);
	add_anomaly(&s, 130 * SECOND, 142 * SECOND, true, "copies took 3 times as long as usual");
	add_anomaly(&s, 210 * SECOND, 211 * SECOND, false,
		    "aten::addmm took 1.8 times as long as usual, 512 calls, 400 ms lost");
	return &s;
}

static void expect_screen(const struct live_state *s, const struct watch_size *size,
			  const char *expected)
{
	struct buf out = {0};
	watch_render(&out, s, size);
	buf_byte(&out, 0);
	if (strcmp((const char *)out.data, expected)) {
		printf("drawn:\n%s\nexpected:\n%s\n", (const char *)out.data, expected);
		fail();
	}
	buf_free(&out);
}

/* What has no place of its own is shown as it is called. */
static void test_other_counters(void **state)
{
	(void)state;
	struct live_state s = {
		.counters_len = 3,
		.counters = {
			{.unit = UNIT_BYTES_PER_S,
			 .value = 1.25e9,
			 .what = "interface eth0 rx_bytes_per_s"},
			{.unit = UNIT_PER_S, .value = 3, .what = "interface eth0 rx_drops_per_s"},
			{.value = 7, .what = "host swaps"}}};
	struct buf out = {0};
	watch_render(&out, &s, &(struct watch_size){.columns = 100, .rows = 24});
	buf_byte(&out, 0);
	assert_non_null(strstr((const char *)out.data,
			       "other   1.25 GB/s  interface eth0 rx_bytes_per_s\n"
			       "        3 1/s  interface eth0 rx_drops_per_s\n"
			       "        7  host swaps\n"));
	buf_free(&out);
}

/* Shares are in words where they have some; those of CPUs may be more than one. */
static void test_shares(void **state)
{
	(void)state;
	struct live_state s = {
		.counters_len = 3,
		.counters = {
			{.unit = UNIT_RATIO, .value = 0.999, .what = "host cpu_pressure_ratio"},
			{.unit = UNIT_RATIO, .value = 0.25, .what = "disk vda busy_ratio"},
			{.unit = UNIT_RATIO,
			 .value = 1.5,
			 .what = "cgroup /a job throttled_ratio"}}};
	struct buf out = {0};
	watch_render(&out, &s, &(struct watch_size){.columns = 100, .rows = 24});
	buf_byte(&out, 0);
	assert_non_null(strstr((const char *)out.data,
			       "other   100 %  host: a thread waited for a CPU\n"
			       "         25 %  disk vda: it had requests\n"
			       "        1.50 CPUs  cgroup /a job: were held back by a quota\n"));
	buf_free(&out);
}

/* Of many counters the first four that say something: small shares do not. */
static void test_few_counters(void **state)
{
	(void)state;
	struct live_state s = {.counters_len = 7,
			       .counters = {{.unit = UNIT_RATIO, .value = 0.09, .what = "a"},
					    {.unit = UNIT_RATIO, .value = 0.1, .what = "b"},
					    {.unit = UNIT_RATIO, .value = 0, .what = "c"},
					    {.unit = UNIT_RATIO, .value = 1, .what = "d"},
					    {.unit = UNIT_RATIO, .value = 0.5, .what = "e"},
					    {.unit = UNIT_PER_S, .value = 0, .what = "f"},
					    {.unit = UNIT_RATIO, .value = 0.6, .what = "g"}}};
	struct buf out = {0};
	watch_render(&out, &s, &(struct watch_size){.columns = 100, .rows = 24});
	buf_byte(&out, 0);
	assert_non_null(strstr((const char *)out.data, "other   0.1 ratio  b\n"
						       "        1 ratio  d\n"
						       "        0.5 ratio  e\n"
						       "        0 1/s  f\n\n"));
	out.len = 0;
	s.counters_len = 1;
	watch_render(&out, &s, &(struct watch_size){.columns = 100, .rows = 24});
	buf_byte(&out, 0);
	assert_null(strstr((const char *)out.data, "other"));
	buf_free(&out);
}

/* Of each process with steps; of more than there is room for how many. */
static void test_phases(void **state)
{
	(void)state;
	struct live_state s = {
		.phases = {.of = {"train.py (7): 300 of training, 17.8 ms each on average: load "
				  "96 %, forward 2 %, backward 2 %",
				  "train.py (8): 299 of training, 17.9 ms each on average"},
			   .len = 2,
			   .more = 3}};
	struct buf out = {0};
	watch_render(&out, &s, &(struct watch_size){.columns = 100, .rows = 24});
	buf_byte(&out, 0);
	assert_non_null(strstr((const char *)out.data,
			       "phases  train.py (7): 300 of training, 17.8 ms each on average: "
			       "load 96 %, forward 2 %, backward 2 %\n"
			       "        train.py (8): 299 of training, 17.9 ms each on average\n"
			       "        and 3 more processes with steps\n"));
	out.len = 0;
	watch_render(&out, &s, &(struct watch_size){.columns = 80, .rows = 24});
	buf_byte(&out, 0);
	assert_non_null(strstr((const char *)out.data,
			       "phases  train.py (7): 300 of training, 17.8 ms each on average:\n"
			       "          load 96 %, forward 2 %, backward 2 %\n"
			       "        train.py (8): 299 of training, 17.9 ms each on average\n"));
	buf_free(&out);
}

static void test_whole_screen(void **state)
{
	(void)state;
	expect_screen(
		busy(), &(struct watch_size){.columns = 100, .rows = 24},
		"eacgm watch python3, pid 4242                                          3 "
		"processes  0:02:00  q quits\n"
		"\n"
		"steps   1,204  last 7.95 ms  median 7.90 ms  longest 16.0 ms  training, by "
		"backward, pid 4242\n"
		"        ▄▄▃█▄▁\n"
		"\n"
		"calls    a second  the last 40 s                             of a second, most "
		"time in\n"
		"torch      45,201                                  ▁▂▃▄▅▆▇█  312 ms aten::addmm\n"
		"cuda       12,000                                  ▁▂▃▄▅▆▇█  41.0 ms "
		"cuLaunchKernel\n"
		"\n"
		"gpu                       busy                             memory           power "
		"   temp\n"
		"  1  NVIDIA H200          ████████░░  83 %      3.62 GB of 151 GB    412 of 700 W "
		"  39 °C\n"
		"\n"
		"cost    0.5 % of the job's CPU time (2.00 cores), eacgm itself 3.1 % of a core, "
		"97.0 MB\n"
		"lost    nothing\n"
		"\n"
		"anomalies  2, 1 of them lasts\n"
		"12:01:50  lasts  10.0 s    torch    pid 4242  aten::addmm took 1.8 times as long "
		"as usual, 512 call…\n"
		"12:00:30  lasted 12.0 s    torch    pid 4242  copies took 3 times as long as "
		"usual");
}

static void test_causes(void **state)
{
	(void)state;
	struct live_state *s = busy();
	struct buf out = {0};
	live_cause_keep(s, 1, false, "slow data loading, 1.00 s lost so far", "more workers");
	for (uint64_t id = 2; id < 5; id++)
		live_cause_keep(s, id, true, "the disk was slow: sda, 1.00 s lost", "no");
	live_cause_keep(s, 5, false, "CPU contention by stress (4242), 1.00 s lost so far",
			"Pin the job to cores of its own, end what takes them, or ask for more of "
			"them: it could run, and had no CPU.");
	live_cause_keep(s, 3, true, "the disk was slow: sdb, 2.00 s lost", "no"); /* again */
	assert_int_equal(s->causes[0].id, 3);
	assert_int_equal(s->causes[1].id, 5);
	assert_int_equal(s->causes[2].id, 4);
	assert_int_equal(s->causes[3].id, 2);
	watch_render(&out, s, &(struct watch_size){.columns = 100, .rows = 30});
	buf_byte(&out, 0);
	assert_non_null(
		strstr((const char *)out.data,
		       "q quits\n\n"
		       "slow    was: the disk was slow: sdb, 2.00 s lost\n"
		       "        now: CPU contention by stress (4242), 1.00 s lost so far\n"));
	assert_non_null(strstr((const char *)out.data,
			       "\ndo      Pin the job to cores of its own, end what takes them, or "
			       "ask for more of them: it could run,\n        and had no CPU.\n\n"
			       "steps   "));
	buf_free(&out);
}

/* The GPU's name gives way on a terminal of 80 columns, its figures do not. */
static void test_gpu_on_80_columns(void **state)
{
	(void)state;
	struct buf out = {0};
	watch_render(&out, busy(), &(struct watch_size){.columns = 80, .rows = 24});
	buf_byte(&out, 0);
	assert_non_null(strstr((const char *)out.data,
			       "\n  1  NVI…A H200 ████████░░  83 %      3.62 GB of 151 GB    "
			       "412 of 700 W   39 °C\n"));
	buf_free(&out);
}

static void test_small_ascii(void **state)
{
	(void)state;
	expect_screen(busy(), &(struct watch_size){.columns = 60, .rows = 9, .ascii = true},
		      "eacgm watch python3, pid 4242  3 processes  0:02:00  q quits\n"
		      "steps   1,204  last 7.95 ms  median 7.90 ms  longest 16.0 m~\n"
		      "        --:#-_\n"
		      "calls    a second  of a second, most time in\n"
		      "torch      45,201  312 ms aten::addmm\n"
		      "cuda       12,000  41.0 ms cuLaunchKernel\n"
		      "anomalies  2, 1 of them lasts\n"
		      "12:01:50  lasts  10.0 s    torch    pid 4242  aten::addmm t~\n"
		      "12:00:30  lasted 12.0 s    torch    pid 4242  copies took 3~");
}

static void test_nothing_known(void **state)
{
	(void)state;
	struct live_state s = {.target = "all processes",
			       .job_cpu = NAN,
			       .own_rss_bytes = 0,
			       .judges = true,
			       .learning = true,
			       .learn_left_s = 17.2,
			       .phases = {.looking = true}};
	expect_screen(
		&s, &(struct watch_size){.columns = 80, .rows = 24},
		"eacgm watch all processes                          0 processes  0:00:00  q quits\n"
		"\n"
		"steps   looking for what repeats\n"
		"\n"
		"calls    a second  the last 30 s                   of a second, most time in\n"
		"\n"
		"cost    eacgm itself 0.0 % of a core, 0 B\n"
		"lost    nothing\n"
		"\n"
		"anomalies  learning what is normal: 18 s more");
}

static void test_colour_and_losses(void **state)
{
	(void)state;
	struct live_state s = {.target = "x",
			       .processes = 1,
			       .job_cpu = NAN,
			       .lost = 1234,
			       .overruns = 5,
			       .unjudged = 2,
			       .steps = {.kind = "training",
					 .marker = "backward",
					 .pid = 7,
					 .last_ns = 1000000,
					 .median_ns = 1000000,
					 .longest_ns = 1000000},
			       .now_ns = 40 * SECOND};
	live_history_add(&s.steps.history, 1e6);
	expect_screen(&s, &(struct watch_size){.columns = 80, .rows = 12, .colour = true},
		      "\033[1meacgm watch \033[0mx                                        1 "
		      "process  0:00:40  q quits\n"
		      "\033[1msteps\033[0m   0  last 1.00 ms  median 1.00 ms  longest 1.00 ms  "
		      "\033[1;31mnone for 40.0 s\033[0m\n"
		      "        █\n"
		      "\033[1mcalls\033[0m    a second  the last 30 s                   of a "
		      "second, most time in\n"
		      "\033[1mcost\033[0m    eacgm itself 0.0 % of a core, 0 B\n"
		      "\033[1mlost\033[0m    \033[33m1,234 events\033[0m\033[33m, 5 events not "
		      "looked at\033[0m\033[33m, 2 windows not judged\033[0m");
}

/* Every size: no more lines than rows, no line wider than the columns. */
static void test_fits_everywhere(void **state)
{
	(void)state;
	for (unsigned columns = 1; columns < 200; columns += columns < 20 ? 1 : 13) {
		for (unsigned rows = 1; rows < 40; rows++) {
			struct buf out = {0};
			struct watch_size size = {
				.columns = columns, .rows = rows, .ascii = rows % 2};
			unsigned lines = 1;
			watch_render(&out, busy(), &size);
			buf_byte(&out, 0);
			char *save = NULL;
			for (size_t i = 0; i < out.len; i++)
				lines += out.data[i] == '\n';
			assert_true(lines <= rows);
			for (char *line = strtok_r((char *)out.data, "\n", &save); line;
			     line = strtok_r(NULL, "\n", &save))
				if (text_columns(line) > columns)
					fail_msg("%u x %u: '%s'", columns, rows, line);
			buf_free(&out);
		}
	}
}

static void test_line(void **state)
{
	(void)state;
	struct buf out = {0};
	watch_render_line(&out, busy());
	buf_byte(&out, 0);
	assert_string_equal((const char *)out.data, "0:02:00  torch 45,201/s  cuda 12,000/s  "
						    "step 7.95 ms  gpu 1 83 %  lost 0  "
						    "anomalies 2");
	buf_free(&out);
}

static void test_sparkline(void **state)
{
	(void)state;
	struct live_history h = {0};
	struct buf out = {0};
	for (int i = 0; i < LIVE_HISTORY + 8; i++)
		live_history_add(&h, i < LIVE_HISTORY ? 1e9 : i - LIVE_HISTORY);
	watch_sparkline(&out, &h, 8, true);
	buf_byte(&out, 0);
	assert_string_equal((const char *)out.data, "_.:-=+*#");
	out.len = 0;
	h = (struct live_history){0};
	live_history_add(&h, 4);
	live_history_add(&h, (double)NAN);
	live_history_add(&h, 2);
	watch_sparkline(&out, &h, 8, false);
	buf_byte(&out, 0);
	assert_string_equal((const char *)out.data, "█ ▄");
	buf_free(&out);
}

int main(void)
{
	setenv("TZ", "UTC", 1);
	tzset();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_whole_screen),
		cmocka_unit_test(test_other_counters),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_few_counters),
		cmocka_unit_test(test_small_ascii),
		cmocka_unit_test(test_nothing_known),
		cmocka_unit_test(test_colour_and_losses),
		cmocka_unit_test(test_fits_everywhere),
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_sparkline),
		cmocka_unit_test(test_gpu_on_80_columns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

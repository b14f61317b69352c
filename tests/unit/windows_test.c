/* windows_test.c - rows of windows of calls: every feature on events made for it, which window
 * counts what, the order of rows, and hostile times and numbers of processes.
 * links: detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/windows.h"
#include "detect_names.h"

#define SECOND	  1000000000ULL
#define ROWS_KEPT 4096

enum {
	SLOWDOWN,
	GAP,
	SHIFT,
	GAP_SHIFT,
	SPREAD,
	TAIL,
	GAP_TAIL,
	ERRORS,
	PACE_LOSS,
	DEVICE_SLOWDOWN,
	DEVICE_SHIFT,
	DEVICE_TAIL
};

static struct fake_names fake;
static struct detect_names names;
static struct detect_keys *keys;
static struct usual *usual;
static struct regimes *regimes;
static struct windows *windows;
static struct feature_row rows[ROWS_KEPT];
static struct window_detail details[ROWS_KEPT];
static struct window_key first_keys[ROWS_KEPT]; /* of each row the most important */
static size_t rows_len, mixes;

static void on_row(void *ctx, const struct feature_row *row, const struct window_detail *detail)
{
	(void)ctx;
	assert_true(rows_len < ROWS_KEPT);
	details[rows_len] = *detail;
	first_keys[rows_len] = detail->keys_len ? detail->keys[0] : (struct window_key){0};
	rows[rows_len++] = *row;
}

static void on_mix(void *ctx, uint32_t pid, uint64_t start_ns, const struct work *work)
{
	(void)ctx;
	(void)pid;
	(void)work;
	assert_int_equal(start_ns % SECOND, 0);
	mixes++;
}

/* Copies usually take 1,000 ns, 1,000 ns after each other; operators 10,000; kernels 500. */
static void learn_usual(void)
{
	struct m_call copy = fake_call(FAKE_COPY, 0, 0, 0),
		      operator_ = fake_call(FAKE_OPERATOR, 0, 0, 0);
	struct m_gpu_span span = {.work = WORK_KERNEL, .name = fake_string(&fake, "gemm")};
	uint32_t numbers[] = {detect_keys_call(keys, &names, &copy).number,
			      detect_keys_call(keys, &names, &operator_).number,
			      detect_keys_gpu_span(keys, &names, &span).number};
	const uint64_t durations[] = {1000, 10000, 500};
	for (int i = 0; i < 1000; i++)
		for (size_t k = 0; k < 3; k++)
			usual_learn(usual, &(struct usual_event){
						   numbers[k], 0,
						   durations[k] * (uint64_t)(95 + i % 11) / 100,
						   k == 2 ? USUAL_NONE : 1000, 0});
	usual_settle(usual);
}

static void open_windows(uint64_t late_ns)
{
	if (windows)
		windows_free(windows);
	windows = windows_new(&(struct windows_options){.window_ns = SECOND,
							.late_ns = late_ns,
							.keys = keys,
							.usual = usual,
							.regimes = regimes,
							.new_regimes = true,
							.row = on_row,
							.mix = on_mix});
	rows_len = mixes = 0;
}

static int begin(void **state)
{
	(void)state;
	fake_names_make(&fake);
	names = fake_names_of(&fake);
	keys = detect_keys_new(1000, KEYS_WHOLE);
	usual = usual_new(keys, 1);
	regimes = regimes_new();
	learn_usual();
	open_windows(WINDOWS_NEVER);
	return 0;
}

static int end(void **state)
{
	(void)state;
	windows_free(windows);
	windows = NULL;
	regimes_free(regimes);
	usual_free(usual);
	detect_keys_free(keys);
	strtab_free(&fake.strings);
	vec_free(&fake.metrics);
	return 0;
}

static bool add(enum fake_probe probe, uint32_t thread, uint64_t start_ns, uint64_t dur_ns)
{
	struct m_call c = fake_call(probe, thread, start_ns, dur_ns);
	return windows_call(windows, &names, &c, NULL);
}

/* n copies, each gap_ns after the one before. Returns the end of the last. */
static uint64_t copies(uint64_t start_ns, int n, uint64_t dur_ns, uint64_t gap_ns)
{
	for (int i = 0; i < n; i++) {
		add(FAKE_COPY, 0, start_ns, dur_ns);
		start_ns += dur_ns + gap_ns;
	}
	return start_ns - gap_ns;
}

static double x(size_t row, int feature)
{
	assert_true(row < rows_len);
	return rows[row].x[feature];
}

static void expect_near(double value, double wanted, double within)
{
	if (!(fabs(value - wanted) <= within))
		fail_msg("%g is not %g", value, wanted);
}

static void usual_calls_make_zeros(void **state)
{
	(void)state;
	copies(10 * SECOND, 100, 1000, 1000);
	windows_end(windows);
	assert_int_equal(rows_len, 1);
	assert_int_equal(rows[0].layer, DETECT_CUDA);
	assert_int_equal(rows[0].pid, 100);
	assert_int_equal(rows[0].gpu, -1);
	assert_int_equal(rows[0].start_ns, 10 * SECOND);
	assert_int_equal(rows[0].end_ns, 11 * SECOND);
	assert_int_equal(rows[0].events, 100);
	expect_near(x(0, SLOWDOWN), 0, 0.01);
	assert_true(isnan(x(0, PACE_LOSS)));
	expect_near(x(0, GAP), 0, 0.01);
	expect_near(x(0, SHIFT), 0, 0.1);
	expect_near(x(0, GAP_SHIFT), 0, 0.1);
	expect_near(x(0, SPREAD), log(0.1), 0.1);
	expect_near(x(0, TAIL), 0, 0);
	expect_near(x(0, GAP_TAIL), 0, 0);
	expect_near(x(0, ERRORS), 0, 0);
	assert_true(isnan(x(0, DEVICE_SLOWDOWN)));
	assert_int_equal(mixes, 1);
}

static void slow_calls_show(void **state)
{
	(void)state;
	copies(10 * SECOND, 100, 2000, 1000);
	windows_end(windows);
	expect_near(x(0, SLOWDOWN), log(2), 0.01);
	expect_near(x(0, GAP), 0, 0.01);
	assert_true(x(0, SHIFT) > 5);
	expect_near(x(0, TAIL), asin(1), 1e-9);
	expect_near(details[0].total_ns, 200000, 0.1);
	expect_near(first_keys[0].total_ns - first_keys[0].usual_ns, 100000, 2000);
	assert_int_equal(first_keys[0].calls, 100);
}

static void long_gaps_show(void **state)
{
	(void)state;
	copies(10 * SECOND, 100, 1000, 3000);
	windows_end(windows);
	expect_near(x(0, SLOWDOWN), 0, 0.01);
	expect_near(x(0, GAP), log(3), 0.02);
	assert_true(x(0, GAP_SHIFT) > 5);
	expect_near(x(0, GAP_TAIL), asin(1), 1e-9);
}

/* A tenth of the calls is slow, another tenth failed. */
static void shares_show(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		struct m_call c =
			fake_call(FAKE_COPY, 0, 10 * SECOND + i * 20000, i % 10 ? 1000 : 10000);
		c.flags = i % 10 == 1 ? CALL_ERROR : 0;
		windows_call(windows, &names, &c, NULL);
	}
	windows_end(windows);
	expect_near(x(0, TAIL), asin(sqrt(0.1)), 1e-9);
	expect_near(x(0, ERRORS), asin(sqrt(0.1)), 1e-9);
	assert_true(x(0, SPREAD) > log(1.5));
	assert_int_equal(details[0].errors, 10);
}

static void kernel(uint64_t start_ns, uint64_t end_ns)
{
	struct m_gpu_span s = {.start_ns = start_ns,
			       .end_ns = end_ns,
			       .pid = 100,
			       .work = WORK_KERNEL,
			       .name = fake_string(&fake, "gemm")};
	assert_true(windows_gpu_span(windows, &names, &s, NULL));
}

/* What the GPU did is apart from what the host did. */
static void the_device_is_apart(void **state)
{
	(void)state;
	copies(10 * SECOND, 50, 1000, 1000);
	for (uint64_t i = 0; i < 50; i++)
		kernel(10 * SECOND + i * 1000, 10 * SECOND + i * 1000 + 750);
	windows_end(windows);
	assert_int_equal(rows_len, 1);
	assert_int_equal(rows[0].events, 100);
	expect_near(x(0, SLOWDOWN), 0, 0.01);
	expect_near(x(0, DEVICE_SLOWDOWN), log(1.5), 0.01);
	assert_true(x(0, DEVICE_SHIFT) > 4);
	expect_near(x(0, DEVICE_TAIL), asin(1), 1e-9);
	struct detect_key key;
	detect_keys_get(keys, first_keys[0].key, &key);
	assert_true(key.device);
}

static void few_events_tell_nothing(void **state)
{
	(void)state;
	copies(9 * SECOND, WINDOWS_LEAST - 1, 5000, 1000);
	copies(10 * SECOND, WINDOWS_LEAST_SUM - 1, 5000, 1000);
	struct m_call unknown = fake_call(FAKE_RUNTIME_COPY, 0, 10 * SECOND + 500000, 5);
	for (int i = 0; i < 100; i++, unknown.start_ns += 10)
		windows_call(windows, &names, &unknown, NULL);
	windows_end(windows);
	expect_near(x(0, SLOWDOWN), log(5), 0.01); /* a sum of times needs fewer than a share */
	assert_true(isnan(x(0, TAIL)) && isnan(x(0, SPREAD)));
	assert_int_equal(rows[1].events, 100 + WINDOWS_LEAST_SUM - 1);
	assert_int_equal(details[1].known, WINDOWS_LEAST_SUM - 1);
	assert_true(isnan(x(1, SLOWDOWN)) && isnan(x(1, SHIFT)) && isnan(x(1, TAIL)));
	expect_near(x(1, ERRORS), 0, 0);
}

/* A child is in its parent's time already; a parent has no gap. */
static void nested_calls(void **state)
{
	(void)state;
	uint64_t at = 10 * SECOND;
	for (int i = 0; i < 20; i++, at += 11000) {
		struct m_call child = fake_call(FAKE_OPERATOR, 0, at + 1000, 5000);
		child.flags = CALL_NESTED;
		windows_call(windows, &names, &child, NULL);
		struct windows_event e;
		struct m_call parent = fake_call(FAKE_OPERATOR, 0, at, 10000);
		windows_call(windows, &names, &parent, &e);
		assert_true(isnan(e.usual.gap_z));
		assert_int_equal(e.pid, 100);
		assert_int_equal(e.tid, 1000);
		assert_int_equal(e.layer, DETECT_TORCH);
	}
	windows_end(windows);
	expect_near(x(0, SLOWDOWN), 0, 0.01);
	expect_near(details[0].total_ns, 200000, 0.1);
	assert_int_equal(details[0].known, 40);
	/* Between the end of one and the child of the next: 2,000, twice the usual. */
	expect_near(x(0, GAP), log(2), 0.05);
}

/* A call that ended before the last one that was met leaves the gap of the next as it is. */
static void calls_out_of_order(void **state)
{
	(void)state;
	uint64_t at = 10 * SECOND;
	for (int i = 0; i < 20; i++, at += 4000) {
		add(FAKE_COPY, 0, at + 2000, 1000);
		add(FAKE_COPY, 0, at, 1000);
	}
	windows_end(windows);
	expect_near(details[0].gap_ns, 19 * 3000, 1);
}

/* Instants have no duration; of what did not return only a bound is known. */
static void calls_without_durations(void **state)
{
	(void)state;
	uint64_t at = 10 * SECOND;
	const uint8_t flags[] = {CALL_INSTANT, CALL_OPEN, CALL_UNWOUND};
	for (int i = 0; i < 30; i++, at += 1000) {
		struct m_call c = fake_call(FAKE_COPY, 0, at, 0);
		c.flags = flags[i % 3];
		windows_call(windows, &names, &c, NULL);
	}
	windows_end(windows);
	assert_true(isnan(x(0, SLOWDOWN)) && isnan(x(0, TAIL)));
	assert_int_equal(details[0].known, 0);
	assert_true(isnan(details[0].usual_ns)); /* nobody knows what is lost */
	expect_near(x(0, GAP_SHIFT), 0, 0.1);
}

/* A call of 3.5 windows counts in each with its share; so does a gap. */
static void long_calls_cover_windows(void **state)
{
	(void)state;
	add(FAKE_COPY, 0, 10 * SECOND + SECOND / 2, 3 * SECOND + SECOND / 2);
	add(FAKE_COPY, 0, 17 * SECOND + SECOND / 4, 1000);
	windows_end(windows);
	/* A window has a row if an event ended in it. */
	assert_int_equal(rows_len, 2);
	assert_int_equal(mixes, 8);
	assert_int_equal(rows[0].start_ns, 14 * SECOND);
	assert_int_equal(rows[1].start_ns, 17 * SECOND);
	/* The call ended exactly where window 14 begins: none of its time is there. */
	expect_near(details[0].total_ns, 0, 1);
	expect_near(details[0].gap_ns, 1e9, 1);
	expect_near(details[1].gap_ns, 0.25e9, 1);

	open_windows(WINDOWS_NEVER);
	copies(11 * SECOND, 20, 1000, 1000);
	add(FAKE_COPY, 2, 10 * SECOND + SECOND / 2, 3 * SECOND); /* of process 101 */
	add(FAKE_COPY, 1, 10 * SECOND + SECOND / 2, 3 * SECOND); /* of process 100 */
	windows_end(windows);
	assert_int_equal(rows[0].start_ns, 11 * SECOND);
	assert_int_equal(rows[0].pid, 100);
	expect_near(details[0].total_ns, 1e9 + 20000, 1);
	assert_int_equal(details[0].known, 21);
	assert_true(x(0, SLOWDOWN) > 8);
}

/* Rows come in order of time, whatever order threads come in; those that are late are counted. */
static void rows_come_in_order(void **state)
{
	(void)state;
	open_windows(SECOND / 2);
	for (uint32_t thread = 0; thread < 6; thread++)
		for (uint64_t s = 20; s < 24; s++)
			for (uint64_t i = 0; i < 10; i++)
				add(FAKE_COPY, thread, s * SECOND + i * 2000, 1000);
	windows_upto(windows, 22 * SECOND + SECOND / 4);
	assert_int_equal(rows_len, 3); /* of window 20; 21 is not over for those that are late */
	assert_true(add(FAKE_COPY, 0, 21 * SECOND + 100000, 1000));
	windows_upto(windows, 22 * SECOND + SECOND / 2);
	assert_int_equal(rows_len, 6);
	assert_int_equal(rows[3].events, 21);
	assert_false(add(FAKE_COPY, 0, 21 * SECOND + 200000, 1000));
	assert_int_equal(windows_late(windows), 1);
	windows_end(windows);
	assert_int_equal(rows_len, 12);
	for (size_t i = 1; i < rows_len; i++)
		assert_true(rows[i].start_ns >= rows[i - 1].start_ns);
}

/* What the GPU did is told late: it counts for the first window that is open. */
static void work_of_the_gpu_may_be_late(void **state)
{
	(void)state;
	open_windows(SECOND / 2);
	copies(20 * SECOND, 20, 1000, 1000);
	windows_upto(windows, 23 * SECOND);
	assert_int_equal(rows_len, 1);
	for (uint64_t i = 0; i < 20; i++)
		kernel(20 * SECOND + i * 1000, 20 * SECOND + i * 1000 + 500);
	windows_end(windows);
	assert_int_equal(rows_len, 2);
	assert_int_equal(rows[1].start_ns, 22 * SECOND);
	assert_int_equal(rows[1].events, 20);
	expect_near(x(1, DEVICE_SLOWDOWN), 0, 0.01);
	assert_int_equal(windows_late(windows), 0);
}

/* It counts with all of its time there, also where it was longer than a window. */
static void long_work_of_the_gpu_may_be_late(void **state)
{
	(void)state;
	open_windows(SECOND / 2);
	copies(20 * SECOND, 20, 1000, 1000);
	windows_upto(windows, 24 * SECOND);
	for (uint64_t i = 0; i < 3; i++)
		kernel(20 * SECOND, 22 * SECOND);
	windows_end(windows);
	assert_int_equal(rows_len, 2);
	assert_int_equal(rows[1].start_ns, 23 * SECOND);
	expect_near(x(1, DEVICE_SLOWDOWN), log(2e9 / 500), 0.01);
}

/* The same events, in blocks by thread as files have them, and as they come live. */
static void live_is_as_offline(void **state)
{
	(void)state;
	struct feature_row offline[64];
	for (uint32_t thread = 0; thread < 4; thread++)
		for (uint64_t ms = 0; ms < 8000; ms += 7)
			add(FAKE_COPY, thread, 30 * SECOND + ms * 1000000, 900 + ms % 250);
	windows_end(windows);
	size_t n = rows_len;
	memcpy(offline, rows, n * sizeof(*rows));
	assert_int_equal(n, 16);
	open_windows(SECOND / 10);
	for (uint64_t ms = 0; ms < 8000; ms += 7)
		for (uint32_t thread = 0; thread < 4; thread++) {
			add(FAKE_COPY, thread, 30 * SECOND + ms * 1000000, 900 + ms % 250);
			windows_upto(windows, 30 * SECOND + ms * 1000000);
		}
	windows_end(windows);
	assert_int_equal(rows_len, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(rows[i].start_ns, offline[i].start_ns);
		assert_int_equal(rows[i].pid, offline[i].pid);
		assert_int_equal(rows[i].events, offline[i].events);
		for (int f = 0; f <= ERRORS; f++)
			expect_near(rows[i].x[f], offline[i].x[f], 1e-9);
	}
}

static void without_gaps(void **state)
{
	(void)state;
	windows_free(windows);
	windows = windows_new(&(struct windows_options){.window_ns = SECOND,
							.late_ns = WINDOWS_NEVER,
							.keys = keys,
							.usual = usual,
							.without_gaps = true,
							.row = on_row});
	rows_len = 0;
	copies(10 * SECOND, 100, 1000, 50000);
	windows_end(windows);
	assert_true(isnan(x(0, GAP)) && isnan(x(0, GAP_SHIFT)) && isnan(x(0, GAP_TAIL)));
	expect_near(x(0, SLOWDOWN), 0, 0.01);
	assert_int_equal(rows[0].regime, 0);
}

/* A second of operators, back to back at so many times their usual duration and gap; the rest of it
 * from `until_ms` on has nothing. */
static void operators(uint32_t thread, uint64_t s, uint64_t slower, uint64_t until_ms)
{
	uint64_t each = 11000 * slower, n = until_ms * 1000000 / each;
	for (uint64_t i = 0; i < n; i++)
		add(FAKE_OPERATOR, thread, s * SECOND + i * each + 1000 * slower, 10000 * slower);
}

/* A call of PyTorch that nobody has met. */
static void add_unknown(uint64_t start_ns, uint64_t dur_ns)
{
	struct m_call c = fake_call(FAKE_INSTANT, 0, start_ns, dur_ns);
	c.flags = 0;
	windows_call(windows, &names, &c, NULL);
}

static const struct feature_row *row_at(uint32_t pid, uint64_t second)
{
	for (size_t i = 0; i < rows_len; i++)
		if (rows[i].pid == pid && rows[i].start_ns == second * SECOND)
			return &rows[i];
	fail_msg("no row of %u at %d", pid, (int)second);
	return NULL;
}

static double pace_at(uint32_t pid, uint64_t second)
{
	return row_at(pid, second)->pace;
}

/* Whatever its steps are. */
static void pace_is_usual_time_over_time(void **state)
{
	(void)state;
	operators(0, 20, 1, 1000);
	operators(0, 21, 2, 1000);
	operators(0, 22, 4, 1000);
	operators(0, 23, 1, 1000);
	windows_end(windows);
	expect_near(pace_at(100, 20), 1, 0.01);
	expect_near(pace_at(100, 21), 0.5, 0.01);
	expect_near(pace_at(100, 22), 0.25, 0.01);
	expect_near(pace_at(100, 23), 1, 0.01);
}

static struct clock_window clocked[64];
static size_t clocked_len;

static void on_clocked(void *ctx, const struct clock_window *window)
{
	(void)ctx;
	clocked[clocked_len++] = *window;
}

static struct windows_options clock_options(const struct model_clock *clock)
{
	return (struct windows_options){.window_ns = SECOND,
					.late_ns = WINDOWS_NEVER,
					.keys = keys,
					.usual = usual,
					.regimes = regimes,
					.new_regimes = true,
					.keys_known = detect_keys_count(keys),
					.clock = clock,
					.row = on_row};
}

static void reopen(const struct windows_options *o)
{
	windows_free(windows);
	windows = windows_new(o);
	rows_len = clocked_len = 0;
}

static void learn_clock(struct model_clock *ret)
{
	struct windows_options o = clock_options(NULL);
	o.clocked = on_clocked;
	reopen(&o);
	for (uint64_t s = 0; s < 40; s++)
		operators(0, 100 + s, 1, 1000);
	windows_end(windows);
	clock_learn(ret, clocked, clocked_len, SECOND, false);
	assert_int_equal(ret->layer, DETECT_TORCH);
}

/* Where the CPUs were slower a window's pace is told without that, as far as the model knows it. */
static void slow_cpus_are_no_slow_work(void **state)
{
	(void)state;
	struct model_clock clock;
	learn_clock(&clock);
	clock.work_ns = 800;
	clock.cpu_slope = 1;
	struct windows_options o = clock_options(&clock);
	reopen(&o);
	uint32_t metric = fake_metric(&fake, "pid 100", "fixed_work_ns");
	for (uint64_t i = 0; i < 8; i++)
		windows_counter(windows, &names,
				&(struct m_counter){20 * SECOND + i * SECOND / 2, metric,
						    i < 5 ? 800 : 1600});
	operators(0, 20, 1, 1000);
	operators(0, 21, 2, 1000);
	operators(0, 23, 2, 1000);
	windows_end(windows);
	expect_near(pace_at(100, 20), 1, 0.01);
	expect_near(pace_at(100, 21), 0.5, 0.01); /* as fast as ever: its own */
	expect_near(pace_at(100, 23), 1, 0.01);
	expect_near(row_at(100, 20)->cpus, 0, 0);
	expect_near(row_at(100, 23)->cpus, M_LN2, 1e-9);
}

/* Of the layer that tells how fast a window has a row though nothing ended in it, where another
 * layer goes on. */
static void what_stalls_is_slow(void **state)
{
	(void)state;
	struct model_clock clock;
	learn_clock(&clock);
	struct windows_options o = clock_options(&clock);
	reopen(&o);
	operators(0, 20, 1, 1000);
	add(FAKE_OPERATOR, 0, 21 * SECOND, 3 * SECOND + SECOND / 2);
	copies(22 * SECOND, 100, 1000, 1000);
	operators(0, 25, 1, 1000);
	windows_end(windows);
	assert_int_equal(rows_len, 5); /* both layers at 22 s; at 24 s the long call ended */
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(rows[i].start_ns, 22 * SECOND);
		assert_true(rows[i].pace > 0 && rows[i].pace < 0.1);
		assert_true(rows[i].layer == (i == 1 ? DETECT_CUDA : DETECT_TORCH));
	}
	assert_true(rows[2].events == 0);
}

/* Calls that no model knows, in half of the time of the usual work: they are beside it, and what
 * they took was lost. Where nothing else is done, it is other work. */
static void unknown_calls_are_beside_the_work(void **state)
{
	(void)state;
	struct model_clock clock;
	learn_clock(&clock);
	struct windows_options o = clock_options(&clock);
	reopen(&o);
	operators(0, 200, 1, 1000);
	operators(0, 201, 1, 500);
	for (uint64_t i = 0; i < 50; i++)
		add_unknown(201 * SECOND + 500000000 + i * 10000000, 9990000);
	for (uint64_t i = 0; i < 100; i++)
		add_unknown(202 * SECOND + i * 10000000, 9990000);
	operators(0, 203, 1, 1000);
	windows_end(windows);
	expect_near(pace_at(100, 200), 1, 0.01);
	expect_near(pace_at(100, 201), 0.5, 0.02);
	expect_near(pace_at(100, 202), 0, 0);
	for (size_t i = 0; i < rows_len; i++)
		assert_true(rows[i].other_work == (rows[i].start_ns == 202 * SECOND));
}

/* Between calls a thread waits for the world: where that is no part of the work, a tenth of the
 * work in a second is no slower than all of it; what another process of the job makes it wait is.
 */
static void waiting_for_the_world_is_no_work(void **state)
{
	(void)state;
	struct windows_options o = clock_options(NULL);
	struct m_wait wait = {.thread = 0,
			      .start_ns = 201 * SECOND + 101000000,
			      .end_ns = 202 * SECOND - 1000000,
			      .waker_pid = 77,
			      .reason = WAIT_NETWORK};
	for (int i = 0; i < 3; i++) {
		o.waits = i > 0;
		reopen(&o);
		if (i == 2)
			windows_parent(windows, 77, 100);
		operators(0, 200, 1, 1000);
		operators(0, 201, 1, 100);
		windows_wait(windows, &names, &wait);
		operators(0, 202, 1, 1000);
		windows_end(windows);
		expect_near(pace_at(100, 200), 1, 0.01);
		expect_near(pace_at(100, 202), i == 1 ? 1 : 0.53, 0.02);
	}
}

/* Whoever is met first, and also where each says that the other is its parent. */
static void children_have_their_parents_pace(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct windows_options o = clock_options(NULL);
		reopen(&o);
		windows_parent(windows, 101, 100);
		for (uint64_t s = 20; s < 23; s++) {
			if (i)
				operators(2, s, 4, 1000);
			operators(0, s, s == 21 ? 2 : 1, 1000);
			if (!i)
				operators(2, s, 4, 1000);
		}
		windows_end(windows);
		for (size_t k = 0; k < rows_len; k++) {
			assert_true(rows[k].parents_pace == (rows[k].pid == 101));
			expect_near(rows[k].pace, rows[k].start_ns == 21 * SECOND ? 0.5 : 1, 0.01);
		}
	}
	/* What does the model's work itself has its own. */
	struct model_clock clock;
	learn_clock(&clock);
	struct windows_options o = clock_options(&clock);
	reopen(&o);
	windows_parent(windows, 101, 100);
	for (uint64_t s = 20; s < 23; s++) {
		operators(0, s, 1, 1000);
		operators(2, s, 2, 1000);
	}
	windows_end(windows);
	expect_near(pace_at(101, 21), 0.5, 0.02);
}

/* What a thread does that nobody knows, after it was away, was not awaited: its gap is none. */
static void new_work_was_not_awaited(void **state)
{
	(void)state;
	struct m_call new = fake_call(FAKE_RUNTIME_COPY, 0, 0, 0);
	uint32_t known = detect_keys_count(keys),
		 number = detect_keys_call(keys, &names, &new).number;
	for (int i = 0; i < 1000; i++)
		usual_learn(usual, &(struct usual_event){number, 0, 1000, 1000, 0});
	usual_settle(usual);
	windows_free(windows);
	windows = windows_new(&(struct windows_options){.window_ns = SECOND,
							.late_ns = WINDOWS_NEVER,
							.keys = keys,
							.usual = usual,
							.keys_known = known,
							.row = on_row});
	rows_len = 0;
	add(FAKE_RUNTIME_COPY, 0, 10 * SECOND, 1000);
	add(FAKE_RUNTIME_COPY, 0, 12 * SECOND + SECOND / 4, 1000);
	add(FAKE_RUNTIME_COPY, 0, 12 * SECOND + SECOND / 2, 1000);
	add(FAKE_COPY, 0, 14 * SECOND + SECOND / 4, 1000);
	windows_end(windows);
	assert_int_equal(rows_len, 3);
	expect_near(details[1].gap_ns, 0.75e9, 3000); /* a quarter, and half before the copy */
	expect_near(details[2].gap_ns, 0.25e9, 3000);
}

/* A thread beside the work comes once in three seconds: nobody awaited it meanwhile. Where it is
 * the work's own, all waited for it. */
static void a_thread_beside_the_work_was_not_awaited(void **state)
{
	(void)state;
	for (int aside = 0; aside < 2; aside++) {
		struct windows_options o = clock_options(NULL);
		reopen(&o);
		add(FAKE_OPERATOR, 1, 29 * SECOND, 10000);
		for (uint64_t s = 30; s < 32 && aside; s++)
			operators(0, s, 1, 1000);
		add(FAKE_OPERATOR, 1, 32 * SECOND + SECOND / 2, 10000);
		windows_end(windows);
		expect_near(details[rows_len - 1].gap_ns, aside ? 0 : 0.5e9, 20000);
	}
}

/* The process that forks loaders makes no calls itself, and has no pace to give. */
static void grandchildren_have_their_pace_from_who_calls(void **state)
{
	(void)state;
	struct windows_options o = clock_options(NULL);
	reopen(&o);
	windows_parent(windows, 101, 77);
	windows_parent(windows, 77, 100);
	for (uint64_t s = 20; s < 23; s++) {
		operators(2, s, 4, 1000);
		operators(0, s, 1, 1000);
	}
	windows_end(windows);
	for (size_t k = 0; k < rows_len; k++)
		assert_true(rows[k].parents_pace == (rows[k].pid == 101));
}

/* Each feature that the list has is computed, and no other. */
static void features_are_those_of_the_list(void **state)
{
	(void)state;
	uint32_t n;
	const struct feature *f = features_of(DETECT_CUDA, &n);
	assert_string_equal(f[PACE_LOSS].name, "pace_loss");
	assert_int_equal(n, DEVICE_TAIL + 1);
	assert_string_equal(f[SLOWDOWN].name, "slowdown");
	assert_string_equal(f[GAP_TAIL].name, "gap_tail");
	assert_string_equal(f[DEVICE_TAIL].name, "device_tail");
	features_of(DETECT_TORCH, &n);
	assert_int_equal(n, PACE_LOSS + 1);
	for (int i = 0; i < 10; i++)
		add(FAKE_OPERATOR, 0, 10 * SECOND + (uint64_t)i * 20000, 10000);
	windows_end(windows);
	for (int i = 0; i < FEATURES_MOST; i++)
		assert_int_equal(isnan(rows[0].x[i]), i > ERRORS);
}

static void hostile_times(void **state)
{
	(void)state;
	open_windows(SECOND / 2);
	const uint64_t times[] = {0, 1, UINT64_MAX, UINT64_MAX - SECOND, 1ULL << 63, 5 * SECOND};
	for (size_t i = 0; i < 6; i++)
		for (size_t k = 0; k < 6; k++) {
			add(FAKE_COPY, 0, times[i], times[k]);
			struct m_gpu_span s = {.start_ns = times[i],
					       .end_ns = times[k],
					       .work = WORK_COPY,
					       .pid = 100};
			windows_gpu_span(windows, &names, &s, NULL);
		}
	windows_upto(windows, 3 * SECOND);
	windows_upto(windows, SECOND); /* time goes back: nothing is handed out twice */
	windows_upto(windows, UINT64_MAX);
	windows_end(windows);
	for (size_t i = 0; i < rows_len; i++)
		for (int f = 0; f < FEATURES_MOST; f++)
			assert_false(isinf(rows[i].x[f]));
	for (size_t i = 1; i < rows_len; i++)
		assert_true(rows[i].start_ns >= rows[i - 1].start_ns);
	assert_false(add(FAKE_COPY, FAKE_THREADS + 5, 1, 1)); /* a thread that is not there */
}

/* More processes than are kept open at once, and more after those were handed out. */
static void thousands_of_processes(void **state)
{
	(void)state;
	open_windows(SECOND / 2);
	size_t taken = 0;
	for (uint32_t thread = 0; thread < FAKE_THREADS; thread += 2)
		taken += add(FAKE_COPY, thread, 10 * SECOND, 1000);
	assert_int_equal(taken, WINDOWS_PROCESSES);
	windows_upto(windows, 12 * SECOND);
	assert_int_equal(rows_len, WINDOWS_PROCESSES);
	rows_len = 0;
	assert_true(add(FAKE_COPY, FAKE_THREADS - 2, 13 * SECOND, 1000));
	assert_true(add(FAKE_COPY, 0, 13 * SECOND, 1000));
	windows_end(windows);
	assert_int_equal(rows_len, 2);
}

/* Threads that end make room for others, of which nothing is known of those before. */
static void threads_come_and_go(void **state)
{
	(void)state;
	struct windows_event e;
	uint64_t at = 10 * SECOND;
	add(FAKE_COPY, 0, at, 1000);
	for (uint32_t i = 1; i < 2 * WINDOWS_PROCESSES - 2; i++, at += 10000) {
		struct m_call c = fake_call(FAKE_COPY, i, at + 3000, 1000);
		assert_true(windows_call(windows, &names, &c, &e));
		assert_int_equal(e.tid, 1000 + i);
		assert_true(isnan(e.usual.gap_z)); /* its first call */
		c.start_ns += 2000;
		assert_true(windows_call(windows, &names, &c, &e));
		assert_false(isnan(e.usual.gap_z));
		windows_thread_gone(windows, i);
		windows_thread_gone(windows, i); /* nothing is known: nothing is done */
	}
	assert_int_equal(windows_threads(windows), 2);
	/* the one that lives is known */
	struct m_call c = fake_call(FAKE_COPY, 0, at + 1000, 1000);
	assert_true(windows_call(windows, &names, &c, &e));
	assert_int_equal(e.tid, 1000);
	assert_false(isnan(e.usual.gap_z));
}

/* Another recording begins: its clock may be behind. */
static void recordings_follow_each_other(void **state)
{
	(void)state;
	copies(100 * SECOND, 20, 1000, 1000);
	windows_end(windows);
	windows_forget_rows(windows);
	copies(5 * SECOND, 20, 1000, 1000);
	windows_end(windows);
	assert_int_equal(rows_len, 2);
	assert_int_equal(rows[1].start_ns, 5 * SECOND);
	assert_int_equal(windows_late(windows), 0);
}

static bool is_second(void *ctx, uint64_t start_ns)
{
	(void)ctx;
	return start_ns == 2 * SECOND;
}

/* What is left out makes no row, no work and nothing usual; the time before the next call counts
 * from its end. A call that covers it counts in the others. */
static void test_left_out(void **state)
{
	struct m_call copy = fake_call(FAKE_COPY, 0, 0, 0);
	struct baseline before, after, gap;
	(void)state;
	uint32_t number = detect_keys_call(keys, &names, &copy).number;
	usual_free(usual);
	usual = usual_new(keys, 1);
	windows_free(windows);
	windows = windows_new(&(struct windows_options){.window_ns = SECOND,
							.late_ns = WINDOWS_NEVER,
							.keys = keys,
							.usual = usual,
							.regimes = regimes,
							.learn = true,
							.new_regimes = true,
							.row = on_row,
							.left_out = is_second,
							.mix = on_mix});
	copies(SECOND, 500, 1000, 1000);
	usual_get(usual, number, &before, &gap);
	uint64_t end_ns = copies(2 * SECOND, 700, 700000, 700000);
	assert_true(end_ns > 2 * SECOND + SECOND * 9 / 10 && end_ns < 3 * SECOND);
	usual_get(usual, number, &after, &gap);
	assert_int_equal(after.count, before.count);
	copies(3 * SECOND, 500, 1000, 1000);
	add(FAKE_COPY, 0, 4 * SECOND - 3 * SECOND / 2, 3 * SECOND / 2 - 1);
	windows_end(windows);
	assert_int_equal(rows_len, 2);
	assert_int_equal(mixes, 2);
	assert_int_equal(rows[0].start_ns, SECOND);
	assert_int_equal(rows[1].start_ns, 3 * SECOND);
	assert_true(x(0, GAP_TAIL) == 0 && fabs(x(0, GAP)) < 0.05);
	usual_settle(usual);
	usual_get(usual, number, &after, &gap);
	assert_int_equal(after.count, 1001);
	assert_true(gap.usual_ns < 2000);
	struct model_regime regime;
	regimes_get(regimes, 1, &regime);
	assert_int_equal(regimes_count(regimes), 1);
	assert_int_equal(regime.windows, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(usual_calls_make_zeros, begin, end),
		cmocka_unit_test_setup_teardown(slow_calls_show, begin, end),
		cmocka_unit_test_setup_teardown(long_gaps_show, begin, end),
		cmocka_unit_test_setup_teardown(shares_show, begin, end),
		cmocka_unit_test_setup_teardown(the_device_is_apart, begin, end),
		cmocka_unit_test_setup_teardown(pace_is_usual_time_over_time, begin, end),
		cmocka_unit_test_setup_teardown(slow_cpus_are_no_slow_work, begin, end),
		cmocka_unit_test_setup_teardown(what_stalls_is_slow, begin, end),
		cmocka_unit_test_setup_teardown(unknown_calls_are_beside_the_work, begin, end),
		cmocka_unit_test_setup_teardown(waiting_for_the_world_is_no_work, begin, end),
		cmocka_unit_test_setup_teardown(children_have_their_parents_pace, begin, end),
		cmocka_unit_test_setup_teardown(new_work_was_not_awaited, begin, end),
		cmocka_unit_test_setup_teardown(a_thread_beside_the_work_was_not_awaited, begin,
						end),
		cmocka_unit_test_setup_teardown(grandchildren_have_their_pace_from_who_calls, begin,
						end),
		cmocka_unit_test_setup_teardown(few_events_tell_nothing, begin, end),
		cmocka_unit_test_setup_teardown(nested_calls, begin, end),
		cmocka_unit_test_setup_teardown(calls_out_of_order, begin, end),
		cmocka_unit_test_setup_teardown(calls_without_durations, begin, end),
		cmocka_unit_test_setup_teardown(long_calls_cover_windows, begin, end),
		cmocka_unit_test_setup_teardown(rows_come_in_order, begin, end),
		cmocka_unit_test_setup_teardown(work_of_the_gpu_may_be_late, begin, end),
		cmocka_unit_test_setup_teardown(long_work_of_the_gpu_may_be_late, begin, end),
		cmocka_unit_test_setup_teardown(live_is_as_offline, begin, end),
		cmocka_unit_test_setup_teardown(without_gaps, begin, end),
		cmocka_unit_test_setup_teardown(features_are_those_of_the_list, begin, end),
		cmocka_unit_test_setup_teardown(hostile_times, begin, end),
		cmocka_unit_test_setup_teardown(thousands_of_processes, begin, end),
		cmocka_unit_test_setup_teardown(threads_come_and_go, begin, end),
		cmocka_unit_test_setup_teardown(recordings_follow_each_other, begin, end),
		cmocka_unit_test_setup_teardown(test_left_out, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

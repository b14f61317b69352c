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
						   k == 2 ? USUAL_NONE : 1000});
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

/* Of what a model knows half as much is done, with as many calls beside it that no model knows.
 * Windows at the ends tell no pace: the process may have begun or ended in them. */
static void pace_of_usual_work(void **state)
{
	(void)state;
	struct windows_options o = {.window_ns = SECOND,
				    .late_ns = WINDOWS_NEVER,
				    .keys = keys,
				    .usual = usual,
				    .regimes = regimes,
				    .new_regimes = true,
				    .row = on_row};
	for (uint64_t s = 10; s < 15; s++)
		copies(s * SECOND, 2000, 1000, 1000);
	windows_end(windows);
	for (size_t i = 0; i < 5; i++)
		assert_true(isnan(x(i, PACE_LOSS))); /* nothing is frozen */
	regimes_freeze(regimes);
	windows_free(windows);
	o.keys_known = detect_keys_count(keys);
	windows = windows_new(&o);
	rows_len = 0;
	copies(20 * SECOND, 2000, 1000, 1000);
	copies(21 * SECOND, 2000, 1000, 1000);
	copies(22 * SECOND, 1000, 1000, 1000);
	for (uint64_t i = 0; i < 1000; i++)
		add(FAKE_RUNTIME_COPY, 0, 22 * SECOND + 500000000 + i * 10, 5);
	copies(23 * SECOND, 2000, 1000, 1000);
	windows_end(windows);
	assert_int_equal(rows_len, 4);
	assert_true(isnan(x(0, PACE_LOSS)) && isnan(x(3, PACE_LOSS)));
	expect_near(x(1, PACE_LOSS), 0, 0.01);
	expect_near(x(2, PACE_LOSS), log(2), 0.01);
}

/* A second of copies of two sizes. */
static void copies_of_two_sizes(uint64_t s, uint64_t small, uint64_t large)
{
	for (uint64_t i = 0; i < small + large; i++) {
		struct m_call c = fake_call(FAKE_COPY, 0, s * SECOND + i * 2000, 1000);
		c.args[1] = i < small ? 1 << 10 : 1 << 20;
		windows_call(windows, &names, &c, NULL);
	}
}

/* The paces of seven seconds, the fourth of which has so many copies; of all others 1000 of each
 * size are usual. */
static void expect_paces(uint64_t small, uint64_t large, bool is_last, const double *paces)
{
	open_windows(WINDOWS_NEVER);
	for (uint64_t s = 20; s < (is_last ? 24 : 27); s++)
		copies_of_two_sizes(s, s == 23 ? small : 1000, s == 23 ? large : 1000);
	windows_end(windows);
	assert_int_equal(rows_len, is_last ? 4 : 7);
	for (size_t i = 0; i < rows_len; i++)
		if (!(fabs(rows[i].pace - paces[i]) <= 0.01))
			fail_msg("%d, %d: second %zu: %g is not %g", (int)small, (int)large, i,
				 rows[i].pace, paces[i]);
}

/* What has one size more and the other less often is some other work, which may have begun in the
 * window before and end in the one after. Not so what is slower or hardly does anything; nor the
 * last window, of which nobody knows whether it is whole. */
static void no_pace_beside_windows_at_none(void **state)
{
	(void)state;
	for (uint64_t s = 10; s < 15; s++)
		copies_of_two_sizes(s, 1000, 1000);
	windows_end(windows);
	regimes_freeze(regimes);
	expect_paces(1000, 1000, false, (const double[]){0, 1, 1, 1, 1, 1, 0});
	expect_paces(2000, 400, false, (const double[]){0, 1, 0, 0, 0, 1, 0});
	expect_paces(500, 500, false, (const double[]){0, 1, 1, 0.5, 1, 1, 0});
	expect_paces(30, 0, false, (const double[]){0, 1, 1, 0.015, 1, 1, 0});
	expect_paces(2000, 400, true, (const double[]){0, 1, 1, 0});
}

/* A second with one size more and the other less often, and that many functions of Python, is
 * another mix of work, in which the process is from the window before to the one after. Not so at
 * the usual pace with as many functions beside, nor without them. */
static void another_mix_at_no_pace_is_other_work(void **state)
{
	(void)state;
	static const struct {
		uint64_t small, large, functions;
		bool other;
	} cases[] = {{2000, 100, 3000, true}, {1000, 1000, 3000, false}, {2000, 100, 0, false}};
	for (uint64_t s = 10; s < 15; s++)
		copies_of_two_sizes(s, 1000, 1000);
	windows_end(windows);
	regimes_freeze(regimes);
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		open_windows(WINDOWS_NEVER);
		for (uint64_t s = 20; s < 27; s++) {
			bool is = s == 23;
			copies_of_two_sizes(s, is ? cases[k].small : 1000,
					    is ? cases[k].large : 1000);
			for (uint64_t i = 0; is && i < cases[k].functions; i++)
				add(FAKE_FUNCTION, 1, s * SECOND + i * 2000, 1000);
		}
		windows_end(windows);
		for (size_t i = 0; i < rows_len; i++) {
			uint64_t second = rows[i].start_ns / SECOND;
			bool near = second >= 22 && second <= 24;
			if (rows[i].other_work != (near && cases[k].other))
				fail_msg("case %zu: second %d", k, (int)second);
		}
	}
}

/* Seven calls are not enough to say what they are. */
static void few_calls_are_no_other_work(void **state)
{
	(void)state;
	for (uint64_t s = 10; s < 50; s++)
		copies_of_two_sizes(s, 20, 20);
	windows_end(windows);
	regimes_freeze(regimes);
	for (uint64_t few = 7; few <= 8; few++) {
		open_windows(WINDOWS_NEVER);
		for (uint64_t s = 100; s < 130; s++)
			copies_of_two_sizes(s, s == 120 ? few : 20, s == 120 ? 0 : 20);
		windows_end(windows);
		assert_int_equal(rows_len, 30);
		expect_near(rows[18].pace, 1, 0.01);
		expect_near(rows[19].pace, few == 7, 0.01);
		expect_near(rows[20].pace, 0, 0.01);
		expect_near(rows[21].pace, few == 7, 0.01);
		expect_near(rows[22].pace, 1, 0.01);
	}
}

/* Live the next window has only begun when one is handed out. */
static void a_window_that_has_begun_takes_no_pace(void **state)
{
	(void)state;
	for (uint64_t s = 10; s < 15; s++)
		copies_of_two_sizes(s, 1000, 1000);
	windows_end(windows);
	regimes_freeze(regimes);
	open_windows(SECOND / 4);
	for (uint64_t s = 20; s < 24; s++) {
		copies_of_two_sizes(s, 300, 0); /* so far */
		windows_upto(windows, s * SECOND + SECOND / 4);
		copies_of_two_sizes(s, 700, 1000);
	}
	windows_end(windows);
	assert_int_equal(rows_len, 4);
	expect_near(rows[1].pace, 1, 0.01);
	expect_near(rows[2].pace, 1, 0.01);
}

/* Of a parent in one second 2000 copies, half as many in the next, and again 2000; of its child few
 * calls that no model knows. */
static void family(bool child_first)
{
	static const int n[] = {2000, 2000, 1000, 2000};
	for (uint64_t s = 20; s < 24; s++) {
		for (uint64_t i = 0; i < 20 && child_first; i++)
			add(FAKE_RUNTIME_COPY, 2, s * SECOND + i * 1000, 5);
		copies(s * SECOND, n[s - 20], 1000, 1000);
		for (uint64_t i = 0; i < 20 && !child_first; i++)
			add(FAKE_RUNTIME_COPY, 2, s * SECOND + i * 1000, 5);
	}
	windows_end(windows);
	assert_int_equal(rows_len, 8);
}

/* Whoever is met first, and also where each says that the other is its parent. */
static void children_have_their_parents_pace(void **state)
{
	(void)state;
	for (uint64_t s = 10; s < 15; s++)
		copies(s * SECOND, 2000, 1000, 1000);
	windows_end(windows);
	regimes_freeze(regimes);
	for (int i = 0; i < 3; i++) {
		open_windows(WINDOWS_NEVER);
		windows_parent(windows, 101, 100);
		if (i == 2)
			windows_parent(windows, 100, 101);
		family(i == 1);
		for (size_t k = 0; k < rows_len; k++) {
			uint64_t second = rows[k].start_ns / SECOND;
			bool ends = second == 20 || second == 23;
			if (i == 2) /* each waits for the other: one has none */
				continue;
			assert_true(rows[k].parents_pace == (rows[k].pid == 101 && !ends));
			expect_near(rows[k].pace, ends ? 0 : second == 22 ? 0.5 : 1, 0.01);
		}
	}
	open_windows(WINDOWS_NEVER); /* of another recording nothing of this one is known */
	windows_parent(windows, 101, 100);
	windows_forget_rows(windows);
	family(false);
	for (size_t k = 0; k < rows_len; k++)
		assert_false(rows[k].parents_pace);
}

/* What a thread does that nobody knows, after it was away, was not awaited: its gap is none. */
static void new_work_was_not_awaited(void **state)
{
	(void)state;
	struct m_call new = fake_call(FAKE_RUNTIME_COPY, 0, 0, 0);
	uint32_t known = detect_keys_count(keys),
		 number = detect_keys_call(keys, &names, &new).number;
	for (int i = 0; i < 1000; i++)
		usual_learn(usual, &(struct usual_event){number, 0, 1000, 1000});
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
		cmocka_unit_test_setup_teardown(pace_of_usual_work, begin, end),
		cmocka_unit_test_setup_teardown(no_pace_beside_windows_at_none, begin, end),
		cmocka_unit_test_setup_teardown(another_mix_at_no_pace_is_other_work, begin, end),
		cmocka_unit_test_setup_teardown(few_calls_are_no_other_work, begin, end),
		cmocka_unit_test_setup_teardown(a_window_that_has_begun_takes_no_pace, begin, end),
		cmocka_unit_test_setup_teardown(children_have_their_parents_pace, begin, end),
		cmocka_unit_test_setup_teardown(new_work_was_not_awaited, begin, end),
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

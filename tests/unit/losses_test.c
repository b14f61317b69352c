/* losses_test.c - which windows lack calls: by the counter that the pipeline writes when calls were
 * lost, and by what a queue left out.
 *
 * links: detect pipeline recording symbolize analyze parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/losses.h"
#include "pipeline/pipeline_impl.h"

#define SECOND 1000000000ULL
#define MS     1000000ULL

struct run {
	struct pipeline *p;
	struct detect_names names;
	struct losses losses;
	struct m_metric metric; /* there is one */
	uint32_t counters;
};

static const char *string(void *ctx, uint32_t number)
{
	return rec_string_get(((struct run *)ctx)->p->writer, number);
}

static const struct m_metric *metric(void *ctx, uint32_t number)
{
	(void)number;
	return &((struct run *)ctx)->metric;
}

static void on_rows(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	struct run *r = ctx;
	(void)n;
	if (kind == ROW_METRIC) {
		assert_int_equal(number, 0);
		r->metric = *(const struct m_metric *)rows;
	}
	if (kind != ROW_COUNTER)
		return;
	r->counters++;
	losses_counter(&r->losses, &r->names, rows);
}

static void begin(struct run *r)
{
	struct rec_writer *w;
	struct err e = {""};
	if (rec_writer_open(&w, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	*r = (struct run){.p = pipeline_new(w, "/proc", NULL), .losses.window_ns = SECOND};
	r->names = (struct detect_names){.ctx = r, .string = string, .metric = metric};
	pipeline_listen(r->p, &(struct event_listener){.ctx = r, .rows = on_rows});
}

static void end(struct run *r)
{
	struct err e = {""};
	losses_free(&r->losses);
	assert_int_equal(pipeline_close(r->p, &e), 0);
}

static void see(struct run *r, uint64_t second, uint64_t events)
{
	for (uint64_t i = 0; i < events; i++)
		losses_seen(&r->losses, second * SECOND + i * (SECOND / events));
}

static bool spoilt(struct run *r, uint64_t from_ms, uint64_t to_ms)
{
	return losses_spoil(&r->losses, &(struct feature_row){.start_ns = from_ms * MS,
							      .end_ns = to_ms * MS,
							      .layer = DETECT_TORCH});
}

/* Looks at the total each 100 ms: it grows between 101.4 and 101.5 s, by a tenth of a second's
 * calls, and between 103.9 and 104.1, by one in a hundred and fifty. */
static void a_counter_says_when(void **state)
{
	(void)state;
	struct run r;
	begin(&r);
	for (uint64_t s = 100; s < 106; s++)
		see(&r, s, 1000);
	for (uint64_t ms = 100000; ms < 106000; ms += 100) {
		uint64_t total =
			50 + (ms >= 101500) * 100 + (ms >= 104000) * 7 + (ms >= 104100) * 7;
		pipeline_lost_calls(r.p, ms * MS, total);
	}
	assert_int_equal(r.counters, 6); /* two for each look that found more */
	for (uint64_t s = 100; s < 106; s++)
		assert_int_equal(spoilt(&r, s * 1000, s * 1000 + 1000), s == 101);
	assert_true(spoilt(&r, 101400, 101600)); /* a step */
	assert_false(spoilt(&r, 102000, 102200));
	assert_false(losses_spoil(&r.losses, &(struct feature_row){.start_ns = 101 * SECOND,
								   .end_ns = 102 * SECOND,
								   .layer = DETECT_HARDWARE}));
	losses_forget(&r.losses);
	assert_false(spoilt(&r, 101000, 102000));
	end(&r);
}

/* Nobody looked for five seconds: these and no others. One in which nothing came lacks all. */
static void a_long_pause_is_whole_windows(void **state)
{
	(void)state;
	struct run r;
	begin(&r);
	see(&r, 100, 1000);
	see(&r, 107, 1000);
	pipeline_lost_calls(r.p, 101 * SECOND, 0);
	pipeline_lost_calls(r.p, 106 * SECOND, 5000);
	for (uint64_t s = 100; s < 108; s++)
		assert_int_equal(spoilt(&r, s * 1000, s * 1000 + 1000), s >= 101 && s < 106);
	end(&r);
}

/* An hour of losses and calls takes no more room than its last minute. */
static void what_was_judged_is_forgotten(void **state)
{
	(void)state;
	struct run r;
	begin(&r);
	for (uint64_t s = 100; s < 3700; s++) {
		see(&r, s, 10);
		losses_add(&r.losses, s * SECOND, (s + 1) * SECOND, 5);
		losses_upto(&r.losses, (s - 60) * SECOND);
		assert_true(spoilt(&r, s * 1000, s * 1000 + 1000));
	}
	assert_true(r.losses.seen.len <= 62 && r.losses.lost.len <= 62);
	end(&r);
}

/* As long as a look may take, at the end of what a number of nanoseconds holds. */
static void the_last_times_end(void **state)
{
	(void)state;
	struct run r;
	begin(&r);
	losses_add(&r.losses, UINT64_MAX - 100, UINT64_MAX - 1, 5);
	assert_int_equal(r.losses.lost.len, 1);
	losses_add(&r.losses, UINT64_MAX - 3 * SECOND, UINT64_MAX, 30);
	assert_int_equal(r.losses.lost.len, 4);
	losses_seen(&r.losses, UINT64_MAX);
	struct feature_row row = {
		.start_ns = UINT64_MAX - 50, .end_ns = UINT64_MAX, .layer = DETECT_TORCH};
	assert_true(losses_spoil(&r.losses, &row));
	row.start_ns = 0;
	assert_true(losses_spoil(&r.losses, &row));
	end(&r);
}

/* Of one loss, and of what is kept in all, however long it is. */
static void windows_are_bounded(void **state)
{
	(void)state;
	struct run r;
	begin(&r);
	r.losses.window_ns = MS;
	losses_add(&r.losses, 100 * SECOND, 110 * SECOND, 1e6);
	assert_int_equal(r.losses.lost.len, 10000);
	losses_add(&r.losses, 200 * SECOND, 210 * SECOND + 1, 1e6);
	assert_int_equal(r.losses.lost.len, 10000);
	end(&r);
}

/* Two losses five hundred years apart, and a step between them: neither it nor what is forgotten
 * is looked at window by window. */
static void a_hostile_step_is_not_looked_at(void **state)
{
	(void)state;
	struct run r;
	begin(&r);
	losses_add(&r.losses, SECOND, 2 * SECOND, 5);
	losses_add(&r.losses, UINT64_MAX - SECOND, UINT64_MAX, 5);
	struct feature_row row = {.end_ns = UINT64_MAX, .layer = DETECT_STEP};
	assert_false(losses_spoil(&r.losses, &row));
	row.end_ns = 10000 * SECOND;
	assert_true(losses_spoil(&r.losses, &row));
	losses_upto(&r.losses, UINT64_MAX - 2 * SECOND);
	assert_int_equal(r.losses.lost.len, 2);
	row.end_ns = UINT64_MAX;
	assert_true(losses_spoil(&r.losses, &row));
	losses_upto(&r.losses, UINT64_MAX);
	assert_int_equal(r.losses.lost.len, 1);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_counter_says_when),
		cmocka_unit_test(a_long_pause_is_whole_windows),
		cmocka_unit_test(what_was_judged_is_forgotten),
		cmocka_unit_test(the_last_times_end),
		cmocka_unit_test(windows_are_bounded),
		cmocka_unit_test(a_hostile_step_is_not_looked_at),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

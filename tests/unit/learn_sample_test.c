/* learn_sample_test.c - a part of a long recording stands for all of it, and events that are kept
 * come to the same rows as those that are read.
 *
 * links: detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/types.h>

#include "base/random.h"
#include "detect/learn.h"
#include "detect/learn_kept.h"
#include "detect/learn_sample.h"
#include "detect/recording_feed.h"
#include "recording/recording.h"
#include "wire/event.h"

#define SECOND	1000000000ULL
#define SECONDS 300

/* Two functions that take turns, so that there are 5,000 calls a second;
 * some last for seconds, where asked for. */
static struct rec_reader *recording(uint64_t seed, bool long_calls)
{
	static const double usual_ns[2] = {60000, 300000};
	char path[] = "/tmp/learn_sample_test.XXXXXX";
	struct rec_writer *w = NULL;
	struct rec_reader *r = NULL;
	struct err e = {0};
	close(mkstemp(path));
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	for (size_t i = 0; i < 2; i++)
		rec_add_probe(w, &(struct m_probe){
					 .layer = rec_string_z(w, "torch"),
					 .name = rec_string_z(w, i ? "aten::long" : "aten::short"),
					 .kind = SITE_SPAN,
					 .name_arg = -1});
	rec_add_thread(w, &(struct m_thread){.pid = 7, .tid = 7});
	rec_put_process(w, &(struct m_process){.pid = 7, .start_ns = 1});
	uint64_t at = SECOND;
	for (size_t i = 0; at < (SECONDS + 1) * SECOND; i++) {
		double ns = usual_ns[i % 2] * exp(0.05 * random_normal(&seed));
		struct m_call c = {.start_ns = at, .dur_ns = (uint64_t)ns, .probe = i % 2};
		if (long_calls && i % 25000 == 24999)
			c.dur_ns = 3 * SECOND + i;
		if (i % 7 == 6)
			c.flags = CALL_INSTANT;
		if (i % 11 == 10)
			c.flags |= CALL_ERROR | CALL_NESTED;
		rec_put_calls(w, &c, 1);
		at += c.dur_ns + 20000;
	}
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	unlink(path);
	return r;
}

static double median_ns(const struct model *m, const char *text)
{
	for (size_t i = 0; i < m->keys.len; i++)
		if (!strcmp(m->keys.data[i].text, text))
			return exp(m->keys.data[i].duration.log_median);
	fail_msg("'%s' was not learned", text);
	return 0;
}

static void a_part_stands_for_all(void **state)
{
	(void)state;
	struct err e = {0};
	struct model all, part;
	struct rec_reader *r = recording(1, false);
	const struct row_source *source = rec_source(r);
	uint64_t calls = source->tables->calls;
	assert_true(source_call_blocks(source) > 4);
	struct learn_options o = {.warmup_s = -1};
	assert_int_equal(learn_model(&all, &source, 1, &o, &e), 0);
	o.events = calls; /* there are no more: nothing is left out */
	assert_int_equal(learn_model(&part, &source, 1, &o, &e), 0);
	assert_string_equal(part.origin, all.origin);
	model_free(&part);
	o.events = calls / 4;
	assert_int_equal(learn_model(&part, &source, 1, &o, &e), 0);
	assert_string_equal(all.origin, "4 min 55 s of a recording");
	assert_non_null(strstr(part.origin, "s, spread over 4 min 55 s of a recording"));
	assert_true(part.seconds < 0.5 * all.seconds && part.seconds > 0.2 * all.seconds);
	/* No window is learned from in part, and no time between calls that were not read. */
	assert_true(fabs(part.clock.centre - all.clock.centre) < 0.01);
	assert_true(part.clock.sigma < 1.3 * all.clock.sigma);
	for (size_t i = 0; i < 2; i++) {
		const char *name = i ? "aten::long" : "aten::short";
		assert_true(fabs(median_ns(&part, name) / median_ns(&all, name) - 1) < 0.02);
	}
	for (size_t i = 0; i < part.keys.len; i++)
		if (part.keys.data[i].gap.count)
			assert_true(part.keys.data[i].gap.q99_ns < 40000);
	model_free(&all);
	model_free(&part);
	rec_close(r);
}

static void stretches_are_apart_and_even(void **state)
{
	(void)state;
	struct rec_reader *r = recording(2, false);
	const struct row_source *both[] = {rec_source(r), rec_source(r)};
	struct sample s[2];
	learn_sample_make(s, both, 2, SECOND, both[0]->tables->calls);
	for (size_t k = 0; k < 2; k++) {
		assert_true(s[k].stretches.len > 1);
		assert_true(s[k].source.blocks(s[k].source.ctx, ROW_CALL) <
			    source_call_blocks(both[0]));
		for (size_t i = 0; i < s[k].stretches.len; i++) {
			struct sample_stretch t = s[k].stretches.data[i];
			assert_true(t.from_ns % SECOND == 0 && t.to_ns % SECOND == 0);
			assert_true(!i || t.from_ns > s[k].stretches.data[i - 1].to_ns);
			assert_true(learn_sample_has(&s[k], t.from_ns));
			assert_false(learn_sample_has(&s[k], t.to_ns));
			assert_int_equal(learn_sample_part(&s[k], t.from_ns), i);
			assert_int_equal(learn_sample_part(&s[k], t.to_ns - 1), i);
		}
	}
	/* Not the same of both. */
	assert_true(s[0].stretches.data[1].from_ns != s[1].stretches.data[1].from_ns);
	learn_sample_free(&s[0]);
	learn_sample_free(&s[1]);
	rec_close(r);
}

/* ---- events that are kept ---- */

struct rows {
	VEC(struct feature_row) rows;
	struct windows *windows;
	struct detect_names names;
	struct kept kept;
	uint64_t kept_bytes;
};

static void on_call(void *ctx, const struct m_call *c)
{
	struct rows *r = ctx;
	windows_call(r->windows, &r->names, c, NULL);
}

static void on_row(void *ctx, const struct feature_row *row, const struct window_detail *detail)
{
	struct rows *r = ctx;
	(void)detail;
	*vec_push(&r->rows) = *row;
}

static void on_input(void *ctx, const struct windows_input *in)
{
	struct rows *r = ctx;
	kept_add(&r->kept, &r->kept_bytes, in);
}

static void kept_events_make_the_same_rows(void **state)
{
	(void)state;
	struct rec_reader *reader = recording(3, true);
	struct detect_keys *keys = detect_keys_new(KEYS_MOST, KEYS_WHOLE);
	struct usual *usual = usual_new(keys, 1);
	struct rows read = {.kept.whole = true}, again = {0};
	struct recording_sink sink = {.ctx = &read, .call = on_call};
	struct windows_options o = {.window_ns = SECOND,
				    .late_ns = WINDOWS_NEVER,
				    .keys = keys,
				    .usual = usual,
				    .learn = true,
				    .learn_only = true,
				    .row = on_row,
				    .input = on_input,
				    .ctx = &read};
	detect_names_of_source(&read.names, rec_source(reader));
	read.windows = windows_new(&o);
	recording_feed(rec_source(reader), &sink);
	kept_end(&read.kept, &read.kept_bytes);
	windows_free(read.windows);
	usual_settle(usual);
	assert_true(read.kept.whole && read.kept.chunks.len > 4);

	o.learn = o.learn_only = false;
	o.input = NULL;
	read.rows.len = 0;
	read.windows = windows_new(&o);
	recording_feed(rec_source(reader), &sink);
	windows_end(read.windows);
	o.ctx = &again;
	again.windows = windows_new(&o);
	kept_replay(&read.kept, usual, again.windows, NULL, NULL);
	windows_end(again.windows);
	assert_true(read.rows.len > SECONDS / 2);
	assert_int_equal(again.rows.len, read.rows.len);
	for (size_t i = 0; i < read.rows.len; i++) {
		assert_int_equal(again.rows.data[i].events, read.rows.data[i].events);
		assert_memory_equal(again.rows.data[i].x, read.rows.data[i].x,
				    sizeof(read.rows.data[i].x));
	}
	windows_free(read.windows);
	windows_free(again.windows);
	kept_free(&read.kept);
	vec_free(&read.rows);
	vec_free(&again.rows);
	usual_free(usual);
	detect_keys_free(keys);
	rec_close(reader);
}

static void what_is_too_much_is_let_go(void **state)
{
	(void)state;
	struct kept k = {.whole = true};
	uint64_t all = KEPT_BYTES_MOST;
	struct windows_input in = {.end_ns = 5, .key = 1, .gap_ns = USUAL_NONE, .pid = 7};
	for (size_t i = 0; i < 100000 && k.whole; i++)
		kept_add(&k, &all, &in);
	kept_end(&k, &all);
	assert_false(k.whole);
	assert_int_equal(k.chunks.len, 0);
	assert_int_equal(all, KEPT_BYTES_MOST);
	kept_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_stands_for_all),
		cmocka_unit_test(stretches_are_apart_and_even),
		cmocka_unit_test(kept_events_make_the_same_rows),
		cmocka_unit_test(what_is_too_much_is_let_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* stacks_test.c - jobs that have ever new stacks and places: what the pipeline knows of them is
 * bounded, a stack that comes again after very many others is still the same, and what was left
 * out is told.
 *
 * links: pipeline recording symbolize parser base */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "padding.h"
#include "base/buffer.h"
#include "base/strtab.h"
#include "pipeline/listeners.h"
#include "pipeline/pipeline.h"

#define PLACES	64
#define DEPTH	6
#define OFTEN	7 /* the stack that comes again and again */
#define A_PASS	1000
#define NOWHERE (1ULL << 40) /* no process is known to have anything there */

struct run {
	char path[64];
	struct pipeline *p;
	uint64_t time_ns;
};

static void begin(struct run *r)
{
	struct rec_writer *w;
	struct err e = {""};
	*r = (struct run){0};
	snprintf(r->path, sizeof(r->path), "/tmp/stacks_test.%d", getpid());
	if (rec_writer_open(&w, r->path, &(struct rec_writer_options){0}, &e))
		fail_msg("%s", e.msg);
	r->p = pipeline_new(w, "/proc", NULL);
	pad_recording(r->p);
}

static struct rec_reader *end(struct run *r)
{
	struct rec_reader *reader = NULL;
	struct err e = {""};
	if (pipeline_close(r->p, &e) || rec_open(&reader, r->path, &e))
		fail_msg("%s", e.msg);
	unlink(r->path);
	return reader;
}

static void put_stack(struct run *r, uint64_t id, const uint64_t *frame, uint32_t n)
{
	struct rec_stack *s = xcalloc(1, sizeof(*s));
	s->kind = REC_STACK;
	s->end = STACK_WHOLE;
	s->python = PYTHON_NONE;
	s->tgid = (uint32_t)getpid();
	s->id = id;
	s->frames = n;
	memcpy(s->frame, frame, n * sizeof(*frame));
	pipeline_record(r->p, s, sizeof(*s));
	free(s);
}

static void put_sample(struct run *r, uint64_t id)
{
	struct rec_sample s = {.kind = REC_SAMPLE,
			       .syscall = -1,
			       .tgid = (uint32_t)getpid(),
			       .tid = (uint32_t)getpid(),
			       .time_ns = ++r->time_ns,
			       .weight_ns = 1,
			       .stack = id};
	pipeline_record(r->p, &s, sizeof(s));
	pipeline_pass_end(r->p);
}

/* The places of a stack, from its number. */
static void places_of(uint64_t number, uint64_t ret[DEPTH])
{
	for (int i = 0; i < DEPTH; i++, number /= PLACES)
		ret[i] = NOWHERE + 16 * (number % PLACES);
}

/* Stack 7 is told once, as the programs do as long as they remember it, and sampled in between. */
static unsigned put_stacks(struct run *r, uint64_t from, uint64_t to)
{
	uint64_t frame[DEPTH];
	unsigned samples = 0;
	for (uint64_t id = from; id < to; id++) {
		places_of(id, frame);
		put_stack(r, id, frame, DEPTH);
		if (id % A_PASS)
			continue;
		put_sample(r, OFTEN);
		samples++;
	}
	return samples;
}

static unsigned expect_samples(const struct rec_reader *reader)
{
	const struct rec_tables *t = rec_tables(reader);
	uint64_t want[DEPTH];
	unsigned seen = 0;
	places_of(OFTEN, want);
	for (size_t b = 0; b < rec_sample_blocks(reader); b++) {
		struct m_samples samples = {0};
		struct err e = {""};
		assert_int_equal(rec_read_samples(reader, b, &samples, &e), 0);
		for (size_t i = 0; i < samples.len; i++, seen++) {
			uint32_t stack = samples.rows[i].stack;
			for (int d = 0; d < DEPTH; d++) {
				assert_int_not_equal(stack, 0);
				const struct m_stack *s = &t->stacks.data[stack];
				assert_int_equal(t->frames.data[s->frame].address, want[d]);
				stack = s->parent;
			}
			assert_int_equal(stack, 0);
		}
		m_samples_free(&samples);
	}
	return seen;
}

static uint64_t lost(const struct rec_reader *reader, const char *cause)
{
	const struct rec_tables *t = rec_tables(reader);
	uint64_t n = 0;
	for (size_t i = 0; i < t->losses.len; i++)
		if (!strcmp(strtab_get(&t->strings, t->losses.data[i].cause, NULL), cause))
			n = t->losses.data[i].count;
	return n;
}

static void test_stacks_without_end(void **state)
{
	(void)state;
	struct run r;
	begin(&r);
	unsigned samples = put_stacks(&r, 1, 800000);
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
	samples += put_stacks(&r, 800000, 2400000);
	size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
	assert_true(after < before + (24u << 20));
	struct rec_reader *reader = end(&r);
	assert_int_equal(expect_samples(reader), samples);
	assert_int_equal(lost(reader, "sample_stack"), 0);
	rec_close(reader);
}

/* What the programs tell is the reason of a wait that has no stack; a number that is none is not.
 */
static void test_wait_without_stack(void **state)
{
	static const uint8_t told[] = {WAIT_PIPE, WAIT_DISK, WAIT_REASONS};
	static const uint8_t want[] = {WAIT_PIPE, WAIT_DISK, WAIT_OTHER};
	struct run r;
	struct m_samples samples = {0};
	struct err e = {""};
	(void)state;
	begin(&r);
	for (size_t i = 0; i < sizeof(told); i++) {
		struct rec_sample s = {.kind = REC_SAMPLE,
				       .is_wait = 1,
				       .reason = told[i],
				       .tgid = (uint32_t)getpid(),
				       .tid = (uint32_t)getpid(),
				       .time_ns = ++r.time_ns,
				       .weight_ns = 1};
		pipeline_record(r.p, &s, sizeof(s));
	}
	pipeline_pass_end(r.p);
	struct rec_reader *reader = end(&r);
	assert_int_equal(rec_sample_blocks(reader), 1);
	assert_int_equal(rec_read_samples(reader, 0, &samples, &e), 0);
	assert_int_equal(samples.len, sizeof(told));
	for (size_t i = 0; i < sizeof(told); i++)
		assert_int_equal(samples.rows[i].reason, want[i]);
	m_samples_free(&samples);
	rec_close(reader);
}

/* At first a stack ends at a place without rules; then its caller is found. */
static void test_a_caller_that_is_guessed_later(void **state)
{
	static const uint64_t frames[] = {NOWHERE, NOWHERE | GUESSED_FRAME_BIT, NOWHERE,
					  NOWHERE | GUESSED_FRAME_BIT};
	struct run r;
	struct m_samples samples = {0};
	struct err e = {""};
	(void)state;
	begin(&r);
	for (uint64_t i = 0; i < 4; i++) {
		put_stack(&r, i + 1, &frames[i], 1);
		put_sample(&r, i + 1);
	}
	struct rec_reader *reader = end(&r);
	const struct rec_tables *t = rec_tables(reader);
	size_t seen = 0;
	for (size_t b = 0; b < rec_sample_blocks(reader); b++) {
		assert_int_equal(rec_read_samples(reader, b, &samples, &e), 0);
		for (size_t i = 0; i < samples.len; i++, seen++) {
			const struct m_stack *s = &t->stacks.data[samples.rows[i].stack];
			assert_int_equal(t->frames.data[s->frame].address, NOWHERE);
			assert_int_equal(t->frames.data[s->frame].guessed, seen % 2);
		}
		m_samples_free(&samples);
	}
	assert_int_equal(seen, 4);
	rec_close(reader);
}

/* Who listens to a session that keeps nothing: as many rows as two generations have. */
struct heard {
	struct heard_frame {
		uint32_t number;
		struct m_frame row;
	} * frames;
	struct heard_stack {
		uint32_t number;
		struct m_stack row;
	} * stacks;
	const struct stack_bounds *most;
	unsigned samples;
	uint64_t often[DEPTH]; /* the places of the stack that each sample has */
};

static void hear(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	struct heard *h = ctx;
	if (kind == ROW_FRAME)
		h->frames[number % (2 * h->most->frames)] =
			(struct heard_frame){number, *(const struct m_frame *)rows};
	else if (kind == ROW_STACK)
		h->stacks[number % (2 * h->most->nodes)] =
			(struct heard_stack){number, *(const struct m_stack *)rows};
	const struct m_sample *sample = rows;
	for (size_t i = 0; kind == ROW_SAMPLE && i < n; i++, h->samples++) {
		uint32_t stack = sample[i].stack;
		for (int d = 0; d < DEPTH; d++) {
			const struct heard_stack *s = &h->stacks[stack % (2 * h->most->nodes)];
			assert_int_equal(s->number, stack);
			const struct heard_frame *f =
				&h->frames[s->row.frame % (2 * h->most->frames)];
			assert_int_equal(f->number, s->row.frame);
			assert_int_equal(f->row.address, h->often[d]);
			stack = s->row.parent;
		}
		assert_int_equal(stack, 0);
	}
}

/* What runs for days and keeps nothing has no place that is one too many. */
static void test_places_without_end_are_forgotten(void **state)
{
	(void)state;
	struct run r = {0};
	struct rec_writer *w;
	struct err e = {""};
	struct heard h = {.most = pipeline_stack_bounds(true)};
	h.frames = xcalloc((size_t)2 * h.most->frames, sizeof(*h.frames));
	h.stacks = xcalloc((size_t)2 * h.most->nodes, sizeof(*h.stacks));
	places_of(OFTEN, h.often);
	assert_int_equal(rec_writer_open(&w, NULL, &(struct rec_writer_options){0}, &e), 0);
	r.p = pipeline_new(w, "/proc", NULL);
	pipeline_forget_ended(r.p);
	pipeline_listen(r.p, &(struct event_listener){.ctx = &h, .rows = hear});
	put_stack(&r, OFTEN, h.often, DEPTH);
	size_t before = 0;
	unsigned samples = 0;
	for (uint64_t i = 1; i <= 1200000; i++) {
		uint64_t frame = NOWHERE + ((uint64_t)PLACES << 5) + 16 * i;
		put_stack(&r, OFTEN + i, &frame, 1);
		if (i % A_PASS)
			continue;
		put_sample(&r, OFTEN);
		samples++;
		if (i == 200000)
			before = mallinfo2().uordblks + mallinfo2().hblkhd;
	}
	assert_true(mallinfo2().uordblks + mallinfo2().hblkhd < before + (8u << 20));
	assert_int_equal(h.samples, samples);
	assert_int_equal(pipeline_close(r.p, &e), 0);
	free(h.frames);
	free(h.stacks);
}

static void test_places_without_end(void **state)
{
	(void)state;
	struct run r;
	begin(&r);
	for (uint64_t i = 1; i <= 1200000; i++) {
		uint64_t frame = NOWHERE + 16 * i;
		put_stack(&r, i, &frame, 1);
		if (i % A_PASS == 0)
			put_sample(&r, i);
	}
	struct rec_reader *reader = end(&r);
	const struct rec_tables *t = rec_tables(reader);
	assert_in_range(t->frames.len, 1 << 20, (1 << 20) + 16);
	assert_in_range(lost(reader, "frame_full"), 1200000 - (1 << 20) - 16, 1200000 - (1 << 20));
	rec_close(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wait_without_stack),
		cmocka_unit_test(test_a_caller_that_is_guessed_later),
		cmocka_unit_test(test_stacks_without_end),
		cmocka_unit_test(test_places_without_end),
		cmocka_unit_test(test_places_without_end_are_forgotten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

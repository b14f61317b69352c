/* recording_feed.c - merges a file's blocks by time. */
#include "detect/recording_feed.h"

#include <stdlib.h>

/* What is left of the blocks of calls and of spans that are read at the moment. */
struct feed {
	const struct row_source *r;
	const struct recording_sink *sink;
	struct m_calls calls;
	struct m_gpu_spans spans;
	struct m_waits waits;
	size_t call_block, span_block, wait_block; /* that come next */
	size_t call, span, wait;		   /* rows that come next */
	uint64_t done, total;			   /* blocks */
};

static int by_end(const void *a, const void *b)
{
	const struct m_call *x = a, *y = b;
	uint64_t ex = x->start_ns + x->dur_ns, ey = y->start_ns + y->dur_ns;
	if (ex != ey)
		return ex < ey ? -1 : 1;
	/* Of calls that end together the inner one ended first. */
	if (x->thread == y->thread && x->depth != y->depth)
		return x->depth > y->depth ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static int by_start(const void *a, const void *b)
{
	const struct m_gpu_span *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static int by_wait_end(const void *a, const void *b)
{
	const struct m_wait *x = a, *y = b;
	return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

static void block_done(struct feed *f)
{
	f->done++;
	if (f->sink->progress)
		f->sink->progress(f->sink->ctx, f->done, f->total);
}

/* Reads on where all rows were handed out; false: nothing is left. */
static bool more_calls(struct feed *f)
{
	while (f->call >= f->calls.len) {
		if (!f->sink->call || f->call_block >= source_call_blocks(f->r))
			return false;
		f->call = 0;
		if (source_read_calls(f->r, f->call_block++, &f->calls, NULL))
			f->calls.len = 0;
		if (f->calls.len)
			qsort(f->calls.rows, f->calls.len, sizeof(*f->calls.rows), by_end);
		block_done(f);
	}
	return true;
}

static bool more_spans(struct feed *f)
{
	while (f->span >= f->spans.len) {
		if (!f->sink->gpu_span || f->span_block >= source_gpu_span_blocks(f->r))
			return false;
		f->span = 0;
		if (source_read_gpu_spans(f->r, f->span_block++, &f->spans, NULL))
			f->spans.len = 0;
		if (f->spans.len)
			qsort(f->spans.rows, f->spans.len, sizeof(*f->spans.rows), by_start);
		block_done(f);
	}
	return true;
}

static bool more_waits(struct feed *f)
{
	while (f->wait >= f->waits.len) {
		if (!f->sink->wait || f->wait_block >= source_wait_blocks(f->r))
			return false;
		f->wait = 0;
		if (source_read_waits(f->r, f->wait_block++, &f->waits, NULL))
			f->waits.len = 0;
		if (f->waits.len)
			qsort(f->waits.rows, f->waits.len, sizeof(*f->waits.rows), by_wait_end);
		block_done(f);
	}
	return true;
}

static bool wait_is_next(struct feed *f)
{
	if (!more_waits(f))
		return false;
	if (!more_calls(f))
		return true;
	const struct m_call *c = &f->calls.rows[f->call];
	return f->waits.rows[f->wait].end_ns < c->start_ns + c->dur_ns;
}

/* A span starts after its launch began, not always after it ended. */
static bool span_is_next(struct feed *f)
{
	if (!more_spans(f))
		return false;
	if (!more_calls(f))
		return true;
	const struct m_call *c = &f->calls.rows[f->call];
	return f->spans.rows[f->span].end_ns < c->start_ns + c->dur_ns;
}

static void feed_counters(struct feed *f)
{
	struct m_counters rows = {0};
	for (size_t b = 0; f->sink->counter && b < source_counter_blocks(f->r); b++) {
		if (!source_read_counters(f->r, b, &rows, NULL))
			for (size_t i = 0; i < rows.len; i++)
				f->sink->counter(f->sink->ctx, &rows.rows[i]);
		block_done(f);
	}
	m_counters_free(&rows);
}

static void feed_samples(struct feed *f)
{
	struct m_samples rows = {0};
	for (size_t b = 0; f->sink->sample && b < source_sample_blocks(f->r); b++) {
		if (!source_read_samples(f->r, b, &rows, NULL))
			for (size_t i = 0; i < rows.len; i++)
				f->sink->sample(f->sink->ctx, &rows.rows[i]);
		block_done(f);
	}
	m_samples_free(&rows);
}

void recording_feed(const struct row_source *r, const struct recording_sink *sink)
{
	struct feed f = {.r = r, .sink = sink};
	f.total = (sink->call ? source_call_blocks(r) : 0) +
		  (sink->gpu_span ? source_gpu_span_blocks(r) : 0) +
		  (sink->wait ? source_wait_blocks(r) : 0) +
		  (sink->counter ? source_counter_blocks(r) : 0) +
		  (sink->sample ? source_sample_blocks(r) : 0);
	feed_counters(&f);
	feed_samples(&f);
	while (true) {
		if (wait_is_next(&f))
			sink->wait(sink->ctx, &f.waits.rows[f.wait++]);
		else if (span_is_next(&f))
			sink->gpu_span(sink->ctx, &f.spans.rows[f.span++]);
		else if (more_calls(&f))
			sink->call(sink->ctx, &f.calls.rows[f.call++]);
		else
			break;
	}
	m_calls_free(&f.calls);
	m_gpu_spans_free(&f.spans);
	m_waits_free(&f.waits);
}

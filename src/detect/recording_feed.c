/* recording_feed.c - merges a file's blocks by time, which threads read ahead (rows_ahead.h). */
#include "detect/recording_feed.h"

#include "detect/rows_ahead.h"

/* What is left of the blocks of each kind that are handed out at the moment. */
struct feed {
	const struct recording_sink *sink;
	struct rows_ahead *ahead;
	const struct ahead_block *calls, *spans, *waits; /* NULL: there are no more */
	size_t call, span, wait;			 /* rows that come next */
	uint64_t done, total;				 /* blocks */
};

static void block_done(struct feed *f)
{
	f->done++;
	if (f->sink->progress)
		f->sink->progress(f->sink->ctx, f->done, f->total);
}

/* Goes on where all rows of a block were handed out. */
static const struct ahead_block *more(struct feed *f, const struct ahead_block *block,
				      enum row_kind kind, size_t *row)
{
	while (block && *row >= block->len) {
		block = rows_ahead_next(f->ahead, kind);
		*row = 0;
		if (block)
			block_done(f);
	}
	return block;
}

static const struct m_call *next_call(const struct feed *f)
{
	return ahead_row(f->calls, f->call, sizeof(struct m_call));
}

static const struct m_gpu_span *next_span(const struct feed *f)
{
	return ahead_row(f->spans, f->span, sizeof(struct m_gpu_span));
}

static const struct m_wait *next_wait(const struct feed *f)
{
	return ahead_row(f->waits, f->wait, sizeof(struct m_wait));
}

static void hand_out_call(struct feed *f)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): of kinds that it takes */
	f->sink->call(f->sink->ctx, next_call(f));
	f->call++;
	f->calls = more(f, f->calls, ROW_CALL, &f->call);
}

/* A span starts after its launch began, not always after it ended. */
static void hand_out_span(struct feed *f)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): of kinds that it takes */
	f->sink->gpu_span(f->sink->ctx, next_span(f));
	f->span++;
	f->spans = more(f, f->spans, ROW_GPU_SPAN, &f->span);
}

static void hand_out_wait(struct feed *f)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): of kinds that it takes */
	f->sink->wait(f->sink->ctx, next_wait(f));
	f->wait++;
	f->waits = more(f, f->waits, ROW_WAIT, &f->wait);
}

static bool is_before_call(const struct feed *f, uint64_t end_ns)
{
	const struct m_call *c = f->calls ? next_call(f) : NULL;
	return !c || end_ns < c->start_ns + c->dur_ns;
}

static void feed_counters(struct feed *f, const struct row_source *r)
{
	struct m_counters rows = {0};
	for (size_t b = 0; f->sink->counter && b < source_counter_blocks(r); b++) {
		if (!source_read_counters(r, b, &rows, NULL))
			for (size_t i = 0; i < rows.len; i++)
				f->sink->counter(f->sink->ctx, &rows.rows[i]);
		block_done(f);
	}
	m_counters_free(&rows);
}

static void feed_samples(struct feed *f, const struct row_source *r)
{
	struct m_samples rows = {0};
	for (size_t b = 0; f->sink->sample && b < source_sample_blocks(r); b++) {
		if (!source_read_samples(r, b, &rows, NULL))
			for (size_t i = 0; i < rows.len; i++)
				f->sink->sample(f->sink->ctx, &rows.rows[i]);
		block_done(f);
	}
	m_samples_free(&rows);
}

void recording_feed(const struct row_source *r, const struct recording_sink *sink)
{
	static const struct ahead_block before_first;
	uint32_t kinds = (sink->call ? 1u << ROW_CALL : 0) |
			 (sink->gpu_span ? 1u << ROW_GPU_SPAN : 0) |
			 (sink->wait ? 1u << ROW_WAIT : 0);
	struct feed f = {.sink = sink, .calls = &before_first, .spans = &before_first};
	f.waits = &before_first;
	f.total = (sink->call ? source_call_blocks(r) : 0) +
		  (sink->gpu_span ? source_gpu_span_blocks(r) : 0) +
		  (sink->wait ? source_wait_blocks(r) : 0) +
		  (sink->counter ? source_counter_blocks(r) : 0) +
		  (sink->sample ? source_sample_blocks(r) : 0);
	f.ahead = rows_ahead_new(r, kinds);
	feed_counters(&f, r);
	feed_samples(&f, r);
	f.calls = more(&f, f.calls, ROW_CALL, &f.call);
	f.spans = more(&f, f.spans, ROW_GPU_SPAN, &f.span);
	f.waits = more(&f, f.waits, ROW_WAIT, &f.wait);
	while (true) {
		if (f.waits && is_before_call(&f, next_wait(&f)->end_ns))
			hand_out_wait(&f);
		else if (f.spans && is_before_call(&f, next_span(&f)->end_ns))
			hand_out_span(&f);
		else if (f.calls)
			hand_out_call(&f);
		else
			break;
	}
	rows_ahead_free(f.ahead);
}

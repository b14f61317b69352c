/* export.c - drives a sink over a recording, block by block. */
#include "export/export.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "export/nest.h"
#include "export/output.h"

/* ---- the rows ---- */

struct export_run {
	const struct row_source *source;
	const struct sink_format *format;
	const struct export_options *options;
	struct sink *sink;
	struct output *output;
	struct nest *nest;
	uint64_t *activity; /* by thread: calls and samples; NULL where the format has no order */
	uint64_t done;
	uint64_t total;
	uint64_t skipped;
};

static void emit_span(void *ctx, const struct span *span)
{
	struct export_run *x = ctx;
	x->format->span(x->sink, span);
}

/* After each block: errors of the stream, and whether to go on. */
static int block_done(struct export_run *x, struct err *e)
{
	const struct export_options *o = x->options;
	x->done++;
	if (ferror(x->output->stream))
		return output_error(x->output, e);
	if (o && o->progress && !o->progress(o->progress_ctx, x->done, x->total))
		return err_set(e, EINTR, "stopped; nothing was written");
	return 0;
}

enum round { ROUND_PLAN, ROUND_WRITE };

static void count_activity(struct export_run *x, enum row_kind kind, const struct row_block *b)
{
	const struct m_call *calls = b->rows;
	const struct m_sample *samples = b->rows;
	for (size_t i = 0; x->activity && i < b->len; i++)
		x->activity[kind == ROW_CALL ? calls[i].thread : samples[i].thread]++;
}

static void put_calls(struct export_run *x, enum round round, size_t block,
		      const struct row_block *b)
{
	if (round == ROUND_PLAN)
		nest_plan(x->nest, block, b->rows, b->len);
	else if (x->nest)
		nest_block(x->nest, block, b->rows, b->len, emit_span, x);
	else
		x->format->calls(x->sink, b->rows, b->len);
}

static void put_block(struct export_run *x, enum row_kind kind, enum round round, size_t block,
		      const struct row_block *b)
{
	const struct sink_format *f = x->format;
	if (round == ROUND_PLAN)
		count_activity(x, kind, b);
	if (kind == ROW_CALL)
		put_calls(x, round, block, b);
	else if (kind == ROW_COUNTER)
		f->counters(x->sink, b->rows, b->len);
	else if (kind == ROW_SAMPLE && round == ROUND_PLAN)
		return;
	else if (kind == ROW_SAMPLE)
		f->samples(x->sink, b->rows, b->len);
	else if (kind == ROW_WAIT)
		f->waits(x->sink, b->rows, b->len);
	else if (kind == ROW_STALL)
		f->stalls(x->sink, b->rows, b->len);
	else if (kind == ROW_DISK_IO)
		f->disk_io(x->sink, b->rows, b->len);
	else
		f->gpu_spans(x->sink, b->rows, b->len, x->options ? x->options->demangle : NULL);
}

static size_t blocks_of(const struct export_run *x, enum row_kind kind)
{
	return x->source->blocks(x->source->ctx, kind);
}

static int put_blocks(struct export_run *x, enum row_kind kind, enum round round, struct err *e)
{
	struct row_block b = {0};
	int rc = 0;
	for (size_t i = 0; !rc && i < blocks_of(x, kind); i++) {
		errno = 0;
		if (!x->source->read(x->source->ctx, kind, i, &b, NULL))
			put_block(x, kind, round, i, &b);
		else
			x->skipped += round == ROUND_WRITE;
		rc = block_done(x, e);
	}
	row_block_free(&b);
	return rc;
}

/* What must be known of the rows before the first is written. */
static int plan_rows(struct export_run *x, struct err *e)
{
	struct track_order order;
	int rc = x->nest ? put_blocks(x, ROW_CALL, ROUND_PLAN, e) : 0;
	if (rc || !x->activity)
		return rc;
	if (x->format->samples)
		rc = put_blocks(x, ROW_SAMPLE, ROUND_PLAN, e);
	track_order_make(&order, x->source->tables, x->activity);
	x->format->order(x->sink, &order);
	track_order_free(&order);
	return rc;
}

static int write_rows(struct export_run *x, struct err *e)
{
	int rc = plan_rows(x, e);
	if (rc)
		return rc;
	x->format->tables(x->sink);
	if (x->options && x->options->counters_only)
		return put_blocks(x, ROW_COUNTER, ROUND_WRITE, e);
	if (x->options && x->options->steps && x->format->steps)
		x->format->steps(x->sink, x->options->steps);
	if (x->options && x->options->anomalies && x->format->anomalies)
		x->format->anomalies(x->sink, x->options->anomalies);
	if (x->options && x->options->incidents && x->format->incidents)
		x->format->incidents(x->sink, x->options->incidents);
	rc = put_blocks(x, ROW_CALL, ROUND_WRITE, e);
	if (!rc && x->nest)
		nest_finish(x->nest, emit_span, x);
	if (!rc)
		rc = put_blocks(x, ROW_COUNTER, ROUND_WRITE, e);
	if (!rc && x->format->samples)
		rc = put_blocks(x, ROW_SAMPLE, ROUND_WRITE, e);
	if (!rc && x->format->waits)
		rc = put_blocks(x, ROW_WAIT, ROUND_WRITE, e);
	if (!rc && x->format->stalls)
		rc = put_blocks(x, ROW_STALL, ROUND_WRITE, e);
	if (!rc && x->format->disk_io)
		rc = put_blocks(x, ROW_DISK_IO, ROUND_WRITE, e);
	if (!rc && x->format->gpu_spans)
		rc = put_blocks(x, ROW_GPU_SPAN, ROUND_WRITE, e);
	return rc;
}

int export_file(const struct row_source *s, const struct sink_format *format, const char *path,
		const struct export_options *options, uint64_t *ret_skipped, struct err *e)
{
	struct output output;
	int rc = output_open(&output, path, options ? &options->owner : NULL, e);
	if (rc)
		return rc;
	struct export_run x = {
		.source = s, .format = format, .options = options, .output = &output};
	x.total = blocks_of(&x, ROW_COUNTER);
	if (!options || !options->counters_only)
		x.total += blocks_of(&x, ROW_CALL) * (format->span ? 2 : 1) +
			   (format->samples ? blocks_of(&x, ROW_SAMPLE) : 0) *
				   (format->order ? 2 : 1) +
			   (format->waits ? blocks_of(&x, ROW_WAIT) : 0) +
			   (format->stalls ? blocks_of(&x, ROW_STALL) : 0) +
			   (format->disk_io ? blocks_of(&x, ROW_DISK_IO) : 0) +
			   (format->gpu_spans ? blocks_of(&x, ROW_GPU_SPAN) : 0);
	x.nest = format->span ? nest_new(s->tables) : NULL;
	if (format->order)
		x.activity = xcalloc(s->tables->threads.len + 1, sizeof(*x.activity));
	x.sink = format->open(output.stream, s->tables);
	if (options && options->no_formulas && format->no_formulas)
		format->no_formulas(x.sink);
	if (options && options->call_flows && options->call_flows->tails.len && format->call_flows)
		format->call_flows(x.sink, options->call_flows);
	if (options && options->verdict && format->verdict)
		format->verdict(x.sink, options->verdict);
	if (options && options->flows && format->work_flows)
		format->work_flows(x.sink, options->flows);
	rc = write_rows(&x, e);
	format->close(x.sink);
	nest_free(x.nest);
	free(x.activity);
	rc = output_close(&output, rc, e);
	if (!rc)
		*ret_skipped = x.skipped;
	return rc;
}

/* export.c - drives a sink over a recording, block by block. */
#include "export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "export/nest.h"
#include "export/output.h"

/* ---- the rows ---- */

struct export_run {
	const struct row_source *source;
	const struct sink_format *format;
	const struct export_options *options;
	struct sink *sink;
	struct output *output; /* NULL: the sink has a place of its own */
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

/* Where writing failed: the sentence. */
static int failure(const struct export_run *x, struct err *e)
{
	int code = x->format->failure ? x->format->failure(x->sink) : 0;
	if (code && !x->output)
		return err_set(e, code, "cannot keep the rows: %s", strerror(code));
	if (code)
		return output_file_error(&x->output->file, code, e);
	return x->output && ferror(x->output->stream) ? output_error(x->output, e) : 0;
}

/* After each block: errors of the stream, and whether to go on. */
static int block_done(struct export_run *x, struct err *e)
{
	const struct export_options *o = x->options;
	x->done++;
	int rc = failure(x, e);
	if (rc)
		return rc;
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
	if (f->rows)
		f->rows(x->sink, kind, b->rows, b->len);
	else if (kind == ROW_CALL)
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

#define X(number, NAME, stem, members) ROW_##NAME,
static const enum row_kind bulk_kinds[] = {ROW_BULKS(X)};
#undef X
#define BULK_KINDS (sizeof(bulk_kinds) / sizeof(*bulk_kinds))

static int write_every_kind(struct export_run *x, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < BULK_KINDS; i++)
		rc = put_blocks(x, bulk_kinds[i], ROUND_WRITE, e);
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
	if (x->format->rows)
		return write_every_kind(x, e);
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

static uint64_t blocks_to_put(const struct export_run *x)
{
	const struct sink_format *f = x->format;
	uint64_t n = 0;
	for (size_t i = 0; f->rows && i < BULK_KINDS; i++)
		n += blocks_of(x, bulk_kinds[i]);
	if (f->rows)
		return n;
	n = blocks_of(x, ROW_COUNTER);
	if (!x->options || !x->options->counters_only)
		n += blocks_of(x, ROW_CALL) * (f->span ? 2 : 1) +
		     (f->samples ? blocks_of(x, ROW_SAMPLE) : 0) * (f->order ? 2 : 1) +
		     (f->waits ? blocks_of(x, ROW_WAIT) : 0) +
		     (f->stalls ? blocks_of(x, ROW_STALL) : 0) +
		     (f->disk_io ? blocks_of(x, ROW_DISK_IO) : 0) +
		     (f->gpu_spans ? blocks_of(x, ROW_GPU_SPAN) : 0);
	return n;
}

static void tell_options(struct export_run *x)
{
	const struct sink_format *f = x->format;
	const struct export_options *o = x->options;
	if (!o)
		return;
	if (o->no_formulas && f->no_formulas)
		f->no_formulas(x->sink);
	if (o->demangle && f->demangler)
		f->demangler(x->sink, o->demangle);
	if (o->call_flows && o->call_flows->tails.len && f->call_flows)
		f->call_flows(x->sink, o->call_flows);
	if (o->verdict && f->verdict)
		f->verdict(x->sink, o->verdict);
	if (o->flows && f->work_flows)
		f->work_flows(x->sink, o->flows);
}

/* All but opening the sink. */
static int run_export(struct export_run *x, struct err *e)
{
	const struct sink_format *f = x->format;
	x->total = blocks_to_put(x);
	x->nest = f->span ? nest_new(x->source->tables) : NULL;
	if (f->order)
		x->activity = xcalloc(x->source->tables->threads.len + 1, sizeof(*x->activity));
	tell_options(x);
	int rc = failure(x, e);
	if (!rc)
		rc = write_rows(x, e);
	if (!rc && f->finish) {
		f->finish(x->sink);
		rc = failure(x, e);
	}
	f->close(x->sink);
	nest_free(x->nest);
	free(x->activity);
	return rc;
}

int export_into(const struct row_source *s, const struct sink_format *format, struct sink *sink,
		const struct export_options *options, uint64_t *ret_skipped, struct err *e)
{
	struct export_run x = {.source = s, .format = format, .options = options, .sink = sink};
	int rc = run_export(&x, e);
	*ret_skipped = x.skipped;
	return rc;
}

int export_file(const struct row_source *s, const struct sink_format *format, const char *path,
		const struct export_options *options, uint64_t *ret_skipped, struct err *e)
{
	struct output output;
	if (format->needs_file && output_file_is_direct(path))
		return err_set(e, ESPIPE, "cannot write '%s': %s is written to a file alone", path,
			       format->name);
	int rc = output_open(&output, path, options ? &options->owner : NULL, e);
	if (rc)
		return rc;
	struct export_run x = {
		.source = s, .format = format, .options = options, .output = &output};
	x.sink = format->open(output.stream, s->tables);
	rc = run_export(&x, e);
	rc = output_close(&output, rc, e);
	if (!rc)
		*ret_skipped = x.skipped;
	return rc;
}

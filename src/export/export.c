/* export.c - drives a sink over a recording, block by block. */
#include "export/export.h"

#include <errno.h>

#include "base/buffer.h"
#include "export/nest.h"
#include "export/output.h"

/* ---- the rows ---- */

struct export_run {
	const struct rec_reader *reader;
	const struct sink_format *format;
	const struct export_options *options;
	struct sink *sink;
	struct output *output;
	struct nest *nest;
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

static int call_blocks(struct export_run *x, enum round round, struct err *e)
{
	struct m_calls calls = {0};
	int rc = 0;
	for (size_t i = 0; !rc && i < rec_call_blocks(x->reader); i++) {
		errno = 0;
		if (rec_read_calls(x->reader, i, &calls, NULL) < 0)
			x->skipped += round == ROUND_WRITE;
		else if (round == ROUND_PLAN)
			nest_plan(x->nest, i, calls.rows, calls.len);
		else if (x->nest)
			nest_block(x->nest, i, calls.rows, calls.len, emit_span, x);
		else
			x->format->calls(x->sink, calls.rows, calls.len);
		rc = block_done(x, e);
	}
	m_calls_free(&calls);
	return rc;
}

static int counter_blocks(struct export_run *x, struct err *e)
{
	struct m_counters counters = {0};
	int rc = 0;
	for (size_t i = 0; !rc && i < rec_counter_blocks(x->reader); i++) {
		errno = 0;
		if (rec_read_counters(x->reader, i, &counters, NULL) < 0)
			x->skipped++;
		else
			x->format->counters(x->sink, counters.rows, counters.len);
		rc = block_done(x, e);
	}
	m_counters_free(&counters);
	return rc;
}

static int sample_blocks(struct export_run *x, struct err *e)
{
	struct m_samples samples = {0};
	int rc = 0;
	for (size_t i = 0; !rc && i < rec_sample_blocks(x->reader); i++) {
		errno = 0;
		if (rec_read_samples(x->reader, i, &samples, NULL) < 0)
			x->skipped++;
		else
			x->format->samples(x->sink, samples.rows, samples.len);
		rc = block_done(x, e);
	}
	m_samples_free(&samples);
	return rc;
}

static int gpu_span_blocks(struct export_run *x, struct err *e)
{
	struct m_gpu_spans spans = {0};
	int rc = 0;
	for (size_t i = 0; !rc && i < rec_gpu_span_blocks(x->reader); i++) {
		errno = 0;
		if (rec_read_gpu_spans(x->reader, i, &spans, NULL) < 0)
			x->skipped++;
		else
			x->format->gpu_spans(x->sink, spans.rows, spans.len,
					     x->options ? x->options->demangle : NULL);
		rc = block_done(x, e);
	}
	m_gpu_spans_free(&spans);
	return rc;
}

static int write_rows(struct export_run *x, struct err *e)
{
	int rc = 0;
	x->format->tables(x->sink);
	if (x->options && x->options->counters_only)
		return counter_blocks(x, e);
	if (x->options && x->options->steps && x->format->steps)
		x->format->steps(x->sink, x->options->steps);
	if (x->options && x->options->anomalies && x->format->anomalies)
		x->format->anomalies(x->sink, x->options->anomalies);
	if (x->nest)
		rc = call_blocks(x, ROUND_PLAN, e);
	if (!rc)
		rc = call_blocks(x, ROUND_WRITE, e);
	if (!rc && x->nest)
		nest_finish(x->nest, emit_span, x);
	if (!rc)
		rc = counter_blocks(x, e);
	if (!rc && x->format->samples)
		rc = sample_blocks(x, e);
	if (!rc && x->format->gpu_spans)
		rc = gpu_span_blocks(x, e);
	return rc;
}

int export_file(const struct rec_reader *r, const struct sink_format *format, const char *path,
		const struct export_options *options, uint64_t *ret_skipped, struct err *e)
{
	struct output output;
	int rc = output_open(&output, path, options ? &options->owner : NULL, e);
	if (rc)
		return rc;
	struct export_run x = {
		.reader = r, .format = format, .options = options, .output = &output};
	x.total = rec_call_blocks(r) * (format->span ? 2 : 1) + rec_counter_blocks(r) +
		  (format->samples ? rec_sample_blocks(r) : 0) +
		  (format->gpu_spans ? rec_gpu_span_blocks(r) : 0);
	if (options && options->counters_only)
		x.total = rec_counter_blocks(r);
	x.nest = format->span ? nest_new(rec_tables(r)) : NULL;
	x.sink = format->open(output.stream, rec_tables(r));
	if (options && options->no_formulas && format->no_formulas)
		format->no_formulas(x.sink);
	if (options && options->call_flows && options->call_flows->tails.len && format->call_flows)
		format->call_flows(x.sink, options->call_flows);
	if (options && options->flows && format->work_flows)
		format->work_flows(x.sink, options->flows);
	rc = write_rows(&x, e);
	format->close(x.sink);
	nest_free(x.nest);
	rc = output_close(&output, rc, e);
	if (!rc)
		*ret_skipped = x.skipped;
	return rc;
}

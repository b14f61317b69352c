/* export.c - drives a sink over a recording, block by block, into a file that appears
 * under its name only when it is whole. */
#include "export/export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "export/nest.h"

/* ---- the file ---- */

struct output {
	FILE *stream;
	const char *path;
	char *temporary; /* NULL: written to directly */
};

static int output_open(struct output *o, const char *path, struct err *e)
{
	struct stat st;
	*o = (struct output){.path = path};
	bool direct = !stat(path, &st) && !S_ISREG(st.st_mode);
	int fd;
	if (direct) {
		fd = open(path, O_WRONLY | O_CLOEXEC);
	} else {
		o->temporary = xasprintf("%s.tmp.XXXXXX", path);
		fd = mkstemp(o->temporary);
	}
	if (fd < 0) {
		int code = errno;
		free(o->temporary);
		return err_set(e, code, "cannot write '%s': %s", path, strerror(code));
	}
	if (!direct) { /* mkstemp makes files that only the owner can read */
		mode_t mask = umask(0);
		umask(mask);
		fchmod(fd, 0666 & ~mask);
	}
	o->stream = fdopen(fd, "w");
	if (!o->stream) {
		int code = errno;
		close(fd);
		return err_set(e, code, "cannot write '%s': %s", path, strerror(code));
	}
	setvbuf(o->stream, NULL, _IOFBF, 1 << 18);
	return 0;
}

static int output_error(const struct output *o, struct err *e)
{
	int code = errno ? errno : EIO;
	return err_set(e, code, "cannot write '%s': %s", o->path, strerror(code));
}

/* Closes, and names the file or takes it away. rc: how the writing went. */
static int output_close(struct output *o, int rc, struct err *e)
{
	errno = 0;
	if (o->stream && (ferror(o->stream) | fclose(o->stream)) && !rc)
		rc = output_error(o, e);
	if (o->temporary) {
		if (!rc && rename(o->temporary, o->path))
			rc = output_error(o, e);
		if (rc)
			unlink(o->temporary);
	}
	free(o->temporary);
	return rc;
}

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

static int write_rows(struct export_run *x, struct err *e)
{
	int rc = 0;
	x->format->tables(x->sink);
	if (x->nest)
		rc = call_blocks(x, ROUND_PLAN, e);
	if (!rc)
		rc = call_blocks(x, ROUND_WRITE, e);
	if (!rc && x->nest)
		nest_finish(x->nest, emit_span, x);
	if (!rc)
		rc = counter_blocks(x, e);
	return rc;
}

int export_file(const struct rec_reader *r, const struct sink_format *format, const char *path,
		const struct export_options *options, uint64_t *ret_skipped, struct err *e)
{
	struct output output;
	int rc = output_open(&output, path, e);
	if (rc)
		return rc;
	struct export_run x = {
		.reader = r, .format = format, .options = options, .output = &output};
	x.total = rec_call_blocks(r) * (format->span ? 2 : 1) + rec_counter_blocks(r);
	x.nest = format->span ? nest_new(rec_tables(r)) : NULL;
	x.sink = format->open(output.stream, rec_tables(r));
	rc = write_rows(&x, e);
	format->close(x.sink);
	nest_free(x.nest);
	rc = output_close(&output, rc, e);
	if (!rc)
		*ret_skipped = x.skipped;
	return rc;
}

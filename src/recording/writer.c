/* writer.c - appends blocks to a recording.
 *
 * Dictionary rows and strings wait in memory until the next flush and then go out before
 * the calls that use them. A block that cannot be written whole is cut off again, so the
 * file ends with a whole block at any time; the first error stays, and from then on
 * everything is dropped and counted. The file has its name from its first block on, or when
 * told; one that came to nothing is taken away. Does not start threads and syncs only when
 * asked to.
 *
 * A write over RLIMIT_FSIZE raises SIGXFSZ: a program that wants the error instead of the
 * signal ignores that signal. */
#include "base/clock.h"
#include "recording/recording.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include <linux/types.h>

#include "recording/calls.h"
#include "recording/column.h"
#include "recording/format.h"
#include "recording/schema.h"
#include "wire/event.h"

/* Kept free under max_bytes for the end block. */
#define END_BLOCK_ROOM 512

/* What a string takes beside its bytes: its row, its places in the index, malloc's own. */
#define STRING_ROOM 64

/* Arguments of a probe whose values are numbers of a table. */
struct arg_refs {
	uint8_t strings; /* bit per argument */
	uint8_t codes;
	int8_t name_arg;
};

/* Rows of one kind that wait for the next flush. */
struct pending {
	struct row_vec rows;
	VEC(uint32_t) numbers; /* of kinds that have them */
	/* of all that were ever put, and what is in the file */
	uint64_t put, written;
};

struct rec_writer {
	struct output_file file; /* fd negative: nothing is kept */
	bool named_when_told;
	bool useful; /* it has a block that tells of the run */
	bool ended;
	uint64_t max_bytes;
	ZSTD_CCtx *cctx;
	struct strtab strings;
	uint32_t strings_written;
	uint64_t string_bytes, max_string_bytes;
	uint64_t strings_over;
	uint32_t next[ROW_KINDS];  /* number of the next row, of kinds that have them */
	uint32_t unknown_code;	   /* number + 1 of the row that stands for a bad code number */
	uint32_t unknown_frame;	   /* likewise */
	VEC(struct arg_refs) refs; /* by probe */

	struct pending pending[ROW_KINDS];
	struct m_call *calls; /* room for REC_CALLS_PER_BLOCK */
	size_t ncalls;

	struct calls_encoder encoder;
	struct buf raw;
	struct buf block;
	uint32_t sequence;
	uint64_t calls_accepted;
	uint64_t calls_dropped;
	uint64_t bytes;
	int error; /* negative errno, once; then all is dropped */
	struct err error_text;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return timespec_ns(&ts);
}

/* ---- the file ---- */

static int write_at(int fd, const uint8_t *p, size_t n, uint64_t offset)
{
	while (n) {
		ssize_t written = pwrite(fd, p, n, (off_t)offset);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written ? -errno : -ENOSPC;
		p += written;
		n -= (size_t)written;
		offset += (uint64_t)written;
	}
	return 0;
}

/* Keeps the first error. */
static int fail(struct rec_writer *w, int rc, const char *what)
{
	if (!w->error) {
		w->error = rc;
		err_set(&w->error_text, -rc, "cannot write '%s': %s", w->file.path, what);
	}
	return rc;
}

/* Appends w->block to the file, or leaves the file as it was. */
static int append(struct rec_writer *w)
{
	int rc = write_at(w->file.fd, w->block.data, w->block.len, w->bytes);
	if (!rc) {
		w->bytes += w->block.len;
		return 0;
	}
	/* When this fails too, the reader finds a torn last block and says so. */
	if (ftruncate(w->file.fd, (off_t)w->bytes))
		return rc;
	return rc;
}

static bool tells_of_the_run(uint8_t type)
{
	const struct row_kind_info *k = row_kind_info(type);
	return k && (k->keeping == ROWS_BULK || type == ROW_HIST || type == ROW_EVENT ||
		     type == ROW_ANOMALY || type == ROW_INCIDENT);
}

static int name_file(struct rec_writer *w)
{
	struct err e = {0};
	int rc = output_file_name(&w->file, &e);
	if (rc && !w->error) {
		w->error = rc;
		w->error_text = e;
	}
	return rc;
}

/* Writes w->raw as one block. END blocks may use the room that is kept for them. */
static int write_block(struct rec_writer *w, struct block_header *h)
{
	struct err e = {0};
	w->block.len = 0;
	h->sequence = w->sequence;
	int rc = block_pack(&w->block, h, &w->raw, w->cctx, &e);
	if (rc)
		return fail(w, rc, e.msg);
	uint64_t room = h->type == BLOCK_END ? 0 : END_BLOCK_ROOM;
	if (w->max_bytes && w->bytes + w->block.len + room > w->max_bytes)
		return fail(w, -EFBIG, "it has reached the size limit that was set for it");
	rc = append(w);
	if (rc)
		return fail(w, rc, strerror(-rc));
	w->sequence++;
	w->useful |= tells_of_the_run(h->type);
	return w->named_when_told ? 0 : name_file(w);
}

/* ---- tables ---- */

static uint64_t time_at(const uint8_t *row, size_t offset)
{
	uint64_t ns;
	memcpy(&ns, row + offset, sizeof(ns));
	return ns;
}

/* The times of the rows of a bulk table go into the block's header. */
static void set_times(struct block_header *h, const struct row_kind_info *k, const uint8_t *rows,
		      size_t n)
{
	if (k->keeping != ROWS_BULK)
		return;
	h->first_ns = UINT64_MAX;
	for (size_t i = 0; i < n; i++, rows += k->row_bytes) {
		uint64_t first_ns = time_at(rows, k->first_ns), last_ns = time_at(rows, k->last_ns);
		h->first_ns = first_ns < h->first_ns ? first_ns : h->first_ns;
		h->last_ns = last_ns > h->last_ns ? last_ns : h->last_ns;
	}
}

static int write_rows(struct rec_writer *w, uint8_t type, const void *rows, const uint32_t *numbers,
		      size_t n)
{
	const struct row_kind_info *k = schema_of(type);
	size_t max = schema_most_rows(k);
	const uint8_t *p = rows;
	max = max < REC_ROWS_PER_BLOCK ? max : REC_ROWS_PER_BLOCK;
	while (n) {
		size_t now = n < max ? n : max;
		struct block_header h = {.type = type, .rows = (uint32_t)now};
		set_times(&h, k, p, now);
		w->raw.len = 0;
		rows_encode(&w->raw, k, p, numbers, now);
		int rc = write_block(w, &h);
		if (rc)
			return rc;
		w->pending[type].written += now;
		p += now * k->row_bytes;
		numbers = numbers ? numbers + now : NULL;
		n -= now;
	}
	return 0;
}

/* One block of the strings from `from` on; returns how many fit, or negative errno. */
static int write_some_strings(struct rec_writer *w, uint32_t from)
{
	VEC(struct string_row) rows = {0};
	struct buf bytes = {0};
	uint32_t total = (uint32_t)strtab_len(&w->strings);
	for (uint32_t id = from; id < total; id++) {
		size_t len;
		const char *s = strtab_get(&w->strings, id, &len);
		if (rows.len == REC_ROWS_PER_BLOCK || bytes.len > 4 * REC_MAX_STRING_BYTES)
			break;
		*vec_push(&rows) = (struct string_row){id, (uint32_t)len};
		buf_add(&bytes, s, len);
	}
	struct block_header h = {.type = BLOCK_STRINGS, .rows = (uint32_t)rows.len};
	w->raw.len = 0;
	rows_encode(&w->raw, schema_of(BLOCK_STRINGS), rows.data, NULL, rows.len);
	column_put_bytes(&w->raw, "bytes", bytes.data, bytes.len);
	int rc = write_block(w, &h);
	int n = rc ? rc : (int)rows.len;
	vec_free(&rows);
	buf_free(&bytes);
	return n;
}

static int write_strings(struct rec_writer *w)
{
	uint32_t total = (uint32_t)strtab_len(&w->strings);
	if (!w->strings_written)
		w->strings_written = 1; /* "" is known to all */
	while (w->strings_written < total) {
		int n = write_some_strings(w, w->strings_written);
		if (n < 0)
			return n;
		w->strings_written += (uint32_t)n;
	}
	return 0;
}

static int write_kind(struct rec_writer *w, enum row_kind kind)
{
	struct pending *p = &w->pending[kind];
	int rc = write_rows(w, (uint8_t)kind, p->rows.data, p->numbers.data, p->rows.len);
	p->rows.len = p->numbers.len = 0;
	return rc;
}

/* Dictionaries first: what comes later may refer to them. */
static int write_tables(struct rec_writer *w)
{
	int rc = write_strings(w);
#define X(number, NAME, stem, members)                                                             \
	if (!rc && (number) != ROW_CALL)                                                           \
		rc = write_kind(w, ROW_##NAME);
	ROW_TABLES(X)
	ROW_BULKS(X)
#undef X
	return rc;
}

static void forget_pending(struct rec_writer *w)
{
	for (unsigned kind = 0; kind < ROW_KINDS; kind++)
		w->pending[kind].rows.len = w->pending[kind].numbers.len = 0;
}

/* Writes what is pending; calls that could not be written become dropped. */
static int write_pending(struct rec_writer *w)
{
	if (w->file.fd < 0) {
		forget_pending(w);
		return 0;
	}
	int rc = w->error ? w->error : write_tables(w);
	size_t n = w->ncalls;
	if (!rc && n) {
		struct block_header h = {.type = ROW_CALL, .rows = (uint32_t)n};
		w->raw.len = 0;
		calls_encode(&w->encoder, &w->raw, w->calls, n, w->next[ROW_THREAD],
			     w->next[ROW_PROBE], &h.first_ns, &h.last_ns);
		rc = write_block(w, &h);
	}
	if (rc) {
		w->calls_accepted -= n;
		w->calls_dropped += n;
	}
	w->ncalls = 0;
	return rc;
}

/* ---- the interface ---- */

static int write_header(const struct output_file *file, struct err *e)
{
	uint8_t header[REC_FILE_HEADER_BYTES];
	struct stat st;
	if (fstat(file->fd, &st) || !S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "cannot record into '%s': it is not a regular file",
			       file->path);
	file_header_encode(header, clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC));
	int rc = write_at(file->fd, header, sizeof(header), 0);
	return rc ? output_file_error(file, -rc, e) : 0;
}

static struct rec_writer *writer_new(const struct output_file *file,
				     const struct rec_writer_options *opts)
{
	struct rec_writer *w = xcalloc(1, sizeof(*w));
	w->file = *file;
	w->named_when_told = opts->named_when_told;
	w->max_bytes = opts->max_bytes;
	w->max_string_bytes = opts->max_string_bytes;
	w->next[ROW_STACK] = 1; /* that of no stack, 0, is not written */
	strtab_add(&w->strings, "", 0);
	return w;
}

int rec_writer_open(struct rec_writer **ret, const char *path,
		    const struct rec_writer_options *opts, struct err *e)
{
	struct rec_writer_options defaults = {0};
	struct output_file file = {.fd = -1, .folder_fd = -1};
	opts = opts ? opts : &defaults;
	if (!path) {
		*ret = writer_new(&file, opts);
		return 0;
	}
	int rc = output_file_create(&file, path, &opts->owner, e);
	if (rc)
		return rc;
	rc = write_header(&file, e);
	if (rc) {
		output_file_close(&file, NULL);
		return rc;
	}
	struct rec_writer *w = writer_new(&file, opts);
	w->bytes = REC_FILE_HEADER_BYTES;
	w->cctx = ZSTD_createCCtx();
	w->calls = xrealloc(NULL, REC_CALLS_PER_BLOCK, sizeof(*w->calls));
	if (w->cctx)
		ZSTD_CCtx_setParameter(w->cctx, ZSTD_c_compressionLevel,
				       opts->zstd_level ? opts->zstd_level : 1);
	if (!w->cctx) {
		rec_writer_close(w, false, NULL);
		return err_set(e, ENOMEM, "cannot write '%s': no memory to compress", path);
	}
	*ret = w;
	return 0;
}

uint32_t rec_string(struct rec_writer *w, const char *s, size_t len)
{
	uint32_t known;
	len = len < REC_MAX_STRING_BYTES ? len : REC_MAX_STRING_BYTES;
	if (!w->max_string_bytes)
		return strtab_add(&w->strings, s, len);
	if (strtab_find(&w->strings, s, len, &known))
		return known;
	if (w->string_bytes + len + STRING_ROOM > w->max_string_bytes) {
		w->strings_over++;
		return strtab_add_z(&w->strings, "(more)");
	}
	w->string_bytes += len + STRING_ROOM;
	return strtab_add(&w->strings, s, len);
}

uint32_t rec_string_z(struct rec_writer *w, const char *s)
{
	return s ? rec_string(w, s, strlen(s)) : 0;
}

const char *rec_string_get(const struct rec_writer *w, uint32_t number)
{
	return strtab_get(&w->strings, number, NULL);
}

uint32_t rec_string_count(const struct rec_writer *w)
{
	return (uint32_t)strtab_len(&w->strings);
}

/* Rows of a kind that takes long to fill are not held back until then. */
static void write_when_full(struct rec_writer *w, enum row_kind kind)
{
	if (w->pending[kind].rows.len >= REC_ROWS_PER_BLOCK)
		write_pending(w); /* the error stays in w and is told by rec_flush */
}

static uint8_t *put_row(struct rec_writer *w, enum row_kind kind, const void *row)
{
	uint32_t row_bytes = row_kind_info(kind)->row_bytes;
	uint8_t *to = row_vec_add(&w->pending[kind].rows, row_bytes, 1);
	memcpy(to, row, row_bytes);
	return to;
}

static void note_refs(struct rec_writer *w, const struct m_probe *row)
{
	struct arg_refs refs = {.name_arg = row->name_arg};
	for (size_t k = 0; k < MODEL_MAX_ARGS && k < row->nargs; k++) {
		if (row->arg_types[k] == ARG_TYPE_STRING)
			refs.strings |= (uint8_t)(1u << k);
		else if (row->arg_types[k] == ARG_TYPE_CODE)
			refs.codes |= (uint8_t)(1u << k);
	}
	*vec_push(&w->refs) = refs;
}

/* The number + 1 of a row that stands for what is not there. */
static uint32_t unknown_row(struct rec_writer *w, enum row_kind kind, uint32_t *known)
{
	uint32_t name = rec_string_z(w, "(unknown)");
	if (!*known && kind == ROW_CODE)
		*known = rec_add_code(w, &(struct m_code){.name = name}) + 1;
	else if (!*known)
		*known = rec_add_frame(w, &(struct m_frame){.name = name}) + 1;
	return *known - 1;
}

static void fix_stack(struct rec_writer *w, struct m_stack *s)
{
	if (s->parent >= w->next[ROW_STACK])
		s->parent = 0;
	if (s->frame >= w->next[ROW_FRAME])
		s->frame = unknown_row(w, ROW_FRAME, &w->unknown_frame);
}

/* Without a name a number of bad code and string numbers would be somebody else's. */
static void fix_hist(struct rec_writer *w, struct m_hist *h)
{
	struct arg_refs refs = w->refs.data[h->probe];
	if (refs.name_arg < 0 || refs.name_arg >= MODEL_MAX_ARGS)
		return;
	if (refs.strings >> refs.name_arg & 1 && h->name >= strtab_len(&w->strings))
		h->name = 0;
	else if (refs.codes >> refs.name_arg & 1 && h->name >= w->next[ROW_CODE])
		h->name = unknown_row(w, ROW_CODE, &w->unknown_code);
}

void rec_update(struct rec_writer *w, enum row_kind kind, uint32_t number, const void *row)
{
	if (w->error)
		return;
	put_row(w, kind, row);
	*vec_push(&w->pending[kind].numbers) = number;
	write_when_full(w, kind);
}

uint32_t rec_add(struct rec_writer *w, enum row_kind kind, const void *row)
{
	struct m_stack stack;
	if (kind == ROW_PROBE)
		note_refs(w, row);
	if (kind == ROW_STACK) {
		stack = *(const struct m_stack *)row;
		fix_stack(w, &stack);
		row = &stack;
	}
	uint32_t number = w->next[kind]++;
	rec_update(w, kind, number, row);
	return number;
}

/* Makes references good; false: the row is left out. */
static bool is_known(const struct rec_writer *w, enum row_kind kind, const void *row)
{
	if (kind == ROW_SAMPLE)
		return ((const struct m_sample *)row)->thread < w->next[ROW_THREAD];
	if (kind == ROW_WAIT)
		return ((const struct m_wait *)row)->thread < w->next[ROW_THREAD];
	if (kind == ROW_WAIT_TOTAL)
		return ((const struct m_wait_total *)row)->thread < w->next[ROW_THREAD];
	if (kind == ROW_STALL)
		return ((const struct m_stall *)row)->thread < w->next[ROW_THREAD];
	if (kind == ROW_STALL_TOTAL)
		return ((const struct m_stall_total *)row)->thread < w->next[ROW_THREAD];
	if (kind == ROW_COUNTER)
		return ((const struct m_counter *)row)->metric < w->next[ROW_METRIC];
	if (kind == ROW_HIST)
		return ((const struct m_hist *)row)->probe < w->next[ROW_PROBE];
	if (kind == ROW_COVERAGE)
		return ((const struct m_coverage *)row)->probe < w->next[ROW_PROBE];
	return true;
}

void rec_put(struct rec_writer *w, enum row_kind kind, const void *row)
{
	w->pending[kind].put++;
	if (w->error || !is_known(w, kind, row))
		return;
	uint8_t *put = put_row(w, kind, row);
	if (kind == ROW_SAMPLE && ((struct m_sample *)put)->stack >= w->next[ROW_STACK])
		((struct m_sample *)put)->stack = 0;
	if (kind == ROW_HIST) {
		struct m_hist h = *(const struct m_hist *)row;
		fix_hist(w, &h);
		memcpy(put, &h, sizeof(h));
	}
	write_when_full(w, kind);
}

void rec_put_meta(struct rec_writer *w, const char *key, const char *value)
{
	rec_put(w, ROW_META, &(struct m_meta){rec_string_z(w, key), rec_string_z(w, value)});
}

/* Readers rely on string and code numbers being in range: one that is not becomes "" or
 * "(unknown)" and is marked as an argument that could not be read. */
static void check_refs(struct rec_writer *w, struct m_call *c, struct arg_refs refs)
{
	for (unsigned k = 0; k < c->nargs; k++) {
		if (refs.strings >> k & 1 && c->args[k] >= strtab_len(&w->strings)) {
			c->args[k] = 0;
			c->flags |= CALL_ARG_FAULT;
		} else if (refs.codes >> k & 1 && c->args[k] >= w->next[ROW_CODE]) {
			c->args[k] = unknown_row(w, ROW_CODE, &w->unknown_code);
			c->flags |= CALL_ARG_FAULT;
		}
	}
}

void rec_put_calls(struct rec_writer *w, const struct m_call *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct m_call *row = &rows[i];
		if (w->error || row->probe >= w->next[ROW_PROBE] ||
		    row->thread >= w->next[ROW_THREAD]) {
			w->calls_dropped++;
			continue;
		}
		w->calls_accepted++;
		if (w->file.fd < 0)
			continue;
		struct m_call *c = &w->calls[w->ncalls++];
		*c = *row;
		if (c->nargs > MODEL_MAX_ARGS)
			c->nargs = MODEL_MAX_ARGS;
		if (c->stack >= w->next[ROW_STACK])
			c->stack = 0;
		struct arg_refs refs = w->refs.data[c->probe];
		if (refs.strings | refs.codes)
			check_refs(w, c, refs);
		if (w->ncalls == REC_CALLS_PER_BLOCK)
			write_pending(w); /* the error stays in w and is told by rec_flush */
	}
}

int rec_flush(struct rec_writer *w, struct err *e)
{
	int rc = write_pending(w);
	if (rc && e)
		*e = w->error_text;
	return rc;
}

int rec_writer_name(struct rec_writer *w, struct err *e)
{
	int rc = w->error ? w->error : name_file(w);
	if (rc && e)
		*e = w->error_text;
	return rc;
}

void rec_writer_sync(const struct rec_writer *w)
{
	if (w->file.fd >= 0)
		fdatasync(w->file.fd);
}

/* What cannot come into the file any more. */
static uint64_t dropped(const struct rec_writer *w, enum row_kind kind)
{
	return w->error ? w->pending[kind].put - w->pending[kind].written : 0;
}

void rec_writer_stats(const struct rec_writer *w, struct rec_writer_stats *ret)
{
	*ret = (struct rec_writer_stats){
		.calls = w->calls_accepted,
		.calls_dropped = w->calls_dropped,
		.samples_dropped = dropped(w, ROW_SAMPLE),
		.gpu_spans_dropped = dropped(w, ROW_GPU_SPAN),
		.bytes = w->bytes,
		.strings_over = w->strings_over,
	};
	ret->samples = w->pending[ROW_SAMPLE].put - ret->samples_dropped;
	ret->gpu_spans = w->pending[ROW_GPU_SPAN].put - ret->gpu_spans_dropped;
}

static void writer_free(struct rec_writer *w)
{
	ZSTD_freeCCtx(w->cctx);
	strtab_free(&w->strings);
	vec_free(&w->refs);
	for (unsigned kind = 0; kind < ROW_KINDS; kind++) {
		free(w->pending[kind].rows.data);
		vec_free(&w->pending[kind].numbers);
	}
	calls_encoder_free(&w->encoder);
	buf_free(&w->raw);
	buf_free(&w->block);
	free(w->calls);
	free(w);
}

/* Also after an error: cutting off the block that failed mostly left room for this small one, and
 * it says how many calls were dropped. */
static void write_end(struct rec_writer *w)
{
	struct end_row end = {w->calls_accepted, w->calls_dropped, w->pending[ROW_COUNTER].written,
			      clock_ns(CLOCK_MONOTONIC)};
	write_rows(w, BLOCK_END, &end, NULL, 1);
}

/* A file that failed and tells nothing of the run is none. */
static void take_away(struct rec_writer *w)
{
	w->calls_dropped += w->calls_accepted;
	w->calls_accepted = w->bytes = 0;
	w->pending[ROW_SAMPLE].written = w->pending[ROW_GPU_SPAN].written = 0;
	output_file_discard(&w->file);
}

int rec_writer_end(struct rec_writer *w, bool sync, struct err *e)
{
	if (w->ended || w->file.fd < 0)
		return w->error;
	w->ended = true;
	write_pending(w);
	write_end(w);
	if (sync && fsync(w->file.fd))
		fail(w, -errno, strerror(errno));
	if (w->error && e)
		*e = w->error_text;
	if (w->error && !w->useful)
		take_away(w);
	return w->error;
}

int rec_writer_close(struct rec_writer *w, bool sync, struct err *e)
{
	int rc = w->cctx ? rec_writer_end(w, sync, e) : 0;
	int closed = output_file_close(&w->file, rc ? NULL : e);
	writer_free(w);
	return rc ? rc : closed;
}

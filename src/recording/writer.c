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

/* Rows of one kind: what was put, and what is in the file. */
struct row_count {
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
	uint32_t nprobes;
	uint32_t nthreads;
	uint32_t ncodes;
	uint32_t nframes;
	uint32_t nstacks;	   /* the next number: that of no stack, 0, is not written */
	uint32_t unknown_code;	   /* number + 1 of the row that stands for a bad code number */
	uint32_t unknown_frame;	   /* likewise */
	VEC(struct arg_refs) refs; /* by probe */

	/* waiting for the next flush */
	VEC(struct indexed_probe) probes;
	VEC(struct indexed_thread) threads;
	VEC(struct indexed_code) codes;
	VEC(struct m_process) processes;
	VEC(struct m_map) maps;
	VEC(struct m_meta) metas;
	VEC(struct m_note) notes;
	VEC(struct m_window) windows;
	VEC(struct m_loss) losses;
	VEC(struct m_hist) hists;
	VEC(struct m_counter) counters;
	VEC(struct m_enum) enums;
	VEC(struct m_gpu) gpus;
	VEC(struct m_comm) comms;
	VEC(struct m_connection) connections;
	VEC(struct m_event) events;
	VEC(struct m_source) sources;
	VEC(struct indexed_frame) frames;
	VEC(struct indexed_stack) stacks;
	VEC(struct m_sample) samples;
	VEC(struct m_gpu_span) gpu_spans;
	struct m_call *calls; /* room for REC_CALLS_PER_BLOCK */
	size_t ncalls;

	struct calls_encoder encoder;
	struct buf raw;
	struct buf block;
	uint32_t sequence;
	uint64_t counters_written;
	struct row_count sample_rows, gpu_span_rows;
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
	return type == ROW_CALL || type == ROW_SAMPLE || type == ROW_GPU_SPAN ||
	       type == ROW_COUNTER || type == ROW_HIST || type == ROW_EVENT;
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

static void widen(struct block_header *h, uint64_t first_ns, uint64_t last_ns)
{
	h->first_ns = first_ns < h->first_ns ? first_ns : h->first_ns;
	h->last_ns = last_ns > h->last_ns ? last_ns : h->last_ns;
}

/* The times of the rows of a bulk table go into the block's header. */
static void set_times(struct block_header *h, const void *rows, size_t n)
{
	const struct m_counter *counters = rows;
	const struct m_sample *samples = rows;
	const struct m_gpu_span *spans = rows;
	if (h->type != ROW_COUNTER && h->type != ROW_SAMPLE && h->type != ROW_GPU_SPAN)
		return;
	h->first_ns = UINT64_MAX;
	for (size_t i = 0; i < n; i++)
		if (h->type == ROW_COUNTER)
			widen(h, counters[i].time_ns, counters[i].time_ns);
		else if (h->type == ROW_SAMPLE)
			widen(h, samples[i].time_ns, samples[i].time_ns);
		else
			widen(h, spans[i].start_ns, spans[i].end_ns);
}

static void count_written(struct rec_writer *w, uint8_t type, size_t rows)
{
	if (type == ROW_COUNTER)
		w->counters_written += rows;
	else if (type == ROW_SAMPLE)
		w->sample_rows.written += rows;
	else if (type == ROW_GPU_SPAN)
		w->gpu_span_rows.written += rows;
}

static int write_table(struct rec_writer *w, uint8_t type, const void *rows, size_t n)
{
	const struct table *t = table_of(type);
	size_t max = t->max_rows < REC_ROWS_PER_BLOCK ? t->max_rows : REC_ROWS_PER_BLOCK;
	const uint8_t *p = rows;
	while (n) {
		size_t now = n < max ? n : max;
		struct block_header h = {.type = type, .rows = (uint32_t)now};
		set_times(&h, p, now);
		w->raw.len = 0;
		table_encode(&w->raw, t, p, now);
		int rc = write_block(w, &h);
		if (rc)
			return rc;
		count_written(w, type, now);
		p += now * t->row_bytes;
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
	table_encode(&w->raw, table_of(BLOCK_STRINGS), rows.data, rows.len);
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

#define WRITE_PENDING(w, type, vec)                                                                \
	do {                                                                                       \
		int rc_ = write_table(w, type, (vec)->data, (vec)->len);                           \
		(vec)->len = 0;                                                                    \
		if (rc_)                                                                           \
			return rc_;                                                                \
	} while (0)

/* Dictionaries first: what comes later may refer to them. */
static int write_tables(struct rec_writer *w)
{
	int rc = write_strings(w);
	if (rc)
		return rc;
	WRITE_PENDING(w, ROW_META, &w->metas);
	WRITE_PENDING(w, ROW_SOURCE, &w->sources);
	WRITE_PENDING(w, ROW_PROCESS, &w->processes);
	WRITE_PENDING(w, ROW_THREAD, &w->threads);
	WRITE_PENDING(w, ROW_PROBE, &w->probes);
	WRITE_PENDING(w, ROW_CODE, &w->codes);
	WRITE_PENDING(w, ROW_FRAME, &w->frames);
	WRITE_PENDING(w, ROW_STACK, &w->stacks);
	WRITE_PENDING(w, ROW_MAP, &w->maps);
	WRITE_PENDING(w, ROW_NOTE, &w->notes);
	WRITE_PENDING(w, ROW_WINDOW, &w->windows);
	WRITE_PENDING(w, ROW_LOSS, &w->losses);
	WRITE_PENDING(w, ROW_HIST, &w->hists);
	WRITE_PENDING(w, ROW_COUNTER, &w->counters);
	WRITE_PENDING(w, ROW_ENUM, &w->enums);
	WRITE_PENDING(w, ROW_GPU, &w->gpus);
	WRITE_PENDING(w, ROW_COMM, &w->comms);
	WRITE_PENDING(w, ROW_CONNECTION, &w->connections);
	WRITE_PENDING(w, ROW_EVENT, &w->events);
	WRITE_PENDING(w, ROW_SAMPLE, &w->samples);
	WRITE_PENDING(w, ROW_GPU_SPAN, &w->gpu_spans);
	return 0;
}

static void forget_pending(struct rec_writer *w)
{
	w->metas.len = w->sources.len = w->processes.len = w->threads.len = w->probes.len = 0;
	w->codes.len = w->frames.len = w->stacks.len = w->maps.len = w->notes.len = 0;
	w->windows.len = w->losses.len = w->hists.len = w->counters.len = w->enums.len = 0;
	w->gpus.len = w->comms.len = w->connections.len = w->events.len = w->samples.len = 0;
	w->gpu_spans.len = 0;
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
		calls_encode(&w->encoder, &w->raw, w->calls, n, w->nthreads, w->nprobes,
			     &h.first_ns, &h.last_ns);
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
	w->nstacks = 1;
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

uint32_t rec_put_probe(struct rec_writer *w, const struct m_probe *row)
{
	struct arg_refs refs = {.name_arg = row->name_arg};
	for (size_t k = 0; k < MODEL_MAX_ARGS && k < row->nargs; k++) {
		if (row->arg_types[k] == ARG_TYPE_STRING)
			refs.strings |= (uint8_t)(1u << k);
		else if (row->arg_types[k] == ARG_TYPE_CODE)
			refs.codes |= (uint8_t)(1u << k);
	}
	*vec_push(&w->refs) = refs;
	if (!w->error)
		*vec_push(&w->probes) = (struct indexed_probe){*row, w->nprobes};
	return w->nprobes++;
}

uint32_t rec_put_thread(struct rec_writer *w, const struct m_thread *row)
{
	rec_update_thread(w, w->nthreads, row);
	return w->nthreads++;
}

void rec_update_thread(struct rec_writer *w, uint32_t index, const struct m_thread *row)
{
	if (!w->error)
		*vec_push(&w->threads) = (struct indexed_thread){*row, index};
}

uint32_t rec_put_code(struct rec_writer *w, const struct m_code *row)
{
	if (!w->error)
		*vec_push(&w->codes) = (struct indexed_code){*row, w->ncodes};
	return w->ncodes++;
}

void rec_update_frame(struct rec_writer *w, uint32_t index, const struct m_frame *row)
{
	if (w->error)
		return;
	*vec_push(&w->frames) = (struct indexed_frame){*row, index};
	if (w->frames.len >= REC_ROWS_PER_BLOCK)
		write_pending(w); /* the error stays in w and is told by rec_flush */
}

uint32_t rec_put_frame(struct rec_writer *w, const struct m_frame *row)
{
	uint32_t index = w->nframes++;
	rec_update_frame(w, index, row);
	return index;
}

static uint32_t unknown_frame(struct rec_writer *w)
{
	if (!w->unknown_frame) {
		struct m_frame row = {.name = rec_string_z(w, "(unknown)")};
		w->unknown_frame = rec_put_frame(w, &row) + 1;
	}
	return w->unknown_frame - 1;
}

uint32_t rec_put_stack(struct rec_writer *w, const struct m_stack *row)
{
	struct indexed_stack s = {*row, w->nstacks};
	if (s.row.parent >= w->nstacks)
		s.row.parent = 0;
	if (s.row.frame >= w->nframes)
		s.row.frame = unknown_frame(w);
	w->nstacks++;
	if (!w->error)
		*vec_push(&w->stacks) = s;
	if (w->stacks.len >= REC_ROWS_PER_BLOCK)
		write_pending(w);
	return s.index;
}

#define PUT(w, vec, row)                                                                           \
	do {                                                                                       \
		if (!(w)->error)                                                                   \
			*vec_push(vec) = *(row);                                                   \
	} while (0)

void rec_put_process(struct rec_writer *w, const struct m_process *row)
{
	PUT(w, &w->processes, row);
}

void rec_put_map(struct rec_writer *w, const struct m_map *row)
{
	PUT(w, &w->maps, row);
}

void rec_put_meta(struct rec_writer *w, const char *key, const char *value)
{
	struct m_meta row = {rec_string_z(w, key), rec_string_z(w, value)};
	PUT(w, &w->metas, &row);
}

void rec_put_note(struct rec_writer *w, const struct m_note *row)
{
	PUT(w, &w->notes, row);
}

void rec_put_window(struct rec_writer *w, const struct m_window *row)
{
	PUT(w, &w->windows, row);
}

void rec_put_loss(struct rec_writer *w, const struct m_loss *row)
{
	PUT(w, &w->losses, row);
}

void rec_put_counter(struct rec_writer *w, const struct m_counter *row)
{
	PUT(w, &w->counters, row);
}

void rec_put_enum(struct rec_writer *w, const struct m_enum *row)
{
	PUT(w, &w->enums, row);
}

void rec_put_gpu(struct rec_writer *w, const struct m_gpu *row)
{
	PUT(w, &w->gpus, row);
}

void rec_put_comm(struct rec_writer *w, const struct m_comm *row)
{
	PUT(w, &w->comms, row);
}

void rec_put_connection(struct rec_writer *w, const struct m_connection *row)
{
	PUT(w, &w->connections, row);
}

void rec_put_event(struct rec_writer *w, const struct m_event *row)
{
	PUT(w, &w->events, row);
}

void rec_put_source(struct rec_writer *w, const struct m_source *row)
{
	PUT(w, &w->sources, row);
}

/* The code row that bad code numbers are turned into. */
static uint32_t unknown_code(struct rec_writer *w)
{
	if (!w->unknown_code) {
		struct m_code row = {.name = rec_string_z(w, "(unknown)")};
		w->unknown_code = rec_put_code(w, &row) + 1;
	}
	return w->unknown_code - 1;
}

/* Readers rely on string and code numbers being in range: one that is not becomes "" or
 * "(unknown)" and is marked as an argument that could not be read. */
static void check_refs(struct rec_writer *w, struct m_call *c, struct arg_refs refs)
{
	for (unsigned k = 0; k < c->nargs; k++) {
		if (refs.strings >> k & 1 && c->args[k] >= strtab_len(&w->strings)) {
			c->args[k] = 0;
			c->flags |= CALL_ARG_FAULT;
		} else if (refs.codes >> k & 1 && c->args[k] >= w->ncodes) {
			c->args[k] = unknown_code(w);
			c->flags |= CALL_ARG_FAULT;
		}
	}
}

void rec_put_sample(struct rec_writer *w, const struct m_sample *row)
{
	w->sample_rows.put++;
	if (w->error || row->thread >= w->nthreads)
		return;
	struct m_sample *s = vec_push(&w->samples);
	*s = *row;
	if (s->stack >= w->nstacks)
		s->stack = 0;
	if (w->samples.len >= REC_ROWS_PER_BLOCK)
		write_pending(w);
}

void rec_put_gpu_span(struct rec_writer *w, const struct m_gpu_span *row)
{
	w->gpu_span_rows.put++;
	PUT(w, &w->gpu_spans, row);
	if (w->gpu_spans.len >= REC_ROWS_PER_BLOCK)
		write_pending(w);
}

void rec_put_hist(struct rec_writer *w, const struct m_hist *row)
{
	if (row->probe >= w->nprobes)
		return;
	struct m_hist h = *row;
	struct arg_refs refs = w->refs.data[h.probe];
	if (refs.name_arg >= 0 && refs.name_arg < MODEL_MAX_ARGS) {
		if (refs.strings >> refs.name_arg & 1 && h.name >= strtab_len(&w->strings))
			h.name = 0;
		else if (refs.codes >> refs.name_arg & 1 && h.name >= w->ncodes)
			h.name = unknown_code(w);
	}
	PUT(w, &w->hists, &h);
}

void rec_put_calls(struct rec_writer *w, const struct m_call *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct m_call *row = &rows[i];
		if (w->error || row->probe >= w->nprobes || row->thread >= w->nthreads) {
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
		if (c->stack >= w->nstacks)
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
static uint64_t dropped(const struct rec_writer *w, const struct row_count *c)
{
	return w->error ? c->put - c->written : 0;
}

void rec_writer_stats(const struct rec_writer *w, struct rec_writer_stats *ret)
{
	*ret = (struct rec_writer_stats){
		.calls = w->calls_accepted,
		.calls_dropped = w->calls_dropped,
		.samples_dropped = dropped(w, &w->sample_rows),
		.gpu_spans_dropped = dropped(w, &w->gpu_span_rows),
		.bytes = w->bytes,
		.strings_over = w->strings_over,
	};
	ret->samples = w->sample_rows.put - ret->samples_dropped;
	ret->gpu_spans = w->gpu_span_rows.put - ret->gpu_spans_dropped;
}

static void writer_free(struct rec_writer *w)
{
	ZSTD_freeCCtx(w->cctx);
	strtab_free(&w->strings);
	vec_free(&w->refs);
	vec_free(&w->probes);
	vec_free(&w->threads);
	vec_free(&w->codes);
	vec_free(&w->processes);
	vec_free(&w->maps);
	vec_free(&w->metas);
	vec_free(&w->notes);
	vec_free(&w->windows);
	vec_free(&w->losses);
	vec_free(&w->hists);
	vec_free(&w->counters);
	vec_free(&w->enums);
	vec_free(&w->gpus);
	vec_free(&w->comms);
	vec_free(&w->connections);
	vec_free(&w->events);
	vec_free(&w->sources);
	vec_free(&w->frames);
	vec_free(&w->stacks);
	vec_free(&w->samples);
	vec_free(&w->gpu_spans);
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
	struct end_row end = {w->calls_accepted, w->calls_dropped, w->counters_written,
			      clock_ns(CLOCK_MONOTONIC)};
	write_table(w, BLOCK_END, &end, 1);
}

/* A file that failed and tells nothing of the run is none. */
static void take_away(struct rec_writer *w)
{
	w->calls_dropped += w->calls_accepted;
	w->calls_accepted = w->sample_rows.written = w->gpu_span_rows.written = w->bytes = 0;
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

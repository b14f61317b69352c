/* reader.c - opens recordings and decodes their bulk blocks: calls, counters, samples, GPU spans.
 *
 * A reader does not change after rec_open, and decoding uses memory of its own: so any
 * number of threads may decode at a time. */
#include "recording/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording/calls.h"
#include "recording/reader.h"

/* ---- decoding ---- */

/* Reads, checks and decompresses one block into raw. */
int reader_payload(const struct rec_reader *r, const struct block_ref *ref, struct buf *raw,
		   struct err *e)
{
	struct buf stored = {0};
	int rc = 0;
	buf_reserve(&stored, ref->h.stored_bytes);
	if (!reader_pread(r, stored.data, ref->h.stored_bytes, ref->payload_at))
		rc = err_set(e, EIO, "cannot read a %s block at byte %llu of the recording",
			     block_type_name(ref->h.type), (unsigned long long)ref->payload_at);
	else if (block_crc(stored.data, ref->h.stored_bytes) != ref->h.payload_crc)
		rc = err_set(e, EBADMSG,
			     "the recording has changed at byte %llu since it was opened",
			     (unsigned long long)ref->payload_at);
	else
		rc = block_unpack(&ref->h, stored.data, raw, e);
	buf_free(&stored);
	return rc;
}

static uint32_t text_of(const struct rec_reader *r, uint32_t string)
{
	return r->t.strings.strings.data[string].len;
}

/* A block whose rows, printed one by one, are more text than so few bytes stand for. */
static int check_text(const struct block_ref *ref, uint64_t bytes, struct err *e)
{
	if (bytes <= REC_BLOCK_TEXT_FREE + ref->h.stored_bytes * REC_BLOCK_TEXT_RATIO)
		return 0;
	return err_set(e, EDQUOT,
		       "the %s block at byte %llu repeats more text than one of its size can",
		       block_type_name(ref->h.type), (unsigned long long)ref->payload_at);
}

/* Makes string and code numbers of a call good and counts their text. False: drop the call. */
static bool fix_refs(const struct rec_reader *r, const struct probe_check *check, struct m_call *c,
		     uint64_t *text)
{
	for (unsigned k = 0; k < c->nargs; k++) {
		if (check->strings >> k & 1) {
			if (c->args[k] >= r->t.strings.strings.len)
				c->args[k] = r->lost_string;
			*text += text_of(r, (uint32_t)c->args[k]);
		} else if (check->codes >> k & 1) {
			if (c->args[k] >= r->t.codes.len && r->lost_code == UINT32_MAX)
				return false;
			if (c->args[k] >= r->t.codes.len)
				c->args[k] = r->lost_code;
			const struct m_code *code = &r->t.codes.data[c->args[k]];
			*text += text_of(r, code->name) + text_of(r, code->file);
		}
	}
	return true;
}

/* Removes calls whose probe or thread is not in the file; returns how many are left. */
static size_t check_calls(const struct rec_reader *r, struct m_call *rows, size_t n, uint64_t *text)
{
	const struct probe_check *checks = r->checks.data;
	size_t left = 0;
	for (size_t i = 0; i < n; i++) {
		struct m_call *c = &rows[i];
		if (c->probe >= r->checks.len || c->thread >= r->known[ROW_THREAD].len ||
		    !checks[c->probe].known || !r->known[ROW_THREAD].data[c->thread])
			continue;
		if (c->stack >= r->t.stacks.len)
			c->stack = r->lost_stack;
		const struct probe_check *check = &checks[c->probe];
		if ((check->strings | check->codes) && !fix_refs(r, check, c, text))
			continue;
		*text += check->text + text_of(r, r->t.threads.data[c->thread].comm);
		if (left != i)
			rows[left] = *c;
		left++;
	}
	return left;
}

/* Decodes a block of calls into rows that there is room for; *ret_len are good. */
static int read_calls(const struct rec_reader *r, const struct block_ref *ref,
		      const struct buf *raw, struct m_call *rows, size_t *ret_len, struct err *e)
{
	uint64_t text = 0;
	if (calls_decode(raw->data, raw->len, ref->h.rows, rows))
		return err_set(e, EBADMSG,
			       "the calls block at byte %llu holds what no eACGM writes",
			       (unsigned long long)ref->payload_at);
	size_t len = check_calls(r, rows, ref->h.rows, &text);
	int rc = check_text(ref, text, e);
	*ret_len = rc ? 0 : len;
	return rc;
}

static uint32_t metric_text(const struct rec_reader *r, const struct m_metric *m)
{
	return text_of(r, m->name) + text_of(r, m->label) + text_of(r, m->host);
}

/* Makes a reference good and counts its text. False: drop the row. */
static bool fix_ref(const struct rec_reader *r, const struct row_field *f, uint32_t *number,
		    uint64_t *text)
{
	switch ((enum field_meaning)f->means) {
	case MEANS_STRING:
	case MEANS_ENTITY:
		if (*number >= r->t.strings.strings.len)
			*number = r->lost_string;
		*text += text_of(r, *number);
		return true;
	case MEANS_THREAD:
		if (*number >= r->known[ROW_THREAD].len || !r->known[ROW_THREAD].data[*number])
			return false;
		*text += text_of(r, r->t.threads.data[*number].comm);
		return true;
	case MEANS_METRIC:
		if (*number >= r->t.metrics.len || !r->known[ROW_METRIC].data[*number])
			return false;
		*text += metric_text(r, &r->t.metrics.data[*number]);
		return true;
	case MEANS_STACK:
		if (*number >= r->t.stacks.len)
			*number = r->lost_stack;
		return true;
	default:
		return true;
	}
}

#define REFS_MOST 16

/* The fields that are numbers of something. */
static size_t find_refs(const struct row_kind_info *k, const struct row_field *ret[REFS_MOST])
{
	size_t n = 0;
	for (size_t f = 0; f < k->nfields && n < REFS_MOST; f++) {
		uint8_t means = k->fields[f].means;
		if (means == MEANS_STRING || means == MEANS_ENTITY || means == MEANS_THREAD ||
		    means == MEANS_STACK || means == MEANS_METRIC)
			ret[n++] = &k->fields[f];
	}
	return n;
}

static void fix_wait(struct m_wait *w)
{
	if (w->reason >= WAIT_REASONS)
		w->reason = WAIT_OTHER;
	if (w->end_ns < w->start_ns)
		w->end_ns = w->start_ns;
	if (w->runnable_ns > w->end_ns - w->start_ns)
		w->runnable_ns = w->end_ns - w->start_ns;
}

static void fix_stall(struct m_stall *s)
{
	if (s->kind >= STALL_KINDS)
		s->kind = STALL_INTERRUPT;
	if (s->end_ns < s->start_ns)
		s->end_ns = s->start_ns;
	if (s->own_ns > s->end_ns - s->start_ns)
		s->own_ns = s->end_ns - s->start_ns;
}

static void fix_disk_io(struct m_disk_io *d)
{
	if (d->until_ns < d->since_ns)
		d->until_ns = d->since_ns;
}

/* What else holds of the rows of a kind. */
static void fix_row(enum row_kind kind, void *row)
{
	struct m_sample *sample = row;
	struct m_gpu_span *span = row;
	if (kind == ROW_SAMPLE && sample->reason >= WAIT_REASONS)
		sample->reason = WAIT_OTHER;
	else if (kind == ROW_WAIT)
		fix_wait(row);
	else if (kind == ROW_STALL)
		fix_stall(row);
	else if (kind == ROW_DISK_IO)
		fix_disk_io(row);
	else if (kind == ROW_GPU_SPAN && span->end_ns < span->start_ns)
		span->end_ns = span->start_ns;
}

/* Rows whose references cannot be made good are removed; returns how many are left. */
static size_t check_rows(const struct rec_reader *r, enum row_kind kind, uint8_t *rows, size_t n,
			 uint64_t *text)
{
	const struct row_kind_info *k = row_kind_info(kind);
	const struct row_field *refs[REFS_MOST];
	size_t left = 0, nrefs = find_refs(k, refs);
	for (size_t i = 0; i < n; i++) {
		uint8_t *row = rows + i * k->row_bytes;
		bool good = true;
		for (size_t f = 0; f < nrefs && good; f++)
			good = fix_ref(r, refs[f], (uint32_t *)(row + refs[f]->offset), text);
		if (!good)
			continue;
		fix_row(kind, row);
		if (left != i)
			memcpy(rows + left * k->row_bytes, row, k->row_bytes);
		left++;
	}
	return left;
}

static int read_rows(const struct rec_reader *r, const struct block_ref *ref, const struct buf *raw,
		     struct row_block *ret, struct err *e)
{
	const struct row_kind_info *k = row_kind_info(ref->h.type);
	void *rows;
	uint64_t text = 0;
	bool old = ref->h.type == ROW_COUNTER && old_counters_are(raw);
	if (old ? old_counters_decode(r, raw, ref->h.rows, &rows)
		: rows_decode(k, raw->data, raw->len, ref->h.rows, &rows, NULL))
		return err_set(e, EBADMSG, "the %s block at byte %llu holds what no eACGM writes",
			       k->name, (unsigned long long)ref->payload_at);
	free(ret->rows);
	ret->rows = rows;
	ret->cap = ref->h.rows;
	size_t len = check_rows(r, ref->h.type, rows, ref->h.rows, &text);
	int rc = check_text(ref, text, e);
	ret->len = rc ? 0 : len;
	return rc;
}

int rec_read(const struct rec_reader *r, enum row_kind kind, size_t block, struct row_block *ret,
	     struct err *e)
{
	struct buf raw = {0};
	ret->len = 0;
	if (block >= rec_blocks(r, kind))
		return err_set(e, EINVAL, "the recording has no block %zu of %s", block,
			       row_kind_info(kind)->name);
	const struct block_ref *ref = &r->blocks[kind].data[block];
	int rc = reader_payload(r, ref, &raw, e);
	if (!rc && kind == ROW_CALL && ref->h.rows > ret->cap) {
		free(ret->rows);
		ret->rows = xrealloc(NULL, ref->h.rows, sizeof(struct m_call));
		ret->cap = ref->h.rows;
	}
	if (!rc)
		rc = kind == ROW_CALL ? read_calls(r, ref, &raw, ret->rows, &ret->len, e)
				      : read_rows(r, ref, &raw, ret, e);
	buf_free(&raw);
	return rc;
}

/* ---- opening ---- */

/* After lost blocks, calls may refer to lost rows: decodes them all once, so that the number
 * of calls in the tables is the number that can be read. */
static void count_readable_calls(struct rec_reader *r)
{
	struct m_calls calls = {0};
	size_t left = 0;
	for (size_t i = 0; i < rec_call_blocks(r); i++) {
		struct block_ref ref = r->blocks[ROW_CALL].data[i];
		if (ref.payload_at > r->t.damaged_at) {
			int rc = rec_read_calls(r, i, &calls, NULL);
			r->t.calls -= ref.h.rows - calls.len;
			r->dropped += ref.h.rows - calls.len;
			if (rc) {
				scan_note_damage(r, ref.payload_at, "a calls block is not valid");
				continue;
			}
		}
		r->blocks[ROW_CALL].data[left++] = ref;
	}
	r->blocks[ROW_CALL].len = left;
	m_calls_free(&calls);
}

static int open_file(struct rec_reader *r, const char *path, struct err *e)
{
	r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (r->fd < 0)
		return err_set(e, errno, "cannot open '%s': %s", path, strerror(errno));
	struct stat st;
	if (fstat(r->fd, &st))
		return err_set(e, errno, "cannot read '%s': %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, S_ISDIR(st.st_mode) ? EISDIR : EINVAL,
			       "'%s' is not a regular file", path);
	r->size = (uint64_t)st.st_size;
	r->t.file_bytes = r->size;

	uint8_t header[REC_FILE_HEADER_BYTES] = {0};
	size_t have = r->size < sizeof(header) ? (size_t)r->size : sizeof(header);
	if (!reader_pread(r, header, have, 0))
		return err_set(e, EIO, "cannot read '%s'", path);
	bool intact = true;
	int rc = file_header_check(header, have, path, &intact, e);
	if (!rc && !intact)
		scan_note_damage(r, REC_MAGIC_BYTES, "checksum of the file header does not match");
	return rc;
}

static size_t source_blocks(const void *ctx, enum row_kind kind)
{
	return rec_blocks(ctx, kind);
}

static int source_read(const void *ctx, enum row_kind kind, size_t block, struct row_block *ret,
		       struct err *e)
{
	return rec_read(ctx, kind, block, ret, e);
}

static void source_times(const void *ctx, enum row_kind kind, size_t block, uint64_t *ret_first_ns,
			 uint64_t *ret_last_ns)
{
	const struct rec_reader *r = ctx;
	const struct block_header *h = &r->blocks[kind].data[block].h;
	*ret_first_ns = h->first_ns;
	*ret_last_ns = h->last_ns;
}

int rec_open(struct rec_reader **ret, const char *path, struct err *e)
{
	struct rec_reader *r = xcalloc(1, sizeof(*r));
	int rc = open_file(r, path, e);
	if (rc) {
		rec_close(r);
		return rc;
	}
	r->source = (struct row_source){.ctx = r,
					.tables = &r->t,
					.blocks = source_blocks,
					.read = source_read,
					.times = source_times};
	strtab_add(&r->t.strings, "", 0);
	scan_blocks(r);
	tables_finish(r);
	old_counters_open(r);
	if (r->lost_blocks)
		count_readable_calls(r);
	scan_damage_sentence(r);
	buf_free(&r->stored);
	buf_free(&r->raw);
	*ret = r;
	return 0;
}

void rec_close(struct rec_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	tables_free(r);
	map64_free(&r->old_metrics);
	buf_free(&r->stored);
	buf_free(&r->raw);
	free(r);
}

const struct rec_tables *rec_tables(const struct rec_reader *r)
{
	return &r->t;
}

size_t rec_blocks(const struct rec_reader *r, enum row_kind kind)
{
	return r->blocks[kind].len;
}

const struct row_source *rec_source(const struct rec_reader *r)
{
	return &r->source;
}

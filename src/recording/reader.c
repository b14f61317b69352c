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
static int read_payload(const struct rec_reader *r, const struct block_ref *ref, struct buf *raw,
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
		if (c->probe >= r->checks.len || c->thread >= r->threads_known.len ||
		    !checks[c->probe].known || !r->threads_known.data[c->thread])
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

int rec_read_calls(const struct rec_reader *r, size_t block, struct m_calls *ret, struct err *e)
{
	ret->len = 0;
	if (block >= r->call_blocks.len)
		return err_set(e, EINVAL, "the recording has no block %zu of calls", block);
	const struct block_ref *ref = &r->call_blocks.data[block];
	struct buf raw = {0};
	int rc = read_payload(r, ref, &raw, e);
	if (!rc && ref->h.rows > ret->cap) {
		free(ret->rows);
		ret->rows = xrealloc(NULL, ref->h.rows, sizeof(*ret->rows));
		ret->cap = ref->h.rows;
	}
	if (!rc && calls_decode(raw.data, raw.len, ref->h.rows, ret->rows))
		rc = err_set(e, EBADMSG, "the calls block at byte %llu holds what no eACGM writes",
			     (unsigned long long)ref->payload_at);
	if (!rc) {
		uint64_t text = 0;
		size_t len = check_calls(r, ret->rows, ref->h.rows, &text);
		rc = check_text(ref, text, e);
		ret->len = rc ? 0 : len;
	}
	buf_free(&raw);
	return rc;
}

/* One block of a bulk table as malloc'ed rows; what is the table's name for sentences. */
static int read_rows(const struct rec_reader *r, const struct block_ref *ref, const char *what,
		     void **ret_rows, struct err *e)
{
	struct buf raw = {0};
	int rc = read_payload(r, ref, &raw, e);
	if (!rc && table_decode(table_of(ref->h.type), raw.data, raw.len, ref->h.rows, ret_rows))
		rc = err_set(e, EBADMSG, "the %s block at byte %llu holds what no eACGM writes",
			     what, (unsigned long long)ref->payload_at);
	buf_free(&raw);
	return rc;
}

/* Replaces ret's rows by those of one block of refs. Negative errno: return it. */
#define READ_ROWS(r, refs, block, what, ret, e)                                                    \
	({                                                                                         \
		void *rows_;                                                                       \
		int rc_;                                                                           \
		(ret)->len = 0;                                                                    \
		if ((block) >= (refs)->len)                                                        \
			rc_ = err_set(e, EINVAL, "the recording has no block %zu of %s", block,    \
				      what);                                                       \
		else                                                                               \
			rc_ = read_rows(r, &(refs)->data[block], what, &rows_, e);                 \
		if (!rc_) {                                                                        \
			free((ret)->rows);                                                         \
			(ret)->rows = rows_;                                                       \
			(ret)->len = (ret)->cap = (refs)->data[block].h.rows;                      \
		}                                                                                  \
		rc_;                                                                               \
	})

static void check_string(const struct rec_reader *r, uint32_t *number)
{
	if (*number >= r->t.strings.strings.len)
		*number = r->lost_string;
}

int rec_read_counters(const struct rec_reader *r, size_t block, struct m_counters *ret,
		      struct err *e)
{
	int rc = READ_ROWS(r, &r->counter_blocks, block, "counters", ret, e);
	uint64_t text = 0;
	for (size_t i = 0; !rc && i < ret->len; i++) {
		check_string(r, &ret->rows[i].name);
		check_string(r, &ret->rows[i].entity);
		text += text_of(r, ret->rows[i].name) + text_of(r, ret->rows[i].entity);
	}
	rc = rc ? rc : check_text(&r->counter_blocks.data[block], text, e);
	ret->len = rc ? 0 : ret->len;
	return rc;
}

/* Makes the numbers of a sample good. False: drop it. */
static bool check_sample(const struct rec_reader *r, struct m_sample *s)
{
	if (s->thread >= r->threads_known.len || !r->threads_known.data[s->thread])
		return false;
	if (s->stack >= r->t.stacks.len)
		s->stack = r->lost_stack;
	if (s->reason >= WAIT_REASONS)
		s->reason = WAIT_OTHER;
	check_string(r, &s->waker);
	return true;
}

int rec_read_samples(const struct rec_reader *r, size_t block, struct m_samples *ret, struct err *e)
{
	int rc = READ_ROWS(r, &r->sample_blocks, block, "samples", ret, e);
	if (rc)
		return rc;
	size_t left = 0;
	uint64_t text = 0;
	for (size_t i = 0; i < ret->len; i++) {
		const struct m_sample *s = &ret->rows[i];
		if (!check_sample(r, &ret->rows[i]))
			continue;
		text += text_of(r, s->waker) + text_of(r, r->t.threads.data[s->thread].comm);
		ret->rows[left++] = *s;
	}
	rc = check_text(&r->sample_blocks.data[block], text, e);
	ret->len = rc ? 0 : left;
	return rc;
}

int rec_read_gpu_spans(const struct rec_reader *r, size_t block, struct m_gpu_spans *ret,
		       struct err *e)
{
	int rc = READ_ROWS(r, &r->gpu_span_blocks, block, "GPU spans", ret, e);
	uint64_t text = 0;
	for (size_t i = 0; !rc && i < ret->len; i++) {
		struct m_gpu_span *s = &ret->rows[i];
		check_string(r, &s->name);
		text += text_of(r, s->name);
		if (s->end_ns < s->start_ns)
			s->end_ns = s->start_ns;
	}
	rc = rc ? rc : check_text(&r->gpu_span_blocks.data[block], text, e);
	ret->len = rc ? 0 : ret->len;
	return rc;
}

/* ---- opening ---- */

/* After lost blocks, calls may refer to lost rows: decodes them all once, so that the number
 * of calls in the tables is the number that can be read. */
static void count_readable_calls(struct rec_reader *r)
{
	struct m_calls calls = {0};
	size_t left = 0;
	for (size_t i = 0; i < r->call_blocks.len; i++) {
		struct block_ref ref = r->call_blocks.data[i];
		if (ref.payload_at > r->t.damaged_at) {
			int rc = rec_read_calls(r, i, &calls, NULL);
			r->t.calls -= ref.h.rows - calls.len;
			r->dropped += ref.h.rows - calls.len;
			if (rc) {
				scan_note_damage(r, ref.payload_at, "a calls block is not valid");
				continue;
			}
		}
		r->call_blocks.data[left++] = ref;
	}
	r->call_blocks.len = left;
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

int rec_open(struct rec_reader **ret, const char *path, struct err *e)
{
	struct rec_reader *r = xcalloc(1, sizeof(*r));
	int rc = open_file(r, path, e);
	if (rc) {
		rec_close(r);
		return rc;
	}
	strtab_add(&r->t.strings, "", 0);
	scan_blocks(r);
	tables_finish(r);
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
	buf_free(&r->stored);
	buf_free(&r->raw);
	free(r);
}

const struct rec_tables *rec_tables(const struct rec_reader *r)
{
	return &r->t;
}

size_t rec_call_blocks(const struct rec_reader *r)
{
	return r->call_blocks.len;
}

size_t rec_counter_blocks(const struct rec_reader *r)
{
	return r->counter_blocks.len;
}

size_t rec_sample_blocks(const struct rec_reader *r)
{
	return r->sample_blocks.len;
}

size_t rec_gpu_span_blocks(const struct rec_reader *r)
{
	return r->gpu_span_blocks.len;
}

void m_calls_free(struct m_calls *c)
{
	free(c->rows);
	*c = (struct m_calls){0};
}

void m_counters_free(struct m_counters *c)
{
	free(c->rows);
	*c = (struct m_counters){0};
}

void m_samples_free(struct m_samples *s)
{
	free(s->rows);
	*s = (struct m_samples){0};
}

void m_gpu_spans_free(struct m_gpu_spans *s)
{
	free(s->rows);
	*s = (struct m_gpu_spans){0};
}

/* recording_damage_test.c - torn, damaged, foreign and hostile recordings, and full disks.
 *
 * Everything is made from the sample of tests/golden by changing bytes, or block by block.
 *
 * links: base recording golden */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>
#include <linux/types.h>

#include "base/entity.h"
#include "events/metric.h"
#include "golden/sample.h"
#include "recording/column.h"
#include "recording/format.h"
#include "recording/recording.h"
#include "recording/schema.h"
#include "wire/event.h"

#define MAX_BLOCKS 64

struct fixture {
	char *dir;
	char *path;		   /* of the recording under test */
	struct buf sample;	   /* the bytes of the sample */
	size_t blocks[MAX_BLOCKS]; /* their offsets in it */
	struct block_header headers[MAX_BLOCKS];
	size_t nblocks;
};

static void read_file(const char *path, struct buf *b)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	assert_true(fd >= 0 && !fstat(fd, &st));
	b->len = 0;
	buf_reserve(b, (size_t)st.st_size);
	assert_int_equal(read(fd, b->data, (size_t)st.st_size), st.st_size);
	b->len = (size_t)st.st_size;
	close(fd);
}

static void write_file(const char *path, const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), (ssize_t)n);
	close(fd);
}

/* Takes the file at f->path as the sample. */
static void load_sample(struct fixture *f)
{
	read_file(f->path, &f->sample);
	f->nblocks = 0;
	for (size_t at = REC_FILE_HEADER_BYTES; at < f->sample.len; f->nblocks++) {
		struct block_header *h = &f->headers[f->nblocks];
		assert_true(f->nblocks < MAX_BLOCKS && block_header_decode(f->sample.data + at, h));
		f->blocks[f->nblocks] = at;
		at += REC_BLOCK_HEADER_BYTES + h->stored_bytes;
	}
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	char dir[] = "/tmp/recording_damage.XXXXXX";
	struct err e = {0};
	assert_non_null(mkdtemp(dir));
	f->dir = xstrdup(dir);
	f->path = xasprintf("%s/r.eacgm", dir);
	assert_int_equal(sample_write(f->path, &e), 0);
	load_sample(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	unlink(f->path);
	rmdir(f->dir);
	buf_free(&f->sample);
	free(f->path);
	free(f->dir);
	free(f);
	return 0;
}

/* Reads everything that can be read. Checks that the numbers of calls agree and that every
 * reference is in range. */
static uint64_t read_all(const struct rec_reader *r)
{
	const struct rec_tables *t = rec_tables(r);
	struct m_calls c = {0};
	struct m_counters counters = {0};
	struct err e;
	uint64_t calls = 0;
	for (size_t b = 0; b < rec_call_blocks(r); b++) {
		assert_int_equal(rec_read_calls(r, b, &c, &e), 0);
		calls += c.len;
		for (size_t i = 0; i < c.len; i++) {
			assert_true(c.rows[i].probe < t->probes.len);
			assert_true(c.rows[i].thread < t->threads.len);
			const struct m_probe *p = &t->probes.data[c.rows[i].probe];
			for (int k = 0; k < c.rows[i].nargs && k < p->nargs; k++) {
				if (p->arg_types[k] == ARG_TYPE_STRING)
					assert_true(c.rows[i].args[k] < strtab_len(&t->strings));
				if (p->arg_types[k] == ARG_TYPE_CODE)
					assert_true(c.rows[i].args[k] < t->codes.len);
			}
		}
	}
	for (size_t i = 1; i < t->stacks.len; i++) {
		assert_true(t->stacks.data[i].parent < i);
		assert_true(t->stacks.data[i].frame < t->frames.len);
	}
	for (size_t b = 0; b < rec_counter_blocks(r); b++)
		assert_int_equal(rec_read_counters(r, b, &counters, &e), 0);
	assert_int_equal(calls, t->calls);
	m_calls_free(&c);
	m_counters_free(&counters);
	return calls;
}

static struct rec_reader *open_bytes(const struct fixture *f, const void *p, size_t n)
{
	struct rec_reader *r = NULL;
	struct err e = {0};
	write_file(f->path, p, n);
	if (rec_open(&r, f->path, &e))
		fail_msg("%s", e.msg);
	return r;
}

static size_t block_of_type(const struct fixture *f, uint8_t type, size_t nth)
{
	for (size_t i = 0; i < f->nblocks; i++)
		if (f->headers[i].type == type && !nth--)
			return i;
	fail_msg("the sample has no such block");
	return 0;
}

/* ---- what cannot be opened ---- */

static void expect_refused(const struct fixture *f, const void *p, size_t n, const char *part)
{
	struct rec_reader *r = NULL;
	struct err e = {0};
	write_file(f->path, p, n);
	assert_true(rec_open(&r, f->path, &e) < 0);
	assert_null(r);
	assert_non_null(strstr(e.msg, f->path));
	if (!strstr(e.msg, part))
		fail_msg("'%s' does not say '%s'", e.msg, part);
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct rec_reader *r = NULL;
	struct err e = {0};
	assert_int_equal(rec_open(&r, "/nonexistent/x.eacgm", &e), -ENOENT);
	assert_non_null(strstr(e.msg, "No such file"));
	assert_int_equal(rec_open(&r, f->dir, &e), -EISDIR);
	expect_refused(f, "", 0, "is empty");
	expect_refused(f, "#!/bin/sh\necho not a recording, but longer than its header is\n...", 64,
		       "not an eACGM recording");
	expect_refused(f, "x", 1, "not an eACGM recording");
	for (size_t n = 1; n < REC_FILE_HEADER_BYTES; n++)
		expect_refused(f, f->sample.data, n, "cut off");
	uint8_t newer[REC_FILE_HEADER_BYTES];
	memcpy(newer, f->sample.data, sizeof(newer));
	newer[8] = REC_MAJOR + 1;
	expect_refused(f, newer, sizeof(newer), "newer eACGM (format 2; this one reads up to 1)");
	assert_null(r);
}

static void test_writer_refused(void **state)
{
	struct fixture *f = *state;
	struct rec_writer *w = NULL;
	struct err e = {0};
	assert_int_equal(rec_writer_open(&w, "/nonexistent/x.eacgm", NULL, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "/nonexistent/x.eacgm"));
	assert_true(rec_writer_open(&w, f->dir, NULL, &e) < 0);
	assert_int_equal(rec_writer_open(&w, "/dev/null", NULL, &e), -EINVAL);
	assert_null(w);
}

/* ---- torn and damaged ---- */

/* Cut at every byte: what was whole is read; damage is told exactly when a block was cut. */
static void test_cut_everywhere(void **state)
{
	struct fixture *f = *state;
	size_t whole = 0;
	uint64_t calls = 0;
	for (size_t n = REC_FILE_HEADER_BYTES; n < f->sample.len; n++) {
		if (whole + 1 < f->nblocks && n == f->blocks[whole + 1]) {
			if (f->headers[whole].type == ROW_CALL)
				calls += f->headers[whole].rows;
			whole++;
		}
		struct rec_reader *r = open_bytes(f, f->sample.data, n);
		const struct rec_tables *t = rec_tables(r);
		assert_false(t->complete);
		assert_int_equal(read_all(r), calls);
		assert_int_equal(t->damaged_at, n == f->blocks[whole] ? 0 : f->blocks[whole]);
		assert_int_equal(t->damage[0] != 0, t->damaged_at != 0);
		rec_close(r);
	}
	assert_int_equal(calls, SAMPLE_CALLS);
}

/* One byte changed anywhere is noticed, and never makes a call that was not there. */
static void test_flip_everywhere(void **state)
{
	struct fixture *f = *state;
	for (size_t i = REC_FILE_HEADER_BYTES; i < f->sample.len; i++) {
		f->sample.data[i] ^= 0x41;
		struct rec_reader *r = open_bytes(f, f->sample.data, f->sample.len);
		assert_true(rec_tables(r)->damaged_at != 0);
		assert_true(rec_tables(r)->damaged_at <= i);
		assert_true(read_all(r) <= SAMPLE_CALLS);
		f->sample.data[i] ^= 0x41;
		rec_close(r);
	}
	f->sample.data[20] ^= 1; /* creation time, in the file header */
	struct rec_reader *r = open_bytes(f, f->sample.data, f->sample.len);
	assert_int_equal(rec_tables(r)->damaged_at, REC_MAGIC_BYTES);
	assert_int_equal(read_all(r), SAMPLE_CALLS);
	rec_close(r);
}

static struct rec_reader *open_without(struct fixture *f, size_t block)
{
	f->sample.data[f->blocks[block] + REC_BLOCK_HEADER_BYTES] ^= 0xff;
	return open_bytes(f, f->sample.data, f->sample.len);
}

static void test_damaged_calls(void **state)
{
	struct fixture *f = *state;
	size_t block = block_of_type(f, ROW_CALL, 1);
	struct rec_reader *r = open_without(f, block);
	char *want = xasprintf("damaged at byte %zu: checksum of a calls block does not match; 71 "
			       "calls before it were read",
			       f->blocks[block]);
	assert_string_equal(rec_tables(r)->damage, want);
	assert_int_equal(rec_tables(r)->damaged_at, f->blocks[block]);
	assert_true(rec_tables(r)->complete);
	assert_int_equal(read_all(r), 71);
	free(want);
	rec_close(r);
}

static void test_lost_probes(void **state)
{
	struct fixture *f = *state;
	struct rec_reader *r = open_without(f, block_of_type(f, ROW_PROBE, 0));
	assert_non_null(strstr(rec_tables(r)->damage, "checksum of a probes block"));
	/* 88 calls and four histograms */
	assert_non_null(strstr(rec_tables(r)->damage, "92 rows that refer to lost ones"));
	assert_int_equal(read_all(r), 0);
	assert_int_equal(rec_tables(r)->hists.len, 0);
	rec_close(r);
}

static void test_lost_threads(void **state)
{
	struct fixture *f = *state;
	struct rec_reader *r = open_without(f, block_of_type(f, ROW_THREAD, 0));
	assert_int_equal(read_all(r), 0);
	rec_close(r);
}

static void test_lost_codes(void **state)
{
	struct fixture *f = *state;
	struct rec_reader *r = open_without(f, block_of_type(f, ROW_CODE, 0));
	const struct rec_tables *t = rec_tables(r);
	struct m_calls c = {0};
	struct err e;
	size_t lost = 0;
	assert_int_equal(read_all(r), SAMPLE_CALLS);
	assert_int_equal(rec_read_calls(r, 0, &c, &e), 0);
	for (size_t i = 0; i < c.len; i++) {
		if (c.rows[i].probe != SP_FRAME)
			continue;
		lost++;
		assert_string_equal(
			strtab_get(&t->strings, t->codes.data[c.rows[i].args[0]].name, NULL),
			"(lost)");
	}
	assert_int_equal(lost, 11);
	m_calls_free(&c);
	rec_close(r);
}

static void test_lost_strings(void **state)
{
	struct fixture *f = *state;
	struct rec_reader *r = open_without(f, block_of_type(f, BLOCK_STRINGS, 0));
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(read_all(r), SAMPLE_CALLS);
	assert_string_equal(strtab_get(&t->strings, t->probes.data[0].name, NULL), "(lost)");
	rec_close(r);
}

/* A block cut out without a trace but for the numbers of its neighbours. */
/* Frames "a" > "b" in one block of the file and a stack of each in the next; "c" below them
 * in later ones; a call and a sample of each stack. */
static void write_profile(struct fixture *f)
{
	struct rec_writer *w;
	struct err e;
	assert_int_equal(rec_writer_open(&w, f->path, NULL, &e), 0);
	rec_add_probe(w, &(struct m_probe){.name_arg = -1});
	rec_add_thread(w, &(struct m_thread){1, 1, 0});
	for (uint32_t i = 0; i < 3; i++) {
		char name[2] = {(char)('a' + i), 0};
		struct m_frame frame = {.name = rec_string_z(w, name)};
		struct m_call call = {.stack = i + 1};
		rec_add_frame(w, &frame);
		rec_add_stack(w, &(struct m_stack){i, i});
		rec_put_calls(w, &call, 1);
		rec_put_sample(w, &(struct m_sample){.stack = i + 1});
		if (i == 1)
			assert_int_equal(rec_flush(w, &e), 0);
	}
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	load_sample(f);
}

/* "c > b" of a sample's stack, leaf first. */
static const char *stack_text(const struct rec_tables *t, uint32_t stack, char ret[64])
{
	ret[0] = 0;
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		strcat(ret, ret[0] ? " > " : "");
		strcat(ret, f->kind == FRAME_CUT ? "cut " : "");
		strcat(ret, strtab_get(&t->strings, f->name, NULL));
	}
	return ret;
}

static void expect_stacks(struct fixture *f, size_t lost_block, const char *const want[3])
{
	struct rec_reader *r = open_without(f, lost_block);
	struct m_calls calls = {0};
	struct m_samples samples = {0};
	struct err e;
	char text[64];
	read_all(r);
	for (size_t b = 0, i = 0; b < rec_call_blocks(r); b++) {
		assert_int_equal(rec_read_calls(r, b, &calls, &e), 0);
		assert_int_equal(rec_read_samples(r, b, &samples, &e), 0);
		assert_int_equal(calls.len, samples.len);
		for (size_t k = 0; k < calls.len; k++, i++) {
			assert_int_equal(calls.rows[k].stack, samples.rows[k].stack);
			assert_string_equal(stack_text(rec_tables(r), calls.rows[k].stack, text),
					    want[i]);
		}
	}
	m_calls_free(&calls);
	m_samples_free(&samples);
	rec_close(r);
	f->sample.data[f->blocks[lost_block] + REC_BLOCK_HEADER_BYTES] ^= 0xff; /* whole again */
}

static void test_lost_stacks(void **state)
{
	struct fixture *f = *state;
	write_profile(f);
	expect_stacks(f, block_of_type(f, ROW_FRAME, 0),
		      (const char *const[]){"(lost)", "(lost) > (lost)", "c > (lost) > (lost)"});
	expect_stacks(f, block_of_type(f, ROW_STACK, 0),
		      (const char *const[]){"cut (lost)", "cut (lost)", "c > cut (lost)"});
	/* the last ones: not a gap but numbers past the end */
	expect_stacks(f, block_of_type(f, ROW_FRAME, 1),
		      (const char *const[]){"a", "b > a", "(lost) > b > a"});
	expect_stacks(f, block_of_type(f, ROW_STACK, 1),
		      (const char *const[]){"a", "b > a", "cut (lost)"});
}

static void test_missing_block(void **state)
{
	struct fixture *f = *state;
	size_t block = block_of_type(f, ROW_CALL, 0);
	struct buf b = {0};
	buf_add(&b, f->sample.data, f->blocks[block]);
	buf_add(&b, f->sample.data + f->blocks[block + 1], f->sample.len - f->blocks[block + 1]);
	struct rec_reader *r = open_bytes(f, b.data, b.len);
	assert_non_null(strstr(rec_tables(r)->damage, "1 blocks are missing"));
	assert_int_equal(read_all(r), 17);
	buf_free(&b);
	rec_close(r);
}

static void test_tails(void **state)
{
	struct fixture *f = *state;
	size_t end = f->blocks[f->nblocks - 1];
	struct buf b = {0};
	buf_add(&b, f->sample.data, end);
	buf_reserve(&b, 8192);
	memset(b.data + end, 0, 8192); /* what a file system may leave after a crash */
	struct rec_reader *r = open_bytes(f, b.data, end + 8192);
	assert_int_equal(rec_tables(r)->damaged_at, end);
	assert_false(rec_tables(r)->complete);
	assert_int_equal(read_all(r), SAMPLE_CALLS);
	rec_close(r);
	b.len = 0;
	buf_add(&b, f->sample.data, f->sample.len);
	buf_add(&b, "tail", 4);
	r = open_bytes(f, b.data, b.len);
	assert_non_null(strstr(rec_tables(r)->damage, "4 bytes follow the end"));
	assert_int_equal(read_all(r), SAMPLE_CALLS);
	rec_close(r);
	buf_free(&b);
}

static void test_many_damages(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < f->nblocks; i++)
		f->sample.data[f->blocks[i] + REC_BLOCK_HEADER_BYTES] ^= 0xff;
	struct rec_reader *r = open_bytes(f, f->sample.data, f->sample.len);
	assert_non_null(strstr(rec_tables(r)->damage, "more places are damaged"));
	assert_int_equal(read_all(r), 0);
	rec_close(r);
}

/* ---- hostile: right checksums, wrong content ---- */

static void add_block(struct buf *file, uint8_t type, uint32_t rows, uint32_t sequence,
		      const struct buf *raw)
{
	ZSTD_CCtx *cctx = ZSTD_createCCtx();
	struct block_header h = {.type = type, .rows = rows, .sequence = sequence};
	assert_int_equal(block_pack(file, &h, raw, cctx, NULL), 0);
	ZSTD_freeCCtx(cctx);
}

static void start_file(struct buf *file)
{
	file->len = 0;
	buf_reserve(file, REC_FILE_HEADER_BYTES);
	file_header_encode(file->data, 1, 2);
	file->len = REC_FILE_HEADER_BYTES;
}

static void put_column(struct buf *raw, const char *name, uint64_t value, size_t n)
{
	struct segments s;
	segments_begin(&s, raw, name, FIELD_U64);
	segments_put_same(&s, value, n);
	segments_end(&s);
}

static void expect_invalid(struct fixture *f, uint8_t type, uint32_t rows, const struct buf *raw)
{
	struct buf file = {0};
	start_file(&file);
	add_block(&file, type, rows, 0, raw);
	struct rec_reader *r = open_bytes(f, file.data, file.len);
	assert_non_null(strstr(rec_tables(r)->damage, "holds what no eACGM writes"));
	read_all(r);
	rec_close(r);
	buf_free(&file);
}

static void test_hostile_tables(void **state)
{
	struct fixture *f = *state;
	struct buf raw = {0};
	put_column(&raw, "index", 0xfffffff0, 1); /* a gap of four billion rows */
	expect_invalid(f, ROW_PROBE, 1, &raw);
	expect_invalid(f, ROW_THREAD, 1, &raw);
	expect_invalid(f, ROW_CODE, 1, &raw);
	expect_invalid(f, ROW_FRAME, 1, &raw);
	expect_invalid(f, ROW_STACK, 1, &raw);
	expect_invalid(f, ROW_SAMPLE, 0, &raw);
	expect_invalid(f, ROW_GPU_SPAN, 0, &raw);
	raw.len = 0;
	put_column(&raw, "number", 0xfffffff0, 1);
	expect_invalid(f, BLOCK_STRINGS, 1, &raw);
	raw.len = 0;
	put_column(&raw, "number", 1, 2); /* one number twice */
	expect_invalid(f, BLOCK_STRINGS, 2, &raw);
	raw.len = 0;
	put_column(&raw, "number", 1, 1);
	put_column(&raw, "length", 100, 1);
	column_put_bytes(&raw, "bytes", "short", 5);
	expect_invalid(f, BLOCK_STRINGS, 1, &raw);
	raw.len = 0;
	put_column(&raw, "pid", 1, 5); /* fewer rows than the header says */
	expect_invalid(f, ROW_MAP, 6, &raw);
	expect_invalid(f, ROW_HIST, REC_MAX_HIST_ROWS + 1, &raw);
	expect_invalid(f, ROW_MAP, 0, &raw);
	buf_add(&raw, "\xff", 1); /* a column that is cut */
	expect_invalid(f, ROW_MAP, 5, &raw);
	buf_free(&raw);
}

/* Small blocks that decompress to large tables: read as far as the file's size can explain. */
static void test_hostile_growth(void **state)
{
	struct fixture *f = *state;
	struct buf raw = {0};
	struct buf file = {0};
	put_column(&raw, "pid", 1, 10000);
	start_file(&file);
	for (uint32_t i = 0; i < 100; i++)
		add_block(&file, ROW_MAP, 10000, i, &raw);
	struct rec_reader *r = open_bytes(f, file.data, file.len);
	assert_non_null(strstr(rec_tables(r)->damage, "more rows than a recording of its size"));
	assert_in_range(rec_tables(r)->maps.len, 60000, 65536 + 32 * file.len);
	rec_close(r);
	buf_free(&raw);
	buf_free(&file);
}

/* Gaps in dictionaries are rows as well: a row with a far index, in block after block. */
static void test_hostile_gaps(void **state)
{
	struct fixture *f = *state;
	struct buf raw = {0};
	struct buf file = {0};
	start_file(&file);
	for (uint32_t i = 0; i < 40; i++) {
		raw.len = 0;
		put_column(&raw, "index", (i + 1) * 50000, 1);
		add_block(&file, ROW_PROBE, 1, i, &raw);
	}
	struct rec_reader *r = open_bytes(f, file.data, file.len);
	assert_non_null(strstr(rec_tables(r)->damage, "more rows than a recording of its size"));
	assert_in_range(rec_tables(r)->probes.len, 50000, 65536 + 32 * file.len);
	rec_close(r);
	buf_free(&raw);
	buf_free(&file);
}

/* One long text that many rows name. */
static void test_hostile_texts(void **state)
{
	struct fixture *f = *state;
	char *text = xrealloc(NULL, REC_MAX_STRING_BYTES, 1);
	struct rec_writer *w;
	struct m_calls c = {0};
	struct err e = {0};
	memset(text, 'a', REC_MAX_STRING_BYTES);
	assert_int_equal(rec_writer_open(&w, f->path, NULL, NULL), 0);
	uint32_t of = rec_string(w, text, REC_MAX_STRING_BYTES);
	rec_add_thread(w, &(struct m_thread){1, 1, 0});
	rec_add_probe(w, &(struct m_probe){.layer = of, .name = of, .name_arg = -1});
	for (int i = 0; i < 1000; i++)
		rec_put_note(w, &(struct m_note){of, of, 1});
	for (int i = 0; i < 1000; i++)
		rec_put_calls(w, &(struct m_call){.dur_ns = 1}, 1);
	assert_int_equal(rec_writer_close(w, false, NULL), 0);
	struct rec_reader *r = NULL;
	assert_int_equal(rec_open(&r, f->path, NULL), 0);
	const struct rec_tables *t = rec_tables(r);
	assert_non_null(strstr(t->damage, "repeat more text"));
	assert_string_equal(strtab_get(&t->strings, t->notes.data[999].reason, NULL), "(cut)");
	assert_int_equal(t->notes.len, 1000);
	assert_int_equal(rec_read_calls(r, 0, &c, &e), -EDQUOT);
	assert_non_null(strstr(e.msg, "repeats more text"));
	assert_int_equal(c.len, 0);
	m_calls_free(&c);
	rec_close(r);
	free(text);
}

static void expect_bad_calls(struct fixture *f, uint32_t rows, const struct buf *raw)
{
	struct buf file = {0};
	start_file(&file);
	add_block(&file, ROW_CALL, rows, 0, raw);
	struct rec_reader *r = open_bytes(f, file.data, file.len);
	struct m_calls c = {0};
	struct err e = {0};
	assert_int_equal(rec_read_calls(r, 0, &c, &e), -EBADMSG);
	assert_int_equal(c.len, 0);
	assert_string_not_equal(e.msg, "");
	m_calls_free(&c);
	rec_close(r);
	buf_free(&file);
}

static void test_hostile_calls(void **state)
{
	struct fixture *f = *state;
	struct buf raw = {0};
	put_column(&raw, "probe", 0xffffffff, 3); /* would ask for 16 GiB of counts */
	expect_bad_calls(f, 3, &raw);
	raw.len = 0;
	put_column(&raw, "nargs", 2, 3);
	put_column(&raw, "arg0", 7, 2); /* one value too few */
	expect_bad_calls(f, 3, &raw);
	raw.len = 0;
	put_column(&raw, "arg0", 7, 1); /* one too many: no row has arguments */
	expect_bad_calls(f, 3, &raw);
	raw.len = 0;
	put_column(&raw, "arg0", 7, 4);
	expect_bad_calls(f, 3, &raw);
	raw.len = 0;
	put_column(&raw, "flags", 1, 4);
	expect_bad_calls(f, 3, &raw);
	buf_free(&raw);
}

/* Good checksums around stacks that make no sense: loops, frames that are not there, a row for
 * stack 0, samples of no thread. */
static void test_hostile_stacks(void **state)
{
	struct fixture *f = *state;
	struct buf raw = {0};
	struct buf file = {0};
	static const uint64_t indexes[3] = {0, 1, 2};
	static const uint64_t parents[3] = {2, 2, 1};
	static const uint64_t frames[3] = {0, 0, 5};
	start_file(&file);
	put_column(&raw, "pid", 7, 1);
	add_block(&file, ROW_THREAD, 1, 0, &raw);
	raw.len = 0;
	put_column(&raw, "kind", FRAME_PYTHON, 1);
	put_column(&raw, "name", 4000, 1);
	add_block(&file, ROW_FRAME, 1, 1, &raw);
	raw.len = 0;
	column_put(&raw, "index", FIELD_U32, ENC_DELTA, indexes, 3);
	column_put(&raw, "parent", FIELD_U32, ENC_DELTA, parents, 3);
	column_put(&raw, "frame", FIELD_U32, ENC_DELTA, frames, 3);
	add_block(&file, ROW_STACK, 3, 2, &raw);
	raw.len = 0;
	column_put(&raw, "thread", FIELD_U32, ENC_VARINT, (const uint64_t[2]){0, 9}, 2);
	put_column(&raw, "stack", 3, 2);
	put_column(&raw, "reason", 200, 2);
	add_block(&file, ROW_SAMPLE, 2, 3, &raw);
	struct rec_reader *r = open_bytes(f, file.data, file.len);
	const struct rec_tables *t = rec_tables(r);
	struct m_samples samples = {0};
	struct err e;
	assert_string_equal(t->damage, "");
	assert_int_equal(t->stacks.data[0].parent, 0);
	assert_int_equal(t->stacks.data[1].parent, 0);
	assert_int_equal(t->stacks.data[2].parent, 1);
	assert_int_equal(t->stacks.data[2].frame, 1);
	assert_string_equal(strtab_get(&t->strings, t->frames.data[1].name, NULL), "(lost)");
	assert_int_equal(t->frames.data[0].name, 0);
	assert_int_equal(rec_read_samples(r, 0, &samples, &e), 0);
	assert_int_equal(samples.len, 1);
	assert_int_equal(samples.rows[0].stack, 0);
	assert_int_equal(samples.rows[0].reason, WAIT_OTHER);
	m_samples_free(&samples);
	rec_close(r);
	buf_free(&raw);
	buf_free(&file);
}

/* A block of a later version, and a column of one: skipped without a word. */
static void test_later_additions(void **state)
{
	struct fixture *f = *state;
	struct buf raw = {0};
	struct buf file = {0};
	start_file(&file);
	put_column(&raw, "mystery", 3, 77);
	add_block(&file, 200, 77, 0, &raw);
	raw.len = 0;
	put_column(&raw, "mystery", 3, 1000);
	put_column(&raw, "pid", 12, 2);
	put_column(&raw, "tid", 13, 2);
	static const uint64_t indexes[2] = {0, 1};
	column_put(&raw, "index", FIELD_U32, ENC_DELTA, indexes, 2);
	add_block(&file, ROW_THREAD, 2, 1, &raw);
	struct rec_reader *r = open_bytes(f, file.data, file.len);
	assert_string_equal(rec_tables(r)->damage, "");
	assert_int_equal(rec_tables(r)->threads.len, 2);
	assert_int_equal(rec_tables(r)->threads.data[1].tid, 13);
	assert_int_equal(rec_tables(r)->threads.data[1].comm, 0);
	rec_close(r);
	buf_free(&raw);
	buf_free(&file);
}

/* ---- counters of before there were metrics ---- */

static void add_strings(struct buf *file, const char *const *strings, size_t n)
{
	uint64_t numbers[8], lengths[8];
	struct buf raw = {0}, bytes = {0};
	for (size_t i = 0; i < n; i++) {
		numbers[i] = i + 1;
		lengths[i] = strlen(strings[i]);
		buf_add(&bytes, strings[i], strlen(strings[i]));
	}
	column_put(&raw, "number", FIELD_U32, ENC_DELTA, numbers, n);
	column_put(&raw, "length", FIELD_U32, ENC_VARINT, lengths, n);
	column_put_bytes(&raw, "bytes", bytes.data, bytes.len);
	add_block(file, BLOCK_STRINGS, (uint32_t)n, 0, &raw);
	buf_free(&raw);
	buf_free(&bytes);
}

static void add_old_counters(struct buf *file, uint32_t sequence, const uint64_t *names,
			     const uint64_t *entities, size_t n)
{
	struct buf raw = {0};
	column_put(&raw, "name", FIELD_U32, ENC_VARINT, names, n);
	column_put(&raw, "entity", FIELD_U32, ENC_VARINT, entities, n);
	add_block(file, ROW_COUNTER, (uint32_t)n, sequence, &raw);
	buf_free(&raw);
}

/* Each row had its name and what it was of as strings. What has numbers has them again; all else
 * keeps its words. */
static void test_old_counters(void **state)
{
	struct fixture *f = *state;
	static const char *const strings[] = {
		"rss_bytes", "pid 12",	       "node7 gpu 1 mig 2 pid 9",
		"power_w",   "interface eth0", "eacgm"};
	static const struct {
		uint8_t kind, unit;
		uint32_t pid, gpu;
		int32_t instance;
		const char *label, *host;
	} want[] = {
		{ENTITY_PROCESS, UNIT_BYTES, 12, 0, -1, "", ""},
		{ENTITY_GPU, UNIT_W, 9, 1, 2, "", "node7"},
		{ENTITY_OTHER, UNIT_W, 0, 0, -1, "interface eth0", ""},
		{ENTITY_EACGM, UNIT_W, 0, 0, -1, "", ""},
		{ENTITY_OTHER, UNIT_COUNT, 0, 0, -1, "", ""}, /* neither is in the file */
	};
	static const uint64_t of[] = {0, 1, 0, 2, 3, 4};
	struct m_counters rows = {0};
	struct buf file = {0};
	struct err e;
	start_file(&file);
	add_strings(&file, strings, 6);
	add_old_counters(&file, 1, (uint64_t[]){1, 4, 1}, (uint64_t[]){2, 3, 2}, 3);
	add_old_counters(&file, 2, (uint64_t[]){4, 4, 99}, (uint64_t[]){5, 6, 1u << 30}, 3);
	struct rec_reader *r = open_bytes(f, file.data, file.len);
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->metrics.len, 5);
	for (size_t i = 0; i < 5; i++) {
		const struct m_metric *m = &t->metrics.data[i];
		struct entity entity = metric_entity(m, &t->strings);
		assert_int_equal(m->kind, want[i].kind);
		assert_int_equal(m->unit, want[i].unit);
		assert_int_equal(m->pid, want[i].pid);
		assert_int_equal(m->gpu, want[i].gpu);
		assert_int_equal(m->instance, want[i].instance);
		assert_string_equal(entity.label, want[i].label);
		assert_string_equal(entity.host, want[i].host);
	}
	for (size_t b = 0; b < 2; b++) {
		assert_int_equal(rec_read_counters(r, b, &rows, &e), 0);
		for (size_t i = 0; i < 3; i++)
			assert_int_equal(rows.rows[i].metric, of[3 * b + i]);
	}
	m_counters_free(&rows);
	rec_close(r);
	buf_free(&file);
}

/* ---- the writer's end of it ---- */

static void put_dictionaries(struct rec_writer *w)
{
	rec_add_probe(w, &(struct m_probe){.name_arg = -1, .nargs = 6});
	rec_add_thread(w, &(struct m_thread){1, 1, rec_string_z(w, "main")});
}

/* Calls that hardly compress. */
static void put_noise(struct rec_writer *w, size_t n)
{
	static uint64_t seed = 1;
	for (size_t i = 0; i < n; i++) {
		struct m_call c = {.nargs = 6};
		for (int k = 0; k < 6; k++)
			c.args[k] = seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		rec_put_calls(w, &c, 1);
	}
}

/* kill -9 after a flush: all that was flushed is there. */
static void test_killed(void **state)
{
	struct fixture *f = *state;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct rec_writer *w;
		if (rec_writer_open(&w, f->path, NULL, NULL))
			_exit(1);
		put_dictionaries(w);
		put_noise(w, 1000);
		rec_flush(w, NULL);
		put_noise(w, 500);
		kill(getpid(), SIGKILL);
		_exit(1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	struct rec_reader *r = NULL;
	assert_int_equal(rec_open(&r, f->path, NULL), 0);
	assert_false(rec_tables(r)->complete);
	assert_int_equal(rec_tables(r)->damaged_at, 0);
	assert_int_equal(read_all(r), 1000);
	rec_close(r);
}

/* Writes until the writer fails with rc; the file must then be valid, and hold exactly what
 * the writer says that it accepted; the rest is told as a loss. */
static void write_until(const char *path, uint64_t max_bytes, int want_rc, bool want_end)
{
	struct rec_writer *w = NULL;
	struct rec_writer_options opts = {.max_bytes = max_bytes};
	struct rec_writer_stats stats;
	struct err e = {0};
	assert_int_equal(rec_writer_open(&w, path, &opts, &e), 0);
	put_dictionaries(w);
	int rc = 0;
	uint64_t put = 0;
	for (int i = 0; i < 100000 && !rc; i++) {
		put_noise(w, 100);
		put += 100;
		rc = rec_flush(w, &e);
	}
	assert_int_equal(rc, want_rc);
	assert_non_null(strstr(e.msg, path));
	put_noise(w, 7);
	rec_string_z(w, "after the error");
	assert_int_equal(rec_flush(w, &e), want_rc); /* it stays */
	rec_writer_stats(w, &stats);
	assert_int_equal(stats.calls + stats.calls_dropped, put + 7);
	assert_int_equal(stats.calls_dropped, 107);
	assert_int_equal(rec_writer_close(w, false, &e), want_rc);

	struct rec_reader *r = NULL;
	assert_int_equal(rec_open(&r, path, &e), 0);
	const struct rec_tables *t = rec_tables(r);
	assert_string_equal(t->damage, "");
	assert_int_equal(read_all(r), stats.calls);
	assert_true(stats.calls > 0);
	/* A limit of our own keeps room for the end block. A full disk has room for it only
	 * where cutting off the failed block gave enough back. */
	assert_true(t->complete || !want_end);
	if (!t->complete) {
		rec_close(r);
		return;
	}
	assert_int_equal(t->losses.len, 1);
	assert_string_equal(strtab_get(&t->strings, t->losses.data[0].cause, NULL), "not_written");
	assert_int_equal(t->losses.data[0].count, 107);
	rec_close(r);
}

static void test_size_limit(void **state)
{
	struct fixture *f = *state;
	write_until(f->path, 100000, -EFBIG, true);
	struct stat st;
	assert_int_equal(stat(f->path, &st), 0);
	assert_in_range(st.st_size, 90000, 100000);
}

/* RLIMIT_FSIZE cuts a write in the middle of a block, as a full disk does. */
static void test_file_size_rlimit(void **state)
{
	struct fixture *f = *state;
	struct rlimit old;
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 100000;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	write_until(f->path, 0, -EFBIG, false);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_DFL);
}

static void test_full_disk(void **state)
{
	struct fixture *f = *state;
	char *dir = xasprintf("%s/disk", f->dir);
	char *path = xasprintf("%s/r.eacgm", dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	if (mount("tmpfs", dir, "tmpfs", 0, "size=256k")) {
		print_message("no full disk: mounting a tmpfs: %s\n", strerror(errno));
		rmdir(dir);
		free(path);
		free(dir);
		skip();
		return; /* not reached, which compilers are not told */
	}
	write_until(path, 0, -ENOSPC, false);
	assert_int_equal(umount(dir), 0);
	rmdir(dir);
	free(path);
	free(dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_refused),	    TEST(test_writer_refused), TEST(test_cut_everywhere),
		TEST(test_flip_everywhere), TEST(test_damaged_calls),  TEST(test_lost_probes),
		TEST(test_lost_threads),    TEST(test_lost_codes),     TEST(test_lost_strings),
		TEST(test_missing_block),   TEST(test_lost_stacks),    TEST(test_hostile_stacks),
		TEST(test_tails),	    TEST(test_many_damages),   TEST(test_hostile_tables),
		TEST(test_hostile_growth),  TEST(test_hostile_calls),  TEST(test_later_additions),
		TEST(test_hostile_gaps),    TEST(test_hostile_calls),  TEST(test_later_additions),
		TEST(test_hostile_texts),   TEST(test_hostile_calls),  TEST(test_later_additions),
		TEST(test_killed),	    TEST(test_size_limit),     TEST(test_file_size_rlimit),
		TEST(test_full_disk),	    TEST(test_old_counters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

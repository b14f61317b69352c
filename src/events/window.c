/* window.c - blocks of rows in memory, the oldest of each kind compressed. A frame of zstd is read
 * by who made it: it is as it was written. What is compressed are columns of words, each less the
 * one of the row before: half as large as rows, in less time. */
#include "events/window.h"

#include <errno.h>
#include <zstd.h>

#include "base/sort.h"
#include "events/unpacker.h"

#define BLOCK_MOST_BYTES  (4u << 20)
#define BLOCK_LEAST_BYTES (64u << 10)
#define BLOCKS		  32 /* of a window, where these bounds let it: a block goes at a time */
#define PACK_LEVEL	  1

/* A word of a column. */
typedef uint32_t word;
#define X(number, NAME, stem, members)                                                             \
	_Static_assert(sizeof(struct m_##stem) % sizeof(word) == 0, "rows are of whole words");
ROW_BULKS(X)
#undef X

struct window_block {
	struct row_block raw; /* of a packed one nothing but len */
	size_t room;	      /* bytes that raw's rows have: for the frame that they become, too */
	uint8_t *packed;      /* NULL: it is not; of calls a thread's one behind the other */
	size_t packed_bytes;
	uint64_t begin_ns, end_ns; /* of a packed one: of its first row, the latest of all */
};

struct row_window {
	struct rec_tables tables;
	struct row_source source;
	VEC(struct window_block) blocks[ROW_KINDS]; /* the oldest first: */
	size_t packed[ROW_KINDS];		    /* so many are */
	size_t bytes, most_bytes;		    /* of their room */
	size_t raw_bytes;			    /* of these: not packed */
	uint64_t gone_ns;			    /* the latest end of rows that went */
	/* of row_window_pack */
	bool packs;
	size_t raw_most;
	uint64_t keep_ns, newest_ns;
	ZSTD_CCtx *packer;
	word *columns; /* room for those of a block: */
	size_t columns_bytes;
	void *spare; /* the rows of the last that was packed: the next are as large */
	size_t spare_bytes;
};

static size_t window_blocks(const void *ctx, enum row_kind kind)
{
	const struct row_window *w = ctx;
	return w->blocks[kind].len;
}

/* ---- columns ---- */

static void to_columns(word *to, const uint8_t *rows, size_t n, size_t row_bytes)
{
	for (size_t at = 0; at < row_bytes; at += sizeof(word)) {
		word before = 0, now;
		for (size_t i = 0; i < n; i++, before = now) {
			memcpy(&now, rows + i * row_bytes + at, sizeof(now));
			*to++ = now - before;
		}
	}
}

static void from_columns(uint8_t *rows, const word *from, size_t n, size_t row_bytes)
{
	for (size_t at = 0; at < row_bytes; at += sizeof(word)) {
		word now = 0;
		for (size_t i = 0; i < n; i++) {
			now += *from++;
			memcpy(rows + i * row_bytes + at, &now, sizeof(now));
		}
	}
}

static int unpack(const struct window_block *b, size_t row_bytes, struct row_block *ret,
		  struct err *e)
{
	size_t bytes = b->raw.len * row_bytes;
	word *columns = xrealloc(NULL, bytes, 1);
	ZSTD_DCtx *d = unpacker();
	int rc = 0;
	if (d && ZSTD_decompressDCtx(d, columns, bytes, b->packed, b->packed_bytes) == bytes)
		from_columns(ret->rows, columns, b->raw.len, row_bytes);
	else
		rc = err_set(e, EIO, "rows in memory cannot be unpacked");
	free(columns);
	return rc;
}

/* ---- a source ---- */

static int window_read(const void *ctx, enum row_kind kind, size_t block, struct row_block *ret,
		       struct err *e)
{
	const struct row_window *w = ctx;
	size_t row_bytes = row_kind_info(kind)->row_bytes;
	ret->len = 0;
	if (block >= w->blocks[kind].len)
		return err_set(e, EINVAL, "there is no block %zu of %s", block,
			       row_kind_info(kind)->name);
	const struct window_block *b = &w->blocks[kind].data[block];
	if (ret->cap < b->raw.len) {
		free(ret->rows);
		ret->rows = xrealloc(NULL, b->raw.len, row_bytes);
		ret->cap = b->raw.len;
	}
	int rc = 0;
	if (b->packed)
		rc = unpack(b, row_bytes, ret, e);
	else
		memcpy(ret->rows, b->raw.rows, b->raw.len * row_bytes);
	ret->len = rc ? 0 : b->raw.len;
	return rc;
}

struct row_window *row_window_new(size_t most_bytes)
{
	struct row_window *w = xcalloc(1, sizeof(*w));
	w->most_bytes = most_bytes;
	w->raw_most = SIZE_MAX;
	strtab_add(&w->tables.strings, "", 0);
	w->source = (struct row_source){
		.ctx = w, .tables = &w->tables, .blocks = window_blocks, .read = window_read};
	return w;
}

static void block_free(struct window_block *b)
{
	row_block_free(&b->raw);
	free(b->packed);
}

void row_window_free(struct row_window *w)
{
	if (!w)
		return;
	for (unsigned kind = 0; kind < ROW_KINDS; kind++) {
		for (size_t i = 0; i < w->blocks[kind].len; i++)
			block_free(&w->blocks[kind].data[i]);
		vec_free(&w->blocks[kind]);
	}
	ZSTD_freeCCtx(w->packer);
	free(w->columns);
	free(w->spare);
	rec_tables_free(&w->tables);
	free(w);
}

struct rec_tables *row_window_tables(struct row_window *w)
{
	return &w->tables;
}

static size_t block_bytes(const struct row_window *w)
{
	size_t bytes = w->most_bytes / BLOCKS;
	bytes = bytes < BLOCK_MOST_BYTES ? bytes : BLOCK_MOST_BYTES;
	return bytes > BLOCK_LEAST_BYTES ? bytes : BLOCK_LEAST_BYTES;
}

static uint64_t end_of(const struct row_kind_info *k, enum row_kind kind, const uint8_t *row)
{
	uint64_t ns;
	memcpy(&ns, row + k->last_ns, sizeof(ns));
	return kind == ROW_CALL ? ns + ((const struct m_call *)row)->dur_ns : ns;
}

static uint64_t block_end(enum row_kind kind, const struct window_block *b)
{
	const struct row_kind_info *k = row_kind_info(kind);
	uint64_t ret = b->end_ns;
	for (size_t i = 0; !b->packed && i < b->raw.len; i++) {
		uint64_t ns = end_of(k, kind, (const uint8_t *)b->raw.rows + i * k->row_bytes);
		ret = ns > ret ? ns : ret;
	}
	return ret;
}

static uint64_t first_ns_of(enum row_kind kind, const void *row)
{
	uint64_t ns;
	memcpy(&ns, (const uint8_t *)row + row_kind_info(kind)->first_ns, sizeof(ns));
	return ns;
}

static uint64_t block_begin(enum row_kind kind, const struct window_block *b)
{
	return b->packed ? b->begin_ns : first_ns_of(kind, b->raw.rows);
}

static void drop_oldest(struct row_window *w, enum row_kind kind)
{
	struct window_block *b = w->blocks[kind].data;
	size_t row_bytes = row_kind_info(kind)->row_bytes;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are blocks */
	uint64_t end_ns = block_end(kind, b);
	w->gone_ns = end_ns > w->gone_ns ? end_ns : w->gone_ns;
	*rec_bulk_count(&w->tables, row_kind_info(kind)) -= b->raw.len;
	w->bytes -= b->packed ? b->packed_bytes : b->raw.cap * row_bytes;
	w->raw_bytes -= b->raw.cap * row_bytes;
	w->packed[kind] -= b->packed != NULL;
	block_free(b);
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): likewise */
	memmove(b, b + 1, --w->blocks[kind].len * sizeof(*b));
}

/* The kind whose block is the oldest of all, not counting the one that is filled, and so many first
 * ones of each kind (NULL: none); ROW_KINDS: there is none. */
static unsigned oldest_kind(const struct row_window *w, const size_t *without)
{
	unsigned ret = ROW_KINDS;
	uint64_t oldest_ns = 0;
	for (unsigned kind = 0; kind < ROW_KINDS; kind++) {
		size_t at = without ? without[kind] : 0;
		if (at + 1 >= w->blocks[kind].len)
			continue;
		uint64_t ns = block_begin(kind, &w->blocks[kind].data[at]);
		if (ret == ROW_KINDS || ns < oldest_ns) {
			oldest_ns = ns;
			ret = kind;
		}
	}
	return ret;
}

/* ---- packed blocks ---- */

static int by_thread(const void *a, const void *b, void *arg)
{
	const struct m_call *x = a, *y = b;
	(void)arg;
	return (x->thread > y->thread) - (x->thread < y->thread);
}

static void *take_room(struct row_window *w, size_t bytes)
{
	void *ret = w->spare;
	if (!ret || w->spare_bytes != bytes)
		return xrealloc(NULL, bytes, 1);
	w->spare = NULL;
	return ret;
}

static void give_room(struct row_window *w, void *rows, size_t bytes)
{
	free(w->spare);
	w->spare = rows;
	w->spare_bytes = bytes;
}

/* Of rows that are not needed any more makes a frame in their place. Its bytes, 0: it cannot be
 * done, and the rows are as they were. */
static size_t pack_rows(struct row_window *w, const struct window_block *b, size_t row_bytes)
{
	size_t bytes = b->raw.len * row_bytes;
	if (!w->packer)
		w->packer = ZSTD_createCCtx();
	if (!w->packer)
		return 0;
	if (w->columns_bytes < bytes) {
		w->columns = xrealloc(w->columns, bytes, 1);
		w->columns_bytes = bytes;
	}
	to_columns(w->columns, b->raw.rows, b->raw.len, row_bytes);
	size_t ret =
		ZSTD_compressCCtx(w->packer, b->raw.rows, b->room, w->columns, bytes, PACK_LEVEL);
	if (!ZSTD_isError(ret))
		return ret;
	from_columns(b->raw.rows, w->columns, b->raw.len, row_bytes);
	return 0;
}

/* The oldest that is not packed; false: there is none. */
static bool pack_oldest(struct row_window *w)
{
	unsigned kind = oldest_kind(w, w->packed);
	if (kind == ROW_KINDS)
		return false;
	struct window_block *b = &w->blocks[kind].data[w->packed[kind]];
	size_t row_bytes = row_kind_info(kind)->row_bytes;
	b->begin_ns = block_begin(kind, b);
	b->end_ns = block_end(kind, b);
	if (kind == ROW_CALL)
		sort_runs(b->raw.rows, b->raw.len, row_bytes, by_thread, NULL);
	size_t bytes = pack_rows(w, b, row_bytes);
	if (!bytes)
		return false;
	b->packed = xrealloc(NULL, bytes, 1);
	memcpy(b->packed, b->raw.rows, bytes);
	b->packed_bytes = bytes;
	w->bytes += bytes;
	w->bytes -= b->raw.cap * row_bytes;
	w->raw_bytes -= b->raw.cap * row_bytes;
	give_room(w, b->raw.rows, b->room);
	b->raw.rows = NULL;
	b->raw.cap = 0;
	w->packed[kind]++;
	return true;
}

/* Whether the oldest block of a kind is of no use any more. */
static bool is_old(const struct row_window *w, enum row_kind kind)
{
	const struct window_block *b = w->blocks[kind].data;
	uint64_t keep_ns = w->keep_ns < w->newest_ns ? w->keep_ns : w->newest_ns;
	return block_begin(kind, b) < w->newest_ns - keep_ns &&
	       block_end(kind, b) < w->newest_ns - keep_ns;
}

static void drop_old(struct row_window *w)
{
	unsigned old;
	while ((old = oldest_kind(w, NULL)) < ROW_KINDS && is_old(w, old))
		drop_oldest(w, old);
}

static void make_room(struct row_window *w, size_t bytes)
{
	unsigned old;
	while (w->packs && w->raw_bytes + bytes > w->raw_most && pack_oldest(w))
		;
	if (w->packs && w->bytes + bytes > w->raw_most + w->raw_most / 2)
		drop_old(w);
	while (w->bytes + bytes > w->most_bytes && (old = oldest_kind(w, NULL)) < ROW_KINDS)
		if (!w->packs || is_old(w, old) || !pack_oldest(w))
			drop_oldest(w, old);
}

void row_window_pack(struct row_window *w, size_t raw_bytes, uint64_t keep_ns)
{
	w->packs = true;
	w->raw_most = raw_bytes;
	w->keep_ns = keep_ns;
}

void row_window_bound(struct row_window *w, size_t most_bytes)
{
	w->most_bytes = most_bytes;
	make_room(w, 0);
}

/* The block that has room, a new one where the last is full. */
static struct row_block *block_with_room(struct row_window *w, enum row_kind kind)
{
	size_t n = w->blocks[kind].len, row_bytes = row_kind_info(kind)->row_bytes;
	struct row_block *last = n ? &w->blocks[kind].data[n - 1].raw : NULL;
	if (last && last->len < last->cap)
		return last;
	size_t cap = block_bytes(w) / row_bytes, room = ZSTD_compressBound(block_bytes(w));
	make_room(w, cap * row_bytes);
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): room has data */
	struct window_block *b = vec_push(&w->blocks[kind]);
	*b = (struct window_block){.raw = {.rows = take_room(w, room), .cap = cap}, .room = room};
	w->bytes += cap * row_bytes;
	w->raw_bytes += cap * row_bytes;
	return &b->raw;
}

void row_window_add(struct row_window *w, enum row_kind kind, const void *rows, size_t n)
{
	size_t row_bytes = row_kind_info(kind)->row_bytes;
	const uint8_t *from = rows;
	while (n) {
		struct row_block *b = block_with_room(w, kind);
		size_t now = n < b->cap - b->len ? n : b->cap - b->len;
		memcpy((uint8_t *)b->rows + b->len * row_bytes, from, now * row_bytes);
		b->len += now;
		*rec_bulk_count(&w->tables, row_kind_info(kind)) += now;
		from += now * row_bytes;
		n -= now;
		uint64_t ns = first_ns_of(kind, from - row_bytes);
		w->newest_ns = ns > w->newest_ns ? ns : w->newest_ns;
	}
}

const struct row_source *row_window_source(struct row_window *w)
{
	for (size_t i = w->packed[ROW_CALL]; i < w->blocks[ROW_CALL].len; i++) {
		struct row_block *b = &w->blocks[ROW_CALL].data[i].raw;
		sort_runs(b->rows, b->len, sizeof(struct m_call), by_thread, NULL);
	}
	return &w->source;
}

uint64_t row_window_gone_ns(const struct row_window *w)
{
	return w->gone_ns;
}

const struct row_source *row_window_as_added(const struct row_window *w)
{
	return &w->source;
}

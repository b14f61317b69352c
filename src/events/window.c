/* window.c - blocks of rows in memory. */
#include "events/window.h"

#include <errno.h>

#include "base/sort.h"

#define BLOCK_MOST_BYTES  (4u << 20)
#define BLOCK_LEAST_BYTES (64u << 10)
#define BLOCKS		  32 /* of a window, where these bounds let it: a block goes at a time */

struct row_window {
	struct rec_tables tables;
	struct row_source source;
	VEC(struct row_block) blocks[ROW_KINDS]; /* the oldest first */
	size_t bytes, most_bytes;		 /* of their room */
	uint64_t gone_ns;			 /* the latest end of rows that went */
};

static size_t window_blocks(const void *ctx, enum row_kind kind)
{
	const struct row_window *w = ctx;
	return w->blocks[kind].len;
}

static int window_read(const void *ctx, enum row_kind kind, size_t block, struct row_block *ret,
		       struct err *e)
{
	const struct row_window *w = ctx;
	size_t row_bytes = row_kind_info(kind)->row_bytes;
	ret->len = 0;
	if (block >= w->blocks[kind].len)
		return err_set(e, EINVAL, "there is no block %zu of %s", block,
			       row_kind_info(kind)->name);
	const struct row_block *b = &w->blocks[kind].data[block];
	if (ret->cap < b->len) {
		free(ret->rows);
		ret->rows = xrealloc(NULL, b->len, row_bytes);
		ret->cap = b->len;
	}
	memcpy(ret->rows, b->rows, b->len * row_bytes);
	ret->len = b->len;
	return 0;
}

struct row_window *row_window_new(size_t most_bytes)
{
	struct row_window *w = xcalloc(1, sizeof(*w));
	w->most_bytes = most_bytes;
	strtab_add(&w->tables.strings, "", 0);
	w->source = (struct row_source){
		.ctx = w, .tables = &w->tables, .blocks = window_blocks, .read = window_read};
	return w;
}

void row_window_free(struct row_window *w)
{
	if (!w)
		return;
	for (unsigned kind = 0; kind < ROW_KINDS; kind++) {
		for (size_t i = 0; i < w->blocks[kind].len; i++)
			row_block_free(&w->blocks[kind].data[i]);
		vec_free(&w->blocks[kind]);
	}
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

static void note_gone(struct row_window *w, enum row_kind kind, const struct row_block *b)
{
	const struct row_kind_info *k = row_kind_info(kind);
	for (size_t i = 0; i < b->len; i++) {
		uint64_t ns = end_of(k, kind, (const uint8_t *)b->rows + i * k->row_bytes);
		w->gone_ns = ns > w->gone_ns ? ns : w->gone_ns;
	}
}

static void drop_oldest(struct row_window *w, enum row_kind kind)
{
	struct row_block *b = w->blocks[kind].data;
	size_t row_bytes = row_kind_info(kind)->row_bytes;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are blocks */
	*rec_bulk_count(&w->tables, row_kind_info(kind)) -= b->len;
	w->bytes -= b->cap * row_bytes;
	note_gone(w, kind, b);
	row_block_free(b);
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): likewise */
	memmove(b, b + 1, --w->blocks[kind].len * sizeof(*b));
}

static uint64_t begin_of(const struct row_window *w, enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	const uint8_t *row = w->blocks[kind].data[0].rows;
	uint64_t ns;
	memcpy(&ns, row + k->first_ns, sizeof(ns));
	return ns;
}

/* Whose oldest block is the oldest of all, of kinds that have others; ROW_KINDS: there is none. */
static unsigned oldest_kind(const struct row_window *w)
{
	unsigned ret = ROW_KINDS;
	for (unsigned kind = 0; kind < ROW_KINDS; kind++)
		if (w->blocks[kind].len > 1 &&
		    (ret == ROW_KINDS || begin_of(w, kind) < begin_of(w, ret)))
			ret = kind;
	return ret;
}

static void make_room(struct row_window *w, size_t bytes)
{
	unsigned old;
	while (w->bytes + bytes > w->most_bytes && (old = oldest_kind(w)) < ROW_KINDS)
		drop_oldest(w, old);
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
	struct row_block *last = n ? &w->blocks[kind].data[n - 1] : NULL;
	if (last && last->len < last->cap)
		return last;
	size_t cap = block_bytes(w) / row_bytes;
	make_room(w, cap * row_bytes);
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): room has data */
	struct row_block *b = vec_push(&w->blocks[kind]);
	*b = (struct row_block){.rows = xrealloc(NULL, cap, row_bytes), .cap = cap};
	w->bytes += cap * row_bytes;
	return b;
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
	}
}

static int by_thread(const void *a, const void *b, void *arg)
{
	const struct m_call *x = a, *y = b;
	(void)arg;
	return (x->thread > y->thread) - (x->thread < y->thread);
}

const struct row_source *row_window_source(struct row_window *w)
{
	for (size_t i = 0; i < w->blocks[ROW_CALL].len; i++) {
		struct row_block *b = &w->blocks[ROW_CALL].data[i];
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

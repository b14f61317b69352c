/* visitor.h - goes once through the bulk rows of a source, on all CPUs, for any number of visitors.
 *
 * A source is a file or what stands for one; visitors do not ask which. Each block is read once and
 * handed to all that want its kind. Threads share nothing: every visitor has a state for each, and
 * puts them together at the end. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "events/tables.h"

struct row_source {
	const void *ctx;
	const struct rec_tables *tables;
	size_t (*blocks)(const void *ctx, enum row_kind kind);
	/* From any thread; as rec_read. */
	int (*read)(const void *ctx, enum row_kind kind, size_t block, struct row_block *ret,
		    struct err *e);
	/* Of a block's rows the first and the last time, without reading it; NULL: not known. */
	void (*times)(const void *ctx, enum row_kind kind, size_t block, uint64_t *ret_first_ns,
		      uint64_t *ret_last_ns);
};

/* Of each kind, with its type: struct m_calls and m_calls_free; source_call_blocks and
 * source_read_calls, as blocks and read. */
#define X(number, NAME, stem, members)                                                             \
	struct __attribute__((may_alias)) m_##members {                                            \
		struct m_##stem *rows;                                                             \
		size_t len;                                                                        \
		size_t cap;                                                                        \
	};                                                                                         \
	static inline void m_##members##_free(struct m_##members *b)                               \
	{                                                                                          \
		row_block_free((struct row_block *)b);                                             \
	}                                                                                          \
	static inline size_t source_##stem##_blocks(const struct row_source *s)                    \
	{                                                                                          \
		return s->blocks(s->ctx, ROW_##NAME);                                              \
	}                                                                                          \
	static inline int source_read_##members(const struct row_source *s, size_t block,          \
						struct m_##members *ret, struct err *e)            \
	{                                                                                          \
		return s->read(s->ctx, ROW_##NAME, block, (struct row_block *)ret, e);             \
	}
ROW_BULKS(X)
#undef X

/* A block of rows as visitors get it. Of one thread the blocks of a kind come in order of their
 * numbers. */
struct visited_rows {
	enum row_kind kind;
	size_t block;
	const void *rows;
	size_t len;
};

struct row_visitor {
	uint64_t kinds;	    /* 1u << ROW_CALL | ...: what it wants */
	size_t state_bytes; /* of a thread's state, which begins zeroed */
	/* On any thread, with that thread's state. */
	void (*rows)(const struct row_visitor *v, void *state, const struct visited_rows *rows);
	/* Likewise: a block that cannot be read; or NULL. */
	void (*unread)(const struct row_visitor *v, void *state, enum row_kind kind,
		       const struct err *why);
	/* All has been read: puts n states together, frees what they hold and the visitor. Of
	 * several visitors they come in the order of the list. */
	void (*end)(struct row_visitor *v, void *states, size_t n);
};

struct visit_options {
	unsigned threads; /* 0 = one for each CPU */
	/* Called from the calling thread now and then; may be NULL. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
};

/* options may be NULL. */
void rows_visit(const struct row_source *s, struct row_visitor *const *visitors, size_t n,
		const struct visit_options *options);

/* Goes through the blocks of one kind in their order, on the calling thread. Those that cannot be
 * read are left out. */
void rows_read(const struct row_source *s, enum row_kind kind,
	       void (*rows)(void *ctx, const struct visited_rows *rows), void *ctx);

/* The n-th state of an array that a visitor's end is given. */
static inline void *visitor_state(const struct row_visitor *v, void *states, size_t n)
{
	return (uint8_t *)states + n * v->state_bytes;
}

/* window.h - the last rows of something that goes on, in memory of a given size: a source like a
 * file. The oldest rows go, a block at a time; where it is asked for they are compressed first. For
 * one thread. */
#pragma once

#include "events/visitor.h"

struct row_window;

/* most_bytes: of bulk rows; what they refer to is kept all of it. */
struct row_window *row_window_new(size_t most_bytes);
void row_window_free(struct row_window *w);

/* Strings, probes, threads and the like are added here, before the rows that refer to them. */
struct rec_tables *row_window_tables(struct row_window *w);

/* From now on it may have so many bytes: what is over goes at once. */
void row_window_bound(struct row_window *w, size_t most_bytes);

/* From now on the oldest blocks are compressed where there is no room for all, or where rows as
 * they are have more than raw_bytes. What ended keep_ns before the newest row goes where there is
 * no room for it, or where all have half as much again. */
void row_window_pack(struct row_window *w, size_t raw_bytes, uint64_t keep_ns);

/* Rows of a kind of ROW_BULKS, copied. */
void row_window_add(struct row_window *w, enum row_kind kind, const void *rows, size_t n);

/* What there is now; valid until rows are added. Of calls each block has a thread's one behind the
 * other, as a file's. */
const struct row_source *row_window_source(struct row_window *w);

/* The same with calls in no order: nothing is sorted for it. */
const struct row_source *row_window_as_added(const struct row_window *w);

/* The latest end of a row that has gone: all that ended after it is there. 0: none has gone. */
uint64_t row_window_gone_ns(const struct row_window *w);

/* recording.h - write and read .eacgm files.
 *
 * The byte layout is specified at the top of format.h. Writing never blocks on
 * anything but the disk; reading never trusts the file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/output_file.h"
#include "events/tables.h"
#include "events/visitor.h"

/* ---- writing ---- */
struct rec_writer;

struct rec_writer_options {
	int zstd_level;	    /* 0 = default (1) */
	uint64_t max_bytes; /* 0 = no limit; past it puts fail with -EFBIG, the file stays valid */
	/* 0 = no limit; past it a string that is not there yet reads "(more)". For what runs for
	 * days. */
	uint64_t max_string_bytes;
	struct output_owner owner; /* of the file */
	/* The file has its name when rec_writer_name says so, and is taken away if it never does;
	 * otherwise it has it when its first block is written. */
	bool named_when_told;
};

/* Creates a file as base/output_file.h says: until it has its name, path holds what it held.
 * *ret is set on success only. path NULL: rows are numbered and counted as ever, and then
 * forgotten; only strings stay. */
int rec_writer_open(struct rec_writer **ret, const char *path,
		    const struct rec_writer_options *opts, struct err *e);

/* The string's number, added if new; written before the next block that is flushed. */
uint32_t rec_string(struct rec_writer *w, const char *s, size_t len);
uint32_t rec_string_z(struct rec_writer *w, const char *s);
/* The string of a number; valid while w lives. */
const char *rec_string_get(const struct rec_writer *w, uint32_t number);
/* Numbers are smaller than this. */
uint32_t rec_string_count(const struct rec_writer *w);

/* A row of a kind of ROW_TABLES or ROW_BULKS but of calls: strings have been put before. A row
 * whose thread or probe is not in the recording is left out; a stack that is not becomes 0. */
void rec_put(struct rec_writer *w, enum row_kind kind, const void *row);
/* Of kinds whose rows have numbers (probes, threads, codes, frames, stacks, metrics): returns the
 * number, dense from 0, of stacks from 1. A stack's parent and frame have been put before; a number
 * that was not becomes 0 or a frame "(unknown)". Rows of the same parent and frame are for the
 * caller to find. */
uint32_t rec_add(struct rec_writer *w, enum row_kind kind, const void *row);
/* Replaces the row of a number. */
void rec_update(struct rec_writer *w, enum row_kind kind, uint32_t number, const void *row);

/* The same with the types of rows: rec_put_comm, rec_add_thread, rec_update_thread. */
#define X(number, NAME, stem, members)                                                             \
	static inline void rec_put_##stem(struct rec_writer *w, const struct m_##stem *row)        \
	{                                                                                          \
		rec_put(w, ROW_##NAME, row);                                                       \
	}
ROW_LISTED(X)
ROW_SERIES(X)
#undef X
#define X(number, NAME, stem, members)                                                             \
	static inline uint32_t rec_add_##stem(struct rec_writer *w, const struct m_##stem *row)    \
	{                                                                                          \
		return rec_add(w, ROW_##NAME, row);                                                \
	}                                                                                          \
	static inline void rec_update_##stem(struct rec_writer *w, uint32_t at,                    \
					     const struct m_##stem *row)                           \
	{                                                                                          \
		rec_update(w, ROW_##NAME, at, row);                                                \
	}
ROW_NUMBERED(X)
#undef X
void rec_put_meta(struct rec_writer *w, const char *key, const char *value);

/* Calls are buffered and become a block when 64 Ki are pending or at rec_flush; so are frames,
 * stacks, samples and GPU spans. Calls may
 * come in any order; the writer groups them by thread, each thread's in order of end time. */
void rec_put_calls(struct rec_writer *w, const struct m_call *rows, size_t n);

/* Writes all that is pending and hands it to the kernel: after this a crash of the
 * process loses nothing of it. 0, or negative errno (-ENOSPC: disk full) with the
 * sentence; after an error the writer accepts and drops everything, counting it in
 * rec_writer_stats, and what was flushed before stays readable. */
int rec_flush(struct rec_writer *w, struct err *e);

/* Where what was flushed so far is to be found from here on, also after a crash. */
int rec_writer_name(struct rec_writer *w, struct err *e);

/* Sends what was flushed to the disk; from any thread. Failures show at the end. */
void rec_writer_sync(const struct rec_writer *w);

struct rec_writer_stats {
	uint64_t calls; /* accepted; after rec_writer_end: in the file; so also these two */
	uint64_t samples;
	uint64_t gpu_spans;
	uint64_t calls_dropped; /* after a write error or over max_bytes */
	uint64_t samples_dropped;
	uint64_t gpu_spans_dropped;
	uint64_t bytes;	       /* in the file so far; 0: there is none */
	uint64_t strings_over; /* past max_string_bytes */
};
void rec_writer_stats(const struct rec_writer *w, struct rec_writer_stats *ret);

/* Flushes and writes the end block: nothing comes in after it. fsync when sync. A file that failed
 * before it told anything of the run (a full disk) is taken away. */
int rec_writer_end(struct rec_writer *w, bool sync, struct err *e);

/* Ends it, where that was not done, closes and frees (also on error). */
int rec_writer_close(struct rec_writer *w, bool sync, struct err *e);

/* ---- reading ---- */
struct rec_reader;

/* Maps and validates the whole file. Fails only where nothing can be read (absent,
 * not a recording, newer major version); damage further on is told in the tables. */
int rec_open(struct rec_reader **ret, const char *path, struct err *e);
/* Complete after rec_open. */
const struct rec_tables *rec_tables(const struct rec_reader *r);

/* Blocks of a kind of ROW_BULKS, in file order. Decoding is thread-safe: any number of threads may
 * decode different blocks of one reader at the same time. The rows are checked: their numbers of
 * probes, threads, stacks, strings and codes are in range of the tables, a span does not end before
 * it starts. Where blocks of the file were lost, rows whose probe or thread was in them are left
 * out, and strings, codes and stacks that were in them read as "(lost)". ret is used again; on
 * failure it is empty. */
size_t rec_blocks(const struct rec_reader *r, enum row_kind kind);
int rec_read(const struct rec_reader *r, enum row_kind kind, size_t block, struct row_block *ret,
	     struct err *e);

/* The same of each kind, with its type: rec_call_blocks, rec_read_calls. */
#define X(number, NAME, stem, members)                                                             \
	static inline size_t rec_##stem##_blocks(const struct rec_reader *r)                       \
	{                                                                                          \
		return rec_blocks(r, ROW_##NAME);                                                  \
	}                                                                                          \
	static inline int rec_read_##members(const struct rec_reader *r, size_t block,             \
					     struct m_##members *ret, struct err *e)               \
	{                                                                                          \
		return rec_read(r, ROW_##NAME, block, (struct row_block *)ret, e);                 \
	}
ROW_BULKS(X)
#undef X

/* For events/visitor.h; valid while r is open. */
const struct row_source *rec_source(const struct rec_reader *r);

void rec_close(struct rec_reader *r);

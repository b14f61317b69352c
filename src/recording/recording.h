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

/* Dictionary rows; each returns its dense index (probe number, thread index, code index).
 * A process or thread row may be put again with its index to update it. */
uint32_t rec_put_probe(struct rec_writer *w, const struct m_probe *row);
uint32_t rec_put_thread(struct rec_writer *w, const struct m_thread *row);
uint32_t rec_put_code(struct rec_writer *w, const struct m_code *row);
uint32_t rec_put_frame(struct rec_writer *w, const struct m_frame *row);
/* From 1 on. The parent and the frame have been put before; a number that is not becomes 0
 * or a frame "(unknown)". Rows of the same parent and frame are for the caller to find. */
uint32_t rec_put_stack(struct rec_writer *w, const struct m_stack *row);
void rec_update_thread(struct rec_writer *w, uint32_t index, const struct m_thread *row);
void rec_update_frame(struct rec_writer *w, uint32_t index, const struct m_frame *row);
void rec_put_process(struct rec_writer *w, const struct m_process *row); /* key: pid + start_ns */
void rec_put_map(struct rec_writer *w, const struct m_map *row);
void rec_put_meta(struct rec_writer *w, const char *key, const char *value);
void rec_put_note(struct rec_writer *w, const struct m_note *row);
void rec_put_window(struct rec_writer *w, const struct m_window *row);
void rec_put_loss(struct rec_writer *w, const struct m_loss *row);
void rec_put_hist(struct rec_writer *w, const struct m_hist *row); /* replaces */
void rec_put_counter(struct rec_writer *w, const struct m_counter *row);
void rec_put_enum(struct rec_writer *w, const struct m_enum *row);
void rec_put_gpu(struct rec_writer *w, const struct m_gpu *row);	       /* replaces */
void rec_put_comm(struct rec_writer *w, const struct m_comm *row);	       /* replaces */
void rec_put_connection(struct rec_writer *w, const struct m_connection *row); /* replaces */
void rec_put_event(struct rec_writer *w, const struct m_event *row);
/* From 0 on, in order of writing. */
void rec_put_source(struct rec_writer *w, const struct m_source *row);
/* A row whose thread is not in the recording is left out; a stack that is not becomes 0. */
void rec_put_sample(struct rec_writer *w, const struct m_sample *row);
void rec_put_gpu_span(struct rec_writer *w, const struct m_gpu_span *row);

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

/* Call blocks, in file order. Decoding is thread-safe: any number of threads may
 * decode different blocks of one reader at the same time. The rows are checked:
 * probe, thread, stack, string and code numbers are in range of the tables. Where blocks of
 * the file were lost, calls whose probe or thread was in them are left out, and string and
 * code arguments and stacks that were in them read as "(lost)". On failure ret is empty. */
size_t rec_call_blocks(const struct rec_reader *r);
struct m_calls {
	struct m_call *rows;
	size_t len;
	size_t cap;
};
int rec_read_calls(const struct rec_reader *r, size_t block, struct m_calls *ret, struct err *e);
void m_calls_free(struct m_calls *c);

/* Counter blocks, likewise. */
size_t rec_counter_blocks(const struct rec_reader *r);
struct m_counters {
	struct m_counter *rows;
	size_t len;
	size_t cap;
};
int rec_read_counters(const struct rec_reader *r, size_t block, struct m_counters *ret,
		      struct err *e);
void m_counters_free(struct m_counters *c);

/* Sample blocks, likewise: of every row thread, stack, reason and waker are in range; rows whose
 * thread was lost are left out. */
size_t rec_sample_blocks(const struct rec_reader *r);
struct m_samples {
	struct m_sample *rows;
	size_t len;
	size_t cap;
};
int rec_read_samples(const struct rec_reader *r, size_t block, struct m_samples *ret,
		     struct err *e);
void m_samples_free(struct m_samples *s);

/* Blocks of GPU spans, likewise: no span ends before it starts. */
size_t rec_gpu_span_blocks(const struct rec_reader *r);
struct m_gpu_spans {
	struct m_gpu_span *rows;
	size_t len;
	size_t cap;
};
int rec_read_gpu_spans(const struct rec_reader *r, size_t block, struct m_gpu_spans *ret,
		       struct err *e);
void m_gpu_spans_free(struct m_gpu_spans *s);

void rec_close(struct rec_reader *r);

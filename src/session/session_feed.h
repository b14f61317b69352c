/* session_feed.h - hands a recording's rows from the recording thread to those that look at them: a
 * bounded queue of batches, one for all of them. The recording thread copies rows once and never
 * waits; where a reader is too slow, rows of which there may be millions are left out for it and
 * counted. Others never are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "events/tables.h"
#include "pipeline/pipeline.h"
#include "pipeline/listeners.h"

#define FEED_BYTES	     (64u << 20) /* 700,000 calls: three seconds of 200,000 a second */
#define FEED_BYTES_ALWAYS_ON (32u << 20)
#define FEED_READERS_MOST    8

struct feed_string {
	uint32_t number;
	uint32_t at; /* where it begins in texts; a NUL ends it */
};

/* What came between two passes over the rings, or some of them. Strings and tables hold before the
 * bulk rows, what is gone after them. */
struct feed_batch {
	struct feed_batch *next; /* this and the next are the feed's: by a bit for each reader */
	uint8_t unread, taken;
	uint64_t upto_ns;  /* what ended before has come, but for what is late; 0 = not known */
	uint64_t overruns; /* bulk rows that were left out of this one, for who takes it now */
	VEC(struct feed_string) strings;
	struct buf texts;
#define X(number, NAME, stem, members) VEC(struct m_##stem) members;
	ROW_TABLES(X)
	ROW_BULKS(X)
#undef X
	VEC(uint32_t) numbers[ROW_KINDS]; /* of rows that have them, in their order */
	VEC(uint32_t) threads_gone, metrics_gone;
};

/* A batch's rows of a kind, without their type. */
const struct row_vec *feed_rows(const struct feed_batch *b, enum row_kind kind);

struct feed;
/* most_bytes: of bulk rows that wait for any of the readers, FEED_READERS_MOST at most. */
struct feed *feed_new(size_t most_bytes, unsigned readers);
/* All threads have ended. */
void feed_free(struct feed *f);

/* The recording thread's. Before anything is passed: the feed listens to the pipeline. */
void feed_listen(struct feed *f, struct pipeline *p);
/* A pass over the rings ended that had begun at begin_ns. */
void feed_pass(struct feed *f, uint64_t begin_ns);
/* Nothing more comes; the pipeline is not listened to any more. The recording thread has ended. */
void feed_end(struct feed *f);
/* After feed_end: a reader who has had all is told that nothing more comes. */
void feed_end_of(struct feed *f, unsigned reader);

/* A reader's thread: each batch has to be given back before the next is taken. Waits for it; NULL
 * when nothing more comes. */
const struct feed_batch *feed_take(struct feed *f, unsigned reader);
void feed_give_back(struct feed *f, unsigned reader, const struct feed_batch *b);

/* From any thread: events that were left out for a reader. */
uint64_t feed_overruns(struct feed *f, unsigned reader);

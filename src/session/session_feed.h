/* session_feed.h - hands a recording's rows from the recording thread to one that looks at them: a
 * bounded queue of batches. The recording thread copies rows and never waits; where the other is
 * too slow, rows of which there may be millions are left out and counted. Others never are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "events/tables.h"
#include "pipeline/pipeline.h"
#include "pipeline/listeners.h"

#define FEED_BYTES (64u << 20) /* 700,000 calls: three seconds of 200,000 a second */

struct feed_string {
	uint32_t number;
	uint32_t at; /* where it begins in texts; a NUL ends it */
};

/* What came between two passes over the rings, or some of them. Strings and tables hold before the
 * bulk rows, what is gone after them. */
struct feed_batch {
	struct feed_batch *next;
	uint64_t upto_ns;  /* what ended before has come, but for what is late; 0 = not known */
	uint64_t overruns; /* bulk rows that were left out of this one */
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
struct feed *feed_new(size_t most_bytes);
/* Both threads have ended. */
void feed_free(struct feed *f);

/* The recording thread's. Before anything is passed: the feed listens to the pipeline. */
void feed_listen(struct feed *f, struct pipeline *p);
/* A pass over the rings ended that had begun at begin_ns. */
void feed_pass(struct feed *f, uint64_t begin_ns);
/* Nothing more comes; the pipeline is not listened to any more. The recording thread has ended. */
void feed_end(struct feed *f);

/* The other thread's. Waits for the next batch; NULL when nothing more comes. */
struct feed_batch *feed_take(struct feed *f);
void feed_give_back(struct feed *f, struct feed_batch *b);

/* From any thread: events that were left out. */
uint64_t feed_overruns(const struct feed *f);

/* session_feed.h - hands a recording's rows from the recording thread to the one that detects: a
 * bounded queue of batches. The recording thread copies rows and never waits; where the other is
 * too slow, events are left out and counted. Dictionary rows are never left out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "pipeline/pipeline.h"
#include "pipeline/tap.h"

#define FEED_BYTES (64u << 20) /* 700,000 calls: three seconds of 200,000 a second */

struct feed_thread {
	uint32_t index;
	struct m_thread row;
};

struct feed_name {
	uint32_t number;
	uint32_t text; /* where it begins in name_texts; a NUL ends it */
};

/* What came between two passes over the rings, or some of them. Dictionaries hold before the
 * events, threads_gone and names_gone after them. */
struct feed_batch {
	struct feed_batch *next;
	uint64_t upto_ns;  /* what ended before has come, but for what is late; 0 = not known */
	uint64_t overruns; /* events that were left out of this one */
	uint32_t first_string;
	VEC(uint32_t) string_ends; /* in texts; each is followed by a NUL */
	struct buf texts;
	VEC(struct m_probe) probes; /* in order of their numbers */
	VEC(struct feed_thread) threads;
	VEC(struct m_code) codes;    /* in order of their numbers */
	VEC(struct feed_name) names; /* numbers from NAME_FIRST on */
	struct buf name_texts;
	VEC(struct m_process) processes;
	VEC(struct m_comm) comms;
	VEC(struct m_gpu) gpus;
	VEC(struct m_loss) losses;
	VEC(struct m_call) calls;
	VEC(struct m_gpu_span) gpu_spans;
	VEC(struct m_counter) counters;
	VEC(struct m_sample) samples;
	VEC(uint32_t) threads_gone, names_gone;
};

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

/* pass.h - one thread's share of summing up: call blocks in, sums per function out.
 *
 * Threads share nothing but the function numbers; each block is summed
 * alone. What a block alone cannot know is the time inside a call whose children ended
 * in an earlier block. So for each (block, thread) the pass keeps an edge: the heads
 * (calls that may have such children) and the sums pending at its end; pass_join_edges
 * puts them together in order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/functions.h"
#include "analyze/recursion.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/hist.h"
#include "events/tables.h"

struct fn_sums {
	uint64_t calls, errors, nested, instants, open, unwound;
	uint64_t total_ns, max_ns;
	uint64_t inside_ns; /* spent in traced calls that these calls made */
	uint64_t again_ns;  /* of total_ns: calls inside others of the same function */
	bool from_histogram;
	struct hist durations;
	struct recursion_state recursion;
};

/* Time of finished calls that no recorded caller has claimed yet: of one, or of several that
 * followed each other. */
struct pending {
	uint64_t sum_ns;
	uint64_t first_start_ns;
	uint64_t last_end_ns;
};

#define PASS_MOST_PENDING 1024
#define PASS_MOST_TAILS	  64

struct edge_head {
	uint64_t start_ns;
	uint64_t unclaimed_ns; /* of its duration: not yet known to be in traced calls */
	uint32_t fn, same_fn;
	bool counted; /* false: its time is in a histogram, or its process is not wanted */
};

struct edge {
	uint32_t thread;
	uint32_t heads_len;
	uint64_t block;
	size_t heads; /* index of the first in the pass's lists */
	size_t tails;
	uint32_t tails_len;
	uint32_t recursion_tails_len;
	size_t recursion_tails;
};

struct edge_ref {
	const struct pass *pass;
	const struct edge *edge;
};

#define PASS_MAX_OPEN 65536

struct pass {
	const struct rec_tables *tables;
	const struct fn_ids *ids;
	const uint32_t *same_name;	/* probe -> the first one of its layer and name */
	const bool *thread_wanted;	/* NULL = all */
	uint8_t *const *thread_counted; /* per thread: bitmap of the probes whose calls are
					 * counted by histograms, or NULL; NULL = none at all */
	struct fn_sums **sums;		/* by function number; NULL = never called */
	uint64_t *thread_calls;
	VEC(struct edge) edges;
	VEC(struct edge_head) heads;
	VEC(struct pending) tails;
	struct pending pending[PASS_MOST_PENDING]; /* of the thread that is summed up */
	size_t pending_len;
	struct recursion recursion;
	VEC(struct m_call) open_calls;
	uint64_t open_calls_total;
	uint64_t first_ns, last_ns;
	uint64_t blocks_unread;
	struct err unread; /* why the first of them could not be read */
};

void pass_init(struct pass *p);
void pass_free(struct pass *p);

/* The sums of a function, made when it has none. */
struct fn_sums *pass_sums(struct pass *p, uint32_t fn);

/* Sums up one block of calls. */
void pass_block(struct pass *p, size_t block, const struct m_call *rows, size_t n);

/* Corrects inside_ns and again_ns in the first pass for calls whose children ended in earlier
 * blocks. */
void pass_join_edges(struct pass *passes, size_t n);

/* Takes from the end of a list of what ended, in the order of time, what is inside a call that
 * began at start_ns; returns its time. */
uint64_t pending_claim(struct pending *list, size_t *len, uint64_t start_ns);
/* Puts the older half together two by two; returns how many there are then. */
size_t pending_thin_out(struct pending *list, size_t len);

/* Adds the sums of b to those of a. */
void fn_sums_merge(struct fn_sums *a, const struct fn_sums *b);

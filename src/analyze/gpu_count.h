/* gpu_count.h - counts launches, copies, waits, collectives and errors as they are read.
 *
 * One for each worker; they share the context and are merged at the end. */
#pragma once

#include "analyze/gpu_addresses.h"
#include "analyze/gpu_graphs.h"
#include "analyze/gpu_roles.h"
#include "analyze/gpu_tally.h"

/* What the workers share, and do not change. */
struct gpu_count_context {
	const struct rec_tables *t;
	const struct gpu_probes *probes;
	const struct gpu_graphs *graphs;       /* NULL: not yet known */
	const struct gpu_addresses *addresses; /* likewise */
	uint32_t *comm_order;		       /* numbers of comms by pid, handle, start */
	uint64_t from_ns, to_ns;
	/* Launches and waits that the kernel has counted are taken from its histograms: which
	 * have no times, so not where a span of time is asked for. */
	bool histograms;
	struct map64 in_histogram; /* pid << 32 | probe */
};

struct gpu_kernel_count {
	uint32_t string; /* the kernel's name, or the launching function's */
	bool named;
	uint64_t launches, captured, total_ns;
	uint64_t first_ns, grid, block;
};

struct gpu_sync_count {
	uint64_t calls, total_ns, max_ns;
};

struct gpu_copy_count {
	uint64_t calls, captured, bytes, total_ns;
};

struct gpu_counts {
	VEC(struct gpu_kernel_count) kernels;
	uint32_t *kernel_of; /* by string: index into kernels + 1 */
	struct gpu_copy_count copies[GPU_COPY_CELLS];
	struct gpu_sync_count *syncs; /* by probe */
	struct gpu_tally collectives;
	struct gpu_tally errors;
	struct gpu_tally captured; /* as gpu_graphs_sum takes it */
	uint64_t *comm_calls, *comm_bytes;
	uint64_t *exec_launches; /* with graphs known */
	uint64_t graph_launches, graphs_unknown;
	bool asks_graphs, asks_addresses; /* a call needs what the context does not have yet */
};

/* to_ns 0: to the end. */
void gpu_count_context_make(struct gpu_count_context *x, const struct rec_tables *t,
			    const struct gpu_probes *probes, uint64_t from_ns, uint64_t to_ns);
void gpu_count_context_free(struct gpu_count_context *x);

void gpu_counts_init(struct gpu_counts *n, const struct gpu_count_context *x);
void gpu_counts_free(struct gpu_counts *n);

/* Counts one call, of any role and time. */
void gpu_count(struct gpu_counts *n, const struct gpu_count_context *x, const struct m_call *c);

/* Adds those of b to a. */
void gpu_counts_merge(struct gpu_counts *a, const struct gpu_counts *b,
		      const struct gpu_count_context *x);

/* Adds launches and waits of one kernel histogram. */
void gpu_count_histogram(struct gpu_counts *n, const struct gpu_count_context *x,
			 const struct m_hist *h);

/* The kernel's counts by its name, made when there are none. */
struct gpu_kernel_count *gpu_kernel_of(struct gpu_counts *n, uint32_t string);

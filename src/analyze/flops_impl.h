/* flops_impl.h - what the files that make struct flops share; not for others. */
#pragma once

#include <stdbool.h>

#include "analyze/flops.h"
#include "base/map64.h"

#define NO_CAPTURE UINT32_MAX

struct work_call {
	uint64_t start_ns, end_ns;
	struct flops_work work;
	uint32_t thread;
	uint32_t probe;
	uint32_t capture; /* that it became a part of instead of running, or NO_CAPTURE */
	uint32_t kernel;  /* string: name of the longest kernel */
	uint64_t kernel_ns;
	uint64_t device_ns;
	bool on_device; /* launched something */
};
typedef VEC(struct work_call) work_calls_t;

/* What is read of one. Durations beyond 18 minutes are cut. */
struct read_call {
	uint64_t start_ns;
	uint64_t dur_ns : 40;
	uint64_t format : 8; /* of flops_work, as the rest */
	uint64_t known : 1;
	uint64_t masked : 1; /* half of model is */
	double model, hardware;
	uint32_t thread;
	uint32_t probe;
};
_Static_assert(sizeof(struct read_call) == 40, "read_call has padding");
struct read_block {
	VEC(struct read_call) rows;
};

struct job {
	struct row_visitor visitor;
	struct flops *f;
	const struct row_source *source;
	const struct rec_tables *t;
	const struct timeline *timeline;
	struct flops_options o;
	struct flops_probe *probes;
	struct read_block *blocks;
	size_t nblocks;
	work_calls_t calls; /* by thread and start; disjoint */
	uint32_t
		*call_of; /* by call of the timeline: place in calls + 1, while kernels are found */
	struct map64 others; /* by string: places in f->others */
	/* Of what was counted: where the work of graphs and kernels began and ended. */
	uint64_t first_ns, last_ns;
};

static inline bool flops_in_range(const struct job *j, uint64_t start_ns)
{
	return start_ns >= j->o.from_ns && (!j->o.to_ns || start_ns < j->o.to_ns);
}

/* The call of the thread that was open at a moment, or NULL. */
struct work_call *flops_find_call(const struct job *j, uint32_t thread, uint64_t time_ns);

/* Adds what launches of CUDA graphs did to f->graphs and its sums, and marks the calls that were
 * captured. The calls are those of the whole recording: captures are made before they run. */
void flops_graphs_add(struct job *j, const struct row_source *s);

/* Fills f->activity from the counters between f->first_ns and f->last_ns. */
void flops_activity_read(struct flops *f, const struct row_source *s);

/* Adds to the sums of f. */
void flops_add_work(struct flops *f, uint8_t format, double model, double hardware);

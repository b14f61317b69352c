/* gpu.h - what a recording says of GPUs: kernels, copies, memory, collectives, telemetry.
 *
 * Goes by the roles of calls (m_probe.role, docs/catalog.md), so it knows no function by its
 * name. Times of calls are those of the host: how long a call took, not what it started.
 * Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/counters.h"
#include "base/buffer.h"
#include "base/error.h"
#include "events/visitor.h"

struct gpu_options {
	uint32_t pid; /* only this process; 0 = all */
	/* Only calls that begin in [from_ns, to_ns) count; memory and captures are followed from
	 * the beginning all the same. 0 = from the beginning, to the end. */
	uint64_t from_ns, to_ns;
	struct visit_options visit; /* of gpu_summary_make, and of second rounds */
};

struct gpu_kernel {
	const char *name; /* in full; of launches that name none, the launching function's */
	char *short_name;
	uint64_t launches;	/* calls that ran it: not the captured ones */
	uint64_t captured;	/* calls that put it into a graph instead */
	uint64_t graph_kernels; /* how often launches of graphs ran it */
	uint64_t total_ns;	/* of the launching calls */
	uint64_t grid, block;	/* of the first launch, packed as dim3_pack */
	bool named;
};

struct gpu_launches {
	uint64_t launches, captured, graph_kernels;
	uint64_t named;		 /* of launches and captured: those whose kernel's name is known */
	uint64_t graphs;	 /* launches of graphs */
	uint64_t graphs_unknown; /* of these: of graphs whose making was not seen */
};

enum gpu_direction {
	GPU_HTOD,
	GPU_DTOH,
	GPU_DTOD,
	GPU_HTOH,
	GPU_PTOP,
	GPU_UNIFIED, /* it cannot be told */
	GPU_DIRECTIONS,
};

struct gpu_copies {
	enum gpu_direction direction;
	bool set;   /* filled, not copied: there is no direction */
	bool async; /* on a stream */
	uint64_t calls, captured, graph_nodes_run;
	uint64_t bytes; /* of the calls and of the graph nodes that ran */
	uint64_t total_ns;
};

struct gpu_sync {
	const char *name;
	uint64_t calls, total_ns, max_ns;
};

struct gpu_collective {
	const char *function;
	const struct m_comm *comm; /* NULL unknown */
	uint32_t pid;
	char *datatype; /* NULL: the call tells none */
	uint64_t calls, bytes, total_ns;
};

struct gpu_comm {
	const struct m_comm *row;
	uint64_t calls, bytes;
};

struct gpu_source {
	const char *function;
	uint64_t bytes; /* its share of the peak */
	uint64_t count; /* allocations, those that were freed included */
};

/* Memory of one process on one device, or pinned memory of one process. */
struct gpu_memory {
	uint32_t pid;
	int32_t device; /* CUDA's number in the process; -1 unknown */
	uint64_t live_bytes;
	uint64_t peak_bytes, peak_ns;
	uint64_t allocs, frees;
	uint64_t leaked_bytes, leaked_count; /* live when the process ended */
	uint64_t unmatched_frees;	     /* of what was not seen being allocated */
	uint64_t unmatched_allocs; /* allocated again before a free was seen: the older one */
	VEC(struct gpu_source) sources;
};

struct gpu_error {
	const char *layer;
	const char *function;
	const char *name; /* NULL: the recording names no such code */
	int64_t code;
	uint64_t calls;
};

struct gpu_counter {
	const char *name;
	struct counter_sum sum;
};
typedef VEC(struct gpu_counter) gpu_counters_t;

struct gpu_device_process {
	uint32_t pid;
	gpu_counters_t counters;
};

struct gpu_device {
	uint32_t index;
	const struct m_gpu *row; /* NULL: only counters tell of it */
	const char *host;	 /* "" unless hosts were merged */
	gpu_counters_t counters;
	VEC(struct gpu_device_process) processes;
};

struct gpu_summary {
	VEC(struct gpu_kernel) kernels; /* by runs, most first */
	struct gpu_launches total;
	VEC(struct gpu_copies) copies;
	VEC(struct gpu_sync) syncs;		/* by time */
	VEC(struct gpu_collective) collectives; /* by bytes */
	VEC(struct gpu_comm) comms;
	VEC(struct gpu_memory) memory; /* by pid and device */
	VEC(struct gpu_memory) pinned;
	VEC(struct gpu_error) errors; /* by calls */
	VEC(struct gpu_device) devices;
	VEC(struct m_event) events; /* in order of time */
};

/* What it returns points into the source's tables. *ret is made when the visitor ends; where calls
 * were captured into graphs, or copies tell no direction, it then goes through the calls again. */
struct row_visitor *gpu_summary_visitor(struct gpu_summary *ret, const struct row_source *s,
					const struct gpu_options *options);
void gpu_summary_make(struct gpu_summary *ret, const struct row_source *s,
		      const struct gpu_options *options);
void gpu_summary_free(struct gpu_summary *s);

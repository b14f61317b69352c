/* timeline.h - what the host gave to the GPU and what the GPU did of it, put together.
 *
 * Loads all GPU spans of a recording and the calls that start, wait for or order GPU work (by
 * their roles, docs/catalog.md), and finds for each span the call that started it: of one process
 * CUPTI's correlation numbers and calls are in the same order (src/analyze/timeline_match.c says
 * how what is missing on either side is told). Calls that failed are left out, and so are those
 * that were captured into a graph: they start nothing, the graph's launch does. It draws no
 * conclusions: those are drawn by gpu_gaps.h, gpu_transfers.h, collectives.h, steps.h.
 *
 * Memory: about 100 bytes a span and 80 a call. Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/gpu_roles.h"
#include "base/buffer.h"
#include "recording/recording.h"

#define TIMELINE_NONE UINT32_MAX

/* A call of the roles launch, graph_launch, copy, set, sync, collective, p2p, nccl_group. Of a
 * group there are two: the one that ends it waits for it to be enqueued, and is the parent. */
struct timeline_call {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t stream;      /* handle, as the call gives it */
	uint64_t bytes;	      /* of copies, sets and collectives */
	uint64_t comm;	      /* of collectives: handle */
	uint64_t sequence;    /* of collectives: the communicator's count, from 0 */
	uint64_t grid, block; /* of launches, as dim3_pack; 0 unknown */
	uint32_t pid;
	uint32_t thread; /* index into the thread table */
	uint32_t probe;
	uint32_t stack;
	uint32_t name;	     /* string: of launches the kernel's, mangled as recorded */
	uint32_t parent;     /* call of role collective, p2p or nccl_group that it was made in, else
			      * TIMELINE_NONE; a collective's is its group */
	uint32_t first_span; /* into by_call; what the call started, in order of start */
	uint32_t spans;
	int32_t partner;  /* of collectives: the root or the peer, INT32_MIN = none */
	int16_t datatype; /* of collectives: ncclDataType_t, -1 = the call tells none */
	bool captured;	  /* of collectives: into a graph, it started nothing */
	uint8_t role;	  /* enum gpu_role */
	uint8_t flags;	  /* enum call_flags of wire/event.h */
};

struct timeline_span {
	struct m_gpu_span row;
	uint32_t call; /* that started it, of WORK_SYNC that waited; TIMELINE_NONE: it was not
			* recorded */
};

struct timeline {
	const struct rec_tables *tables;
	struct gpu_probes probes;
	VEC(struct timeline_call) calls; /* by pid, then start */
	VEC(struct timeline_span) spans; /* by pid, then start */
	VEC(uint32_t) by_call;		 /* numbers of spans: see timeline_call.first_span */
	/* Waits are not counted in these. */
	uint64_t matched_spans;
	uint64_t unmatched_spans; /* started by calls that were not recorded */
	uint64_t unmatched_calls; /* launches, of graphs too, of which no span was recorded */
	/* Of both: launched before or after calls of the process were traced, or while the GPU's
	 * work was not. Told by the first and last of the other kind. */
	uint64_t outside_spans, outside_calls;
	uint64_t early_spans;	    /* of the matched: begin before their call, which cannot be */
	uint64_t first_ns, last_ns; /* of the spans; 0 without */
};

struct timeline_options {
	uint32_t pid; /* only this process; 0 = all */
	uint64_t from_ns,
		to_ns;	  /* only spans that begin then; 0 = from the beginning, to the end */
	unsigned threads; /* 0 = one for each CPU */
	/* Makes a readable name of a mangled one, malloc'ed. NULL: kernels whose spans have
	 * mangled names are matched without regard to their names. */
	char *(*demangle)(const char *name, int params);
};

/* What it returns points into the reader's tables. Blocks that cannot be read are left out. */
void timeline_make(struct timeline *ret, const struct rec_reader *r,
		   const struct timeline_options *options);
void timeline_free(struct timeline *t);

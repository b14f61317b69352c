/* timeline.h - what the host gave to the GPU and what the GPU did of it, put together.
 *
 * Loads all GPU spans of a recording and the calls that start, wait for or order GPU work (by
 * their roles, docs/catalog.md), and finds for each span the call that started it: of one process
 * CUPTI's correlation numbers and calls are in the same order (src/analyze/timeline_match.c says
 * how what is missing on either side is told). Calls that failed are left out, and so are those
 * that were captured into a graph: they start nothing, the graph's launch does. It draws no
 * conclusions: those are drawn by gpu_gaps.h, gpu_transfers.h, collectives.h, steps.h.
 *
 * Memory: 32 bytes a span and a call, 80 for each kind of them; more for a while, as lists are
 * sorted and matched. Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/gpu_roles.h"
#include "base/buffer.h"
#include "events/visitor.h"

#define TIMELINE_NONE UINT32_MAX

/* What many calls have in common. Two kinds may be alike. */
struct timeline_call_kind {
	uint64_t stream;      /* handle, as the call gives it */
	uint64_t bytes;	      /* of copies, sets and collectives */
	uint64_t comm;	      /* of collectives: handle */
	uint64_t sequence;    /* of collectives: the communicator's count, from 0 */
	uint64_t grid, block; /* of launches, as dim3_pack; 0 unknown */
	uint32_t pid;
	uint32_t thread; /* index into the thread table */
	uint32_t probe;
	uint32_t stack;
	uint32_t name;	  /* string: of launches the kernel's, mangled as recorded */
	int32_t partner;  /* of collectives: the root or the peer, INT32_MIN = none */
	int16_t datatype; /* of collectives: ncclDataType_t, -1 = the call tells none */
	uint8_t role;	  /* enum gpu_role */
	uint8_t flags;	  /* enum call_flags of wire/event.h */
	uint8_t zero[4];  /* kinds are compared as bytes */
};

/* A call of the roles launch, graph_launch, copy, set, sync, collective, p2p, nccl_group. Of a
 * group there are two: the one that ends it waits for it to be enqueued, and is the parent. */
struct timeline_call {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t kind;	     /* into call_kinds; see timeline_call_kind */
	uint32_t parent;     /* call of role collective, p2p or nccl_group that it was made in, else
			      * TIMELINE_NONE; a collective's is its group */
	uint32_t first_span; /* into by_call; what the call started, in order of start */
	uint32_t spans : 31;
	uint32_t captured : 1; /* of collectives: into a graph, it started nothing */
};
_Static_assert(sizeof(struct timeline_call) == 32, "a call is small");

/* What many spans have in common; fields as those of struct m_gpu_span. Two kinds may be alike. */
struct timeline_kind {
	uint64_t bytes;
	uint64_t grid, block;
	uint64_t called_ns; /* where span.called_before does not tell it; 0 unknown */
	uint32_t pid;
	int32_t device;
	uint32_t context;
	uint32_t stream;
	uint32_t name;
	uint32_t called_tid;
	uint8_t work;
	uint8_t copy_kind;
	uint8_t source_kind;
	uint8_t destination_kind;
	uint8_t async;
	bool of_graph;	 /* a node of one, or a whole one */
	uint8_t zero[2]; /* kinds are compared as bytes */
};

struct timeline_span {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t correlation;
	uint32_t call; /* that started it, of WORK_SYNC that waited; TIMELINE_NONE: it was not
			* recorded */
	uint32_t kind; /* into kinds; see timeline_kind_of */
	uint32_t
		called_before; /* ns from the driver's call to its start, + 1; 0 = the kind tells */
};

struct timeline {
	const struct rec_tables *tables;
	struct gpu_probes probes;
	VEC(struct timeline_call) calls; /* by pid, then start */
	VEC(struct timeline_span) spans; /* by pid, then start */
	VEC(struct timeline_kind) kinds; /* of spans */
	VEC(struct timeline_call_kind) call_kinds;
	VEC(uint32_t) by_call; /* numbers of spans: see timeline_call.first_span */
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
		to_ns; /* only spans that begin then; 0 = from the beginning, to the end */
	/* Makes a readable name of a mangled one, malloc'ed. NULL: kernels whose spans have
	 * mangled names are matched without regard to their names. */
	char *(*demangle)(const char *name, int params);
};

/* What it returns points into the source's tables. *ret is made when the visitor ends. Blocks that
 * cannot be read are left out. */
struct row_visitor *timeline_visitor(struct timeline *ret, const struct row_source *s,
				     const struct timeline_options *options);
void timeline_make(struct timeline *ret, const struct row_source *s,
		   const struct timeline_options *options);
void timeline_free(struct timeline *t);

static inline const struct timeline_kind *timeline_kind_of(const struct timeline *t,
							   const struct timeline_span *s)
{
	return &t->kinds.data[s->kind];
}

static inline const struct timeline_call_kind *timeline_call_kind_of(const struct timeline *t,
								     const struct timeline_call *c)
{
	return &t->call_kinds.data[c->kind];
}

/* It returns when the GPU has done something: a wait for it, or a copy without a stream. */
static inline bool timeline_call_waits(const struct timeline *t, const struct timeline_call_kind *k)
{
	return k->role == GPU_SYNC ||
	       (k->role == GPU_COPY && t->probes.rows[k->probe].arg[GPU_ARG_STREAM] < 0);
}

/* The driver's call that started it, as CUPTI saw it; 0 unknown. */
static inline uint64_t timeline_called_ns(const struct timeline *t, const struct timeline_span *s)
{
	return s->called_before ? s->start_ns + 1 - s->called_before
				: timeline_kind_of(t, s)->called_ns;
}

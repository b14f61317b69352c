/* operators.h - GPU time by operator, forward and backward.
 *
 * A kernel, copy or set belongs to the innermost operator that was open on the thread that
 * launched it. Inside of a node of a backward pass it belongs to the operator that made the node
 * (autograd.h), by the node's name where that operator was not recorded. So each is counted once;
 * what was launched outside of operators is in outside_ns. Does no output. */
#pragma once

#include <stdint.h>

#include "analyze/timeline.h"

struct operator_time {
	char *name;			  /* "aten::addmm", or a node's: "AccumulateGrad" */
	uint64_t calls;			  /* of the operator, also those that started nothing */
	uint64_t nodes;			  /* of its backward passes */
	uint64_t forward_ns, backward_ns; /* on the GPU */
	uint64_t forward_spans, backward_spans;
};

struct operators {
	VEC(struct operator_time) rows; /* by GPU time, longest first; only those with some */
	uint64_t outside_ns;		/* of matched spans: launched outside of operators */
	uint64_t unmatched_ns;		/* of spans whose call was not recorded */
	uint64_t backward_ns;		/* of the rows */
	uint64_t linked_ns;		/* of backward_ns: of nodes whose operator was recorded */
	bool nodes_missing; /* there are backward passes, none of their nodes: all is forward */
};

/* pid as in timeline_options. t is complete before the visitor ends, which makes *ret. */
struct row_visitor *operators_visitor(struct operators *ret, const struct row_source *s,
				      const struct timeline *t, uint32_t pid);
void operators_make(struct operators *ret, const struct row_source *s, const struct timeline *t,
		    uint32_t pid);
void operators_free(struct operators *o);

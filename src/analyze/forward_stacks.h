/* forward_stacks.h - which stack of the forward pass the work of a backward pass belongs under.
 *
 * A node of a backward pass runs on a thread of PyTorch's own, without Python on its stack. The
 * operator that made it (autograd.h) was called by the job's code: a stack that was taken within
 * the operator says from where. Only some calls carry one. Where none in the operator does, that
 * of the same operator of another step is taken: the one at the same place of a pass with the
 * same operators and nodes. Where that has none either, that of the same operator with the same
 * neighbours is taken, as the layers of a model have it: if nearly all such operators that have a
 * stack were called from the same line. Nodes without an operator have no stack here. Does no
 * output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "events/visitor.h"

struct forward_stack {
	uint32_t stack; /* down to the operator, or else to the innermost Python frame; 0: none */
	uint32_t operator_name; /* string: the operator's name where the stack ends above it; else 0
				 */
	uint32_t node;		/* string: "AddmmBackward0" */
};

struct forward_stacks;

/* pid: only this process, 0 = all. NULL where no backward pass is recorded. options may be NULL. */
struct forward_stacks *forward_stacks_new(const struct row_source *s, uint32_t pid,
					  const struct visit_options *options);
void forward_stacks_free(struct forward_stacks *f);

/* That of the node which the thread was in at a moment; NULL: it was in none, or the node's
 * operator or its stack are not known. */
const struct forward_stack *forward_stack_of(const struct forward_stacks *f, uint32_t thread,
					     uint64_t time_ns);

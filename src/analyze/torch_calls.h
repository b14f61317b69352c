/* torch_calls.h - PyTorch's operators, the nodes of its backward passes, and these passes: what
 * operators.h and autograd.h go through.
 *
 * Memory: 24 bytes an operator or node, 16 more a node. */
#pragma once

#include "base/buffer.h"
#include "events/visitor.h"

#define TORCH_NO_NODE UINT32_MAX

/* An operator, or a node. Durations beyond 18 minutes are cut. */
struct torch_call {
	uint64_t start_ns;
	uint64_t dur_ns : 40;
	uint64_t probe : 24;
	uint32_t thread;
	uint32_t node; /* into nodes; TORCH_NO_NODE: it is an operator */
};
_Static_assert(sizeof(struct torch_call) == 24, "torch_call has padding");

struct torch_node {
	uint32_t name; /* string */
	bool numbered;
	uint64_t sequence; /* where it is numbered */
};

struct torch_pass {
	uint64_t start_ns, end_ns;
	uint32_t pid;
};

struct torch_calls {
	const struct rec_tables *tables;
	VEC(struct torch_call) rows; /* by thread, then start; the outer one first */
	size_t *first;		     /* by thread: its first row; one more: how many there are */
	VEC(struct torch_node) nodes;
	VEC(struct torch_pass) passes;
	bool nodes_missing; /* there are passes, none of their nodes */
};

static inline uint64_t torch_call_end(const struct torch_call *c)
{
	return c->start_ns + c->dur_ns;
}

/* pid: only this process, 0 = all. done is called when *ret is there; it is the caller's to free.
 */
struct row_visitor *torch_calls_visitor(struct torch_calls *ret, const struct row_source *s,
					uint32_t pid, void (*done)(void *ctx), void *ctx);
void torch_calls_free(struct torch_calls *c);

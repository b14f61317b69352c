/* recursion.h - the time of calls inside calls of the same function, which the function's total is
 * not to have twice. Internal to pass.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct pass;
struct edge_ref;

/* A counted call of the thread that is summed up, in the order of their ends. */
struct recursion_call {
	uint64_t start_ns, end_ns;
	uint32_t fn;
};

/* Calls of a function that are in no other call of it in their block. The latest stand alone, all
 * before them together. */
struct recursion_tail {
	uint64_t sum_ns, first_start_ns, last_end_ns;
	uint32_t fn;
};
#define RECURSION_TAILS 8 /* of a function in a block */

/* Of a function, while the calls of a thread are gone through from the last one on. */
struct recursion_state {
	uint32_t open;	  /* calls of it around the one at hand */
	uint32_t tails;	  /* of it, in this block */
	size_t last_tail; /* index in the list */
};

struct recursion {
	VEC(struct recursion_call) calls;
	VEC(struct recursion_tail) tails;
	VEC(uint32_t) around; /* functions of the calls around the one at hand, outermost first, */
	VEC(uint64_t) starts; /* and when they began */
};

void recursion_free(struct recursion *r);

/* Of the thread that is summed up, all at once: the tails of its calls, the last one first. */
void recursion_end_segment(struct pass *p);

/* Calls of one block around those of earlier ones: edges by thread and block. */
void recursion_join(struct pass *into, const struct edge_ref *refs, size_t n);

/* gpu_lines.h - GPU time by the Python line that it was started from, that of backward passes by
 * the line of their forward operators.
 *
 * The line is the innermost on the stack that is of the job's own code; where there is none, of
 * the innermost library's. Only some launches carry their stack and stand for the others
 * (flame.h), so the times are estimates that sum to all GPU work. Does no output. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/calltree.h"
#include "events/visitor.h"

struct gpu_lines_options {
	uint32_t pid;		 /* only this process; 0 = all */
	uint64_t from_ns, to_ns; /* on the recording's clock, [from, to); 0 = all */
	char *(*demangle)(const char *name, int params);
};

struct gpu_line {
	const char *name; /* "forward (model.py:12)" */
	const char *file; /* the whole path */
	uint32_t line;	  /* 0 unknown */
	uint64_t forward_ns, backward_ns;
};

struct gpu_lines {
	VEC(struct gpu_line) rows; /* by both times, longest first */
	uint64_t total_ns;	   /* of all GPU work */
	uint64_t elsewhere_ns;	   /* of that: without Python on its stack, or without a stack */
	struct calltree tree;	   /* holds the names */
};

/* Without GPU times, or without stacks, there are no rows. */
void gpu_lines_make(struct gpu_lines *ret, const struct row_source *s,
		    const struct gpu_lines_options *options);
void gpu_lines_free(struct gpu_lines *l);

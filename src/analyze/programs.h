/* programs.h - the processes of a recording put together by the program that they ran.
 *
 * Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/summary.h"
#include "base/buffer.h"
#include "events/visitor.h"

/* What a process calls itself; where that is cut, its executable's name. */
const char *process_program(const struct rec_tables *t, const struct m_process *p);

struct program {
	char *name;	    /* "cc1plus" */
	uint64_t processes; /* that ran it last */
	uint64_t threads, calls;
	uint64_t cpu_ns;	     /* of those of which it is known */
	uint64_t cpu_unknown;	     /* processes of which it is not */
	uint64_t longest_ns;	     /* of their lives, as far as they are in the recording */
	uint32_t pid;		     /* of the first */
	int32_t rank_low, rank_high; /* -1: none is known */
};

struct programs {
	VEC(struct program) list; /* by CPU time, most first; then by processes */
	uint64_t processes;
	uint64_t cpu_ns;
	uint64_t elsewhere_ns;	  /* of it, that of all processes but the first */
	uint64_t *process_cpu_ns; /* by process of the summary; UINT64_MAX unknown */
};

/* end_ns: when the recording ended. What a process used is told as it ends, and as the recording
 * does; where it was not, it is the mean of its counters times its life. */
void programs_make(struct programs *ret, const struct row_source *s, const struct summary *summary,
		   uint64_t end_ns);
void programs_free(struct programs *p);

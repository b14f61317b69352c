/* programs.h - the processes of a recording put together by the program that they ran.
 *
 * Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/summary.h"
#include "base/buffer.h"
#include "events/visitor.h"

/* One of eACGM's own processes, which a recording of the whole host or of a cgroup has as well: no
 * part of the job. False for recordings of before they said so. */
bool process_is_own(const struct rec_tables *t, const struct m_process *p);
/* By thread, whether it is of such a process; to be freed. */
bool *threads_of_own_processes(const struct rec_tables *t);

/* What a process calls itself; where that is cut, its executable's name; FLAME_OWN of our own. */
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
	struct program own;	  /* eACGM's own processes, in none of the above; has no name */
	uint64_t *process_cpu_ns; /* by process of the summary; UINT64_MAX unknown */
};

/* end_ns: when the recording ended. What a process used is told as it ends, and as the recording
 * does; where it was not, it is the mean of its counters times its life. */
void programs_make(struct programs *ret, const struct row_source *s, const struct summary *summary,
		   uint64_t end_ns);
void programs_free(struct programs *p);

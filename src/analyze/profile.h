/* profile.h - what a recording's samples say: functions of all languages by CPU time, waits by
 * reason, and how many of the stacks are whole.
 *
 * Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/calltree.h"
#include "events/visitor.h"

struct profile_options {
	uint32_t pid;	  /* only this process; 0 = all */
	uint64_t from_ns; /* on the recording's clock, [from, to); 0 = from the beginning, to the
			     end */
	uint64_t to_ns;
};

struct profile_function {
	const char *name;    /* "matmul", "train (train.py)" */
	const char *file;    /* source file, "" unknown */
	const char *library; /* path of the binary, "" unknown or Python */
	uint8_t kind;	     /* enum calltree_kind */
	uint64_t self_ns;
	uint64_t total_ns; /* with all that it called; once a stack, however often it is on it */
};

/* Why stacks are not whole. */
struct profile_end {
	const char *reason;
	uint64_t samples;
};

struct profile_wait {
	const char *reason;
	uint64_t waits;
	uint64_t total_ns;
};

struct profile {
	uint64_t samples; /* of CPU time */
	uint64_t total_ns;
	uint64_t period_ns;
	uint64_t whole;				/* of the samples: reach the thread's start */
	uint64_t guessed;			/* with a frame that has no unwind rules */
	VEC(struct profile_end) ends;		/* of the others; most first */
	VEC(struct profile_function) functions; /* by own time, most first */
	uint64_t waits, waited_ns;
	VEC(struct profile_wait) reasons; /* by time */
	struct calltree tree;		  /* holds the names */
};

/* Without samples, all of it is 0. */
void profile_make(struct profile *ret, const struct row_source *source,
		  const struct profile_options *options);
void profile_free(struct profile *p);

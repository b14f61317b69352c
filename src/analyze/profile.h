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

/* Whose code a function is, from what its user wrote to what is always there. */
enum profile_code {
	PROFILE_USER,	 /* Python that is no library's; of a program without Python its own */
	PROFILE_LIBRARY, /* Python of packages and of the standard library */
	PROFILE_NATIVE,	 /* libraries, operators, the operating system */
	PROFILE_START,	 /* starts programs and threads, enters the kernel, runs Python */
	PROFILE_CODES,
};
#define PROFILE_CODE_NAMES                                                                         \
	{                                                                                          \
		"user", "library", "native", "start"                                               \
	}
#define PROFILE_INTERPRETER "[python interpreter]" /* all of its own functions */

struct profile_function {
	const char *name;    /* "matmul", "train (train.py)" */
	const char *file;    /* source file, "" unknown */
	const char *library; /* path of the binary, "" unknown or Python */
	uint32_t line;	     /* of Python: where it spent most time; 0 unknown */
	uint8_t kind;	     /* enum calltree_kind */
	uint8_t code;	     /* enum profile_code */
	uint64_t self_ns;
	uint64_t total_ns; /* with all that it called; once a stack, however often it is on it */
};

/* Why stacks are not whole. */
#define PROFILE_NOT_TAKEN "not_taken" /* a reason: there is no stack */
struct profile_end {
	const char *reason;
	uint64_t samples;
	const char *library; /* whose code most of them stop in; "" unknown */
	uint64_t library_samples;
};

struct profile_wait {
	const char *reason;
	uint64_t waits;
	uint64_t total_ns;
};

struct profile {
	uint64_t samples;  /* of CPU time */
	uint64_t total_ns; /* the job's own: without own_ns */
	uint64_t own_ns;   /* probes at work on its stacks */
	uint64_t period_ns;
	uint64_t no_stack;			/* of the samples: their stacks were not taken */
	uint64_t whole;				/* of the others: reach the thread's start */
	uint64_t guessed;			/* with a frame that has no unwind rules */
	VEC(struct profile_end) ends;		/* of those that are not whole; most first */
	VEC(struct profile_function) functions; /* by own time, most first */
	uint64_t waits, waited_ns;
	uint64_t waits_no_stack, waited_no_stack_ns; /* of them: short ones, or too many */
	VEC(struct profile_wait) reasons;	     /* by time */
	struct calltree tree;			     /* holds the names */
};

/* in_program: native code of a program that was recorded, and there is no Python. */
enum profile_code profile_code_of(const struct profile_function *f, bool in_program);

/* Whether a Python file is Python's own library, installed beside it, or made by PyTorch. */
bool profile_is_library(const char *file);

/* Without samples, all of it is 0. */
void profile_make(struct profile *ret, const struct row_source *source,
		  const struct profile_options *options);
void profile_free(struct profile *p);

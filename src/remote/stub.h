/* stub.h - the code that a process is made to run. Internal to this folder.
 *
 * Two pieces: the first is where the redirected thread goes on, the second where the thread
 * begins that it starts. Nothing in them depends on where they lie. */
#pragma once

#include "base/buffer.h"

/* Written by the process and by us, in the tail of a data segment. */
struct stub_words {
	uint64_t magic;
	uint64_t code;	/* where the stub lies */
	uint64_t tid;	/* that may have been redirected, 0 = none yet */
	uint64_t begun; /* by the first piece, as its last act but the return: 1 + pthread_create's
			 * result */
	uint64_t entered; /* REMOTE_ENTERED by the library, STUB_FAILED by the second piece */
	uint64_t
		error; /* a copy of what dlerror said, 0 where it said nothing; it stays, some
			* hundred bytes of the process's heap for each library that does not load */
};
#define STUB_MAGIC  0x31425553474d4341ULL /* "ACMGSUB1" */
#define STUB_FAILED 2

/* Addresses in the process. */
struct stub_plan {
	uint64_t code;
	uint64_t words;
	uint64_t pthread_create, pthread_detach, dlopen, dlsym, dlerror, strdup;
	const char *library, *entry, *argument;
};

/* The stub's bytes, for the address plan->code. */
void stub_build(struct buf *ret, const struct stub_plan *plan);

/* Where in them the address goes to which the first piece returns. */
size_t stub_return_offset(void);

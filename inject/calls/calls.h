/* calls.h - what the files of libeacgm_calls.so share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/call_ring.h"

/* A thread's slot, and what it alone has to know. In memory of its own, of which a pointer lies in
 * the thread's storage. */
struct call_thread {
	struct call_slot *slot; /* NULL: it has none, and its calls are not recorded */
	uint64_t *ring;		/* of CALL_RING_BYTES */
	uint64_t busy;		/* the stack pointer of who is at work here, 0 = nobody */
	uint64_t stack_low, stack_high;
	uint64_t random;	    /* never 0 */
	struct call_header *header; /* of the process's file */
	bool used;		    /* this struct */
};

extern __thread struct call_thread *calls_own
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* At a thread's first call: gives it a slot. NULL where there is none; it is asked again. It calls
 * libc, and leaves errno. */
struct call_thread *calls_begin_thread(void);
struct call_thread *calls_begin_thread_apart(void); /* entry.S */

/* A thread's ring was full: looks now and then whether eacgm is still there; where it is not,
 * nothing is recorded from here on. */
void calls_look_for_eacgm(struct call_thread *t, uint64_t now);

/* calls.h - what the files of libeacgm_calls.so share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/call_ring.h"

/* A thread's slot, and what it alone has to know. It lies where a forked child, however it was
 * made, finds zeros. */
struct call_thread {
	/* what every call reads, in one line of the cache */
	struct call_slot *slot;	    /* NULL: its calls are not recorded */
	struct call_header *header; /* of the process's file; NULL: it is a forked child's */
	uint64_t *ring;		    /* of CALL_RING_BYTES */
	uint64_t busy;		    /* the stack pointer of who is at work here, 0 = nobody */
	uint64_t stack_low, stack_high;
	uint32_t untimed;      /* calls since one was timed */
	uint32_t generation;   /* calls_generation, when it began */
	uint64_t random;       /* never 0 */
	uint16_t *hists;       /* of CALL_HISTS_INDEX, and the histograms behind them */
	uint32_t hists_room;   /* so many have blocks, and so do those before them */
	bool hists_full;       /* there are no more blocks */
	bool used;	       /* this struct */
	uint32_t python_depth; /* open calls of Python functions, */
	uint32_t python_room;  /* and room for those past CALL_PYTHON_OPEN */
	struct call_python_open *python_deep;
} __attribute__((aligned(64)));
_Static_assert(__builtin_offsetof(struct call_thread, hists) == 64, "a line");

#define CALL_SITES_BYTES (CALL_SITES_MOST * sizeof(struct call_site))
extern struct call_site eacgm_call_sites[CALL_SITES_MOST];

extern __thread struct call_thread *calls_own; /* -ftls-model=initial-exec: no call of libc */

/* Of the process's file; NULL: there is none. */
extern struct call_header *eacgm_call_header;

/* What eacgm says to all; there where the file is. */
extern const struct call_settings *calls_settings;

/* Whether the thread runs on an alternate signal stack now: a system call. */
__attribute__((cold)) bool calls_on_signal_stack(void);

/* How often an eacgm came to the process while it ran; and the last for which the thread has asked
 * for a slot. */
extern uint32_t calls_generation;
extern __thread uint32_t calls_asked;

/* At a thread's first call: gives it a slot, or the one struct of those who have none. NULL: it is
 * to be asked again. It calls libc, of which nothing that allocates, leaves errno and the registers
 * of vectors, and is no cancellation point. */
__attribute__((cold)) struct call_thread *calls_begin_thread(void);

/* Counts a call of a thread that has no slot. */
__attribute__((cold)) void calls_count_slotless(void);

/* A thread's ring was full, or it fills none: looks now and then whether eacgm is still there;
 * where it is not, nothing is recorded from here on. As calls_begin_thread otherwise. */
__attribute__((cold)) void calls_look_for_eacgm(struct call_thread *t, uint64_t now);

/* Gives the thread's histograms from `first` on blocks, and before the first ones their index.
 * False: there is no room, and none will be asked for again. As calls_begin_thread otherwise. */
bool calls_more_hists(struct call_thread *t, uint32_t first, uint32_t n);

/* A thread ends: what it has open has left. */
void calls_drop_all(struct call_thread *t);

/* entry.S: calls it with the registers of vectors kept. */
void calls_apart(void (*function)(void *), void *argument, bool has_xsave);

/* python_calls.c: the same of open calls of Python functions; and, in a forked child, its parent's
 * codes are to be told again. */
void python_drop_all(struct call_thread *t);
void python_begin_child(void);

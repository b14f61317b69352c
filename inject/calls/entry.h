/* entry.h - the frame that entry.S makes, for it and for C. */
#pragma once

#define FRAME_ARGS	   0
#define FRAME_RAX	   48
#define FRAME_R10	   56
#define FRAME_SITE	   64
#define FRAME_TOKEN	   72
#define FRAME_RESULT	   80
#define FRAME_SAVED	   104
#define FRAME_RETURN	   120
#define FRAME_STACK	   128
#define SITE_STACK_WORDS   12
#define SITE_FUNCTION	   24
#define CALL_ISLANDS_BYTES (8192 * 128)

/* x87, SSE, AVX and AVX-512: Intel's manual, volume 1, 13.1, and the largest layout of these. */
#define XSAVE_PARTS 0xe7
#define XSAVE_BYTES 2752

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

#include "wire/call_ring.h"

struct call_frame {
	uint64_t args[6]; /* as the function got them */
	uint64_t rax, r10;
	const struct call_site *site;
	uint64_t token;	    /* of who is open, from 1 on, and the thread's generation above; 0: the
			     * call is not recorded */
	uint64_t result[2]; /* before the call: the first is its mark */
	uint64_t began;	    /* as of the open call; of those that switch stacks */
	uint64_t rbp;
	uint64_t r11;
	uint64_t return_address;
	uint64_t stack[]; /* arguments */
};
_Static_assert(offsetof(struct call_frame, args) == FRAME_ARGS &&
		       offsetof(struct call_frame, rax) == FRAME_RAX &&
		       offsetof(struct call_frame, r10) == FRAME_R10 &&
		       offsetof(struct call_frame, site) == FRAME_SITE &&
		       offsetof(struct call_frame, token) == FRAME_TOKEN &&
		       offsetof(struct call_frame, result) == FRAME_RESULT &&
		       offsetof(struct call_frame, rbp) == FRAME_SAVED &&
		       offsetof(struct call_frame, return_address) == FRAME_RETURN &&
		       offsetof(struct call_frame, stack) == FRAME_STACK,
	       "as entry.S has it");
_Static_assert(offsetof(struct call_site, stack_words) == SITE_STACK_WORDS &&
		       offsetof(struct call_site, original) == 0 &&
		       offsetof(struct call_site, function) == SITE_FUNCTION &&
		       CALL_ISLANDS_BYTES == CALL_SITES_MOST * CALL_ISLAND_BYTES,
	       "as entry.S has it");

/* Negative: the call's stack is to be taken. */
int calls_enter(struct call_frame *f);
void calls_leave(const struct call_frame *f);

#endif

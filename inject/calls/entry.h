/* entry.h - the frame that entry.S makes, for it and for C. */
#pragma once

#define FRAME_ARGS	   0
#define FRAME_RAX	   48
#define FRAME_R10	   56
#define FRAME_SITE	   64
#define FRAME_TOKEN	   72
#define FRAME_RESULT	   80
#define FRAME_SAVED	   96 /* then the caller's rbp, the return address, arguments */
#define FRAME_RETURN	   104
#define SITE_STACK_WORDS   12
#define SITE_FUNCTION	   24
#define CALL_ISLANDS_BYTES (8192 * 128)

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

#include "wire/call_ring.h"

struct call_frame {
	uint64_t args[6]; /* as the function got them */
	uint64_t rax, r10;
	const struct call_site *site;
	uint64_t token;	    /* of who is open, from 1 on */
	uint64_t result[2]; /* before the call: the first is its mark */
	uint64_t rbp;
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
		       offsetof(struct call_frame, return_address) == FRAME_RETURN,
	       "as entry.S has it");
_Static_assert(offsetof(struct call_site, stack_words) == SITE_STACK_WORDS &&
		       offsetof(struct call_site, original) == 0 &&
		       offsetof(struct call_site, function) == SITE_FUNCTION &&
		       CALL_ISLANDS_BYTES == CALL_SITES_MOST * CALL_ISLAND_BYTES,
	       "as entry.S has it");

/* 0: the call is not recorded; 1: it is; negative: it is, and its stack is to be taken. */
int calls_enter(struct call_frame *f);
void calls_leave(const struct call_frame *f);

#endif

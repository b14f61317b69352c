/* inside_stacks.h - what lies on the stacks of threads that are held, read while they stand still:
 * in as few system calls as that takes. Knows nothing of what is looked for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/hold.h"

#define INSIDE_STACK_BYTES    16384 /* of a thread, from its stack pointer on */
#define INSIDE_STACKS_AT_ONCE 64
#define INSIDE_STACKS_ROOM    (INSIDE_STACKS_AT_ONCE * INSIDE_STACK_BYTES)

/* Visits the words of each thread's stack, as many as are mapped; who has none there is left out.
 * memory: /proc/PID/mem, for what the quick way is refused. room: of INSIDE_STACKS_ROOM bytes.
 * False: a stack could not be read, and what lies on it is not known. */
bool inside_stacks_visit(const struct hold_thread *threads, size_t n, int memory, void *room,
			 void (*visit)(void *ctx, const uint64_t *words, size_t n), void *ctx);

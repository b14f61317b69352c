/* inside_stacks.h - what lies on the stacks of threads that are held, read while they stand still:
 * as few system calls as that takes. Knows nothing of what is looked for. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "remote/hold.h"
#include "symbolize/proc_maps.h"

#define INSIDE_STACK_BYTES 16384 /* of a thread, from its stack pointer on */

/* Visits the words of each thread's stack, as many as can be read of it; who has none that can is
 * left out. maps: those of the process some time before, by which one call reads all; what they do
 * not know costs a call each. room: of INSIDE_STACKS_ROOM bytes. */
#define INSIDE_STACKS_AT_ONCE 64
#define INSIDE_STACKS_ROOM    (INSIDE_STACKS_AT_ONCE * INSIDE_STACK_BYTES)
void inside_stacks_visit(pid_t pid, const proc_maps_t *maps, const struct hold_thread *threads,
			 size_t n, void *room,
			 void (*visit)(void *ctx, const uint64_t *words, size_t n), void *ctx);

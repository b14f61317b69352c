/* stack.h - where the calling thread's stack is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Its bounds, as the mapping that holds the stack pointer has them, where that is the thread's own:
 * not one that somebody switches to. Asks the kernel, and allocates nothing. */
bool stack_find(uint64_t *low, uint64_t *high);

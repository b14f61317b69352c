/* causes_memory.h - what counters tell of memory: for the rules of causes.c. No I/O. */
#pragma once

#include "incident/evidence.h"

/* Whether far more than usual of what was allocated is of another NUMA node than the thread's, or
 * the kernel found threads and pages on different nodes far more often. Of hosts with one node: no.
 */
bool causes_remote_memory(const struct evidence *e);

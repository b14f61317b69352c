/* causes_memory.h - what counters tell of memory: for the rules of causes.c. No I/O. */
#pragma once

#include "incident/evidence.h"

/* Whether far more than usual of what was allocated is of another NUMA node than the thread's, or
 * the kernel found threads and pages on different nodes far more often. Of hosts with one node: no.
 */
bool causes_remote_memory(const struct evidence *e);
/* The limit of a cgroup of the victim's host that used nine tenths of it or more in the incident's
 * time; NULL: there is none. */
const struct counter_change *causes_full_cgroup(const struct evidence *e);

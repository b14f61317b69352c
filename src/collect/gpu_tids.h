/* gpu_tids.h - a process in a pid namespace (a container) knows its threads by other numbers than
 * we, and tells those: which thread is meant.
 *
 * A thread that ended before it was looked for keeps the number that the process told. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map64.h"

struct gpu_tids {
	pid_t pid;
	bool elsewhere; /* in another namespace than we */
	bool looked;	/* set to false now and then: its threads may be looked through again */
	struct map64 host_of;
};

void gpu_tids_open(struct gpu_tids *ret, pid_t pid);
void gpu_tids_free(struct gpu_tids *t);

/* Our number of the thread that the process calls tid. */
uint32_t gpu_tids_host(struct gpu_tids *t, uint32_t tid);

/* track_order.h - in which order timelines show processes and threads: ranks by their number, then
 * the other processes by what they did; of each process its main thread first, then the others
 * likewise. */
#pragma once

#include <stdint.h>

#include "events/visitor.h"

struct track_order {
	uint32_t *processes; /* rows of the process table, the last of each process */
	size_t nprocesses;
	uint32_t *threads; /* rows of the thread table, by process in the order of their numbers */
	size_t nthreads;
};

/* activity: by thread, how many calls and samples it has. */
void track_order_make(struct track_order *ret, const struct rec_tables *t,
		      const uint64_t *activity);
void track_order_free(struct track_order *o);

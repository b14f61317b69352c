/* thread_now.h - what a thread of another process does at this moment, by /proc. */
#pragma once

#include <sys/types.h>

#include "incident/standing.h"

/* proc: "/proc". What a thread waits for takes the right to trace it: without that it is
 * WAIT_OTHER. children: those of the standings that p is of. Returns 0, or -ENOENT: there is no
 * such thread any more. */
int thread_now_read(struct thread_now *ret, const char *proc, const struct standing_process *p,
		    const uint32_t *children);

/* running_cost.h - what probes have taken of the job's processor time: the time of our programs, as
 * they measure it themselves, and what the kernel takes to call them, as measured on this host in a
 * tight loop. In a job that does other work between its calls, all of it takes longer, for what it
 * needs is not in the caches any more; by how much our programs tell, who took so long in the tight
 * loop and so long in this job. And what is brought into the caches for them, the job has to bring
 * in again where it was: that is counted once more. Where a process starts or loads a library,
 * nothing is in the caches: COLD of running_cost.c.
 *
 * Where a process maps a file that has probes in it, the kernel finds each place, copies its page
 * if it is the first there, and writes the breakpoint: a part of what mapping one page with a few
 * places takes. Each place has structures of its own in the kernel, which are not in the caches.
 *
 * Without what held tasks use up, and without eacgm's own processes. */
#pragma once

#include "probe/tracer.h"

struct running_cost {
	double slowed; /* calls take so many times as long as in the tight loop, 1 or more */
	double programs_ns;
	double traps_ns;  /* in the kernel, new processes' included */
	double caches_ns; /* for which the job waits itself */
	double sum_ns;
	double starts_ns; /* of it, where processes begin, end, and map files */
};

/* places: that were probed before processes mapped them. */
void running_cost_reckon(struct running_cost *ret, const struct tracer_spending spent[SPENT_KINDS],
			 uint64_t places, const struct call_costs *costs);

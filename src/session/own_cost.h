/* own_cost.h - how much of eacgm's own processor time the job could have used: what it takes while
 * no CPU is idle delays the job, the rest does not. An estimate of periods: it is the share of a
 * period in which not even one CPU was idle on average (/proc/stat, proc(5): idle and iowait). */
#pragma once

#include <stdint.h>

struct own_cost {
	uint64_t at_ns, idle_ns, cpu_ns; /* when it was looked at last */
	uint64_t displacing_ns;		 /* so far */
};

/* cpu_ns: of all of eacgm's processes, since their start. */
void own_cost_begin(struct own_cost *c, uint64_t cpu_ns);
void own_cost_look(struct own_cost *c, uint64_t cpu_ns);

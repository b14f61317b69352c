/* cost.c - bounds and shares. */
#include "analyze/cost.h"

#include <math.h>
#include <stdlib.h>

#define TELLING_S 0.01 /* the kernel's clocks, and the start of a process, are as coarse */

double cost_job_cpu_s(const struct rec_tables *t)
{
	const char *text = rec_meta(t, "job_cpu_ns");
	double told_ns = text ? (double)strtoull(text, NULL, 10) : 0, sum_ns = 0;
	bool complete = t->processes.len;
	for (size_t i = 0; i < t->processes.len; i++) {
		sum_ns += (double)t->processes.data[i].cpu_ns;
		complete &= t->processes.data[i].cpu_ns > 0;
	}
	if (!complete)
		sum_ns = told_ns > 0 ? fmax(sum_ns, told_ns) : 0;
	return sum_ns / 1e9;
}

void cost_reckon(struct cost *ret, const struct cost_seen *seen)
{
	*ret = (struct cost){.running_cpu_s = fmax(seen->running_cpu_s, 0),
			     .held_cpu_s = fmax(seen->held_cpu_s, 0),
			     .ran_cpu_s = -1,
			     .ratio = -1};
	if (!(seen->job_cpu_s > 0))
		return;
	ret->held_cpu_s = fmin(ret->held_cpu_s, seen->job_cpu_s);
	ret->ran_cpu_s = seen->job_cpu_s - ret->held_cpu_s;
	ret->running_cpu_s = fmin(ret->running_cpu_s, ret->ran_cpu_s);
	if (ret->ran_cpu_s >= TELLING_S)
		ret->ratio = ret->running_cpu_s / ret->ran_cpu_s;
}

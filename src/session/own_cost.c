/* own_cost.c - reads the host's idle time and reckons. Where it cannot be read, all of eacgm's time
 * counts. */
#include "session/own_cost.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

/* Of all CPUs in sum; 0 = unknown. */
static uint64_t host_idle_ns(void)
{
	unsigned long long idle, iowait;
	FILE *f = fopen("/proc/stat", "re");
	if (!f)
		return 0;
	int n = fscanf(f, "cpu %*u %*u %*u %llu %llu", &idle, &iowait);
	fclose(f);
	return n == 2 ? (idle + iowait) * (1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK)) : 0;
}

void own_cost_begin(struct own_cost *c, uint64_t cpu_ns)
{
	*c = (struct own_cost){
		.at_ns = monotonic_ns(), .idle_ns = host_idle_ns(), .cpu_ns = cpu_ns};
}

void own_cost_look(struct own_cost *c, uint64_t cpu_ns)
{
	struct own_cost now;
	own_cost_begin(&now, cpu_ns);
	double passed = (double)(now.at_ns - c->at_ns);
	double idle = now.idle_ns > c->idle_ns ? (double)(now.idle_ns - c->idle_ns) : 0;
	double busy = idle < passed ? 1 - idle / passed : 0;
	uint64_t took_ns = cpu_ns > c->cpu_ns ? cpu_ns - c->cpu_ns : 0;
	now.displacing_ns = c->displacing_ns + (uint64_t)(busy * (double)took_ns);
	*c = now;
}

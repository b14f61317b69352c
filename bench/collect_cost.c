/* collect_cost.c - what collectors that read files cost: CPU time of one read of each on this host,
 * and the share of a core that this comes to at its period. NVML, the kernel's records and what
 * becomes of the values are not measured.
 *
 * usage: collect_cost [READS [PAUSE_MS]]; watches itself and its parent. With a pause between reads
 * the caches are as cold as they are in a session, and the pause itself is taken off. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/registry.h"

static unsigned long values;

static void count(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		  double value)
{
	(void)ctx;
	(void)time_ns;
	(void)of;
	(void)name;
	(void)value;
	values++;
}

static double cpu_s(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void nothing(void *state, uint64_t now_ns)
{
	(void)state;
	(void)now_ns;
}

/* CPU time of a read. The clock that it is told goes at its period. */
static double each_s(const struct collector *c, void *state,
		     void (*read)(void *state, uint64_t now_ns), unsigned reads, unsigned pause_ms)
{
	uint64_t now_ns = monotonic_ns();
	double start = cpu_s();
	for (unsigned i = 0; i < reads; i++) {
		if (pause_ms)
			usleep(pause_ms * 1000);
		read(state, now_ns += c->period_ns);
	}
	return (cpu_s() - start) / reads;
}

static double measure(const struct collector *c, unsigned reads, unsigned pause_ms)
{
	const struct collect_env env = {.proc_root = "/proc", .sys_root = "/sys"};
	const struct collect_sink sink = {.counter = count};
	struct err e = {0};
	void *state;
	if (c->open(&state, &env, &sink, &e)) {
		printf("%-20s not on this host\n", c->name);
		return 0;
	}
	if (c->add_pid) {
		c->add_pid(state, getpid(), false);
		c->add_pid(state, getppid(), false);
	}
	double pause = pause_ms ? each_s(c, state, nothing, reads, pause_ms) : 0;
	values = 0;
	double each = each_s(c, state, c->read, reads, pause_ms) - pause;
	double share = each * 1e9 / (double)c->period_ns;
	printf("%-20s %8.1f us a read, every %4.0f ms: %.4f %% of a core, %5.1f values a read\n",
	       c->name, each * 1e6, (double)c->period_ns / 1e6, share * 100,
	       (double)values / reads);
	c->close(state);
	return share;
}

int main(int argc, char **argv)
{
	unsigned reads = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000;
	unsigned pause_ms = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	double sum = 0;
	for (size_t i = 0; i < collector_registry_len && reads; i++) {
		const struct collector *c = collector_registry[i];
		if (c->read && !c->slow && !c->layers && !c->record)
			sum += measure(c, reads, pause_ms);
	}
	printf("all: %.4f %% of a core\n", sum * 100);
	return 0;
}

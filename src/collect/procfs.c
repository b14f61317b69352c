/* procfs.c - what /proc/PID says of processes: CPU time, resident memory, threads,
 * context switches. Sources: proc_pid_stat(5), proc_pid_status(5). */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "collect/registry.h"

struct watched {
	pid_t pid;
	uint64_t first_cpu_ns;
	uint64_t last_cpu_ns;
	uint64_t last_time_ns; /* 0 = not read yet */
	uint64_t last_switched_out;
	uint64_t last_threads;
};

struct procfs {
	const struct collect_env *env;
	const struct collect_sink *sink;
	VEC(struct watched) pids; /* that have not ended */
	uint64_t ended_cpu_ns;	  /* of those that have */
	uint64_t tick_ns;
	uint64_t page_bytes;
};

static int procfs_open(void **ret_state, const struct collect_env *env,
		       const struct collect_sink *sink, struct err *e)
{
	(void)e;
	struct procfs *c = xcalloc(1, sizeof(*c));
	c->env = env;
	c->sink = sink;
	c->tick_ns = 1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK);
	c->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	*ret_state = c;
	return 0;
}

static bool read_small(const struct procfs *c, pid_t pid, const char *name, char *ret, size_t size)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%d/%s", c->env->proc_root, pid, name);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	size_t n = fread(ret, 1, size - 1, f);
	fclose(f);
	ret[n] = 0;
	return n > 0;
}

static bool is_this_host(const struct procfs *c)
{
	return !strcmp(c->env->proc_root, "/proc");
}

/* The process's clock, which /proc tells in ticks alone: of 200 ms one tick is 5 %. */
static uint64_t cpu_ns(const struct procfs *c, pid_t pid, uint64_t ticks_ns)
{
	uint64_t ns = is_this_host(c) ? process_cpu_ns(pid) : 0;
	return ns ? ns : ticks_ns;
}

/* How many CPUs it used since it was last read: no more than it had threads, though the CPU time
 * and the time are not read at one moment. */
static double cpu_ratio(const struct watched *w, uint64_t used_ns, uint64_t threads,
			uint64_t passed_ns)
{
	uint64_t most = threads > w->last_threads ? threads : w->last_threads;
	double ratio = (double)used_ns / (double)passed_ns;
	return most && ratio > (double)most ? (double)most : ratio;
}

/* Fields 14, 15, 20 and 24; the name in field 2 may hold spaces and brackets. */
static bool read_stat(const struct procfs *c, pid_t pid, uint64_t *ret_cpu_ns,
		      uint64_t *ret_threads, uint64_t *ret_rss_bytes)
{
	char text[1024];
	unsigned long user = 0, system = 0, threads = 0, rss = 0;
	if (!read_small(c, pid, "stat", text, sizeof(text)))
		return false;
	const char *after_name = strrchr(text, ')');
	if (!after_name ||
	    sscanf(after_name + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %lu "
		   "%*d %*u %*u %lu",
		   &user, &system, &threads, &rss) != 4)
		return false;
	*ret_cpu_ns = cpu_ns(c, pid, (user + system) * c->tick_ns);
	*ret_threads = threads;
	*ret_rss_bytes = rss * c->page_bytes;
	return true;
}

static uint64_t read_switched_out(const struct procfs *c, pid_t pid)
{
	char text[4096];
	unsigned long n = 0;
	if (!read_small(c, pid, "status", text, sizeof(text)))
		return 0;
	const char *line = strstr(text, "nonvoluntary_ctxt_switches:");
	if (line && sscanf(line, "%*s %lu", &n) != 1)
		n = 0;
	return n;
}

static void procfs_add_pid(void *state, pid_t pid, bool is_new)
{
	struct procfs *c = state;
	uint64_t threads, rss;
	struct watched *w = vec_push(&c->pids);
	w->pid = pid;
	if (!is_new && read_stat(c, pid, &w->first_cpu_ns, &threads, &rss))
		w->last_cpu_ns = w->first_cpu_ns;
}

static uint64_t used_cpu_ns(const struct watched *w)
{
	return w->last_cpu_ns - w->first_cpu_ns;
}

static void procfs_del_pid(void *state, pid_t pid)
{
	struct procfs *c = state;
	for (size_t i = c->pids.len; i-- > 0;) {
		if (c->pids.data[i].pid != pid)
			continue;
		c->ended_cpu_ns += used_cpu_ns(&c->pids.data[i]);
		c->pids.data[i] = c->pids.data[--c->pids.len];
	}
}

static void read_one(struct procfs *c, struct watched *w, uint64_t now_ns)
{
	uint64_t used_ns, threads, rss_bytes;
	struct entity of = ENTITY_OF_PID(w->pid);
	if (!read_stat(c, w->pid, &used_ns, &threads, &rss_bytes))
		return;
	uint64_t read_ns = is_this_host(c) ? monotonic_ns() : now_ns;
	uint64_t switched_out = read_switched_out(c, w->pid);
	if (w->last_time_ns && read_ns > w->last_time_ns) {
		double seconds = (double)(read_ns - w->last_time_ns) / 1e9;
		sink_counter(
			c->sink, now_ns, &of, "cpu_ratio",
			cpu_ratio(w, used_ns - w->last_cpu_ns, threads, read_ns - w->last_time_ns));
		sink_counter(c->sink, now_ns, &of, "preemptions_per_s",
			     (double)(switched_out - w->last_switched_out) / seconds);
	}
	sink_counter(c->sink, now_ns, &of, "rss_bytes", (double)rss_bytes);
	sink_counter(c->sink, now_ns, &of, "threads", (double)threads);
	w->last_cpu_ns = used_ns;
	w->last_threads = threads;
	w->last_time_ns = read_ns;
	w->last_switched_out = switched_out;
}

static void procfs_read(void *state, uint64_t now_ns)
{
	struct procfs *c = state;
	for (size_t i = 0; i < c->pids.len; i++)
		read_one(c, &c->pids.data[i], now_ns);
}

/* Also of those that have ended, up to their last read. */
static uint64_t procfs_cpu_ns(const void *state)
{
	const struct procfs *c = state;
	uint64_t sum = c->ended_cpu_ns;
	for (size_t i = 0; i < c->pids.len; i++)
		sum += used_cpu_ns(&c->pids.data[i]);
	return sum;
}

static void procfs_close(void *state)
{
	struct procfs *c = state;
	vec_free(&c->pids);
	free(c);
}

const struct collector collector_procfs = {
	.name = "processes",
	.period_ns = 200000000,
	.open = procfs_open,
	.add_pid = procfs_add_pid,
	.del_pid = procfs_del_pid,
	.read = procfs_read,
	.cpu_ns = procfs_cpu_ns,
	.close = procfs_close,
};

/* procfs.c - what /proc/PID says of processes: CPU time, resident memory, threads,
 * context switches. Sources: proc_pid_stat(5), proc_pid_status(5). */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/collector.h"

struct watched {
	pid_t pid;
	uint64_t first_cpu_ns;
	uint64_t last_cpu_ns;
	uint64_t last_time_ns; /* 0 = not sampled yet */
	uint64_t last_switched_out;
};

struct collector {
	char *proc_root;
	VEC(struct watched) pids; /* that have not ended */
	uint64_t ended_cpu_ns;	  /* of those that have */
	uint64_t tick_ns;
	uint64_t page_bytes;
};

static int procfs_open(struct collector **ret, const char *proc_root, struct err *e)
{
	(void)e;
	struct collector *c = xcalloc(1, sizeof(*c));
	c->proc_root = xstrdup(proc_root);
	c->tick_ns = 1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK);
	c->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	*ret = c;
	return 0;
}

static bool read_small(const struct collector *c, pid_t pid, const char *name, char *ret,
		       size_t size)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%d/%s", c->proc_root, pid, name);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	size_t n = fread(ret, 1, size - 1, f);
	fclose(f);
	ret[n] = 0;
	return n > 0;
}

/* Fields 14, 15, 20 and 24; the name in field 2 may hold spaces and brackets. */
static bool read_stat(const struct collector *c, pid_t pid, uint64_t *ret_cpu_ns,
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
	*ret_cpu_ns = (user + system) * c->tick_ns;
	*ret_threads = threads;
	*ret_rss_bytes = rss * c->page_bytes;
	return true;
}

static uint64_t read_switched_out(const struct collector *c, pid_t pid)
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

void procfs_add_new(struct collector *c, pid_t pid)
{
	vec_push(&c->pids)->pid = pid;
}

static void procfs_add_pid(struct collector *c, pid_t pid)
{
	uint64_t threads, rss;
	struct watched *w = vec_push(&c->pids);
	w->pid = pid;
	if (read_stat(c, pid, &w->first_cpu_ns, &threads, &rss))
		w->last_cpu_ns = w->first_cpu_ns;
}

static uint64_t used_cpu_ns(const struct watched *w)
{
	return w->last_cpu_ns - w->first_cpu_ns;
}

static void procfs_del_pid(struct collector *c, pid_t pid)
{
	for (size_t i = c->pids.len; i-- > 0;) {
		if (c->pids.data[i].pid != pid)
			continue;
		c->ended_cpu_ns += used_cpu_ns(&c->pids.data[i]);
		c->pids.data[i] = c->pids.data[--c->pids.len];
	}
}

static void sample_one(struct collector *c, struct watched *w, uint64_t now_ns, collector_emit emit,
		       void *ctx)
{
	uint64_t cpu_ns, threads, rss_bytes;
	char entity[32];
	if (!read_stat(c, w->pid, &cpu_ns, &threads, &rss_bytes))
		return;
	snprintf(entity, sizeof(entity), "pid %d", w->pid);
	uint64_t switched_out = read_switched_out(c, w->pid);
	if (w->last_time_ns && now_ns > w->last_time_ns) {
		double seconds = (double)(now_ns - w->last_time_ns) / 1e9;
		emit(ctx, entity, "cpu_ratio", (double)(cpu_ns - w->last_cpu_ns) / 1e9 / seconds);
		emit(ctx, entity, "preemptions_per_s",
		     (double)(switched_out - w->last_switched_out) / seconds);
	}
	emit(ctx, entity, "rss_bytes", (double)rss_bytes);
	emit(ctx, entity, "threads", (double)threads);
	w->last_cpu_ns = cpu_ns;
	w->last_time_ns = now_ns;
	w->last_switched_out = switched_out;
}

static void procfs_sample(struct collector *c, uint64_t now_ns, collector_emit emit, void *ctx)
{
	for (size_t i = 0; i < c->pids.len; i++)
		sample_one(c, &c->pids.data[i], now_ns, emit, ctx);
}

uint64_t procfs_cpu_ns(const struct collector *c)
{
	uint64_t sum = c->ended_cpu_ns;
	for (size_t i = 0; i < c->pids.len; i++)
		sum += used_cpu_ns(&c->pids.data[i]);
	return sum;
}

static void procfs_close(struct collector *c)
{
	vec_free(&c->pids);
	free(c->proc_root);
	free(c);
}

const struct collector_ops collector_procfs = {
	.name = "procfs",
	.open = procfs_open,
	.add_pid = procfs_add_pid,
	.del_pid = procfs_del_pid,
	.sample = procfs_sample,
	.close = procfs_close,
};

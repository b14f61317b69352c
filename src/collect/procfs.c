/* procfs.c - what /proc/PID says of processes: CPU time, resident memory, threads,
 * context switches, page faults, bytes of disks. Sources: proc_pid_stat(5), proc_pid_status(5),
 * proc_pid_io(5). */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "collect/growth.h"
#include "collect/kept_file.h"
#include "collect/registry.h"

#define IO_EVERY_NS 1000000000 /* the kernel asks all threads */

/* So often in a row the bytes of a process cannot be read until it is taken to have none that may
 * be: while it starts another program (execve(2)) they cannot, either. */
#define NO_IO_MOST 5

struct watched {
	pid_t pid;
	uint64_t first_cpu_ns;
	uint64_t last_cpu_ns;
	uint64_t last_time_ns; /* 0 = not read yet */
	uint64_t last_threads;
	struct growth switched_out, minor_faults, major_faults, read, written;
	uint64_t io_ns; /* when its bytes were read; 0 = not yet */
	unsigned no_io; /* how often in a row they could not be read */
};

/* What its stat has. */
struct stat_values {
	uint64_t cpu_ns, threads, rss_bytes, minor_faults, major_faults;
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

/* Fields 10, 12, 14, 15, 20 and 24; the name in field 2 may hold spaces and brackets. */
static bool read_stat(const struct procfs *c, pid_t pid, struct stat_values *ret)
{
	char text[1024];
	unsigned long minor = 0, major = 0, user = 0, system = 0, threads = 0, rss = 0;
	if (!read_small(c, pid, "stat", text, sizeof(text)))
		return false;
	const char *after_name = strrchr(text, ')');
	if (!after_name ||
	    sscanf(after_name + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %lu %*u %lu %*u %lu %lu %*d %*d %*d %*d %lu "
		   "%*d %*u %*u %lu",
		   &minor, &major, &user, &system, &threads, &rss) != 6)
		return false;
	ret->cpu_ns = cpu_ns(c, pid, (user + system) * c->tick_ns);
	ret->threads = threads;
	ret->rss_bytes = rss * c->page_bytes;
	ret->minor_faults = minor;
	ret->major_faults = major;
	return true;
}

static void procfs_add_pid(void *state, pid_t pid, bool is_new)
{
	struct procfs *c = state;
	struct stat_values stat;
	struct watched *w = vec_push(&c->pids);
	w->pid = pid;
	if (!is_new && read_stat(c, pid, &stat))
		w->first_cpu_ns = w->last_cpu_ns = stat.cpu_ns;
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

static void tell_rate(const struct procfs *c, const struct entity *of, uint64_t now_ns,
		      const char *name, struct growth *g, uint64_t value, uint64_t passed_ns)
{
	uint64_t by;
	if (growth_take(g, value, &by) && passed_ns >= PASSED_LEAST_NS)
		sink_counter(c->sink, now_ns, of, name, growth_per_s(by, passed_ns));
}

static void tell_kib(const struct procfs *c, const struct entity *of, uint64_t now_ns,
		     const char *name, const char *status, const char *key)
{
	uint64_t kib;
	if (text_number_of(status, key, &kib) && kib < UINT64_MAX >> 10)
		sink_counter(c->sink, now_ns, of, name, (double)kib * 1024);
}

/* What its status has. */
static void read_status(const struct procfs *c, struct watched *w, const struct entity *of,
			uint64_t now_ns, uint64_t passed_ns)
{
	char text[4096];
	uint64_t switched_out;
	if (!read_small(c, w->pid, "status", text, sizeof(text)))
		text[0] = 0;
	if (text_number_of(text, "nonvoluntary_ctxt_switches", &switched_out))
		tell_rate(c, of, now_ns, "preemptions_per_s", &w->switched_out, switched_out,
			  passed_ns);
	else
		growth_forget(&w->switched_out);
	tell_kib(c, of, now_ns, "rss_anon_bytes", text, "RssAnon");
	tell_kib(c, of, now_ns, "rss_file_bytes", text, "RssFile");
	tell_kib(c, of, now_ns, "rss_shmem_bytes", text, "RssShmem");
}

/* Bytes that went to disks and came from there, not those that were in memory. */
static void read_io(const struct procfs *c, struct watched *w, const struct entity *of,
		    uint64_t now_ns)
{
	char text[512];
	uint64_t read, written;
	if (w->no_io >= NO_IO_MOST || (w->io_ns && now_ns - w->io_ns < IO_EVERY_NS * 9ULL / 10))
		return;
	uint64_t passed_ns = now_ns - w->io_ns;
	w->io_ns = now_ns;
	bool ok = read_small(c, w->pid, "io", text, sizeof(text)) &&
		  text_number_of(text, "read_bytes", &read) &&
		  text_number_of(text, "write_bytes", &written);
	w->no_io = ok ? 0 : w->no_io + 1;
	if (!ok) {
		growth_forget(&w->read);
		growth_forget(&w->written);
		return;
	}
	tell_rate(c, of, now_ns, "io_read_bytes_per_s", &w->read, read, passed_ns);
	tell_rate(c, of, now_ns, "io_written_bytes_per_s", &w->written, written, passed_ns);
}

static void read_one(struct procfs *c, struct watched *w, uint64_t now_ns)
{
	struct stat_values now;
	struct entity of = ENTITY_OF_PID(w->pid);
	if (!read_stat(c, w->pid, &now))
		return;
	uint64_t read_ns = is_this_host(c) ? monotonic_ns() : now_ns;
	uint64_t passed_ns = read_ns - w->last_time_ns;
	if (w->last_time_ns && read_ns > w->last_time_ns && now.cpu_ns >= w->last_cpu_ns)
		sink_counter(c->sink, now_ns, &of, "cpu_ratio",
			     cpu_ratio(w, now.cpu_ns - w->last_cpu_ns, now.threads, passed_ns));
	read_status(c, w, &of, now_ns, passed_ns);
	sink_counter(c->sink, now_ns, &of, "rss_bytes", (double)now.rss_bytes);
	sink_counter(c->sink, now_ns, &of, "threads", (double)now.threads);
	tell_rate(c, &of, now_ns, "minor_faults_per_s", &w->minor_faults, now.minor_faults,
		  passed_ns);
	tell_rate(c, &of, now_ns, "major_faults_per_s", &w->major_faults, now.major_faults,
		  passed_ns);
	w->last_cpu_ns = now.cpu_ns;
	w->last_threads = now.threads;
	w->last_time_ns = read_ns;
	read_io(c, w, &of, read_ns);
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

/* host_cpu.c - what all CPUs of the host did, from /proc/stat (proc_stat(5)), and how much was
 * stolen from those that the watched processes may run on. CPU time of processes is procfs.c's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "collect/growth.h"
#include "collect/kept_file.h"
#include "collect/registry.h"

#define CPUS_MOST     4096 /* of the kernel at most 8192, of hosts that are known 2048 */
#define ALLOWED_EVERY 4	   /* reads: where processes may run changes seldom */

/* The fields of a line; guests' time is in user and nice already. */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };

struct cpu {
	uint64_t fields[FIELDS];
	uint64_t read; /* the number of the read; 0: none */
	bool allowed;  /* the job may run on it */
};

/* What some CPUs did between two reads, in ticks. */
struct ticks {
	uint64_t by[FIELDS], all;
	bool iowait_shrank;
};

struct host_cpu {
	const struct collect_env *env;
	const struct collect_sink *sink;
	struct kept_file stat, status;
	VEC(pid_t) pids; /* that are watched, in the order in which they came */
	pid_t status_of; /* whose status is */
	bool pinned;	 /* which CPUs the job may run on is known */
	struct cpu host;
	VEC(struct cpu) cpus; /* by number */
	uint64_t reads, last_ns;
};

static int host_cpu_open(void **ret_state, const struct collect_env *env,
			 const struct collect_sink *sink, struct err *e)
{
	(void)e;
	struct host_cpu *c = xcalloc(1, sizeof(*c));
	*c = (struct host_cpu){.env = env, .sink = sink};
	kept_file_set(&c->stat, env->proc_root, "stat");
	if (!kept_file_read(&c->stat)) {
		kept_file_free(&c->stat);
		free(c);
		return -EOPNOTSUPP;
	}
	*ret_state = c;
	return 0;
}

static void host_cpu_add_pid(void *state, pid_t pid, bool is_new)
{
	struct host_cpu *c = state;
	(void)is_new;
	*vec_push(&c->pids) = pid;
}

static void host_cpu_del_pid(void *state, pid_t pid)
{
	struct host_cpu *c = state;
	size_t left = 0;
	for (size_t i = 0; i < c->pids.len; i++)
		if (c->pids.data[i] != pid)
			c->pids.data[left++] = c->pids.data[i];
	c->pids.len = left;
}

/* ---- which CPUs the job may run on ---- */

/* "0-3,8,10-11"; a part that is odd ends it. */
static void allow(struct host_cpu *c, const char *list)
{
	uint64_t first, last;
	while (text_number(&list, &first)) {
		last = first;
		if (*list == '-' && (list++, !text_number(&list, &last)))
			return;
		for (uint64_t i = first; i <= last && i < c->cpus.len; i++)
			c->cpus.data[i].allowed = true;
		if (*list++ != ',')
			return;
	}
}

static void read_allowed(struct host_cpu *c)
{
	pid_t first = c->pids.len ? c->pids.data[0] : 0;
	char name[64];
	c->pinned = false;
	for (size_t i = 0; i < c->cpus.len; i++)
		c->cpus.data[i].allowed = false;
	if (first != c->status_of) {
		kept_file_free(&c->status);
		snprintf(name, sizeof(name), "%d/status", first);
		kept_file_set(&c->status, c->env->proc_root, name);
		c->status_of = first;
	}
	if (!first || !kept_file_read(&c->status))
		return;
	for (const char *line = c->status.text; *line; line = text_next_line(line)) {
		const char *list = text_after_key(line, "Cpus_allowed_list");
		if (!list)
			continue;
		allow(c, list);
		c->pinned = true;
		return;
	}
}

/* ---- what CPUs did ---- */

/* Linux before 2.6.11 has fewer fields. */
static bool read_fields(const char *at, uint64_t ret[FIELDS])
{
	for (int i = 0; i < FIELDS; i++)
		if (!text_number(&at, &ret[i]))
			return false;
	return true;
}

/* Adds what a CPU did since the read before this. False: it was not there, or began anew. What was
 * counted as waiting for I/O becomes idle time where the thread wakes up elsewhere: one of the two
 * may shrink, and what the sums wrap by comes to nothing. */
static bool add_ticks(struct cpu *cpu, const uint64_t now[FIELDS], uint64_t read, struct ticks *t)
{
	const uint64_t *was = cpu->fields;
	bool ok = cpu->read && cpu->read + 1 == read;
	ok = ok && now[IDLE] + now[IOWAIT] >= was[IDLE] + was[IOWAIT];
	for (int i = 0; i < FIELDS; i++)
		ok = ok && (now[i] >= was[i] || i == IDLE || i == IOWAIT);
	for (int i = 0; i < FIELDS && ok; i++) {
		t->by[i] += now[i] - was[i];
		t->all += now[i] - was[i];
	}
	t->iowait_shrank |= ok && (now[IDLE] < was[IDLE] || now[IOWAIT] < was[IOWAIT]);
	memcpy(cpu->fields, now, sizeof(cpu->fields));
	cpu->read = read;
	return ok;
}

static void tell_ratio(const struct host_cpu *c, uint64_t time_ns, const char *name, uint64_t ticks,
		       const struct ticks *of)
{
	double ratio;
	if (growth_ratio(ticks, (double)of->all, 1, &ratio))
		sink_counter(c->sink, time_ns, &ENTITY_NAMED(ENTITY_HOST, ""), name, ratio);
}

static void tell_host(const struct host_cpu *c, uint64_t time_ns, const struct ticks *t)
{
	const uint64_t *by = t->by;
	tell_ratio(c, time_ns, "cpu_ratio", t->all - (by[IDLE] + by[IOWAIT]), t);
	tell_ratio(c, time_ns, "cpu_steal_ratio", by[STEAL], t);
	tell_ratio(c, time_ns, "cpu_irq_ratio", by[IRQ], t);
	tell_ratio(c, time_ns, "cpu_softirq_ratio", by[SOFTIRQ], t);
	if (!t->iowait_shrank)
		tell_ratio(c, time_ns, "cpu_iowait_ratio", by[IOWAIT], t);
}

/* "cpu" or "cpu12", then the fields. */
static void take_cpu(struct host_cpu *c, const char *line, uint64_t now_ns, struct ticks *job,
		     bool *all_allowed)
{
	const char *at = line + 3;
	uint64_t fields[FIELDS], number;
	bool host = *at == ' ';
	if ((!host && (!text_number(&at, &number) || number >= CPUS_MOST)) ||
	    !read_fields(at, fields))
		return;
	if (host) {
		struct ticks t = {0};
		if (add_ticks(&c->host, fields, c->reads, &t))
			tell_host(c, now_ns, &t);
		return;
	}
	while (c->cpus.len <= number)
		vec_push(&c->cpus);
	struct cpu *cpu = &c->cpus.data[number];
	struct ticks nothing = {0};
	*all_allowed &= cpu->allowed;
	add_ticks(cpu, fields, c->reads, cpu->allowed ? job : &nothing);
}

static void host_cpu_read(void *state, uint64_t now_ns)
{
	struct host_cpu *c = state;
	struct ticks job = {0};
	struct entity host = ENTITY_NAMED(ENTITY_HOST, "");
	bool all_allowed = true;
	uint64_t passed_ns, n;
	if (!growth_passed(&c->last_ns, now_ns, &passed_ns) || !kept_file_read(&c->stat))
		return;
	if (c->reads++ % ALLOWED_EVERY == 1 || !c->pinned) /* 1: CPUs are known by then */
		read_allowed(c);
	for (const char *line = c->stat.text; !strncmp(line, "cpu", 3); line = text_next_line(line))
		take_cpu(c, line, now_ns, &job, &all_allowed);
	if (c->pinned && !all_allowed)
		tell_ratio(c, now_ns, "job_cpus_steal_ratio", job.by[STEAL], &job);
	if (text_number_of(c->stat.text, "procs_running", &n))
		sink_counter(c->sink, now_ns, &host, "runnable_threads", (double)n);
	if (text_number_of(c->stat.text, "procs_blocked", &n))
		sink_counter(c->sink, now_ns, &host, "blocked_threads", (double)n);
}

static void host_cpu_close(void *state)
{
	struct host_cpu *c = state;
	kept_file_free(&c->stat);
	kept_file_free(&c->status);
	vec_free(&c->pids);
	vec_free(&c->cpus);
	free(c);
}

const struct collector collector_host_cpu = {
	.name = "CPUs",
	.period_ns = 500000000,
	.open = host_cpu_open,
	.add_pid = host_cpu_add_pid,
	.del_pid = host_cpu_del_pid,
	.read = host_cpu_read,
	.close = host_cpu_close,
};

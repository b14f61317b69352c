/* report_account_rules.c - what stands out: each rule looks at one thing, and says a sentence with
 * numbers where it is large. To add one: a function and its line in the table. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "report/report_account.h"
#include "report/report_section.h"

#define LOADERS_NAMED 4

/* Writes the sentence and returns what it costs, in ns; 0: there is nothing to say. */
typedef uint64_t rule_fn(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret);

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100 * (double)part / (double)whole : 0;
}

/* Whether an owner has so many percent of the thread's time. */
static bool has(const struct account_thread *th, enum account_owner owner, unsigned least)
{
	return th->ns[owner] && th->ns[owner] * 100 >= th->wall_ns * least;
}

static void put(struct account_finding *ret, struct buf *text)
{
	buf_byte(text, 0);
	snprintf(ret->text, FINDING_BYTES, "%s", (char *)text->data);
	buf_free(text);
}

/* "It waited for the disk for 32 % of its time (1.2 s)." with what comes before the number. */
static uint64_t say_share(const struct account_thread *th, enum account_owner owner, unsigned least,
			  struct account_finding *ret, const char *what, const char *hint)
{
	char time[HUMAN_BYTES];
	if (!has(th, owner, least))
		return 0;
	snprintf(ret->text, FINDING_BYTES, "%s for %.0f %% of its time (%s)%s.", what,
		 percent(th->ns[owner], th->wall_ns), human_ns(time, th->ns[owner]), hint);
	return th->ns[owner];
}

/* A loop whose steps spend a fifth of their time or more until they have their batch; NULL. */
static const struct steps_loop *slow_to_load(const struct account_state *s)
{
	const struct steps_loop *l = account_loop(s->r);
	return l && l->kind == STEPS_TRAINING && l->phase_mean_ns[STEPS_LOAD] * 5 >= l->mean_ns
		       ? l
		       : NULL;
}

/* "; 2 loader processes (42, 43) take 41.7 ms a batch" */
static void say_loaders(struct buf *to, const struct account_state *s)
{
	const struct steps *steps = report_section_state(s->r, &report_steps);
	struct buf pids = {0};
	double sum_ns = 0;
	unsigned loaders = 0;
	char time[HUMAN_BYTES];
	for (size_t i = 0; i < steps->processes.len; i++) {
		const struct steps_loop *l = steps_main_loop(&steps->processes.data[i]);
		if (!l || l->kind != STEPS_LOADING)
			continue;
		sum_ns += l->mean_ns;
		if (loaders++ < LOADERS_NAMED)
			buf_printf(&pids, "%s%u", loaders > 1 ? ", " : "",
				   steps->processes.data[i].pid);
	}
	buf_byte(&pids, 0);
	if (loaders)
		buf_printf(to, "; %u loader process%s (%s%s) take%s %s a batch", loaders,
			   loaders > 1 ? "es" : "", (char *)pids.data,
			   loaders > LOADERS_NAMED ? ", ..." : "", loaders > 1 ? "" : "s",
			   human_ns(time, (uint64_t)(sum_ns / loaders)));
	else
		buf_printf(to, "; no loader process makes it ahead of time");
	buf_free(&pids);
}

/* No loader makes batches, and most of the time until there is one it sleeps: that is no loading.
 */
static bool sleeps_to_load(const struct account_state *s, const struct account_thread *th)
{
	const struct steps_loop *l = slow_to_load(s);
	const struct steps *steps = report_section_state(s->r, &report_steps);
	for (size_t i = 0; l && i < steps->processes.len; i++) {
		const struct steps_loop *other = steps_main_loop(&steps->processes.data[i]);
		if (other && other->kind == STEPS_LOADING)
			return false;
	}
	return l && (double)th->ns[ACCOUNT_SLEEP] * 4 >=
			    3 * l->phase_mean_ns[STEPS_LOAD] * (double)l->steps;
}

static uint64_t load(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	const struct steps_loop *l = slow_to_load(s);
	char count[HUMAN_BYTES], part[HUMAN_BYTES], mean[HUMAN_BYTES];
	struct buf text = {0};
	if (!l || sleeps_to_load(s, th))
		return 0;
	buf_printf(
		&text,
		"Each of its %s training steps waits on average %s of %s (%.0f %%) for its batch",
		human_count(count, l->steps),
		human_ns(part, (uint64_t)l->phase_mean_ns[STEPS_LOAD]),
		human_ns(mean, (uint64_t)l->mean_ns),
		100 * l->phase_mean_ns[STEPS_LOAD] / l->mean_ns);
	say_loaders(&text, s);
	buf_printf(&text, ".");
	put(ret, &text);
	return (uint64_t)(l->phase_mean_ns[STEPS_LOAD] * l->steps);
}

/* Of processes beside the main one, the program that ran most. */
static void say_busiest(struct buf *to, const struct account_state *s)
{
	char run[HUMAN_BYTES];
	buf_printf(to, "; of them ");
	account_say_group(to, &s->groups.data[0]);
	buf_printf(to, " ran most: %s on the CPU", human_ns(run, s->groups.data[0].run_ns));
}

static uint64_t data(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	struct buf text = {0};
	char time[HUMAN_BYTES];
	if (slow_to_load(s) || !has(th, ACCOUNT_DATA, 10)) /* the first says more */
		return 0;
	ret->by = &th->peers[ACCOUNT_MAKERS];
	buf_printf(&text,
		   "It waited for data of its child processes, which are slower than it is, for "
		   "%.0f %% of its time (%s)",
		   percent(th->ns[ACCOUNT_DATA], th->wall_ns),
		   human_ns(time, th->ns[ACCOUNT_DATA]));
	if (ret->by->count <= ACCOUNT_PEERS || !s->groups.len)
		account_say_peers(&text, s->r, ret->by, th->ns[ACCOUNT_DATA], "made it wait");
	else /* they come and go */
		say_busiest(&text, s);
	buf_printf(&text, ".");
	put(ret, &text);
	return th->ns[ACCOUNT_DATA];
}

static bool is_python(const struct report *r, const struct account_thread *th)
{
	const char *path =
		th->process ? strtab_get(&r->tables->strings, th->process->command, NULL) : "";
	const char *slash = strrchr(path, '/');
	return !strncmp(slash ? slash + 1 : path, "python", 6);
}

/* All threads of Python are called python3: what they run tells them apart. */
static void say_holder(struct buf *to, const struct account_lock *lock)
{
	bool runs = lock->runs.ns &&
		    strcmp(lock->runs.function, lock->holds.ns ? lock->holds.function : "") != 0;
	if (runs || lock->holds.ns)
		buf_printf(to, "; it");
	if (runs)
		buf_printf(to, " runs %s (%s)%s", lock->runs.function, lock->runs.file,
			   lock->holds.ns ? " and" : "");
	if (lock->holds.ns)
		buf_printf(to, " was mostly at %s:%u (%s) meanwhile", lock->holds.file,
			   lock->holds.line, lock->holds.function);
}

static void say_lines(struct buf *to, const struct report *r, const struct account_thread *th,
		      const struct account_lock *lock)
{
	if (th->peers[ACCOUNT_UNLOCKERS].count)
		say_holder(to, lock);
	if (lock->gil_ns * 2 > th->ns[ACCOUNT_LOCK])
		buf_printf(to, "; %.0f %% of it was for Python's GIL",
			   percent(lock->gil_ns, th->ns[ACCOUNT_LOCK]));
	if (!lock->has_waits && is_python(r, th))
		buf_printf(to, "; 'record --profile cpu,offcpu' tells the line that waited");
}

static uint64_t lock(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	const struct account_lock *lock = &s->account.lock;
	const struct account_peers *by = &th->peers[ACCOUNT_UNLOCKERS];
	struct buf text = {0};
	char time[HUMAN_BYTES];
	if (!has(th, ACCOUNT_LOCK, 10))
		return 0;
	ret->at = lock;
	ret->by = by;
	buf_printf(&text, "It waited for a lock or a condition for %.0f %% of its time (%s)",
		   percent(th->ns[ACCOUNT_LOCK], th->wall_ns),
		   human_ns(time, th->ns[ACCOUNT_LOCK]));
	if (lock->waits.ns)
		buf_printf(&text, ", mostly at %s:%u (%s)", lock->waits.file, lock->waits.line,
			   lock->waits.function);
	account_say_peers(&text, s->r, by, th->ns[ACCOUNT_LOCK], "woke it");
	say_lines(&text, s->r, th, lock);
	buf_printf(&text, ".");
	put(ret, &text);
	return th->ns[ACCOUNT_LOCK];
}

/* "; it may use 1 of 16 CPUs", "; its cgroup may use 0.5 CPUs at once": why there are so few. */
static void say_cpus(struct buf *to, const struct report *r, const struct account_thread *th)
{
	uint64_t all = report_number(r->tables, "cpus");
	double limit = account_cpu_limit(th);
	if (th->cpus && th->cpus < all)
		buf_printf(to, "; it may use %u of %" PRIu64 " CPUs", th->cpus, all);
	if (limit > 0 && (!all || limit < (double)all))
		buf_printf(to, "; its cgroup may use %.3g CPU%s at once", limit,
			   limit <= 1 ? "" : "s");
}

static uint64_t runnable(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret)
{
	struct buf text = {0};
	char time[HUMAN_BYTES];
	if (!has(th, ACCOUNT_RUNNABLE, 10))
		return 0;
	ret->by = &th->peers[ACCOUNT_RIVALS];
	buf_printf(&text, "It was ready to run, but had no CPU for %.0f %% of its time (%s)",
		   percent(th->ns[ACCOUNT_RUNNABLE], th->wall_ns),
		   human_ns(time, th->ns[ACCOUNT_RUNNABLE]));
	account_say_peers(&text, s->r, ret->by, th->ns[ACCOUNT_RUNNABLE], "had it");
	say_cpus(&text, s->r, th);
	buf_printf(&text, ".");
	put(ret, &text);
	return th->ns[ACCOUNT_RUNNABLE];
}

static uint64_t slept(const struct account_state *s, const struct account_thread *th,
		      struct account_finding *ret)
{
	const struct steps_loop *l = slow_to_load(s);
	struct buf text = {0};
	char count[HUMAN_BYTES], part[HUMAN_BYTES], mean[HUMAN_BYTES];
	if (!sleeps_to_load(s, th))
		return say_share(th, ACCOUNT_SLEEP, 10, ret, "The program itself slept",
				 " in calls like sleep()");
	buf_printf(&text,
		   "Each of its %s training steps begins with %s of %s (%.0f %%) in which the "
		   "program itself sleeps, in calls like sleep().",
		   human_count(count, l->steps),
		   human_ns(part, (uint64_t)l->phase_mean_ns[STEPS_LOAD]),
		   human_ns(mean, (uint64_t)l->mean_ns),
		   100 * l->phase_mean_ns[STEPS_LOAD] / l->mean_ns);
	put(ret, &text);
	return th->ns[ACCOUNT_SLEEP];
}

static uint64_t imports(const struct account_state *s, const struct account_thread *th,
			struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_IMPORT, 20, ret, "It imported Python modules", "");
}

static uint64_t held(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_HELD, 5, ret, "eACGM stopped it to attach probes",
			 ": a run without tracing does not have this");
}

static uint64_t disk(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_DISK, 10, ret, "It waited for the disk", "");
}

static uint64_t memory(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_MEMORY, 5, ret, "It waited for pages of memory to be read",
			 "");
}

static uint64_t network(const struct account_state *s, const struct account_thread *th,
			struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_NETWORK, 10, ret, "It waited for the network", "");
}

static uint64_t pipes(const struct account_state *s, const struct account_thread *th,
		      struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_PIPE, 10, ret, "It waited for another program at a pipe", "");
}

static uint64_t idle(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_POLL, 30, ret, "It waited for events, with nothing to do,",
			 "");
}

static uint64_t gpu(const struct account_state *s, const struct account_thread *th,
		    struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_GPU, 20, ret, "It waited for the GPU", "");
}

static uint64_t python(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_PYTHON, 50, ret, "It ran Python code",
			 ": one CPU at most, since Python runs one thread at a time");
}

static uint64_t native(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_NATIVE, 50, ret, "It computed in native code",
			 ": the profile below names the functions");
}

static uint64_t operators(const struct account_state *s, const struct account_thread *th,
			  struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_OPERATORS, 50, ret, "It was in PyTorch's operators",
			 ": layer torch below names them");
}

static uint64_t mpi(const struct account_state *s, const struct account_thread *th,
		    struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_MPI, 10, ret, "It was in MPI, which polls for other ranks,",
			 ": layer mpi below names the slow rank");
}

static uint64_t kernel(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	(void)s;
	return say_share(th, ACCOUNT_KERNEL, 25, ret, "It ran in the Linux kernel",
			 ": system calls, page faults");
}

/* The time is the children's: the busiest program says whose. */
static uint64_t children(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret)
{
	struct buf text = {0};
	if (!has(th, ACCOUNT_CHILD, 30))
		return 0;
	buf_printf(&text, "It waited for child processes to end for %.0f %% of its time",
		   percent(th->ns[ACCOUNT_CHILD], th->wall_ns));
	if (s->groups.len)
		say_busiest(&text, s);
	buf_printf(&text, ".");
	put(ret, &text);
	return th->ns[ACCOUNT_CHILD];
}

/* The GPU that was idle longest. */
static uint64_t gpu_idle(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret)
{
	const struct gpu_gaps *g = report_gaps(s->r);
	const struct gap_device *most = NULL;
	(void)th;
	for (size_t i = 0; g && i < g->devices.len; i++)
		if (!most || g->devices.data[i].idle_ns > most->idle_ns)
			most = &g->devices.data[i];
	if (!most || !most->gaps.len || most->idle_ns * 5 < most->span_ns)
		return 0;
	char span[HUMAN_BYTES];
	snprintf(ret->text, FINDING_BYTES,
		 "GPU %d of process %u was idle for %.0f %% of the %s from its first work to its "
		 "last, mostly because %s.",
		 most->device, most->pid, percent(most->idle_ns, most->span_ns),
		 human_ns(span, most->span_ns), account_gap_words(most->gaps.data[0].reason));
	return most->idle_ns;
}

static const struct {
	const char *name;
	rule_fn *look;
} rules[] = {
	{"load", load},
	{"data", data},
	{"lock", lock},
	{"no_cpu", runnable},
	{"sleep", slept},
	{"import", imports},
	{"held", held},
	{"disk", disk},
	{"memory", memory},
	{"network", network},
	{"pipe", pipes},
	{"idle", idle},
	{"gpu", gpu},
	{"python", python},
	{"kernel", kernel},
	{"child", children},
	{"gpu_idle", gpu_idle},
	{"native", native},
	{"operators", operators},
	{"mpi", mpi},
};
#define RULES (sizeof(rules) / sizeof(rules[0]))

static int compare_findings(const void *a, const void *b)
{
	const struct account_finding *x = a, *y = b;
	return x->cost_ns > y->cost_ns ? -1 : x->cost_ns < y->cost_ns;
}

size_t account_findings(const struct account_state *s,
			struct account_finding ret[static FINDINGS_MOST])
{
	struct account_finding all[RULES];
	size_t n = 0;
	for (size_t i = 0; i < RULES; i++) {
		all[n] = (struct account_finding){.name = rules[i].name};
		all[n].cost_ns = rules[i].look(s, account_main(&s->account), &all[n]);
		n += all[n].cost_ns != 0;
	}
	qsort(all, n, sizeof(*all), compare_findings);
	n = n < FINDINGS_MOST ? n : FINDINGS_MOST;
	memcpy(ret, all, n * sizeof(*all));
	return n;
}

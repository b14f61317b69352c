/* report_account_rules.c - what stands out: each rule looks at one thing, and says a sentence with
 * numbers where it is large. To add one: a function and its line in the table. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "report/report_account.h"
#include "report/report_section.h"

#define LOADERS_NAMED	4
#define START_LEAST	10 /* one part in so many of the run */
#define COMPILE_LEAST	20
#define COMPILERS_NAMED 3
#define HELD_LEAST	20 /* likewise, of what passed before the loop */

/* Writes the sentence and returns what it costs, in ns; 0: there is nothing to say. */
typedef uint64_t rule_fn(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret);

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100 * (double)part / (double)whole : 0;
}

enum account_owner account_largest(const struct account_thread *th)
{
	enum account_owner most = ACCOUNT_OTHER;
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		if (i != ACCOUNT_HELD && th->ns[i] > th->ns[most])
			most = (enum account_owner)i;
	return most;
}

/* Whether an owner has so many percent of the thread's time, or most of all. */
static bool has(const struct account_thread *th, enum account_owner owner, unsigned least)
{
	return th->ns[owner] &&
	       (th->ns[owner] * 100 >= th->wall_ns * least || owner == account_largest(th));
}

/* Of what the shares are. */
static const char *whose(const struct account_state *s)
{
	return s->account.has_loop ? "the loop's time" : "its time";
}

void account_finding_put(struct account_finding *ret, struct buf *text)
{
	buf_byte(text, 0);
	snprintf(ret->text, FINDING_BYTES, "%s", (char *)text->data);
	buf_free(text);
}

/* "It waited for the disk for 32 % of its time (1.2 s)." with what comes before the number. */
static uint64_t say_share(const struct account_state *s, const struct account_thread *th,
			  enum account_owner owner, unsigned least, struct account_finding *ret,
			  const char *what, const char *hint)
{
	char time[HUMAN_BYTES];
	if (!has(th, owner, least))
		return 0;
	snprintf(ret->text, FINDING_BYTES, "%s for %.0f %% of %s (%s)%s.", what,
		 percent(th->ns[owner], th->wall_ns), whose(s), human_ns(time, th->ns[owner]),
		 hint);
	return th->ns[owner];
}

/* A loop whose steps spend a fifth of their time or more until they have their batch; NULL. */
static const struct account_loop *slow_to_load(const struct account_state *s)
{
	const struct account_loop *l = &s->loop;
	return l->steps && l->steps->kind == STEPS_TRAINING &&
			       l->phase_mean_ns[STEPS_LOAD] * 5 >= l->mean_ns
		       ? l
		       : NULL;
}

static bool has_loaders(const struct account_state *s)
{
	const struct steps *steps = report_section_state(s->r, &report_steps);
	for (size_t i = 0; steps && i < steps->processes.len; i++) {
		const struct steps_loop *l = steps_main_loop(&steps->processes.data[i]);
		if (l && l->kind == STEPS_LOADING)
			return true;
	}
	return false;
}

/* Whether other processes make batches, and the main thread has not waited for them for as much as
 * half of the time until there is one: then that is its own. */
static bool loads_itself(const struct account_state *s, const struct account_thread *th)
{
	const struct account_loop *l = slow_to_load(s);
	uint64_t waited_ns = th->ns[ACCOUNT_DATA] + th->ns[ACCOUNT_DISK] + th->ns[ACCOUNT_POLL] +
			     th->ns[ACCOUNT_PIPE] + th->ns[ACCOUNT_NETWORK];
	return l && has_loaders(s) &&
	       2 * (double)waited_ns < l->phase_mean_ns[STEPS_LOAD] * (double)l->count;
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
	const struct account_loop *l = slow_to_load(s);
	return l && !has_loaders(s) &&
	       (double)th->ns[ACCOUNT_SLEEP] * 4 >=
		       3 * l->phase_mean_ns[STEPS_LOAD] * (double)l->count;
}

static uint64_t load(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	const struct account_loop *l = slow_to_load(s);
	char count[HUMAN_BYTES], part[HUMAN_BYTES], mean[HUMAN_BYTES];
	struct buf text = {0};
	bool own = loads_itself(s, th);
	if (!l || sleeps_to_load(s, th))
		return 0;
	buf_printf(&text,
		   "Each of its %s training steps %s on average %s of %s (%.0f %%) %s its batch",
		   human_count(count, l->count), own ? "spends" : "waits",
		   human_ns(part, (uint64_t)l->phase_mean_ns[STEPS_LOAD]),
		   human_ns(mean, (uint64_t)l->mean_ns),
		   100 * l->phase_mean_ns[STEPS_LOAD] / l->mean_ns, own ? "until it has" : "for");
	if (own)
		buf_printf(&text, ", in code of its own: its loader processes make them in time");
	else
		say_loaders(&text, s);
	ret->owner = own ? ACCOUNT_OWNERS : ACCOUNT_DATA;
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return (uint64_t)(l->phase_mean_ns[STEPS_LOAD] * l->count);
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
		   "%.0f %% of %s (%s)",
		   percent(th->ns[ACCOUNT_DATA], th->wall_ns), whose(s),
		   human_ns(time, th->ns[ACCOUNT_DATA]));
	if (ret->by->count <= ACCOUNT_PEERS || !s->groups.len)
		account_say_peers(&text, s->r, ret->by, th->ns[ACCOUNT_DATA], "made it wait");
	else /* they come and go */
		say_busiest(&text, s);
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
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
	buf_printf(&text, "It waited for a lock or a condition for %.0f %% of %s (%s)",
		   percent(th->ns[ACCOUNT_LOCK], th->wall_ns), whose(s),
		   human_ns(time, th->ns[ACCOUNT_LOCK]));
	if (lock->waits.ns)
		buf_printf(&text, ", mostly at %s:%u (%s)", lock->waits.file, lock->waits.line,
			   lock->waits.function);
	account_say_peers(&text, s->r, by, th->ns[ACCOUNT_LOCK], "woke it");
	say_lines(&text, s->r, th, lock);
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
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
	buf_printf(&text, "It was ready to run, but had no CPU for %.0f %% of %s (%s)",
		   percent(th->ns[ACCOUNT_RUNNABLE], th->wall_ns), whose(s),
		   human_ns(time, th->ns[ACCOUNT_RUNNABLE]));
	account_say_peers(&text, s->r, ret->by, th->ns[ACCOUNT_RUNNABLE], "had it");
	say_cpus(&text, s->r, th);
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return th->ns[ACCOUNT_RUNNABLE];
}

static uint64_t slept(const struct account_state *s, const struct account_thread *th,
		      struct account_finding *ret)
{
	const struct account_loop *l = slow_to_load(s);
	struct buf text = {0};
	char count[HUMAN_BYTES], part[HUMAN_BYTES], mean[HUMAN_BYTES];
	if (!sleeps_to_load(s, th))
		return say_share(s, th, ACCOUNT_SLEEP, 10, ret, "The program itself slept",
				 " in calls like sleep()");
	buf_printf(&text,
		   "Each of its %s training steps begins with %s of %s (%.0f %%) in which the "
		   "program itself sleeps, in calls like sleep().",
		   human_count(count, l->count),
		   human_ns(part, (uint64_t)l->phase_mean_ns[STEPS_LOAD]),
		   human_ns(mean, (uint64_t)l->mean_ns),
		   100 * l->phase_mean_ns[STEPS_LOAD] / l->mean_ns);
	account_finding_put(ret, &text);
	return th->ns[ACCOUNT_SLEEP];
}

static uint64_t imports(const struct account_state *s, const struct account_thread *th,
			struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_IMPORT, 20, ret, "It imported Python modules", "");
}

static uint64_t held(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_HELD, 5, ret, "eACGM stopped it to attach probes",
			 ": a run without tracing does not have this");
}

static uint64_t disk(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_DISK, 10, ret, "It waited for the disk", "");
}

static uint64_t memory(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_MEMORY, 5, ret, "It waited for pages of memory to be read",
			 "");
}

static uint64_t network(const struct account_state *s, const struct account_thread *th,
			struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_NETWORK, 10, ret, "It waited for the network", "");
}

static uint64_t pipes(const struct account_state *s, const struct account_thread *th,
		      struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_PIPE, 10, ret, "It waited for another program at a pipe",
			 "");
}

static uint64_t idle(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_POLL, 30, ret, "It waited for events, with nothing to do,",
			 "");
}

static uint64_t gpu(const struct account_state *s, const struct account_thread *th,
		    struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_GPU, 20, ret, "It waited for the GPU", "");
}

static uint64_t python(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_PYTHON, 50, ret, "It ran Python code",
			 ": one CPU at most, since Python runs one thread at a time");
}

static uint64_t native(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_NATIVE, 50, ret, "It computed in native code",
			 ": the profile below names the functions");
}

static uint64_t operators(const struct account_state *s, const struct account_thread *th,
			  struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_OPERATORS, 50, ret, "It was in PyTorch's operators",
			 ": layer torch below names them");
}

static uint64_t mpi(const struct account_state *s, const struct account_thread *th,
		    struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_MPI, 10, ret, "It was in MPI, which polls for other ranks,",
			 ": layer mpi below names the slow rank");
}

static uint64_t kernel(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	return say_share(s, th, ACCOUNT_KERNEL, 25, ret, "It ran in the Linux kernel",
			 ": system calls, page faults");
}

/* The time is the children's: the busiest program says whose. */
static uint64_t children(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret)
{
	struct buf text = {0};
	if (!has(th, ACCOUNT_CHILD, 30))
		return 0;
	buf_printf(&text, "It waited for child processes to end for %.0f %% of %s",
		   percent(th->ns[ACCOUNT_CHILD], th->wall_ns), whose(s));
	if (s->groups.len)
		say_busiest(&text, s);
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return th->ns[ACCOUNT_CHILD];
}

/* ": ptxas × 137, nvlink (7), 14.6 s on the CPU": the busiest of those that compile. */
static void say_compilers(struct buf *to, const struct account_state *s)
{
	char run[HUMAN_BYTES];
	uint64_t run_ns = 0;
	unsigned named = 0;
	for (size_t i = 0; i < s->groups.len; i++) {
		if (!account_is_compiler(s->groups.data[i].program))
			continue;
		run_ns += s->groups.data[i].run_ns;
		if (named++ >= COMPILERS_NAMED)
			continue;
		buf_printf(to, "%s", named > 1 ? ", " : ": ");
		account_say_group(to, &s->groups.data[i]);
	}
	if (named > COMPILERS_NAMED)
		buf_printf(to, " and others");
	if (named)
		buf_printf(to, ", %s on the CPU", human_ns(run, run_ns));
}

/* Its own compiling and that of compilers that it started, in the whole run: few loops have any. */
static uint64_t compiling(const struct account_state *s, const struct account_thread *th,
			  struct account_finding *ret)
{
	const struct account_thread *all = account_main(&s->account);
	uint64_t own_ns = all->ns[ACCOUNT_COMPILE], others_ns = all->ns[ACCOUNT_COMPILERS];
	struct buf text = {0};
	char own[HUMAN_BYTES], others[HUMAN_BYTES];
	if ((own_ns + others_ns) * COMPILE_LEAST < all->wall_ns || !(own_ns + others_ns))
		return 0;
	if (account_largest(th) == ACCOUNT_COMPILE)
		ret->owner = ACCOUNT_COMPILE;
	if (own_ns)
		buf_printf(&text, "It compiled for %s%s", human_ns(own, own_ns),
			   others_ns ? ", and" : ".");
	if (others_ns) {
		buf_printf(&text, "%s waited %s for compilers that it started", own_ns ? "" : "It",
			   human_ns(others, others_ns));
		say_compilers(&text, s);
		buf_printf(&text, ".");
	}
	account_finding_put(ret, &text);
	return own_ns + others_ns;
}

static uint64_t gpu_idle(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret)
{
	(void)th;
	return account_gpu_finding(s, ret);
}

static uint64_t gpu_busy(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret)
{
	(void)th;
	return account_gpu_busy_finding(s, ret);
}

/* The rows that no other rule tells of. */
static uint64_t row(const struct account_state *s, const struct account_thread *th,
		    struct account_finding *ret)
{
	char time[HUMAN_BYTES];
	enum account_owner most = account_largest(th);
	ret->owner = most;
	if (!th->ns[most])
		return 0;
	snprintf(ret->text, FINDING_BYTES, "Most of %s, %.0f %% (%s), was: %s.", whose(s),
		 percent(th->ns[most], th->wall_ns), human_ns(time, th->ns[most]),
		 account_owner_words(most));
	return th->ns[most];
}

/* What passed before the loop, which is not the loop's. */
static uint64_t start_up(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret)
{
	const struct account_thread *before = &s->account.phases[ACCOUNT_BEFORE];
	const struct account_thread *whole = account_main(&s->account);
	enum account_owner most = account_largest(before);
	struct buf text = {0};
	char start[HUMAN_BYTES], wall[HUMAN_BYTES], time[HUMAN_BYTES];
	(void)th;
	if (!s->account.has_loop || before->wall_ns * START_LEAST < whole->wall_ns)
		return 0;
	buf_printf(&text, "%s of %s passed before its %s, %s of it %s",
		   human_ns(start, before->wall_ns), human_ns(wall, whole->wall_ns),
		   s->loop.slow ? "steps ran evenly" : "first step",
		   human_ns(time, before->ns[most]), account_owner_words(most));
	if (before->ns[ACCOUNT_HELD] * HELD_LEAST >= before->wall_ns)
		buf_printf(&text,
			   "; eACGM stopped it for %s to attach probes, which a run without "
			   "tracing does not have",
			   human_ns(time, before->ns[ACCOUNT_HELD]));
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return before->wall_ns;
}

static const struct {
	const char *name;
	rule_fn *look;
	enum account_owner owner;
} rules[] = {
	{"load", load, ACCOUNT_DATA},
	{"data", data, ACCOUNT_DATA},
	{"compile", compiling, ACCOUNT_COMPILERS},
	{"lock", lock, ACCOUNT_LOCK},
	{"no_cpu", runnable, ACCOUNT_RUNNABLE},
	{"sleep", slept, ACCOUNT_SLEEP},
	{"import", imports, ACCOUNT_IMPORT},
	{"held", held, ACCOUNT_HELD},
	{"disk", disk, ACCOUNT_DISK},
	{"memory", memory, ACCOUNT_MEMORY},
	{"network", network, ACCOUNT_NETWORK},
	{"pipe", pipes, ACCOUNT_PIPE},
	{"idle", idle, ACCOUNT_POLL},
	{"gpu", gpu, ACCOUNT_GPU},
	{"python", python, ACCOUNT_PYTHON},
	{"kernel", kernel, ACCOUNT_KERNEL},
	{"child", children, ACCOUNT_CHILD},
	{"gpu_idle", gpu_idle, ACCOUNT_OWNERS},
	{"gpu_busy", gpu_busy, ACCOUNT_OWNERS},
	{"native", native, ACCOUNT_NATIVE},
	{"operators", operators, ACCOUNT_OPERATORS},
	{"mpi", mpi, ACCOUNT_MPI},
	{"start_up", start_up, ACCOUNT_OWNERS},
};
#define RULES (sizeof(rules) / sizeof(rules[0]))

/* What comes first: a run that hardly has a loop; the largest row; what is large; what is not of
 * the program's loop, or not of the program. */
static int class_of(const struct account_state *s, const struct account_finding *f)
{
	bool of_start = !strcmp(f->name, "compile") && s->account.has_loop &&
			f->owner != account_largest(account_subject(&s->account));
	if (of_start || !strcmp(f->name, "start_up"))
		return account_loop_is_small(s) ? 0 : 3;
	if (f->owner == ACCOUNT_HELD)
		return 4;
	return f->owner == account_largest(account_subject(&s->account)) ? 1 : 2;
}

struct ranked {
	int class;
	struct account_finding f;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->class != y->class)
		return x->class - y->class;
	return x->f.cost_ns > y->f.cost_ns ? -1 : x->f.cost_ns < y->f.cost_ns;
}

static bool look(struct ranked *ret, const struct account_state *s, size_t rule)
{
	ret->f = (struct account_finding){.name = rules[rule].name, .owner = rules[rule].owner};
	ret->f.cost_ns = rules[rule].look(s, account_subject(&s->account), &ret->f);
	ret->class = class_of(s, &ret->f);
	return ret->f.cost_ns;
}

size_t account_findings(const struct account_state *s,
			struct account_finding ret[static FINDINGS_MOST])
{
	struct ranked all[RULES + 1];
	bool has_row = false;
	size_t n = 0;
	for (size_t i = 0; i < RULES; i++) {
		if (!look(&all[n], s, i))
			continue;
		has_row |= all[n].class == 1;
		n++;
	}
	if (!has_row) {
		all[n].f = (struct account_finding){.name = "row"};
		all[n].f.cost_ns = row(s, account_subject(&s->account), &all[n].f);
		all[n].class = 1;
		n += all[n].f.cost_ns != 0;
	}
	qsort(all, n, sizeof(*all), compare_ranked);
	n = n < FINDINGS_MOST ? n : FINDINGS_MOST;
	for (size_t i = 0; i < n; i++)
		ret[i] = all[i].f;
	return n;
}

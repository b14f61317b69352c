/* report_account_rules.c - what stands out: each rule looks at one thing, and says a sentence with
 * numbers where it is large. To add one: a function and its line in the table. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "report/report_account.h"
#include "report/report_section.h"

#define LOADERS_NAMED	   4
#define START_LEAST	   10 /* one part in so many of the run */
#define COMPILE_LEAST	   20
#define COMPILE_LATE_LEAST 10 /* of the loop */
#define COMPILERS_NAMED	   3

/* Writes the sentence and returns what it costs, in ns; 0: there is nothing to say. */
typedef uint64_t rule_fn(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret);

enum account_owner account_largest(const uint64_t ns[static ACCOUNT_OWNERS])
{
	enum account_owner most = ACCOUNT_OTHER;
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are as many */
		if (i != ACCOUNT_HELD && ns[i] > ns[most])
			most = (enum account_owner)i;
	return most;
}

/* Whether an owner has so many percent of the thread's time, or most of all. */
bool account_has(const struct account_thread *th, enum account_owner owner, unsigned least)
{
	return th->ns[owner] &&
	       (th->ns[owner] * 100 >= th->wall_ns * least || owner == account_largest(th->ns));
}

/* Of what the shares are. */
const char *account_whose(const struct account_state *s)
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
uint64_t account_say_share(const struct account_state *s, const struct account_thread *th,
			   enum account_owner owner, unsigned least, struct account_finding *ret,
			   const char *what, const char *hint)
{
	char time[HUMAN_BYTES];
	if (!account_has(th, owner, least))
		return 0;
	snprintf(ret->text, FINDING_BYTES, "%s for %.0f %% of %s (%s)%s.", what,
		 account_percent(th->ns[owner], th->wall_ns), account_whose(s),
		 human_ns(time, th->ns[owner]), hint);
	return th->ns[owner];
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
	if (account_slow_to_load(s) || !account_has(th, ACCOUNT_DATA, 10)) /* the first says more */
		return 0;
	ret->by = &th->peers[ACCOUNT_MAKERS];
	buf_printf(&text,
		   "It waited for data of its child processes, which are slower than it is, for "
		   "%.0f %% of %s (%s)",
		   account_percent(th->ns[ACCOUNT_DATA], th->wall_ns), account_whose(s),
		   human_ns(time, th->ns[ACCOUNT_DATA]));
	if (ret->by->count <= ACCOUNT_PEERS || !s->groups.len)
		account_say_peers(&text, s->r, ret->by, th->ns[ACCOUNT_DATA], "made it wait");
	else /* they come and go */
		say_busiest(&text, s);
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return th->ns[ACCOUNT_DATA];
}

static uint64_t imports(const struct account_state *s, const struct account_thread *th,
			struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_IMPORT, 20, ret, "It imported Python modules", "");
}

static uint64_t held(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_HELD, 5, ret, "eACGM stopped it to attach probes",
				 ": a run without tracing does not have this");
}

static uint64_t disk(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	if (account_reads_finding(s, th, &(struct account_finding){0})) /* that says more */
		return 0;
	return account_say_share(s, th, ACCOUNT_DISK, 10, ret, "It waited for the disk", "");
}

static uint64_t memory(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_MEMORY, 5, ret,
				 "It waited for pages of memory to be read", "");
}

static uint64_t network(const struct account_state *s, const struct account_thread *th,
			struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_NETWORK, 10, ret, "It waited for the network", "");
}

static uint64_t pipes(const struct account_state *s, const struct account_thread *th,
		      struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_PIPE, 10, ret,
				 "It waited for another program at a pipe", "");
}

static uint64_t idle(const struct account_state *s, const struct account_thread *th,
		     struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_POLL, 30, ret,
				 "It waited for events (poll, epoll, select)", "");
}

static uint64_t gpu(const struct account_state *s, const struct account_thread *th,
		    struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_GPU, 20, ret, "It waited for the GPU", "");
}

static uint64_t python(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_PYTHON, 50, ret, "It ran Python code",
				 ": one CPU at most, since Python runs one thread at a time");
}

static uint64_t native(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_NATIVE, 50, ret, "It computed in native code",
				 ": the profile below names the functions");
}

static uint64_t operators(const struct account_state *s, const struct account_thread *th,
			  struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_OPERATORS, 50, ret, "It was in PyTorch's operators",
				 ": layer torch below names them");
}

static uint64_t mpi(const struct account_state *s, const struct account_thread *th,
		    struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_MPI, 10, ret,
				 "It was in MPI, which polls for other ranks,",
				 ": layer mpi below names the slow rank");
}

static uint64_t kernel(const struct account_state *s, const struct account_thread *th,
		       struct account_finding *ret)
{
	return account_say_share(s, th, ACCOUNT_KERNEL, 25, ret, "It ran in the Linux kernel",
				 ": system calls, page faults");
}

/* The time is the children's: the busiest program says whose. */
static uint64_t children(const struct account_state *s, const struct account_thread *th,
			 struct account_finding *ret)
{
	struct buf text = {0};
	if (!account_has(th, ACCOUNT_CHILD, 30))
		return 0;
	buf_printf(&text, "It waited for child processes to end for %.0f %% of %s",
		   account_percent(th->ns[ACCOUNT_CHILD], th->wall_ns), account_whose(s));
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

/* Of that what single steps compiled in the midst of the loop, as for sizes that it had not met. */
static void say_late(const struct account_state *s, const struct account_thread *th, struct buf *to,
		     struct account_finding *ret)
{
	char time[HUMAN_BYTES];
	uint64_t ns = (uint64_t)s->advice.compiled_ns;
	if (ns * COMPILE_LATE_LEAST < th->wall_ns || !ns)
		return;
	buf_printf(to, " Single steps in the midst of the loop took %s for it (%.0f %%).",
		   human_ns(time, ns), account_percent(ns, th->wall_ns));
	account_saves(s, ret, (double)ns, false);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "let it meet all its shapes before it counts (warm up), pad to a few of them, and "
		 "keep what was compiled");
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
	if (account_largest(th->ns) == ACCOUNT_COMPILE)
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
	say_late(s, th, &text, ret);
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
	enum account_owner most = account_largest(th->ns);
	ret->owner = most;
	if (!th->ns[most])
		return 0;
	snprintf(ret->text, FINDING_BYTES, "Most of %s, %.0f %% (%s), was: %s.", account_whose(s),
		 account_percent(th->ns[most], th->wall_ns), human_ns(time, th->ns[most]),
		 account_owner_words(most));
	return th->ns[most];
}

static const struct {
	const char *name;
	rule_fn *look;
	enum account_owner owner;
} rules[] = {
	{"slow_steps", account_slow_steps_finding, ACCOUNT_OWNERS},
	{"load", account_load_finding, ACCOUNT_DATA},
	{"making", account_making_finding, ACCOUNT_OWNERS},
	{"reads", account_reads_finding, ACCOUNT_OWNERS},
	{"code", account_code_finding, ACCOUNT_OWNERS},
	{"checkpoint", account_saves_finding, ACCOUNT_OWNERS},
	{"garbage", account_garbage_finding, ACCOUNT_OWNERS},
	{"launch", account_launch_finding, ACCOUNT_OWNERS},
	{"sync", account_sync_finding, ACCOUNT_OWNERS},
	{"copies", account_copies_finding, ACCOUNT_OWNERS},
	{"churn", account_churn_finding, ACCOUNT_OWNERS},
	{"precision", account_precision_finding, ACCOUNT_OWNERS},
	{"idle_gpu", account_idle_gpu_finding, ACCOUNT_OWNERS},
	{"exposed_collectives", account_exposed_finding, ACCOUNT_OWNERS},
	{"ranks", account_ranks_finding, ACCOUNT_OWNERS},
	{"unused_import", account_unused_finding, ACCOUNT_OWNERS},
	{"data", data, ACCOUNT_DATA},
	{"compile", compiling, ACCOUNT_COMPILERS},
	{"lock", account_lock_finding, ACCOUNT_LOCK},
	{"no_cpu", account_no_cpu_finding, ACCOUNT_RUNNABLE},
	{"sleep", account_sleep_finding, ACCOUNT_SLEEP},
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
	{"start_up", account_start_finding, ACCOUNT_OWNERS},
};
#define RULES (sizeof(rules) / sizeof(rules[0]))
_Static_assert(RULES < FINDINGS_ALL, "there is room for all");

/* It tells of the largest row, or as good as that. */
static bool tells_row(const struct account_state *s, const struct account_finding *f)
{
	return f->leads || f->owner == account_largest(account_subject(&s->account)->ns);
}

/* What comes first: a run that hardly has a loop; what would save something, and what steps lost
 * that were slow for a time; the largest row; what is large; what is not of the program's loop, or
 * not of the program. */
static int class_of(const struct account_state *s, const struct account_finding *f)
{
	bool of_start = !strcmp(f->name, "compile") && s->account.has_loop && !f->saving_ns &&
			f->owner != account_largest(account_subject(&s->account)->ns);
	if (of_start || !strcmp(f->name, "start_up"))
		return account_loop_is_small(s) ? 0 : 4;
	if (f->owner == ACCOUNT_HELD)
		return 5;
	if (f->saving_ns || f->slow)
		return 1;
	return tells_row(s, f) ? 2 : 3;
}

static uint64_t rank_ns(const struct account_finding *f)
{
	return f->saving_ns ? f->saving_ns : f->cost_ns;
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
	return rank_ns(&x->f) > rank_ns(&y->f) ? -1 : rank_ns(&x->f) < rank_ns(&y->f);
}

static bool look(struct ranked *ret, const struct account_state *s, size_t rule)
{
	ret->f = (struct account_finding){.name = rules[rule].name, .owner = rules[rule].owner};
	ret->f.cost_ns = rules[rule].look(s, account_subject(&s->account), &ret->f);
	ret->class = class_of(s, &ret->f);
	return ret->f.cost_ns;
}

size_t account_findings(const struct account_state *s,
			struct account_finding ret[static FINDINGS_ALL])
{
	const struct account_thread *th = account_subject(&s->account);
	struct ranked all[RULES + 1];
	bool has_row = false;
	size_t n = 0;
	if (!th)
		return 0;
	for (size_t i = 0; i < RULES; i++) {
		if (!look(&all[n], s, i))
			continue;
		has_row |= !all[n].f.leads && tells_row(s, &all[n].f);
		n++;
	}
	if (!has_row) {
		all[n].f = (struct account_finding){.name = "row"};
		all[n].f.cost_ns = row(s, th, &all[n].f);
		all[n].class = 2;
		n += all[n].f.cost_ns != 0;
	}
	qsort(all, n, sizeof(*all), compare_ranked);
	for (size_t i = 0; i < n; i++)
		ret[i] = all[i].f;
	return n;
}

size_t account_findings_told(const struct account_state *s, size_t n)
{
	size_t most =
		s->account.has_loop ? FINDINGS_MOST - 1 : FINDINGS_MOST; /* it has more lines */
	return n < most ? n : most;
}

/* account_main.c - which main thread tells most of a job: what people started it for, not what
 * burns most CPU. */
#include "analyze/account_impl.h"

#define CALLS_TELL 1000 /* a process with as many traced calls is what the job is about */
#define IDLE_RUNS  20	/* one part in so many of its time at most: it only waits for others */
#define BUSIER	   4
#define LASTS	   2   /* of the longest life: what was there for less is a helper */
#define LAUNCHES   2   /* one part in so many of its time at least: it waits for children to end */
#define ALIKE	   0.9 /* of the calls of another rank: they do the same */

/* Time in which it ran, or could have. */
static uint64_t wanted_ns(const struct account_thread *th)
{
	return th->run_ns + th->ns[ACCOUNT_RUNNABLE];
}

static bool only_waits(const struct account_thread *th)
{
	return wanted_ns(th) * IDLE_RUNS < th->wall_ns && !th->ns[ACCOUNT_GPU];
}

/* A shell that begins a job is a script's too, and waits. */
static unsigned rank_of(const struct account_thread *th)
{
	if (th->calls || th->ns[ACCOUNT_OPERATORS] || th->ns[ACCOUNT_GPU])
		return 2;
	return th->ns[ACCOUNT_PYTHON] || th->ns[ACCOUNT_IMPORT] ||
	       (th->process && th->process->script);
}

static bool tells_more(const struct account_thread *x, const struct account_thread *than)
{
	unsigned a = rank_of(x), b = rank_of(than);
	return a != b ? a > b : wanted_ns(x) > wanted_ns(than);
}

static uint64_t longest(const struct account *a)
{
	uint64_t ret = 0;
	for (size_t i = 0; i < a->threads.len; i++)
		if (!a->threads.data[i].before_exec && a->threads.data[i].wall_ns > ret)
			ret = a->threads.data[i].wall_ns;
	return ret;
}

static bool lasts(const struct account_thread *th, uint64_t longest_ns)
{
	return !th->before_exec && th->wall_ns * IDLE_RUNS >= longest_ns;
}

/* Helpers that a script starts may come before the program that it becomes. */
static bool has_parent(const struct account *a, size_t child, uint64_t longest_ns)
{
	const struct m_process *p = a->threads.data[child].process;
	for (size_t i = 0; i < a->threads.len && p; i++)
		if (i != child && a->threads.data[i].pid == p->parent_pid &&
		    lasts(&a->threads.data[i], longest_ns))
			return true;
	return false;
}

/* Of those that do something and last. */
static size_t that_works(const struct account *a)
{
	const struct account_thread *th = a->threads.data;
	size_t best = SIZE_MAX;
	uint64_t longest_ns = longest(a);
	for (size_t i = 0; i < a->threads.len; i++) {
		bool counts = !th[i].before_exec && !only_waits(&th[i]) &&
			      th[i].wall_ns * LASTS >= longest_ns;
		if (counts && (best == SIZE_MAX || tells_more(&th[i], &th[best])))
			best = i;
	}
	return best;
}

static bool launches(const struct account_thread *th)
{
	return th->ns[ACCOUNT_CHILD] * LAUNCHES >= th->wall_ns;
}

/* A loader process may have more calls than the loop that it makes batches for. What imports a
 * library, and then waits for the ranks that it started, has calls, too, and is none. */
static size_t parent_with_calls(const struct account *a, size_t child)
{
	const struct m_process *p = a->threads.data[child].process;
	for (size_t i = 0; i < a->threads.len && p; i++)
		if (i != child && !a->threads.data[i].before_exec &&
		    a->threads.data[i].pid == p->parent_pid &&
		    a->threads.data[i].calls >= CALLS_TELL && !launches(&a->threads.data[i]))
			return i;
	return child;
}

/* Of ranks that do the same, the first one. */
static size_t first_rank(const struct account *a, size_t of)
{
	const struct account_thread *th = a->threads.data;
	size_t ret = of;
	for (size_t i = 0; i < a->threads.len && th[of].process && th[of].process->rank >= 0; i++)
		if (!th[i].before_exec && th[i].process && th[i].process->rank >= 0 &&
		    th[i].process->rank < th[ret].process->rank &&
		    (double)th[i].calls >= ALIKE * (double)th[of].calls)
			ret = i;
	return ret;
}

static size_t busiest(const struct account *a)
{
	const struct account_thread *th = a->threads.data;
	size_t best = 0;
	for (size_t i = 1; i < a->threads.len; i++)
		best = wanted_ns(&th[i]) > wanted_ns(&th[best]) ? i : best;
	return best;
}

/* What has most traced calls; else the first process, unless it only waits for busier ones. Of them
 * it is one that runs the job's own code, rather than a program that only burns CPU beside it. */
size_t account_choose_main(const struct account *a)
{
	const struct account_thread *th = a->threads.data;
	size_t most = SIZE_MAX, first = SIZE_MAX;
	uint64_t longest_ns = longest(a);
	for (size_t i = 0; i < a->threads.len; i++) {
		if (th[i].before_exec)
			continue;
		most = most == SIZE_MAX || th[i].calls > th[most].calls ? i : most;
		if (lasts(&th[i], longest_ns) && !has_parent(a, i, longest_ns) &&
		    (first == SIZE_MAX || th[i].since_ns < th[first].since_ns))
			first = i;
	}
	if (first == SIZE_MAX) /* there are none */
		return SIZE_MAX;
	if (th[most].calls >= CALLS_TELL)
		return first_rank(a, parent_with_calls(a, most));
	size_t busy = busiest(a), works = that_works(a); /* none, where many come and go */
	if (!only_waits(&th[first]) || wanted_ns(&th[busy]) <= BUSIER * wanted_ns(&th[first]))
		return first;
	return works != SIZE_MAX ? works : first;
}

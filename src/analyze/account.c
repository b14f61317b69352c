/* account.c - the threads' totals, and what rows of waits, calls and samples say beyond them. */
#include "analyze/account.h"

#include <string.h>

#include "analyze/account_impl.h"
#include "analyze/process_index.h"
#include "analyze/programs.h"

#define CALLS_TELL 1000 /* a process with as many traced calls is what the job is about */
#define IDLE_RUNS  20	/* one part in so many of its time at most: it only waits for others */
#define BUSIER	   4

static enum account_owner owner_of(uint8_t reason)
{
	static const uint8_t owners[WAIT_REASONS] = {
		[WAIT_OTHER] = ACCOUNT_OTHER,	  [WAIT_PREEMPTED] = ACCOUNT_RUNNABLE,
		[WAIT_FUTEX] = ACCOUNT_LOCK,	  [WAIT_GIL] = ACCOUNT_LOCK,
		[WAIT_DISK] = ACCOUNT_DISK,	  [WAIT_PAGE_FAULT] = ACCOUNT_MEMORY,
		[WAIT_NETWORK] = ACCOUNT_NETWORK, [WAIT_POLL] = ACCOUNT_POLL,
		[WAIT_PIPE] = ACCOUNT_PIPE,	  [WAIT_SLEEP] = ACCOUNT_SLEEP,
		[WAIT_CHILD] = ACCOUNT_CHILD,	  [WAIT_GPU] = ACCOUNT_GPU,
		[WAIT_HELD] = ACCOUNT_HELD,	  [WAIT_STOPPED] = ACCOUNT_STOPPED,
		[WAIT_SIGNAL] = ACCOUNT_OTHER,
	};
	return reason < WAIT_REASONS ? (enum account_owner)owners[reason] : ACCOUNT_OTHER;
}

static const char *text_of(const struct rec_tables *t, uint32_t string)
{
	return strtab_get(&t->strings, string, NULL);
}

/* ---- totals ---- */

static struct account_thread *thread_of(struct accounting *a, uint32_t thread)
{
	uint64_t at;
	return map64_get(&a->place_of, thread, &at) ? &a->ret->threads.data[at] : NULL;
}

static void add_total(struct accounting *a, const struct m_wait_total *w)
{
	const struct m_thread *row = &a->t->threads.data[w->thread];
	if (row->tid != row->pid || (a->pid && row->pid != a->pid))
		return;
	struct account_thread *th = thread_of(a, w->thread);
	if (!th) {
		map64_set(&a->place_of, w->thread, a->ret->threads.len);
		th = vec_push(&a->ret->threads);
		*th = (struct account_thread){
			.thread = w->thread, .pid = row->pid, .since_ns = w->since_ns};
	}
	th->ns[owner_of(w->reason)] += w->waited_ns;
	th->ns[ACCOUNT_RUNNABLE] += w->runnable_ns;
	if (w->until_ns > th->since_ns && w->until_ns - th->since_ns > th->wall_ns)
		th->wall_ns = w->until_ns - th->since_ns;
}

static uint64_t sum_ns(const struct account_thread *th)
{
	uint64_t sum = 0;
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		sum += th->ns[i];
	return sum;
}

/* What is in none of the totals was running. Of a thread whose times do not fit the totals count.
 */
static void find_running(struct account_thread *th)
{
	uint64_t off_ns = sum_ns(th);
	if (th->wall_ns < off_ns)
		th->wall_ns = off_ns;
	th->ns[ACCOUNT_CPU] = th->wall_ns - off_ns;
}

/* ---- waits with rows ---- */

static void move_ns(struct account_thread *th, enum account_owner from, enum account_owner to,
		    uint64_t ns)
{
	ns = ns < th->ns[from] ? ns : th->ns[from];
	th->ns[from] -= ns;
	th->ns[to] += ns;
}

/* The other end of what a job's data comes through: its children, or a thread of PyTorch's. */
static bool brings_data(const struct accounting *a, const struct account_thread *th,
			const struct m_wait *w)
{
	uint64_t parent, thread;
	if (!w->waker_pid)
		return false;
	if (w->waker_pid != th->pid)
		return map64_get(&a->parent_of, w->waker_pid, &parent) && parent == th->pid;
	return map64_get(&a->thread_of_tid, w->waker_tid, &thread) &&
	       !strncmp(text_of(a->t, a->t->threads.data[thread].comm), "pt_data_pin", 11);
}

static bool carries_data(enum account_owner owner)
{
	return owner == ACCOUNT_POLL || owner == ACCOUNT_PIPE || owner == ACCOUNT_NETWORK ||
	       owner == ACCOUNT_LOCK;
}

static void add_unlocker(struct accounting *a, const struct m_wait *w, uint64_t ns)
{
	uint64_t key = (uint64_t)w->waker_pid << 32 | w->waker_tid, sum_ns = 0;
	map64_get(&a->unlocked, key, &sum_ns);
	map64_set(&a->unlocked, key, sum_ns + ns);
}

static void add_rival(struct accounting *a, struct account_thread *th, const struct m_wait *w)
{
	uint64_t key = (uint64_t)(th - a->ret->threads.data) << 32 | w->rival;
	uint64_t sum_ns = 0, pid = w->rival_pid;
	map64_get(&a->rivals, key, &sum_ns);
	sum_ns += w->end_ns - w->start_ns;
	map64_set(&a->rivals, key, sum_ns);
	if (map64_get(&a->rival_pids, key, &pid) && pid != w->rival_pid)
		pid = 0;
	map64_set(&a->rival_pids, key, pid);
	if (sum_ns <= th->rival_ns)
		return;
	th->rival_ns = sum_ns;
	th->rival_pid = (uint32_t)pid;
	th->rival = w->rival;
}

static void add_wait(struct accounting *a, struct account_thread *th, const struct m_wait *w)
{
	enum account_owner owner = owner_of(w->reason);
	uint64_t woken_ns = w->end_ns - w->runnable_ns;
	if (w->reason == WAIT_PREEMPTED && w->rival_pid)
		add_rival(a, th, w);
	if (w->reason == WAIT_PREEMPTED || woken_ns <= w->start_ns)
		return;
	uint64_t waited_ns = woken_ns - w->start_ns;
	uint64_t sync_ns = syncs_within(a, th->thread, w->start_ns, woken_ns);
	move_ns(th, owner, ACCOUNT_GPU, sync_ns);
	waited_ns -= sync_ns;
	if (carries_data(owner) && brings_data(a, th, w))
		move_ns(th, owner, ACCOUNT_DATA, waited_ns);
	else if (owner == ACCOUNT_LOCK && w->waker_pid == th->pid)
		add_unlocker(a, w, waited_ns);
	a->sync_off_ns[th - a->ret->threads.data] += sync_ns;
}

static void add_waits(void *ctx, const struct visited_rows *rows)
{
	struct accounting *a = ctx;
	const struct m_wait *waits = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		struct account_thread *th = thread_of(a, waits[i].thread);
		if (th)
			add_wait(a, th, &waits[i]);
	}
}

static void find_unlockers(struct accounting *a)
{
	for (size_t i = 0; i < a->t->threads.len; i++) {
		const struct m_thread *row = &a->t->threads.data[i];
		uint64_t ns, main_thread;
		if (!map64_get(&a->unlocked, (uint64_t)row->pid << 32 | row->tid, &ns) ||
		    !map64_get(&a->thread_of_tid, row->pid, &main_thread))
			continue;
		struct account_thread *th = thread_of(a, (uint32_t)main_thread);
		if (th && ns > th->unlocker_ns) {
			th->unlocker_ns = ns;
			th->unlocker_tid = row->tid;
		}
	}
}

/* ---- which of them ---- */

/* The command's process, and its children that run the same file, have the name of what the command
 * runs: of python3 the script. */
static const char *program_of(const struct rec_tables *t, const struct m_process *process)
{
	const char *program = rec_meta(t, "program");
	if (!process)
		return "a process";
	if (program && *program && t->processes.len &&
	    process->command == t->processes.data[0].command)
		return program;
	return process_program(t, process);
}

static bool only_waits(const struct account_thread *th)
{
	return th->run_ns * IDLE_RUNS < th->wall_ns && !th->ns[ACCOUNT_GPU];
}

/* What has most traced calls; else the first process, unless it only waits for a busier one. */
static size_t choose_main(const struct account *a)
{
	size_t most = 0, first = 0, busiest = 0;
	const struct account_thread *th = a->threads.data;
	for (size_t i = 1; i < a->threads.len; i++) {
		most = th[i].calls > th[most].calls ? i : most;
		first = th[i].since_ns < th[first].since_ns ? i : first;
		busiest = th[i].run_ns > th[busiest].run_ns ? i : busiest;
	}
	if (!a->threads.len)
		return SIZE_MAX;
	if (th[most].calls >= CALLS_TELL)
		return most;
	return only_waits(&th[first]) && th[busiest].run_ns > BUSIER * th[first].run_ns ? busiest
											: first;
}

static int compare_threads(const void *a, const void *b)
{
	const struct account_thread *x = a, *y = b;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* ---- all of it ---- */

static void begin(struct accounting *a, const struct summary *summary)
{
	struct process_index index;
	for (size_t i = 0; i < a->t->wait_totals.len; i++)
		add_total(a, &a->t->wait_totals.data[i]);
	process_index_make(&index, a->t);
	for (size_t i = 0; i < a->ret->threads.len; i++) {
		struct account_thread *th = &a->ret->threads.data[i];
		find_running(th);
		th->process = process_index_row(&index, th->pid);
		th->program = program_of(a->t, th->process);
	}
	process_index_free(&index);
	for (size_t i = 0; i < a->t->processes.len; i++)
		map64_set(&a->parent_of, a->t->processes.data[i].pid,
			  a->t->processes.data[i].parent_pid);
	for (size_t i = 0; i < a->t->threads.len; i++)
		map64_set(&a->thread_of_tid, a->t->threads.data[i].tid, i);
	for (size_t i = 0; i < summary->processes.len; i++) {
		uint64_t thread;
		struct account_thread *th = NULL;
		if (map64_get(&a->thread_of_tid, summary->processes.data[i].row->pid, &thread))
			th = thread_of(a, (uint32_t)thread);
		if (th)
			th->calls += summary->processes.data[i].calls;
	}
}

static void end(struct accounting *a)
{
	find_unlockers(a);
	for (size_t i = 0; i < a->ret->threads.len; i++) {
		struct account_thread *th = &a->ret->threads.data[i];
		uint64_t sync_ns = syncs_total(a, th->thread), off_ns = a->sync_off_ns[i];
		move_ns(th, ACCOUNT_CPU, ACCOUNT_GPU, sync_ns > off_ns ? sync_ns - off_ns : 0);
		th->run_ns = th->ns[ACCOUNT_CPU];
		account_split_running(a, i);
	}
	if (a->ret->threads.len)
		qsort(a->ret->threads.data, a->ret->threads.len, sizeof(*a->ret->threads.data),
		      compare_threads);
	a->ret->main = choose_main(a->ret);
}

void account_make(struct account *ret, const struct row_source *s, const struct timeline *t,
		  const struct summary *summary, uint32_t pid)
{
	struct accounting a = {.ret = ret, .t = s->tables, .pid = pid};
	*ret = (struct account){.main = SIZE_MAX};
	begin(&a, summary);
	if (ret->threads.len) {
		a.sync_off_ns = xcalloc(ret->threads.len, sizeof(*a.sync_off_ns));
		a.running = xcalloc(ret->threads.len, sizeof(*a.running));
		syncs_load(&a, t);
		rows_read(s, ROW_WAIT, add_waits, &a);
		account_read_samples(&a, s);
		end(&a);
	}
	syncs_free(&a);
	free(a.sync_off_ns);
	free(a.running);
	map64_free(&a.place_of);
	map64_free(&a.parent_of);
	map64_free(&a.thread_of_tid);
	map64_free(&a.unlocked);
	map64_free(&a.rivals);
	map64_free(&a.rival_pids);
}

void account_free(struct account *a)
{
	vec_free(&a->threads);
	*a = (struct account){.main = SIZE_MAX};
}

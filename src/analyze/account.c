/* account.c - the threads' totals, and what rows of waits, calls and samples say beyond them. */
#include "analyze/account.h"

#include <string.h>

#include "analyze/account_impl.h"
#include "analyze/programs.h"

#define LOCKS_TELL                                                                                 \
	10 /* one part in so many of its time in waits for locks is worth a second look */

enum account_owner account_owner_of(uint8_t reason)
{
	static const uint8_t owners[WAIT_REASONS] = {
		[WAIT_OTHER] = ACCOUNT_OTHER,	  [WAIT_PREEMPTED] = ACCOUNT_RUNNABLE,
		[WAIT_FUTEX] = ACCOUNT_LOCK,	  [WAIT_GIL] = ACCOUNT_LOCK,
		[WAIT_DISK] = ACCOUNT_DISK,	  [WAIT_PAGE_FAULT] = ACCOUNT_MEMORY,
		[WAIT_NETWORK] = ACCOUNT_NETWORK, [WAIT_POLL] = ACCOUNT_POLL,
		[WAIT_PIPE] = ACCOUNT_PIPE,	  [WAIT_SLEEP] = ACCOUNT_SLEEP,
		[WAIT_CHILD] = ACCOUNT_CHILD,	  [WAIT_GPU] = ACCOUNT_GPU,
		[WAIT_HELD] = ACCOUNT_HELD,	  [WAIT_STOPPED] = ACCOUNT_STOPPED,
		[WAIT_SIGNAL] = ACCOUNT_SIGNAL,
	};
	return reason < WAIT_REASONS ? (enum account_owner)owners[reason] : ACCOUNT_OTHER;
}

static const char *text_of(const struct rec_tables *t, uint32_t string)
{
	return strtab_get(&t->strings, string, NULL);
}

size_t account_place(const struct accounting *a, uint32_t thread, uint64_t time_ns)
{
	uint64_t at;
	if (!map64_get(&a->place_of, thread, &at))
		return SIZE_MAX;
	while (a->is_cut && at + 1 < a->ret->threads.len &&
	       time_ns >= a->ret->threads.data[at + 1].since_ns)
		at++;
	return at;
}

/* ---- totals ---- */

static struct account_thread *thread_of(struct accounting *a, uint32_t thread)
{
	uint64_t at;
	return map64_get(&a->place_of, thread, &at) ? &a->ret->threads.data[at] : NULL;
}

static bool is_own(const struct accounting *a, uint32_t pid)
{
	const struct m_process *p = process_index_row(&a->index, pid);
	return p && process_is_own(a->t, p);
}

static void add_total(struct accounting *a, const struct m_wait_total *w)
{
	const struct m_thread *row = &a->t->threads.data[w->thread];
	if (row->tid != row->pid || (a->pid && row->pid != a->pid) || is_own(a, row->pid))
		return;
	struct account_thread *th = thread_of(a, w->thread);
	if (!th) {
		map64_set(&a->place_of, w->thread, a->ret->threads.len);
		th = vec_push(&a->ret->threads);
		*th = (struct account_thread){
			.thread = w->thread, .pid = row->pid, .since_ns = w->since_ns};
	}
	th->cpus = w->cpus ? w->cpus : th->cpus;
	th->ns[account_owner_of(w->reason)] += w->waited_ns;
	th->ns[ACCOUNT_RUNNABLE] += w->runnable_ns;
	th->waits += w->count;
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
static bool brings_data(const struct accounting *a, uint32_t pid, const struct m_wait *w)
{
	uint64_t parent, thread;
	if (!w->waker_pid)
		return false;
	if (w->waker_pid != pid)
		return map64_get(&a->parent_of, w->waker_pid, &parent) && parent == pid;
	return map64_get(&a->thread_of_tid, w->waker_tid, &thread) &&
	       !strncmp(text_of(a->t, a->t->threads.data[thread].comm), "pt_data_pin", 11);
}

static bool carries_data(enum account_owner owner)
{
	return owner == ACCOUNT_POLL || owner == ACCOUNT_PIPE || owner == ACCOUNT_NETWORK ||
	       owner == ACCOUNT_LOCK;
}

enum account_owner account_owner_of_wait(const struct accounting *a, uint32_t pid,
					 const struct m_wait *w)
{
	enum account_owner owner = account_owner_of(w->reason);
	return carries_data(owner) && brings_data(a, pid, w) ? ACCOUNT_DATA : owner;
}

/* How long of a wait for others compilers of its own ran. */
uint64_t account_compiled_ns(const struct accounting *a, uint32_t pid, const struct m_wait *w,
			     enum account_owner owner)
{
	bool for_others = carries_data(owner) || owner == ACCOUNT_CHILD;
	return for_others ? stretches_within(&a->compiles, pid, w->start_ns,
					     w->end_ns - w->runnable_ns)
			  : 0;
}

static void add_wait(struct accounting *a, struct account_thread *th, const struct m_wait *w)
{
	enum account_owner owner = account_owner_of(w->reason);
	uint64_t woken_ns = w->end_ns - w->runnable_ns;
	if (w->rival_pid && w->reason != WAIT_STOPPED)
		account_peer_add(a, th, ACCOUNT_RIVALS,
				 &(struct peer_row){.pid = w->rival_pid,
						    .name = w->rival,
						    .ns = w->runnable_ns});
	if (w->reason == WAIT_PREEMPTED || woken_ns <= w->start_ns)
		return;
	uint64_t waited_ns = woken_ns - w->start_ns;
	uint64_t sync_ns = stretches_within(&a->syncs, th->thread, w->start_ns, woken_ns);
	move_ns(th, owner, ACCOUNT_GPU, sync_ns);
	waited_ns -= sync_ns;
	uint64_t compiled_ns = account_compiled_ns(a, th->pid, w, owner);
	compiled_ns = compiled_ns < waited_ns ? compiled_ns : waited_ns;
	move_ns(th, owner, ACCOUNT_COMPILERS, compiled_ns);
	waited_ns -= compiled_ns;
	struct peer_row waker = {.pid = w->waker_pid, .tid = w->waker_tid, .ns = waited_ns};
	if (account_owner_of_wait(a, th->pid, w) == ACCOUNT_DATA) {
		move_ns(th, owner, ACCOUNT_DATA, waited_ns);
		waker.tid = waker.pid == th->pid ? waker.tid : 0;
		account_peer_add(a, th, ACCOUNT_MAKERS, &waker);
	} else if (owner == ACCOUNT_LOCK && w->waker_pid == th->pid) {
		account_peer_add(a, th, ACCOUNT_UNLOCKERS, &waker);
	}
	a->sync_off_ns[th - a->ret->threads.data] += sync_ns;
}

static void add_waits(void *ctx, const struct visited_rows *rows)
{
	struct accounting *a = ctx;
	const struct m_wait *waits = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		size_t at = account_place(a, waits[i].thread, waits[i].start_ns);
		if (at == SIZE_MAX)
			continue;
		if (!a->is_cut)
			add_wait(a, &a->ret->threads.data[at], &waits[i]);
		for (size_t k = 0; a->is_cut && k < a->ret->threads.len; k++) {
			struct m_wait part = waits[i];
			if (account_clip(&part, &a->ret->threads.data[k]))
				add_wait(a, &a->ret->threads.data[k], &part);
		}
	}
}

static int compare_threads(const void *a, const void *b)
{
	const struct account_thread *x = a, *y = b;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* ---- all of it ---- */

static void find_execs(struct accounting *a)
{
	struct map64 last_of = {0}; /* pid -> its newest main thread */
	uint64_t last;
	for (size_t i = 0; i < a->ret->threads.len; i++) {
		const struct account_thread *th = &a->ret->threads.data[i];
		if (!map64_get(&last_of, th->pid, &last) || last < th->thread)
			map64_set(&last_of, th->pid, th->thread);
	}
	for (size_t i = 0; i < a->ret->threads.len; i++) {
		struct account_thread *th = &a->ret->threads.data[i];
		th->before_exec = map64_get(&last_of, th->pid, &last) && last != th->thread;
	}
	map64_free(&last_of);
}

static void begin(struct accounting *a, const struct summary *summary)
{
	for (size_t i = 0; i < a->t->wait_totals.len; i++)
		add_total(a, &a->t->wait_totals.data[i]);
	find_execs(a);
	for (size_t i = 0; i < a->ret->threads.len; i++) {
		struct account_thread *th = &a->ret->threads.data[i];
		find_running(th);
		th->process = th->before_exec ? NULL : process_index_row(&a->index, th->pid);
		th->program = th->before_exec ? text_of(a->t, a->t->threads.data[th->thread].comm)
					      : account_program(a->t, th->process);
	}
	for (size_t i = 0; i < summary->processes.len; i++) {
		uint64_t thread;
		struct account_thread *th = NULL;
		if (map64_get(&a->thread_of_tid, summary->processes.data[i].row->pid, &thread))
			th = thread_of(a, (uint32_t)thread);
		if (th)
			th->calls += summary->processes.data[i].calls;
	}
}

void account_begin(struct accounting *a, struct account *ret, const struct row_source *s)
{
	*a = (struct accounting){.ret = ret, .t = s->tables};
	process_index_make(&a->index, a->t);
	for (size_t i = 0; i < a->t->processes.len; i++)
		map64_set(&a->parent_of, a->t->processes.data[i].pid,
			  a->t->processes.data[i].parent_pid);
	for (size_t i = 0; i < a->t->threads.len; i++)
		map64_set(&a->thread_of_tid, a->t->threads.data[i].tid, i);
}

static void end(struct accounting *a)
{
	account_peers_end(a, &a->index);
	for (size_t i = 0; i < a->ret->threads.len; i++) {
		struct account_thread *th = &a->ret->threads.data[i];
		uint64_t off_ns = a->sync_off_ns[i];
		uint64_t sync_ns = stretches_within(&a->syncs, th->thread, th->since_ns,
						    th->since_ns + th->wall_ns);
		move_ns(th, ACCOUNT_CPU, ACCOUNT_GPU, sync_ns > off_ns ? sync_ns - off_ns : 0);
		th->run_ns = th->ns[ACCOUNT_CPU];
		account_split(th->ns, a->running[i].samples, th->samples);
	}
}

void account_forget(struct accounting *a)
{
	process_index_free(&a->index);
	stretches_free(&a->syncs);
	stretches_free(&a->compiles);
	map64_free(&a->workers);
	free(a->sync_off_ns);
	free(a->running);
	map64_free(&a->place_of);
	map64_free(&a->parent_of);
	map64_free(&a->thread_of_tid);
	map64_free(&a->peer_of);
	vec_free(&a->peers);
}

void account_read(struct accounting *a, const struct row_source *s, const struct timeline *t)
{
	if (a->ret->threads.len) {
		a->sync_off_ns = xcalloc(a->ret->threads.len, sizeof(*a->sync_off_ns));
		a->running = xcalloc(a->ret->threads.len, sizeof(*a->running));
		syncs_load(a, t);
		compiles_load(a, s);
		rows_read(s, ROW_WAIT, add_waits, a);
		account_read_samples(a, s);
		end(a);
	}
	account_forget(a);
}

static void find_lines(struct account *a, const struct row_source *s)
{
	const struct account_thread *th = account_subject(a);
	a->lock = (struct account_lock){0};
	if (!th || th->ns[ACCOUNT_LOCK] * LOCKS_TELL < th->wall_ns)
		return;
	account_find_lines(&a->lock, th, s, &a->through);
	account_find_holders(&a->lock, th, s, &a->through);
}

static void read_threads(struct account *ret, const struct row_source *s, const struct timeline *t,
			 const struct summary *summary, uint32_t pid, struct map64 *on_gpu)
{
	struct accounting a;
	account_begin(&a, ret, s);
	a.pid = pid;
	a.through = &ret->through;
	a.on_gpu = on_gpu;
	begin(&a, summary);
	account_read(&a, s, t);
}

void account_make(struct account *ret, const struct row_source *s, const struct timeline *t,
		  const struct summary *summary, uint32_t pid)
{
	struct map64 on_gpu = {0};
	*ret = (struct account){.main = SIZE_MAX};
	read_threads(ret, s, t, summary, pid, &on_gpu);
	if (account_find_through(ret, s, t, &on_gpu)) {
		vec_free(&ret->threads);
		read_threads(ret, s, t, summary, pid, NULL);
	}
	map64_free(&on_gpu);
	if (ret->threads.len)
		qsort(ret->threads.data, ret->threads.len, sizeof(*ret->threads.data),
		      compare_threads);
	ret->main = account_choose_main(ret);
	find_lines(ret, s);
}

void account_cut(struct account *a, const struct row_source *s, const struct timeline *t,
		 uint64_t from_ns, uint64_t to_ns)
{
	account_cut_phases(a, s, t, from_ns, to_ns);
	if (a->has_loop)
		find_lines(a, s);
}

void account_free(struct account *a)
{
	vec_free(&a->threads);
	stretches_free(&a->through);
	*a = (struct account){.main = SIZE_MAX};
}

/* account_holders.c - who ended a thread's waits for locks, and what that did meanwhile: where it
 * mostly waited for locks itself, who ended those, and so on. Threads of the same process only. */
#include <string.h>

#include "analyze/account_impl.h"
#include "base/files.h"

struct following {
	const struct rec_tables *t;
	struct map64 thread_of; /* tid -> thread */
	struct account_holder *holder;
	uint32_t pid, thread, next; /* who waits; who ended most of that */
	struct stretches times;	    /* of `thread`: those that count */
	struct stretches waits;	    /* by the thread that ended them: those of `thread` */
	struct map64 ended_ns;	    /* thread -> ns */
	uint32_t samples[ACCOUNT_RUNS];
	uint64_t all_samples;
	struct map64 self_of; /* function -> samples */
};

static bool for_lock(const struct m_wait *w)
{
	return w->reason == WAIT_FUTEX || w->reason == WAIT_GIL;
}

/* ---- who ended the waits ---- */

static void add_end(struct following *f, const struct m_wait *w)
{
	uint64_t waker, sum_ns = 0, woken_ns = w->end_ns - w->runnable_ns;
	if (w->thread != f->thread || w->waker_pid != f->pid || !for_lock(w) ||
	    !map64_get(&f->thread_of, w->waker_tid, &waker) || waker == f->thread)
		return;
	map64_get(&f->ended_ns, waker, &sum_ns);
	map64_set(&f->ended_ns, waker,
		  sum_ns + stretches_within(&f->times, f->thread, w->start_ns, woken_ns));
	stretches_cut(&f->waits, (uint32_t)waker, &f->times, f->thread, w->start_ns, woken_ns);
}

static void add_ends(void *ctx, const struct visited_rows *rows)
{
	const struct m_wait *waits = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		add_end(ctx, &waits[i]);
}

static bool find_next(struct following *f, const struct row_source *s)
{
	uint64_t thread, ns, most_ns = 0;
	rows_read(s, ROW_WAIT, add_ends, f);
	stretches_end(&f->waits);
	for (size_t at = 0; map64_next(&f->ended_ns, &at, &thread, &ns);)
		if (ns > most_ns || (ns == most_ns && ns && thread < f->next)) {
			most_ns = ns;
			f->next = (uint32_t)thread;
		}
	return most_ns;
}

/* ---- what that did ---- */

static void add_waits(void *ctx, const struct visited_rows *rows)
{
	struct following *f = ctx;
	const struct m_wait *waits = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_wait *w = &waits[i];
		uint64_t woken_ns = w->end_ns - w->runnable_ns;
		if (w->thread != f->next)
			continue;
		f->holder->ns[account_owner_of(w->reason)] +=
			stretches_within(&f->waits, f->next, w->start_ns, woken_ns);
		f->holder->ns[ACCOUNT_RUNNABLE] +=
			stretches_within(&f->waits, f->next, woken_ns, w->end_ns);
	}
}

/* The innermost function of its own code or a library's: name << 32 | file, both strings; 0 = there
 * is none. */
static uint64_t function_of(const struct rec_tables *t, uint32_t stack)
{
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		if (f->kind == FRAME_PYTHON || f->kind == FRAME_NATIVE)
			return (uint64_t)f->name << 32 |
			       (f->kind == FRAME_PYTHON ? f->file : f->library);
	}
	return 0;
}

static void add_samples(void *ctx, const struct visited_rows *rows)
{
	struct following *f = ctx;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_sample *s = &samples[i];
		uint64_t n = 0;
		if (s->kind != SAMPLE_CPU || s->thread != f->next ||
		    !stretches_within(&f->waits, f->next, s->time_ns, s->time_ns + 1))
			continue;
		uint64_t function = function_of(f->t, s->stack);
		f->samples[account_owner_of_stack(f->t, s->stack)]++;
		f->all_samples++;
		map64_get(&f->self_of, function, &n);
		map64_set(&f->self_of, function, n + 1);
	}
}

static void find_function(struct following *f)
{
	const struct strtab *strings = &f->t->strings;
	uint64_t function, n, most = 0, at_most = 0;
	for (size_t at = 0; map64_next(&f->self_of, &at, &function, &n);)
		if (function && (n > most || (n == most && function < at_most))) {
			most = n;
			at_most = function;
		}
	if (most * 4 < f->all_samples || !most) /* none tells much */
		return;
	f->holder->in = (struct account_line){
		.function = strtab_get(strings, (uint32_t)(at_most >> 32), NULL),
		.file = path_file_name(strtab_get(strings, (uint32_t)at_most, NULL)),
		.ns = (uint64_t)((double)f->holder->wall_ns * (double)most /
				 (double)f->all_samples)};
}

static void look_at(struct following *f, const struct row_source *s)
{
	struct account_holder *h = f->holder;
	uint64_t off_ns = 0;
	*h = (struct account_holder){
		.tid = f->t->threads.data[f->next].tid,
		.name = strtab_get(&f->t->strings, f->t->threads.data[f->next].comm, NULL),
		.wall_ns = stretches_within(&f->waits, f->next, 0, UINT64_MAX)};
	rows_read(s, ROW_WAIT, add_waits, f);
	rows_read(s, ROW_SAMPLE, add_samples, f);
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		off_ns += h->ns[i];
	h->ns[ACCOUNT_CPU] = h->wall_ns > off_ns ? h->wall_ns - off_ns : 0;
	account_split(h->ns, f->samples, f->all_samples);
	find_function(f);
}

/* ---- the chain ---- */

static void forget_level(struct following *f)
{
	stretches_free(&f->times);
	map64_free(&f->ended_ns);
	map64_free(&f->self_of);
	memset(f->samples, 0, sizeof(f->samples));
	f->all_samples = 0;
}

void account_find_holders(struct account_lock *ret, const struct account_thread *th,
			  const struct row_source *s, const struct stretches *through)
{
	struct following f = {.t = s->tables, .pid = th->pid, .thread = th->thread};
	for (size_t i = 0; i < f.t->threads.len; i++)
		if (f.t->threads.data[i].pid == th->pid)
			map64_set(&f.thread_of, f.t->threads.data[i].tid, i);
	*vec_push(&f.times.all) =
		(struct keyed_stretch){th->thread, th->since_ns, th->since_ns + th->wall_ns};
	stretches_end(&f.times);
	stretches_subtract(&f.times, through);
	for (bool goes_on = true; goes_on && ret->nholders < ACCOUNT_HOLDERS;) {
		f.holder = &ret->holders[ret->nholders];
		goes_on = find_next(&f, s);
		if (!goes_on)
			break;
		look_at(&f, s);
		ret->nholders++;
		goes_on = f.holder->ns[ACCOUNT_LOCK] * 2 >= f.holder->wall_ns;
		forget_level(&f);
		f.times = f.waits;
		f.waits = (struct stretches){0};
		f.thread = f.next;
	}
	forget_level(&f);
	stretches_free(&f.waits);
	map64_free(&f.thread_of);
}

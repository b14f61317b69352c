/* blame_world.c - what blame asks a recording for: waits with who ended them, samples with what
 * ran, when GPUs worked. */
#include "analyze/blame.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/account_impl.h"
#include "analyze/blame_impl.h"
#include "analyze/gpu_gaps.h"
#include "analyze/programs.h"
#include "wire/stalls.h"

/* A stack of a wait is taken as it ends. */
#define STACK_NEAR_NS 100000
/* What is saved is synced soon after. */
#define SYNC_AFTER_NS 500000000
/* Of the collector's time: a line that has less is one of many that make objects. */
#define ALONE_SHARE 0.5

/* Of a wait: its end, its length, where, and whether that is the GPU's driver. */
struct waited_in {
	uint64_t time_ns, length_ns;
	uint32_t thread, frame;
	bool for_gpu;
};

/* What samples of a stack have in common. */
struct stack_facts {
	bool known;
	struct blame_sample of;
};

struct loading {
	struct blame_world *w;
	struct stack_facts *facts;    /* by stack: many samples have the same */
	VEC(struct waited_in) places; /* by thread, then time */
	struct map64 thread_of;	      /* tid -> thread */
};

/* ---- waits ---- */

#define RESTARTS 219 /* of x86-64: restart_syscall(2), in which a wait goes on */

/* System calls of x86-64 that write, or wait for what was written (wire/waits.h has their names).
 */
static bool is_write(int32_t syscall)
{
	static const int16_t those[] = {1, 18, 20, 26, 74, 75, 162, 277, 296, 306, 328};
	for (size_t i = 0; i < sizeof(those) / sizeof(those[0]); i++)
		if (syscall == those[i])
			return true;
	return false;
}

static void add_waits(void *ctx, const struct visited_rows *rows)
{
	const struct loading *l = ctx;
	const struct m_wait *waits = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_wait *m = &waits[i];
		uint64_t waker, woken_ns = m->end_ns - m->runnable_ns;
		if (m->end_ns <= m->start_ns || m->runnable_ns > m->end_ns - m->start_ns)
			continue;
		bool known = m->waker_pid && map64_get(&l->thread_of, m->waker_tid, &waker);
		*vec_push(&l->w->waits) = (struct blame_wait){
			.start_ns = m->start_ns,
			.woken_ns = woken_ns,
			.end_ns = m->end_ns,
			.thread = m->thread,
			.waker = known ? (uint32_t)waker : UINT32_MAX,
			.restarted = m->syscall == RESTARTS,
			.by_unknown = m->waker_pid && !known,
			.rival_pid = m->rival_pid,
			.rival = m->rival,
			.rival_cgroup = m->rival_cgroup,
			.rival_leader_pid = m->rival_leader_pid,
			.rival_leader = m->rival_leader,
			.frame = BLAME_NO_FRAME,
			.reason = m->reason,
			.writes = m->reason == WAIT_DISK && is_write(m->syscall)};
	}
}

static int by_thread(const void *a, const void *b)
{
	const struct blame_wait *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* ---- samples ---- */

static const struct blame_sample *facts_of(const struct loading *l, uint32_t stack)
{
	const struct rec_tables *t = l->w->t;
	struct stack_facts *f = &l->facts[stack];
	if (!f->known)
		*f = (struct stack_facts){true, blame_sample_of_stack(t, stack)};
	return &f->of;
}

static void add_samples(void *ctx, const struct visited_rows *rows)
{
	struct loading *l = ctx;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_sample *m = &samples[i];
		if (m->kind == SAMPLE_OFFCPU) {
			*vec_push(&l->places) = (struct waited_in){
				m->time_ns, m->weight_ns, m->thread,
				blame_frame_of_stack(l->w->t, m->stack), m->reason == WAIT_GPU};
		} else if (m->kind == SAMPLE_CPU) {
			struct blame_sample s = *facts_of(l, m->stack);
			s.time_ns = m->time_ns;
			s.weight_ns = m->weight_ns;
			s.thread = m->thread;
			*vec_push(&l->w->samples) = s;
		}
	}
}

/* Compilers live as long as one file: those of one name are taken together. */
static void find_compilers(struct blame_world *w)
{
	const struct rec_tables *t = w->t;
	for (size_t i = 0; i < t->processes.len; i++) {
		const struct m_process *p = &t->processes.data[i];
		if (account_is_compiler(account_program(t, p)))
			map64_set(&w->compilers, p->pid, 1);
		else
			map64_del(&w->compilers, p->pid); /* the number's last program */
	}
	for (uint32_t i = 0; w->compilers.len && i < t->threads.len; i++) {
		uint64_t of = i, unused;
		if (!map64_get(&w->compilers, t->threads.data[i].pid, &unused))
			continue;
		map64_get(&w->compiler_names, t->threads.data[i].comm, &of);
		map64_set(&w->compiler_names, t->threads.data[i].comm, of + (1ULL << 32));
	}
}

bool blame_is_compiler(const struct blame_world *w, uint32_t thread, struct blame_owner *ret)
{
	const struct m_thread *th = &w->t->threads.data[thread];
	uint64_t of;
	if (!map64_get(&w->compilers, th->pid, &of))
		return false;
	if (map64_get(&w->compiler_names, th->comm, &of)) {
		ret->thread = (uint32_t)of;
		ret->pool = of >> 32 > 1;
	}
	ret->kind = BLAME_COMPILES;
	return true;
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct blame_sample *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static int by_thread_and_end(const void *a, const void *b)
{
	const struct waited_in *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* The stack is of this wait, and nobody ended it but the thread with which the driver hears of the
 * GPU: the driver has locks, too. What the kernel knows better (a disk, a stop) stays that. */
static bool is_for_gpu(const struct blame_world *w, const struct blame_wait *m,
		       const struct waited_in *at)
{
	if (!at->for_gpu || (m->reason != WAIT_FUTEX && m->reason != WAIT_POLL) ||
	    at->length_ns * 2 < m->end_ns - m->start_ns ||
	    (m->end_ns - m->start_ns) * 2 < at->length_ns)
		return false;
	if (m->waker == UINT32_MAX)
		return !m->by_unknown;
	const struct m_thread *waker = &w->t->threads.data[m->waker];
	return waker->pid == w->t->threads.data[m->thread].pid &&
	       !strncmp(strtab_get(&w->t->strings, waker->comm, NULL), "cuda-", 5);
}

/* Gives waits the lines that waited: both are in order. Rows of waits are by what the kernel knows,
 * to which a wait in the GPU's driver is one for a lock. */
static void find_places(struct loading *l)
{
	size_t at = 0;
	if (l->places.len)
		qsort(l->places.data, l->places.len, sizeof(*l->places.data), by_thread_and_end);
	for (size_t i = 0; i < l->w->waits.len; i++) {
		struct blame_wait *m = &l->w->waits.data[i];
		while (at < l->places.len &&
		       (l->places.data[at].thread < m->thread ||
			(l->places.data[at].thread == m->thread &&
			 l->places.data[at].time_ns + STACK_NEAR_NS < m->end_ns)))
			at++;
		if (at < l->places.len && l->places.data[at].thread == m->thread &&
		    l->places.data[at].time_ns <= m->end_ns + STACK_NEAR_NS) {
			m->frame = l->places.data[at].frame;
			if (is_for_gpu(l->w, m, &l->places.data[at]))
				m->reason = WAIT_GPU;
		}
	}
	vec_free(&l->places);
}

/* ---- calls ---- */

enum { COLLECTS = 1, SAVES = 2, NAMED = 4 };

struct marking {
	struct blame_world *w;
	uint8_t *probes; /* COLLECTS, SAVES, NAMED: its calls' names decide */
	bool *codes;	 /* saves */
};

static void add_calls(void *ctx, const struct visited_rows *rows)
{
	const struct marking *k = ctx;
	const struct rec_tables *t = k->w->t;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_call *c = &calls[i];
		uint8_t is = k->probes[c->probe];
		if (is == NAMED) {
			unsigned at = (unsigned)t->probes.data[c->probe].name_arg;
			uint64_t code = at < c->nargs ? c->args[at] : UINT64_MAX;
			is = code < t->codes.len && k->codes[code] ? SAVES : 0;
		}
		if (is)
			*vec_push(is == COLLECTS ? &k->w->collects.all : &k->w->saves.all) =
				(struct keyed_stretch){c->thread, c->start_ns,
						       c->start_ns + c->dur_ns};
	}
}

static void load_calls(struct blame_world *w, const struct row_source *s)
{
	const struct rec_tables *t = w->t;
	struct marking k = {w, xcalloc(t->probes.len + 1, 1), xcalloc(t->codes.len + 1, 1)};
	for (size_t i = 0; i < t->probes.len; i++) {
		const struct m_probe *p = &t->probes.data[i];
		const char *layer = strtab_get(&t->strings, p->layer, NULL);
		const char *name = strtab_get(&t->strings, p->name, NULL);
		if (!strcmp(layer, "python") && !strcmp(name, "gc"))
			k.probes[i] = COLLECTS;
		else if (!strcmp(layer, "torch") && !strcmp(name, "torch.save"))
			k.probes[i] = SAVES;
		else if (p->name_arg >= 0 && p->name_arg < MODEL_MAX_ARGS &&
			 p->arg_types[(unsigned)p->name_arg] == ARG_TYPE_CODE)
			k.probes[i] = NAMED;
	}
	for (size_t i = 0; i < t->codes.len; i++)
		k.codes[i] = blame_is_save(t, t->codes.data[i].name, t->codes.data[i].file);
	rows_read(s, ROW_CALL, add_calls, &k);
	stretches_end(&w->collects);
	stretches_end(&w->saves);
	free(k.probes);
	free(k.codes);
}

/* ---- stalls ---- */

static void add_stalls(void *ctx, const struct visited_rows *rows)
{
	struct blame_world *w = ctx;
	const struct m_stall *stalls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_stall *s = &stalls[i];
		bool interrupts = s->kind == STALL_INTERRUPT || s->kind == STALL_SOFTIRQ;
		if (s->end_ns > s->start_ns)
			*vec_push(interrupts ? &w->interrupts.all : &w->reclaims.all) =
				(struct keyed_stretch){s->thread, s->start_ns, s->end_ns};
	}
}

/* The clock that takes samples is an interrupt itself, and may lie in others: what such a sample is
 * of was running before. */
static void move_samples(struct blame_world *w)
{
	for (size_t i = 0; i < w->samples.len; i++) {
		struct blame_sample *s = &w->samples.data[i];
		uint64_t begin_ns = stretches_begin(&w->interrupts, s->thread, s->time_ns);
		if (begin_ns)
			s->time_ns = begin_ns - 1;
	}
}

/* ---- the GPU ---- */

static void load_gpu(struct blame_world *w, const struct timeline *t)
{
	for (size_t i = 0; i < t->calls.len; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		if (timeline_call_waits(t, k))
			*vec_push(&w->syncs.all) =
				(struct keyed_stretch){k->thread, c->start_ns, c->end_ns};
	}
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		const struct timeline_kind *k = timeline_kind_of(t, s);
		if (k->work == WORK_SYNC)
			continue;
		map64_set(&w->on_gpu, k->pid, 1);
		*vec_push(timeline_is_collective(t, s) ? &w->ranks.all : &w->works.all) =
			(struct keyed_stretch){k->pid, s->start_ns, s->end_ns};
	}
	stretches_end(&w->syncs);
	stretches_end(&w->works);
	stretches_end(&w->ranks);
	stretches_subtract(&w->ranks, &w->works);
}

/* ---- all of it ---- */

/* Where each thread's rows begin, of n in order of threads. */
static void index_threads(struct map64 *ret, size_t n,
			  uint32_t (*thread)(const void *all, size_t i), const void *all)
{
	for (size_t i = 0, first = 0; i < n; i++) {
		first = i && thread(all, i) == thread(all, i - 1) ? first : i;
		map64_set(ret, thread(all, i), (uint64_t)first << 32 | (i + 1 - first));
	}
}

static uint32_t thread_of_wait(const void *all, size_t i)
{
	return ((const struct blame_wait *)all)[i].thread;
}

static uint32_t thread_of_sample(const void *all, size_t i)
{
	return ((const struct blame_sample *)all)[i].thread;
}

#define POOL_LEAST 8 /* threads of one name */
#define NO_POOL	   UINT32_MAX

static uint64_t pool_key(const struct m_thread *th)
{
	return (uint64_t)th->pid << 32 | th->comm;
}

/* A process's first thread is of none: it is the job's own, whatever others are called. */
static void find_pools(struct blame_world *w)
{
	struct map64 first = {0}, members = {0};
	for (size_t i = 0; i < w->t->threads.len; i++) {
		const struct m_thread *th = &w->t->threads.data[i];
		uint64_t n = 0, at;
		if (th->tid == th->pid)
			continue;
		map64_get(&members, pool_key(th), &n);
		map64_set(&members, pool_key(th), n + 1);
		if (!map64_get(&first, pool_key(th), &at))
			map64_set(&first, pool_key(th), i);
	}
	for (size_t i = 0; i < w->t->threads.len; i++) {
		const struct m_thread *th = &w->t->threads.data[i];
		uint64_t n = 0, at = NO_POOL;
		if (th->tid != th->pid && map64_get(&members, pool_key(th), &n) && n >= POOL_LEAST)
			map64_get(&first, pool_key(th), &at);
		*vec_push(&w->pools) = (uint32_t)at;
	}
	map64_free(&first);
	map64_free(&members);
}

bool blame_is_of_pool(const struct blame_world *w, uint32_t thread, uint32_t *ret_first)
{
	if (thread >= w->pools.len || w->pools.data[thread] == NO_POOL)
		return false;
	*ret_first = w->pools.data[thread];
	return true;
}

struct blame_world *blame_world_new(const struct row_source *s, const struct timeline *t)
{
	struct blame_world *w = xcalloc(1, sizeof(*w));
	struct loading l = {.w = w};
	w->t = s->tables;
	for (size_t i = 0; i < w->t->threads.len; i++) {
		const struct m_thread *th = &w->t->threads.data[i];
		map64_set(&l.thread_of, th->tid, i);
		if (th->tid == th->pid)
			map64_set(&w->main_of, th->pid, i);
	}
	find_pools(w);
	for (size_t i = 0; i < w->t->processes.len; i++)
		map64_set(&w->parent_of, w->t->processes.data[i].pid,
			  w->t->processes.data[i].parent_pid);
	for (size_t i = 0; i < w->t->processes.len; i++)
		if (!process_is_own(w->t, &w->t->processes.data[i]))
			map64_set(&w->job, w->t->processes.data[i].pid, 1);
	l.facts = xcalloc(w->t->stacks.len + 1, sizeof(*l.facts));
	rows_read(s, ROW_WAIT, add_waits, &l);
	rows_read(s, ROW_SAMPLE, add_samples, &l);
	free(l.facts);
	if (w->waits.len)
		qsort(w->waits.data, w->waits.len, sizeof(*w->waits.data), by_thread);
	blame_waits_cut(w);
	if (w->samples.len)
		qsort(w->samples.data, w->samples.len, sizeof(*w->samples.data),
		      by_thread_and_time);
	find_places(&l);
	find_compilers(w);
	index_threads(&w->waits_of, w->waits.len, thread_of_wait, w->waits.data);
	index_threads(&w->samples_of, w->samples.len, thread_of_sample, w->samples.data);
	blame_waits_know(w);
	load_calls(w, s);
	rows_read(s, ROW_STALL, add_stalls, w);
	stretches_end(&w->interrupts);
	move_samples(w);
	stretches_end(&w->reclaims);
	load_gpu(w, t);
	blame_ranks_load(w, s, t);
	map64_free(&l.thread_of);
	return w;
}

void blame_world_forget_wakers(struct blame_world *w)
{
	for (size_t i = 0; i < w->waits.len; i++)
		w->waits.data[i].waker = UINT32_MAX;
	w->lates.len = 0;
}

void blame_world_free(struct blame_world *w)
{
	if (!w)
		return;
	vec_free(&w->waits);
	vec_free(&w->samples);
	vec_free(&w->python);
	map64_free(&w->waits_of);
	map64_free(&w->samples_of);
	stretches_free(&w->syncs);
	stretches_free(&w->collects);
	map64_free(&w->compilers);
	map64_free(&w->compiler_names);
	stretches_free(&w->saves);
	stretches_free(&w->interrupts);
	stretches_free(&w->reclaims);
	stretches_free(&w->works);
	stretches_free(&w->ranks);
	vec_free(&w->lates);
	map64_free(&w->job);
	map64_free(&w->parent_of);
	map64_free(&w->main_of);
	map64_free(&w->on_gpu);
	vec_free(&w->pools);
	free(w);
}

const struct blame_wait *blame_waits_of(const struct blame_world *w, uint32_t thread, size_t *ret_n)
{
	uint64_t place = 0;
	*ret_n = map64_get(&w->waits_of, thread, &place) ? (uint32_t)place : 0;
	return *ret_n ? w->waits.data + (place >> 32) : NULL;
}

const struct blame_sample *blame_samples_of(const struct blame_world *w, uint32_t thread,
					    size_t *ret_n)
{
	uint64_t place = 0;
	*ret_n = map64_get(&w->samples_of, thread, &place) ? (uint32_t)place : 0;
	return *ret_n ? w->samples.data + (place >> 32) : NULL;
}

size_t blame_sample_from(const struct blame_sample *s, size_t n, uint64_t ns)
{
	size_t low = 0;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		if (s[middle].time_ns >= ns)
			n = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint32_t blame_main_thread(const struct blame_world *w, uint32_t thread)
{
	uint64_t main, unused;
	if (!map64_get(&w->main_of, w->t->threads.data[thread].pid, &main))
		return thread;
	bool known =
		map64_get(&w->waits_of, main, &unused) || map64_get(&w->samples_of, main, &unused);
	return known ? (uint32_t)main : thread;
}

uint32_t blame_busiest(const struct blame_world *w, uint32_t pid, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t ret = UINT32_MAX;
	uint64_t most_ns = 0;
	for (uint32_t i = 0; i < w->t->threads.len; i++) {
		uint64_t ns =
			w->t->threads.data[i].pid == pid ? blame_ran_ns(w, i, from_ns, to_ns) : 0;
		if (ns > most_ns) {
			most_ns = ns;
			ret = i;
		}
	}
	return ret;
}

struct frame_time {
	uint32_t frame;
	uint64_t ns;
};
typedef VEC(struct frame_time) frame_times;

static void add_time(frame_times *all, uint32_t frame, uint64_t ns)
{
	for (size_t i = 0; i < all->len; i++)
		if (all->data[i].frame == frame) {
			all->data[i].ns += ns;
			return;
		}
	*vec_push(all) = (struct frame_time){frame, ns};
}

/* The frame that a sample counts for; BLAME_NO_FRAME: for none. */
typedef uint32_t frame_fn(const struct blame_world *w, const struct blame_sample *s);

static uint32_t frame_that_saves(const struct blame_world *w, const struct blame_sample *s)
{
	(void)w;
	return s->kind == BLAME_SAVES ? s->own : BLAME_NO_FRAME;
}

static uint32_t frame_that_collects(const struct blame_world *w, const struct blame_sample *s)
{
	return stretches_within(&w->collects, s->thread, s->time_ns, s->time_ns + 1)
		       ? s->frame
		       : BLAME_NO_FRAME;
}

/* That has most samples of the stretches, and of so long before each, if its share of those that
 * count is more than that. */
static uint32_t top_frame(const struct blame_world *w, const struct blame_span *spans, size_t n,
			  uint64_t before_ns, frame_fn *frame_of, double share)
{
	frame_times all = {0};
	struct frame_time top = {BLAME_NO_FRAME, 0};
	uint64_t sum_ns = 0;
	for (size_t i = 0; i < n; i++) {
		size_t len;
		const struct blame_sample *s = blame_samples_of(w, spans[i].thread, &len);
		uint64_t from_ns = spans[i].from_ns;
		from_ns -= from_ns < before_ns ? from_ns : before_ns;
		for (size_t k = blame_sample_from(s, len, from_ns);
		     k < len && s[k].time_ns < spans[i].to_ns; k++) {
			uint32_t frame = frame_of(w, &s[k]);
			if (frame == BLAME_NO_FRAME)
				continue;
			add_time(&all, frame, s[k].weight_ns);
			sum_ns += s[k].weight_ns;
		}
	}
	for (size_t i = 0; i < all.len; i++)
		if (all.data[i].ns > top.ns)
			top = all.data[i];
	vec_free(&all);
	return (double)top.ns > share * (double)sum_ns ? top.frame : BLAME_NO_FRAME;
}

uint32_t blame_saving_frame(const struct blame_world *w, const struct blame_span *spans, size_t n)
{
	uint32_t ret = top_frame(w, spans, n, 0, frame_that_saves, 0);
	return ret == BLAME_NO_FRAME ? top_frame(w, spans, n, SYNC_AFTER_NS, frame_that_saves, 0)
				     : ret;
}

uint32_t blame_collecting_frame(const struct blame_world *w, const struct blame_span *spans,
				size_t n)
{
	return top_frame(w, spans, n, 0, frame_that_collects, ALONE_SHARE);
}

void blame_thread_times(const struct blame_world *w, uint32_t thread, uint64_t *ret_first_ns,
			uint64_t *ret_last_ns)
{
	size_t n, m;
	const struct blame_sample *s = blame_samples_of(w, thread, &n);
	const struct blame_wait *waits = blame_waits_of(w, thread, &m);
	*ret_first_ns = UINT64_MAX;
	*ret_last_ns = 0;
	if (s) {
		*ret_first_ns = s[0].time_ns;
		*ret_last_ns = s[n - 1].time_ns;
	}
	if (waits) {
		*ret_first_ns =
			waits[0].start_ns < *ret_first_ns ? waits[0].start_ns : *ret_first_ns;
		*ret_last_ns =
			waits[m - 1].end_ns > *ret_last_ns ? waits[m - 1].end_ns : *ret_last_ns;
	}
}

bool blame_knows_gpu(const struct blame_world *w, uint32_t pid)
{
	uint64_t unused;
	return map64_get(&w->on_gpu, pid, &unused);
}

int32_t blame_rank_of(const struct rec_tables *t, uint32_t pid)
{
	for (size_t i = t->processes.len; i-- > 0;)
		if (t->processes.data[i].pid == pid)
			return t->processes.data[i].rank;
	return -1;
}

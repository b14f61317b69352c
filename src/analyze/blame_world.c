/* blame_world.c - what blame asks a recording for: waits with who ended them, samples with what
 * ran, when GPUs worked. */
#include "analyze/blame.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/blame_impl.h"
#include "analyze/programs.h"
#include "analyze/gpu_gaps.h"

/* Who waits for the interpreter's lock asks for it anew after each switch interval (5 ms unless the
 * program says otherwise: sys.setswitchinterval), and runs for moments between. */
#define SLICE_APART_NS 300000

struct loading {
	struct blame_world *w;
	struct map64 thread_of; /* tid -> thread */
};

/* ---- waits ---- */

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
		*vec_push(&l->w->waits) =
			(struct blame_wait){.start_ns = m->start_ns,
					    .woken_ns = woken_ns,
					    .end_ns = m->end_ns,
					    .thread = m->thread,
					    .waker = known ? (uint32_t)waker : UINT32_MAX,
					    .rival_pid = m->rival_pid,
					    .rival = m->rival,
					    .reason = m->reason};
	}
}

static int by_thread(const void *a, const void *b)
{
	const struct blame_wait *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool for_lock(const struct blame_wait *w)
{
	return w->reason == WAIT_FUTEX || w->reason == WAIT_GIL;
}

/* A wait for a lock that a timer ended, and that goes on in the next one, was ended by whoever
 * ended that. */
static void join_slices(struct blame_world *w)
{
	for (size_t i = w->waits.len; i-- > 1;) {
		struct blame_wait *a = &w->waits.data[i - 1], *b = &w->waits.data[i];
		if (a->thread != b->thread || a->waker != UINT32_MAX || b->waker == UINT32_MAX ||
		    !for_lock(a) || !for_lock(b) || b->start_ns - a->end_ns > SLICE_APART_NS)
			continue;
		a->waker = b->waker;
		a->sliced = b->sliced = true;
	}
}

/* ---- samples ---- */

static bool starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

/* CPython's collector: gc_collect_main since 3.8, gc_collect_generations before 3.13 and
 * gc_collect_region after (Modules/gcmodule.c, Python/gc.c). */
static bool is_collector(const char *name)
{
	return starts(name, "gc_collect") || starts(name, "_PyGC_Collect") ||
	       starts(name, "PyGC_Collect");
}

/* The kernel's ways into page faults, and where it maps and unmaps memory. */
static bool is_memory(const char *name)
{
	static const char *const begins[] = {
		"asm_exc_page_fault", "exc_page_fault",	  "do_user_addr_fault", "handle_mm_fault",
		"__x64_sys_munmap",   "__x64_sys_mmap",	  "__x64_sys_madvise",	"__x64_sys_brk",
		"__x64_sys_mremap",   "do_anonymous_page"};
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (starts(name, begins[i]))
			return true;
	return false;
}

static uint8_t kind_of_stack(const struct rec_tables *t, uint32_t stack)
{
	uint8_t ret = BLAME_RUNS;
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		const char *name = strtab_get(&t->strings, f->name, NULL);
		if (f->kind == FRAME_NATIVE && f->in_python && is_collector(name))
			return BLAME_COLLECTS;
		if (f->kind == FRAME_KERNEL && is_memory(name))
			ret = BLAME_FAULTS;
	}
	return ret;
}

/* The innermost of Python, else the innermost that has a name. */
static uint32_t frame_of_stack(const struct rec_tables *t, uint32_t stack)
{
	uint32_t native = BLAME_NO_FRAME;
	for (; stack; stack = t->stacks.data[stack].parent) {
		uint32_t frame = t->stacks.data[stack].frame;
		const struct m_frame *f = &t->frames.data[frame];
		if (f->kind == FRAME_PYTHON)
			return frame;
		if (native == BLAME_NO_FRAME && f->kind == FRAME_NATIVE && f->name)
			native = frame;
	}
	return native;
}

static void add_samples(void *ctx, const struct visited_rows *rows)
{
	const struct loading *l = ctx;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		if (samples[i].kind == SAMPLE_CPU)
			*vec_push(&l->w->samples) = (struct blame_sample){
				.time_ns = samples[i].time_ns,
				.weight_ns = samples[i].weight_ns,
				.thread = samples[i].thread,
				.frame = frame_of_stack(l->w->t, samples[i].stack),
				.kind = kind_of_stack(l->w->t, samples[i].stack)};
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct blame_sample *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
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

struct blame_world *blame_world_new(const struct row_source *s, const struct timeline *t)
{
	struct blame_world *w = xcalloc(1, sizeof(*w));
	struct loading l = {.w = w};
	w->t = s->tables;
	for (size_t i = 0; i < w->t->threads.len; i++)
		map64_set(&l.thread_of, w->t->threads.data[i].tid, i);
	for (size_t i = 0; i < w->t->processes.len; i++)
		if (!process_is_own(w->t, &w->t->processes.data[i]))
			map64_set(&w->job, w->t->processes.data[i].pid, 1);
	rows_read(s, ROW_WAIT, add_waits, &l);
	rows_read(s, ROW_SAMPLE, add_samples, &l);
	if (w->waits.len)
		qsort(w->waits.data, w->waits.len, sizeof(*w->waits.data), by_thread);
	if (w->samples.len)
		qsort(w->samples.data, w->samples.len, sizeof(*w->samples.data),
		      by_thread_and_time);
	index_threads(&w->waits_of, w->waits.len, thread_of_wait, w->waits.data);
	index_threads(&w->samples_of, w->samples.len, thread_of_sample, w->samples.data);
	join_slices(w);
	load_gpu(w, t);
	map64_free(&l.thread_of);
	return w;
}

void blame_world_free(struct blame_world *w)
{
	if (!w)
		return;
	vec_free(&w->waits);
	vec_free(&w->samples);
	map64_free(&w->waits_of);
	map64_free(&w->samples_of);
	stretches_free(&w->syncs);
	stretches_free(&w->works);
	stretches_free(&w->ranks);
	map64_free(&w->job);
	map64_free(&w->on_gpu);
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

uint32_t blame_busiest(const struct blame_world *w, uint32_t pid, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t ret = UINT32_MAX, at = UINT32_MAX;
	uint64_t ns = 0, most_ns = 0;
	for (size_t i = 0; i < w->samples.len; i++) {
		const struct blame_sample *s = &w->samples.data[i];
		if (s->time_ns < from_ns || s->time_ns >= to_ns ||
		    w->t->threads.data[s->thread].pid != pid)
			continue;
		ns = s->thread == at ? ns + s->weight_ns : s->weight_ns;
		at = s->thread;
		if (ns > most_ns) {
			most_ns = ns;
			ret = at;
		}
	}
	return ret;
}

bool blame_knows_gpu(const struct blame_world *w, uint32_t pid)
{
	uint64_t unused;
	return map64_get(&w->on_gpu, pid, &unused);
}

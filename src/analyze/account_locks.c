/* account_locks.c - where in the code the main thread waited for locks, and where the thread that
 * released them was meanwhile: by samples of both. */
#include <stdlib.h>
#include <string.h>

#include "analyze/account_impl.h"
#include "analyze/profile.h"

#define DEPTH_MOST 1024	      /* more frames than stacks have */
#define WAITS_MOST (1u << 20) /* that samples are looked up in */

struct stretch {
	uint64_t start_ns, end_ns;
	uint64_t before_ns; /* of all that begin earlier */
};

struct looking {
	const struct rec_tables *t;
	const struct account_thread *th;
	struct account_lock *ret;
	const struct stretches *through;	/* waits for the GPU */
	struct map64 waiting, holding, running; /* frame -> ns */
	VEC(struct stretch) waits;		/* that the holder ended, in order of time */
	uint64_t gil_ns;
};

/* Mostly through another thread that waited for the GPU. */
static bool is_through(const struct looking *l, uint64_t start_ns, uint64_t end_ns)
{
	return stretches_within(l->through, l->th->thread, start_ns, end_ns) * 2 >
	       end_ns - start_ns;
}

static void add_waits(void *ctx, const struct visited_rows *rows)
{
	struct looking *l = ctx;
	const struct m_wait *waits = rows->rows;
	const struct account_peers *by = &l->th->peers[ACCOUNT_UNLOCKERS];
	for (size_t i = 0; i < rows->len && l->waits.len < WAITS_MOST; i++) {
		struct m_wait part = waits[i], *w = &part;
		if (w->thread == l->th->thread && account_clip(w, l->th) && by->count &&
		    w->waker_pid == by->top[0].pid && w->waker_tid == by->top[0].tid &&
		    (w->reason == WAIT_FUTEX || w->reason == WAIT_GIL) &&
		    !is_through(l, w->start_ns, w->end_ns))
			*vec_push(&l->waits) =
				(struct stretch){.start_ns = w->start_ns, .end_ns = w->end_ns};
	}
}

static int compare_stretches(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* What of the waits, which do not overlap, lies before a time. */
static uint64_t waited_until(const struct looking *l, uint64_t ns)
{
	size_t low = 0, high = l->waits.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (l->waits.data[middle].start_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return 0;
	const struct stretch *last = &l->waits.data[low - 1];
	uint64_t end_ns = last->end_ns < ns ? last->end_ns : ns;
	return last->before_ns + (end_ns > last->start_ns ? end_ns - last->start_ns : 0);
}

static uint64_t waited_within(const struct looking *l, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t from = waited_until(l, from_ns), to = waited_until(l, to_ns);
	return to > from ? to - from : 0;
}

static void sort_waits(struct looking *l)
{
	uint64_t before_ns = 0;
	if (l->waits.len)
		qsort(l->waits.data, l->waits.len, sizeof(*l->waits.data), compare_stretches);
	for (size_t i = 0; i < l->waits.len; i++) {
		struct stretch *w = &l->waits.data[i];
		w->before_ns = before_ns;
		before_ns += w->end_ns > w->start_ns ? w->end_ns - w->start_ns : 0;
	}
}

/* Frames + 1 of the job's own Python code; 0: there is none. */
struct own_frames {
	uint32_t innermost; /* of any Python code, where none is the job's own */
	uint32_t outermost;
};

static struct own_frames frames_of(const struct rec_tables *t, uint32_t stack)
{
	struct own_frames own = {0};
	uint32_t any = 0;
	for (int i = 0; stack && i < DEPTH_MOST; i++, stack = t->stacks.data[stack].parent) {
		uint32_t frame = t->stacks.data[stack].frame;
		const struct m_frame *f = &t->frames.data[frame];
		if (f->kind != FRAME_PYTHON || !f->line)
			continue;
		any = any ? any : frame + 1;
		if (profile_is_library(strtab_get(&t->strings, f->file, NULL)))
			continue;
		own.innermost = own.innermost ? own.innermost : frame + 1;
		own.outermost = frame + 1;
	}
	own.innermost = own.innermost ? own.innermost : any;
	return own;
}

static void add(struct map64 *to, uint32_t frame, uint64_t ns)
{
	uint64_t sum_ns = 0;
	if (!frame || !ns)
		return;
	map64_get(to, frame, &sum_ns);
	map64_set(to, frame, sum_ns + ns);
}

static bool is_holder(const struct looking *l, const struct m_sample *s)
{
	const struct account_peers *by = &l->th->peers[ACCOUNT_UNLOCKERS];
	const struct m_thread *thread = &l->t->threads.data[s->thread];
	return by->count && thread->pid == by->top[0].pid && thread->tid == by->top[0].tid;
}

static void add_sample(struct looking *l, const struct m_sample *s)
{
	uint64_t start_ns = s->time_ns > s->weight_ns ? s->time_ns - s->weight_ns : 0;
	bool off = s->kind == SAMPLE_OFFCPU;
	l->ret->has_waits |= off;
	if (off && s->thread == l->th->thread && s->time_ns > l->th->since_ns &&
	    start_ns < l->th->since_ns + l->th->wall_ns &&
	    (s->reason == WAIT_FUTEX || s->reason == WAIT_GIL) &&
	    !is_through(l, start_ns, s->time_ns)) {
		l->gil_ns += s->reason == WAIT_GIL ? s->weight_ns : 0;
		add(&l->waiting, frames_of(l->t, s->stack).innermost, s->weight_ns);
	}
	if (!is_holder(l, s))
		return;
	struct own_frames at = frames_of(l->t, s->stack);
	uint64_t within_ns = off ? waited_within(l, start_ns, s->time_ns)
			     : waited_within(l, s->time_ns, s->time_ns + 1) ? s->weight_ns
									    : 0;
	add(&l->holding, at.innermost, within_ns);
	add(&l->running, at.outermost, s->weight_ns);
}

static void add_samples(void *ctx, const struct visited_rows *rows)
{
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		add_sample(ctx, &samples[i]);
}

/* The line with most of the time; the smaller frame of two that are alike. */
static struct account_line most_of(const struct looking *l, const struct map64 *sums)
{
	struct account_line ret = {0};
	for (uint32_t i = 0; i < l->t->frames.len; i++) {
		uint64_t ns;
		if (!map64_get(sums, i + 1, &ns) || ns <= ret.ns)
			continue;
		const struct m_frame *f = &l->t->frames.data[i];
		const char *file = strtab_get(&l->t->strings, f->file, NULL);
		const char *slash = strrchr(file, '/');
		ret = (struct account_line){.function = strtab_get(&l->t->strings, f->name, NULL),
					    .file = slash ? slash + 1 : file,
					    .line = f->line,
					    .ns = ns};
	}
	return ret;
}

void account_find_lines(struct account_lock *ret, const struct account_thread *th,
			const struct row_source *s, const struct stretches *through)
{
	struct looking l = {.t = s->tables, .th = th, .ret = ret, .through = through};
	rows_read(s, ROW_WAIT, add_waits, &l);
	sort_waits(&l);
	rows_read(s, ROW_SAMPLE, add_samples, &l);
	ret->waits = most_of(&l, &l.waiting);
	ret->holds = most_of(&l, &l.holding);
	ret->runs = most_of(&l, &l.running);
	ret->gil_ns = l.gil_ns < th->ns[ACCOUNT_LOCK] ? l.gil_ns : th->ns[ACCOUNT_LOCK];
	map64_free(&l.waiting);
	map64_free(&l.holding);
	map64_free(&l.running);
	vec_free(&l.waits);
}

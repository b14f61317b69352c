/* account_idle.c - the times in which a GPU waited for its host, and what that did then. */
#include "analyze/account_idle.h"

#include <stdlib.h>

#include "analyze/account_impl.h"
#include "analyze/gpu_gaps.h"
#include "base/sort.h"

#define DEVICES_MOST 64

/* A thread was to launch something next. */
struct late {
	uint32_t thread, device; /* device: index */
	uint64_t from_ns, to_ns;
	uint64_t known_ns; /* of it, whose it is */
};

struct device_samples {
	uint32_t of[ACCOUNT_RUNS];
	uint64_t all;
};

struct idling {
	struct accounting a;
	struct account_devices *ret;
	const struct timeline *t;
	VEC(struct late) late;		/* by device, thread, then time */
	struct map64 first_of;		/* device << 32 | thread -> first << 32 | number */
	struct device_samples *samples; /* by device */
};

/* ---- when it was idle ---- */

static const struct timeline_kind *kind_at(const struct timeline *t, uint32_t span)
{
	return timeline_kind_of(t, &t->spans.data[span]);
}

static int compare_places(const void *a, const void *b, void *arg)
{
	const struct timeline *t = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct timeline_kind *s = kind_at(t, x), *o = kind_at(t, y);
	if (s->pid != o->pid)
		return s->pid < o->pid ? -1 : 1;
	if (s->device != o->device)
		return s->device < o->device ? -1 : 1;
	return x < y ? -1 : x > y; /* they are in order of start */
}

static uint64_t overlap_ns(uint64_t from, uint64_t to, uint64_t start, uint64_t end)
{
	from = from > start ? from : start;
	to = to < end ? to : end;
	return to > from ? to - from : 0;
}

struct walk {
	struct idling *x;
	struct account_device *d;
	struct account_window within;
	uint64_t busy_until_ns, work_until_ns;
};

/* It had nothing to do from one time to the other, when this span began. */
static void add_gap(struct walk *w, uint64_t from_ns, uint64_t to_ns, const struct timeline_span *s)
{
	from_ns = from_ns > w->within.from_ns ? from_ns : w->within.from_ns;
	to_ns = to_ns < w->within.to_ns ? to_ns : w->within.to_ns;
	if (to_ns <= from_ns)
		return;
	w->d->idle_ns += to_ns - from_ns;
	if (s->call == TIMELINE_NONE) {
		w->d->unknown_ns += to_ns - from_ns;
		return;
	}
	const struct timeline_call *call = &w->x->t->calls.data[s->call];
	uint64_t launched_ns = call->start_ns < to_ns ? call->start_ns : to_ns;
	launched_ns = launched_ns > from_ns ? launched_ns : from_ns;
	w->d->own_ns += to_ns - launched_ns;
	if (launched_ns > from_ns)
		*vec_push(&w->x->late) =
			(struct late){.thread = timeline_call_kind_of(w->x->t, call)->thread,
				      .device = (uint32_t)(w->x->ret->list.len - 1),
				      .from_ns = from_ns,
				      .to_ns = launched_ns};
}

static void add_span(struct walk *w, const struct timeline_span *s)
{
	uint64_t start_ns = s->start_ns > w->busy_until_ns ? s->start_ns : w->busy_until_ns;
	if (s->start_ns > w->busy_until_ns)
		add_gap(w, w->busy_until_ns, s->start_ns, s);
	w->d->busy_ns += overlap_ns(start_ns, s->end_ns, w->within.from_ns, w->within.to_ns);
	if (!timeline_is_collective(w->x->t, s)) {
		start_ns = s->start_ns > w->work_until_ns ? s->start_ns : w->work_until_ns;
		w->d->work_ns +=
			overlap_ns(start_ns, s->end_ns, w->within.from_ns, w->within.to_ns);
		w->work_until_ns = s->end_ns > w->work_until_ns ? s->end_ns : w->work_until_ns;
	}
	w->busy_until_ns = s->end_ns > w->busy_until_ns ? s->end_ns : w->busy_until_ns;
}

static uint64_t last_end(const struct timeline *t, const uint32_t *spans, size_t n)
{
	uint64_t end_ns = 0;
	for (size_t i = 0; i < n; i++) {
		const struct timeline_span *s = &t->spans.data[spans[i]];
		end_ns = s->end_ns > end_ns ? s->end_ns : end_ns;
	}
	return end_ns;
}

static void add_device(struct idling *x, const uint32_t *spans, size_t n,
		       const struct account_window *windows, size_t nwindows)
{
	const struct timeline_span *all = x->t->spans.data;
	uint32_t pid = kind_at(x->t, spans[0])->pid;
	struct account_device *d = vec_push(&x->ret->list);
	struct walk w = {.x = x, .d = d, .within = {pid, all[spans[0]].start_ns, 0}};
	*d = (struct account_device){.pid = pid, .device = kind_at(x->t, spans[0])->device};
	w.within.to_ns = last_end(x->t, spans, n);
	w.busy_until_ns = w.within.from_ns;
	for (size_t i = 0; i < nwindows; i++)
		if (windows[i].pid == pid) {
			w.within = windows[i];
			d->in_window = true;
		}
	if (w.within.from_ns < w.busy_until_ns)
		w.busy_until_ns = w.within.from_ns;
	for (size_t i = 0; i < n; i++)
		add_span(&w, &all[spans[i]]);
	if (w.busy_until_ns < w.within.to_ns) /* the launch that came too late never did */
		add_gap(&w, w.busy_until_ns, w.within.to_ns,
			&(struct timeline_span){.call = TIMELINE_NONE});
	d->span_ns = d->busy_ns + d->idle_ns;
	if (!d->busy_ns)
		x->ret->list.len--;
}

static void find_idle(struct idling *x, const struct account_window *windows, size_t nwindows)
{
	const struct timeline *t = x->t;
	uint32_t *order = xcalloc(t->spans.len + 1, sizeof(*order));
	size_t n = 0;
	for (size_t i = 0; i < t->spans.len; i++)
		if (kind_at(t, (uint32_t)i)->work != WORK_SYNC)
			order[n++] = (uint32_t)i;
	sort_runs(order, n, sizeof(*order), compare_places, (void *)(uintptr_t)t);
	for (size_t i = 0, to = 0; i < n && x->ret->list.len < DEVICES_MOST; i = to) {
		const struct timeline_kind *first = kind_at(t, order[i]);
		while (to < n && kind_at(t, order[to])->pid == first->pid &&
		       kind_at(t, order[to])->device == first->device)
			to++;
		add_device(x, order + i, to - i, windows, nwindows);
	}
	free(order);
}

/* ---- what the host did ---- */

static int compare_late(const void *a, const void *b)
{
	const struct late *x = a, *y = b;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static uint64_t key_of(uint32_t device, uint32_t thread)
{
	return (uint64_t)device << 32 | thread;
}

static void index_late(struct idling *x)
{
	if (x->late.len)
		qsort(x->late.data, x->late.len, sizeof(*x->late.data), compare_late);
	for (size_t i = 0; i < x->late.len; i++) {
		const struct late *l = &x->late.data[i];
		uint64_t place = (uint64_t)i << 32;
		map64_get(&x->first_of, key_of(l->device, l->thread), &place);
		map64_set(&x->first_of, key_of(l->device, l->thread), place + 1);
		map64_set(&x->a.place_of, l->thread, 0);
	}
}

/* Those of a device and a thread, which do not overlap, from the first that ends after a time. */
static struct late *late_after(const struct idling *x, size_t device, uint32_t thread, uint64_t ns,
			       struct late **end)
{
	uint64_t place;
	if (!map64_get(&x->first_of, key_of((uint32_t)device, thread), &place))
		return *end = NULL;
	struct late *l = &x->late.data[place >> 32];
	size_t low = 0, high = (uint32_t)place;
	*end = l + high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (l[middle].to_ns > ns)
			high = middle;
		else
			low = middle + 1;
	}
	return l + low;
}

static void take(struct idling *x, struct late *l, enum account_owner owner, uint64_t ns)
{
	uint64_t left_ns = l->to_ns - l->from_ns - l->known_ns;
	ns = ns < left_ns ? ns : left_ns;
	l->known_ns += ns;
	x->ret->list.data[l->device].host_ns[owner] += ns;
}

static uint64_t compiled_within(const struct idling *x, uint32_t pid, uint8_t reason,
				uint64_t from_ns, uint64_t to_ns)
{
	struct m_wait part = {.start_ns = from_ns, .end_ns = to_ns};
	return to_ns > from_ns ? account_compiled_ns(&x->a, pid, &part, account_owner_of(reason))
			       : 0;
}

static void add_wait(struct idling *x, size_t device, const struct m_wait *w)
{
	uint32_t pid = x->a.t->threads.data[w->thread].pid;
	enum account_owner owner = account_owner_of_wait(&x->a, pid, w);
	uint64_t woken_ns = w->end_ns - w->runnable_ns;
	struct late *end, *l = late_after(x, device, w->thread, w->start_ns, &end);
	for (; l < end && l->from_ns < w->end_ns; l++) {
		uint64_t from_ns = l->from_ns > w->start_ns ? l->from_ns : w->start_ns;
		uint64_t to_ns = l->to_ns < woken_ns ? l->to_ns : woken_ns;
		uint64_t waited_ns = to_ns > from_ns ? to_ns - from_ns : 0;
		if (waited_ns)
			waited_ns -= stretches_within(&x->a.syncs, w->thread, from_ns, to_ns);
		uint64_t compiled_ns = compiled_within(x, pid, w->reason, from_ns, to_ns);
		compiled_ns = compiled_ns < waited_ns ? compiled_ns : waited_ns;
		take(x, l, ACCOUNT_COMPILERS, compiled_ns);
		take(x, l, owner, waited_ns - compiled_ns);
		take(x, l, ACCOUNT_RUNNABLE, overlap_ns(woken_ns, w->end_ns, l->from_ns, l->to_ns));
	}
}

static void add_waits(void *ctx, const struct visited_rows *rows)
{
	struct idling *x = ctx;
	const struct m_wait *waits = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		for (size_t d = 0; d < x->ret->list.len; d++)
			add_wait(x, d, &waits[i]);
}

static void add_samples(void *ctx, const struct visited_rows *rows)
{
	struct idling *x = ctx;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_sample *s = &samples[i];
		struct late *end;
		for (size_t d = 0; s->kind == SAMPLE_CPU && d < x->ret->list.len; d++) {
			struct late *l = late_after(x, d, s->thread, s->time_ns, &end);
			if (l >= end || l->from_ns > s->time_ns ||
			    stretches_within(&x->a.syncs, s->thread, s->time_ns, s->time_ns + 1))
				continue;
			x->samples[d].of[account_owner_of_stack(x->a.t, s->stack)]++;
			x->samples[d].all++;
		}
	}
}

/* What is in no wait was running, by the samples. */
static void split_running(struct idling *x)
{
	for (size_t i = 0; i < x->late.len; i++) {
		struct late *l = &x->late.data[i];
		take(x, l, ACCOUNT_GPU,
		     stretches_within(&x->a.syncs, l->thread, l->from_ns, l->to_ns));
		take(x, l, ACCOUNT_CPU, UINT64_MAX);
	}
	for (size_t d = 0; d < x->ret->list.len; d++) {
		uint64_t *host_ns = x->ret->list.data[d].host_ns;
		account_split(host_ns, x->samples[d].of, x->samples[d].all);
	}
}

void account_idle_make(struct account_devices *ret, const struct row_source *s,
		       const struct timeline *t, const struct account_window *windows, size_t n)
{
	struct idling x = {.ret = ret, .t = t};
	struct account unused = {0};
	*ret = (struct account_devices){0};
	find_idle(&x, windows, n);
	if (!ret->list.len) {
		vec_free(&x.late);
		return;
	}
	account_begin(&x.a, &unused, s);
	x.samples = xcalloc(ret->list.len, sizeof(*x.samples));
	index_late(&x);
	syncs_load(&x.a, t);
	compiles_load(&x.a, s);
	rows_read(s, ROW_WAIT, add_waits, &x);
	rows_read(s, ROW_SAMPLE, add_samples, &x);
	split_running(&x);
	account_forget(&x.a);
	map64_free(&x.first_of);
	vec_free(&x.late);
	free(x.samples);
}

void account_idle_free(struct account_devices *d)
{
	vec_free(&d->list);
}

/* gpu_host.c - what threads did between their launches.
 *
 * Waits and calls of a thread do not overlap among themselves (a sample off the CPU is one wait,
 * calls of these roles do not nest but in NCCL's), so those of a span of time are found by binary
 * search in lists in order of end. */
#include "analyze/gpu_host.h"

#include <string.h>

struct stretch {
	uint64_t start_ns, end_ns;
};

enum wait_class { WAIT_OF_DATA, WAIT_OF_PREEMPTION, WAIT_OF_DEVICE, WAIT_OF_OTHERS };

struct wait {
	struct stretch at;
	uint8_t class; /* enum wait_class */
};

struct host_thread {
	VEC(struct stretch) syncs;
	VEC(struct stretch) collectives;
	VEC(struct stretch) loads; /* an instant: only the beginning is known */
	VEC(struct wait) waits;
	VEC(struct stretch) running; /* samples on the CPU, which were taken at the end */
	bool wanted;		     /* it has calls of the timeline */
};

struct gpu_host {
	const struct rec_tables *t;
	struct host_thread *threads; /* by index */
	uint8_t *stacks;	     /* 0 not looked at, 1 of a data loader, 2 not */
	uint64_t period_ns;	     /* of samples on the CPU, 0 = there are none */
	bool waits;
};

/* ---- loading ---- */

static void load_calls(struct gpu_host *h, const struct timeline *t)
{
	for (size_t i = 0; i < t->calls.len; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		struct host_thread *thread = &h->threads[k->thread];
		struct stretch at = {c->start_ns, c->end_ns};
		thread->wanted = true;
		if (timeline_call_waits(t, k))
			*vec_push(&thread->syncs) = at;
		else if ((k->role == GPU_COLLECTIVE || k->role == GPU_P2P ||
			  k->role == GPU_NCCL_GROUP) &&
			 c->parent == TIMELINE_NONE)
			*vec_push(&thread->collectives) = at;
	}
}

/* PyTorch opens a range of this name for each batch (torch/utils/data/dataloader.py). */
#define LOADER_RANGE "enumerate(DataLoader)#"

/* The strings that are such names, one bit each; NULL when there are none. */
static uint8_t *loader_names(const struct rec_tables *t)
{
	uint8_t *names = NULL;
	for (uint32_t i = 1; i < strtab_len(&t->strings); i++) {
		if (strncmp(strtab_get(&t->strings, i, NULL), LOADER_RANGE,
			    sizeof(LOADER_RANGE) - 1) != 0)
			continue;
		if (!names)
			names = xcalloc(strtab_len(&t->strings) / 8 + 1, 1);
		names[i / 8] |= (uint8_t)(1u << i % 8);
	}
	return names;
}

struct load {
	uint32_t thread;
	struct stretch at;
};

/* What a thread of the visit found. */
struct found {
	VEC(struct load) loads;
	VEC(struct m_sample) samples; /* of threads that launch, or may */
};

struct host_visitor {
	struct row_visitor visitor;
	struct gpu_host *host;
	const struct timeline *timeline; /* complete before this one ends */
	void (*done)(void *ctx);
	void *ctx;
	uint8_t *loader_names;
};

static void visit_calls(const struct host_visitor *v, struct found *f,
			const struct visited_rows *rows)
{
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_call *c = &calls[i];
		const struct m_probe *p = &v->host->t->probes.data[c->probe];
		if (p->name_arg < 0 || p->name_arg >= c->nargs ||
		    p->arg_types[p->name_arg] != ARG_TYPE_STRING)
			continue;
		uint64_t name = c->args[p->name_arg];
		if (v->loader_names[name / 8] & 1u << name % 8)
			*vec_push(&f->loads) =
				(struct load){c->thread, {c->start_ns, c->start_ns + c->dur_ns}};
	}
}

static void visit_rows(const struct row_visitor *visitor, void *state,
		       const struct visited_rows *rows)
{
	const struct host_visitor *v = (const struct host_visitor *)visitor;
	struct found *f = state;
	const struct m_sample *samples = rows->rows;
	if (rows->kind == ROW_CALL) {
		visit_calls(v, f, rows);
		return;
	}
	for (size_t i = 0; i < rows->len; i++)
		*vec_push(&f->samples) = samples[i];
}

/* Names of PyTorch's data loader, and of queues that others use for the same. */
static bool names_data(const struct rec_tables *t, const struct m_frame *f)
{
	static const char *const words[] = {"dataloader", "DataLoader", "_next_data",
					    "_get_data",  "queues.py",	"queue.py"};
	const char *name = strtab_get(&t->strings, f->name, NULL);
	const char *file = strtab_get(&t->strings, f->file, NULL);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(name, words[i]) || strstr(file, words[i]))
			return true;
	return false;
}

static bool of_data(struct gpu_host *h, uint32_t stack)
{
	const struct m_stack *stacks = h->t->stacks.data;
	uint32_t at = stack;
	while (at && !h->stacks[at] && !names_data(h->t, &h->t->frames.data[stacks[at].frame]))
		at = stacks[at].parent;
	uint8_t what = at && h->stacks[at] != 2 ? 1 : 2;
	for (uint32_t i = stack; i != at; i = stacks[i].parent)
		h->stacks[i] = what;
	if (at)
		h->stacks[at] = what;
	return what == 1;
}

static enum wait_class class_of(struct gpu_host *h, const struct m_sample *s)
{
	if (s->reason == WAIT_PREEMPTED)
		return WAIT_OF_PREEMPTION;
	if (s->reason == WAIT_GPU)
		return WAIT_OF_DEVICE;
	if (s->reason == WAIT_DISK || of_data(h, s->stack))
		return WAIT_OF_DATA;
	return WAIT_OF_OTHERS;
}

static void add_sample(struct gpu_host *h, const struct m_sample *s)
{
	uint64_t from = s->time_ns > s->weight_ns ? s->time_ns - s->weight_ns : 0;
	struct host_thread *thread = &h->threads[s->thread];
	struct stretch at = {from, s->time_ns};
	h->waits |= s->kind == SAMPLE_OFFCPU;
	if (s->kind == SAMPLE_CPU && s->weight_ns > h->period_ns)
		h->period_ns = s->weight_ns;
	if (!thread->wanted)
		return;
	if (s->kind == SAMPLE_OFFCPU)
		*vec_push(&thread->waits) = (struct wait){at, (uint8_t)class_of(h, s)};
	else
		*vec_push(&thread->running) = at;
}

static int compare_ends(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b; /* of a wait, its first field */
	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

#define SORT(v)                                                                                    \
	do {                                                                                       \
		if ((v)->len)                                                                      \
			qsort((v)->data, (v)->len, sizeof(*(v)->data), compare_ends);              \
	} while (0)

static void end_visit(struct row_visitor *visitor, void *states, size_t n)
{
	struct host_visitor *v = (struct host_visitor *)visitor;
	struct gpu_host *h = v->host;
	struct found *found = states;
	load_calls(h, v->timeline);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < found[i].loads.len; k++)
			*vec_push(&h->threads[found[i].loads.data[k].thread].loads) =
				found[i].loads.data[k].at;
		for (size_t k = 0; k < found[i].samples.len; k++)
			add_sample(h, &found[i].samples.data[k]);
		vec_free(&found[i].loads);
		vec_free(&found[i].samples);
	}
	for (size_t i = 0; i < h->t->threads.len; i++) {
		SORT(&h->threads[i].syncs);
		SORT(&h->threads[i].collectives);
		SORT(&h->threads[i].loads);
		SORT(&h->threads[i].waits);
		SORT(&h->threads[i].running);
	}
	v->done(v->ctx);
	free(v->loader_names);
	free(v);
}

struct row_visitor *gpu_host_visitor(struct gpu_host **ret, const struct row_source *s,
				     const struct timeline *t, void (*done)(void *ctx), void *ctx)
{
	struct gpu_host *h = xcalloc(1, sizeof(*h));
	struct host_visitor *v = xcalloc(1, sizeof(*v));
	h->t = s->tables;
	h->threads = xcalloc(h->t->threads.len + 1, sizeof(*h->threads));
	h->stacks = xcalloc(h->t->stacks.len + 1, sizeof(*h->stacks));
	v->host = *ret = h;
	v->timeline = t;
	v->done = done;
	v->ctx = ctx;
	v->loader_names = loader_names(h->t);
	v->visitor = (struct row_visitor){.kinds = (v->loader_names ? 1u << ROW_CALL : 0) |
						   1u << ROW_SAMPLE,
					  .state_bytes = sizeof(struct found),
					  .rows = visit_rows,
					  .end = end_visit};
	return &v->visitor;
}

void gpu_host_free(struct gpu_host *h)
{
	for (size_t i = 0; i < h->t->threads.len; i++) {
		vec_free(&h->threads[i].syncs);
		vec_free(&h->threads[i].collectives);
		vec_free(&h->threads[i].loads);
		vec_free(&h->threads[i].waits);
		vec_free(&h->threads[i].running);
	}
	free(h->threads);
	free(h->stacks);
	free(h);
}

bool gpu_host_waits(const struct gpu_host *h)
{
	return h->waits;
}

/* ---- asking ---- */

/* The first of n rows of `size` bytes, which begin with a stretch, that ends after a time. */
static size_t first_after(const void *rows, size_t n, size_t size, uint64_t time_ns)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct stretch *s = (const void *)((const uint8_t *)rows + mid * size);
		if (s->end_ns <= time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static uint64_t overlap(const struct stretch *s, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t from = s->start_ns > from_ns ? s->start_ns : from_ns;
	uint64_t to = s->end_ns < to_ns ? s->end_ns : to_ns;
	return to > from ? to - from : 0;
}

/* The time of a list's stretches in a span of time; all of it at most, where they overlap. */
static uint64_t covered(const struct stretch *rows, size_t n, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t whole = to_ns > from_ns ? to_ns - from_ns : 0, ns = 0;
	for (size_t i = first_after(rows, n, sizeof(*rows), from_ns);
	     i < n && rows[i].start_ns < to_ns; i++)
		ns += overlap(&rows[i], from_ns, to_ns);
	return ns < whole ? ns : whole;
}

static uint64_t loading(const struct host_thread *t, uint64_t from_ns, uint64_t to_ns)
{
	size_t i = first_after(t->loads.data, t->loads.len, sizeof(*t->loads.data), from_ns);
	uint64_t ns = 0;
	for (; i < t->loads.len && t->loads.data[i].start_ns < to_ns; i++) {
		const struct stretch *s = &t->loads.data[i];
		if (s->end_ns == s->start_ns)
			return to_ns - s->start_ns;
		ns += overlap(s, from_ns, to_ns);
	}
	return ns;
}

static void add_waits(struct host_time *ret, const struct host_thread *t, uint64_t from_ns,
		      uint64_t to_ns)
{
	size_t n = t->waits.len;
	const struct wait *rows = t->waits.data;
	for (size_t i = first_after(rows, n, sizeof(*rows), from_ns);
	     i < n && rows[i].at.start_ns < to_ns; i++) {
		uint64_t from = rows[i].at.start_ns > from_ns ? rows[i].at.start_ns : from_ns;
		uint64_t to = rows[i].at.end_ns < to_ns ? rows[i].at.end_ns : to_ns;
		uint64_t ns = to > from ? to - from : 0;
		ns -= covered(t->syncs.data, t->syncs.len, from, to);
		if (rows[i].class == WAIT_OF_DATA)
			ret->data_ns += ns;
		else if (rows[i].class == WAIT_OF_PREEMPTION)
			ret->preempted_ns += ns;
		else if (rows[i].class == WAIT_OF_OTHERS)
			ret->blocked_ns += ns;
	}
}

/* Without times off the CPU: from samples that are not there. One is taken in each period, at one
 * of its four ticks by chance (bpf/samples.h): of stretches of one and a half periods that a thread
 * ran through, 1.5 % have none. */
static void guess_waits(struct host_time *ret, const struct gpu_host *h,
			const struct host_thread *t, uint64_t from_ns, uint64_t to_ns)
{
	enum { MANY = 8 }; /* periods: up to so many, one sample is as good as all */
	uint64_t ns = to_ns - from_ns > ret->sync_ns ? to_ns - from_ns - ret->sync_ns : 0;
	if (!h->period_ns || ns < h->period_ns + h->period_ns / 2)
		return;
	size_t at = first_after(t->running.data, t->running.len, sizeof(*t->running.data), from_ns);
	size_t to = first_after(t->running.data, t->running.len, sizeof(*t->running.data), to_ns);
	if (ns < MANY * h->period_ns && to > at)
		return;
	uint64_t ran = (to - at) * h->period_ns;
	ret->blocked_ns = ns > ran ? ns - ran : 0;
}

void gpu_host_time(struct host_time *ret, const struct gpu_host *h, uint32_t thread,
		   uint64_t from_ns, uint64_t to_ns)
{
	const struct host_thread *t = &h->threads[thread];
	*ret = (struct host_time){0};
	size_t open = first_after(t->syncs.data, t->syncs.len, sizeof(*t->syncs.data), from_ns);
	if (open < t->syncs.len && t->syncs.data[open].start_ns <= from_ns)
		ret->sync_end_ns = t->syncs.data[open].end_ns;
	ret->sync_ns = covered(t->syncs.data, t->syncs.len, from_ns, to_ns);
	ret->collective_ns = covered(t->collectives.data, t->collectives.len, from_ns, to_ns);
	ret->loading_ns = loading(t, from_ns, to_ns);
	if (h->waits)
		add_waits(ret, t, from_ns, to_ns);
	else if (to_ns > from_ns)
		guess_waits(ret, h, t, from_ns, to_ns);
}

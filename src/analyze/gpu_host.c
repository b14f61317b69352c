/* gpu_host.c - what threads did between their launches.
 *
 * Waits and calls of a thread do not overlap among themselves (a sample off the CPU is one wait,
 * calls of these roles do not nest but in NCCL's), so those of a span of time are found by binary
 * search in lists in order of end. */
#include "analyze/gpu_host.h"

#include <string.h>

#include "analyze/call_blocks.h"

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
		struct host_thread *thread = &h->threads[c->thread];
		struct stretch at = {c->start_ns, c->end_ns};
		/* A copy without a stream returns when it is done. */
		bool waits =
			c->role == GPU_SYNC ||
			(c->role == GPU_COPY && t->probes.rows[c->probe].arg[GPU_ARG_STREAM] < 0);
		if (waits)
			*vec_push(&thread->syncs) = at;
		else if ((c->role == GPU_COLLECTIVE || c->role == GPU_P2P ||
			  c->role == GPU_NCCL_GROUP) &&
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
typedef VEC(struct load) loads_t;

struct load_search {
	const struct rec_tables *t;
	const uint8_t *names;
};

static void take_load(void *state, void *ctx, const struct m_call *c, uint64_t order)
{
	const struct load_search *s = ctx;
	const struct m_probe *p = &s->t->probes.data[c->probe];
	loads_t *loads = state;
	(void)order;
	if (p->name_arg < 0 || p->name_arg >= c->nargs ||
	    p->arg_types[p->name_arg] != ARG_TYPE_STRING)
		return;
	uint64_t name = c->args[p->name_arg];
	if (s->names[name / 8] & 1u << name % 8)
		*vec_push(loads) = (struct load){c->thread, {c->start_ns, c->start_ns + c->dur_ns}};
}

static void load_loads(struct gpu_host *h, const struct rec_reader *r)
{
	uint8_t *names = loader_names(h->t);
	struct load_search search = {h->t, names};
	size_t n;
	if (!names)
		return;
	loads_t *workers = call_blocks_read(r, &(struct call_blocks_options){0}, sizeof(*workers),
					    take_load, &search, &n);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < workers[i].len; k++)
			*vec_push(&h->threads[workers[i].data[k].thread].loads) =
				workers[i].data[k].at;
		vec_free(&workers[i]);
	}
	free(workers);
	free(names);
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

static void load_samples(struct gpu_host *h, const struct rec_reader *r, const bool *wanted)
{
	struct m_samples rows = {0};
	for (size_t b = 0; b < rec_sample_blocks(r); b++) {
		if (rec_read_samples(r, b, &rows, NULL) < 0)
			continue;
		for (size_t i = 0; i < rows.len; i++) {
			const struct m_sample *s = &rows.rows[i];
			uint64_t from = s->time_ns > s->weight_ns ? s->time_ns - s->weight_ns : 0;
			h->waits |= s->kind == SAMPLE_OFFCPU;
			if (s->kind == SAMPLE_CPU && s->weight_ns > h->period_ns)
				h->period_ns = s->weight_ns;
			if (!wanted[s->thread])
				continue;
			struct stretch at = {from, s->time_ns};
			if (s->kind == SAMPLE_OFFCPU)
				*vec_push(&h->threads[s->thread].waits) =
					(struct wait){at, (uint8_t)class_of(h, s)};
			else
				*vec_push(&h->threads[s->thread].running) = at;
		}
	}
	m_samples_free(&rows);
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

struct gpu_host *gpu_host_new(const struct timeline *t, const struct rec_reader *r)
{
	struct gpu_host *h = xcalloc(1, sizeof(*h));
	h->t = t->tables;
	h->threads = xcalloc(h->t->threads.len + 1, sizeof(*h->threads));
	h->stacks = xcalloc(h->t->stacks.len + 1, sizeof(*h->stacks));
	bool *wanted = xcalloc(h->t->threads.len + 1, sizeof(*wanted));
	for (size_t i = 0; i < t->calls.len; i++)
		wanted[t->calls.data[i].thread] = true;
	load_calls(h, t);
	load_loads(h, r);
	load_samples(h, r, wanted);
	for (size_t i = 0; i < h->t->threads.len; i++) {
		SORT(&h->threads[i].syncs);
		SORT(&h->threads[i].collectives);
		SORT(&h->threads[i].loads);
		SORT(&h->threads[i].waits);
		SORT(&h->threads[i].running);
	}
	free(wanted);
	return h;
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

/* advice_gpu.c - of a loop's process: the driver's calls that get and give back memory, the line
 * that copies pageable memory, and products of float32 matrices that leave the tensor cores out. */
#include <string.h>

#include "analyze/advice_impl.h"
#include "analyze/profile.h"

static bool gets_or_gives_memory(uint8_t role)
{
	switch (role) {
	case GPU_ALLOC:
	case GPU_FREE:
	case GPU_VMM_CREATE:
	case GPU_VMM_MAP:
	case GPU_VMM_UNMAP:
	case GPU_VMM_RELEASE:
	case GPU_HOST_ALLOC:
	case GPU_HOST_FREE:
		return true;
	default:
		return false;
	}
}

/* ---- memory ---- */

struct churning {
	const struct rec_tables *t;
	const struct timeline *timeline;
	uint32_t pid;
	uint64_t from_ns, to_ns;
	uint64_t count;
	struct stretches of_process, of_threads;
};

static void add_calls(void *ctx, const struct visited_rows *rows)
{
	struct churning *c = ctx;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_call *m = &calls[i];
		uint32_t pid = c->t->threads.data[m->thread].pid;
		if (pid != c->pid || m->start_ns < c->from_ns || m->start_ns >= c->to_ns ||
		    !gets_or_gives_memory(c->timeline->probes.rows[m->probe].role))
			continue;
		uint64_t end_ns = m->start_ns + m->dur_ns;
		end_ns = end_ns < c->to_ns ? end_ns : c->to_ns;
		c->count++;
		*vec_push(&c->of_process.all) = (struct keyed_stretch){pid, m->start_ns, end_ns};
		*vec_push(&c->of_threads.all) =
			(struct keyed_stretch){m->thread, m->start_ns, end_ns};
	}
}

/* Where a thread was in these stretches, by its samples. */
static struct advice_place place_in(const struct stretches *in, const struct blame_world *w,
				    uint32_t thread)
{
	struct place_sums at = {0};
	size_t n;
	const struct blame_sample *s = blame_samples_of(w, thread, &n);
	for (size_t i = 0; s && i < n; i++)
		if (stretches_within(in, thread, s[i].time_ns, s[i].time_ns + 1))
			place_add(&at, s[i].own, (double)s[i].weight_ns);
	struct advice_place ret = place_most(&at, w->t);
	place_free(&at);
	return ret;
}

void advice_find_churn(struct advice_churn *ret, const struct blame_world *w,
		       const struct row_source *s, const struct timeline *t,
		       const struct advice_loop *loop)
{
	uint32_t pid = loop->main->pid;
	struct churning c = {.t = s->tables,
			     .timeline = t,
			     .pid = pid,
			     .from_ns = loop->loop->since_ns,
			     .to_ns = loop->loop->since_ns + loop->loop->wall_ns};
	uint64_t on_gpu;
	if (!map64_get(&w->on_gpu, pid, &on_gpu))
		return;
	rows_read(s, ROW_CALL, add_calls, &c);
	stretches_end(&c.of_process);
	stretches_end(&c.of_threads);
	stretches_subtract(&c.of_process, &w->works);
	ret->count = c.count;
	ret->ns = (double)stretches_within(&c.of_process, pid, c.from_ns, c.to_ns);
	ret->at = place_in(&c.of_threads, w, loop->main->thread);
	stretches_free(&c.of_process);
	stretches_free(&c.of_threads);
}

/* ---- copies ---- */

static bool is_pageable(const struct timeline *t, const struct timeline_call *c)
{
	for (uint32_t i = 0; i < c->spans; i++) {
		const struct timeline_span *s = &t->spans.data[t->by_call.data[c->first_span + i]];
		const struct timeline_kind *k = timeline_kind_of(t, s);
		if (k->work == WORK_COPY &&
		    (k->source_kind == MEMORY_PAGEABLE || k->destination_kind == MEMORY_PAGEABLE))
			return true;
	}
	return false;
}

void advice_find_copies(struct advice_place *ret, const struct blame_world *w,
			const struct timeline *t, const struct advice_loop *loop)
{
	uint64_t from_ns = loop->loop->since_ns, to_ns = from_ns + loop->loop->wall_ns;
	struct stretches copies = {0};
	for (size_t i = 0; i < t->calls.len; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		if (k->role == GPU_COPY && k->thread == loop->main->thread &&
		    c->start_ns >= from_ns && c->start_ns < to_ns && is_pageable(t, c))
			*vec_push(&copies.all) =
				(struct keyed_stretch){k->thread, c->start_ns, c->end_ns};
	}
	stretches_end(&copies);
	*ret = place_in(&copies, w, loop->main->thread);
	stretches_free(&copies);
}

/* ---- float32 ---- */

/* By the names of cuBLAS, cuDNN and CUTLASS: "sgemm", "simt" and "ffma" multiply on the ordinary
 * cores. What is of float16 gains by other remedies. */
static bool leaves_tensor_cores_out(const char *name)
{
	static const char *const tensor[] = {"tf32", "1688",   "16816", "tensorop", "nvjet",
					     "fp16", "f16f16", "h884",	"s884",	    "wgmma"};
	static const char *const plain[] = {"sgemm", "gemmSN", "_simt_", "_ffma", "gemm_f32f32"};
	for (size_t i = 0; i < sizeof(tensor) / sizeof(tensor[0]); i++)
		if (strstr(name, tensor[i]))
			return false;
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (strstr(name, plain[i]))
			return true;
	return false;
}

static uint32_t own_frame(const struct rec_tables *t, uint32_t stack)
{
	for (; stack; stack = t->stacks.data[stack].parent) {
		uint32_t frame = t->stacks.data[stack].frame;
		const struct m_frame *f = &t->frames.data[frame];
		if (f->kind == FRAME_PYTHON && f->line &&
		    !profile_is_library(strtab_get(&t->strings, f->file, NULL)))
			return frame;
	}
	return BLAME_NO_FRAME;
}

void advice_find_float32(struct advice_float32 *ret, const struct timeline *t,
			 const struct advice_loop *loop)
{
	uint64_t from_ns = loop->loop->since_ns, to_ns = from_ns + loop->loop->wall_ns, is;
	struct map64 names = {0}; /* string -> whether it is one */
	struct place_sums at = {0};
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		const struct timeline_kind *k = timeline_kind_of(t, s);
		if (k->pid != loop->main->pid || k->work != WORK_KERNEL || s->start_ns < from_ns ||
		    s->start_ns >= to_ns)
			continue;
		if (!map64_get(&names, k->name, &is)) {
			is = leaves_tensor_cores_out(
				strtab_get(&t->tables->strings, k->name, NULL));
			map64_set(&names, k->name, is);
		}
		if (!is)
			continue;
		double ns = (double)(s->end_ns - s->start_ns);
		ret->count++;
		ret->ns += ns;
		if (s->call != TIMELINE_NONE)
			place_add(
				&at,
				own_frame(t->tables,
					  timeline_call_kind_of(t, &t->calls.data[s->call])->stack),
				ns);
	}
	ret->at = place_most(&at, t->tables);
	place_free(&at);
	map64_free(&names);
}

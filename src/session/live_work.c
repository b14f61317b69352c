/* live_work.c - counts what is seen. A counted call within a counted one of its thread is the same
 * work: calls come by their ends, so those that came last wait for a while for a caller. */
#include "session/live_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kernel_name.h"
#include "session/live_names.h"
#include "session/live_series.h"
#include "symbolize/demangle.h"

#define SECOND_NS   1000000000ULL
#define WAITING	    8		       /* of a thread: more than one counted call holds of others */
#define CALLER_NS   10000000ULL	       /* a caller ends soon after what it called */
#define SEEN_LEAST  0.005	       /* by less nothing is reckoned */
#define PLACES	    (WORK_SECONDS + 1) /* one of the second that goes on */
#define THREADS	    (1 << 14)
#define KERNELS_ALL (1 << 12)
#define OTHER	    "(other)"
#define NONE	    UINT32_MAX

struct live_work_probe {
	struct flops_probe flops;
	bool launches;
	uint32_t within; /* a probe whose calls were seen around its calls, or NONE */
};

struct waiting {
	uint64_t start_ns, end_ns;
	double model;
	uint32_t probe;
	uint8_t format;
	bool launched; /* a kernel was seen to be launched in it */
};

struct live_work_thread {
	uint32_t pid;
	uint64_t launch_ns, tensor_ns; /* the last launch; the last of a kernel of tensor cores */
	size_t len;
	struct waiting calls[WAITING]; /* in the order in which they came */
};

/* ---- rows ---- */

static struct live_flops *flops_of(struct live_work *w, uint32_t pid, uint64_t now_ns)
{
	uint64_t at;
	if (map64_get(&w->flops_of, pid, &at))
		return &w->flops.data[at];
	map64_set(&w->flops_of, pid, w->flops.len);
	struct live_flops *f = vec_push(&w->flops);
	f->pid = pid;
	f->first_s = f->last_s = now_ns / SECOND_NS;
	return f;
}

static struct live_work_thread *thread_of(struct live_work *w, uint32_t number, uint32_t pid)
{
	uint64_t at;
	if (map64_get(&w->thread_of, number, &at))
		return &w->threads.data[at];
	if (!w->free_threads.len && w->threads.len >= THREADS)
		return NULL;
	at = w->free_threads.len ? w->free_threads.data[--w->free_threads.len] : w->threads.len;
	struct live_work_thread *t =
		at < w->threads.len ? &w->threads.data[at] : vec_push(&w->threads);
	*t = (struct live_work_thread){.pid = pid};
	map64_set(&w->thread_of, number, at);
	return t;
}

static struct live_work_probe *probe_of(struct live_work *w, const struct session_view *v,
					uint32_t number, const struct m_probe *row)
{
	uint64_t at;
	if (map64_get(&w->probe_of, number, &at))
		return &w->probes.data[at];
	map64_set(&w->probe_of, number, w->probes.len);
	struct live_work_probe *p = vec_push(&w->probes);
	p->within = NONE;
	p->launches = !strcmp(live_string(v, row->role), "launch");
	flops_probe_make(&p->flops, v->names->string, v->names->ctx, row);
	return p;
}

/* ---- operations ---- */

/* The place of a second; what is older than the span is emptied on the way. */
static double *second_of(struct live_flops *f, uint64_t now_ns)
{
	uint64_t now_s = now_ns / SECOND_NS;
	for (uint64_t s = f->last_s + 1; s <= now_s && s <= f->last_s + PLACES; s++)
		memset(f->all[s % PLACES], 0, sizeof(f->all[0]));
	if (now_s > f->last_s)
		f->last_s = now_s;
	return f->all[f->last_s % PLACES];
}

/* How many calls one that was seen stands for. Where its function is called by another counted one,
 * whose calls are seen for a part of the time, those stand for it. */
static double stands_for(const struct live_work *w, const struct live_series *s,
			 const struct waiting *c)
{
	uint64_t at;
	double seen = live_series_seen(s, c->probe);
	uint32_t within = map64_get(&w->probe_of, c->probe, &at) ? w->probes.data[at].within : NONE;
	if (within != NONE && live_series_seen(s, within) < 1)
		return 0;
	return seen >= SEEN_LEAST ? 1 / seen : 0;
}

static void settle(struct live_work *w, const struct live_series *s,
		   const struct live_work_thread *t, const struct waiting *c, uint64_t now_ns)
{
	struct live_flops *f = flops_of(w, t->pid, now_ns);
	uint8_t format = c->format == FORMAT_F32 && !c->launched ? FORMAT_TF32 : c->format;
	f->model[c->format] += c->model;
	second_of(f, now_ns)[format] += c->model * stands_for(w, s, c);
}

static bool holds(const struct waiting *outer, const struct waiting *inner)
{
	return outer->start_ns <= inner->start_ns && inner->end_ns <= outer->end_ns;
}

static void note_within(struct live_work *w, uint32_t inner, uint32_t outer)
{
	uint64_t at;
	if (inner != outer && map64_get(&w->probe_of, inner, &at))
		w->probes.data[at].within = outer;
}

/* Those that a call holds are its own work. One that casts its arguments (autocast) calls itself
 * with what it made: the format is the inner one's. */
static void claim(struct live_work *w, struct live_work_thread *t, struct waiting *c)
{
	size_t kept = 0;
	for (size_t i = 0; i < t->len; i++) {
		const struct waiting *inner = &t->calls[i];
		if (!holds(c, inner)) {
			t->calls[kept++] = *inner;
			continue;
		}
		note_within(w, inner->probe, c->probe);
		if (inner->format)
			c->format = inner->format;
	}
	t->len = kept;
}

/* It came after what holds it: from another CPU's ring. */
static bool is_held(struct live_work *w, struct live_work_thread *t, const struct waiting *c)
{
	for (size_t i = 0; i < t->len; i++) {
		if (!holds(&t->calls[i], c))
			continue;
		note_within(w, c->probe, t->calls[i].probe);
		if (c->format)
			t->calls[i].format = c->format;
		return true;
	}
	return false;
}

static void count_work(struct live_work *w, const struct live_series *s, struct live_work_thread *t,
		       const struct flops_probe *p, const struct m_call *c, uint64_t now_ns)
{
	struct flops_work work;
	flops_count(&work, p, c);
	struct waiting call = {.start_ns = c->start_ns,
			       .end_ns = c->start_ns + c->dur_ns,
			       .model = work.model,
			       .probe = c->probe,
			       .format = work.format,
			       .launched = t->launch_ns >= c->start_ns};
	if (is_held(w, t, &call))
		return;
	claim(w, t, &call);
	if (!work.known) {
		flops_of(w, t->pid, now_ns)->unknown++;
		return;
	}
	if (call.format == FORMAT_F32 && t->tensor_ns >= c->start_ns)
		call.format = FORMAT_TF32;
	if (t->len == WAITING) {
		settle(w, s, t, &t->calls[0], now_ns);
		memmove(t->calls, t->calls + 1, --t->len * sizeof(t->calls[0]));
	}
	t->calls[t->len++] = call;
}

/* upto_ns: what ended before has come; 0: not known. */
static void settle_thread(struct live_work *w, const struct live_series *s,
			  struct live_work_thread *t, uint64_t upto_ns, uint64_t now_ns)
{
	size_t kept = 0;
	for (size_t i = 0; i < t->len; i++) {
		if (upto_ns && t->calls[i].end_ns + CALLER_NS > upto_ns)
			t->calls[kept++] = t->calls[i];
		else
			settle(w, s, t, &t->calls[i], now_ns);
	}
	t->len = kept;
}

/* ---- kernels ---- */

static size_t kernels_of(struct live_work *w, uint32_t pid)
{
	uint64_t n = 0;
	map64_get(&w->names_of, pid, &n);
	return n;
}

/* The place of a name; one that finds no room is added to all others of its process. */
static size_t place_of_kernel(struct live_work *w, uint32_t pid, const char *name)
{
	uint64_t key = hash_u64(hash_u64(pid) ^ hash_bytes(name, strlen(name))), at;
	if (map64_get(&w->named, key, &at))
		return at;
	bool full = kernels_of(w, pid) >= WORK_KERNELS || w->kernels.len >= KERNELS_ALL;
	if (full && strcmp(name, OTHER))
		return place_of_kernel(w, pid, OTHER);
	map64_set(&w->named, key, w->kernels.len);
	map64_set(&w->names_of, pid, kernels_of(w, pid) + 1);
	struct live_kernel *k = vec_push(&w->kernels);
	k->pid = pid;
	snprintf(k->name, sizeof(k->name), "%s", name);
	return w->kernels.len - 1;
}

/* Kernels whose names are not known have none of their own. */
static void short_name(char ret[static WORK_NAME_BYTES], const char *mangled)
{
	char *plain = demangle(mangled, 1);
	if (kernel_name_known(plain))
		kernel_name_short(ret, WORK_NAME_BYTES, plain);
	else
		snprintf(ret, WORK_NAME_BYTES, "%s", OTHER);
	free(plain);
}

/* t: NULL, where it found no room. */
static void count_launch(struct live_work *w, const struct session_view *v, uint32_t pid,
			 struct live_work_thread *t, const struct m_probe *row,
			 const struct m_call *c)
{
	char mangled[1024], name[WORK_NAME_BYTES];
	uint64_t value = live_name_value(row, c), at;
	uint64_t key = hash_u64(hash_u64(pid) ^ hash_u64((uint64_t)c->probe << 32 ^ value));
	if (c->flags & CALL_ERROR)
		return;
	if (!map64_get(&w->kernel_of, key, &at)) {
		live_function_name(v, row, value, mangled, sizeof(mangled));
		short_name(name, mangled);
		at = place_of_kernel(w, pid, name) << 1 | flops_kernel_is_tensor(mangled);
		if (w->kernel_of.len >= 4 * KERNELS_ALL)
			map64_free(&w->kernel_of);
		map64_set(&w->kernel_of, key, at);
	}
	w->kernels.data[at >> 1].launches++;
	if (!t)
		return;
	t->launch_ns = c->start_ns > t->launch_ns ? c->start_ns : t->launch_ns;
	if (at & 1 && c->start_ns > t->tensor_ns)
		t->tensor_ns = c->start_ns;
}

/* ---- all of it ---- */

static void take_call(struct live_work *w, const struct session_view *v,
		      const struct live_series *s, const struct m_call *c, uint64_t now_ns)
{
	const struct m_probe *row = v->names->probe(v->names->ctx, c->probe);
	if (!row)
		return;
	const struct live_work_probe *p = probe_of(w, v, c->probe, row);
	if (!p->launches && !p->flops.kind)
		return;
	const struct m_thread *thread = v->names->thread(v->names->ctx, c->thread);
	if (!thread || !live_series_process(s, thread->pid))
		return;
	struct live_work_thread *t = thread_of(w, c->thread, thread->pid);
	if (p->launches)
		count_launch(w, v, thread->pid, t, row, c);
	else if (t)
		count_work(w, s, t, &p->flops, c, now_ns);
	else
		flops_of(w, thread->pid, now_ns)->unknown++;
}

static void forget_threads(struct live_work *w, const struct session_view *v,
			   const struct live_series *s, uint64_t now_ns)
{
	for (size_t i = 0; i < v->batch->threads_gone.len; i++) {
		uint64_t at;
		if (!map64_get(&w->thread_of, v->batch->threads_gone.data[i], &at))
			continue;
		settle_thread(w, s, &w->threads.data[at], 0, now_ns);
		*vec_push(&w->free_threads) = (uint32_t)at;
		map64_del(&w->thread_of, v->batch->threads_gone.data[i]);
	}
}

void live_work_batch(struct live_work *w, const struct session_view *v, const struct live_series *s,
		     uint64_t now_ns)
{
	for (size_t i = 0; i < v->batch->calls.len; i++)
		take_call(w, v, s, &v->batch->calls.data[i], now_ns);
	for (size_t i = 0; i < w->threads.len; i++)
		settle_thread(w, s, &w->threads.data[i], v->upto_ns, now_ns);
	forget_threads(w, v, s, now_ns);
}

void live_work_forget(struct live_work *w, const struct live_series *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < w->flops.len; i++)
		if (live_series_process(s, w->flops.data[i].pid))
			w->flops.data[kept++] = w->flops.data[i];
	w->flops.len = kept;
	map64_free(&w->flops_of);
	for (size_t i = 0; i < kept; i++)
		map64_set(&w->flops_of, w->flops.data[i].pid, i);
	kept = 0;
	for (size_t i = 0; i < w->kernels.len; i++)
		if (live_series_process(s, w->kernels.data[i].pid))
			w->kernels.data[kept++] = w->kernels.data[i];
	w->kernels.len = kept;
	map64_free(&w->kernel_of);
	map64_free(&w->named);
	map64_free(&w->names_of);
	for (size_t i = 0; i < kept; i++) {
		const struct live_kernel *k = &w->kernels.data[i];
		map64_set(&w->named,
			  hash_u64(hash_u64(k->pid) ^ hash_bytes(k->name, strlen(k->name))), i);
		map64_set(&w->names_of, k->pid, kernels_of(w, k->pid) + 1);
	}
}

void live_work_free(struct live_work *w)
{
	vec_free(&w->flops);
	vec_free(&w->kernels);
	vec_free(&w->threads);
	vec_free(&w->probes);
	vec_free(&w->free_threads);
	map64_free(&w->flops_of);
	map64_free(&w->kernel_of);
	map64_free(&w->named);
	map64_free(&w->names_of);
	map64_free(&w->thread_of);
	map64_free(&w->probe_of);
}

bool live_work_speed(const struct live_work *w, uint32_t pid, uint64_t now_ns,
		     double ret[static FLOPS_FORMATS])
{
	uint64_t at, now_s = now_ns / SECOND_NS;
	if (!map64_get(&w->flops_of, pid, &at))
		return false;
	const struct live_flops *f = &w->flops.data[at];
	uint64_t from_s = now_s > WORK_SECONDS ? now_s - WORK_SECONDS : 0;
	if (from_s <= f->first_s)
		from_s = f->first_s + 1; /* it began within that one */
	if (from_s >= now_s)
		return false;
	for (int i = 0; i < FLOPS_FORMATS; i++)
		ret[i] = 0;
	for (uint64_t s = from_s; s < now_s && s <= f->last_s; s++)
		for (int i = 0; i < FLOPS_FORMATS; i++)
			ret[i] += f->all[s % PLACES][i] / (double)(now_s - from_s);
	return true;
}

/* live_work.c - counts what is seen. A counted call within a counted one of its thread is the same
 * work: calls come by their ends, so what was counted of the inner one is taken off with the outer.
 *
 * What a budget keeps from being seen is reckoned in when it is known: its calls wait for the next
 * row of coverage, and are multiplied by what part of that time they were seen in. Of a pair, the
 * share that is taken off goes with the function that is seen less: in bursts both are on. So what
 * the other one does by itself stays counted. */
#include "session/live_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kernel_name.h"
#include "session/live_names.h"
#include "session/live_series.h"
#include "symbolize/demangle.h"

#define SECOND_NS    1000000000ULL
#define LATEST	     256 /* counted calls of a thread that a caller may hold */
#define LATEST_FIRST 16
#define CLOSED_NS    1000000000ULL  /* of coverage at least, */
#define ON_NS	     20000000ULL    /* with so much of it seen, unless it takes */
#define OPEN_NS	     30000000000ULL /* so long */
#define STALE_NS     15000000000ULL /* without a row: a function is seen all the time again */
#define PLACES	     WORK_PLACES
#define LATE_NS	     ((PLACES - 1 - WORK_BURSTS) * SECOND_NS)
#define THREADS	     (1 << 12)
#define KERNELS_ALL  (1 << 12)
#define OTHER	     "(other)"

struct live_work_probe {
	struct flops_probe flops;
	bool launches;
	/* by a budget: */
	bool covered;		/* it is not seen all the time */
	double seen;		/* the part of the time, when it was known last */
	uint64_t on_ns, off_ns; /* then */
	uint64_t row_ns;	/* when the last row came */
	uint64_t known_ns;	/* until then its work is known */
};

struct counted {
	uint64_t start_ns, end_ns;
	double model;
	uint32_t probe;
	uint8_t format, at; /* at: its place in live_flops.all */
};

struct live_work_thread {
	uint32_t pid;
	uint64_t launch_ns, tensor_ns; /* the last launch; the last of a kernel of tensor cores */
	struct counted *latest;	       /* by their ends, or NULL: it counted nothing so far */
	size_t n, room;
};

/* A function that a process calls, and its work since the last row of coverage while it is not seen
 * all the time. */
struct live_work_wait {
	uint32_t pid, probe;
	uint64_t called_ns; /* last */
	uint64_t since_ns;  /* when the first of it came; 0: there is none */
	double model[FLOPS_FORMATS];
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
	p->seen = 1;
	p->launches = !strcmp(live_string(v, row->role), "launch");
	flops_probe_make(&p->flops, v->names->string, v->names->ctx, row);
	return p;
}

/* ---- operations ---- */

/* The place of a second; what is older than the span is emptied on the way. One that is too long
 * ago has the oldest's. */
static double *second_of(struct live_flops *f, uint64_t ns)
{
	uint64_t second = ns / SECOND_NS;
	for (uint64_t s = f->last_s + 1; s <= second && s <= f->last_s + PLACES; s++)
		memset(f->all[s % PLACES], 0, sizeof(f->all[0]));
	if (second > f->last_s)
		f->last_s = second;
	return f->all[(second + PLACES > f->last_s ? second : f->last_s + 1) % PLACES];
}

static bool is_covered(const struct live_work *w, uint32_t probe, double *ret_seen)
{
	uint64_t at;
	bool is = map64_get(&w->probe_of, probe, &at) && w->probes.data[at].covered;
	*ret_seen = is ? w->probes.data[at].seen : 1;
	return is;
}

/* Of two functions that which is seen less. */
static uint32_t less_seen(const struct live_work *w, uint32_t inner, uint32_t outer)
{
	double of_inner, of_outer;
	is_covered(w, inner, &of_inner);
	is_covered(w, outer, &of_outer);
	return of_inner < of_outer ? inner : outer;
}

static uint64_t wait_key(uint32_t pid, uint32_t probe)
{
	return (uint64_t)pid << 32 | probe;
}

static struct live_work_wait *wait_of(struct live_work *w, uint32_t pid, uint32_t probe)
{
	uint64_t key = wait_key(pid, probe), at;
	if (map64_get(&w->wait_of, key, &at))
		return &w->waits.data[at];
	map64_set(&w->wait_of, key, w->waits.len);
	struct live_work_wait *ret = vec_push(&w->waits);
	ret->pid = pid;
	ret->probe = probe;
	return ret;
}

/* probe: by which it was seen, or is taken off. */
static void add_to_all(struct live_work *w, uint32_t pid, uint32_t probe, uint8_t at, double model,
		       uint64_t now_ns)
{
	double seen;
	if (!is_covered(w, probe, &seen)) {
		second_of(flops_of(w, pid, now_ns), now_ns)[at] += model;
		return;
	}
	struct live_work_wait *of = wait_of(w, pid, probe);
	of->since_ns = of->since_ns ? of->since_ns : now_ns;
	of->model[at] += model;
}

static bool holds(const struct counted *outer, const struct counted *inner)
{
	return outer->start_ns <= inner->start_ns && inner->end_ns <= outer->end_ns;
}

/* What a call holds is its own work: returns how much of that its own format has already. One that
 * casts its arguments (autocast) calls itself with what it made: the format is the inner one's. */
static double take_off(struct live_work *w, struct live_work_thread *t, struct counted *c,
		       uint64_t now_ns)
{
	double ret = 0;
	size_t i = t->n, kept = t->n;
	for (; i > 0 && t->latest[i - 1].end_ns > c->start_ns; i--) {
		const struct counted *inner = &t->latest[i - 1];
		if (!holds(c, inner)) {
			t->latest[--kept] = *inner;
			continue;
		}
		add_to_all(w, t->pid, less_seen(w, inner->probe, c->probe), inner->at,
			   -inner->model, now_ns);
		if (inner->format) {
			c->format = inner->format;
			c->at = inner->at;
		}
		ret += inner->model;
	}
	/* whoever holds the call holds these: they are not looked at any more */
	memmove(t->latest + i, t->latest + kept, (t->n - kept) * sizeof(*t->latest));
	t->n -= kept - i;
	return ret;
}

/* It came after what holds it: from another CPU's ring. */
static bool came_late(const struct live_work_thread *t, const struct counted *c)
{
	for (size_t i = t->n; i > 0 && t->latest[i - 1].end_ns > c->start_ns; i--) {
		const struct counted *outer = &t->latest[i - 1];
		if (holds(outer, c) && !holds(c, outer))
			return true;
	}
	return false;
}

/* Where there are too many the oldest go: of a caller of as many, these count twice. */
static void make_room(struct live_work_thread *t)
{
	if (t->room < LATEST) {
		t->room = t->room ? 2 * t->room : LATEST_FIRST;
		t->latest = xrealloc(t->latest, t->room, sizeof(*t->latest));
		return;
	}
	t->n -= LATEST / 4;
	memmove(t->latest, t->latest + LATEST / 4, t->n * sizeof(*t->latest));
}

static void keep(struct live_work_thread *t, const struct counted *c)
{
	if (t->n == t->room)
		make_room(t);
	size_t i = t->n++;
	for (; i > 0 && t->latest[i - 1].end_ns > c->end_ns; i--)
		t->latest[i] = t->latest[i - 1];
	t->latest[i] = *c;
}

static bool lies_in(uint64_t ns, const struct m_call *c)
{
	return ns >= c->start_ns && ns <= c->start_ns + c->dur_ns;
}

/* Where float32's kernels were not seen they may be of tensor cores. */
static uint8_t place_of_format(const struct live_work_thread *t, const struct m_call *c,
			       uint8_t *format)
{
	if (*format == FORMAT_F32 && lies_in(t->tensor_ns, c))
		*format = FORMAT_TF32;
	return *format == FORMAT_F32 && !lies_in(t->launch_ns, c) ? FORMAT_TF32 : *format;
}

static void count_work(struct live_work *w, struct live_work_thread *t, const struct flops_probe *p,
		       const struct m_call *c, uint64_t now_ns)
{
	struct flops_work work;
	flops_count(&work, p, c);
	struct counted call = {.start_ns = c->start_ns,
			       .end_ns = c->start_ns + c->dur_ns,
			       .model = work.model,
			       .probe = c->probe,
			       .format = work.format};
	if (came_late(t, &call))
		return;
	if (!work.known) {
		flops_of(w, t->pid, now_ns)->unknown++;
		return;
	}
	call.at = place_of_format(t, c, &call.format);
	wait_of(w, t->pid, c->probe)->called_ns = now_ns;
	double within = take_off(w, t, &call, now_ns);
	if (work.model > within)
		flops_of(w, t->pid, now_ns)->model[call.format] += work.model - within;
	add_to_all(w, t->pid, c->probe, call.at, work.model, now_ns);
	keep(t, &call);
}

/* ---- within a budget ---- */

/* How much of a second lies in a time, as a part of that; all of an empty one that lies in it. */
static double share_of(uint64_t second, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t begin = second * SECOND_NS, end = begin + SECOND_NS;
	if (from_ns >= to_ns)
		return from_ns / SECOND_NS == second;
	begin = begin > from_ns ? begin : from_ns;
	end = end < to_ns ? end : to_ns;
	return end > begin ? (double)(end - begin) / (double)(to_ns - from_ns) : 0;
}

/* The work of a probe's calls that waits, of all processes: when it was done within the time since
 * is not known. */
static void settle(struct live_work *w, uint32_t probe, double seen, uint64_t now_ns)
{
	for (size_t i = 0; i < w->waits.len; i++) {
		struct live_work_wait *of = &w->waits.data[i];
		if (of->probe != probe || !of->since_ns)
			continue;
		struct live_flops *flops = flops_of(w, of->pid, now_ns);
		second_of(flops, now_ns);
		for (uint64_t s = of->since_ns / SECOND_NS; s <= now_ns / SECOND_NS; s++) {
			double share = share_of(s, of->since_ns, now_ns) / seen;
			for (int f = 0; f < FLOPS_FORMATS; f++)
				second_of(flops, s * SECOND_NS)[f] += share * of->model[f];
		}
		memset(of->model, 0, sizeof(of->model));
		of->since_ns = 0;
	}
}

/* What was done within a gap is not known: where it was long, speeds begin behind it. */
static void know(struct live_work *w, uint32_t probe, struct live_work_probe *p, bool was_covered,
		 uint64_t now_ns)
{
	bool gap = was_covered && p->known_ns + LATE_NS < now_ns;
	p->known_ns = now_ns;
	for (size_t i = 0; gap && i < w->waits.len; i++)
		if (w->waits.data[i].probe == probe)
			flops_of(w, w->waits.data[i].pid, now_ns)->first_s = now_ns / SECOND_NS;
}

/* Of a part of the time that is too short, or in which there was no burst, the next row tells. */
static void take_coverage(struct live_work *w, uint32_t probe, struct live_work_probe *p,
			  const struct m_coverage *row, uint64_t now_ns)
{
	bool was_covered = p->covered;
	bool first = !p->covered || row->on_ns < p->on_ns || row->off_ns < p->off_ns;
	uint64_t on_ns = row->on_ns - p->on_ns, all_ns = on_ns + (row->off_ns - p->off_ns);
	p->row_ns = now_ns;
	if (!first && (all_ns < CLOSED_NS || (on_ns < ON_NS && all_ns < OPEN_NS)))
		return;
	p->seen = first || !all_ns ? 1 : (double)on_ns / (double)all_ns;
	if (p->seen > 0)
		know(w, probe, p, was_covered, now_ns);
	p->covered = true;
	p->on_ns = row->on_ns;
	p->off_ns = row->off_ns;
	if (p->seen > 0)
		settle(w, probe, p->seen, now_ns);
}

static void take_coverages(struct live_work *w, const struct session_view *v, uint64_t now_ns)
{
	for (size_t i = 0; i < v->batch->coverages.len; i++) {
		const struct m_coverage *row = &v->batch->coverages.data[i];
		const struct m_probe *of = v->names->probe(v->names->ctx, row->probe);
		struct live_work_probe *p = of ? probe_of(w, v, row->probe, of) : NULL;
		if (p && p->flops.kind)
			take_coverage(w, row->probe, p, row, now_ns);
	}
	uint64_t number, place;
	size_t next = 0;
	while (w->waits.len && map64_next(&w->probe_of, &next, &number, &place)) {
		struct live_work_probe *p = &w->probes.data[place];
		if (!p->covered || p->row_ns + STALE_NS > now_ns)
			continue;
		settle(w, (uint32_t)number, 1, now_ns);
		p->covered = false;
	}
}

/* ---- kernels ---- */

static size_t kernels_of(struct live_work *w, uint32_t pid)
{
	uint64_t n = 0;
	map64_get(&w->names_of, pid, &n);
	return n;
}

static uint64_t kernel_key(uint32_t pid, const char *name)
{
	return hash_u64(hash_u64(pid) ^ hash_bytes(name, strlen(name)));
}

/* The place of a name; one that finds no room is added to all others of its process. */
static size_t place_of_kernel(struct live_work *w, uint32_t pid, const char *name)
{
	uint64_t key = kernel_key(pid, name), at;
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
	if (!row || c->flags & CALL_ERROR)
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
		count_work(w, t, &p->flops, c, now_ns);
	else
		flops_of(w, thread->pid, now_ns)->unknown++;
}

static void forget_threads(struct live_work *w, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->threads_gone.len; i++) {
		uint64_t at;
		if (!map64_get(&w->thread_of, v->batch->threads_gone.data[i], &at))
			continue;
		free(w->threads.data[at].latest);
		w->threads.data[at] = (struct live_work_thread){0};
		*vec_push(&w->free_threads) = (uint32_t)at;
		map64_del(&w->thread_of, v->batch->threads_gone.data[i]);
	}
}

void live_work_batch(struct live_work *w, const struct session_view *v, const struct live_series *s,
		     uint64_t now_ns)
{
	for (size_t i = 0; i < v->batch->calls.len; i++)
		take_call(w, v, s, &v->batch->calls.data[i], now_ns);
	take_coverages(w, v, now_ns);
	forget_threads(w, v);
}

static void forget_waits(struct live_work *w, const struct live_series *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < w->waits.len; i++)
		if (live_series_process(s, w->waits.data[i].pid))
			w->waits.data[kept++] = w->waits.data[i];
	w->waits.len = kept;
	map64_free(&w->wait_of);
	for (size_t i = 0; i < kept; i++)
		map64_set(&w->wait_of, wait_key(w->waits.data[i].pid, w->waits.data[i].probe), i);
}

void live_work_forget(struct live_work *w, const struct live_series *s)
{
	size_t kept = 0;
	forget_waits(w, s);
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
		map64_set(&w->named, kernel_key(k->pid, k->name), i);
		map64_set(&w->names_of, k->pid, kernels_of(w, k->pid) + 1);
	}
}

void live_work_free(struct live_work *w)
{
	vec_free(&w->flops);
	vec_free(&w->kernels);
	for (size_t i = 0; i < w->threads.len; i++)
		free(w->threads.data[i].latest);
	vec_free(&w->threads);
	vec_free(&w->waits);
	map64_free(&w->wait_of);
	vec_free(&w->probes);
	vec_free(&w->free_threads);
	map64_free(&w->flops_of);
	map64_free(&w->kernel_of);
	map64_free(&w->named);
	map64_free(&w->names_of);
	map64_free(&w->thread_of);
	map64_free(&w->probe_of);
}

/* Until when all of a process's work is known: of a function that is in bursts that is its last
 * one. false: too long ago. */
static bool known_until(const struct live_work *w, uint32_t pid, uint64_t now_ns, uint64_t *ret_s,
			bool *ret_in_bursts)
{
	uint64_t known_ns = now_ns, at;
	*ret_in_bursts = false;
	for (size_t i = 0; i < w->waits.len; i++) {
		const struct live_work_wait *of = &w->waits.data[i];
		bool calls = of->since_ns || of->called_ns + PLACES * SECOND_NS > now_ns;
		if (of->pid != pid || !calls || !map64_get(&w->probe_of, of->probe, &at))
			continue;
		const struct live_work_probe *p = &w->probes.data[at];
		*ret_in_bursts |= p->covered && p->seen < 1;
		uint64_t ns = of->since_ns ? of->since_ns : p->covered ? p->known_ns : now_ns;
		known_ns = ns < known_ns ? ns : known_ns;
	}
	*ret_s = known_ns / SECOND_NS;
	return known_ns + LATE_NS >= now_ns;
}

bool live_work_speed(const struct live_work *w, uint32_t pid, uint64_t now_ns,
		     double ret[static FLOPS_FORMATS])
{
	uint64_t at, until_s;
	bool in_bursts;
	if (!known_until(w, pid, now_ns, &until_s, &in_bursts) ||
	    !map64_get(&w->flops_of, pid, &at))
		return false;
	const struct live_flops *f = &w->flops.data[at];
	double counted = 0;
	for (int i = 0; i < FLOPS_FORMATS; i++)
		counted += f->model[i];
	uint64_t seconds = in_bursts ? WORK_BURSTS : WORK_SECONDS;
	uint64_t from_s = until_s > seconds ? until_s - seconds : 0;
	if (from_s <= f->first_s)
		from_s = f->first_s + 1; /* it began within that one */
	if (from_s >= until_s || counted <= 0)
		return false;
	for (int i = 0; i < FLOPS_FORMATS; i++)
		ret[i] = 0;
	for (uint64_t s = from_s; s < until_s && s <= f->last_s; s++)
		for (int i = 0; i < FLOPS_FORMATS; i++)
			ret[i] += f->all[s % PLACES][i] / (double)(until_s - from_s);
	for (int i = 0; i < FLOPS_FORMATS; i++)
		ret[i] = ret[i] > 0 ? ret[i] : 0; /* what is taken off may come a second later */
	return true;
}

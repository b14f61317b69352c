/* advice.c - sums up a main thread's time along what it waited for. */
#include "analyze/advice.h"

#include <string.h>

#include "analyze/advice_impl.h"

#define WORKER_LEAST 0.02 /* of the time in which it waited for data */

/* What ran: in the thread itself (0) and in child processes (1). */
struct ran_sums {
	struct place_sums places[ADVICE_WHERES];
	double ns[2], weight_ns[2];
};

struct advising {
	struct advice *ret;
	const struct blame_world *w;
	const struct advice_loop *loop;
	uint32_t thread;
	struct advice_sum *sum; /* of the part that is walked, */
	bool for_batches;	/* which is that of batches */
	struct ran_sums ran;
	struct map64 worker_ns; /* thread of a child process -> ns */
	struct map64 peer_ns;	/* first thread of a rank -> ns */
};

/* ---- the walk ---- */

static bool is_childs(const struct advising *a, uint32_t thread)
{
	return thread != UINT32_MAX && a->w->t->threads.data[thread].pid != a->loop->main->pid;
}

static void add_to(struct map64 *sums, uint32_t thread, double ns)
{
	uint64_t sum = 0;
	map64_get(sums, thread, &sum);
	map64_set(sums, thread, sum + (uint64_t)ns);
}

/* Could run, and others had the CPU: no work of its own. */
static bool had_no_cpu(const struct blame_owner *o)
{
	return o->kind == BLAME_RIVAL || o->kind == BLAME_SIBLING || o->kind == BLAME_NO_CPU ||
	       o->kind == BLAME_HELD;
}

static void add(struct advising *a, const struct blame_owner *o, double ns)
{
	a->sum->wall_ns += ns;
	if (o->peer) {
		a->sum->peers_ns += ns;
		if (!had_no_cpu(o))
			add_to(&a->peer_ns, o->peer - 1, ns);
		return;
	}
	a->sum->ns[o->kind] += ns;
	if (o->via != VIA_DATA)
		return;
	a->sum->data_ns[o->kind] += ns;
	a->sum->data_wall_ns += ns;
	if (is_childs(a, o->thread))
		add_to(&a->worker_ns, o->thread, ns);
}

static void on_owner(void *ctx, const struct blame_owner *o, uint64_t ns)
{
	add(ctx, o, (double)ns);
}

/* A frame of PyTorch's between the line and what ran: the line only called that. */
static bool of_torch(const struct advising *a, const struct blame_sample *s)
{
	const struct rec_tables *t = a->w->t;
	const struct m_frame *f = s->frame == BLAME_NO_FRAME ? NULL : &t->frames.data[s->frame];
	return f && f->kind == FRAME_PYTHON &&
	       strstr(strtab_get(&t->strings, f->file, NULL), "/torch/");
}

/* ADVICE_WHERES: it is not the job's own code that runs. */
static enum advice_where where(const struct advising *a, const struct blame_sample *s, bool child)
{
	if (s->kind == BLAME_SAVES || s->runs == ACCOUNT_IMPORT || s->runs == ACCOUNT_COMPILE)
		return ADVICE_WHERES;
	if (child || s->loads)
		return child ? ADVICE_CHILD : ADVICE_FETCH;
	return (s->runs == ACCOUNT_PYTHON || s->runs == ACCOUNT_NATIVE) && !of_torch(a, s)
		       ? ADVICE_LOOP
		       : ADVICE_WHERES;
}

static void add_sample(struct advising *a, const struct blame_sample *s, bool child)
{
	enum advice_where at = where(a, s, child);
	if (at != ADVICE_LOOP && !a->for_batches)
		at = ADVICE_WHERES;
	if (!child || a->for_batches)
		a->ran.weight_ns[child] += (double)s->weight_ns;
	a->ret->fetches |= s->loads && !child;
	a->sum->fills_ns[child] += s->fills ? (double)s->weight_ns : 0;
	if (at < ADVICE_WHERES)
		place_add(&a->ran.places[at], s->own, (double)s->weight_ns);
}

static void on_run(void *ctx, uint32_t thread, struct blame_way way, uint64_t from_ns,
		   uint64_t to_ns)
{
	struct advising *a = ctx;
	size_t n;
	const struct blame_sample *s = blame_samples_of(a->w, thread, &n);
	bool child = is_childs(a, thread);
	double ns = (double)(to_ns - from_ns);
	add(a,
	    &(struct blame_owner){
		    .kind = BLAME_RUNS, .via = way.via, .peer = way.peer, .thread = thread},
	    ns);
	if (way.peer) /* what it ran just then is not what made it late */
		return;
	if (!child || a->for_batches)
		a->ran.ns[child] += ns;
	for (size_t i = s ? blame_sample_from(s, n, from_ns) : n; i < n && s[i].time_ns < to_ns;
	     i++)
		add_sample(a, &s[i], child);
}

static void walk(struct advising *a, uint64_t from_ns, uint64_t to_ns)
{
	const struct blame_found found = {.ctx = a, .owns = on_owner, .runs = on_run};
	if (to_ns > from_ns)
		blame_walk(a->w, a->thread, from_ns, to_ns, &found);
}

static void walk_part(struct advising *a, enum advice_part part)
{
	const struct advice_loop *l = a->loop;
	bool works = part == ADVICE_WORKING;
	a->sum = &a->ret->parts[part];
	a->for_batches = part == a->ret->batches;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct steps_step *step = &l->steps[i];
		uint64_t loaded_ns =
			step->start_ns + (l->until_a_batch ? step->phase_ns[STEPS_LOAD] : 0);
		walk(a, works ? loaded_ns : step->start_ns, works ? step->end_ns : loaded_ns);
	}
	if (!l->count && works)
		walk(a, l->main->since_ns, l->main->since_ns + l->main->wall_ns);
}

/* Samples are fewer than the time that ran: they stand for all of it. */
static void find_code(struct advising *a)
{
	for (int i = 0; i < ADVICE_WHERES; i++) {
		bool child = i == ADVICE_CHILD;
		struct advice_place *at = &a->ret->code[i];
		*at = place_most(&a->ran.places[i], a->w->t);
		if (a->ran.weight_ns[child] > 0)
			at->ns *= a->ran.ns[child] / a->ran.weight_ns[child];
		place_free(&a->ran.places[i]);
	}
}

/* ---- workers ---- */

static uint64_t until(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Until its parent had something for it to do. */
static bool is_for_work(const struct advising *a, const struct blame_wait *m)
{
	bool carries = m->reason == WAIT_POLL || m->reason == WAIT_PIPE ||
		       m->reason == WAIT_NETWORK || m->reason == WAIT_FUTEX;
	return carries && (m->waker == UINT32_MAX ||
			   a->w->t->threads.data[m->waker].pid == a->loop->main->pid);
}

static void add_worker(struct advising *a, uint32_t thread)
{
	struct advice_workers *r = &a->ret->workers;
	uint64_t from_ns = a->loop->loop->since_ns, to_ns = from_ns + a->loop->loop->wall_ns;
	uint64_t first_ns, last_ns;
	size_t n;
	const struct blame_wait *m = blame_waits_of(a->w, thread, &n);
	blame_thread_times(a->w, thread, &first_ns, &last_ns);
	from_ns = from_ns > first_ns ? from_ns : first_ns;
	to_ns = until(to_ns, last_ns);
	if (to_ns <= from_ns)
		return;
	if (r->count < ADVICE_PIDS)
		r->pids[r->count] = a->w->t->threads.data[thread].pid;
	r->count++;
	r->run_ns += (double)(to_ns - from_ns);
	for (size_t i = 0; m && i < n; i++) {
		uint64_t start = m[i].start_ns > from_ns ? m[i].start_ns : from_ns;
		uint64_t end = until(m[i].end_ns, to_ns);
		if (end <= start)
			continue;
		uint64_t woken = m[i].reason == WAIT_PREEMPTED ? start : until(m[i].woken_ns, end);
		woken = woken > start ? woken : start;
		r->run_ns -= (double)(end - start);
		r->ready_ns += (double)(end - woken);
		r->wait_ns += is_for_work(a, &m[i]) ? 0 : (double)(woken - start);
	}
}

static void find_workers(struct advising *a)
{
	double all = a->ret->parts[ADVICE_LOADING].data_wall_ns;
	for (uint32_t i = 0; all > 0 && i < a->w->t->threads.len; i++) {
		const struct m_thread *thread = &a->w->t->threads.data[i];
		uint64_t ns;
		if (thread->tid == thread->pid && map64_get(&a->worker_ns, i, &ns) &&
		    (double)ns >= WORKER_LEAST * all)
			add_worker(a, i);
	}
}

/* ---- ranks ---- */

struct waiting {
	uint32_t peer; /* for whom */
	double ns;
};

static void on_wait_owner(void *ctx, const struct blame_owner *o, uint64_t ns)
{
	struct waiting *w = ctx;
	w->ns += o->peer == w->peer && !had_no_cpu(o) ? (double)ns : 0;
}

static void on_wait_run(void *ctx, uint32_t thread, struct blame_way way, uint64_t from_ns,
			uint64_t to_ns)
{
	struct waiting *w = ctx;
	(void)thread;
	w->ns += way.peer == w->peer ? (double)(to_ns - from_ns) : 0;
}

/* For how long another rank waited for this one in the loop. Ranks that are alike, on a host that
 * keeps now one and now the other from its CPU, wait for each other as long. */
static double waited_for_by(const struct advising *a, uint32_t peer)
{
	const struct account_thread *l = a->loop->loop;
	struct waiting sum = {.peer = a->thread + 1};
	blame_walk(a->w, peer, l->since_ns, l->since_ns + l->wall_ns,
		   &(struct blame_found){.ctx = &sum, .owns = on_wait_owner, .runs = on_wait_run});
	return sum.ns;
}

static void find_peer(struct advising *a)
{
	const struct m_thread *threads = a->w->t->threads.data;
	uint64_t thread, ns, peer = UINT64_MAX, most = 0;
	for (size_t at = 0; map64_next(&a->peer_ns, &at, &thread, &ns);)
		if (ns > most) {
			most = ns;
			peer = thread;
		}
	if (peer == UINT64_MAX)
		return;
	double more = (double)most - waited_for_by(a, (uint32_t)peer);
	a->ret->peer = (struct advice_peer){.pid = threads[peer].pid,
					    .rank = blame_rank_of(a->w->t, threads[peer].pid),
					    .ns = more > 0 ? more : 0};
}

/* ---- checkpoints, waits for the GPU ---- */

/* By the time between steps, too: a save may lie there. */
static void find_saves(struct advising *a, const bool *saves)
{
	const struct advice_loop *l = a->loop;
	double with_ns = 0, without_ns = 0;
	uint32_t with = 0, without = 0;
	for (uint32_t i = 0; i + 1 < l->count; i++) {
		/* those after a save find their data no longer in caches, and are not looked at */
		double ns = (double)(l->steps[i + 1].start_ns - l->steps[i].start_ns);
		with += saves[i];
		without += !saves[i];
		*(saves[i] ? &with_ns : &without_ns) += ns;
	}
	if (!with || !without)
		return;
	double more_ns = with_ns - with * (without_ns / without);
	a->ret->saves.count = with;
	a->ret->saves.ns = more_ns > 0 ? more_ns : 0;
}

/* The step that a time lies in, or comes after. */
static uint32_t step_at(const struct advice_loop *l, uint64_t ns)
{
	uint32_t low = 0, high = l->count;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (l->steps[middle].start_ns <= ns)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Samples tell the lines; calls, where they are traced, each save. */
static void find_calls(struct advising *a)
{
	const struct advice_loop *l = a->loop;
	bool *saves = xcalloc(l->count + 1, sizeof(*saves));
	struct place_sums at_save = {0}, at_sync = {0};
	size_t n;
	const struct blame_sample *s = blame_samples_of(a->w, a->thread, &n);
	uint64_t end_ns = l->loop->since_ns + l->loop->wall_ns;
	for (size_t i = s ? blame_sample_from(s, n, l->loop->since_ns) : n;
	     i < n && s[i].time_ns < end_ns; i++) {
		uint64_t ns = s[i].time_ns;
		bool save = s[i].kind == BLAME_SAVES ||
			    stretches_within(&a->w->saves, a->thread, ns, ns + 1);
		if (save && l->count)
			saves[step_at(l, ns)] = true;
		if (save)
			place_add(&at_save, s[i].own, (double)s[i].weight_ns);
		if (stretches_within(&a->w->syncs, a->thread, ns, ns + 1))
			place_add(&at_sync, s[i].own, (double)s[i].weight_ns);
	}
	for (size_t i = 0; l->count && i < a->w->saves.all.len; i++) {
		const struct keyed_stretch *c = &a->w->saves.all.data[i];
		if (c->key == a->thread && c->start_ns >= l->loop->since_ns && c->start_ns < end_ns)
			saves[step_at(l, c->start_ns)] = true;
	}
	a->ret->saves.at = place_most(&at_save, a->w->t);
	a->ret->syncs = place_most(&at_sync, a->w->t);
	place_free(&at_save);
	place_free(&at_sync);
	find_saves(a, saves);
	free(saves);
}

void advice_make(struct advice *ret, const struct row_source *s, const struct timeline *t,
		 const struct advice_loop *loop)
{
	struct blame_world *w = blame_world_new(s, t);
	struct advising a = {.ret = ret, .w = w, .loop = loop, .thread = loop->main->thread};
	*ret = (struct advice){.steps = loop->count,
			       .batches = loop->until_a_batch ? ADVICE_LOADING : ADVICE_WORKING};
	if (loop->count)
		ret->step_ns = (double)loop->loop->wall_ns / loop->count;
	walk_part(&a, ADVICE_LOADING);
	walk_part(&a, ADVICE_WORKING);
	find_code(&a);
	find_workers(&a);
	find_peer(&a);
	find_calls(&a);
	ret->compiled_ns = advice_find_compiled(w, loop);
	advice_find_import(&ret->import, s, loop->main);
	advice_find_churn(&ret->churn, w, s, t, loop);
	advice_find_copies(&ret->copies, w, t, loop);
	advice_find_float32(&ret->float32, t, loop);
	map64_free(&a.worker_ns);
	map64_free(&a.peer_ns);
	blame_world_free(w);
}

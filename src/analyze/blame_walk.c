/* blame_walk.c - goes through a thread's time along what it waited for. */
#include "analyze/blame_impl.h"

#define WALK_DEEPEST 4 /* threads that wait for each other */
#define RANKS_MOST   4 /* processes that do */

struct walker {
	const struct blame_world *w;
	const struct blame_found *found;
};

/* How the walk came to a thread. */
struct way {
	struct blame_way is;
	uint8_t depth; /* threads that wait for each other, in one process */
	uint8_t ranks; /* processes before this one: */
	uint32_t pids[RANKS_MOST];
};

static void walk(const struct walker *k, uint32_t thread, uint64_t from_ns, uint64_t to_ns,
		 const struct way *way);

/* Whatever a compiler does but wait for a CPU, the job waits for it to compile. */
static struct blame_owner owner_of(const struct walker *k, uint8_t kind, const struct way *way,
				   uint32_t thread)
{
	struct blame_owner ret = {.kind = kind,
				  .via = way->is.via,
				  .peer = way->is.peer,
				  .thread = thread,
				  .frame = BLAME_NO_FRAME};
	if (way->is.via == VIA_DATA && kind != BLAME_NO_CPU && thread != UINT32_MAX)
		blame_is_compiler(k->w, thread, &ret);
	return ret;
}

static void owns(const struct walker *k, uint8_t kind, const struct way *way, uint32_t thread,
		 uint64_t ns)
{
	const struct blame_owner o = owner_of(k, kind, way, thread);
	if (ns)
		k->found->owns(k->found->ctx, &o, ns);
}

static enum blame_kind kind_of_reason(uint8_t reason)
{
	static const uint8_t kinds[WAIT_REASONS] = {
		[WAIT_OTHER] = BLAME_OTHER,	[WAIT_PREEMPTED] = BLAME_NO_CPU,
		[WAIT_FUTEX] = BLAME_LOCK,	[WAIT_GIL] = BLAME_GIL,
		[WAIT_DISK] = BLAME_DISK,	[WAIT_PAGE_FAULT] = BLAME_MEMORY,
		[WAIT_NETWORK] = BLAME_NETWORK, [WAIT_POLL] = BLAME_POLL,
		[WAIT_PIPE] = BLAME_PIPE,	[WAIT_SLEEP] = BLAME_SLEEP,
		[WAIT_CHILD] = BLAME_CHILD,	[WAIT_GPU] = BLAME_GPU,
		[WAIT_HELD] = BLAME_HELD,	[WAIT_STOPPED] = BLAME_STOPPED,
		[WAIT_SIGNAL] = BLAME_SIGNAL,
	};
	return reason < WAIT_REASONS ? (enum blame_kind)kinds[reason] : BLAME_OTHER;
}

/* ---- other ranks ---- */

/* Whether what that process did meanwhile is not known yet: it may wait for who waits for it. */
static bool is_new(const struct way *way, uint32_t pid)
{
	for (unsigned i = 0; i <= way->ranks; i++)
		if (way->pids[i] == pid)
			return false;
	return way->ranks + 1 < RANKS_MOST;
}

/* What another rank did in a time: its main thread, since those that send and receive work for it.
 */
static void walk_peer(const struct walker *k, uint32_t thread, uint64_t from_ns, uint64_t to_ns,
		      const struct way *way)
{
	struct way next = *way;
	next.ranks++;
	next.pids[next.ranks] = k->w->t->threads.data[thread].pid;
	next.depth = 0;
	next.is = (struct blame_way){.via = VIA_ITSELF, .peer = thread + 1};
	walk(k, thread, from_ns, to_ns, &next);
}

/* ---- could run ---- */

/* What another thread of its process ran of the job's Python in a time. Who had the CPU is known by
 * its process alone. */
static uint32_t python_beside(const struct blame_world *w, uint32_t thread, uint64_t from_ns,
			      uint64_t to_ns)
{
	uint32_t pid = w->t->threads.data[thread].pid;
	for (size_t i = 0; i < w->python.len; i++) {
		size_t n;
		uint32_t other = w->python.data[i];
		if (other == thread || w->t->threads.data[other].pid != pid)
			continue;
		const struct blame_sample *s = blame_samples_of(w, other, &n);
		for (size_t at = blame_sample_from(s, n, from_ns); at < n && s[at].time_ns < to_ns;
		     at++)
			if (s[at].own != BLAME_NO_FRAME)
				return s[at].own;
	}
	return BLAME_NO_FRAME;
}

static void no_cpu(const struct walker *k, const struct blame_wait *m, const struct way *way,
		   uint64_t from_ns, uint64_t to_ns)
{
	uint64_t unused;
	struct blame_owner o = owner_of(k, BLAME_NO_CPU, way, m->thread);
	if (from_ns >= to_ns)
		return;
	if (m->rival_pid && m->reason != WAIT_STOPPED) {
		bool own = map64_get(&k->w->job, m->rival_pid, &unused);
		o = owner_of(k, own ? BLAME_SIBLING : BLAME_RIVAL, way, UINT32_MAX);
		o.pid = m->rival_pid;
		o.name = m->rival;
		o.cgroup = m->rival_cgroup;
		if (m->rival_leader_pid != 1) { /* who leads all leads none of them */
			o.leader_pid = m->rival_leader_pid;
			o.leader = m->rival_leader;
		}
		if (m->rival_pid == k->w->t->threads.data[m->thread].pid)
			o.frame = python_beside(k->w, m->thread, from_ns, to_ns);
	}
	k->found->owns(k->found->ctx, &o, to_ns - from_ns);
}

typedef void (*stretch_fn)(const struct walker *k, const void *arg, uint64_t from_ns,
			   uint64_t to_ns);

/* Splits a time by stretches of a thread or process. */
static void split(const struct walker *k, const struct stretches *by, uint32_t key,
		  uint64_t from_ns, uint64_t to_ns, stretch_fn inside, stretch_fn outside,
		  const void *arg)
{
	struct stretches in = {0};
	uint64_t at = from_ns;
	if (!stretches_within(by, key, from_ns, to_ns)) {
		outside(k, arg, from_ns, to_ns);
		return;
	}
	stretches_cut(&in, key, by, key, from_ns, to_ns);
	for (size_t i = 0; i < in.all.len; i++) {
		const struct keyed_stretch *s = &in.all.data[i];
		if (s->start_ns > at)
			outside(k, arg, at, s->start_ns);
		inside(k, arg, s->start_ns, s->end_ns);
		at = s->end_ns;
	}
	if (to_ns > at)
		outside(k, arg, at, to_ns);
	stretches_free(&in);
}

/* ---- the GPU ---- */

struct ran {
	uint32_t thread;
	const struct way *way;
};

static void gpu_works(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	owns(k, BLAME_GPU_WORKS, x->way, x->thread, to_ns - from_ns);
}

/* It does nothing but wait in collectives, for a rank that has not come or for the bytes. */
static void gpu_ranks(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	uint32_t pid = k->w->t->threads.data[x->thread].pid;
	const struct blame_late *l = blame_late_from(k->w, pid, from_ns);
	const struct blame_late *end = k->w->lates.data + k->w->lates.len;
	uint64_t at = from_ns;
	for (; l && l < end && l->pid == pid && l->from_ns < to_ns; l++) {
		uint64_t start = l->from_ns > at ? l->from_ns : at;
		uint64_t until = l->to_ns < to_ns ? l->to_ns : to_ns;
		if (!is_new(x->way, k->w->t->threads.data[l->peer].pid))
			continue;
		owns(k, BLAME_RANKS, x->way, x->thread, start - at);
		walk_peer(k, l->peer, start, until, x->way);
		at = until;
	}
	owns(k, BLAME_RANKS, x->way, x->thread, to_ns - at);
}

static void gpu_idle(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	owns(k, BLAME_GPU_IDLE, x->way, x->thread, to_ns - from_ns);
}

static void gpu_no_work(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	uint32_t pid = k->w->t->threads.data[x->thread].pid;
	split(k, &k->w->ranks, pid, from_ns, to_ns, gpu_ranks, gpu_idle, arg);
}

/* In a call that waits for the GPU, on the CPU or off. */
static void gpu(const struct walker *k, uint32_t thread, uint64_t from_ns, uint64_t to_ns,
		const struct way *way)
{
	const struct blame_world *w = k->w;
	uint32_t pid = w->t->threads.data[thread].pid;
	if (!blame_knows_gpu(w, pid)) {
		owns(k, BLAME_GPU, way, thread, to_ns - from_ns);
		return;
	}
	if (k->found->in_order || blame_late_from(w, pid, from_ns)) {
		split(k, &w->works, pid, from_ns, to_ns, gpu_works, gpu_no_work,
		      &(struct ran){thread, way});
		return;
	}
	uint64_t works = stretches_within(&w->works, pid, from_ns, to_ns);
	uint64_t ranks = stretches_within(&w->ranks, pid, from_ns, to_ns);
	uint64_t all = to_ns - from_ns;
	owns(k, BLAME_GPU_WORKS, way, thread, works);
	owns(k, BLAME_RANKS, way, thread, ranks);
	owns(k, BLAME_GPU_IDLE, way, thread, all - works - ranks);
}

/* ---- waits ---- */

struct waited {
	const struct blame_wait *m;
	const struct way *way;
};

static bool carries_data(uint8_t reason)
{
	return reason == WAIT_POLL || reason == WAIT_PIPE || reason == WAIT_NETWORK ||
	       reason == WAIT_FUTEX || reason == WAIT_CHILD;
}

/* Whether a process is a child of another, or a child's child. */
static bool is_child(const struct blame_world *w, uint32_t pid, uint64_t of)
{
	uint64_t parent;
	for (int i = 0; i < WALK_DEEPEST && map64_get(&w->parent_of, pid, &parent); i++) {
		if (parent == of)
			return true;
		pid = (uint32_t)parent;
	}
	return false;
}

/* Who ended it is of the job, and says more than its reason. */
static enum blame_via via_of(const struct blame_world *w, const struct blame_wait *m)
{
	if (m->waker == UINT32_MAX || m->waker == m->thread || !carries_data(m->reason))
		return VIA_ITSELF;
	const struct m_thread *waits = &w->t->threads.data[m->thread];
	const struct m_thread *wakes = &w->t->threads.data[m->waker];
	if (waits->pid != wakes->pid)
		return is_child(w, wakes->pid, waits->pid) ? VIA_DATA : VIA_ITSELF;
	return m->for_gil ? VIA_GIL : VIA_LOCK;
}

static void wait_gpu(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct waited *x = arg;
	gpu(k, x->m->thread, from_ns, to_ns, x->way);
}

static void wait_saves(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct waited *x = arg;
	owns(k, BLAME_SAVES, x->way, x->m->thread, to_ns - from_ns);
}

static bool waits_for_message(uint8_t reason)
{
	return reason == WAIT_POLL || reason == WAIT_PIPE || reason == WAIT_NETWORK;
}

/* Ended by another rank, which sent what was waited for: a process of the job that is neither its
 * child nor its parent. Children that bring data have locks among themselves; they are no ranks. */
static bool is_by_peer(const struct blame_world *w, const struct waited *x)
{
	const struct blame_wait *m = x->m;
	uint64_t unused;
	if (m->waker == UINT32_MAX || !waits_for_message(m->reason) || x->way->is.via == VIA_DATA)
		return false;
	uint32_t pid = w->t->threads.data[m->thread].pid;
	uint32_t by = w->t->threads.data[m->waker].pid;
	return by != pid && map64_get(&w->job, by, &unused) && !is_child(w, by, pid) &&
	       !is_child(w, pid, by);
}

static void wait_itself(const struct walker *k, const struct waited *x, uint8_t kind, uint64_t ns)
{
	struct blame_owner o = owner_of(k, kind, x->way, x->m->thread);
	o.frame = o.kind == kind ? x->m->frame : BLAME_NO_FRAME;
	if (o.kind == BLAME_STOPPED) {
		o.pid = x->m->rival_pid;
		o.name = x->m->rival;
	}
	k->found->owns(k->found->ctx, &o, ns);
}

static void wait_else(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct waited *x = arg;
	const struct blame_wait *m = x->m;
	enum blame_via by = via_of(k->w, m);
	if (m->reason == WAIT_GPU) {
		gpu(k, m->thread, from_ns, to_ns, x->way);
	} else if (by != VIA_ITSELF && x->way->depth + 1 < WALK_DEEPEST) {
		struct way next = *x->way;
		next.depth++;
		next.is.via = x->way->is.via == VIA_ITSELF || by == VIA_DATA ? (uint8_t)by
									     : x->way->is.via;
		walk(k, m->waker, from_ns, to_ns, &next);
	} else if (by == VIA_ITSELF && is_by_peer(k->w, x)) {
		uint32_t peer = blame_main_thread(k->w, m->waker);
		if (is_new(x->way, k->w->t->threads.data[peer].pid))
			walk_peer(k, peer, from_ns, to_ns, x->way);
		else
			wait_itself(k, x, BLAME_NETWORK, to_ns - from_ns);
	} else {
		wait_itself(k, x, m->writes ? BLAME_WRITE : (uint8_t)kind_of_reason(m->reason),
			    to_ns - from_ns);
	}
}

static void wait_reclaims(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct waited *x = arg;
	owns(k, BLAME_RECLAIMS, x->way, x->m->thread, to_ns - from_ns);
}

static void wait_no_reclaim(const struct walker *k, const void *arg, uint64_t from_ns,
			    uint64_t to_ns)
{
	const struct waited *x = arg;
	split(k, &k->w->saves, x->m->thread, from_ns, to_ns, wait_saves, wait_else, arg);
}

static void wait_no_gpu(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct waited *x = arg;
	split(k, &k->w->reclaims, x->m->thread, from_ns, to_ns, wait_reclaims, wait_no_reclaim,
	      arg);
}

static void wait(const struct walker *k, const struct blame_wait *m, uint64_t from_ns,
		 uint64_t to_ns, const struct way *way)
{
	uint64_t woken_ns = m->reason == WAIT_PREEMPTED ? m->start_ns : m->woken_ns;
	uint64_t until_ns = woken_ns < to_ns ? woken_ns : to_ns;
	if (until_ns > from_ns)
		split(k, &k->w->syncs, m->thread, from_ns, until_ns, wait_gpu, wait_no_gpu,
		      &(struct waited){m, way});
	if (to_ns > woken_ns)
		no_cpu(k, m, way, woken_ns > from_ns ? woken_ns : from_ns, to_ns);
}

/* ---- running ---- */

static void ran_gpu(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	gpu(k, x->thread, from_ns, to_ns, x->way);
}

static void ran_collects(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	owns(k, BLAME_COLLECTS, x->way, x->thread, to_ns - from_ns);
}

static void ran_saves(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	owns(k, BLAME_SAVES, x->way, x->thread, to_ns - from_ns);
}

static void ran_else(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	const struct blame_owner o = owner_of(k, BLAME_RUNS, x->way, x->thread);
	if (o.kind == BLAME_COMPILES)
		k->found->owns(k->found->ctx, &o, to_ns - from_ns);
	else
		k->found->runs(k->found->ctx, x->thread, x->way->is, from_ns, to_ns);
}

static void ran_interrupted(const struct walker *k, const void *arg, uint64_t from_ns,
			    uint64_t to_ns)
{
	const struct ran *x = arg;
	owns(k, BLAME_INTERRUPTED, x->way, x->thread, to_ns - from_ns);
}

static void ran_reclaims(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	owns(k, BLAME_RECLAIMS, x->way, x->thread, to_ns - from_ns);
}

static void ran_no_save(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	split(k, &k->w->collects, x->thread, from_ns, to_ns, ran_collects, ran_else, arg);
}

static void ran_no_reclaim(const struct walker *k, const void *arg, uint64_t from_ns,
			   uint64_t to_ns)
{
	const struct ran *x = arg;
	split(k, &k->w->saves, x->thread, from_ns, to_ns, ran_saves, ran_no_save, arg);
}

static void ran_no_interrupt(const struct walker *k, const void *arg, uint64_t from_ns,
			     uint64_t to_ns)
{
	const struct ran *x = arg;
	split(k, &k->w->reclaims, x->thread, from_ns, to_ns, ran_reclaims, ran_no_reclaim, arg);
}

static void ran_no_gpu(const struct walker *k, const void *arg, uint64_t from_ns, uint64_t to_ns)
{
	const struct ran *x = arg;
	split(k, &k->w->interrupts, x->thread, from_ns, to_ns, ran_interrupted, ran_no_interrupt,
	      arg);
}

static void runs(const struct walker *k, uint32_t thread, uint64_t from_ns, uint64_t to_ns,
		 const struct way *way)
{
	if (to_ns > from_ns)
		split(k, &k->w->syncs, thread, from_ns, to_ns, ran_gpu, ran_no_gpu,
		      &(struct ran){thread, way});
}

/* ---- all of it ---- */

static size_t first_after(const struct blame_wait *m, size_t n, uint64_t ns)
{
	size_t low = 0;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		if (m[middle].end_ns > ns)
			n = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void walk(const struct walker *k, uint32_t thread, uint64_t from_ns, uint64_t to_ns,
		 const struct way *way)
{
	size_t n;
	const struct blame_wait *m = blame_waits_of(k->w, thread, &n);
	uint64_t at = from_ns;
	for (size_t i = m ? first_after(m, n, from_ns) : n; i < n && m[i].start_ns < to_ns; i++) {
		uint64_t start = m[i].start_ns > at ? m[i].start_ns : at;
		uint64_t end = m[i].end_ns < to_ns ? m[i].end_ns : to_ns;
		if (end <= start)
			continue;
		runs(k, thread, at, start, way);
		wait(k, &m[i], start, end, way);
		at = end;
	}
	runs(k, thread, at, to_ns, way);
}

void blame_walk(const struct blame_world *w, uint32_t thread, uint64_t from_ns, uint64_t to_ns,
		const struct blame_found *found)
{
	const struct way way = {.pids = {w->t->threads.data[thread].pid}};
	walk(&(struct walker){w, found}, thread, from_ns, to_ns, &way);
}

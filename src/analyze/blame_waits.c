/* blame_waits.c - what waits were for that the kernel does not tell: the interpreter's lock, by who
 * took it meanwhile; the network, by nobody who ended them; and which of them are one, in slices or
 * cut by a stop. */
#include <stdlib.h>

#include "analyze/blame_impl.h"
#include "base/entity.h"

/* Who waits for the interpreter's lock asks for it anew after each switch interval (5 ms unless the
 * program says otherwise: sys.setswitchinterval), and runs for moments between. Who gave it up
 * waits until another thread has taken it, which takes as long. */
#define SLICE_APART_NS 300000
#define GIL_WAIT_NS    12000000

static bool for_lock(const struct blame_wait *w)
{
	return w->reason == WAIT_FUTEX || w->reason == WAIT_GIL;
}

/* ---- stops ---- */

/* A signal that stops a process ends each wait of its threads, by whoever sent it or by the thread
 * that heard of it first. Once it goes on a thread waits again for the same, unless that has come.
 */
struct cut {
	const struct blame_wait *stop; /* NULL: none cut the wait */
	struct blame_wait *on;	       /* in which it goes on, or NULL */
};

/* Waits in the GPU's driver are told by their stacks, which not each has. */
static bool goes_on_in(const struct blame_wait *a, const struct blame_wait *b)
{
	return b->restarted || a->reason == b->reason ||
	       (b->reason == WAIT_GPU && (a->reason == WAIT_FUTEX || a->reason == WAIT_POLL));
}

static struct cut cut_of(const struct blame_world *w, size_t at)
{
	const struct blame_wait *a = &w->waits.data[at];
	uint64_t end_ns = a->end_ns;
	struct cut ret = {0};
	if (a->reason == WAIT_STOPPED || a->reason == WAIT_PREEMPTED)
		return ret;
	for (size_t i = at + 1; i < w->waits.len; i++) {
		struct blame_wait *m = &w->waits.data[i];
		if (m->thread != a->thread || m->start_ns > end_ns + SLICE_APART_NS)
			break;
		if (m->reason == WAIT_STOPPED) {
			ret.stop = ret.stop ? ret.stop : m;
		} else if (m->reason != WAIT_PREEMPTED) {
			ret.on = ret.stop && goes_on_in(a, m) ? m : NULL;
			break;
		}
		end_ns = m->end_ns;
	}
	return ret;
}

void blame_waits_cut(struct blame_world *w)
{
	const struct m_thread *threads = w->t->threads.data;
	for (size_t i = 0; i < w->waits.len; i++) {
		struct blame_wait *m = &w->waits.data[i];
		bool by_child =
			m->waker != UINT32_MAX && threads[m->waker].pid != threads[m->thread].pid;
		if (by_child || !cut_of(w, i).stop)
			continue;
		m->waker = UINT32_MAX;
		m->by_unknown = false;
	}
}

static bool is_for_somebody(uint8_t reason)
{
	return reason == WAIT_FUTEX || reason == WAIT_GIL || reason == WAIT_POLL ||
	       reason == WAIT_PIPE || reason == WAIT_NETWORK || reason == WAIT_CHILD;
}

/* A wait that is restarted is for what it was for before, however often stops cut it. */
static void follow_restarted(struct blame_world *w)
{
	for (size_t i = 0; i < w->waits.len; i++) {
		const struct blame_wait *a = &w->waits.data[i];
		const struct cut cut = cut_of(w, i);
		if (a->waker == UINT32_MAX && cut.on && cut.on->restarted)
			cut.on->reason = a->reason;
	}
}

static uint64_t lasted(const struct blame_wait *a)
{
	return a->end_ns - a->start_ns;
}

/* Whoever ends the wait in which it goes on ended it. Where it does not go on nobody knows who
 * would have: it is the stop's, unless it had lasted longer than that before. The job waits so much
 * less for what it usually waits for then, and that is taken off again (`absorbed` of blame.h). */
static void join_stops(struct blame_world *w)
{
	follow_restarted(w);
	for (size_t i = w->waits.len; i-- > 0;) {
		struct blame_wait *a = &w->waits.data[i];
		const struct cut cut = cut_of(w, i);
		if (!cut.stop || a->waker != UINT32_MAX)
			continue;
		if (cut.on) {
			a->reason = cut.on->reason;
			a->waker = cut.on->waker;
			a->for_gil = cut.on->for_gil;
		} else if (is_for_somebody(a->reason) && lasted(a) <= lasted(cut.stop)) {
			a->reason = WAIT_STOPPED;
			a->rival_pid = cut.stop->rival_pid;
			a->rival = cut.stop->rival;
			a->woken_ns = a->end_ns;
		}
	}
}

/* ---- slices ---- */

/* A wait for a lock that a timer ended, and that goes on in the next one, was ended by whoever
 * ended that. */
static void join_slices(struct blame_world *w, const bool *python)
{
	for (size_t i = w->waits.len; i-- > 1;) {
		struct blame_wait *a = &w->waits.data[i - 1], *b = &w->waits.data[i];
		if (a->thread != b->thread || a->waker != UINT32_MAX || b->waker == UINT32_MAX ||
		    !for_lock(a) || !for_lock(b) || !python[a->thread] || !python[b->waker] ||
		    b->start_ns - a->end_ns > SLICE_APART_NS)
			continue;
		a->waker = b->waker;
		a->for_gil = b->for_gil = true;
	}
}

/* A thread ended another's wait. */
struct wake {
	uint64_t time_ns;
	uint32_t thread;
};

static int by_waker(const void *a, const void *b)
{
	const struct wake *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

typedef VEC(struct wake) wakes_t;

static void find_wakes(const struct blame_world *w, wakes_t *ret)
{
	for (size_t i = 0; i < w->waits.len; i++)
		if (w->waits.data[i].waker != UINT32_MAX && !w->waits.data[i].for_gil)
			*vec_push(ret) =
				(struct wake){w->waits.data[i].woken_ns, w->waits.data[i].waker};
	if (ret->len)
		qsort(ret->data, ret->len, sizeof(*ret->data), by_waker);
}

static bool has_woken(const wakes_t *wakes, uint32_t thread, uint64_t from_ns, uint64_t to_ns)
{
	const struct wake key = {from_ns, thread};
	size_t low = 0, high = wakes->len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (by_waker(&wakes->data[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < wakes->len && wakes->data[low].thread == thread &&
	       wakes->data[low].time_ns <= to_ns;
}

/* Who waits for events for some time, and then again, as gloo's threads do every 10 ms: who ends
 * the last of these waits ends all, though the thread may have had no CPU for a while between them.
 * Where it woke another thread meanwhile, but for the interpreter's lock, an event had come. */
static void join_polls(struct blame_world *w)
{
	wakes_t wakes = {0};
	const struct blame_wait *next = NULL; /* of the thread, for events */
	uint64_t preempted_ns = 0;
	find_wakes(w, &wakes);
	for (size_t i = w->waits.len; i-- > 0;) {
		struct blame_wait *m = &w->waits.data[i];
		if (next && next->thread != m->thread)
			next = NULL;
		if (m->reason == WAIT_PREEMPTED) {
			preempted_ns += m->end_ns - m->start_ns;
			continue;
		}
		if (m->reason == WAIT_POLL && m->waker == UINT32_MAX && next &&
		    next->start_ns <= m->end_ns + SLICE_APART_NS + preempted_ns &&
		    !has_woken(&wakes, m->thread, m->woken_ns, next->start_ns))
			m->waker = next->waker;
		next = m->reason == WAIT_POLL ? m : NULL;
		preempted_ns = 0;
	}
	vec_free(&wakes);
}

/* Who waits for events that nobody here ended, in a process with connections (which has that
 * counter), waits for what comes from elsewhere. */
static void find_network(struct blame_world *w)
{
	struct map64 connected = {0};
	uint64_t unused;
	for (size_t i = 0; i < w->t->metrics.len; i++) {
		const struct m_metric *m = &w->t->metrics.data[i];
		if (m->kind == ENTITY_PROCESS &&
		    !strcmp(strtab_get(&w->t->strings, m->name, NULL), "net_sent_bytes"))
			map64_set(&connected, m->pid, 1);
	}
	for (size_t i = 0; i < w->waits.len; i++) {
		struct blame_wait *m = &w->waits.data[i];
		if (m->reason == WAIT_POLL && m->waker == UINT32_MAX &&
		    map64_get(&connected, w->t->threads.data[m->thread].pid, &unused))
			m->reason = WAIT_NETWORK;
	}
	map64_free(&connected);
}

/* Short waits between two threads of a process that both run Python are for its lock. */
static void find_gil(struct blame_world *w, const bool *python)
{
	for (size_t i = 0; i < w->waits.len; i++) {
		struct blame_wait *m = &w->waits.data[i];
		if (m->reason == WAIT_GIL ||
		    (m->reason == WAIT_FUTEX && m->waker != UINT32_MAX && python[m->thread] &&
		     python[m->waker] && m->woken_ns - m->start_ns <= GIL_WAIT_NS))
			m->for_gil = true;
	}
}

uint64_t blame_ran_ns(const struct blame_world *w, uint32_t thread, uint64_t from_ns,
		      uint64_t to_ns)
{
	size_t n;
	const struct blame_sample *s = blame_samples_of(w, thread, &n);
	uint64_t ret = 0;
	for (size_t i = blame_sample_from(s, n, from_ns); i < n && s[i].time_ns < to_ns; i++)
		ret += s[i].weight_ns;
	return ret;
}

static void list_python(struct blame_world *w, const bool *python)
{
	for (uint32_t k = 0; k < w->t->threads.len; k++)
		if (python[k])
			*vec_push(&w->python) = k;
}

/* Who asks for the interpreter's lock waits for a timer first, where its holder does not give it up
 * by itself: nobody ends that wait. It was for another thread that runs Python, if that ran then.
 */
static void find_holders(struct blame_world *w, const bool *python)
{
	for (size_t i = 0; i < w->waits.len; i++) {
		struct blame_wait *m = &w->waits.data[i];
		uint64_t length = m->woken_ns - m->start_ns, most = length / 2;
		if (m->waker != UINT32_MAX || !for_lock(m) || !python[m->thread])
			continue;
		for (size_t k = 0; k < w->python.len; k++) {
			uint32_t other = w->python.data[k];
			if (other == m->thread ||
			    w->t->threads.data[other].pid != w->t->threads.data[m->thread].pid)
				continue;
			uint64_t ns = blame_ran_ns(w, other, m->start_ns, m->woken_ns);
			if (ns <= most)
				continue;
			most = ns;
			m->waker = other;
			m->for_gil = true;
		}
	}
}

/* Which threads run Python at all, by their samples. */
static bool *python_threads(const struct blame_world *w)
{
	bool *ret = xcalloc(w->t->threads.len + 1, sizeof(*ret));
	for (size_t i = 0; i < w->samples.len; i++) {
		const struct blame_sample *s = &w->samples.data[i];
		if (s->frame != BLAME_NO_FRAME && w->t->frames.data[s->frame].kind == FRAME_PYTHON)
			ret[s->thread] = true;
	}
	return ret;
}

void blame_waits_know(struct blame_world *w)
{
	bool *python = python_threads(w);
	find_gil(w, python);
	for (int behind = 1; behind >= 0;
	     behind--) { /* what goes on behind stops, and before them */
		join_slices(w, python);
		join_polls(w);
		if (behind)
			join_stops(w);
	}
	find_network(w);
	list_python(w, python);
	find_holders(w, python);
	free(python);
}

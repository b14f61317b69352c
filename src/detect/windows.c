/* windows.c - sums over windows as events come. Rows of them are made by window_rows.c.
 *
 * Each process has its open windows in order of time, as pointers; only those in which something
 * happened are there, so that a time that is far off costs one window and no more. An event is in
 * the last windows nearly always: the search begins at the end. */
#include "detect/windows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map64.h"
#include "detect/windows_impl.h"
#include "detect/world.h"
#include "wire/event.h"

#define RESIZED_NS 600000000000ULL /* that sizes are new */
#define OPEN_MOST  (1u << 17)	   /* windows of a process: 36 hours of seconds */
#define ASIDE	   16		   /* a thread with so many times fewer calls than the busiest */

static uint64_t function_at(enum detect_layer layer, uint32_t function)
{
	return (uint64_t)layer << 32 | function;
}

/* A size that no model has, of a function that it has; until it was learned what is usual for it.
 * Functions of Python have lines in their keys, and no sizes. */
static bool is_resized(struct windows *w, const struct window_event *e)
{
	uint64_t any, first = e->end_ns;
	if (e->known || e->layer == DETECT_PYTHON ||
	    !map64_get(&w->functions, function_at(e->layer, e->keyed.function), &any))
		return false;
	if (!map64_get(&w->resized_since, e->keyed.number, &first))
		map64_set(&w->resized_since, e->keyed.number, first);
	return e->end_ns < first + RESIZED_NS;
}

struct windows *windows_new(const struct windows_options *o)
{
	struct windows *w = xcalloc(1, sizeof(*w));
	w->o = *o;
	for (uint32_t i = 1; i <= o->keys_known; i++) {
		struct detect_key key;
		detect_keys_get(o->keys, i, &key);
		map64_set(&w->functions, function_at(key.layer, key.function), 1);
	}
	return w;
}

void windows_forget_threads(struct windows *w)
{
	vec_free(&w->threads);
	vec_free(&w->free_threads);
	map64_free(&w->thread_at);
	w->last_index = 0;
}

void windows_free(struct windows *w)
{
	for (size_t i = 0; i < w->processes.len; i++) {
		for (size_t k = w->processes.data[i].first; k < w->processes.data[i].open.len; k++)
			window_free(w->processes.data[i].open.data[k]);
		vec_free(&w->processes.data[i].open);
	}
	vec_free(&w->processes);
	cpu_speed_free(&w->cpus);
	windows_forget_threads(w);
	map64_free(&w->process_of);
	map64_free(&w->parents);
	map64_free(&w->functions);
	map64_free(&w->resized_since);
	free(w);
}

uint64_t windows_late(const struct windows *w)
{
	return w->late;
}

void windows_forget_rows(struct windows *w)
{
	for (size_t i = 0; i < w->processes.len; i++)
		vec_free(&w->processes.data[i].open);
	vec_free(&w->processes);
	cpu_speed_free(&w->cpus);
	windows_forget_threads(w);
	map64_free(&w->process_of);
	map64_free(&w->parents);
	w->closed = 0; /* it may be another host's clock */
	w->last_process = 0;
	w->asked = false;
}

/* ---- finding ---- */

static void drop_process(struct windows *w, size_t i)
{
	map64_del(&w->process_of, w->processes.data[i].pid);
	vec_free(&w->processes.data[i].open);
	w->processes.data[i] = w->processes.data[--w->processes.len];
	if (i < w->processes.len)
		map64_set(&w->process_of, w->processes.data[i].pid, i);
}

void windows_drop_processes(struct windows *w, bool all)
{
	size_t before = w->processes.len;
	w->any_gone = false;
	w->last_process = 0;
	for (size_t i = before; i-- > 0;) {
		const struct process *p = &w->processes.data[i];
		if (!first_window(p) && (all || p->gone))
			drop_process(w, i);
		else
			w->any_gone |= p->gone;
	}
	for (size_t i = 0; i < w->threads.len && w->processes.len != before; i++)
		w->threads.data[i].process = 0;
}

void windows_parent(struct windows *w, uint32_t pid, uint32_t parent)
{
	if (parent && parent != pid)
		map64_set(&w->parents, pid, parent);
	else
		map64_del(&w->parents, pid);
}

uint32_t windows_parent_of(const struct windows *w, uint32_t pid)
{
	uint64_t parent = 0;
	map64_get(&w->parents, pid, &parent);
	return (uint32_t)parent;
}

void windows_counter(struct windows *w, const struct detect_names *names, const struct m_counter *c)
{
	bool is_live = w->o.late_ns != WINDOWS_NEVER;
	cpu_speed_counter(&w->cpus, names, c, is_live ? w->o.late_ns + CPUS_KEPT_NS : 0);
}

void windows_process_gone(struct windows *w, uint32_t pid)
{
	uint64_t i;
	map64_del(&w->parents, pid);
	cpu_speed_forget(&w->cpus, pid);
	if (map64_get(&w->process_of, pid, &i))
		w->processes.data[i].gone = w->any_gone = true;
}

void windows_take_parents(struct windows *w, struct windows *from)
{
	map64_free(&w->parents);
	w->parents = from->parents;
	from->parents = (struct map64){0};
}

size_t windows_processes(const struct windows *w)
{
	return w->processes.len;
}

/* NULL: there are too many. */
static struct process *process_of(struct windows *w, uint32_t pid)
{
	uint64_t i;
	if (map64_get(&w->process_of, pid, &i))
		return &w->processes.data[i];
	if (w->processes.len >= WINDOWS_PROCESSES)
		windows_drop_processes(w, true);
	if (w->processes.len >= WINDOWS_PROCESSES)
		return NULL;
	map64_set(&w->process_of, pid, w->processes.len);
	struct process *p = vec_push(&w->processes);
	p->pid = pid;
	return p;
}

static struct process *process_of_thread(struct windows *w, struct thread *t)
{
	if (t->process)
		return &w->processes.data[t->process - 1];
	struct process *p = process_of(w, t->pid);
	if (p)
		t->process = (uint32_t)(p - w->processes.data) + 1;
	return p;
}

static uint32_t new_place(struct windows *w)
{
	if (w->free_threads.len)
		return w->free_threads.data[--w->free_threads.len];
	vec_push(&w->threads);
	return (uint32_t)w->threads.len - 1;
}

static struct thread *thread_of(struct windows *w, const struct detect_names *names, uint32_t index)
{
	uint64_t place = w->last_place;
	if (w->last_index != (uint64_t)index + 1 && !map64_get(&w->thread_at, index, &place)) {
		const struct m_thread *row = names->thread(names->ctx, index);
		if (!row)
			return NULL;
		place = new_place(w);
		w->threads.data[place] = (struct thread){.pid = row->pid, .tid = row->tid};
		map64_set(&w->thread_at, index, place);
	}
	w->last_index = (uint64_t)index + 1;
	w->last_place = (uint32_t)place;
	return &w->threads.data[place];
}

void windows_thread_gone(struct windows *w, uint32_t index)
{
	uint64_t place;
	if (!map64_get(&w->thread_at, index, &place))
		return;
	detect_keys_thread_gone(w->o.keys, w->threads.data[place].pid, w->threads.data[place].tid);
	map64_del(&w->thread_at, index);
	*vec_push(&w->free_threads) = (uint32_t)place;
	w->last_index = 0;
}

size_t windows_threads(const struct windows *w)
{
	return w->threads.len;
}

/* Whether a place is that of the first that is not before the number. */
static bool is_place_of(const struct process *p, size_t at, uint64_t number)
{
	return at >= p->first && at <= p->open.len &&
	       (at == p->first || p->open.data[at - 1]->number < number) &&
	       (at == p->open.len || p->open.data[at]->number >= number);
}

/* The first that is not before the number; mostly that of the last question, or the one after. */
static size_t place_of(struct process *p, uint64_t number)
{
	size_t low = p->first, high = p->open.len, next = p->recent + 1;
	if (is_place_of(p, p->recent, number))
		return p->recent;
	if (next > low && next < high && p->open.data[next]->number == number)
		return p->recent = next;
	while (low < high) {
		size_t mid = high - low < 8 ? high - 1 : low + (high - low) / 2;
		if (p->open.data[mid]->number < number)
			low = mid + 1;
		else
			high = mid;
	}
	return p->recent = low;
}

static struct window *insert(struct process *p, size_t at, uint64_t number)
{
	struct window *new = xcalloc(1, sizeof(*new));
	new->number = number;
	vec_reserve(&p->open, 1);
	memmove(&p->open.data[at + 1], &p->open.data[at],
		(p->open.len - at) * sizeof(*p->open.data));
	p->open.data[at] = new;
	p->open.len++;
	return new;
}

/* NULL: it was handed out, or there are too many. */
static struct window *window_of(struct windows *w, struct process *p, uint64_t number)
{
	if (number < w->closed)
		return NULL;
	size_t at = place_of(p, number);
	if (at < p->open.len && p->open.data[at]->number == number)
		return p->open.data[at];
	return p->open.len - p->first < OPEN_MOST ? insert(p, at, number) : NULL;
}

/* ---- adding ---- */

/* CUPTI tells of work when a buffer is full or all work in it is done, which may be seconds later:
 * what comes after its window counts for the first that is open. */
static uint64_t number_of(const struct windows *w, const struct window_event *e, uint64_t end_ns)
{
	uint64_t number = window_number(end_ns, w->o.window_ns);
	return e->device && number < w->closed ? w->closed : number;
}

struct span_of_time {
	uint64_t start_ns, end_ns;
};

typedef void add_to_window(struct window *to, const struct window_event *e, double share);

/* The window that a moment of an event counts for. */
static struct window *window_at(struct windows *w, struct process *p, const struct window_event *e,
				uint64_t time_ns)
{
	if (p->now && time_ns - p->now_ns < w->o.window_ns)
		return p->now;
	struct window *found = window_of(w, p, number_of(w, e, time_ns));
	if (found) {
		p->now = found;
		p->now_ns = found->number * w->o.window_ns;
	}
	return found;
}

/* Hands each window that a longer one covers to add, with the share of the time that is in it. What
 * comes late is as a whole that of number_of. */
static bool cover_several(struct windows *w, struct process *p, struct span_of_time s,
			  const struct window_event *e, add_to_window *add)
{
	uint64_t last = number_of(w, e, s.end_ns), first = last;
	uint64_t ns = s.end_ns - s.start_ns;
	bool any = false;
	if (last == window_number(s.end_ns, w->o.window_ns))
		first = window_number(s.start_ns, w->o.window_ns);
	if (last - first > WINDOWS_COVERED)
		first = last - WINDOWS_COVERED;
	for (uint64_t n = first; n <= last; n++) {
		struct window *to = window_of(w, p, n);
		if (!to)
			continue;
		double share = 1;
		if (first != last) {
			uint64_t from = n * w->o.window_ns, until = from + w->o.window_ns;
			from = from > s.start_ns ? from : s.start_ns;
			until = until < s.end_ns ? until : s.end_ns;
			share = until > from ? (double)(until - from) / (double)ns : 0;
		}
		add(to, e, share);
		any = true;
	}
	return any;
}

/* What is shorter than a window is its end's. false: none of them is open. */
static bool cover(struct windows *w, struct process *p, struct span_of_time s,
		  const struct window_event *e, add_to_window *add)
{
	if (s.end_ns - s.start_ns >= w->o.window_ns)
		return cover_several(w, p, s, e, add);
	struct window *to = window_at(w, p, e, s.end_ns);
	if (to)
		add(to, e, 1);
	return to != NULL;
}

/* That there is a window, and what is done in it, is told also where nothing is judged. */
static void add_nothing(struct window *to, const struct window_event *e, double share)
{
	(void)to;
	(void)e;
	(void)share;
}

/* Duration and gap are over different times, and are added apart. */
static bool count(struct windows *w, struct process *p, const struct window_event *e)
{
	struct span_of_time whole = {e->start_ns, e->end_ns};
	struct window *last = window_at(w, p, e, e->end_ns);
	bool adds = !w->o.learn_only;
	if (last)
		window_add_event(last, e);
	bool any = cover(w, p, whole, e,
			 !adds	     ? add_nothing
			 : e->device ? window_add_device
				     : window_add_duration);
	/* A thread that comes back with something new was not awaited all the while. */
	bool awaited = e->known || e->gap_ns < w->o.window_ns;
	if (e->gap_ns != USUAL_NONE && awaited)
		cover(w, p, (struct span_of_time){e->start_ns - e->gap_ns, e->start_ns}, e,
		      adds ? window_add_gap : add_nothing);
	if (!any)
		w->late++;
	return any;
}

static void judge(struct windows *w, struct window_event *e, uint32_t previous, uint32_t pid)
{
	struct usual_event u = {.key = e->keyed.number,
				.previous = previous,
				.duration_ns = e->duration_ns,
				.gap_ns = e->gap_ns,
				.pid = pid};
	if (!w->o.learn_only)
		usual_z(w->o.usual, &u, &e->usual);
	if (w->o.learn)
		usual_learn(w->o.usual, &u);
}

static void tell(struct windows_event *ret, const struct window_event *e, uint32_t pid,
		 uint32_t tid)
{
	if (ret)
		*ret = (struct windows_event){.start_ns = e->start_ns,
					      .dur_ns = e->end_ns - e->start_ns,
					      .key = e->keyed.number,
					      .pid = pid,
					      .tid = tid,
					      .layer = e->layer,
					      .saves = e->saves,
					      .usual = e->usual};
}

/* The time since the thread's last call of the layer ended; a call that was made in that one, or
 * that others of its own were made in, has none. Nor has one of a thread beside the work that had
 * nothing to do for windows (the one that pins an evaluation's data, between evaluations): nobody
 * awaited it. p: NULL where there are too many. */
static uint64_t gap_of(const struct windows *w, const struct process *p, const struct thread *t,
		       enum detect_layer layer, uint64_t start_ns)
{
	uint64_t last = t->end_ns[layer];
	if (w->o.without_gaps || !last || start_ns < last)
		return USUAL_NONE;
	uint64_t gap = start_ns - last;
	if (gap >= w->o.window_ns && p && t->calls[layer] * ASIDE < p->busiest[layer])
		return USUAL_NONE;
	uint64_t world = world_waited_ns(&t->world, t->world_ns[layer], start_ns);
	return world < gap ? gap - world : 0;
}

static void count_of_thread(struct process *p, struct thread *t, enum detect_layer layer)
{
	t->calls[layer]++;
	if (p && p->busiest[layer] < t->calls[layer])
		p->busiest[layer] = t->calls[layer];
}

/* Parent, child, or of one parent: what they make each other wait for is the job's own time. */
static bool is_of_job(const struct windows *w, uint32_t pid, uint32_t other)
{
	uint32_t parent = windows_parent_of(w, pid), others = windows_parent_of(w, other);
	return other && (other == pid || other == parent || others == pid ||
			 (parent > 1 && parent == others));
}

void windows_wait(struct windows *w, const struct detect_names *names, const struct m_wait *wait)
{
	struct thread *t =
		w->o.waits && world_may_be(wait) ? thread_of(w, names, wait->thread) : NULL;
	if (t && !is_of_job(w, t->pid, wait->waker_pid))
		world_add(&t->world, wait);
}

/* What is not the call's true duration is none: an instant's, and those that are only known to be
 * at most, or at least, so long. */
static uint64_t duration_of(const struct m_call *c)
{
	return c->flags & (CALL_INSTANT | CALL_UNWOUND | CALL_OPEN) ? USUAL_NONE : c->dur_ns;
}

bool windows_is_left_out(struct windows *w, uint64_t time_ns)
{
	if (!w->o.left_out)
		return false;
	if (!w->asked || time_ns < w->asked_ns || time_ns - w->asked_ns >= w->o.window_ns) {
		w->asked = true;
		w->asked_ns = window_number(time_ns, w->o.window_ns) * w->o.window_ns;
		w->is_out = w->o.left_out(w->o.ctx, w->asked_ns);
	}
	return w->is_out;
}

static void tell_input(const struct windows *w, const struct window_event *e, uint32_t previous,
		       uint32_t pid)
{
	if (w->o.input)
		w->o.input(w->o.ctx, &(struct windows_input){.end_ns = e->end_ns,
							     .lasted_ns = e->end_ns - e->start_ns,
							     .duration_ns = e->duration_ns,
							     .gap_ns = e->gap_ns,
							     .key = e->keyed.number,
							     .previous = previous,
							     .pid = pid,
							     .size = e->keyed.size,
							     .device = e->device,
							     .outermost = e->outermost,
							     .failed = e->failed});
}

/* Python's outermost call is the program. */
static bool is_outermost(const struct m_call *c, enum detect_layer layer)
{
	return layer == DETECT_PYTHON || !(c->flags & CALL_NESTED);
}

bool windows_call(struct windows *w, const struct detect_names *names, const struct m_call *c,
		  struct windows_event *ret)
{
	struct detect_keyed keyed = detect_keys_call(w->o.keys, names, c);
	struct thread *t = keyed.number ? thread_of(w, names, c->thread) : NULL;
	struct detect_key key;
	if (!t || c->start_ns + c->dur_ns < c->start_ns)
		return false;
	detect_keys_get(w->o.keys, keyed.number, &key);
	struct process *p = process_of_thread(w, t);
	struct window_event e = {.keyed = keyed,
				 .layer = key.layer,
				 .start_ns = c->start_ns,
				 .end_ns = c->start_ns + c->dur_ns,
				 .duration_ns = duration_of(c),
				 .gap_ns = gap_of(w, p, t, key.layer, c->start_ns),
				 .outermost = is_outermost(c, key.layer),
				 .failed = c->flags & CALL_ERROR,
				 .saves = key.saves,
				 .explains = !w->o.without_keys,
				 .known = !w->o.keys_known || keyed.number <= w->o.keys_known};
	e.resized = is_resized(w, &e);
	count_of_thread(p, t, key.layer);
	bool left_out = windows_is_left_out(w, e.end_ns);
	tell_input(w, &e, t->key[key.layer], t->pid);
	if (!left_out)
		judge(w, &e, t->key[key.layer], t->pid);
	if (e.end_ns >= t->end_ns[key.layer]) {
		t->end_ns[key.layer] = e.end_ns;
		t->key[key.layer] = keyed.number;
		t->world_ns[key.layer] = t->world.total_ns;
	}
	if (left_out)
		return false;
	tell(ret, &e, t->pid, t->tid);
	return p && (w->o.row || w->o.mix) ? count(w, p, &e) : !w->o.row;
}

bool windows_gpu_span(struct windows *w, const struct detect_names *names,
		      const struct m_gpu_span *s, struct windows_event *ret)
{
	struct detect_keyed keyed = detect_keys_gpu_span(w->o.keys, names, s);
	struct detect_key key;
	if (!keyed.number || s->end_ns < s->start_ns)
		return false;
	detect_keys_get(w->o.keys, keyed.number, &key);
	struct window_event e = {.keyed = keyed,
				 .layer = key.layer,
				 .device = true,
				 .start_ns = s->start_ns,
				 .end_ns = s->end_ns,
				 .duration_ns = s->end_ns - s->start_ns,
				 .gap_ns = USUAL_NONE,
				 .explains = !w->o.without_keys};
	tell_input(w, &e, 0, s->pid);
	if (windows_is_left_out(w, s->end_ns))
		return false;
	judge(w, &e, 0, s->pid);
	tell(ret, &e, s->pid, s->called_tid);
	struct process *p = w->o.row || w->o.mix ? process_of(w, s->pid) : NULL;
	return p ? count(w, p, &e) : !w->o.row;
}

static struct process *process_again(struct windows *w, uint32_t pid)
{
	if (w->last_process && w->processes.data[w->last_process - 1].pid == pid)
		return &w->processes.data[w->last_process - 1];
	struct process *p = process_of(w, pid);
	w->last_process = p ? (uint32_t)(p - w->processes.data) + 1 : 0;
	return p;
}

void windows_again(struct windows *w, const struct windows_input *in, const struct usual_z *usual)
{
	struct detect_key key;
	if (windows_is_left_out(w, in->end_ns))
		return;
	detect_keys_get(w->o.keys, in->key, &key);
	struct window_event e = {.keyed = {in->key, key.function, in->size},
				 .layer = key.layer,
				 .device = in->device,
				 .outermost = in->outermost,
				 .failed = in->failed,
				 .known = !in->device,
				 .explains = !w->o.without_keys,
				 .start_ns = in->end_ns - in->lasted_ns,
				 .end_ns = in->end_ns,
				 .duration_ns = in->duration_ns,
				 .gap_ns = in->gap_ns};
	if (usual)
		e.usual = *usual;
	else
		judge(w, &e, in->previous, in->pid);
	struct process *p = process_again(w, in->pid);
	if (p)
		count(w, p, &e);
}

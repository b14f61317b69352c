/* collective_waits.c - when each rank but one has been in a call of a function for
 * COLLECTIVE_WAIT_NS, and the one that is left enters it, the others waited for that one. */
#include "incident/collective_waits.h"

#include <stdlib.h>
#include <string.h>

#define NO_FUNCTION 1

/* ---- functions ---- */

/* Those that return when every rank has come (MPI 4.0, chapter 6). */
static bool blocks_for_all(const char *name)
{
	static const char *const names[] = {
		"Allgather", "Allgatherv",     "Allreduce",
		"Alltoall",  "Alltoallv",      "Alltoallw",
		"Barrier",   "Reduce_scatter", "Reduce_scatter_block",
	};
	name += *name == 'P';
	if (strncmp(name, "MPI_", 4) != 0)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name + 4, names[i]))
			return true;
	return false;
}

static uint32_t function_of_name(struct collective_waits *w, const char *name, const char *layer)
{
	for (uint32_t i = 0; i < w->functions.len; i++)
		if (!strcmp(w->functions.data[i].name, name))
			return i;
	struct collective_function *f = vec_push(&w->functions);
	f->name = xstrdup(name);
	f->layer = xstrdup(layer);
	return (uint32_t)w->functions.len - 1;
}

static struct collective_function *function_of(struct collective_waits *w,
					       const struct detect_names *n, uint32_t probe)
{
	while (w->function_of.len <= probe)
		vec_push(&w->function_of);
	uint32_t *at = &w->function_of.data[probe];
	const struct m_probe *p = *at ? NULL : n->probe(n->ctx, probe);
	if (!*at && !p)
		return NULL;
	if (p) {
		const char *name = n->string(n->ctx, p->name);
		bool is_one =
			blocks_for_all(name) || !strcmp(n->string(n->ctx, p->role), "collective");
		*at = is_one ? 2 + function_of_name(w, name, n->string(n->ctx, p->layer))
			     : NO_FUNCTION;
	}
	return *at == NO_FUNCTION ? NULL : &w->functions.data[*at - 2];
}

/* ---- ranks ---- */

static struct m_process *process_of(const struct collective_waits *w, uint32_t pid)
{
	for (size_t i = w->processes.len; i-- > 0;)
		if (w->processes.data[i].pid == pid)
			return &w->processes.data[i];
	return NULL;
}

void collective_waits_process(struct collective_waits *w, const struct m_process *row)
{
	struct m_process *known = process_of(w, row->pid);
	if (known && known->start_ns == row->start_ns)
		*known = *row;
	else if (w->processes.len < COLLECTIVE_RANKS)
		*vec_push(&w->processes) = *row;
}

void collective_waits_gone(struct collective_waits *w, uint32_t pid)
{
	struct m_process *known = process_of(w, pid);
	if (known)
		*known = w->processes.data[--w->processes.len];
	for (size_t i = 0; i < w->functions.len; i++) {
		struct collective_function *f = &w->functions.data[i];
		for (size_t k = f->members.len; k-- > 0;)
			if (f->members.data[k].pid == pid)
				f->members.data[k] = f->members.data[--f->members.len];
	}
}

static bool was_there(const struct collective_waits *w, uint32_t pid, uint64_t time_ns)
{
	const struct m_process *p = process_of(w, pid);
	return !p || !p->end_ns || p->end_ns > time_ns;
}

static struct collective_member *member_of(struct collective_function *f, uint32_t pid)
{
	for (size_t i = 0; i < f->members.len; i++)
		if (f->members.data[i].pid == pid)
			return &f->members.data[i];
	if (f->members.len >= COLLECTIVE_RANKS)
		return NULL;
	struct collective_member *m = vec_push(&f->members);
	m->pid = pid;
	return m;
}

static uint32_t kept(const struct collective_member *m)
{
	return m->n < COLLECTIVE_RECENT ? m->n : COLLECTIVE_RECENT;
}

/* ---- who waited for whom ---- */

/* The call that the member had been in for long at that time; NULL: in none. */
static const struct collective_span *waits_at(const struct collective_member *m, uint64_t time_ns)
{
	for (uint32_t i = 0; i < kept(m); i++)
		if (m->recent[i].start_ns + COLLECTIVE_WAIT_NS <= time_ns &&
		    m->recent[i].end_ns >= time_ns)
			return &m->recent[i];
	return NULL;
}

/* Whether all others waited until the member entered its call. */
static bool all_waited(const struct collective_waits *w, const struct collective_function *f,
		       const struct collective_member *late, const struct collective_span *call,
		       struct collective_wait *ret)
{
	const struct m_process *p = process_of(w, late->pid);
	*ret = (struct collective_wait){.name = f->name,
					.layer = f->layer,
					.pid = late->pid,
					.rank = p ? p->rank : -1,
					.start_ns = call->start_ns,
					.came_ns = call->start_ns,
					.end_ns = call->end_ns,
					.least_ns = UINT64_MAX};
	for (size_t i = 0; i < f->members.len; i++) {
		const struct collective_member *m = &f->members.data[i];
		if (m == late || !was_there(w, m->pid, call->start_ns))
			continue;
		const struct collective_span *wait = waits_at(m, call->start_ns);
		if (!wait)
			return false;
		uint64_t waited_ns = call->start_ns - wait->start_ns;
		ret->waiters++;
		ret->start_ns = wait->start_ns < ret->start_ns ? wait->start_ns : ret->start_ns;
		ret->end_ns = wait->end_ns > ret->end_ns ? wait->end_ns : ret->end_ns;
		ret->least_ns = waited_ns < ret->least_ns ? waited_ns : ret->least_ns;
		ret->most_ns = waited_ns > ret->most_ns ? waited_ns : ret->most_ns;
	}
	return ret->waiters > 0;
}

static void found(struct collective_waits *w, struct collective_function *f,
		  const struct collective_wait *wait)
{
	if (wait->came_ns <= f->seen_ns)
		return;
	f->seen_ns = wait->came_ns;
	bool again = f->told_pid == wait->pid && wait->came_ns < f->told_ns + COLLECTIVE_AGAIN_NS;
	if (again && wait->least_ns < COLLECTIVE_AGAIN_MORE * f->told_wait_ns)
		return;
	f->told_pid = wait->pid;
	f->told_ns = wait->came_ns;
	f->told_wait_ns = wait->least_ns;
	w->tell(w->ctx, wait);
}

static void look(struct collective_waits *w, struct collective_function *f)
{
	struct collective_wait wait;
	for (size_t i = 0; i < f->members.len; i++) {
		const struct collective_member *m = &f->members.data[i];
		for (uint32_t k = 0; k < kept(m); k++)
			if (all_waited(w, f, m, &m->recent[k], &wait))
				found(w, f, &wait);
	}
}

void collective_waits_call(struct collective_waits *w, const struct detect_names *n,
			   const struct m_call *c)
{
	struct collective_function *f = function_of(w, n, c->probe);
	const struct m_thread *who = f ? n->thread(n->ctx, c->thread) : NULL;
	struct collective_member *m = who ? member_of(f, who->pid) : NULL;
	if (!m)
		return;
	uint64_t end_ns = c->start_ns + c->dur_ns;
	m->recent[m->n++ % COLLECTIVE_RECENT] = (struct collective_span){c->start_ns, end_ns};
	if (c->dur_ns >= COLLECTIVE_WAIT_NS && end_ns > f->waited_until_ns)
		f->waited_until_ns = end_ns;
	/* calls of others that were there at that time come a moment later */
	if (f->waited_until_ns && c->start_ns <= f->waited_until_ns)
		look(w, f);
}

void collective_waits_free(struct collective_waits *w)
{
	for (size_t i = 0; i < w->functions.len; i++) {
		free(w->functions.data[i].name);
		free(w->functions.data[i].layer);
		vec_free(&w->functions.data[i].members);
	}
	vec_free(&w->functions);
	vec_free(&w->function_of);
	vec_free(&w->processes);
}

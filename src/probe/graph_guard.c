/* graph_guard.c - the user's side of bpf/graph_guard.h. */
#include "probe/graph_guard.h"

#include <errno.h>

#include "probe/tracer_impl.h"
#include "wire/graph_guard.h"

#define MOST_PLACES 8 /* of attach_hooks */

struct graph_guard {
	struct tracer *tracer;
	uint32_t *tgid, *state; /* of the slot, shared with the programs; NULL: none is taken */
	uint32_t slot;
	struct attach_links links;
};

static uint32_t state_of(const struct graph_guard *g)
{
	return __atomic_load_n(g->state, __ATOMIC_SEQ_CST);
}

static void set_state(struct graph_guard *g, uint32_t state)
{
	__atomic_store_n(g->state, state, __ATOMIC_SEQ_CST);
}

static bool change(struct graph_guard *g, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(g->state, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static int take_slot(struct graph_guard *g, pid_t pid, struct err *e)
{
	struct eacgm_bpf__bss *b = g->tracer->bpf->bss;
	for (uint32_t i = 0; i < GRAPH_GUARDS; i++) {
		if (b->graph_tgids[i])
			continue;
		g->tgid = &b->graph_tgids[i];
		g->state = &b->graph_states[i];
		g->slot = i;
		set_state(g, GRAPH_GUARD_WATCHES);
		__atomic_store_n(g->tgid, (uint32_t)pid, __ATOMIC_SEQ_CST);
		return 0;
	}
	return err_set(e, ENOSPC, "the CUDA graphs of %d processes are watched already",
		       GRAPH_GUARDS);
}

static int hook(struct graph_guard *g, const char *path, const uint64_t *offsets, size_t n,
		bool makes, struct err *e)
{
	struct hook_site sites[MOST_PLACES] = {0};
	n = n < MOST_PLACES ? n : MOST_PLACES;
	for (size_t i = 0; i < n; i++)
		sites[i] = (struct hook_site){.offset = offsets[i],
					      .cookie = GRAPH_GUARD_COOKIE(g->slot, makes)};
	return n ? attach_hooks(&g->links, g->tracer->method,
				bpf_program__fd(g->tracer->bpf->progs.graph_called), path, sites, n,
				e)
		 : 0;
}

int graph_guard_open(struct graph_guard **ret, struct tracer *t, pid_t pid,
		     const struct graph_places *places, struct err *e)
{
	struct graph_guard *g = xcalloc(1, sizeof(*g));
	g->tracer = t;
	int rc = t->can_hold ? take_slot(g, pid, e)
			     : err_set(e, ENOTSUP,
				       "this kernel (before 6.0?) has no sleepable uprobes");
	if (!rc)
		rc = hook(g, places->path, places->makers, places->nmakers, true, e);
	if (!rc)
		rc = hook(g, places->path, places->users, places->nusers, false, e);
	if (rc) {
		graph_guard_close(g);
		return rc;
	}
	for (size_t i = 0; i < g->links.fds.len; i++)
		tracer_guard_keep(t, g->slot, g->links.fds.data[i]);
	*ret = g;
	return 0;
}

bool graph_guard_saw(const struct graph_guard *g)
{
	return state_of(g) == GRAPH_GUARD_SEEN;
}

bool graph_guard_arm(struct graph_guard *g)
{
	return change(g, GRAPH_GUARD_WATCHES, GRAPH_GUARD_ARMED);
}

void graph_guard_disarm(struct graph_guard *g)
{
	if (!change(g, GRAPH_GUARD_ARMED, GRAPH_GUARD_WATCHES))
		set_state(g, GRAPH_GUARD_SEEN);
}

bool graph_guard_holds(const struct graph_guard *g)
{
	return state_of(g) == GRAPH_GUARD_HOLDS;
}

void graph_guard_let_go(struct graph_guard *g)
{
	set_state(g, GRAPH_GUARD_OFF);
}

/* The links go only when nobody runs their program any more. */
void graph_guard_close(struct graph_guard *g)
{
	if (g->tgid)
		graph_guard_let_go(g);
	if (g->links.fds.len)
		tracer_guard_drop(g->tracer, g->slot);
	attach_detach(&g->links);
	if (g->tgid)
		__atomic_store_n(g->tgid, 0, __ATOMIC_SEQ_CST);
	free(g);
}

/* causes_owners.c - see causes_owners.h. */
#include "incident/causes_owners.h"

#include <math.h>

bool causes_is_looked_at(const struct evidence *e, const struct blame_part *p)
{
	return p->owner.peer == e->peer;
}

double causes_part_sum(const struct evidence *e, owner_is is)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (causes_is_looked_at(e, p) && is(&p->owner))
			ns += p->ns;
	}
	return ns;
}

const struct blame_part *causes_top_part(const struct evidence *e, owner_is is)
{
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (causes_is_looked_at(e, p) && is(&p->owner))
			return p;
	}
	return NULL;
}

double causes_own_ready(const struct evidence *e)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (causes_is_looked_at(e, p) && p->owner.kind == BLAME_SIBLING &&
		    p->owner.pid == e->pid)
			ns += p->ns;
	}
	return ns;
}

double causes_counter_more(const struct evidence *e, unsigned kind, const char *name)
{
	const struct counter_change *c = evidence_counter(e, kind, name);
	return c ? c->mean - (isnan(c->usual) ? 0 : c->usual) : 0;
}

bool owner_is_taker(const struct blame_owner *o)
{
	return o->kind == BLAME_RIVAL || o->kind == BLAME_SIBLING;
}

bool owner_is_no_cpu(const struct blame_owner *o)
{
	return o->kind == BLAME_NO_CPU;
}

bool owner_is_ready(const struct blame_owner *o)
{
	return o->kind == BLAME_RIVAL || o->kind == BLAME_SIBLING || o->kind == BLAME_NO_CPU;
}

bool owner_is_data(const struct blame_owner *o)
{
	return o->via == VIA_DATA && !owner_is_ready(o) && !owner_is_compiler(o);
}

bool owner_is_disk(const struct blame_owner *o)
{
	return o->kind == BLAME_DISK && o->via != VIA_DATA;
}

bool owner_is_write(const struct blame_owner *o)
{
	return o->kind == BLAME_WRITE && o->via != VIA_DATA;
}

bool owner_is_save(const struct blame_owner *o)
{
	return o->kind == BLAME_SAVES;
}

bool owner_is_compiler(const struct blame_owner *o)
{
	return o->kind == BLAME_COMPILES && o->via != VIA_GIL;
}

bool owner_is_collector(const struct blame_owner *o)
{
	return o->kind == BLAME_COLLECTS;
}

bool owner_is_gil(const struct blame_owner *o)
{
	return o->kind == BLAME_GIL || (o->via == VIA_GIL && !owner_is_ready(o));
}

bool owner_is_own_python(const struct blame_owner *o)
{
	return o->kind == BLAME_SIBLING && o->frame != BLAME_NO_FRAME;
}

bool owner_runs_with_gil(const struct blame_owner *o)
{
	return o->via == VIA_GIL &&
	       (o->kind == BLAME_RUNS || o->kind == BLAME_SPREAD || o->kind == BLAME_COMPILES);
}

bool owner_is_lock(const struct blame_owner *o)
{
	return o->kind == BLAME_LOCK;
}

bool owner_is_line(const struct blame_owner *o)
{
	return (o->kind == BLAME_RUNS || o->kind == BLAME_SLEEP) && o->via != VIA_DATA &&
	       o->via != VIA_GIL;
}

bool owner_is_spread(const struct blame_owner *o)
{
	return o->kind == BLAME_SPREAD && o->via != VIA_DATA && o->via != VIA_GIL;
}

bool owner_is_memory(const struct blame_owner *o)
{
	return o->kind == BLAME_FAULTS;
}

bool owner_is_paging(const struct blame_owner *o)
{
	return o->kind == BLAME_MEMORY;
}

bool owner_is_gpu_work(const struct blame_owner *o)
{
	return o->kind == BLAME_GPU_WORKS || o->kind == BLAME_GPU;
}

bool owner_is_gpu(const struct blame_owner *o)
{
	return owner_is_gpu_work(o) || o->kind == BLAME_GPU_IDLE;
}

bool owner_is_ranks(const struct blame_owner *o)
{
	return o->kind == BLAME_RANKS;
}

bool owner_is_stopped(const struct blame_owner *o)
{
	return o->kind == BLAME_STOPPED;
}

bool owner_is_network(const struct blame_owner *o)
{
	return o->kind == BLAME_NETWORK;
}

bool owner_is_reclaim(const struct blame_owner *o)
{
	return o->kind == BLAME_RECLAIMS;
}

bool owner_is_filling(const struct blame_owner *o)
{
	return o->kind == BLAME_FILLS && o->via != VIA_DATA;
}

bool owner_is_interrupted(const struct blame_owner *o)
{
	return o->kind == BLAME_INTERRUPTED;
}

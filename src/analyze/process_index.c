/* process_index.c - goes through processes and communicators once. */
#include "analyze/process_index.h"

static struct process_place *place_of(struct process_index *x, uint32_t pid)
{
	uint64_t at;
	if (map64_get(&x->place_of, pid, &at))
		return &x->places.data[at];
	map64_set(&x->place_of, pid, x->places.len);
	struct process_place *p = vec_push(&x->places);
	p->rank = p->comm_rank = -1;
	return p;
}

static const struct process_place *find(const struct process_index *x, uint32_t pid)
{
	uint64_t at;
	return map64_get(&x->place_of, pid, &at) ? &x->places.data[at] : NULL;
}

static void take_comms(struct process_index *x)
{
	int32_t size = 0;
	for (size_t i = 0; i < x->t->comms.len; i++)
		if (x->t->comms.data[i].size > size)
			size = x->t->comms.data[i].size;
	for (size_t i = 0; i < x->t->comms.len; i++)
		if (x->t->comms.data[i].size == size)
			place_of(x, x->t->comms.data[i].pid)->comm_rank = x->t->comms.data[i].rank;
}

void process_index_make(struct process_index *ret, const struct rec_tables *t)
{
	*ret = (struct process_index){.t = t};
	for (size_t i = 0; i < t->processes.len; i++) {
		const struct m_process *row = &t->processes.data[i];
		struct process_place *p = place_of(ret, row->pid);
		p->first = p->first ? p->first : (uint32_t)i + 1;
		p->last = (uint32_t)i + 1;
		p->rank = row->rank >= 0 ? row->rank : p->rank;
	}
	take_comms(ret);
}

void process_index_free(struct process_index *x)
{
	map64_free(&x->place_of);
	vec_free(&x->places);
}

const struct m_process *process_index_row(const struct process_index *x, uint32_t pid)
{
	const struct process_place *p = find(x, pid);
	return p && p->last ? &x->t->processes.data[p->last - 1] : NULL;
}

uint32_t process_index_source(const struct process_index *x, uint32_t pid)
{
	const struct process_place *p = find(x, pid);
	return p && p->first ? x->t->processes.data[p->first - 1].source : 0;
}

int32_t process_index_rank(const struct process_index *x, uint32_t pid)
{
	const struct process_place *p = find(x, pid);
	return !p ? -1 : p->rank >= 0 ? p->rank : p->comm_rank;
}

/* gpu_kept.c - the calls that are kept. */
#include "analyze/gpu_kept.h"

#include <linux/types.h>

#include "wire/event.h"

bool gpu_keep(struct gpu_kept *ret, const struct gpu_probe *p, const struct m_call *c,
	      uint64_t order)
{
	bool failed = c->flags & CALL_ERROR, open = c->flags & CALL_OPEN;
	/* A capture ends also when ending it fails: then it gives no graph. */
	if ((failed && p->role != GPU_CAPTURE_END) || (open && !p->at_start))
		return false;
	*ret = (struct gpu_kept){
		.time_ns = p->at_start ? c->start_ns : c->start_ns + c->dur_ns,
		.order = order,
		.thread = c->thread,
		.probe = c->probe,
		.stack = c->stack,
		.role = p->role,
		.failed = failed || open,
		.device = -1,
	};
	bool memory = p->role < GPU_CAPTURE_BEGIN;
	ret->rank = memory ? !p->at_start : p->at_start;
	for (int i = 0; i < GPU_KEPT_ARGS; i++)
		if (p->kept[i] >= 0 && p->kept[i] < c->nargs)
			ret->v[i] = c->args[p->kept[i]];
	if (p->role == GPU_TORCH_ALLOC && p->kept[2] >= 0)
		ret->device = ret->v[2] <= INT8_MAX ? (int16_t)ret->v[2] : -1; /* DeviceIndex */
	return true;
}

void gpu_kept_process_ends(gpu_kept_t *kept, const struct rec_tables *t, uint32_t pid,
			   uint64_t to_ns)
{
	for (size_t i = 0; i < t->processes.len; i++) {
		const struct m_process *p = &t->processes.data[i];
		if (!p->end_ns || p->end_ns >= to_ns || (pid && p->pid != pid))
			continue;
		struct gpu_kept *k = vec_push(kept);
		k->time_ns = p->end_ns;
		k->role = GPU_PROCESS_END;
		k->rank = UINT8_MAX; /* after all that it did */
		k->thread = p->pid;
	}
}

static int compare(const void *a, const void *b)
{
	const struct gpu_kept *x = a, *y = b;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void gpu_kept_sort(gpu_kept_t *kept)
{
	if (kept->len)
		qsort(kept->data, kept->len, sizeof(*kept->data), compare);
}

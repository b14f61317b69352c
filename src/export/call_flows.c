/* call_flows.c - looks up arrows between calls. */
#include "export/call_flows.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	const struct call_flow_end *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->probe > y->probe) - (x->probe < y->probe);
}

void call_flows_add(struct call_flows *f, const struct call_flow_end *tail,
		    const struct call_flow_end *head)
{
	uint32_t number = (uint32_t)f->tails.len;
	struct call_flow_end *t = vec_push(&f->tails), *h = vec_push(&f->heads);
	*t = *tail;
	*h = *head;
	t->number = h->number = number;
}

void call_flows_sort(struct call_flows *f)
{
	if (!f->tails.len)
		return;
	qsort(f->tails.data, f->tails.len, sizeof(*f->tails.data), compare);
	qsort(f->heads.data, f->heads.len, sizeof(*f->heads.data), compare);
}

void call_flows_free(struct call_flows *f)
{
	vec_free(&f->tails);
	vec_free(&f->heads);
}

const struct call_flow_end *call_flow_ends(const struct call_flow_end *ends, size_t len,
					   uint32_t thread, uint64_t start_ns, uint32_t probe,
					   size_t *ret_count)
{
	const struct call_flow_end key = {.thread = thread, .start_ns = start_ns, .probe = probe};
	size_t low = 0, high = len;
	while (low < high) { /* the first that is not before it */
		size_t mid = low + (high - low) / 2;
		if (compare(&ends[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_count = 0;
	while (low + *ret_count < len && !compare(&ends[low + *ret_count], &key))
		++*ret_count;
	return &ends[low];
}

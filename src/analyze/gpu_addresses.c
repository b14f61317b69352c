/* gpu_addresses.c - segment trees over address ranges, one for each process. */
#include "analyze/gpu_addresses.h"

#include <stdlib.h>

#include "base/sort.h"

/* Leaf i of a tree with n leaves is [bounds[i], bounds[i + 1]) and node n + i; node k lies
 * under node k / 2. */
struct tree {
	uint32_t pid;
	size_t leaves;
	uint64_t *bounds;
	size_t *first;	/* by node: of its part of list; one more at the end */
	uint32_t *list; /* numbers of ranges */
};

struct gpu_addresses {
	gpu_ranges_t ranges; /* by pid, then by time */
	VEC(struct tree) trees;
};

static int compare_ranges(const void *a, const void *b)
{
	const struct gpu_range *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* The last bound that is not above the address; bounds[0] is not above it. */
static size_t leaf_of(const struct tree *t, uint64_t address)
{
	size_t low = 0, high = t->leaves;
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;
		if (t->bounds[mid] <= address)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* Counts the range in first (fill false), or puts its number where first says. */
static void cover(struct tree *t, const struct gpu_range *r, uint32_t number, bool fill)
{
	size_t low = leaf_of(t, r->start) + t->leaves, high = leaf_of(t, r->end) + t->leaves;
	if (r->end == t->bounds[t->leaves])
		high = 2 * t->leaves;
	for (; low < high; low /= 2, high /= 2) {
		size_t nodes[2], n = 0;
		if (low & 1)
			nodes[n++] = low++;
		if (high & 1)
			nodes[n++] = --high;
		for (size_t i = 0; i < n; i++) {
			if (fill)
				t->list[t->first[nodes[i]]++] = number;
			else
				t->first[nodes[i] + 1]++;
		}
	}
}

static void tree_make(struct tree *t, const struct gpu_range *ranges, size_t from, size_t to)
{
	uint64_t *bounds = xcalloc(2 * (to - from), sizeof(*bounds));
	size_t n = 0;
	t->pid = ranges[from].pid;
	for (size_t i = from; i < to; i++) {
		bounds[n++] = ranges[i].start;
		bounds[n++] = ranges[i].end;
	}
	qsort(bounds, n, sizeof(*bounds), sort_compare_u64);
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (!kept || bounds[kept - 1] != bounds[i])
			bounds[kept++] = bounds[i];
	t->bounds = bounds;
	t->leaves = kept - 1;
	t->first = xcalloc(2 * t->leaves + 2, sizeof(*t->first));
	for (size_t i = from; i < to; i++)
		cover(t, &ranges[i], (uint32_t)i, false);
	for (size_t i = 1; i < 2 * t->leaves + 2; i++)
		t->first[i] += t->first[i - 1];
	t->list = xcalloc(t->first[2 * t->leaves + 1] + 1, sizeof(*t->list));
	for (size_t i = from; i < to; i++)
		cover(t, &ranges[i], (uint32_t)i, true);
	/* Filling moved each first to its end, which is the first of the next. */
	for (size_t i = 2 * t->leaves + 1; i > 0; i--)
		t->first[i] = t->first[i - 1];
	t->first[0] = 0;
}

struct gpu_addresses *gpu_addresses_new(gpu_ranges_t *ranges)
{
	struct gpu_addresses *a = xcalloc(1, sizeof(*a));
	for (size_t i = 0; i < ranges->len; i++)
		if (ranges->data[i].end > ranges->data[i].start)
			*vec_push(&a->ranges) = ranges->data[i];
	vec_free(ranges);
	if (a->ranges.len)
		qsort(a->ranges.data, a->ranges.len, sizeof(*a->ranges.data), compare_ranges);
	for (size_t i = 0, end; i < a->ranges.len; i = end) {
		for (end = i + 1; end < a->ranges.len; end++)
			if (a->ranges.data[end].pid != a->ranges.data[i].pid)
				break;
		tree_make(vec_push(&a->trees), a->ranges.data, i, end);
	}
	return a;
}

void gpu_addresses_free(struct gpu_addresses *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->trees.len; i++) {
		free(a->trees.data[i].bounds);
		free(a->trees.data[i].first);
		free(a->trees.data[i].list);
	}
	vec_free(&a->trees);
	vec_free(&a->ranges);
	free(a);
}

/* The last range of the node that began by then, when it is still there. */
static const struct gpu_range *find_in_node(const struct gpu_addresses *a, const struct tree *t,
					    size_t node, uint64_t time_ns)
{
	size_t low = t->first[node], high = t->first[node + 1];
	if (low == high || a->ranges.data[t->list[low]].from_ns > time_ns)
		return NULL;
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;
		if (a->ranges.data[t->list[mid]].from_ns <= time_ns)
			low = mid;
		else
			high = mid;
	}
	const struct gpu_range *r = &a->ranges.data[t->list[low]];
	return time_ns < r->to_ns ? r : NULL;
}

const struct gpu_range *gpu_addresses_find(const struct gpu_addresses *a, uint32_t pid,
					   uint64_t address, uint64_t time_ns)
{
	for (size_t i = 0; i < a->trees.len; i++) {
		const struct tree *t = &a->trees.data[i];
		if (t->pid != pid)
			continue;
		if (address < t->bounds[0] || address >= t->bounds[t->leaves])
			return NULL;
		for (size_t node = leaf_of(t, address) + t->leaves; node; node /= 2) {
			const struct gpu_range *r = find_in_node(a, t, node, time_ns);
			if (r)
				return r;
		}
		return NULL;
	}
	return NULL;
}

/* flame_order.c - nodes of call trees in the order of a flame graph. No recursion: a tree may
 * be deeper than the stack. */
#include "export/flame_order.h"

#include <stdlib.h>
#include <string.h>

static int compare_text(const struct calltree *t, uint32_t a, uint32_t b)
{
	size_t a_len, b_len;
	const char *x = strtab_get(&t->strings, a, &a_len);
	const char *y = strtab_get(&t->strings, b, &b_len);
	int order = a == b ? 0 : memcmp(x, y, a_len < b_len ? a_len : b_len);
	return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_nodes(const void *a, const void *b, void *ctx)
{
	const struct calltree *t = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct calltree_frame *f = &t->frames.data[t->nodes.data[x].frame];
	const struct calltree_frame *g = &t->frames.data[t->nodes.data[y].frame];
	int order = compare_text(t, f->name, g->name);
	order = order ? order : compare_text(t, f->file, g->file);
	order = order ? order : (f->line > g->line) - (f->line < g->line);
	return order ? order : (x > y) - (x < y);
}

void flame_order_make(struct flame_order *o, const struct calltree *t)
{
	size_t n = t->nodes.len;
	o->first = xcalloc(n + 2, sizeof(*o->first));
	o->list = xcalloc(n + 1, sizeof(*o->list));
	for (size_t i = 1; i < n; i++)
		o->first[t->nodes.data[i].parent + 2]++;
	for (size_t i = 2; i < n + 2; i++)
		o->first[i] += o->first[i - 1];
	for (size_t i = 1; i < n; i++)
		o->list[o->first[t->nodes.data[i].parent + 1]++] = (uint32_t)i;
	for (size_t i = 0; i < n; i++)
		qsort_r(o->list + o->first[i], o->first[i + 1] - o->first[i], sizeof(*o->list),
			compare_nodes, (void *)t);
}

void flame_order_free(struct flame_order *o)
{
	free(o->first);
	free(o->list);
}

uint32_t *flame_preorder(const struct calltree *t)
{
	struct flame_order o;
	uint32_t *ret = xcalloc(t->nodes.len + 1, sizeof(*ret));
	VEC(uint32_t) open = {0}; /* the next to visit is the last */
	size_t n = 0;
	flame_order_make(&o, t);
	*vec_push(&open) = 0;
	while (open.len) {
		uint32_t node = open.data[--open.len];
		ret[n++] = node;
		for (uint32_t i = o.first[node + 1]; i-- > o.first[node];)
			*vec_push(&open) = o.list[i];
	}
	vec_free(&open);
	flame_order_free(&o);
	return ret;
}

/* flame_svg_rows.c - which frames of a call tree a flame graph draws, and in what order.
 *
 * A tree may have hundreds of thousands of nodes, a screen a few thousand pixels: what is
 * narrower than a part of a pixel is left out here, and its weight stays in its parents. No
 * recursion: a tree may be deeper than the stack. */
#include <stdlib.h>
#include <string.h>

#include "export/flame_order.h"
#include "export/flame_svg_impl.h"

/* What a frame must weigh to be drawn, in the tree and in its base. */
struct floor {
	double weight[2];
};

static bool is_wide(const struct floor *f, const int64_t total[2])
{
	for (int i = 0; i < 2; i++)
		if (total[i] > 0 && (double)total[i] >= f->weight[i])
			return true;
	return false;
}

static struct floor floor_of(const struct calltree *t, uint32_t steps, size_t max)
{
	for (;; steps /= 2) {
		struct floor f;
		size_t n = 0;
		for (int i = 0; i < 2; i++)
			f.weight[i] = (double)t->nodes.data[0].total[i] / steps;
		for (size_t i = 0; i < t->nodes.len; i++)
			n += is_wide(&f, t->nodes.data[i].total);
		if (n <= max || steps <= 1)
			return f;
	}
}

static int64_t positive(int64_t v)
{
	return v > 0 ? v : 0;
}

static struct svg_row *add_row(struct svg_rows *r, uint32_t depth, uint32_t frame)
{
	struct svg_row *row = vec_push(&r->rows);
	row->depth = depth;
	row->frame = frame;
	if (r->depth < depth + 1)
		r->depth = depth + 1;
	return row;
}

static void add_node(struct svg_rows *r, const struct calltree_node *node, uint32_t depth)
{
	struct svg_row *row = add_row(r, depth, node->frame);
	for (int i = 0; i < 2; i++) {
		row->total[i] = positive(node->total[i]);
		row->self[i] = positive(node->self[i]);
	}
}

/* One row for the children of a node that are too narrow. */
static void add_smaller(struct svg_rows *r, const struct calltree *t, const struct floor *f,
			const uint32_t *list, size_t n, uint32_t depth)
{
	int64_t total[2] = {0};
	uint32_t merged = 0;
	for (size_t i = 0; i < n; i++) {
		const struct calltree_node *node = &t->nodes.data[list[i]];
		if (is_wide(f, node->total))
			continue;
		total[0] += positive(node->total[0]);
		total[1] += positive(node->total[1]);
		merged++;
	}
	if (!is_wide(f, total))
		return;
	struct svg_row *row = add_row(r, depth, SVG_SMALLER);
	memcpy(row->total, total, sizeof(total));
	row->merged = merged;
}

/* A node whose children are being added, and the next of them to look at. */
struct open_node {
	uint32_t node, next;
};

void svg_rows_make(struct svg_rows *r, const struct calltree *t, uint32_t steps, size_t max)
{
	struct floor f = floor_of(t, steps, max);
	struct flame_order c;
	VEC(struct open_node) open = {0};
	flame_order_make(&c, t);
	add_node(r, &t->nodes.data[0], 0);
	vec_push(&open);
	while (open.len) {
		uint32_t depth = (uint32_t)open.len, node = open.data[depth - 1].node;
		uint32_t at = c.first[node] + open.data[depth - 1].next++;
		if (at >= c.first[node + 1]) {
			add_smaller(r, t, &f, c.list + c.first[node],
				    c.first[node + 1] - c.first[node], depth);
			open.len--;
		} else if (is_wide(&f, t->nodes.data[c.list[at]].total)) {
			add_node(r, &t->nodes.data[c.list[at]], depth);
			vec_push(&open)->node = c.list[at];
		}
	}
	vec_free(&open);
	flame_order_free(&c);
}

void svg_rows_free(struct svg_rows *r)
{
	vec_free(&r->rows);
}

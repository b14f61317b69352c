/* flame_order.h - the children of each node of a call tree, by name: the order in which flame
 * graphs show them. */
#pragma once

#include <stdint.h>

#include "base/calltree.h"

/* The children of node n are list[first[n]] to list[first[n + 1] - 1]. */
struct flame_order {
	uint32_t *first, *list;
};

void flame_order_make(struct flame_order *o, const struct calltree *t);
void flame_order_free(struct flame_order *o);

/* All nodes from the root, each before its children and all below it; malloc'ed. */
uint32_t *flame_preorder(const struct calltree *t);

/* steps_graphs.c - graphs that take one another's place in a text of operations.
 *
 * XLA destroys its graphs when it loads another program, as for a size that it meets for the first
 * time, and makes them anew: a step is then launched by another handle, and is the same step. Of
 * two graphs of which the second is launched first when the first is no more, as often and as far
 * apart, the second has the first one's symbol. */
#include <stdlib.h>

#include "analyze/steps_impl.h"
#include "base/sort.h"

#define LEAST_LAUNCHES 5
#define MOST_GRAPHS    4096
#define MOST_DISTANCES 512

struct graph {
	uint32_t symbol, becomes;
	size_t count, first, last; /* launches, and where in the text */
	uint64_t start_ns;	   /* of the last */
	VEC(uint64_t) apart_ns;	   /* of the first ones, from start to start */
	uint64_t usual_ns;
	bool taken; /* another has its place */
};

typedef VEC(struct graph) graphs_t;

static void take_launch(struct graph *g, const struct steps_op *o, size_t at)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what the map knows is in the list */
	if (g->count && g->apart_ns.len < MOST_DISTANCES)
		*vec_push(&g->apart_ns) = o->start_ns - g->start_ns;
	g->first = g->count ? g->first : at;
	g->last = at;
	g->start_ns = o->start_ns;
	g->count++;
}

/* In the order of their first launches. */
static void find_graphs(const struct steps_input *in, const steps_ops_t *ops, graphs_t *ret)
{
	struct map64 place_of = {0};
	for (size_t i = 0; i < ops->len; i++) {
		uint32_t symbol = ops->data[i].symbol;
		uint64_t place;
		if (!(in->symbols.data[symbol].class & CLASS_GRAPH))
			continue;
		bool known = map64_get(&place_of, symbol, &place);
		struct graph *g = known ? &ret->data[place] : vec_push(ret);
		if (!known) {
			map64_set(&place_of, symbol, ret->len - 1);
			g->symbol = g->becomes = symbol;
		}
		take_launch(g, &ops->data[i], i);
	}
	map64_free(&place_of);
	for (size_t k = 0; k < ret->len; k++) {
		struct graph *g = &ret->data[k];
		if (!g->apart_ns.len)
			continue;
		qsort(g->apart_ns.data, g->apart_ns.len, sizeof(uint64_t), sort_compare_u64);
		g->usual_ns = g->apart_ns.data[g->apart_ns.len / 2];
	}
}

/* Within a quarter. */
static bool is_near(uint64_t a, uint64_t b)
{
	return a * 4 <= b * 5 && b * 4 <= a * 5;
}

/* Operations from one launch to the next, in hundredths. */
static uint64_t distance(const struct graph *g)
{
	return (uint64_t)(g->last - g->first) * 100 / (g->count - 1);
}

static bool takes_place_of(const struct graph *g, const struct graph *earlier)
{
	return !earlier->taken && earlier->count >= LEAST_LAUNCHES && earlier->last < g->first &&
	       is_near(g->usual_ns, earlier->usual_ns) && is_near(distance(g), distance(earlier));
}

/* The one that was launched last; where it was launched together with others, of these the first: a
 * step's graphs are made anew in their order. NULL: there is none. */
static struct graph *place_of(graphs_t *graphs, size_t k)
{
	const struct graph *g = &graphs->data[k];
	struct graph *last = NULL, *ret = NULL;
	for (size_t i = 0; i < k && g->count >= LEAST_LAUNCHES; i++) {
		struct graph *e = &graphs->data[i];
		if (takes_place_of(g, e) && (!last || e->last > last->last))
			last = e;
	}
	for (size_t i = 0; i < k && last; i++) {
		struct graph *e = &graphs->data[i];
		bool together = (last->last - e->last) * 100 < distance(last);
		if (takes_place_of(g, e) && together && (!ret || e->last < ret->last))
			ret = e;
	}
	return ret;
}

static bool join(graphs_t *graphs)
{
	bool any = false;
	for (size_t k = 1; k < graphs->len; k++) {
		struct graph *before = place_of(graphs, k);
		if (!before)
			continue;
		graphs->data[k].becomes = before->becomes;
		before->taken = any = true;
	}
	return any;
}

void steps_graphs_join(const struct steps_input *in, steps_ops_t *ops)
{
	graphs_t graphs = {0};
	struct map64 becomes = {0};
	uint64_t symbol;
	find_graphs(in, ops, &graphs);
	bool any = graphs.len <= MOST_GRAPHS && join(&graphs);
	for (size_t k = 0; k < graphs.len; k++) {
		map64_set(&becomes, graphs.data[k].symbol, graphs.data[k].becomes);
		vec_free(&graphs.data[k].apart_ns);
	}
	for (size_t i = 0; any && i < ops->len; i++)
		if (map64_get(&becomes, ops->data[i].symbol, &symbol))
			ops->data[i].symbol = symbol & (STEPS_MAX_SYMBOLS - 1);
	map64_free(&becomes);
	vec_free(&graphs);
}

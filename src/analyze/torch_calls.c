/* torch_calls.c - loads operators, nodes and passes: those of a block by themselves, then each to
 * its thread's place. */
#include "analyze/torch_calls.h"

#include <string.h>

#include "base/layer.h"
#include "base/sort.h"

enum kind { OTHER, OPERATOR, NODE, PASS };

struct torch_probe {
	uint8_t kind;
	bool numbered;	     /* NODE: sequence_arg says its number */
	bool links;	     /* PASS: its nodes are linked with operators */
	int8_t sequence_arg; /* -1 none */
};

/* What was found in a block; its nodes are numbered from 0. */
struct loaded_block {
	VEC(struct torch_call) rows;
	VEC(struct torch_node) nodes;
};

/* A thread's own. */
struct share {
	VEC(struct torch_pass) passes;
	uint64_t npasses, nnodes;
};

struct loader {
	struct row_visitor visitor;
	struct torch_calls *ret;
	void (*done)(void *ctx);
	void *ctx;
	uint32_t pid;
	struct torch_probe *probes;
	struct loaded_block *blocks;
	size_t nblocks;
};

#define MOST_DUR_NS ((1ULL << 40) - 1)
#define MOST_PROBES (1u << 24)

/* ---- probes ---- */

static const char *text_of(const struct rec_tables *t, uint32_t string)
{
	return strtab_get(&t->strings, string, NULL);
}

static bool has_role(const struct rec_tables *t, const struct m_probe *p, const char *role)
{
	return !strcmp(text_of(t, p->role), role);
}

static int8_t arg_named(const struct rec_tables *t, const struct m_probe *p, const char *name)
{
	for (int8_t i = 0; i < p->nargs; i++)
		if (!strcmp(text_of(t, p->arg_names[i]), name))
			return i;
	return -1;
}

/* By its role; recordings of before there were these roles tell by the function. */
static enum kind kind_of(const struct rec_tables *t, const struct m_probe *p)
{
	const char *symbol = text_of(t, p->symbol);
	if (!(layer_traits_of_name(text_of(t, p->layer)) & LAYER_HAS_OPERATORS))
		return OTHER;
	if (has_role(t, p, "autograd_node") ||
	    strstr(symbol, "5torch8autograd6Engine17evaluate_function"))
		return p->name_arg >= 0 ? NODE : OTHER;
	if (has_role(t, p, "backward") || strstr(symbol, "5torch8autograd6Engine7execute"))
		return PASS;
	/* what calls name is no operator */
	return p->name_arg < 0 && strstr(text_of(t, p->name), "::") ? OPERATOR : OTHER;
}

static void know_probes(struct loader *l)
{
	const struct rec_tables *t = l->ret->tables;
	l->probes = xcalloc(t->probes.len + 1, sizeof(*l->probes));
	for (size_t i = 0; i < t->probes.len && i < MOST_PROBES; i++) {
		const struct m_probe *p = &t->probes.data[i];
		struct torch_probe *known = &l->probes[i];
		known->kind = kind_of(t, p);
		known->sequence_arg = arg_named(t, p, "sequence");
		known->numbered = known->sequence_arg >= 0 && has_role(t, p, "autograd_node");
		known->links = has_role(t, p, "backward");
	}
}

/* ---- a block ---- */

static uint32_t add_node(struct loaded_block *b, const struct torch_probe *p,
			 const struct m_probe *probe, const struct m_call *c)
{
	bool numbered = p->numbered && p->sequence_arg < c->nargs;
	*vec_push(&b->nodes) =
		(struct torch_node){.name = (uint32_t)c->args[(size_t)probe->name_arg],
				    .numbered = numbered,
				    .sequence = numbered ? c->args[(size_t)p->sequence_arg] : 0};
	return (uint32_t)b->nodes.len - 1;
}

static void load_call(const struct loader *l, struct share *h, struct loaded_block *b,
		      const struct m_call *c)
{
	const struct rec_tables *t = l->ret->tables;
	const struct torch_probe *p = &l->probes[c->probe];
	const struct m_probe *probe = &t->probes.data[c->probe];
	uint32_t pid = t->threads.data[c->thread].pid;
	h->npasses += p->kind == PASS;
	h->nnodes += p->kind == NODE;
	if (l->pid && pid != l->pid)
		return;
	if (p->kind == PASS && p->links)
		*vec_push(&h->passes) =
			(struct torch_pass){c->start_ns, c->start_ns + c->dur_ns, pid};
	if (p->kind == PASS || (p->kind == NODE && probe->name_arg >= c->nargs))
		return;
	*vec_push(&b->rows) = (struct torch_call){
		.start_ns = c->start_ns,
		.dur_ns = c->dur_ns < MOST_DUR_NS ? c->dur_ns : MOST_DUR_NS,
		.probe = c->probe,
		.thread = c->thread,
		.node = p->kind == NODE ? add_node(b, p, probe, c) : TORCH_NO_NODE,
	};
}

static void load_rows(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	const struct loader *l = (const struct loader *)v;
	const struct m_call *calls = rows->rows;
	struct loaded_block *b = &l->blocks[rows->block];
	for (size_t i = 0; i < rows->len; i++)
		if (l->probes[calls[i].probe].kind != OTHER)
			load_call(l, state, b, &calls[i]);
	vec_fit(&b->rows);
	vec_fit(&b->nodes);
}

/* ---- all of it ---- */

static int by_start(const void *a, const void *b, void *arg)
{
	const struct torch_call *x = a, *y = b;
	(void)arg;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->dur_ns > y->dur_ns ? -1 : x->dur_ns < y->dur_ns;
}

static void make_room(struct loader *l)
{
	struct torch_calls *c = l->ret;
	size_t threads = c->tables->threads.len, total = 0;
	c->first = xcalloc(threads + 2, sizeof(*c->first));
	for (size_t b = 0; b < l->nblocks; b++)
		for (size_t i = 0; i < l->blocks[b].rows.len; i++)
			c->first[l->blocks[b].rows.data[i].thread + 2]++;
	for (size_t i = 2; i < threads + 2; i++) {
		total += c->first[i];
		c->first[i] = total;
	}
	c->rows.data = total ? xrealloc(NULL, total, sizeof(*c->rows.data)) : NULL;
	c->rows.len = c->rows.cap = total;
}

/* Each row to its thread's place: first[thread + 1] is where the next one goes. */
static void place_rows(struct loader *l)
{
	struct torch_calls *c = l->ret;
	make_room(l);
	for (size_t b = 0; b < l->nblocks; b++) {
		struct loaded_block *block = &l->blocks[b];
		uint32_t first_node = (uint32_t)c->nodes.len;
		for (size_t i = 0; i < block->rows.len; i++) {
			struct torch_call row = block->rows.data[i];
			row.node += row.node == TORCH_NO_NODE ? 0 : first_node;
			c->rows.data[c->first[row.thread + 1]++] = row;
		}
		for (size_t i = 0; i < block->nodes.len; i++)
			*vec_push(&c->nodes) = block->nodes.data[i];
		vec_free(&block->rows);
		vec_free(&block->nodes);
	}
	for (size_t i = 0; i < c->tables->threads.len && c->rows.len; i++)
		sort_near(c->rows.data + c->first[i], c->first[i + 1] - c->first[i],
			  sizeof(*c->rows.data), by_start, NULL);
}

static void end_loading(struct row_visitor *v, void *states, size_t n)
{
	struct loader *l = (struct loader *)v;
	struct share *shares = states;
	uint64_t passes = 0, nodes = 0;
	place_rows(l);
	for (size_t i = 0; i < n; i++) {
		passes += shares[i].npasses;
		nodes += shares[i].nnodes;
		for (size_t k = 0; k < shares[i].passes.len; k++)
			*vec_push(&l->ret->passes) = shares[i].passes.data[k];
		vec_free(&shares[i].passes);
	}
	l->ret->nodes_missing = passes && !nodes;
	free(l->probes);
	free(l->blocks);
	l->done(l->ctx);
	free(l);
}

struct row_visitor *torch_calls_visitor(struct torch_calls *ret, const struct row_source *s,
					uint32_t pid, void (*done)(void *ctx), void *ctx)
{
	struct loader *l = xcalloc(1, sizeof(*l));
	*ret = (struct torch_calls){.tables = s->tables};
	*l = (struct loader){.visitor = {.kinds = 1u << ROW_CALL,
					 .state_bytes = sizeof(struct share),
					 .rows = load_rows,
					 .end = end_loading},
			     .ret = ret,
			     .done = done,
			     .ctx = ctx,
			     .pid = pid,
			     .nblocks = s->blocks(s->ctx, ROW_CALL)};
	l->blocks = xcalloc(l->nblocks + 1, sizeof(*l->blocks));
	know_probes(l);
	return &l->visitor;
}

void torch_calls_free(struct torch_calls *c)
{
	vec_free(&c->rows);
	vec_free(&c->nodes);
	vec_free(&c->passes);
	free(c->first);
}

/* operators.c - sums GPU time by operator: goes through each thread's operators, nodes and
 * launches in order of their start. */
#include "analyze/operators.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/autograd.h"
#include "base/strtab.h"

struct sums {
	struct operators *ret;
	const struct rec_tables *t;
	const struct timeline *timeline;
	struct torch_calls calls;
	struct autograd_links links;
	struct strtab names;
	VEC(uint32_t) row_of; /* by name: index into rows + 1 */
	VEC(const struct torch_call *) open;
};

/* ---- rows ---- */

static struct operator_time *row_named(struct sums *s, const char *name)
{
	uint32_t number = strtab_add_z(&s->names, name);
	while (s->row_of.len <= number)
		(void)vec_push(&s->row_of);
	if (!s->row_of.data[number]) {
		((struct operator_time *)vec_push(&s->ret->rows))->name = xstrdup(name);
		s->row_of.data[number] = (uint32_t)s->ret->rows.len;
	}
	return &s->ret->rows.data[s->row_of.data[number] - 1];
}

static const char *operator_name(const struct sums *s, uint32_t probe)
{
	return strtab_get(&s->t->strings, s->t->probes.data[probe].name, NULL);
}

/* That of the operator which made the node, else the node's own. */
static struct operator_time *row_of_node(struct sums *s, const struct torch_call *node,
					 bool *ret_linked)
{
	const struct autograd_link *l = autograd_link_of(&s->links, node->thread, node->start_ns);
	const char *name =
		l ? operator_name(s, l->operator_probe)
		  : strtab_get(&s->t->strings, s->calls.nodes.data[node->node].name, NULL);
	const char *last = strrchr(name, ':');
	*ret_linked = l != NULL;
	return row_named(s, l || !last ? name : last + 1);
}

/* What the launch's call started. */
static uint64_t gpu_ns(const struct timeline *t, const struct timeline_call *c)
{
	uint64_t ns = 0;
	for (uint32_t i = 0; i < c->spans; i++) {
		const struct timeline_span *s = &t->spans.data[t->by_call.data[c->first_span + i]];
		ns += timeline_kind_of(t, s)->work == WORK_SYNC ? 0 : s->end_ns - s->start_ns;
	}
	return ns;
}

static void add_launch(struct sums *s, const struct timeline_call *c)
{
	uint64_t ns = gpu_ns(s->timeline, c);
	const struct torch_call *node = NULL;
	for (size_t i = s->open.len; i > 0 && !node; i--)
		if (s->open.data[i - 1]->node != TORCH_NO_NODE)
			node = s->open.data[i - 1];
	if (node) {
		bool linked;
		struct operator_time *row = row_of_node(s, node, &linked);
		s->ret->backward_ns += ns;
		s->ret->linked_ns += linked ? ns : 0;
		row->backward_ns += ns;
		row->backward_spans += c->spans;
	} else if (s->open.len) {
		struct operator_time *row =
			row_named(s, operator_name(s, s->open.data[s->open.len - 1]->probe));
		row->forward_ns += ns;
		row->forward_spans += c->spans;
	} else {
		s->ret->outside_ns += ns;
	}
}

/* ---- threads ---- */

static void close_until(struct sums *s, uint64_t now_ns)
{
	while (s->open.len && torch_call_end(s->open.data[s->open.len - 1]) <= now_ns)
		s->open.len--;
}

static void open_call(struct sums *s, const struct torch_call *c)
{
	bool linked;
	close_until(s, c->start_ns);
	*vec_push(&s->open) = c;
	if (c->node != TORCH_NO_NODE)
		row_of_node(s, c, &linked)->nodes++;
	else
		row_named(s, operator_name(s, c->probe))->calls++;
}

struct launch {
	uint32_t thread;
	uint32_t call; /* index into the timeline's */
	uint64_t start_ns;
};

static int by_launch(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static struct launch *launches_of(const struct timeline *t, size_t *ret_len)
{
	struct launch *all = xcalloc(t->calls.len + 1, sizeof(*all));
	size_t n = 0;
	for (size_t i = 0; i < t->calls.len; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		if (c->spans && k->role != GPU_SYNC)
			all[n++] = (struct launch){k->thread, (uint32_t)i, c->start_ns};
	}
	qsort(all, n, sizeof(*all), by_launch);
	*ret_len = n;
	return all;
}

static void go_through(struct sums *s, const struct launch *launches, size_t m)
{
	const struct torch_call *calls = s->calls.rows.data;
	size_t c = 0, n = s->calls.rows.len;
	uint32_t thread = UINT32_MAX;
	for (size_t i = 0; i < m; i++) {
		const struct launch *l = &launches[i];
		for (; c < n && (calls[c].thread < l->thread || (calls[c].thread == l->thread &&
								 calls[c].start_ns <= l->start_ns));
		     c++) {
			if (calls[c].thread != thread)
				s->open.len = 0;
			thread = calls[c].thread;
			open_call(s, &calls[c]);
		}
		if (thread != l->thread)
			s->open.len = 0;
		thread = l->thread;
		close_until(s, l->start_ns);
		add_launch(s, &s->timeline->calls.data[l->call]);
	}
	for (; c < n; c++)
		open_call(s, &calls[c]);
}

static int by_time(const void *a, const void *b)
{
	const struct operator_time *x = a, *y = b;
	uint64_t p = x->forward_ns + x->backward_ns, q = y->forward_ns + y->backward_ns;
	return p > q ? -1 : p < q ? 1 : strcmp(x->name, y->name);
}

static void drop_idle(struct operators *o)
{
	size_t kept = 0;
	for (size_t i = 0; i < o->rows.len; i++) {
		struct operator_time row = o->rows.data[i];
		if (row.forward_spans + row.backward_spans)
			o->rows.data[kept++] = row;
		else
			free(row.name);
	}
	o->rows.len = kept;
	if (kept)
		qsort(o->rows.data, kept, sizeof(*o->rows.data), by_time);
}

static void sum_up(void *ctx)
{
	struct sums *s = ctx;
	const struct timeline *t = s->timeline;
	size_t m;
	s->ret->nodes_missing = s->calls.nodes_missing;
	autograd_links_find(&s->links, &s->calls);
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *span = &t->spans.data[i];
		if (span->call == TIMELINE_NONE && timeline_kind_of(t, span)->work != WORK_SYNC)
			s->ret->unmatched_ns += span->end_ns - span->start_ns;
	}
	struct launch *launches = launches_of(t, &m);
	go_through(s, launches, m);
	drop_idle(s->ret);
	free(launches);
	vec_free(&s->open);
	vec_free(&s->row_of);
	strtab_free(&s->names);
	autograd_links_free(&s->links);
	torch_calls_free(&s->calls);
	free(s);
}

struct row_visitor *operators_visitor(struct operators *ret, const struct row_source *source,
				      const struct timeline *t, uint32_t pid)
{
	struct sums *s = xcalloc(1, sizeof(*s));
	*ret = (struct operators){0};
	s->ret = ret;
	s->t = source->tables;
	s->timeline = t;
	return torch_calls_visitor(&s->calls, source, pid, sum_up, s);
}

void operators_make(struct operators *ret, const struct row_source *s, const struct timeline *t,
		    uint32_t pid)
{
	struct row_visitor *v = operators_visitor(ret, s, t, pid);
	rows_visit(s, &v, 1, NULL);
}

void operators_free(struct operators *o)
{
	for (size_t i = 0; i < o->rows.len; i++)
		free(o->rows.data[i].name);
	vec_free(&o->rows);
}

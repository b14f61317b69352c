/* operators.c - sums GPU time by operator: goes through each thread's operators, nodes and
 * launches in order of their start. */
#include "analyze/operators.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/autograd.h"
#include "analyze/call_blocks.h"
#include "base/map64.h"

enum kind { OTHER, OPERATOR, NODE, PASS };

struct open_call {
	uint64_t start_ns, end_ns;
	uint32_t thread;
	uint32_t probe;
	uint32_t name; /* of nodes: string of the recording */
	bool is_node;
};

struct worker {
	VEC(struct open_call) calls;
	uint64_t passes, nodes;
};

struct sums {
	struct operators *ret;
	const struct rec_tables *t;
	const struct timeline *timeline;
	struct autograd_links links;
	uint32_t pid;
	uint8_t *kind_of; /* by probe */
	struct strtab names;
	VEC(uint32_t) row_of; /* by name: index into rows + 1 */
	VEC(struct open_call) open;
};

/* ---- reading ---- */

/* By its role; recordings of before there were these roles tell by the function. */
static bool is_function(const struct sums *s, const struct m_probe *p, const char *role,
			const char *symbol)
{
	return !strcmp(strtab_get(&s->t->strings, p->role, NULL), role) ||
	       strstr(strtab_get(&s->t->strings, p->symbol, NULL), symbol);
}

static enum kind kind_of(const struct sums *s, const struct m_probe *p)
{
	if (strcmp(strtab_get(&s->t->strings, p->layer, NULL), "torch") != 0)
		return OTHER;
	if (is_function(s, p, "autograd_node", "5torch8autograd6Engine17evaluate_function"))
		return p->name_arg >= 0 ? NODE : OTHER;
	if (is_function(s, p, "backward", "5torch8autograd6Engine7execute"))
		return PASS;
	/* what calls name is no operator */
	return p->name_arg < 0 && strstr(strtab_get(&s->t->strings, p->name, NULL), "::") ? OPERATOR
											  : OTHER;
}

static void know_probes(struct sums *s)
{
	s->kind_of = xcalloc(s->t->probes.len + 1, 1);
	for (size_t i = 0; i < s->t->probes.len; i++)
		s->kind_of[i] = (uint8_t)kind_of(s, &s->t->probes.data[i]);
}

static void take(void *state, void *ctx, const struct m_call *c, uint64_t order)
{
	struct worker *w = state;
	const struct sums *s = ctx;
	enum kind kind = s->kind_of[c->probe];
	const struct m_probe *p = &s->t->probes.data[c->probe];
	(void)order;
	w->passes += kind == PASS;
	w->nodes += kind == NODE;
	if (kind == OTHER || kind == PASS ||
	    (s->pid && s->t->threads.data[c->thread].pid != s->pid) ||
	    (kind == NODE && p->name_arg >= c->nargs))
		return;
	*vec_push(&w->calls) = (struct open_call){
		.start_ns = c->start_ns,
		.end_ns = c->start_ns + c->dur_ns,
		.thread = c->thread,
		.probe = c->probe,
		.name = kind == NODE ? (uint32_t)c->args[p->name_arg] : 0,
		.is_node = kind == NODE,
	};
}

static int by_thread_and_start(const void *a, const void *b)
{
	const struct open_call *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

/* All operators and nodes, by thread and start; the caller frees it. */
static struct open_call *read_calls(struct sums *s, const struct rec_reader *r, size_t *ret_len)
{
	size_t n, len = 0;
	struct worker *workers = call_blocks_read(r, &(struct call_blocks_options){0},
						  sizeof(*workers), take, s, &n);
	uint64_t passes = 0, nodes = 0;
	for (size_t i = 0; i < n; i++) {
		len += workers[i].calls.len;
		passes += workers[i].passes;
		nodes += workers[i].nodes;
	}
	s->ret->nodes_missing = passes && !nodes;
	struct open_call *all = xcalloc(len + 1, sizeof(*all));
	*ret_len = 0;
	for (size_t i = 0; i < n; i++) {
		if (workers[i].calls.len)
			memcpy(&all[*ret_len], workers[i].calls.data,
			       workers[i].calls.len * sizeof(*all));
		*ret_len += workers[i].calls.len;
		vec_free(&workers[i].calls);
	}
	free(workers);
	qsort(all, *ret_len, sizeof(*all), by_thread_and_start);
	return all;
}

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
static struct operator_time *row_of_node(struct sums *s, const struct open_call *node,
					 bool *ret_linked)
{
	const struct autograd_link *l = autograd_link_of(&s->links, node->thread, node->start_ns);
	const char *name = l ? operator_name(s, l->operator_probe)
			     : strtab_get(&s->t->strings, node->name, NULL);
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
	const struct open_call *node = NULL;
	for (size_t i = s->open.len; i > 0 && !node; i--)
		if (s->open.data[i - 1].is_node)
			node = &s->open.data[i - 1];
	if (node) {
		bool linked;
		struct operator_time *row = row_of_node(s, node, &linked);
		s->ret->backward_ns += ns;
		s->ret->linked_ns += linked ? ns : 0;
		row->backward_ns += ns;
		row->backward_spans += c->spans;
	} else if (s->open.len) {
		struct operator_time *row =
			row_named(s, operator_name(s, s->open.data[s->open.len - 1].probe));
		row->forward_ns += ns;
		row->forward_spans += c->spans;
	} else {
		s->ret->outside_ns += ns;
	}
}

/* ---- threads ---- */

static void close_until(struct sums *s, uint64_t now_ns)
{
	while (s->open.len && s->open.data[s->open.len - 1].end_ns <= now_ns)
		s->open.len--;
}

static void open_call(struct sums *s, const struct open_call *c)
{
	bool linked;
	close_until(s, c->start_ns);
	*vec_push(&s->open) = *c;
	if (c->is_node)
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
		if (c->spans && c->role != GPU_SYNC)
			all[n++] = (struct launch){c->thread, (uint32_t)i, c->start_ns};
	}
	qsort(all, n, sizeof(*all), by_launch);
	*ret_len = n;
	return all;
}

static void go_through(struct sums *s, const struct open_call *calls, size_t n,
		       const struct launch *launches, size_t m)
{
	size_t c = 0;
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

void operators_make(struct operators *ret, const struct rec_reader *r, const struct timeline *t,
		    uint32_t pid)
{
	struct sums s = {.ret = ret, .t = rec_tables(r), .timeline = t, .pid = pid};
	size_t n, m;
	*ret = (struct operators){0};
	if (!t->spans.len)
		return;
	know_probes(&s);
	autograd_links_make(&s.links, r, pid);
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *span = &t->spans.data[i];
		if (span->call == TIMELINE_NONE && timeline_kind_of(t, span)->work != WORK_SYNC)
			ret->unmatched_ns += span->end_ns - span->start_ns;
	}
	struct open_call *calls = read_calls(&s, r, &n);
	struct launch *launches = launches_of(t, &m);
	go_through(&s, calls, n, launches, m);
	drop_idle(ret);
	free(calls);
	free(launches);
	free(s.kind_of);
	vec_free(&s.open);
	vec_free(&s.row_of);
	strtab_free(&s.names);
	autograd_links_free(&s.links);
}

void operators_free(struct operators *o)
{
	for (size_t i = 0; i < o->rows.len; i++)
		free(o->rows.data[i].name);
	vec_free(&o->rows);
}

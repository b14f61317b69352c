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
	VEC(uint32_t) row_of;	/* by name: index into rows + 1 */
	uint32_t *row_of_probe; /* likewise; 0 = not looked up */
	VEC(const struct torch_call *) open;
};

/* ---- rows ---- */

static uint32_t row_named(struct sums *s, const char *name)
{
	uint32_t number = strtab_add_z(&s->names, name);
	while (s->row_of.len <= number)
		(void)vec_push(&s->row_of);
	if (!s->row_of.data[number]) {
		((struct operator_time *)vec_push(&s->ret->rows))->name = xstrdup(name);
		s->row_of.data[number] = (uint32_t)s->ret->rows.len;
	}
	return s->row_of.data[number];
}

static struct operator_time *row_of_operator(struct sums *s, uint32_t probe)
{
	uint32_t *row = &s->row_of_probe[probe];
	if (!*row)
		*row = row_named(s,
				 strtab_get(&s->t->strings, s->t->probes.data[probe].name, NULL));
	return &s->ret->rows.data[*row - 1];
}

/* That of the operator which made the node, else the node's own. */
static struct operator_time *row_of_node(struct sums *s, const struct torch_call *node,
					 bool *ret_linked)
{
	const struct autograd_link *l = autograd_link_of(&s->links, node->thread, node->start_ns);
	*ret_linked = l != NULL;
	if (l)
		return row_of_operator(s, l->operator_probe);
	const char *name = strtab_get(&s->t->strings, s->calls.nodes.data[node->node].name, NULL);
	const char *last = strrchr(name, ':');
	uint32_t row = row_named(s, last ? last + 1 : name); /* moves the rows */
	return &s->ret->rows.data[row - 1];
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
			row_of_operator(s, (uint32_t)s->open.data[s->open.len - 1]->probe);
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
		row_of_operator(s, (uint32_t)c->probe)->calls++;
}

static uint32_t thread_of(const struct timeline *t, size_t call)
{
	return timeline_call_kind_of(t, &t->calls.data[call])->thread;
}

static bool starts_work(const struct timeline *t, size_t call)
{
	const struct timeline_call *c = &t->calls.data[call];
	return c->spans && timeline_call_kind_of(t, c)->role != GPU_SYNC;
}

/* The timeline's calls that started work: numbers by thread, each thread's in order of start. */
static uint32_t *launches_of(const struct timeline *t, size_t *ret_len)
{
	size_t threads = t->tables->threads.len, n = 0;
	size_t *next = xcalloc(threads + 3, sizeof(*next)); /* by thread + 1 */
	for (size_t i = 0; i < t->calls.len; i++)
		if (starts_work(t, i))
			next[thread_of(t, i) + 2]++;
	for (size_t i = 1; i < threads + 3; i++)
		n = next[i] += next[i - 1];
	uint32_t *all = xcalloc(n + 1, sizeof(*all));
	for (size_t i = 0; i < t->calls.len; i++)
		if (starts_work(t, i))
			all[next[thread_of(t, i) + 1]++] = (uint32_t)i;
	free(next);
	*ret_len = n;
	return all;
}

static void go_through(struct sums *s, const uint32_t *launches, size_t m)
{
	const struct torch_call *calls = s->calls.rows.data;
	size_t c = 0, n = s->calls.rows.len;
	uint32_t thread = UINT32_MAX;
	for (size_t i = 0; i < m; i++) {
		const struct timeline_call *launch = &s->timeline->calls.data[launches[i]];
		uint32_t of = thread_of(s->timeline, launches[i]);
		for (; c < n && (calls[c].thread < of ||
				 (calls[c].thread == of && calls[c].start_ns <= launch->start_ns));
		     c++) {
			if (calls[c].thread != thread)
				s->open.len = 0;
			thread = calls[c].thread;
			open_call(s, &calls[c]);
		}
		if (thread != of)
			s->open.len = 0;
		thread = of;
		close_until(s, launch->start_ns);
		add_launch(s, launch);
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
	uint32_t *launches = launches_of(t, &m);
	go_through(s, launches, m);
	drop_idle(s->ret);
	free(launches);
	vec_free(&s->open);
	vec_free(&s->row_of);
	free(s->row_of_probe);
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
	s->row_of_probe = xcalloc(s->t->probes.len + 1, sizeof(*s->row_of_probe));
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

/* timeline_load.c - loads calls and spans for a timeline: those of a block by themselves, then all
 * in the order of blocks. What many share stands once, as their kind. */
#include <string.h>

#include <linux/types.h>

#include "analyze/gpu_graphs.h"
#include "analyze/gpu_kept.h"
#include "analyze/kind_table.h"
#include "analyze/timeline_impl.h"
#include "base/sort.h"
#include "wire/event.h"

/* What was found in a block; kinds are those of the thread that read it. */
struct loaded_block {
	void *rows; /* struct timeline_call or timeline_span */
	size_t len;
	const struct loading *by;
};

/* A thread's own. */
struct loading {
	struct kind_table *call_table, *span_table;
	VEC(struct timeline_call_kind) call_kinds;
	VEC(struct timeline_kind) span_kinds;
	uint32_t first_call_kind, first_span_kind; /* in the timeline's, at the end */
	VEC(struct idle_call) idle;
	gpu_kept_t kept; /* what makes graphs */
};

struct loader {
	struct row_visitor visitor;
	struct timeline_job *job;
	void (*done)(struct timeline_job *job);
	struct loaded_block *calls, *spans; /* by block */
	size_t ncalls, nspans;
};

/* ---- calls ---- */

static bool is_wanted(uint8_t role)
{
	return role == GPU_LAUNCH || role == GPU_GRAPH_LAUNCH || role == GPU_COPY ||
	       role == GPU_SET || role == GPU_SYNC || role == GPU_COLLECTIVE || role == GPU_P2P ||
	       role == GPU_NCCL_GROUP;
}

enum match_class timeline_class(uint8_t role)
{
	switch (role) {
	case GPU_LAUNCH:
		return MATCH_LAUNCH;
	case GPU_GRAPH_LAUNCH:
		return MATCH_GRAPH;
	case GPU_COPY:
		return MATCH_COPY;
	case GPU_SET:
		return MATCH_SET;
	default:
		return MATCH_NO_CLASS;
	}
}

static int32_t partner_of(const struct gpu_probe *p, const struct m_call *c)
{
	if (gpu_has_arg(p, c, GPU_ARG_PEER))
		return (int32_t)gpu_arg(p, c, GPU_ARG_PEER);
	return gpu_has_arg(p, c, GPU_ARG_ROOT) ? (int32_t)gpu_arg(p, c, GPU_ARG_ROOT) : INT32_MIN;
}

/* Whether the call has a row; keeps what else is to be known of it. */
static bool look_at_call(const struct loader *l, struct loading *w, const struct m_call *c,
			 uint64_t order)
{
	const struct timeline *t = l->job->t;
	const struct gpu_probe *p = &t->probes.rows[c->probe];
	uint32_t pid = t->tables->threads.data[c->thread].pid;
	struct gpu_kept k;
	if (p->role == GPU_NO_ROLE || (l->job->o.pid && pid != l->job->o.pid))
		return false;
	if (p->role >= GPU_CAPTURE_BEGIN && gpu_keep(&k, p, c, order))
		*vec_push(&w->kept) = k;
	if (timeline_class(p->role) != MATCH_NO_CLASS && c->flags & CALL_ERROR)
		*vec_push(&w->idle) = (struct idle_call){c->start_ns, pid};
	return is_wanted(p->role) && !(c->flags & CALL_ERROR);
}

static uint32_t kind_of_call(const struct loader *l, struct loading *w, const struct m_call *c)
{
	const struct timeline *t = l->job->t;
	const struct gpu_probe *p = &t->probes.rows[c->probe];
	struct timeline_call_kind kind = {
		.stream = gpu_arg(p, c, GPU_ARG_STREAM),
		.bytes = gpu_arg(p, c, GPU_ARG_BYTES),
		.comm = gpu_arg(p, c, GPU_ARG_COMM),
		.sequence = gpu_arg(p, c, GPU_ARG_SEQUENCE),
		.grid = gpu_arg(p, c, GPU_ARG_GRID),
		.block = gpu_arg(p, c, GPU_ARG_BLOCK),
		.pid = t->tables->threads.data[c->thread].pid,
		.thread = c->thread,
		.probe = c->probe,
		.stack = c->stack,
		.name = p->role == GPU_LAUNCH ? (uint32_t)gpu_arg(p, c, GPU_ARG_KERNEL) : 0,
		.partner = partner_of(p, c),
		.datatype = gpu_has_arg(p, c, GPU_ARG_DATATYPE)
				    ? (int16_t)gpu_arg(p, c, GPU_ARG_DATATYPE)
				    : -1,
		.role = p->role,
		.flags = c->flags,
	};
	_Static_assert(sizeof(kind) == 80, "a kind has no padding");
	return kind_number(w->call_table, (struct row_vec *)&w->call_kinds, &kind, sizeof(kind));
}

static void load_calls(const struct loader *l, struct loading *w, const struct visited_rows *rows)
{
	const struct m_call *calls = rows->rows;
	VEC(uint32_t) wanted = {0};
	for (size_t i = 0; i < rows->len; i++)
		if (look_at_call(l, w, &calls[i], (uint64_t)rows->block << 32 | i))
			*vec_push(&wanted) = (uint32_t)i;
	struct timeline_call *to = xrealloc(NULL, wanted.len + 1, sizeof(*to));
	for (size_t i = 0; i < wanted.len; i++) {
		const struct m_call *c = &calls[wanted.data[i]];
		to[i] = (struct timeline_call){.start_ns = c->start_ns,
					       .end_ns = c->start_ns + c->dur_ns,
					       .kind = kind_of_call(l, w, c),
					       .parent = TIMELINE_NONE};
	}
	l->calls[rows->block] = (struct loaded_block){to, wanted.len, w};
	vec_free(&wanted);
}

static int compare_calls(const void *a, const void *b, void *arg)
{
	const struct timeline_call *x = a, *y = b;
	const struct timeline_call_kind *kinds = arg;
	const struct timeline_call_kind *kx = &kinds[x->kind], *ky = &kinds[y->kind];
	if (kx->pid != ky->pid)
		return kx->pid < ky->pid ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (kx->thread != ky->thread)
		return kx->thread < ky->thread ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns; /* the outer one first */
}

static int compare_idle(const void *a, const void *b)
{
	const struct idle_call *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static struct gpu_graphs *make_graphs(const struct timeline *t, struct loading *states, size_t n)
{
	gpu_kept_t kept = {0};
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < states[i].kept.len; k++)
			*vec_push(&kept) = states[i].kept.data[k];
		vec_free(&states[i].kept);
	}
	gpu_kept_sort(&kept);
	struct gpu_graphs *graphs = gpu_graphs_new(t->tables, &t->probes, &kept);
	vec_free(&kept);
	return graphs;
}

static bool is_captured(const struct timeline *t, const struct gpu_graphs *graphs,
			const struct timeline_call *c)
{
	const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
	const struct gpu_probe *p = &t->probes.rows[k->probe];
	if ((timeline_class(k->role) == MATCH_NO_CLASS && !timeline_moves_data(k->role)) ||
	    p->arg[GPU_ARG_STREAM] < 0)
		return false;
	return gpu_graphs_capture(graphs, k->pid, gpu_stream_of(p, k->stream, k->thread),
				  c->start_ns) != GPU_NONE;
}

static void add_call(struct timeline_job *job, const struct gpu_graphs *graphs,
		     struct timeline_call *c)
{
	struct timeline *t = job->t;
	const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
	c->captured = is_captured(t, graphs, c);
	if (!c->captured || timeline_moves_data(k->role))
		t->calls.data[t->calls.len++] = *c;
	else
		*vec_push(&job->idle) = (struct idle_call){c->start_ns, k->pid};
}

static void put_calls_together(struct loader *l, struct loading *states, size_t n)
{
	struct timeline *t = l->job->t;
	size_t total = 0;
	for (size_t b = 0; b < l->ncalls; b++)
		total += l->calls[b].len;
	t->calls.data = total ? xrealloc(NULL, total, sizeof(*t->calls.data)) : NULL;
	t->calls.cap = total;
	struct gpu_graphs *graphs = make_graphs(t, states, n);
	for (size_t b = 0; b < l->ncalls; b++) {
		struct timeline_call *rows = l->calls[b].rows;
		for (size_t i = 0; i < l->calls[b].len; i++) {
			rows[i].kind += l->calls[b].by->first_call_kind;
			add_call(l->job, graphs, &rows[i]);
		}
		free(rows);
	}
	gpu_graphs_free(graphs);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < states[i].idle.len; k++)
			*vec_push(&l->job->idle) = states[i].idle.data[k];
	sort_runs(t->calls.data, t->calls.len, sizeof(*t->calls.data), compare_calls,
		  t->call_kinds.data);
	if (l->job->idle.len)
		qsort(l->job->idle.data, l->job->idle.len, sizeof(*l->job->idle.data),
		      compare_idle);
}

/* ---- spans ---- */

static uint32_t kind_of_span(struct loading *w, const struct m_gpu_span *row, uint64_t called_ns)
{
	struct timeline_kind kind = {
		.bytes = row->bytes,
		.grid = row->grid,
		.block = row->block,
		.called_ns = called_ns,
		.pid = row->pid,
		.device = row->device,
		.context = row->context,
		.stream = row->stream,
		.name = row->name,
		.called_tid = row->called_tid,
		.work = row->work,
		.copy_kind = row->copy_kind,
		.source_kind = row->source_kind,
		.destination_kind = row->destination_kind,
		.async = row->async,
		.of_graph = row->graph_node || row->work == WORK_GRAPH,
	};
	_Static_assert(sizeof(kind) == 64, "a kind has no padding");
	return kind_number(w->span_table, (struct row_vec *)&w->span_kinds, &kind, sizeof(kind));
}

static struct timeline_span loaded_span(struct loading *w, const struct m_gpu_span *row)
{
	uint64_t before_ns = row->start_ns - row->called_ns; /* large if it was called later */
	bool near = row->called_ns && before_ns < UINT32_MAX;
	return (struct timeline_span){
		.start_ns = row->start_ns,
		.end_ns = row->end_ns,
		.correlation = row->correlation,
		.call = TIMELINE_NONE,
		.kind = kind_of_span(w, row, near ? 0 : row->called_ns),
		.called_before = near ? (uint32_t)before_ns + 1 : 0,
	};
}

static void load_spans(const struct loader *l, struct loading *w, const struct visited_rows *rows)
{
	const struct m_gpu_span *spans = rows->rows;
	uint32_t pid = l->job->o.pid;
	struct timeline_span *to = xrealloc(NULL, rows->len + 1, sizeof(*to));
	size_t n = 0;
	for (size_t i = 0; i < rows->len; i++)
		if (!pid || spans[i].pid == pid)
			to[n++] = loaded_span(w, &spans[i]);
	l->spans[rows->block] = (struct loaded_block){to, n, w};
}

static int compare_spans(const void *a, const void *b, void *arg)
{
	const struct timeline_span *x = a, *y = b;
	const struct timeline_kind *kinds = arg;
	uint32_t pid = kinds[x->kind].pid, other = kinds[y->kind].pid;
	if (pid != other)
		return pid < other ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

static void put_spans_together(struct loader *l)
{
	struct timeline *t = l->job->t;
	size_t total = 0;
	for (size_t b = 0; b < l->nspans; b++)
		total += l->spans[b].len;
	vec_reserve(&t->spans, total + 1);
	for (size_t b = 0; b < l->nspans; b++) {
		struct timeline_span *rows = l->spans[b].rows;
		for (size_t i = 0; i < l->spans[b].len && t->spans.len < TIMELINE_NONE; i++) {
			rows[i].kind += l->spans[b].by->first_span_kind;
			t->spans.data[t->spans.len++] = rows[i];
		}
		free(rows);
	}
	sort_runs(t->spans.data, t->spans.len, sizeof(*t->spans.data), compare_spans,
		  t->kinds.data);
}

/* ---- all of it ---- */

static void load_rows(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	const struct loader *l = (const struct loader *)v;
	struct loading *w = state;
	if (rows->kind == ROW_CALL) {
		if (!w->call_table)
			w->call_table = xcalloc(1, sizeof(*w->call_table));
		load_calls(l, w, rows);
	} else {
		if (!w->span_table)
			w->span_table = xcalloc(1, sizeof(*w->span_table));
		load_spans(l, w, rows);
	}
}

/* Each thread's kinds behind those of the threads before. */
static void put_kinds_together(struct timeline *t, struct loading *states, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct loading *w = &states[i];
		w->first_call_kind = (uint32_t)t->call_kinds.len;
		w->first_span_kind = (uint32_t)t->kinds.len;
		for (size_t k = 0; k < w->call_kinds.len; k++)
			*vec_push(&t->call_kinds) = w->call_kinds.data[k];
		for (size_t k = 0; k < w->span_kinds.len; k++)
			*vec_push(&t->kinds) = w->span_kinds.data[k];
		vec_free(&w->call_kinds);
		vec_free(&w->span_kinds);
		free(w->call_table);
		free(w->span_table);
	}
}

static void end_loading(struct row_visitor *v, void *states, size_t n)
{
	struct loader *l = (struct loader *)v;
	struct loading *loadings = states;
	put_kinds_together(l->job->t, loadings, n);
	put_calls_together(l, loadings, n);
	put_spans_together(l);
	for (size_t i = 0; i < n; i++)
		vec_free(&loadings[i].idle);
	l->done(l->job);
	free(l->calls);
	free(l->spans);
	free(l);
}

struct row_visitor *timeline_loader(struct timeline_job *job, const struct row_source *s,
				    void (*done)(struct timeline_job *job))
{
	bool calls = s->tables->gpu_spans || job->t->probes.any;
	struct loader *l = xcalloc(1, sizeof(*l));
	*l = (struct loader){
		.visitor = {.kinds = (calls ? 1u << ROW_CALL : 0) | 1u << ROW_GPU_SPAN,
			    .state_bytes = sizeof(struct loading),
			    .rows = load_rows,
			    .end = end_loading},
		.job = job,
		.done = done,
		.ncalls = s->blocks(s->ctx, ROW_CALL),
		.nspans = s->blocks(s->ctx, ROW_GPU_SPAN),
	};
	l->calls = xcalloc(l->ncalls + 1, sizeof(*l->calls));
	l->spans = xcalloc(l->nspans + 1, sizeof(*l->spans));
	return &l->visitor;
}

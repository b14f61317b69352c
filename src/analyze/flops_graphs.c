/* flops_graphs.c - the work of CUDA graphs: calls whose launches were captured, as often as graphs
 * that hold the capture are launched.
 *
 * gpu_graphs.h knows which capture a launch belongs to and what each graph is made of. It adds up
 * what captures hold without regard to what that is: here it is operations. */
#include <string.h>

#include "analyze/flops_impl.h"
#include "analyze/gpu_graphs.h"
#include "analyze/gpu_kept.h"
#include "wire/event.h"

/* A launch of a kernel inside of a counted call, or of a graph. */
struct graph_call {
	uint64_t start_ns;
	uint64_t exec;
	struct gpu_stream stream;
	uint32_t thread;
	bool of_graph;
	bool has_stream;
};

struct found_calls {
	gpu_kept_t kept;
	VEC(struct graph_call) calls;
};

struct work {
	struct job *j;
	struct gpu_graphs *graphs;
	uint64_t *launches;	   /* by number of the executable graph */
	struct gpu_tally captured; /* calls: of the operator; bytes: operations */
	struct gpu_tally ran;
};

/* Goes through the calls again: only now is known which launches are of interest. */
struct graphs_visitor {
	struct row_visitor visitor;
	struct work *work;
};

static uint32_t pid_of(const struct job *j, uint32_t thread)
{
	return j->t->threads.data[thread].pid;
}

static void look_at_call(const struct job *j, struct found_calls *w, const struct m_call *c,
			 uint64_t order)
{
	const struct gpu_probe *p = &j->timeline->probes.rows[c->probe];
	struct gpu_kept kept;
	if (j->o.pid && pid_of(j, c->thread) != j->o.pid)
		return;
	if (p->role >= GPU_CAPTURE_BEGIN && gpu_keep(&kept, p, c, order))
		*vec_push(&w->kept) = kept;
	bool of_graph = p->role == GPU_GRAPH_LAUNCH;
	if (c->flags & CALL_ERROR || (!of_graph && p->role != GPU_LAUNCH))
		return;
	if (!of_graph && !flops_find_call(j, c->thread, c->start_ns))
		return;
	*vec_push(&w->calls) = (struct graph_call){
		.start_ns = c->start_ns,
		.exec = gpu_arg(p, c, GPU_ARG_GRAPH_EXEC),
		.stream = gpu_stream_of(p, gpu_arg(p, c, GPU_ARG_STREAM), c->thread),
		.thread = c->thread,
		.of_graph = of_graph,
		.has_stream = gpu_has_arg(p, c, GPU_ARG_STREAM),
	};
}

static void visit_rows(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	const struct graphs_visitor *g = (const struct graphs_visitor *)v;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		look_at_call(g->work->j, state, &calls[i], (uint64_t)rows->block << 32 | i);
}

/* ---- launches ---- */

static uint32_t capture_of(const struct work *w, const struct graph_call *c)
{
	if (!c->has_stream)
		return GPU_NONE;
	return gpu_graphs_capture(w->graphs, pid_of(w->j, c->thread), c->stream, c->start_ns);
}

static void add_graph_launch(struct work *w, const struct graph_call *c)
{
	struct job *j = w->j;
	uint32_t capture = capture_of(w, c);
	uint32_t exec = gpu_graphs_exec(w->graphs, pid_of(j, c->thread), c->exec, c->start_ns);
	if (capture != GPU_NONE) {
		if (exec != GPU_NONE)
			gpu_tally_at(&w->captured, (struct gpu_key){GPU_PIECE_EXEC, exec, capture})
				->calls++;
		return;
	}
	if (!flops_in_range(j, c->start_ns))
		return;
	j->f->graph_launches++;
	j->f->graph_unknown += exec == GPU_NONE;
	if (exec == GPU_NONE)
		return;
	w->launches[exec]++;
	j->first_ns = c->start_ns < j->first_ns ? c->start_ns : j->first_ns;
	j->last_ns = c->start_ns > j->last_ns ? c->start_ns : j->last_ns;
}

static void add_launch(struct work *w, const struct graph_call *c)
{
	if (c->of_graph) {
		add_graph_launch(w, c);
		return;
	}
	struct work_call *call = flops_find_call(w->j, c->thread, c->start_ns);
	uint32_t capture = capture_of(w, c);
	if (call && capture != GPU_NONE)
		call->capture = capture;
}

/* ---- sums ---- */

/* Rows of one operator and format: model operations, and those of the hardware. */
static uint64_t row_key(const struct work_call *c, bool hardware)
{
	return ((uint64_t)c->probe << 8 | c->work.format) << 1 | hardware;
}

static void add_captured(struct work *w, const struct work_call *c, bool hardware)
{
	struct gpu_tally_row *row = gpu_tally_at(
		&w->captured, (struct gpu_key){GPU_PIECE_KERNEL, row_key(c, hardware), c->capture});
	row->calls++;
	row->bytes += (uint64_t)(hardware ? c->work.hardware : c->work.model);
}

static void sum_captured(struct work *w)
{
	const work_calls_t *calls = &w->j->calls;
	for (size_t i = 0; i < calls->len; i++) {
		if (calls->data[i].capture == NO_CAPTURE)
			continue;
		add_captured(w, &calls->data[i], false);
		add_captured(w, &calls->data[i], true);
	}
	gpu_graphs_sum(w->graphs, w->launches, &w->captured, &w->ran);
}

/* What ran: of each operator first the one row, then the other. */
static void add_rows(struct work *w)
{
	struct job *j = w->j;
	for (size_t i = 0; i < w->ran.rows.len; i++) {
		const struct gpu_tally_row *ran = &w->ran.rows.data[i];
		uint64_t b = ran->key.b;
		if (ran->key.a != GPU_PIECE_KERNEL || b & 1)
			continue;
		uint32_t probe = (uint32_t)(b >> 9);
		struct flops_row *row = vec_push(&j->f->graphs);
		*row = (struct flops_row){
			.name = strtab_get(&j->t->strings, j->t->probes.data[probe].name, NULL),
			.kind = j->probes[probe].kind,
			.format = (uint8_t)(b >> 1),
			.calls = ran->calls,
			.model = (double)ran->bytes,
		};
		struct gpu_key other = {GPU_PIECE_KERNEL, b | 1, 0};
		row->hardware = (double)gpu_tally_at(&w->ran, other)->bytes;
		j->f->graph_model += row->model;
		flops_add_work(j->f, row->format, row->model, row->hardware);
	}
}

/* ---- all of it ---- */

static bool any_graphs(const struct timeline *t)
{
	for (size_t i = 0; i < t->calls.len; i++)
		if (timeline_call_kind_of(t, &t->calls.data[i])->role == GPU_GRAPH_LAUNCH)
			return true;
	return false;
}

static struct gpu_graphs *make_graphs(const struct job *j, struct found_calls *found, size_t n)
{
	gpu_kept_t kept = {0};
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < found[i].kept.len; k++)
			*vec_push(&kept) = found[i].kept.data[k];
		vec_free(&found[i].kept);
	}
	gpu_kept_sort(&kept);
	struct gpu_graphs *graphs = gpu_graphs_new(j->t, &j->timeline->probes, &kept);
	vec_free(&kept);
	return graphs;
}

static void end_visit(struct row_visitor *v, void *states, size_t n)
{
	struct work *w = ((struct graphs_visitor *)v)->work;
	struct found_calls *found = states;
	w->graphs = make_graphs(w->j, found, n);
	w->launches = xcalloc(gpu_graphs_execs(w->graphs) + 1, sizeof(*w->launches));
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < found[i].calls.len; k++)
			add_launch(w, &found[i].calls.data[k]);
		vec_free(&found[i].calls);
	}
	sum_captured(w);
	add_rows(w);
	gpu_graphs_free(w->graphs);
	gpu_tally_free(&w->captured);
	gpu_tally_free(&w->ran);
	free(w->launches);
}

void flops_graphs_add(struct job *j, const struct row_source *s)
{
	struct work w = {.j = j};
	struct graphs_visitor g = {.visitor = {.kinds = 1u << ROW_CALL,
					       .state_bytes = sizeof(struct found_calls),
					       .rows = visit_rows,
					       .end = end_visit},
				   .work = &w};
	struct row_visitor *v = &g.visitor;
	if (any_graphs(j->timeline))
		rows_visit(s, &v, 1, NULL);
}

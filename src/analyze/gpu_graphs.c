/* gpu_graphs.c - captures, graphs and executable graphs, over time.
 *
 * CUDA C++ Programming Guide, "CUDA Graphs": between the begin and the end of a capture, work
 * on the stream becomes nodes. Another stream joins when it waits for an event that was
 * recorded on a captured stream, until the capture ends. Instantiating copies the graph as
 * it is then; a child node copies the child. */
#include "analyze/gpu_graphs.h"

struct window { /* a stream is being captured in [start_ns, end_ns) */
	uint32_t pid;
	struct gpu_stream stream;
	uint64_t start_ns, end_ns;
	uint32_t capture;
};

/* Something is being captured in the process in [start_ns, end_ns]; spans do not overlap. */
struct capture_span {
	uint32_t pid;
	uint64_t start_ns, end_ns;
};

struct exec_life {
	uint32_t pid;
	uint32_t exec;
	uint64_t handle;
	uint64_t from_ns, to_ns;
};

struct open_window {
	struct gpu_stream stream;
	size_t window;
	bool origin;	/* capture_begin was called on it */
	uint64_t graph; /* that the capture adds to, 0 = a new one */
};

/* What is going on in one process. */
struct process {
	uint32_t pid;
	VEC(struct open_window) open;
	struct map64 events; /* event -> capture that it was recorded in */
	struct map64 graphs; /* handle -> index into gpu_graphs.graphs */
	struct map64 execs;  /* handle -> index into gpu_graphs.lives */
};

struct gpu_graphs {
	const struct rec_tables *t;
	VEC(struct process) processes;
	struct map64 by_pid;
	VEC(struct window) windows;
	VEC(struct capture_span) spans;
	VEC(struct exec_life) lives;
	VEC(struct gpu_tally) graphs; /* rows: a: piece, b: which; calls: how many, bytes */
	VEC(struct gpu_tally) execs;
	uint32_t captures;
};

static struct process *process_of(struct gpu_graphs *g, uint32_t pid)
{
	uint64_t at;
	if (!map64_get(&g->by_pid, pid, &at)) {
		at = g->processes.len;
		map64_set(&g->by_pid, pid, at);
		((struct process *)vec_push(&g->processes))->pid = pid;
	}
	return &g->processes.data[at];
}

/* ---- captures ---- */

static struct open_window *find_open(struct process *p, struct gpu_stream stream)
{
	for (size_t i = 0; i < p->open.len; i++)
		if (p->open.data[i].stream.handle == stream.handle &&
		    p->open.data[i].stream.thread == stream.thread)
			return &p->open.data[i];
	return NULL;
}

static void window_open(struct gpu_graphs *g, struct process *p, struct gpu_stream stream,
			uint32_t capture, const struct gpu_kept *k, bool origin)
{
	struct open_window *o = vec_push(&p->open);
	*o = (struct open_window){.stream = stream, .window = g->windows.len, .origin = origin};
	if (origin)
		o->graph = k->v[1];
	*vec_push(&g->windows) = (struct window){.pid = p->pid,
						 .stream = stream,
						 .start_ns = k->time_ns,
						 .end_ns = UINT64_MAX,
						 .capture = capture};
}

/* All streams that joined the capture leave it. */
static void capture_close(struct gpu_graphs *g, struct process *p, uint32_t capture,
			  uint64_t time_ns)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->open.len; i++) {
		struct window *w = &g->windows.data[p->open.data[i].window];
		if (w->capture == capture)
			w->end_ns = time_ns;
		else
			p->open.data[kept++] = p->open.data[i];
	}
	p->open.len = kept;
}

static void capture_begin(struct gpu_graphs *g, struct process *p, struct gpu_stream stream,
			  const struct gpu_kept *k)
{
	struct open_window *before = find_open(p, stream);
	if (before) /* its end was not seen */
		capture_close(g, p, g->windows.data[before->window].capture, k->time_ns);
	window_open(g, p, stream, g->captures++, k, true);
}

static struct gpu_tally *graph_new(struct gpu_graphs *g, struct process *p, uint64_t handle)
{
	map64_set(&p->graphs, handle, g->graphs.len);
	return vec_push(&g->graphs);
}

static struct gpu_tally *graph_of(struct gpu_graphs *g, struct process *p, uint64_t handle)
{
	uint64_t at;
	if (map64_get(&p->graphs, handle, &at))
		return &g->graphs.data[at];
	return graph_new(g, p, handle);
}

static void add_piece(struct gpu_tally *t, enum gpu_piece piece, uint64_t which, uint64_t bytes)
{
	struct gpu_tally_row *row = gpu_tally_at(t, (struct gpu_key){piece, which, 0});
	row->calls++;
	row->bytes += bytes;
}

static void capture_end(struct gpu_graphs *g, struct process *p, struct gpu_stream stream,
			const struct gpu_kept *k)
{
	const struct open_window *o = find_open(p, stream);
	if (!o || !o->origin)
		return;
	uint32_t capture = g->windows.data[o->window].capture;
	bool adds = o->graph && o->graph == k->v[1];
	capture_close(g, p, capture, k->time_ns);
	if (k->failed || !k->v[1])
		return;
	add_piece(adds ? graph_of(g, p, k->v[1]) : graph_new(g, p, k->v[1]), GPU_PIECE_CAPTURE,
		  capture, 0);
}

static void event_record(struct gpu_graphs *g, struct process *p, struct gpu_stream stream,
			 const struct gpu_kept *k)
{
	const struct open_window *o = find_open(p, stream);
	if (o)
		map64_set(&p->events, k->v[0], g->windows.data[o->window].capture);
	else
		map64_del(&p->events, k->v[0]);
}

static void event_wait(struct gpu_graphs *g, struct process *p, struct gpu_stream stream,
		       const struct gpu_kept *k)
{
	uint64_t capture;
	if (!map64_get(&p->events, k->v[0], &capture) || find_open(p, stream))
		return;
	for (size_t i = 0; i < p->open.len; i++)
		if (g->windows.data[p->open.data[i].window].capture == capture) {
			window_open(g, p, stream, (uint32_t)capture, k, false);
			return;
		}
}

/* ---- graphs ---- */

static void exec_end(struct gpu_graphs *g, struct process *p, uint64_t handle, uint64_t time_ns)
{
	uint64_t at;
	if (map64_get(&p->execs, handle, &at))
		g->lives.data[at].to_ns = time_ns;
	map64_del(&p->execs, handle);
}

static void instantiate(struct gpu_graphs *g, struct process *p, const struct gpu_kept *k)
{
	uint64_t at;
	exec_end(g, p, k->v[0], k->time_ns);
	if (!k->v[0] || !map64_get(&p->graphs, k->v[1], &at))
		return; /* of a graph whose making was not seen */
	map64_set(&p->execs, k->v[0], g->lives.len);
	*vec_push(&g->lives) = (struct exec_life){.pid = p->pid,
						  .exec = (uint32_t)g->execs.len,
						  .handle = k->v[0],
						  .from_ns = k->time_ns,
						  .to_ns = UINT64_MAX};
	gpu_tally_add(vec_push(&g->execs), &g->graphs.data[at], 1);
}

static void copy_graph(struct gpu_graphs *g, struct process *p, uint64_t to, uint64_t from,
		       bool replaces)
{
	uint64_t at;
	if (!map64_get(&p->graphs, from, &at))
		return;
	struct gpu_tally *t = replaces ? graph_new(g, p, to) : graph_of(g, p, to);
	gpu_tally_add(t, &g->graphs.data[at], 1);
}

/* CUgraphNodeType of cuda.h. Child graphs that are added this way are not followed. */
enum { NODE_KERNEL, NODE_COPY, NODE_SET };

static void add_node(struct gpu_tally *graph, uint64_t type, uint64_t kernel, uint64_t bytes)
{
	if (type == NODE_KERNEL)
		add_piece(graph, GPU_PIECE_KERNEL, kernel, 0);
	else if (type == NODE_COPY)
		add_piece(graph, GPU_PIECE_COPY, gpu_copy_cell(false, GPU_UNIFIED, true), bytes);
	else if (type == NODE_SET)
		add_piece(graph, GPU_PIECE_COPY, gpu_copy_cell(true, 0, true), bytes);
}

static void graph_forget(struct process *p, uint64_t handle)
{
	map64_del(&p->graphs, handle);
}

static void take(struct gpu_graphs *g, const struct gpu_probe *probe, const struct gpu_kept *k)
{
	struct process *p = process_of(g, g->t->threads.data[k->thread].pid);
	bool of_event = k->role == GPU_EVENT_RECORD || k->role == GPU_EVENT_WAIT;
	struct gpu_stream stream = gpu_stream_of(probe, k->v[of_event], k->thread);
	switch (k->role) {
	case GPU_CAPTURE_BEGIN:
		capture_begin(g, p, stream, k);
		break;
	case GPU_CAPTURE_END:
		capture_end(g, p, stream, k);
		break;
	case GPU_EVENT_RECORD:
		event_record(g, p, stream, k);
		break;
	case GPU_EVENT_WAIT:
		event_wait(g, p, stream, k);
		break;
	case GPU_GRAPH_CREATE:
		(void)graph_new(g, p, k->v[0]);
		break;
	case GPU_GRAPH_DESTROY:
		graph_forget(p, k->v[0]);
		break;
	case GPU_GRAPH_INSTANTIATE:
		instantiate(g, p, k);
		break;
	case GPU_GRAPH_EXEC_DESTROY:
		exec_end(g, p, k->v[0], k->time_ns);
		break;
	case GPU_GRAPH_NODE:
		add_node(graph_of(g, p, k->v[0]), k->v[1], 0, 0);
		break;
	case GPU_GRAPH_KERNEL_NODE:
		add_node(graph_of(g, p, k->v[0]), NODE_KERNEL, k->v[1], 0);
		break;
	case GPU_GRAPH_COPY_NODE:
		add_node(graph_of(g, p, k->v[0]), NODE_COPY, 0, k->v[1]);
		break;
	case GPU_GRAPH_SET_NODE:
		add_node(graph_of(g, p, k->v[0]), NODE_SET, 0, k->v[1]);
		break;
	case GPU_GRAPH_CHILD_NODE:
		copy_graph(g, p, k->v[0], k->v[1], false);
		break;
	case GPU_GRAPH_CLONE:
		copy_graph(g, p, k->v[0], k->v[1], true);
		break;
	default: /* memory */
		break;
	}
}

static int compare_windows(const void *a, const void *b)
{
	const struct window *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->stream.handle != y->stream.handle)
		return x->stream.handle < y->stream.handle ? -1 : 1;
	if (x->stream.thread != y->stream.thread)
		return x->stream.thread < y->stream.thread ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static int compare_lives(const void *a, const void *b)
{
	const struct exec_life *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->handle != y->handle)
		return x->handle < y->handle ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static int compare_spans(const void *a, const void *b)
{
	const struct capture_span *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* The windows of all streams of a process, joined where they overlap. */
static void make_spans(struct gpu_graphs *g)
{
	for (size_t i = 0; i < g->windows.len; i++) {
		const struct window *w = &g->windows.data[i];
		*(struct capture_span *)vec_push(&g->spans) =
			(struct capture_span){w->pid, w->start_ns, w->end_ns};
	}
	if (!g->spans.len)
		return;
	qsort(g->spans.data, g->spans.len, sizeof(*g->spans.data), compare_spans);
	size_t last = 0;
	for (size_t i = 1; i < g->spans.len; i++) {
		struct capture_span *to = &g->spans.data[last];
		const struct capture_span *from = &g->spans.data[i];
		if (from->pid != to->pid || from->start_ns > to->end_ns)
			g->spans.data[++last] = *from;
		else if (from->end_ns > to->end_ns)
			to->end_ns = from->end_ns;
	}
	g->spans.len = last + 1;
}

struct gpu_graphs *gpu_graphs_new(const struct rec_tables *t, const struct gpu_probes *probes,
				  const gpu_kept_t *kept)
{
	struct gpu_graphs *g = xcalloc(1, sizeof(*g));
	g->t = t;
	for (size_t i = 0; i < kept->len; i++)
		if (kept->data[i].role >= GPU_CAPTURE_BEGIN)
			take(g, &probes->rows[kept->data[i].probe], &kept->data[i]);
	if (g->windows.len)
		qsort(g->windows.data, g->windows.len, sizeof(*g->windows.data), compare_windows);
	if (g->lives.len)
		qsort(g->lives.data, g->lives.len, sizeof(*g->lives.data), compare_lives);
	make_spans(g);
	return g;
}

void gpu_graphs_free(struct gpu_graphs *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->processes.len; i++) {
		struct process *p = &g->processes.data[i];
		vec_free(&p->open);
		map64_free(&p->events);
		map64_free(&p->graphs);
		map64_free(&p->execs);
	}
	for (size_t i = 0; i < g->graphs.len; i++)
		gpu_tally_free(&g->graphs.data[i]);
	for (size_t i = 0; i < g->execs.len; i++)
		gpu_tally_free(&g->execs.data[i]);
	vec_free(&g->processes);
	vec_free(&g->windows);
	vec_free(&g->spans);
	vec_free(&g->lives);
	vec_free(&g->graphs);
	vec_free(&g->execs);
	map64_free(&g->by_pid);
	free(g);
}

/* ---- look-ups ---- */

uint32_t gpu_graphs_captures(const struct gpu_graphs *g)
{
	return g->captures;
}

uint32_t gpu_graphs_execs(const struct gpu_graphs *g)
{
	return (uint32_t)g->execs.len;
}

bool gpu_graphs_capturing(const struct gpu_graphs *g, uint32_t pid, uint64_t from_ns,
			  uint64_t to_ns)
{
	const struct capture_span key = {.pid = pid, .start_ns = to_ns};
	size_t low = 0, high = g->spans.len;
	while (low < high) { /* the first that is after the time */
		size_t mid = low + (high - low) / 2;
		if (compare_spans(&g->spans.data[mid], &key) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low && g->spans.data[low - 1].pid == pid && g->spans.data[low - 1].end_ns >= from_ns;
}

uint32_t gpu_graphs_capture(const struct gpu_graphs *g, uint32_t pid, struct gpu_stream stream,
			    uint64_t time_ns)
{
	const struct window key = {.pid = pid, .stream = stream, .start_ns = time_ns};
	size_t low = 0, high = g->windows.len;
	while (low < high) { /* the first that is after the key */
		size_t mid = low + (high - low) / 2;
		if (compare_windows(&g->windows.data[mid], &key) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return GPU_NONE;
	const struct window *w = &g->windows.data[low - 1];
	bool same = w->pid == pid && w->stream.handle == stream.handle &&
		    w->stream.thread == stream.thread;
	return same && time_ns < w->end_ns ? w->capture : GPU_NONE;
}

uint32_t gpu_graphs_exec(const struct gpu_graphs *g, uint32_t pid, uint64_t handle,
			 uint64_t time_ns)
{
	const struct exec_life key = {.pid = pid, .handle = handle, .from_ns = time_ns};
	size_t low = 0, high = g->lives.len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (compare_lives(&g->lives.data[mid], &key) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return GPU_NONE;
	const struct exec_life *e = &g->lives.data[low - 1];
	bool same = e->pid == pid && e->handle == handle;
	return same && time_ns < e->to_ns ? e->exec : GPU_NONE;
}

/* ---- sums ---- */

/* What each capture got. */
typedef VEC(uint32_t) row_numbers_t;

static row_numbers_t *rows_by_capture(const struct gpu_graphs *g, const struct gpu_tally *captured)
{
	row_numbers_t *by_capture = xcalloc(g->captures + 1, sizeof(*by_capture));
	for (size_t i = 0; i < captured->rows.len; i++) {
		uint64_t capture = captured->rows.data[i].key.c;
		if (capture < g->captures)
			*vec_push(&by_capture[capture]) = (uint32_t)i;
	}
	return by_capture;
}

static void add_run(struct gpu_tally *ret, const struct gpu_tally_row *what, uint64_t runs)
{
	struct gpu_tally_row *row =
		gpu_tally_at(ret, (struct gpu_key){what->key.a, what->key.b, 0});
	row->calls += what->calls * runs;
	row->bytes += what->bytes * runs;
}

void gpu_graphs_sum(const struct gpu_graphs *g, const uint64_t *launches,
		    const struct gpu_tally *captured, struct gpu_tally *ret)
{
	row_numbers_t *by_capture = rows_by_capture(g, captured);
	uint64_t *runs = xcalloc(g->execs.len + 1, sizeof(*runs));
	memcpy(runs, launches, g->execs.len * sizeof(*runs));
	/* A graph that another one launches was made before it: from the last to the first, all
	 * runs of a graph are known when its turn comes. */
	for (size_t e = g->execs.len; e-- > 0;) {
		const struct gpu_tally *content = &g->execs.data[e];
		for (size_t i = 0; runs[e] && i < content->rows.len; i++) {
			const struct gpu_tally_row *piece = &content->rows.data[i];
			if (piece->key.a != GPU_PIECE_CAPTURE) {
				add_run(ret, piece, runs[e]);
				continue;
			}
			const row_numbers_t *got = &by_capture[piece->key.b];
			uint64_t times = runs[e] * piece->calls;
			for (size_t k = 0; k < got->len; k++) {
				const struct gpu_tally_row *row =
					&captured->rows.data[got->data[k]];
				if (row->key.a != GPU_PIECE_EXEC)
					add_run(ret, row, times);
				else if (row->key.b < e)
					runs[row->key.b] += row->calls * times;
			}
		}
	}
	for (uint32_t i = 0; i < g->captures; i++)
		vec_free(&by_capture[i]);
	free(by_capture);
	free(runs);
}

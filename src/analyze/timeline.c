/* timeline.c - loads calls and spans and puts them together; timeline_match.c finds which belong
 * to which. Draws no conclusions. */
#include "analyze/timeline.h"

#include <string.h>

#include <linux/types.h>

#include "analyze/call_blocks.h"
#include "analyze/gpu_graphs.h"
#include "analyze/gpu_kept.h"
#include "analyze/timeline_match.h"
#include "analyze/timeline_spans.h"
#include "base/kernel_name.h"
#include "base/map64.h"
#include "wire/event.h"

struct job {
	struct timeline *t;
	const struct rec_reader *reader;
	const struct timeline_options *o;
	struct strtab names;	    /* of kernels, readable */
	VEC(struct idle_call) idle; /* by process and start */
	uint32_t *name_of; /* by string of the recording: number in names + 1, 0 = not looked up */
};

/* A call that would start work, and has not: it failed, or was captured into a graph. */
struct idle_call {
	uint64_t start_ns;
	uint32_t pid;
};

struct worker {
	VEC(struct timeline_call) calls;
	VEC(struct idle_call) idle;
	gpu_kept_t kept; /* what makes graphs */
};

static uint32_t pid_of(const struct rec_tables *t, uint32_t thread)
{
	return t->threads.data[thread].pid;
}

/* ---- calls ---- */

static bool is_wanted(uint8_t role)
{
	return role == GPU_LAUNCH || role == GPU_GRAPH_LAUNCH || role == GPU_COPY ||
	       role == GPU_SET || role == GPU_SYNC || role == GPU_COLLECTIVE || role == GPU_P2P ||
	       role == GPU_NCCL_GROUP;
}

static enum match_class class_of(uint8_t role)
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

static void take(void *state, void *ctx, const struct m_call *c, uint64_t order)
{
	struct worker *w = state;
	const struct job *job = ctx;
	const struct gpu_probe *p = &job->t->probes.rows[c->probe];
	uint32_t pid = pid_of(job->t->tables, c->thread);
	struct gpu_kept k;
	if (job->o->pid && pid != job->o->pid)
		return;
	if (p->role >= GPU_CAPTURE_BEGIN && gpu_keep(&k, p, c, order))
		*vec_push(&w->kept) = k;
	if (class_of(p->role) != MATCH_NO_CLASS && c->flags & CALL_ERROR)
		*vec_push(&w->idle) = (struct idle_call){c->start_ns, pid};
	if (!is_wanted(p->role) || c->flags & CALL_ERROR)
		return;
	*vec_push(&w->calls) = (struct timeline_call){
		.start_ns = c->start_ns,
		.end_ns = c->start_ns + c->dur_ns,
		.stream = gpu_arg(p, c, GPU_ARG_STREAM),
		.bytes = gpu_arg(p, c, GPU_ARG_BYTES),
		.comm = gpu_arg(p, c, GPU_ARG_COMM),
		.sequence = gpu_arg(p, c, GPU_ARG_SEQUENCE),
		.grid = gpu_arg(p, c, GPU_ARG_GRID),
		.block = gpu_arg(p, c, GPU_ARG_BLOCK),
		.pid = pid,
		.thread = c->thread,
		.probe = c->probe,
		.stack = c->stack,
		.name = p->role == GPU_LAUNCH ? (uint32_t)gpu_arg(p, c, GPU_ARG_KERNEL) : 0,
		.parent = TIMELINE_NONE,
		.partner = partner_of(p, c),
		.datatype = gpu_has_arg(p, c, GPU_ARG_DATATYPE)
				    ? (int16_t)gpu_arg(p, c, GPU_ARG_DATATYPE)
				    : -1,
		.role = p->role,
		.flags = c->flags,
	};
}

static int compare_calls(const void *a, const void *b)
{
	const struct timeline_call *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns; /* the outer one first */
}

static int compare_idle(const void *a, const void *b)
{
	const struct idle_call *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static struct gpu_graphs *make_graphs(struct job *job, struct worker *workers, size_t n)
{
	gpu_kept_t kept = {0};
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < workers[i].kept.len; k++)
			*vec_push(&kept) = workers[i].kept.data[k];
		vec_free(&workers[i].kept);
	}
	gpu_kept_sort(&kept);
	struct gpu_graphs *graphs = gpu_graphs_new(job->t->tables, &job->t->probes, &kept);
	vec_free(&kept);
	return graphs;
}

static bool moves_data(uint8_t role)
{
	return role == GPU_COLLECTIVE || role == GPU_P2P;
}

static bool captured(const struct job *job, const struct gpu_graphs *graphs,
		     const struct timeline_call *c)
{
	const struct gpu_probe *p = &job->t->probes.rows[c->probe];
	if ((class_of(c->role) == MATCH_NO_CLASS && !moves_data(c->role)) ||
	    p->arg[GPU_ARG_STREAM] < 0)
		return false;
	return gpu_graphs_capture(graphs, c->pid, gpu_stream_of(p, c->stream, c->thread),
				  c->start_ns) != GPU_NONE;
}

static void load_calls(struct job *job)
{
	struct timeline *t = job->t;
	size_t n;
	struct call_blocks_options o = {.workers = job->o->threads};
	struct worker *workers = call_blocks_read(job->reader, &o, sizeof(*workers), take, job, &n);
	struct gpu_graphs *graphs = make_graphs(job, workers, n);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < workers[i].calls.len; k++) {
			struct timeline_call *c = &workers[i].calls.data[k];
			c->captured = captured(job, graphs, c);
			if (!c->captured || moves_data(c->role))
				*vec_push(&t->calls) = *c;
			else
				*vec_push(&job->idle) = (struct idle_call){c->start_ns, c->pid};
		}
		for (size_t k = 0; k < workers[i].idle.len; k++)
			*vec_push(&job->idle) = workers[i].idle.data[k];
		vec_free(&workers[i].calls);
		vec_free(&workers[i].idle);
	}
	free(workers);
	gpu_graphs_free(graphs);
	if (t->calls.len)
		qsort(t->calls.data, t->calls.len, sizeof(*t->calls.data), compare_calls);
	if (job->idle.len)
		qsort(job->idle.data, job->idle.len, sizeof(*job->idle.data), compare_idle);
}

/* ---- one process ---- */

static bool is_wait(const struct timeline *t, const struct timeline_span *s)
{
	return timeline_kind_of(t, s)->work == WORK_SYNC;
}

static uint32_t pid_of_span(const struct timeline *t, size_t span)
{
	return timeline_kind_of(t, &t->spans.data[span])->pid;
}

/* The calls and spans of one process, and the lists that are matched. */
struct process {
	struct job *job;
	size_t calls_from, calls_to;
	size_t idle_from;
	size_t spans_from, spans_to;
	struct match_item *calls; /* that start work */
	uint32_t *call_of;	  /* by item: its call */
	size_t ncalls;
	bool *known;		   /* by call, from calls_from on: CUPTI says what it started */
	struct match_item *groups; /* spans of one correlation number */
	uint32_t *group_ends;	   /* by group: where its spans end in order */
	uint32_t *order;	   /* spans by correlation number */
	size_t ngroups, nordered;
};

/* Numbers equal names; names that were not resolved have none, and fit any. */
static uint32_t name_of(struct job *job, uint32_t string)
{
	if (!string)
		return 0;
	if (!job->name_of[string]) {
		const char *text = strtab_get(&job->t->tables->strings, string, NULL);
		bool mangled = text[0] == '_' && text[1] == 'Z';
		char *readable = mangled && job->o->demangle ? job->o->demangle(text, 1) : NULL;
		bool known = kernel_name_known(text) && (!mangled || readable);
		uint32_t name =
			known ? strtab_add_z(&job->names, readable ? readable : text) + 1 : 0;
		job->name_of[string] = name + 1;
		free(readable);
	}
	return job->name_of[string] - 1;
}

static enum match_class class_of_kind(const struct timeline_kind *k)
{
	if (k->of_graph)
		return MATCH_GRAPH;
	return k->work == WORK_COPY ? MATCH_COPY : k->work == WORK_SET ? MATCH_SET : MATCH_LAUNCH;
}

/* A call that starts work, to be found by its thread and a time in it. */
struct thread_call {
	uint64_t start_ns;
	uint32_t tid;
	uint32_t call;
};

static int compare_thread_calls(const void *a, const void *b)
{
	const struct thread_call *x = a, *y = b;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->call < y->call ? -1 : x->call > y->call;
}

/* The innermost call of the class that holds what CUPTI says, or TIMELINE_NONE. */
static uint32_t known_call(const struct timeline *t, const struct thread_call *rows, size_t n,
			   const struct timeline_span *s)
{
	enum { NESTED = 4 };
	const struct timeline_kind *kind = timeline_kind_of(t, s);
	const struct thread_call key = {timeline_called_ns(t, s), kind->called_tid, UINT32_MAX};
	size_t low = 0, high = n;
	while (low < high) { /* the first that began after it */
		size_t mid = low + (high - low) / 2;
		if (compare_thread_calls(&rows[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t k = low; k > 0 && low - k < NESTED && rows[k - 1].tid == key.tid; k--) {
		const struct timeline_call *c = &t->calls.data[rows[k - 1].call];
		if (class_of(c->role) == class_of_kind(kind) && c->end_ns >= key.start_ns)
			return rows[k - 1].call;
	}
	return TIMELINE_NONE;
}

/* Where CUPTI tells the driver's call, it lies in the one that was probed. */
static void match_known(struct process *p)
{
	struct timeline *t = p->job->t;
	size_t ncalls = p->calls_to - p->calls_from, n = 0;
	struct thread_call *rows = xcalloc(ncalls + 1, sizeof(*rows));
	p->known = xcalloc(ncalls + 1, sizeof(*p->known));
	for (size_t i = p->calls_from; i < p->calls_to; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		if (class_of(c->role) != MATCH_NO_CLASS)
			rows[n++] = (struct thread_call){
				c->start_ns, t->tables->threads.data[c->thread].tid, (uint32_t)i};
	}
	if (n)
		qsort(rows, n, sizeof(*rows), compare_thread_calls);
	for (size_t i = p->spans_from; i < p->spans_to; i++) {
		struct timeline_span *s = &t->spans.data[i];
		if (!timeline_called_ns(t, s) || is_wait(t, s))
			continue;
		s->call = known_call(t, rows, n, s);
		if (s->call != TIMELINE_NONE)
			p->known[s->call - p->calls_from] = true;
	}
	free(rows);
}

/* A call whose work is to be found. Copies of no bytes start none. */
static bool is_asked(const struct process *p, size_t call)
{
	const struct timeline *t = p->job->t;
	const struct timeline_call *c = &t->calls.data[call];
	enum match_class class = class_of(c->role);
	bool empty = (class == MATCH_COPY || class == MATCH_SET) && !c->bytes &&
		     t->probes.rows[c->probe].arg[GPU_ARG_BYTES] >= 0;
	return class != MATCH_NO_CLASS && !empty && !p->known[call - p->calls_from];
}

/* A wait for a stream or for all of them ended: what was enqueued before had begun by then.
 * Handles are told apart by stream only where all is of one context. */
static bool one_context(const struct process *p)
{
	const struct timeline *t = p->job->t;
	const struct timeline_kind *first = NULL;
	for (size_t i = p->spans_from; i < p->spans_to; i++) {
		const struct timeline_kind *k = timeline_kind_of(t, &t->spans.data[i]);
		if (k->work == WORK_SYNC)
			continue;
		if (first && (first->device != k->device || first->context != k->context))
			return false;
		if (!first)
			first = k;
	}
	return true;
}

/* The end of the next wait for a stream, going back in time. */
struct wait {
	uint64_t start_ns, end_ns;
};

static uint64_t stream_key(const struct process *p, const struct timeline_call *c)
{
	struct gpu_stream s =
		gpu_stream_of(&p->job->t->probes.rows[c->probe], c->stream, c->thread);
	return hash_u64(s.handle) ^ s.thread;
}

/* The next waits, of each stream and of all of them. */
struct waits {
	struct map64 starts, ends; /* by stream_key */
	struct wait all;
};

static void add_wait(struct waits *w, const struct process *p, const struct timeline_call *c)
{
	const struct timeline *t = p->job->t;
	uint32_t symbol = t->tables->probes.data[c->probe].symbol;
	if (t->probes.rows[c->probe].arg[GPU_ARG_STREAM] >= 0) {
		map64_set(&w->starts, stream_key(p, c), c->start_ns);
		map64_set(&w->ends, stream_key(p, c), c->end_ns);
	} else if (strstr(strtab_get(&t->tables->strings, symbol, NULL), "Ctx")) {
		w->all = (struct wait){c->start_ns, c->end_ns};
	} /* else for an event: nobody knows of what */
}

/* When the work of a call had begun at the latest. */
static uint64_t until(const struct waits *w, const struct process *p, const struct timeline_call *c)
{
	struct wait first = w->all, own = {0};
	if (map64_get(&w->ends, stream_key(p, c), &own.end_ns) &&
	    map64_get(&w->starts, stream_key(p, c), &own.start_ns) &&
	    (!first.end_ns || own.end_ns < first.end_ns))
		first = own;
	return first.end_ns && first.start_ns >= c->end_ns ? first.end_ns : UINT64_MAX;
}

/* Goes back in time, through the calls and their items. */
static void take_untils(struct process *p)
{
	bool usable = one_context(p);
	struct waits waits = {0};
	size_t item = p->ncalls;
	for (size_t i = p->calls_to; i-- > p->calls_from;) {
		const struct timeline_call *c = &p->job->t->calls.data[i];
		if (c->role == GPU_SYNC && !(c->flags & CALL_OPEN))
			add_wait(&waits, p, c);
		else if (is_asked(p, i))
			p->calls[--item].until_ns = usable ? until(&waits, p, c) : UINT64_MAX;
	}
	map64_free(&waits.starts);
	map64_free(&waits.ends);
}

/* Calls that may have a number and started no work, since the call before. */
static bool has_others(const struct process *p, size_t *idle, uint64_t until_ns)
{
	const struct job *job = p->job;
	uint32_t pid = job->t->calls.data[p->calls_from].pid;
	size_t first = *idle;
	while (*idle < job->idle.len && job->idle.data[*idle].pid == pid &&
	       job->idle.data[*idle].start_ns < until_ns)
		++*idle;
	return *idle > first;
}

static void list_calls(struct process *p)
{
	const struct timeline *t = p->job->t;
	size_t n = p->calls_to - p->calls_from, idle = p->idle_from;
	bool others = false;
	p->calls = xcalloc(n + 1, sizeof(*p->calls));
	p->call_of = xcalloc(n + 1, sizeof(*p->call_of));
	for (size_t i = p->calls_from; i < p->calls_to; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		if (!is_asked(p, i)) {
			others |= class_of(c->role) != MATCH_NO_CLASS; /* a copy of no bytes */
			continue;
		}
		others |= has_others(p, &idle, c->start_ns);
		p->call_of[p->ncalls] = (uint32_t)i;
		p->calls[p->ncalls++] = (struct match_item){
			.start_ns = c->start_ns,
			.grid = c->grid,
			.block = c->block,
			.bytes = c->bytes,
			.name = name_of(p->job, c->name),
			.class = class_of(c->role),
			.after_others = others,
		};
		others = false;
	}
	take_untils(p);
}

struct ordering {
	const struct timeline_span *spans;
	uint32_t base; /* numbers wrap: this one is the smallest */
};

static int compare_correlations(const void *a, const void *b, void *arg)
{
	const struct ordering *o = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t cx = o->spans[x].correlation - o->base;
	uint32_t cy = o->spans[y].correlation - o->base;
	if (cx != cy)
		return cx < cy ? -1 : 1;
	return x < y ? -1 : x > y; /* by start */
}

static void list_groups(struct process *p)
{
	const struct timeline *t = p->job->t;
	const struct timeline_span *all = t->spans.data;
	size_t n = p->spans_to - p->spans_from, work = 0;
	p->order = xcalloc(n + 1, sizeof(*p->order));
	for (size_t i = p->spans_from; i < p->spans_to; i++) {
		bool starts = !is_wait(t, &all[i]);
		work += starts;
		if (starts && !timeline_called_ns(t, &all[i]))
			p->order[p->nordered++] = (uint32_t)i;
	}
	p->groups = xcalloc(p->nordered + 1, sizeof(*p->groups));
	p->group_ends = xcalloc(p->nordered + 1, sizeof(*p->group_ends));
	if (!p->nordered)
		return;
	struct ordering ordering = {all, all[p->order[0]].correlation - (1u << 30)};
	qsort_r(p->order, p->nordered, sizeof(*p->order), compare_correlations, &ordering);
	for (size_t i = 0; i < p->nordered; i++) {
		const struct timeline_span *s = &all[p->order[i]];
		if (!i || s->correlation != all[p->order[i - 1]].correlation) {
			const struct timeline_kind *k = timeline_kind_of(t, s);
			bool kernel = class_of_kind(k) == MATCH_LAUNCH;
			p->groups[p->ngroups++] = (struct match_item){
				.start_ns = s->start_ns,
				.grid = kernel ? k->grid : 0,
				.block = kernel ? k->block : 0,
				.bytes = k->bytes,
				.name = kernel ? name_of(p->job, k->name) : 0,
				.number = p->nordered == work ? s->correlation : 0,
				.class = class_of_kind(k),
			};
		} else {
			p->groups[p->ngroups - 1].bytes = 0; /* one call, several copies */
		}
		p->group_ends[p->ngroups - 1] = (uint32_t)i + 1;
	}
}

static void match_work(struct process *p)
{
	struct timeline_span *spans = p->job->t->spans.data;
	match_make(p->calls, p->ncalls, p->groups, p->ngroups);
	for (size_t g = 0; g < p->ngroups; g++) {
		if (p->groups[g].match == MATCH_NONE)
			continue;
		for (size_t i = g ? p->group_ends[g - 1] : 0; i < p->group_ends[g]; i++)
			spans[p->order[i]].call = p->call_of[p->groups[g].match];
	}
}

/* CUPTI times a wait inside its call. */
static void match_waits(struct process *p)
{
	enum { SLACK_NS = 5000, BACK = 64 };
	struct timeline *t = p->job->t;
	size_t next = p->calls_from;
	for (size_t i = p->spans_from; i < p->spans_to; i++) {
		struct timeline_span *s = &t->spans.data[i];
		while (next < p->calls_to && t->calls.data[next].start_ns <= s->start_ns + SLACK_NS)
			next++;
		for (size_t k = next; is_wait(t, s) && k > p->calls_from && next - k < BACK; k--) {
			const struct timeline_call *c = &t->calls.data[k - 1];
			if (c->role != GPU_SYNC || c->end_ns + SLACK_NS < s->end_ns)
				continue;
			s->call = (uint32_t)(k - 1);
			break;
		}
	}
}

static void match_process(struct process *p)
{
	match_known(p);
	list_calls(p);
	list_groups(p);
	match_work(p);
	match_waits(p);
	free(p->known);
	free(p->calls);
	free(p->call_of);
	free(p->groups);
	free(p->group_ends);
	free(p->order);
}

/* Both lists are sorted by process. */
static void match_all(struct job *job)
{
	const struct timeline *t = job->t;
	size_t call = 0, idle = 0;
	for (size_t i = 0; i < t->spans.len;) {
		uint32_t pid = pid_of_span(t, i);
		struct process p = {.job = job, .spans_from = i};
		while (i < t->spans.len && pid_of_span(t, i) == pid)
			i++;
		p.spans_to = i;
		while (call < t->calls.len && t->calls.data[call].pid < pid)
			call++;
		p.calls_from = call;
		while (call < t->calls.len && t->calls.data[call].pid == pid)
			call++;
		p.calls_to = call;
		while (idle < job->idle.len && job->idle.data[idle].pid < pid)
			idle++;
		p.idle_from = idle;
		match_process(&p);
	}
}

/* ---- collectives and their groups ---- */

#define OPEN_MAX 4 /* calls of NCCL that are inside one another */

struct nccl_thread {
	uint32_t open[OPEN_MAX]; /* the outermost first */
	uint32_t opens;
	uint32_t groups;	/* that were begun and not ended */
	VEC(uint32_t) in_group; /* collectives that wait for its end */
};

static bool begins_group(const struct timeline *t, const struct timeline_call *c)
{
	uint32_t symbol = t->tables->probes.data[c->probe].symbol;
	return strstr(strtab_get(&t->tables->strings, symbol, NULL), "Start") != NULL;
}

static void take_group(struct timeline *t, struct nccl_thread *n, uint32_t call)
{
	if (begins_group(t, &t->calls.data[call])) {
		n->groups++;
		return;
	}
	n->groups -= n->groups > 0;
	for (size_t i = 0; !n->groups && i < n->in_group.len; i++)
		t->calls.data[n->in_group.data[i]].parent = call;
	if (!n->groups)
		n->in_group.len = 0;
}

static void find_parents(struct timeline *t)
{
	struct nccl_thread *threads = xcalloc(t->tables->threads.len + 1, sizeof(*threads));
	for (uint32_t i = 0; i < t->calls.len; i++) {
		struct timeline_call *c = &t->calls.data[i];
		struct nccl_thread *n = &threads[c->thread];
		while (n->opens && t->calls.data[n->open[n->opens - 1]].end_ns <= c->start_ns)
			n->opens--;
		if (n->opens)
			c->parent = n->open[n->opens - 1];
		bool moves = moves_data(c->role);
		if (moves && !n->opens && n->groups)
			*vec_push(&n->in_group) = i;
		if (c->role == GPU_NCCL_GROUP)
			take_group(t, n, i);
		if ((moves || c->role == GPU_NCCL_GROUP) && n->opens < OPEN_MAX)
			n->open[n->opens++] = i;
	}
	for (size_t i = 0; i < t->tables->threads.len; i++)
		vec_free(&threads[i].in_group);
	free(threads);
}

/* ---- what is handed out ---- */

static bool is_asked_time(const struct timeline_options *o, uint64_t ns)
{
	return ns >= o->from_ns && (!o->to_ns || ns < o->to_ns);
}

static void drop_others(struct timeline *t, const struct timeline_options *o)
{
	size_t kept = 0;
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		if (is_asked_time(o, s->start_ns))
			t->spans.data[kept++] = *s;
	}
	t->spans.len = kept;
}

static void list_by_call(struct timeline *t)
{
	uint32_t *next = xcalloc(t->calls.len + 1, sizeof(*next));
	size_t total = 0;
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		if (s->call != TIMELINE_NONE && !is_wait(t, s))
			t->calls.data[s->call].spans++;
	}
	for (size_t i = 0; i < t->calls.len; i++) {
		next[i] = t->calls.data[i].first_span = (uint32_t)total;
		total += t->calls.data[i].spans;
	}
	vec_reserve(&t->by_call, total);
	t->by_call.len = total;
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		if (s->call != TIMELINE_NONE && !is_wait(t, s))
			t->by_call.data[next[s->call]++] = (uint32_t)i;
	}
	free(next);
}

/* What a process's calls that start work span, and its spans. */
struct extent {
	uint64_t first_ns, last_ns;
};

static void extend(struct extent *e, uint64_t first_ns, uint64_t last_ns)
{
	if (first_ns < e->first_ns)
		e->first_ns = first_ns;
	if (last_ns > e->last_ns)
		e->last_ns = last_ns;
}

static bool is_launch(const struct timeline_call *c)
{
	return c->role == GPU_LAUNCH || c->role == GPU_GRAPH_LAUNCH;
}

/* The latest that its launch can have been. */
static uint64_t launched_ns(const struct timeline *t, const struct timeline_span *s)
{
	uint64_t called_ns = timeline_called_ns(t, s);
	return called_ns ? called_ns : s->start_ns;
}

static void count_span(struct timeline *t, const struct timeline_span *s,
		       const struct extent *calls)
{
	if (!t->first_ns || s->start_ns < t->first_ns)
		t->first_ns = s->start_ns;
	if (s->end_ns > t->last_ns)
		t->last_ns = s->end_ns;
	if (s->call != TIMELINE_NONE) {
		t->matched_spans++;
		t->early_spans += s->start_ns < t->calls.data[s->call].start_ns;
		return;
	}
	t->unmatched_spans++;
	t->outside_spans += launched_ns(t, s) < calls->first_ns || /* or of queued work: */
			    timeline_called_ns(t, s) > calls->last_ns;
}

static void count_call(struct timeline *t, const struct timeline_call *c,
		       const struct extent *spans)
{
	t->unmatched_calls++;
	t->outside_calls += c->end_ns < spans->first_ns || c->start_ns > spans->last_ns;
}

/* Both lists are sorted by process; the extents are of one of its processes. */
static void count_process(struct timeline *t, const struct timeline_options *o,
			  const bool *has_work, size_t spans_from, size_t spans_to,
			  size_t calls_from, size_t calls_to)
{
	struct extent calls = {UINT64_MAX, 0}, spans = {UINT64_MAX, 0};
	for (size_t i = calls_from; i < calls_to; i++)
		if (class_of(t->calls.data[i].role) != MATCH_NO_CLASS)
			extend(&calls, t->calls.data[i].start_ns, t->calls.data[i].end_ns);
	for (size_t i = spans_from; i < spans_to; i++)
		extend(&spans, launched_ns(t, &t->spans.data[i]), t->spans.data[i].end_ns);
	for (size_t i = spans_from; i < spans_to; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		if (!is_wait(t, s) && is_asked_time(o, s->start_ns))
			count_span(t, s, &calls);
	}
	for (size_t i = calls_from; i < calls_to; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		if (is_launch(c) && is_asked_time(o, c->start_ns) && !has_work[i])
			count_call(t, c, &spans);
	}
}

/* Before spans are dropped: a call that was asked for may have started work that was not. */
static void count_all(struct timeline *t, const struct timeline_options *o)
{
	size_t span = 0, call = 0;
	bool *has_work = xcalloc(t->calls.len + 1, sizeof(*has_work));
	for (size_t i = 0; i < t->spans.len; i++)
		if (t->spans.data[i].call != TIMELINE_NONE)
			has_work[t->spans.data[i].call] = true;
	while (span < t->spans.len || call < t->calls.len) {
		uint32_t pid = UINT32_MAX;
		size_t spans_from = span, calls_from = call;
		if (span < t->spans.len)
			pid = pid_of_span(t, span);
		if (call < t->calls.len && t->calls.data[call].pid < pid)
			pid = t->calls.data[call].pid;
		while (span < t->spans.len && pid_of_span(t, span) == pid)
			span++;
		while (call < t->calls.len && t->calls.data[call].pid == pid)
			call++;
		count_process(t, o, has_work, spans_from, span, calls_from, call);
	}
	free(has_work);
}

void timeline_make(struct timeline *ret, const struct rec_reader *r,
		   const struct timeline_options *options)
{
	*ret = (struct timeline){.tables = rec_tables(r)};
	struct job job = {.t = ret, .reader = r, .o = options};
	gpu_probes_make(&ret->probes, ret->tables);
	job.name_of = xcalloc(strtab_len(&ret->tables->strings) + 1, sizeof(*job.name_of));
	if (ret->tables->gpu_spans || ret->probes.any)
		load_calls(&job);
	timeline_load_spans(ret, r, options->pid);
	match_all(&job);
	find_parents(ret);
	count_all(ret, options);
	drop_others(ret, options);
	list_by_call(ret);
	strtab_free(&job.names);
	free(job.name_of);
	vec_free(&job.idle);
}

void timeline_free(struct timeline *t)
{
	gpu_probes_free(&t->probes);
	vec_free(&t->calls);
	vec_free(&t->spans);
	vec_free(&t->kinds);
	vec_free(&t->by_call);
}

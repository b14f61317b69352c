/* timeline_process.c - which call of a process started which span: lists of both for
 * timeline_match.c, and what CUPTI itself says. */
#include <string.h>

#include "analyze/timeline_impl.h"
#include "base/kernel_name.h"
#include "base/map64.h"
#include "base/sort.h"
#include "wire/event.h"

/* The calls and spans of one process, and the lists that are matched. */
struct process {
	struct timeline_job *job;
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
static uint32_t name_of(struct timeline_job *job, uint32_t string)
{
	if (!string)
		return 0;
	if (!job->name_of[string]) {
		const char *text = strtab_get(&job->t->tables->strings, string, NULL);
		bool mangled = text[0] == '_' && text[1] == 'Z';
		char *readable = mangled && job->o.demangle ? job->o.demangle(text, 1) : NULL;
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

static int compare_thread_calls(const void *a, const void *b, void *arg)
{
	const struct thread_call *x = a, *y = b;
	(void)arg;
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
		if (compare_thread_calls(&rows[mid], &key, NULL) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t k = low; k > 0 && low - k < NESTED && rows[k - 1].tid == key.tid; k--) {
		const struct timeline_call *c = &t->calls.data[rows[k - 1].call];
		if (timeline_class(timeline_call_kind_of(t, c)->role) == class_of_kind(kind) &&
		    c->end_ns >= key.start_ns)
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
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		if (timeline_class(k->role) != MATCH_NO_CLASS)
			rows[n++] = (struct thread_call){
				c->start_ns, t->tables->threads.data[k->thread].tid, (uint32_t)i};
	}
	sort_runs(rows, n, sizeof(*rows), compare_thread_calls, NULL);
	for (size_t i = p->spans_from; i < p->spans_to; i++) {
		struct timeline_span *s = &t->spans.data[i];
		if (!timeline_called_ns(t, s) || timeline_is_wait(t, s))
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
	const struct timeline_call_kind *k = timeline_call_kind_of(t, &t->calls.data[call]);
	enum match_class class = timeline_class(k->role);
	bool empty = (class == MATCH_COPY || class == MATCH_SET) && !k->bytes &&
		     t->probes.rows[k->probe].arg[GPU_ARG_BYTES] >= 0;
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
	const struct timeline_call_kind *k = timeline_call_kind_of(p->job->t, c);
	struct gpu_stream s =
		gpu_stream_of(&p->job->t->probes.rows[k->probe], k->stream, k->thread);
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
	uint32_t probe = timeline_call_kind_of(t, c)->probe;
	uint32_t symbol = t->tables->probes.data[probe].symbol;
	if (t->probes.rows[probe].arg[GPU_ARG_STREAM] >= 0) {
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
		const struct timeline_call_kind *k = timeline_call_kind_of(p->job->t, c);
		if (k->role == GPU_SYNC && !(k->flags & CALL_OPEN))
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
	const struct timeline_job *job = p->job;
	uint32_t pid = timeline_call_pid(job->t, p->calls_from);
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
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		if (!is_asked(p, i)) {
			others |=
				timeline_class(k->role) != MATCH_NO_CLASS; /* a copy of no bytes */
			continue;
		}
		others |= has_others(p, &idle, c->start_ns);
		p->call_of[p->ncalls] = (uint32_t)i;
		p->calls[p->ncalls++] = (struct match_item){
			.start_ns = c->start_ns,
			.grid = k->grid,
			.block = k->block,
			.bytes = k->bytes,
			.name = name_of(p->job, k->name),
			.class = timeline_class(k->role),
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
		bool starts = !timeline_is_wait(t, &all[i]);
		work += starts;
		if (starts && !timeline_called_ns(t, &all[i]))
			p->order[p->nordered++] = (uint32_t)i;
	}
	p->groups = xcalloc(p->nordered + 1, sizeof(*p->groups));
	p->group_ends = xcalloc(p->nordered + 1, sizeof(*p->group_ends));
	if (!p->nordered)
		return;
	struct ordering ordering = {all, all[p->order[0]].correlation - (1u << 30)};
	sort_runs(p->order, p->nordered, sizeof(*p->order), compare_correlations, &ordering);
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
		for (size_t k = next;
		     timeline_is_wait(t, s) && k > p->calls_from && next - k < BACK; k--) {
			const struct timeline_call *c = &t->calls.data[k - 1];
			if (timeline_call_kind_of(t, c)->role != GPU_SYNC ||
			    c->end_ns + SLACK_NS < s->end_ns)
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
void timeline_match_processes(struct timeline_job *job)
{
	const struct timeline *t = job->t;
	size_t call = 0, idle = 0;
	for (size_t i = 0; i < t->spans.len;) {
		uint32_t pid = timeline_span_pid(t, i);
		struct process p = {.job = job, .spans_from = i};
		while (i < t->spans.len && timeline_span_pid(t, i) == pid)
			i++;
		p.spans_to = i;
		while (call < t->calls.len && timeline_call_pid(t, call) < pid)
			call++;
		p.calls_from = call;
		while (call < t->calls.len && timeline_call_pid(t, call) == pid)
			call++;
		p.calls_to = call;
		while (idle < job->idle.len && job->idle.data[idle].pid < pid)
			idle++;
		p.idle_from = idle;
		match_process(&p);
	}
}

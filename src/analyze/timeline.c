/* timeline.c - puts calls and spans together: timeline_load.c has them, timeline_process.c finds
 * which belong to which; here collectives find their groups, and what is left over is counted.
 * Draws no conclusions. */
#include "analyze/timeline.h"

#include <string.h>

#include "analyze/timeline_impl.h"

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
	uint32_t symbol = t->tables->probes.data[timeline_call_kind_of(t, c)->probe].symbol;
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
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		struct nccl_thread *n = &threads[k->thread];
		while (n->opens && t->calls.data[n->open[n->opens - 1]].end_ns <= c->start_ns)
			n->opens--;
		if (n->opens)
			c->parent = n->open[n->opens - 1];
		bool moves = timeline_moves_data(k->role);
		if (moves && !n->opens && n->groups)
			*vec_push(&n->in_group) = i;
		if (k->role == GPU_NCCL_GROUP)
			take_group(t, n, i);
		if ((moves || k->role == GPU_NCCL_GROUP) && n->opens < OPEN_MAX)
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
		if (s->call != TIMELINE_NONE && !timeline_is_wait(t, s))
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
		if (s->call != TIMELINE_NONE && !timeline_is_wait(t, s))
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

static bool is_launch(const struct timeline *t, const struct timeline_call *c)
{
	uint8_t role = timeline_call_kind_of(t, c)->role;
	return role == GPU_LAUNCH || role == GPU_GRAPH_LAUNCH;
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
		if (timeline_class(timeline_call_kind_of(t, &t->calls.data[i])->role) !=
		    MATCH_NO_CLASS)
			extend(&calls, t->calls.data[i].start_ns, t->calls.data[i].end_ns);
	for (size_t i = spans_from; i < spans_to; i++)
		extend(&spans, launched_ns(t, &t->spans.data[i]), t->spans.data[i].end_ns);
	for (size_t i = spans_from; i < spans_to; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		if (!timeline_is_wait(t, s) && is_asked_time(o, s->start_ns))
			count_span(t, s, &calls);
	}
	for (size_t i = calls_from; i < calls_to; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		if (is_launch(t, c) && is_asked_time(o, c->start_ns) && !has_work[i])
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
			pid = timeline_span_pid(t, span);
		if (call < t->calls.len && timeline_call_pid(t, call) < pid)
			pid = timeline_call_pid(t, call);
		while (span < t->spans.len && timeline_span_pid(t, span) == pid)
			span++;
		while (call < t->calls.len && timeline_call_pid(t, call) == pid)
			call++;
		count_process(t, o, has_work, spans_from, span, calls_from, call);
	}
	free(has_work);
}

static void finish(struct timeline_job *job)
{
	timeline_match_processes(job);
	find_parents(job->t);
	count_all(job->t, &job->o);
	drop_others(job->t, &job->o);
	list_by_call(job->t);
	strtab_free(&job->names);
	free(job->name_of);
	vec_free(&job->idle);
	free(job);
}

struct row_visitor *timeline_visitor(struct timeline *ret, const struct row_source *s,
				     const struct timeline_options *options)
{
	struct timeline_job *job = xcalloc(1, sizeof(*job));
	*ret = (struct timeline){.tables = s->tables};
	job->t = ret;
	job->o = *options;
	gpu_probes_make(&ret->probes, ret->tables);
	job->name_of = xcalloc(strtab_len(&ret->tables->strings) + 1, sizeof(*job->name_of));
	return timeline_loader(job, s, finish);
}

void timeline_make(struct timeline *ret, const struct row_source *s,
		   const struct timeline_options *options)
{
	struct row_visitor *v = timeline_visitor(ret, s, options);
	rows_visit(s, &v, 1, NULL);
}

void timeline_free(struct timeline *t)
{
	gpu_probes_free(&t->probes);
	vec_free(&t->calls);
	vec_free(&t->spans);
	vec_free(&t->kinds);
	vec_free(&t->call_kinds);
	vec_free(&t->by_call);
}

/* shim_calls.c - puts together what a GPU did and the driver's call that started it.
 *
 * The two come apart, in either order: CUPTI has buffers for each thread's calls and others for
 * each context's work. Both carry the process's correlation number. A span waits a while for
 * its call; a call waits for spans as long as there is room, since work may be queued for any
 * time. A call that started one thing goes when that has come; a graph's nodes come one by one.
 *
 * A process that does not tell calls has spans without: theirs do not wait. */
#include "base/clock.h"
#include "pipeline/pipeline_impl.h"
#include "wire/gpu_calls.h"

#define SPAN_PATIENCE_NS 1000000000ULL
#define MOST_SPANS	 (1u << 16)
#define MOST_CALLS	 (1u << 17) /* CUDA queues some thousand launches at most */

struct waiting_call {
	uint64_t key;
	struct pipeline_gpu_call call;
	bool gone;
};

struct waiting_span {
	uint64_t key;
	uint64_t came_ns;
	uint64_t before; /* number + 1 of the one of the same key that came before it, 0 = none */
	struct m_gpu_span row;
	bool gone;
};

/* Rows are numbered as they come; those before `first` have gone. */
struct shim_calls {
	VEC(struct waiting_call) calls;
	VEC(struct waiting_span) spans;
	size_t first_call, first_span;		   /* indices */
	uint64_t calls_forgotten, spans_forgotten; /* number of index 0 */
	struct map64 call_of;			   /* key -> number of the call */
	struct map64 span_of;			   /* key -> number of the newest span */
	struct map64 tells;			   /* pids of processes that tell calls */
};

struct shim_calls *shim_calls_new(void)
{
	return xcalloc(1, sizeof(struct shim_calls));
}

void shim_calls_free(struct shim_calls *s)
{
	vec_free(&s->calls);
	vec_free(&s->spans);
	map64_free(&s->call_of);
	map64_free(&s->span_of);
	map64_free(&s->tells);
	free(s);
}

static uint64_t key_of(uint32_t pid, uint32_t correlation)
{
	return (uint64_t)pid << 32 | correlation;
}

static bool starts_many(uint32_t function)
{
	return function == GPU_CALL_GRAPH_LAUNCH || function == GPU_CALL_GRAPH_LAUNCH_PTSZ ||
	       function >= GPU_CALL_BATCH_FIRST;
}

static void put_span(struct pipeline *p, const struct m_gpu_span *row)
{
	emit_gpu_span(p, row);
	p->gpu_spans++;
}

static void put_with_call(struct pipeline *p, struct m_gpu_span *row,
			  const struct pipeline_gpu_call *c)
{
	uint64_t dur_ns = c->end_ns - c->start_ns;
	row->called_ns = c->start_ns;
	row->called_dur_ns = dur_ns < UINT32_MAX ? (uint32_t)dur_ns : UINT32_MAX;
	row->called_tid = c->tid;
	put_span(p, row);
}

/* ---- leaving ---- */

/* Those at the front that have gone make room when they are the half. */
static void forget_calls(struct shim_calls *s)
{
	while (s->first_call < s->calls.len && s->calls.data[s->first_call].gone)
		s->first_call++;
	if (s->first_call < 1024 || s->first_call < s->calls.len / 2)
		return;
	s->calls.len -= s->first_call;
	memmove(s->calls.data, s->calls.data + s->first_call,
		s->calls.len * sizeof(*s->calls.data));
	s->calls_forgotten += s->first_call;
	s->first_call = 0;
}

static void forget_spans(struct shim_calls *s)
{
	while (s->first_span < s->spans.len && s->spans.data[s->first_span].gone)
		s->first_span++;
	if (s->first_span < 1024 || s->first_span < s->spans.len / 2)
		return;
	s->spans.len -= s->first_span;
	memmove(s->spans.data, s->spans.data + s->first_span,
		s->spans.len * sizeof(*s->spans.data));
	s->spans_forgotten += s->first_span;
	s->first_span = 0;
}

static void drop_call(struct shim_calls *s, struct waiting_call *w)
{
	uint64_t number, own = s->calls_forgotten + (uint64_t)(w - s->calls.data);
	if (map64_get(&s->call_of, w->key, &number) && number == own)
		map64_del(&s->call_of, w->key);
	w->gone = true;
}

/* The oldest span goes on without its call. */
static void give_up_span(struct pipeline *p, struct waiting_span *w)
{
	struct shim_calls *s = p->shim_calls;
	uint64_t number, own = s->spans_forgotten + (uint64_t)(w - s->spans.data);
	if (w->gone)
		return;
	if (map64_get(&s->span_of, w->key, &number) && number == own)
		map64_del(&s->span_of, w->key);
	w->gone = true;
	put_span(p, &w->row);
}

void shim_calls_pass(struct pipeline *p, bool all)
{
	struct shim_calls *s = p->shim_calls;
	uint64_t now_ns = monotonic_ns();
	for (; s->first_span < s->spans.len; s->first_span++) {
		struct waiting_span *w = &s->spans.data[s->first_span];
		if (!w->gone && !all && now_ns - w->came_ns < SPAN_PATIENCE_NS &&
		    s->spans.len - s->first_span <= MOST_SPANS)
			break;
		give_up_span(p, w);
	}
	forget_spans(s);
	while (s->calls.len - s->first_call > MOST_CALLS)
		drop_call(s, &s->calls.data[s->first_call++]);
	forget_calls(s);
}

/* ---- coming ---- */

static struct waiting_call *call_with(struct shim_calls *s, uint64_t key)
{
	uint64_t number;
	if (!map64_get(&s->call_of, key, &number))
		return NULL;
	return &s->calls.data[number - s->calls_forgotten];
}

void pipeline_gpu_tells_calls(struct pipeline *p, uint32_t pid)
{
	map64_set(&p->shim_calls->tells, pid, 1);
}

void pipeline_gpu_span(struct pipeline *p, const struct m_gpu_span *span)
{
	struct shim_calls *s = p->shim_calls;
	struct m_gpu_span row = *span;
	uint64_t number, told, key = key_of(span->pid, span->correlation);
	struct waiting_call *c = call_with(s, key);
	if (c) {
		put_with_call(p, &row, &c->call);
		if (!starts_many(c->call.function))
			drop_call(s, c);
		return;
	}
	if (!span->correlation || !map64_get(&s->tells, span->pid, &told)) {
		put_span(p, span);
		return;
	}
	struct waiting_span *w = vec_push(&s->spans);
	*w = (struct waiting_span){.key = key, .came_ns = monotonic_ns(), .row = row};
	if (map64_get(&s->span_of, key, &number))
		w->before = number + 1;
	map64_set(&s->span_of, key, s->spans_forgotten + s->spans.len - 1);
}

/* Spans that wait for it go on. */
static bool release_spans(struct pipeline *p, uint64_t key, const struct pipeline_gpu_call *c)
{
	struct shim_calls *s = p->shim_calls;
	uint64_t number, next;
	if (!map64_get(&s->span_of, key, &number))
		return false;
	map64_del(&s->span_of, key);
	for (next = number + 1; next > s->spans_forgotten;) {
		struct waiting_span *w = &s->spans.data[next - 1 - s->spans_forgotten];
		next = w->before;
		if (w->gone)
			continue;
		w->gone = true;
		put_with_call(p, &w->row, c);
	}
	return true;
}

void pipeline_gpu_call(struct pipeline *p, const struct pipeline_gpu_call *call)
{
	struct shim_calls *s = p->shim_calls;
	uint64_t key = key_of(call->pid, call->correlation);
	bool came = release_spans(p, key, call);
	if (came && !starts_many(call->function))
		return;
	*vec_push(&s->calls) = (struct waiting_call){.key = key, .call = *call};
	map64_set(&s->call_of, key, s->calls_forgotten + s->calls.len - 1);
}

void pipeline_gpu_end(struct pipeline *p)
{
	shim_calls_pass(p, true);
	shim_ops_pass(p, true);
	shim_ops_tell_silent(p);
}

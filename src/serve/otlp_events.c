/* otlp_events.c - lists of bounded length under one lock, which is held for a copy alone: messages
 * are made of lists that were taken out. */
#include "serve/otlp_events.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/map64.h"
#include "otlp_logs.pb-c.h"
#include "otlp_trace.pb-c.h"
#include "serve/otlp_message.h"

#define TRACE_BYTES 16
#define SPAN_BYTES  8
#define MARKS	    4096

typedef Opentelemetry__Proto__Trace__V1__Span span_t;
typedef Opentelemetry__Proto__Logs__V1__LogRecord record_t;

enum span_kind { STEP, COLLECTIVE, INCIDENT, SPAN_KINDS };

struct span {
	uint64_t start_ns, end_ns;
	uint64_t number; /* of a step, of an incident */
	uint32_t pid, tid;
	int64_t bytes;
	bool failed;
	char name[96];
	char what[32]; /* a step's kind, a collective's layer */
	/* of an incident: */
	uint64_t told_ns;
	double cost_ns, confidence;
	char cause[32];
};

/* At most OTLP_SPANS, the longest. */
struct spans {
	VEC(struct span) list;
	size_t shortest; /* of a full list */
};

enum log_kind { LOG_INCIDENT, LOG_ERROR, LOG_WARNING };

struct log {
	uint64_t time_ns, seen_ns;
	enum log_kind kind;
	uint64_t id, told_ns; /* of an incident */
	uint32_t pid, culprit_pid;
	bool ended, beside;
	double cost_ns, confidence;
	char name[48], of[64]; /* of an error, and a warning */
	char body[768], cause[32], runner_up[32], culprit[96], culprit_kind[24], advice[256];
	char evidence[512], blame[768];
};

typedef VEC(struct log) logs_t;

/* The end of a step. */
struct mark {
	uint64_t ns;
	uint32_t pid;
	bool first;
	char kind[16];
};

struct otlp_events {
	pthread_mutex_t lock; /* of what follows */
	struct spans spans[SPAN_KINDS];
	logs_t logs;
	VEC(struct mark) marks; /* of steps, as they came */
	struct mark last;	/* the latest that is no longer among them */
	uint64_t steps;		/* so far */
	struct otlp_events_stats stats;
	uint64_t seed; /* of the numbers of traces */
};

struct otlp_events *otlp_events_new(void)
{
	struct otlp_events *e = xcalloc(1, sizeof(*e));
	pthread_mutex_init(&e->lock, NULL);
	if (getrandom(&e->seed, sizeof(e->seed), 0) != sizeof(e->seed))
		e->seed = realtime_ns();
	return e;
}

void otlp_events_free(struct otlp_events *e)
{
	for (int i = 0; i < SPAN_KINDS; i++)
		vec_free(&e->spans[i].list);
	vec_free(&e->logs);
	vec_free(&e->marks);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

void otlp_events_stats(struct otlp_events *e, struct otlp_events_stats *ret)
{
	pthread_mutex_lock(&e->lock);
	*ret = e->stats;
	pthread_mutex_unlock(&e->lock);
}

/* ---- what is told ---- */

#define COPY(to, from) snprintf(to, sizeof(to), "%s", (from) ? (from) : "")

static uint64_t length_of(const struct span *s)
{
	return s->end_ns - s->start_ns;
}

static void find_shortest(struct spans *s)
{
	s->shortest = 0;
	for (size_t i = 1; i < s->list.len; i++)
		if (length_of(&s->list.data[i]) < length_of(&s->list.data[s->shortest]))
			s->shortest = i;
}

/* Whether a span of so long is to be kept, and where; the lock is held. */
static struct span *place_for(struct otlp_events *e, enum span_kind kind, uint64_t length_ns)
{
	struct spans *s = &e->spans[kind];
	if (s->list.len < OTLP_SPANS)
		return vec_push(&s->list);
	e->stats.spans_left_out++;
	return length_ns > length_of(&s->list.data[s->shortest]) ? &s->list.data[s->shortest]
								 : NULL;
}

/* The lock is held. */
static void put_span(struct otlp_events *e, enum span_kind kind, const struct span *from)
{
	struct span *to =
		from->end_ns >= from->start_ns ? place_for(e, kind, length_of(from)) : NULL;
	if (!to)
		return;
	*to = *from;
	if (e->spans[kind].list.len == OTLP_SPANS)
		find_shortest(&e->spans[kind]);
}

/* ---- steps ---- */

static int compare_marks(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static void put_step(struct otlp_events *e, const struct mark *m)
{
	struct span s = {.start_ns = e->last.ns,
			 .end_ns = m->ns,
			 .number = ++e->steps,
			 .pid = m->pid,
			 .bytes = -1};
	snprintf(s.name, sizeof(s.name), "%s%sstep", m->kind, m->kind[0] ? " " : "");
	COPY(s.what, m->kind);
	put_span(e, STEP, &s);
}

/* Makes steps of the ends up to a time; the lock is held. */
static void settle_steps(struct otlp_events *e, uint64_t upto_ns)
{
	size_t n = 0;
	if (e->marks.len)
		qsort(e->marks.data, e->marks.len, sizeof(*e->marks.data), compare_marks);
	for (; n < e->marks.len && e->marks.data[n].ns <= upto_ns; n++) {
		const struct mark *m = &e->marks.data[n];
		if (m->pid == e->last.pid && !m->first && m->ns > e->last.ns)
			put_step(e, m);
		if (m->pid != e->last.pid || m->ns > e->last.ns)
			e->last = *m;
	}
	e->marks.len -= n;
	if (n)
		memmove(e->marks.data, e->marks.data + n, e->marks.len * sizeof(*e->marks.data));
}

void otlp_events_step_end(struct otlp_events *e, const struct otlp_step_end *s)
{
	pthread_mutex_lock(&e->lock);
	if (e->marks.len == MARKS) { /* the older half */
		qsort(e->marks.data, MARKS, sizeof(*e->marks.data), compare_marks);
		settle_steps(e, e->marks.data[MARKS / 2].ns);
	}
	struct mark *m = vec_push(&e->marks);
	m->ns = s->end_ns;
	m->pid = s->pid;
	m->first = s->first;
	COPY(m->kind, s->kind);
	pthread_mutex_unlock(&e->lock);
}

/* ---- others ---- */

void otlp_events_collective(struct otlp_events *e, const struct otlp_collective *c)
{
	struct span to = {.start_ns = c->start_ns,
			  .end_ns = c->end_ns,
			  .pid = c->pid,
			  .tid = c->tid,
			  .bytes = c->bytes,
			  .failed = c->failed};
	COPY(to.name, c->name);
	COPY(to.what, c->layer);
	pthread_mutex_lock(&e->lock);
	put_span(e, COLLECTIVE, &to);
	pthread_mutex_unlock(&e->lock);
}

static void put_log(struct otlp_events *e, const struct log *l)
{
	pthread_mutex_lock(&e->lock);
	if (e->logs.len < OTLP_LOGS)
		*vec_push(&e->logs) = *l;
	else
		e->stats.logs_left_out++;
	pthread_mutex_unlock(&e->lock);
}

void otlp_events_notice(struct otlp_events *e, const struct otlp_notice *n)
{
	struct log l = {.time_ns = n->time_ns,
			.seen_ns = monotonic_ns(),
			.kind = n->is_error ? LOG_ERROR : LOG_WARNING};
	COPY(l.name, n->name);
	COPY(l.of, n->of);
	snprintf(l.body, sizeof(l.body), "%s of %s: %s", n->name, n->of, n->text);
	put_log(e, &l);
}

static void put_incident_span(struct otlp_events *e, const struct otlp_incident *i)
{
	struct span to = {.start_ns = i->onset_ns,
			  .end_ns = i->end_ns,
			  .number = i->id,
			  .told_ns = i->told_ns,
			  .pid = i->pid,
			  .bytes = -1,
			  .cost_ns = i->cost_ns,
			  .confidence = i->confidence};
	COPY(to.name, i->sentence);
	COPY(to.cause, i->cause);
	pthread_mutex_lock(&e->lock);
	put_span(e, INCIDENT, &to);
	pthread_mutex_unlock(&e->lock);
}

/* As many of what is joined by "; " as find room. */
static void copy_list(char *ret, size_t room, const char *list)
{
	static const char more[] = "; ...";
	snprintf(ret, room, "%s", list ? list : "");
	if (!list || strlen(list) < room)
		return;
	char *end = ret + room - sizeof(more);
	while (end > ret && (end[0] != ';' || end[1] != ' '))
		end--;
	snprintf(end, sizeof(more), "%s", end > ret ? more : more + 2);
}

void otlp_events_incident(struct otlp_events *e, const struct otlp_incident *i)
{
	struct log l = {.time_ns = i->onset_ns,
			.seen_ns = monotonic_ns(),
			.id = i->id,
			.told_ns = i->told_ns,
			.pid = i->pid,
			.culprit_pid = i->culprit_pid,
			.ended = i->ended,
			.beside = i->beside,
			.cost_ns = i->cost_ns,
			.confidence = i->confidence};
	COPY(l.body, i->sentence);
	COPY(l.cause, i->cause);
	COPY(l.runner_up, i->runner_up);
	COPY(l.culprit, i->culprit);
	COPY(l.culprit_kind, i->culprit_kind);
	COPY(l.advice, i->advice);
	copy_list(l.evidence, sizeof(l.evidence), i->evidence);
	copy_list(l.blame, sizeof(l.blame), i->blame);
	put_log(e, &l);
	if (i->ended)
		put_incident_span(e, i);
}

/* ---- numbers of traces ---- */

struct ids {
	uint8_t trace[TRACE_BYTES], span[SPAN_BYTES];
};

/* The same for the same thing, so that a log and a span of an incident meet. */
static void ids_of(struct ids *ret, uint64_t seed, enum span_kind kind, uint64_t pid, uint64_t what)
{
	uint64_t key = hash_u64(seed ^ hash_u64(pid << 8 | kind)) ^ what;
	uint64_t words[3] = {hash_u64(key), hash_u64(key + 1), hash_u64(key + 2)};
	memcpy(ret->trace, words, TRACE_BYTES);
	memcpy(ret->span, words + 2, SPAN_BYTES);
	ret->trace[0] |= 1; /* all zeros are none */
	ret->span[0] |= 1;
}

static uint64_t incident_key(uint64_t id, uint64_t told_ns)
{
	return hash_u64(id) ^ told_ns;
}

static ProtobufCBinaryData bytes_of(struct otlp_arena *a, const uint8_t *data, size_t n)
{
	uint8_t *copy = otlp_arena_get(a, n);
	memcpy(copy, data, n);
	return (ProtobufCBinaryData){.len = n, .data = copy};
}

/* ---- logs ---- */

static const char *known(const char *text)
{
	return text[0] ? text : NULL;
}

static void put_cost(struct otlp_arena *a, struct otlp_attributes *to, double cost_ns,
		     double confidence)
{
	if (isfinite(cost_ns))
		otlp_put_double(a, to, "eacgm.incident.cost", cost_ns * 1e-9);
	if (isfinite(confidence))
		otlp_put_double(a, to, "eacgm.incident.confidence", confidence);
}

static void put_incident_attributes(struct otlp_arena *a, struct otlp_attributes *to,
				    const struct log *l)
{
	otlp_put_int(a, to, "eacgm.incident.id", (int64_t)l->id);
	otlp_put_bool(a, to, "eacgm.incident.ended", l->ended);
	otlp_put_bool(a, to, "eacgm.incident.beside", l->beside);
	otlp_put_text(a, to, "eacgm.incident.cause", l->cause[0] ? l->cause : "unknown");
	otlp_put_text(a, to, "eacgm.incident.runner_up", known(l->runner_up));
	put_cost(a, to, l->cost_ns, l->confidence);
	otlp_put_text(a, to, "eacgm.incident.culprit", known(l->culprit));
	otlp_put_text(a, to, "eacgm.incident.culprit.kind", known(l->culprit_kind));
	if (l->culprit_pid)
		otlp_put_int(a, to, "eacgm.incident.culprit.pid", l->culprit_pid);
	otlp_put_text(a, to, "eacgm.incident.evidence", known(l->evidence));
	otlp_put_text(a, to, "eacgm.incident.blame", known(l->blame));
	otlp_put_text(a, to, "eacgm.incident.advice", known(l->advice));
	if (l->pid)
		otlp_put_int(a, to, "process.pid", l->pid);
}

static void set_severity(record_t *r, bool is_error)
{
	static char error[] = "ERROR", warn[] = "WARN";
	r->severity_number =
		is_error ? OPENTELEMETRY__PROTO__LOGS__V1__SEVERITY_NUMBER__SEVERITY_NUMBER_ERROR
			 : OPENTELEMETRY__PROTO__LOGS__V1__SEVERITY_NUMBER__SEVERITY_NUMBER_WARN;
	r->severity_text = is_error ? error : warn;
}

static void pack_log(struct buf *ret, struct otlp_arena *a, const struct log *l, uint64_t seed,
		     uint64_t offset_ns)
{
	static char names[][16] = {"eacgm.incident", "eacgm.error", "eacgm.warning"};
	Opentelemetry__Proto__Logs__V1__ScopeLogs scope =
		OPENTELEMETRY__PROTO__LOGS__V1__SCOPE_LOGS__INIT;
	record_t r = OPENTELEMETRY__PROTO__LOGS__V1__LOG_RECORD__INIT, *rows = &r;
	struct otlp_attributes attributes = {0};
	struct ids ids;
	r.time_unix_nano = l->time_ns + offset_ns;
	r.observed_time_unix_nano = l->seen_ns + offset_ns;
	set_severity(&r, l->kind == LOG_ERROR);
	r.body = otlp_text_value(a, l->body);
	r.event_name = names[l->kind];
	if (l->kind != LOG_INCIDENT) {
		otlp_put_text(a, &attributes,
			      l->kind == LOG_ERROR ? "error.type" : "eacgm.warning.type", l->name);
		otlp_put_text(a, &attributes, "eacgm.of", l->of);
	} else {
		put_incident_attributes(a, &attributes, l);
		ids_of(&ids, seed, INCIDENT, l->pid, incident_key(l->id, l->told_ns));
		r.trace_id = bytes_of(a, ids.trace, TRACE_BYTES);
		r.span_id = bytes_of(a, ids.span, SPAN_BYTES);
	}
	r.attributes = attributes.list;
	r.n_attributes = attributes.n;
	scope.log_records = &rows;
	scope.n_log_records = 1;
	otlp_pack(ret, &scope.base);
	otlp_arena_empty(a);
}

size_t otlp_events_write_logs(struct otlp_events *e, struct buf *ret,
			      const struct otlp_about *about, uint64_t offset_ns)
{
	struct buf rows = {0};
	struct otlp_arena a = {0};
	pthread_mutex_lock(&e->lock);
	logs_t logs = e->logs;
	e->logs = (logs_t){0};
	e->stats.logs += logs.len;
	pthread_mutex_unlock(&e->lock);
	for (size_t i = 0; i < logs.len; i++)
		pack_log(&rows, &a, &logs.data[i], e->seed, offset_ns);
	if (logs.len)
		otlp_put_question(ret, about, &rows);
	size_t n = logs.len;
	vec_free(&logs);
	buf_free(&rows);
	otlp_arena_free(&a);
	return n;
}

/* ---- spans ---- */

static uint64_t what_of(enum span_kind kind, const struct span *s)
{
	return kind == INCIDENT ? incident_key(s->number, s->told_ns)
				: hash_u64(s->start_ns) ^ s->tid;
}

/* What is under way while lists are packed. */
struct packing {
	struct otlp_arena arena;
	struct spans taken[SPAN_KINDS];
	struct span open; /* the step that had begun last, without an end; pid 0: none */
	uint64_t seed, offset_ns;
};

/* The step of its process that a collective began in. */
static const struct span *step_around(const struct packing *p, const struct span *s)
{
	const struct spans *steps = &p->taken[STEP];
	for (size_t i = 0; i < steps->list.len; i++) {
		const struct span *step = &steps->list.data[i];
		if (step->pid == s->pid && step->start_ns <= s->start_ns &&
		    s->start_ns < step->end_ns)
			return step;
	}
	return s->pid == p->open.pid && s->start_ns >= p->open.start_ns ? &p->open : NULL;
}

static void put_span_attributes(struct otlp_arena *a, struct otlp_attributes *to,
				enum span_kind kind, const struct span *s)
{
	if (s->pid)
		otlp_put_int(a, to, "process.pid", s->pid);
	if (kind == STEP) {
		otlp_put_int(a, to, "eacgm.step.number", (int64_t)s->number);
		otlp_put_text(a, to, "eacgm.step.kind", known(s->what));
	} else if (kind == COLLECTIVE) {
		otlp_put_text(a, to, "eacgm.layer", known(s->what));
		otlp_put_int(a, to, "thread.id", s->tid);
		if (s->bytes >= 0)
			otlp_put_int(a, to, "eacgm.collective.size", s->bytes);
	} else {
		otlp_put_int(a, to, "eacgm.incident.id", (int64_t)s->number);
		otlp_put_text(a, to, "eacgm.incident.cause", s->cause[0] ? s->cause : "unknown");
		put_cost(a, to, s->cost_ns, s->confidence);
	}
}

static void put_ids(struct packing *p, span_t *row, enum span_kind kind, const struct span *s)
{
	const struct span *parent = kind == COLLECTIVE ? step_around(p, s) : NULL;
	struct ids ids, of_parent;
	ids_of(&ids, p->seed, kind, s->pid, what_of(kind, s));
	if (parent) {
		ids_of(&of_parent, p->seed, STEP, parent->pid, what_of(STEP, parent));
		memcpy(ids.trace, of_parent.trace, TRACE_BYTES);
		row->parent_span_id = bytes_of(&p->arena, of_parent.span, SPAN_BYTES);
	}
	row->trace_id = bytes_of(&p->arena, ids.trace, TRACE_BYTES);
	row->span_id = bytes_of(&p->arena, ids.span, SPAN_BYTES);
}

static void pack_span(struct buf *ret, struct packing *p, enum span_kind kind, const struct span *s)
{
	Opentelemetry__Proto__Trace__V1__ScopeSpans scope =
		OPENTELEMETRY__PROTO__TRACE__V1__SCOPE_SPANS__INIT;
	Opentelemetry__Proto__Trace__V1__Status status =
		OPENTELEMETRY__PROTO__TRACE__V1__STATUS__INIT;
	span_t row = OPENTELEMETRY__PROTO__TRACE__V1__SPAN__INIT, *rows = &row;
	struct otlp_attributes attributes = {0};
	put_ids(p, &row, kind, s);
	row.name = otlp_arena_text(&p->arena, s->name);
	row.kind = OPENTELEMETRY__PROTO__TRACE__V1__SPAN__SPAN_KIND__SPAN_KIND_INTERNAL;
	row.start_time_unix_nano = s->start_ns + p->offset_ns;
	row.end_time_unix_nano = s->end_ns + p->offset_ns;
	put_span_attributes(&p->arena, &attributes, kind, s);
	row.attributes = attributes.list;
	row.n_attributes = attributes.n;
	status.code = OPENTELEMETRY__PROTO__TRACE__V1__STATUS__STATUS_CODE__STATUS_CODE_ERROR;
	if (s->failed || kind == INCIDENT)
		row.status = &status;
	scope.spans = &rows;
	scope.n_spans = 1;
	otlp_pack(ret, &scope.base);
	otlp_arena_empty(&p->arena);
}

/* What ends later stays; the lock is held. */
static void take_spans(struct otlp_events *e, struct packing *p, uint64_t upto_ns)
{
	settle_steps(e, upto_ns);
	memcpy(p->taken, e->spans, sizeof(p->taken));
	memset(e->spans, 0, sizeof(e->spans));
	struct spans *from = &p->taken[COLLECTIVE], *stay = &e->spans[COLLECTIVE];
	size_t kept = 0;
	for (size_t i = 0; i < from->list.len; i++)
		if (from->list.data[i].end_ns > upto_ns)
			*vec_push(&stay->list) = from->list.data[i];
		else
			from->list.data[kept++] = from->list.data[i];
	from->list.len = kept;
	if (stay->list.len == OTLP_SPANS)
		find_shortest(stay);
	p->open = (struct span){.start_ns = e->last.ns, .pid = e->last.pid};
}

size_t otlp_events_write_spans(struct otlp_events *e, struct buf *ret,
			       const struct otlp_about *about, uint64_t offset_ns, uint64_t upto_ns)
{
	struct packing p = {.seed = e->seed, .offset_ns = offset_ns};
	struct buf rows = {0};
	size_t n = 0;
	pthread_mutex_lock(&e->lock);
	take_spans(e, &p, upto_ns);
	for (int kind = 0; kind < SPAN_KINDS; kind++)
		n += p.taken[kind].list.len;
	e->stats.spans += n;
	pthread_mutex_unlock(&e->lock);
	for (int kind = 0; kind < SPAN_KINDS; kind++) {
		for (size_t i = 0; i < p.taken[kind].list.len; i++)
			pack_span(&rows, &p, kind, &p.taken[kind].list.data[i]);
	}
	if (n)
		otlp_put_question(ret, about, &rows);
	for (int kind = 0; kind < SPAN_KINDS; kind++)
		vec_free(&p.taken[kind].list);
	otlp_arena_free(&p.arena);
	buf_free(&rows);
	return n;
}

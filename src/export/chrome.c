/* chrome.c - the Trace Event Format ("Trace Event Format", Google, the JSON object form):
 * for chrome://tracing, and for tools that do not read Perfetto's own format.
 *
 * Times are microseconds since the recording began. Calls are pairs of B and E events,
 * each thread's in order, since complete events (X) that begin in the same nanosecond
 * have no defined nesting. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/kernel_name.h"
#include "events/metric.h"
#include "export/call_view.h"
#include "export/json_call.h"
#include "export/launches.h"
#include "export/sink.h"
#include "export/slice_name.h"

struct sink {
	FILE *out;
	const struct rec_tables *t;
	uint64_t zero_ns;
	bool some; /* an event is written: the next one needs a comma */
	struct launch_probes launches;
	struct lanes lanes;
};

/* Lanes of launches are threads that the system cannot have: its numbers end at 2^22. */
#define LANE_TID 0x40000000

static struct sink *chrome_open(FILE *out, const struct rec_tables *t)
{
	struct sink *s = xcalloc(1, sizeof(*s));
	s->out = out;
	s->t = t;
	launch_probes_make(&s->launches, t);
	s->zero_ns = meta_number(t, "start_monotonic_ns");
	for (size_t i = 0; !s->zero_ns && i < t->processes.len; i++)
		s->zero_ns = t->processes.data[i].start_ns;
	return s;
}

static void event(struct sink *s, json_t *o)
{
	fputs(s->some ? ",\n" : "\n", s->out);
	s->some = true;
	json_write(s->out, o);
}

static json_t *phase(const char *ph, uint32_t pid, uint32_t tid)
{
	json_t *o = json_object();
	json_object_set_new(o, "ph", json_string(ph));
	json_object_set_new(o, "pid", json_integer(pid));
	json_object_set_new(o, "tid", json_integer(tid));
	return o;
}

static json_t *at(const struct sink *s, uint64_t time_ns)
{
	return json_real((double)(int64_t)(time_ns - s->zero_ns) / 1e3);
}

static void name_event(struct sink *s, const char *what, uint32_t pid, uint32_t tid, json_t *name)
{
	json_t *o = phase("M", pid, tid);
	json_object_set_new(o, "name", json_string(what));
	json_object_set_new(o, "args", json_pack("{s:o}", "name", name));
	event(s, o);
}

/* What happened to a GPU, as instants of the whole recording. */
static void event_instants(struct sink *s)
{
	for (size_t i = 0; i < s->t->events.len; i++) {
		const struct m_event *e = &s->t->events.data[i];
		char *name = xasprintf("%s %s", strtab_get(&s->t->strings, e->entity, NULL),
				       strtab_get(&s->t->strings, e->name, NULL));
		json_t *o = phase("i", 0, 0);
		json_object_set_new(o, "ts", at(s, e->time_ns));
		json_object_set_new(o, "name", json_text_z(name));
		json_object_set_new(o, "s", json_string("g"));
		json_object_set_new(o, "args",
				    json_pack("{s:o}", "text", json_text(s->t, e->text)));
		free(name);
		event(s, o);
	}
}

static void begin_file(struct sink *s)
{
	fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":", s->out);
	json_write(s->out, json_about(s->t));
	fputs(",\"traceEvents\":[", s->out);
}

static void sort_index(struct sink *s, const char *what, uint32_t pid, uint32_t tid, size_t index)
{
	json_t *o = phase("M", pid, tid);
	json_object_set_new(o, "name", json_string(what));
	json_object_set_new(o, "args", json_pack("{s:I}", "sort_index", (json_int_t)index));
	event(s, o);
}

static void chrome_order(struct sink *s, const struct track_order *order)
{
	const struct rec_tables *t = s->t;
	begin_file(s);
	for (size_t i = 0; i < order->nprocesses; i++) {
		uint32_t pid = t->processes.data[order->processes[i]].pid;
		sort_index(s, "process_sort_index", pid, pid, i + 1);
	}
	for (size_t i = 0; i < order->nthreads; i++) {
		const struct m_thread *thread = &t->threads.data[order->threads[i]];
		sort_index(s, "thread_sort_index", thread->pid, thread->tid, i + 1);
	}
}

static void chrome_tables(struct sink *s)
{
	const struct rec_tables *t = s->t;
	for (size_t i = 0; i < t->processes.len; i++)
		name_event(s, "process_name", t->processes.data[i].pid, t->processes.data[i].pid,
			   json_text(t, t->processes.data[i].comm));
	for (size_t i = 0; i < t->threads.len; i++)
		name_event(s, "thread_name", t->threads.data[i].pid, t->threads.data[i].tid,
			   json_text(t, t->threads.data[i].comm));
	event_instants(s);
}

static json_t *span_args(const struct sink *s, const struct m_call *c, const struct m_code *code)
{
	json_t *args = json_args(s->t, c);
	const struct m_probe *p = &s->t->probes.data[c->probe];
	bool kernel = p->name_arg >= 0 && p->name_arg < c->nargs && p->name_arg < MODEL_MAX_ARGS &&
		      !call_shows_arg(s->t, c, (unsigned)p->name_arg) &&
		      slice_shows_arg(s->t, c, (unsigned)p->name_arg);
	if (kernel)
		json_object_set_new(args, "kernel",
				    json_text(s->t, (uint32_t)c->args[p->name_arg]));
	if (code) {
		json_object_set_new(args, "file", json_text(s->t, code->file));
		json_object_set_new(args, "line", json_integer(code->line));
	}
	for (size_t i = 2; i < CALL_FLAGS; i++) /* nesting and instants can be seen */
		if (c->flags & call_flag_names[i].flag)
			json_object_set_new(args, call_flag_names[i].name, json_true());
	return args;
}

/* One end of an arrow. */
static void arrow(struct sink *s, const char *ph, uint64_t id, uint64_t time_ns, uint32_t pid,
		  uint32_t tid)
{
	json_t *o = phase(ph, pid, tid);
	json_object_set_new(o, "ts", at(s, time_ns));
	json_object_set_new(o, "id", json_u64(id));
	json_object_set_new(o, "name", json_string("launch"));
	json_object_set_new(o, "cat", json_string("launch"));
	if (*ph == 'f')
		json_object_set_new(o, "bp", json_string("e"));
	event(s, o);
}

/* The launch once more, on its stream's lane. */
static void lane_span(struct sink *s, const struct span *span, uint32_t pid)
{
	bool is_new;
	size_t lane = lane_of(&s->lanes, &s->launches, span->call, &is_new);
	uint32_t tid = LANE_TID + (uint32_t)lane;
	if (is_new) {
		char *label = lane_label(&s->lanes.rows.data[lane]);
		name_event(s, "thread_name", pid, tid, json_text_z(label));
		free(label);
	}
	json_t *o = phase(span->kind == SPAN_BEGIN ? "B" : "E", pid, tid);
	json_object_set_new(o, "ts", at(s, span->time_ns));
	if (span->kind == SPAN_BEGIN) {
		char name[KERNEL_NAME_BYTES];
		launch_name(name, sizeof(name), s->t, span->call);
		json_object_set_new(o, "name", json_text_z(name));
		json_object_set_new(o, "cat", json_string("launch"));
	}
	event(s, o);
	if (span->kind == SPAN_BEGIN)
		arrow(s, "f", span->launch_flow, span->time_ns, pid, tid);
}

static void chrome_span(struct sink *s, const struct span *span)
{
	static const char *const phases[] = {"B", "E", "i"};
	const struct m_call *c = span->call;
	const struct m_thread *thread = &s->t->threads.data[c->thread];
	json_t *o = phase(phases[span->kind], thread->pid, thread->tid);
	json_object_set_new(o, "ts", at(s, span->time_ns));
	if (span->kind != SPAN_END) {
		struct slice_name name = slice_name_of(s->t, c);
		char *text = slice_name_text(s->t, name);
		json_object_set_new(o, "name", json_text_z(text));
		json_object_set_new(
			o, "cat", json_text_z(slice_category(s->t, &s->t->probes.data[c->probe])));
		free(text);
		json_t *args = span_args(
			s, c, name.kind == SLICE_CODE ? &s->t->codes.data[name.number] : NULL);
		if (json_object_size(args))
			json_object_set(o, "args", args);
		json_decref(args);
	}
	if (span->kind == SPAN_INSTANT)
		json_object_set_new(o, "s", json_string("t"));
	event(s, o);
	for (uint32_t i = 0; i < span->flows; i++)
		arrow(s, "s", span->flow_first + i, span->time_ns, thread->pid, thread->tid);
	if (span->kind != SPAN_INSTANT && is_launch(&s->launches, c))
		lane_span(s, span, thread->pid);
}

static void chrome_counters(struct sink *s, const struct m_counter *rows, size_t n)
{
	struct buf entity = {0};
	for (size_t i = 0; i < n; i++) {
		const struct m_metric *m = &s->t->metrics.data[rows[i].metric];
		const char *name = strtab_get(&s->t->strings, m->name, NULL);
		uint32_t pid = m->kind == ENTITY_PROCESS ? m->pid : 0;
		json_t *o = phase("C", pid, pid);
		char *label =
			pid ? xstrdup(name)
			    : xasprintf("%s %s", counter_entity(&entity, s->t, &rows[i]), name);
		json_t *value = json_real(rows[i].value);
		json_object_set_new(o, "ts", at(s, rows[i].time_ns));
		json_object_set_new(o, "name", json_text_z(label));
		json_object_set_new(o, "args",
				    json_pack("{s:o}", "value", value ? value : json_integer(0)));
		free(label);
		event(s, o);
	}
	buf_free(&entity);
}

static void chrome_close(struct sink *s)
{
	fputs("\n]}\n", s->out);
	launch_probes_free(&s->launches);
	lanes_free(&s->lanes);
	free(s);
}

const struct sink_format sink_chrome = {
	.name = "chrome",
	.extension = "json",
	.open = chrome_open,
	.order = chrome_order,
	.tables = chrome_tables,
	.span = chrome_span,
	.counters = chrome_counters,
	.close = chrome_close,
};

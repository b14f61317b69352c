/* jsonl.c - one JSON object per line; the key "type" tells what it is. docs/export.md
 * lists the types and their keys. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "export/call_view.h"
#include "export/json_call.h"
#include "export/sink.h"

struct sink {
	FILE *out;
	const struct rec_tables *t;
};

static struct sink *jsonl_open(FILE *out, const struct rec_tables *t)
{
	struct sink *s = xcalloc(1, sizeof(*s));
	s->out = out;
	s->t = t;
	return s;
}

static void line(struct sink *s, json_t *o)
{
	json_write(s->out, o);
	fputc('\n', s->out);
}

static json_t *typed(const char *type)
{
	json_t *o = json_object();
	json_object_set_new(o, "type", json_string(type));
	return o;
}

static void process_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->processes.len; i++) {
		const struct m_process *p = &s->t->processes.data[i];
		json_t *o = typed("process");
		json_object_set_new(o, "pid", json_integer(p->pid));
		json_object_set_new(o, "parent_pid", json_integer(p->parent_pid));
		json_object_set_new(o, "comm", json_text(s->t, p->comm));
		json_object_set_new(o, "command", json_text(s->t, p->command));
		json_object_set_new(o, "script",
				    p->script ? json_text(s->t, p->script) : json_null());
		json_object_set_new(o, "cpu_limit",
				    isfinite(p->cpu_limit) && p->cpu_limit > 0
					    ? json_real(p->cpu_limit)
					    : json_null());
		json_object_set_new(o, "start_ns", json_u64(p->start_ns));
		json_object_set_new(o, "end_ns", p->end_ns ? json_u64(p->end_ns) : json_null());
		json_object_set_new(o, "exit_code",
				    p->end_ns ? json_integer(p->exit_code) : json_null());
		json_object_set_new(o, "rank", p->rank < 0 ? json_null() : json_integer(p->rank));
		line(s, o);
	}
}

static void hist_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->hists.len; i++) {
		const struct m_hist *h = &s->t->hists.data[i];
		if (h->probe >= s->t->probes.len)
			continue;
		const struct m_probe *p = &s->t->probes.data[h->probe];
		struct m_call named = {.probe = h->probe, .nargs = p->nargs};
		if (p->name_arg >= 0 && p->name_arg < MODEL_MAX_ARGS)
			named.args[p->name_arg] = h->name;
		const struct m_code *code;
		json_t *o = typed("histogram");
		json_object_set_new(o, "pid", json_integer(h->pid));
		json_object_set_new(o, "layer", json_text(s->t, p->layer));
		json_object_set_new(o, "name", json_text(s->t, call_name(s->t, &named, &code)));
		json_object_set_new(o, "calls", json_u64(h->count));
		json_object_set_new(o, "errors", json_u64(h->errors));
		json_object_set_new(o, "nested_calls", json_u64(h->nested));
		json_object_set_new(o, "total_ns", json_u64(h->total_ns));
		json_object_set_new(o, "max_ns", json_u64(h->max_ns));
		line(s, o);
	}
}

static void set_hex(json_t *o, const char *key, uint64_t v)
{
	char hex[24];
	snprintf(hex, sizeof(hex), "0x%" PRIx64, v);
	json_object_set_new(o, key, v ? json_string(hex) : json_null());
}

/* A number where it is known. */
static void set_known(json_t *o, const char *key, int64_t v, bool known)
{
	json_object_set_new(o, key, known ? json_integer(v) : json_null());
}

static void gpu_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->gpus.len; i++) {
		const struct m_gpu *g = &s->t->gpus.data[i];
		json_t *o = typed("gpu"), *limit = json_real(g->power_limit_w);
		json_object_set_new(o, "index", json_integer(g->index));
		set_known(o, "parent", g->parent, g->parent >= 0);
		json_object_set_new(o, "uuid", json_text(s->t, g->uuid));
		json_object_set_new(o, "name", json_text(s->t, g->name));
		json_object_set_new(o, "bus_id", json_text(s->t, g->bus_id));
		json_object_set_new(o, "driver", json_text(s->t, g->driver));
		json_object_set_new(o, "memory_bytes", json_u64(g->memory_bytes));
		json_object_set_new(o, "power_limit_w", limit ? limit : json_null());
		json_object_set_new(o, "seen_ns", json_u64(g->seen_ns));
		json_object_set_new(o, "gone_ns", g->gone_ns ? json_u64(g->gone_ns) : json_null());
		line(s, o);
	}
}

static void comm_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->comms.len; i++) {
		const struct m_comm *c = &s->t->comms.data[i];
		json_t *o = typed("comm");
		json_object_set_new(o, "pid", json_integer(c->pid));
		set_hex(o, "handle", c->handle);
		set_hex(o, "hash", c->hash);
		set_hex(o, "parent", c->parent);
		set_known(o, "rank", c->rank, c->rank >= 0);
		set_known(o, "size", c->size, c->size > 0);
		set_known(o, "device", c->device, c->device >= 0);
		json_object_set_new(o, "start_ns", json_u64(c->start_ns));
		json_object_set_new(o, "end_ns", c->end_ns ? json_u64(c->end_ns) : json_null());
		line(s, o);
	}
}

static void connection_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->connections.len; i++) {
		const struct m_connection *c = &s->t->connections.data[i];
		json_t *o = typed("connection");
		json_object_set_new(o, "pid", json_integer(c->pid));
		json_object_set_new(o, "source", json_text(s->t, c->source));
		json_object_set_new(o, "destination", json_text(s->t, c->destination));
		json_object_set_new(o, "opener",
				    c->opener ? json_text(s->t, c->opener) : json_null());
		json_object_set_new(o, "by_nccl", json_boolean(c->by_nccl));
		json_object_set_new(o, "netns", json_u64(c->netns));
		json_object_set_new(o, "first_ns", json_u64(c->first_ns));
		json_object_set_new(o, "last_ns", json_u64(c->last_ns));
		json_object_set_new(o, "closed_ns",
				    c->closed_ns ? json_u64(c->closed_ns) : json_null());
		json_object_set_new(o, "bytes_sent", json_u64(c->bytes_sent));
		json_object_set_new(o, "bytes_received", json_u64(c->bytes_received));
		json_object_set_new(o, "bytes_sent_before", json_u64(c->sent_before));
		json_object_set_new(o, "bytes_received_before", json_u64(c->received_before));
		json_object_set_new(o, "bytes_retransmitted", json_u64(c->bytes_retransmitted));
		json_object_set_new(o, "retransmits", json_u64(c->retransmits));
		set_known(o, "srtt_us", c->srtt_us, c->srtt_us > 0);
		line(s, o);
	}
}

static void event_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->events.len; i++) {
		const struct m_event *e = &s->t->events.data[i];
		json_t *o = typed("event");
		json_object_set_new(o, "time_ns", json_u64(e->time_ns));
		json_object_set_new(o, "entity", json_text(s->t, e->entity));
		json_object_set_new(o, "name", json_text(s->t, e->name));
		json_object_set_new(o, "text", json_text(s->t, e->text));
		line(s, o);
	}
}

static void enum_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->enums.len; i++) {
		const struct m_enum *e = &s->t->enums.data[i];
		json_t *o = typed("enum");
		json_object_set_new(o, "enum", json_text(s->t, e->type));
		json_object_set_new(o, "name", json_text(s->t, e->name));
		json_object_set_new(o, "value", json_integer(e->value));
		line(s, o);
	}
}

static const char *const wait_reasons[] = WAIT_REASON_NAMES;

static json_t *of_thread(struct sink *s, const char *type, uint32_t number)
{
	const struct m_thread *t = &s->t->threads.data[number];
	json_t *o = typed(type);
	json_object_set_new(o, "pid", json_integer(t->pid));
	json_object_set_new(o, "tid", json_integer(t->tid));
	json_object_set_new(o, "comm", json_text(s->t, t->comm));
	return o;
}

static void wait_total_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->wait_totals.len; i++) {
		const struct m_wait_total *w = &s->t->wait_totals.data[i];
		json_t *o = of_thread(s, "wait_total", w->thread);
		json_object_set_new(o, "reason", json_string(wait_reasons[w->reason]));
		json_object_set_new(o, "since_ns", json_u64(w->since_ns));
		json_object_set_new(o, "until_ns", json_u64(w->until_ns));
		json_object_set_new(o, "count", json_u64(w->count));
		json_object_set_new(o, "waited_ns", json_u64(w->waited_ns));
		json_object_set_new(o, "uninterruptible_ns", json_u64(w->uninterruptible_ns));
		json_object_set_new(o, "runnable_ns", json_u64(w->runnable_ns));
		json_object_set_new(o, "longest_ns", json_u64(w->longest_ns));
		json_object_set_new(o, "left_out", json_u64(w->left_out));
		set_known(o, "cpus", w->cpus, w->cpus > 0);
		line(s, o);
	}
}

static void jsonl_waits(struct sink *s, const struct m_wait *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct m_wait *w = &rows[i];
		json_t *o = of_thread(s, "wait", w->thread);
		json_object_set_new(o, "reason", json_string(wait_reasons[w->reason]));
		json_object_set_new(o, "start_ns", json_u64(w->start_ns));
		json_object_set_new(o, "duration_ns", json_u64(w->end_ns - w->start_ns));
		json_object_set_new(o, "runnable_ns", json_u64(w->runnable_ns));
		set_known(o, "syscall", w->syscall, w->syscall >= 0);
		set_known(o, "waker_pid", w->waker_pid, w->waker_pid > 0);
		set_known(o, "waker_tid", w->waker_tid, w->waker_tid > 0);
		set_known(o, "rival_pid", w->rival_pid, w->rival_pid > 0);
		if (w->rival)
			json_object_set_new(o, "rival", json_text(s->t, w->rival));
		if (w->rival_cgroup)
			json_object_set_new(o, "rival_cgroup", json_text(s->t, w->rival_cgroup));
		set_known(o, "rival_leader_pid", w->rival_leader_pid, w->rival_leader_pid > 0);
		if (w->rival_leader)
			json_object_set_new(o, "rival_leader", json_text(s->t, w->rival_leader));
		line(s, o);
	}
}

static const char *const stall_kinds[] = STALL_KIND_NAMES;

/* What took the time: kind, number and name. */
static void set_stall(struct sink *s, json_t *o, uint8_t kind, int32_t number, uint32_t name)
{
	json_object_set_new(o, "kind", json_string(stall_kinds[kind]));
	set_known(o, "number", number, number != STALL_OTHER_LINES);
	json_object_set_new(o, "name", name ? json_text(s->t, name) : json_null());
}

static void stall_total_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->stall_totals.len; i++) {
		const struct m_stall_total *x = &s->t->stall_totals.data[i];
		json_t *o = of_thread(s, "stall_total", x->thread);
		set_stall(s, o, x->kind, x->number, x->name);
		json_object_set_new(o, "since_ns", json_u64(x->since_ns));
		json_object_set_new(o, "until_ns", json_u64(x->until_ns));
		json_object_set_new(o, "count", json_u64(x->count));
		json_object_set_new(o, "total_ns", json_u64(x->total_ns));
		json_object_set_new(o, "longest_ns", json_u64(x->longest_ns));
		json_object_set_new(o, "left_out", json_u64(x->left_out));
		line(s, o);
	}
}

static void jsonl_stalls(struct sink *s, const struct m_stall *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct m_stall *x = &rows[i];
		json_t *o = of_thread(s, "stall", x->thread);
		set_stall(s, o, x->kind, x->number, x->name);
		json_object_set_new(o, "start_ns", json_u64(x->start_ns));
		json_object_set_new(o, "duration_ns", json_u64(x->end_ns - x->start_ns));
		json_object_set_new(o, "own_ns", json_u64(x->own_ns));
		json_object_set_new(o, "cpu", json_integer(x->cpu));
		set_known(o, "sender_pid", x->sender_pid, x->sender_pid > 0);
		if (x->sender)
			json_object_set_new(o, "sender", json_text(s->t, x->sender));
		line(s, o);
	}
}

static void jsonl_disk_io(struct sink *s, const struct m_disk_io *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct m_disk_io *d = &rows[i];
		json_t *o = typed("disk_io");
		json_object_set_new(o, "disk", json_text(s->t, d->disk));
		json_object_set_new(o, "pid", json_integer(d->pid));
		json_object_set_new(o, "comm", json_text(s->t, d->comm));
		json_object_set_new(o, "since_ns", json_u64(d->since_ns));
		json_object_set_new(o, "until_ns", json_u64(d->until_ns));
		json_object_set_new(o, "reads", json_u64(d->reads));
		json_object_set_new(o, "writes", json_u64(d->writes));
		json_object_set_new(o, "flushes", json_u64(d->flushes));
		json_object_set_new(o, "read_bytes", json_u64(d->read_bytes));
		json_object_set_new(o, "written_bytes", json_u64(d->written_bytes));
		json_object_set_new(o, "read_ns", json_u64(d->read_ns));
		json_object_set_new(o, "write_ns", json_u64(d->write_ns));
		json_object_set_new(o, "flush_ns", json_u64(d->flush_ns));
		json_object_set_new(o, "queued_ns", json_u64(d->queued_ns));
		json_object_set_new(o, "longest_ns", json_u64(d->longest_ns));
		line(s, o);
	}
}

/* Of what a budget turned down. */
static void coverage_lines(struct sink *s)
{
	for (size_t i = 0; i < s->t->coverages.len; i++) {
		const struct m_coverage *c = &s->t->coverages.data[i];
		if (c->probe >= s->t->probes.len)
			continue;
		const struct m_probe *p = &s->t->probes.data[c->probe];
		json_t *o = typed("coverage");
		json_object_set_new(o, "layer", json_text(s->t, p->layer));
		json_object_set_new(o, "name", json_text(s->t, p->name));
		json_object_set_new(o, "on_ns", json_integer((json_int_t)c->on_ns));
		json_object_set_new(o, "off_ns", json_integer((json_int_t)c->off_ns));
		json_object_set_new(o, "changes", json_integer(c->changes));
		json_object_set_new(o, "in_bursts", json_boolean(c->in_bursts));
		line(s, o);
	}
}

static void jsonl_tables(struct sink *s)
{
	json_t *o = typed("recording");
	json_object_update_new(o, json_about(s->t));
	line(s, o);
	process_lines(s);
	for (size_t i = 0; i < s->t->threads.len; i++) {
		const struct m_thread *t = &s->t->threads.data[i];
		o = typed("thread");
		json_object_set_new(o, "pid", json_integer(t->pid));
		json_object_set_new(o, "tid", json_integer(t->tid));
		json_object_set_new(o, "comm", json_text(s->t, t->comm));
		line(s, o);
	}
	for (size_t i = 0; i < s->t->notes.len; i++) {
		const struct m_note *n = &s->t->notes.data[i];
		o = typed("note");
		json_object_set_new(o, "subject", json_text(s->t, n->subject));
		json_object_set_new(o, "reason", json_text(s->t, n->reason));
		line(s, o);
	}
	gpu_lines(s);
	comm_lines(s);
	connection_lines(s);
	event_lines(s);
	enum_lines(s);
	hist_lines(s);
	wait_total_lines(s);
	stall_total_lines(s);
	coverage_lines(s);
}

static json_t *flags(const struct m_call *c)
{
	json_t *list = json_array();
	for (size_t i = 0; i < CALL_FLAGS; i++)
		if (c->flags & call_flag_names[i].flag)
			json_array_append_new(list, json_string(call_flag_names[i].name));
	return list;
}

static void jsonl_calls(struct sink *s, const struct m_call *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct m_call *c = &rows[i];
		const struct m_thread *thread = &s->t->threads.data[c->thread];
		const struct m_code *code;
		uint32_t name = call_name(s->t, c, &code);
		json_t *o = typed("call");
		json_object_set_new(o, "start_ns", json_u64(c->start_ns));
		json_object_set_new(o, "duration_ns", json_u64(c->dur_ns));
		json_object_set_new(o, "pid", json_integer(thread->pid));
		json_object_set_new(o, "tid", json_integer(thread->tid));
		json_object_set_new(o, "layer", json_text(s->t, s->t->probes.data[c->probe].layer));
		json_object_set_new(o, "name", json_text(s->t, name));
		if (s->t->probes.data[c->probe].role)
			json_object_set_new(o, "role",
					    json_text(s->t, s->t->probes.data[c->probe].role));
		if (code) {
			json_object_set_new(o, "file", json_text(s->t, code->file));
			json_object_set_new(o, "line", json_integer(code->line));
		}
		json_object_set_new(o, "depth", json_integer(c->depth));
		json_object_set_new(o, "flags", flags(c));
		json_object_set_new(o, "args", json_args(s->t, c));
		line(s, o);
	}
}

static void jsonl_counters(struct sink *s, const struct m_counter *rows, size_t n)
{
	struct buf entity = {0};
	for (size_t i = 0; i < n; i++) {
		json_t *o = typed("counter");
		json_object_set_new(o, "time_ns", json_u64(rows[i].time_ns));
		json_object_set_new(o, "entity",
				    json_text_z(counter_entity(&entity, s->t, &rows[i])));
		json_object_set_new(o, "name", json_text(s->t, counter_name(s->t, &rows[i])));
		json_t *value = json_real(rows[i].value); /* NULL for what JSON cannot hold */
		json_object_set_new(o, "value", value ? value : json_null());
		line(s, o);
	}
	buf_free(&entity);
}

static void jsonl_close(struct sink *s)
{
	free(s);
}

const struct sink_format sink_jsonl = {
	.name = "jsonl",
	.extension = "jsonl",
	.open = jsonl_open,
	.tables = jsonl_tables,
	.calls = jsonl_calls,
	.counters = jsonl_counters,
	.waits = jsonl_waits,
	.stalls = jsonl_stalls,
	.disk_io = jsonl_disk_io,
	.close = jsonl_close,
};

/* report_json.c - the report as one JSON object; docs/report.md names its keys. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/report.h"

/* A JSON string of any bytes: what is no UTF-8 becomes U+FFFD. */
static json_t *text(const char *s)
{
	if (!s)
		return json_null();
	struct buf clean = {0};
	utf8_append(&clean, s, strlen(s));
	json_t *ret = json_stringn((const char *)clean.data, clean.len);
	buf_free(&clean);
	return ret;
}

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *recording_json(const struct report *r)
{
	const struct rec_tables *t = r->tables;
	json_t *o = json_object();
	json_object_set_new(o, "file", text(r->path));
	json_object_set_new(o, "duration_s", json_real((double)r->duration_ns / 1e9));
	json_object_set_new(o, "events", number(t->calls));
	json_object_set_new(o, "lost", number(r->lost));
	json_object_set_new(o, "incomplete", number(r->incomplete));
	json_t *losses = json_object();
	for (size_t i = 0; i < r->losses.len; i++)
		json_object_set_new(losses, r->losses.data[i].cause,
				    number(r->losses.data[i].count));
	json_object_set_new(o, "lost_by_cause", losses);
	json_object_set_new(o, "bytes", number(t->file_bytes));
	json_object_set_new(o, "bytes_per_event",
			    t->calls ? json_real((double)t->file_bytes / (double)t->calls)
				     : json_null());
	static const char *const keys[] = {"host",    "kernel", "command",
					   "version", "mode",	"target"};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_set_new(o, keys[i], text(rec_meta(t, keys[i])));
	json_object_set_new(o, "start_realtime_ns",
			    r->start_realtime_ns ? number(r->start_realtime_ns) : json_null());
	json_object_set_new(o, "overhead",
			    json_pack("{s:o}", "cpu_ratio",
				      r->cpu_ratio < 0 ? json_null() : json_real(r->cpu_ratio)));
	const char *ms = rec_meta(t, "attach_ms");
	json_object_set_new(o, "attach",
			    json_pack("{s:o,s:o,s:o}", "ms",
				      ms ? json_real(strtod(ms, NULL)) : json_null(), "sites",
				      number(report_number(t, "attach_sites")), "method",
				      text(rec_meta(t, "attach_method"))));
	json_object_set_new(o, "complete", json_boolean(t->complete));
	json_object_set_new(o, "damage",
			    t->damaged_at ? json_pack("{s:o,s:o}", "offset", number(t->damaged_at),
						      "message", text(t->damage))
					  : json_null());
	return o;
}

static json_t *processes_json(const struct report *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->summary->processes.len; i++) {
		const struct summary_process *p = &r->summary->processes.data[i];
		const struct strtab *strings = &r->tables->strings;
		json_t *o = json_object();
		json_object_set_new(o, "pid", number(p->row->pid));
		json_object_set_new(o, "parent_pid", number(p->row->parent_pid));
		json_object_set_new(o, "comm", text(strtab_get(strings, p->row->comm, NULL)));
		json_object_set_new(o, "command", text(strtab_get(strings, p->row->command, NULL)));
		json_object_set_new(o, "rank",
				    p->row->rank < 0 ? json_null() : json_integer(p->row->rank));
		json_object_set_new(o, "calls", number(p->calls));
		json_object_set_new(o, "threads", number(p->threads));
		json_object_set_new(o, "exit_code",
				    p->row->end_ns ? json_integer(p->row->exit_code) : json_null());
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *function_json(const struct summary_function *f)
{
	json_t *o = json_object();
	json_object_set_new(o, "layer", text(f->layer));
	json_object_set_new(o, "name", text(f->name));
	if (*f->file) {
		json_object_set_new(o, "file", text(f->file));
		json_object_set_new(o, "line", number(f->line));
	}
	json_object_set_new(o, "calls", number(f->calls));
	json_object_set_new(o, "errors", number(f->errors));
	json_object_set_new(o, "nested_calls", number(f->nested));
	json_object_set_new(o, "instants", number(f->instants));
	json_object_set_new(o, "open_calls", number(f->open));
	json_object_set_new(o, "unwound_calls", number(f->unwound));
	json_object_set_new(o, "total_ns", number(f->total_ns));
	json_object_set_new(o, "self_ns", f->self_known ? number(f->self_ns) : json_null());
	json_object_set_new(o, "mean_ns", number(f->mean_ns));
	json_object_set_new(o, "p50_ns", number(f->p50_ns));
	json_object_set_new(o, "p99_ns", number(f->p99_ns));
	json_object_set_new(o, "max_ns", number(f->max_ns));
	json_object_set_new(o, "from_histogram", json_boolean(f->from_histogram));
	return o;
}

/* The first functions of each layer, in the report's order. */
static json_t *functions_json(const struct report *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->functions.len; i++) {
		const struct summary_function *f = r->functions.data[i];
		uint64_t before = 0;
		for (size_t k = 0; r->options->top && k < i; k++)
			before += r->functions.data[k]->layer == f->layer;
		if (!r->options->top || before < r->options->top)
			json_array_append_new(list, function_json(f));
	}
	return list;
}

static json_t *notes_json(const struct report *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->tables->notes.len; i++) {
		const struct m_note *n = &r->tables->notes.data[i];
		json_array_append_new(
			list,
			json_pack("{s:o,s:o}", "subject",
				  text(strtab_get(&r->tables->strings, n->subject, NULL)), "reason",
				  text(strtab_get(&r->tables->strings, n->reason, NULL))));
	}
	return list;
}

static json_t *open_calls_json(const struct report *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->summary->open_calls.len; i++) {
		const struct summary_open_call *c = &r->summary->open_calls.data[i];
		json_t *o = json_object();
		json_object_set_new(o, "layer", text(c->layer));
		json_object_set_new(o, "name", text(c->name));
		json_object_set_new(o, "pid", number(c->pid));
		json_object_set_new(o, "tid", number(c->tid));
		json_object_set_new(o, "start_ns", number(c->start_ns));
		json_object_set_new(o, "open_ns", number(c->dur_ns));
		json_array_append_new(list, o);
	}
	return list;
}

int report_json(FILE *out, const struct report *r)
{
	json_t *root = json_object();
	json_object_set_new(root, "recording", recording_json(r));
	json_object_set_new(root, "processes", processes_json(r));
	json_object_set_new(root, "functions", functions_json(r));
	json_object_set_new(root, "notes", notes_json(r));
	json_object_set_new(root, "open_calls", open_calls_json(r));
	int rc = json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	fputc('\n', out);
	json_decref(root);
	return rc ? -EIO : 0;
}

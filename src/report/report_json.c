/* report_json.c - the report as one JSON object; docs/report.md names its keys. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "report/report.h"
#include "report/report_json.h"
#include "report/report_section.h"
#include "symbolize/proc_labels.h"

json_t *report_text_json(const char *s)
{
	if (!s)
		return json_null();
	struct buf clean = {0};
	utf8_append(&clean, s, strlen(s));
	json_t *ret = json_stringn((const char *)clean.data, clean.len);
	buf_free(&clean);
	return ret;
}

static json_t *recording_json(const struct report *r)
{
	const struct rec_tables *t = r->tables;
	json_t *o = json_object();
	json_object_set_new(o, "file", report_text_json(r->path));
	json_object_set_new(o, "duration_s", json_real((double)r->duration_ns / 1e9));
	json_object_set_new(o, "events", report_number_json(t->calls));
	json_object_set_new(o, "lost", report_number_json(r->lost));
	json_object_set_new(o, "incomplete", report_number_json(r->incomplete));
	json_t *losses = json_object();
	for (size_t i = 0; i < r->losses.len; i++)
		json_object_set_new(losses, r->losses.data[i].cause,
				    report_number_json(r->losses.data[i].count));
	json_object_set_new(o, "lost_by_cause", losses);
	json_object_set_new(o, "bytes", report_number_json(t->file_bytes));
	json_object_set_new(o, "bytes_per_event",
			    t->calls ? json_real((double)t->file_bytes / (double)t->calls)
				     : json_null());
	static const char *const keys[] = {"host",    "kernel", "command",
					   "version", "mode",	"target"};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_set_new(o, keys[i], report_text_json(rec_meta(t, keys[i])));
	json_object_set_new(o, "start_realtime_ns",
			    r->start_realtime_ns ? report_number_json(r->start_realtime_ns)
						 : json_null());
	json_object_set_new(o, "start_monotonic_ns",
			    report_number_json(report_number(t, "start_monotonic_ns")));
	json_object_set_new(
		o, "overhead",
		json_pack("{s:o,s:f,s:o,s:f,s:f,s:f,s:f,s:f}", "cpu_ratio",
			  r->cost.ratio < 0 ? json_null() : json_real(r->cost.ratio),
			  "running_cpu_s", r->cost.running_cpu_s, "ran_cpu_s",
			  r->cost.ran_cpu_s < 0 ? json_null() : json_real(r->cost.ran_cpu_s),
			  "held_s", r->held_s, "held_cpu_s", r->cost.held_cpu_s, "collector_cpu_s",
			  r->collector_cpu_s, "displacing_cpu_s", r->displacing_cpu_s,
			  "start_cpu_s", r->start_cpu_s));
	const char *budget = rec_meta(t, "budget_ratio"), *used = rec_meta(t, "budget_cost_ratio");
	if (budget && used)
		json_object_set_new(o, "budget",
				    json_pack("{s:f,s:f,s:I}", "ratio", strtod(budget, NULL),
					      "used_ratio", strtod(used, NULL),
					      "functions_in_bursts", (json_int_t)t->coverages.len));
	const char *ms = rec_meta(t, "attach_ms");
	json_object_set_new(o, "attach",
			    json_pack("{s:o,s:o,s:o}", "ms",
				      ms ? json_real(strtod(ms, NULL)) : json_null(), "sites",
				      report_number_json(report_number(t, "attach_sites")),
				      "method", report_text_json(rec_meta(t, "attach_method"))));
	const char *stop_ms = rec_meta(t, "gpu_attach_stop_ms");
	if (stop_ms)
		json_object_set_new(o, "gpu_attach",
				    json_pack("{s:o,s:f}", "processes",
					      report_number_json(report_number(t, "gpu_attached")),
					      "longest_stop_ms", strtod(stop_ms, NULL)));
	json_object_set_new(o, "complete", json_boolean(t->complete));
	json_object_set_new(o, "damage",
			    t->damaged_at ? json_pack("{s:o,s:o}", "offset",
						      report_number_json(t->damaged_at), "message",
						      report_text_json(t->damage))
					  : json_null());
	return o;
}

static void processes_json(struct json_stream *out, const struct report *r)
{
	json_stream_array(out, "processes");
	for (size_t i = 0; i < r->summary->processes.len; i++) {
		const struct summary_process *p = &r->summary->processes.data[i];
		const struct strtab *strings = &r->tables->strings;
		json_t *o = json_object();
		json_object_set_new(o, "pid", report_number_json(p->row->pid));
		json_object_set_new(o, "parent_pid", report_number_json(p->row->parent_pid));
		json_object_set_new(o, "comm",
				    report_text_json(strtab_get(strings, p->row->comm, NULL)));
		json_object_set_new(o, "command",
				    report_text_json(strtab_get(strings, p->row->command, NULL)));
		json_object_set_new(o, "rank",
				    p->row->rank < 0 ? json_null() : json_integer(p->row->rank));
		json_object_set_new(o, "calls", report_number_json(p->calls));
		json_object_set_new(o, "threads", report_number_json(p->threads));
		json_object_set_new(o, "exit_code",
				    p->row->end_ns ? json_integer(p->row->exit_code) : json_null());
		if (process_is_own(r->tables, p->row))
			json_object_set_new(o, "own", json_true());
		uint64_t cpu_ns = r->programs->process_cpu_ns[i];
		json_object_set_new(o, "cpu_ns",
				    cpu_ns == UINT64_MAX ? json_null()
							 : report_number_json(cpu_ns));
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

static json_t *ranks_json(const struct rank_function *f)
{
	json_t *list = json_array();
	for (size_t i = 0; i < f->ranks.len; i++) {
		const struct rank_time *t = &f->ranks.data[i];
		json_t *o = json_object();
		json_object_set_new(o, "rank", t->rank < 0 ? json_null() : json_integer(t->rank));
		json_object_set_new(o, "pid", report_number_json(t->pid));
		json_object_set_new(o, "calls", report_number_json(t->calls));
		json_object_set_new(o, "total_ns", report_number_json(t->total_ns));
		json_object_set_new(o, "slow", json_boolean(i == f->slow));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *function_json(const struct report *r, const struct summary_function *f)
{
	const struct rank_function *ranks = rank_times_of(r->rank_times, f->layer, f->name);
	json_t *o = json_object();
	json_object_set_new(o, "layer", report_text_json(f->layer));
	json_object_set_new(o, "name", report_text_json(f->name));
	if (*f->file) {
		json_object_set_new(o, "file", report_text_json(f->file));
		json_object_set_new(o, "line", report_number_json(f->line));
	}
	json_object_set_new(o, "calls", report_number_json(f->calls));
	if (f->on_ratio < 1) {
		json_object_set_new(o, "complete", json_false());
		json_object_set_new(o, "on_ratio", json_real(f->on_ratio));
	}
	json_object_set_new(o, "errors", report_number_json(f->errors));
	json_object_set_new(o, "nested_calls", report_number_json(f->nested));
	json_object_set_new(o, "instants", report_number_json(f->instants));
	json_object_set_new(o, "open_calls", report_number_json(f->open));
	json_object_set_new(o, "unwound_calls", report_number_json(f->unwound));
	json_object_set_new(o, "total_ns", report_number_json(f->total_ns));
	json_object_set_new(o, "self_ns",
			    f->self_known ? report_number_json(f->self_ns) : json_null());
	json_object_set_new(o, "mean_ns", report_number_json(f->mean_ns));
	json_object_set_new(o, "p50_ns", report_number_json(f->p50_ns));
	json_object_set_new(o, "p99_ns", report_number_json(f->p99_ns));
	json_object_set_new(o, "max_ns", report_number_json(f->max_ns));
	json_object_set_new(o, "from_histogram", json_boolean(f->from_histogram));
	if (ranks)
		json_object_set_new(o, "ranks", ranks_json(ranks));
	return o;
}

/* The first functions of each layer, in the report's order. */
static void functions_json(struct json_stream *out, const struct report *r)
{
	struct map64 of_layer = {0}; /* how many there were of it */
	json_stream_array(out, "functions");
	for (size_t i = 0; i < r->functions.len; i++) {
		const struct summary_function *f = r->functions.data[i];
		uint64_t before = 0;
		map64_get(&of_layer, (uintptr_t)f->layer, &before);
		map64_set(&of_layer, (uintptr_t)f->layer, before + 1);
		if (!r->options->top || before < r->options->top)
			json_stream_put(out, NULL, function_json(r, f));
	}
	json_stream_close(out);
	map64_free(&of_layer);
}

static void notes_json(struct json_stream *out, const struct report *r)
{
	const struct strtab *strings = &r->tables->strings;
	json_stream_array(out, "notes");
	for (size_t i = 0; i < r->tables->notes.len; i++) {
		const struct m_note *n = &r->tables->notes.data[i];
		json_stream_put(out, NULL,
				json_pack("{s:o,s:o}", "subject",
					  report_text_json(strtab_get(strings, n->subject, NULL)),
					  "reason",
					  report_text_json(strtab_get(strings, n->reason, NULL))));
	}
	json_stream_close(out);
}

static void open_calls_json(struct json_stream *out, const struct report *r)
{
	json_stream_array(out, "open_calls");
	for (size_t i = 0; i < r->summary->open_calls.len; i++) {
		const struct summary_open_call *c = &r->summary->open_calls.data[i];
		json_t *o = json_object();
		json_object_set_new(o, "layer", report_text_json(c->layer));
		json_object_set_new(o, "name", report_text_json(c->name));
		json_object_set_new(o, "pid", report_number_json(c->pid));
		json_object_set_new(o, "tid", report_number_json(c->tid));
		json_object_set_new(o, "start_ns", report_number_json(c->start_ns));
		json_object_set_new(o, "open_ns", report_number_json(c->dur_ns));
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

static int put_all(struct json_stream *out, const struct report *r)
{
	json_stream_put(out, "recording", recording_json(r));
	processes_json(out, r);
	report_programs_json(out, r);
	functions_json(out, r);
	notes_json(out, r);
	open_calls_json(out, r);
	report_profile_json(out, r);
	report_gpu_json(out, r);
	report_sections_json(out, r);
	return json_stream_end(out);
}

int report_json(FILE *to, const struct report *r)
{
	struct json_stream out;
	json_stream_begin(&out, to, JSON_REAL_PRECISION(9));
	int rc = put_all(&out, r);
	fputc('\n', to);
	return rc ? -EIO : 0;
}

json_t *report_json_within(const struct report *r, const struct json_stream_limits *limits)
{
	struct json_stream out;
	json_stream_begin_whole(&out, limits);
	put_all(&out, r);
	return out.whole;
}

void report_container_json(json_t *o, const char *cgroup)
{
	struct proc_labels l;
	char *line = xasprintf("0::%s\n", cgroup);
	proc_labels_init(&l);
	proc_labels_of_cgroup(&l, line, strlen(line));
	free(line);
	json_object_set_new(o, "container",
			    l.container[0] ? report_text_json(l.container) : json_null());
	json_object_set_new(o, "pod_uid", l.pod_uid[0] ? report_text_json(l.pod_uid) : json_null());
}

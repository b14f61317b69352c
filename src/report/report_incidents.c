/* report_incidents.c - the section of incidents that were told while it was recorded, each with its
 * cause. Those of a recording that is judged afterwards are 'eacgm diagnose's. */
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "detect/numbers_json.h"
#include "incident/incident_row.h"
#include "report/report_anomalies.h"
#include "report/report_json.h"
#include "report/report_section.h"

enum { SHOWN = 3, INDENT = 10 };

static json_t *texts_json(const struct incident_said *s, const uint32_t *numbers, size_t n)
{
	json_t *list = json_array();
	for (size_t i = 0; i < n && numbers[i]; i++)
		json_array_append_new(list, report_text_json(incident_text(s, numbers[i])));
	return list;
}

static json_t *owners_json(const struct incident_said *s)
{
	json_t *list = json_array();
	for (size_t i = 0; i < MODEL_INCIDENT_OWNERS && s->row->owners[i]; i++)
		json_array_append_new(
			list, json_pack("{s:o, s:o}", "owner",
					report_text_json(incident_text(s, s->row->owners[i])), "ns",
					real_json(s->row->owner_ns[i])));
	return list;
}

static json_t *text_or_null(const struct incident_said *s, bool is, uint32_t number)
{
	return is && number ? report_text_json(incident_text(s, number)) : json_null();
}

/* As `eacgm diagnose --json` has it, but for the rank. */
static json_t *culprit_json(const struct incident_said *s)
{
	const struct m_incident *row = s->row;
	const char *kind = incident_text(s, row->culprit_kind);
	bool is_cgroup = !strcmp(kind, "cgroup"), gpu = !strcmp(kind, "gpu");
	bool call = !strcmp(kind, "call");
	json_t *o = json_object();
	if (!*kind) /* also of recordings of before there were kinds */
		kind = row->culprit_pid ? "process" : "none";
	json_object_set_new(o, "kind", report_text_json(kind));
	json_object_set_new(o, "pid",
			    row->culprit_pid ? json_integer(row->culprit_pid) : json_null());
	json_object_set_new(o, "command", text_or_null(s, row->culprit_pid, row->culprit));
	uint32_t cgroup = is_cgroup ? row->culprit_name : row->culprit_cgroup;
	json_object_set_new(o, "cgroup", text_or_null(s, true, cgroup));
	report_container_json(o, incident_text(s, cgroup));
	json_object_set_new(o, "device",
			    text_or_null(s, !is_cgroup && !gpu && !call, row->culprit_name));
	json_object_set_new(o, "gpu",
			    gpu ? json_integer(atoi(incident_text(s, row->culprit_name)))
				: json_null());
	json_object_set_new(o, "call", text_or_null(s, call, row->culprit_name));
	json_object_set_new(o, "rank",
			    row->culprit_rank ? json_integer(row->culprit_rank - 1) : json_null());
	json_object_set_new(
		o, "code",
		row->culprit_function
			? json_pack("{s:o, s:o, s:o}", "function",
				    report_text_json(incident_text(s, row->culprit_function)),
				    "file", report_text_json(incident_text(s, row->culprit_file)),
				    "line", report_number_json(row->culprit_line))
			: json_null());
	return o;
}

/* Likewise. */
static json_t *victim_json(const struct incident_said *s)
{
	const struct m_incident *row = s->row;
	json_t *o = json_object();
	json_object_set_new(o, "pid", row->pid ? json_integer(row->pid) : json_null());
	json_object_set_new(o, "phase", text_or_null(s, true, row->victim_phase));
	json_object_set_new(o, "function", text_or_null(s, true, row->victim_function));
	json_object_set_new(o, "file", text_or_null(s, true, row->victim_file));
	json_object_set_new(o, "line",
			    row->victim_function ? report_number_json(row->victim_line)
						 : json_null());
	return o;
}

static json_t *why_json(const struct incident_said *s)
{
	enum cause why = incident_why(s);
	return why == CAUSE_UNKNOWN
		       ? json_null()
		       : json_pack("{s:s, s:s}", "cause", cause_id(why), "title", cause_title(why));
}

json_t *incident_json(const struct incident_said *s)
{
	const struct m_incident *row = s->row;
	const char *cause = incident_text(s, row->cause);
	json_t *o = json_object();
	json_object_set_new(o, "id", report_number_json(row->id));
	json_object_set_new(o, "onset_ns", report_number_json(row->onset_ns));
	json_object_set_new(o, "end_ns", report_number_json(row->end_ns));
	json_object_set_new(o, "told_ns", report_number_json(row->told_ns));
	json_object_set_new(o, "caused_ns", report_number_json(row->caused_ns));
	json_object_set_new(o, "ended", json_boolean(row->ended));
	json_object_set_new(o, "beside", json_boolean(row->beside));
	json_object_set_new(o, "pid", row->pid ? json_integer(row->pid) : json_null());
	json_object_set_new(o, "victim", victim_json(s));
	json_object_set_new(o, "cause", report_text_json(cause));
	json_object_set_new(o, "what", report_text_json(incident_text(s, row->what)));
	json_object_set_new(o, "why", why_json(s));
	json_object_set_new(o, "confidence", real_json(row->confidence));
	json_object_set_new(o, "runner_up",
			    row->runner_up ? report_text_json(incident_text(s, row->runner_up))
					   : json_null());
	json_object_set_new(o, "against",
			    row->against ? report_text_json(incident_text(s, row->against))
					 : json_null());
	json_object_set_new(o, "culprit", culprit_json(s));
	json_object_set_new(o, "cost_ns", real_json(row->cost_ns));
	json_object_set_new(o, "usual_ns", real_json(row->usual_ns));
	json_object_set_new(o, "unexplained_ns", real_json(row->unexplained_ns));
	json_object_set_new(o, "blame", owners_json(s));
	json_object_set_new(o, "evidence", texts_json(s, row->evidence, MODEL_INCIDENT_TEXTS));
	json_object_set_new(o, "advice", report_text_json(incident_advice(s)));
	return o;
}

static void *incidents_begin(const struct report *r, struct report_visitors *v)
{
	(void)v;
	return r->tables->incidents.len ? (void *)(uintptr_t)r->tables : NULL;
}

static bool incidents_make(const struct report *r, void *state)
{
	(void)r;
	(void)state;
	return true;
}

static void incidents_end(void *state)
{
	(void)state; /* the tables are the report's */
}

static double cost_of(const struct m_incident *row)
{
	return row->cost_ns > 0 ? row->cost_ns : 0;
}

/* How many cost more. */
static size_t dearer_than(const struct rec_tables *t, size_t at)
{
	size_t ret = 0;
	double cost = cost_of(&t->incidents.data[at]);
	for (size_t i = 0; i < t->incidents.len; i++)
		ret += cost_of(&t->incidents.data[i]) > cost ||
		       (cost_of(&t->incidents.data[i]) == cost && i < at);
	return ret;
}

/* evidence: so many sentences at most. */
static void incident_print(const struct page *p, const struct incident_said *s, uint64_t start_ns,
			   size_t evidence, bool advises)
{
	const struct m_incident *row = s->row;
	char after[HUMAN_BYTES];
	struct buf line = {0};
	incident_line(&line, s);
	buf_byte(&line, 0);
	page_right(p, human_ns(after, row->onset_ns > start_ns ? row->onset_ns - start_ns : 0),
		   INDENT);
	fputs("  ", p->out);
	page_rest(p, (const char *)line.data, INDENT + 2);
	buf_free(&line);
	for (size_t i = 0; i < MODEL_INCIDENT_TEXTS && row->evidence[i] && i < evidence; i++) {
		fprintf(p->out, "%*s", INDENT + 4, "");
		page_wrapped(p, INDENT + 4, INDENT + 4, "%s", incident_text(s, row->evidence[i]));
	}
	if (!advises)
		return;
	fprintf(p->out, "%*s", INDENT + 4, "");
	page_wrapped(p, INDENT + 4, INDENT + 4, "%s", incident_advice(s));
}

static void incidents_text(const struct page *p, const void *state)
{
	const struct rec_tables *t = state;
	uint64_t start_ns = report_number(t, "start_monotonic_ns");
	size_t shown = page_shown(p, t->incidents.len);
	bool brief = p->r->options->brief; /* those that cost most, and what to do of the first */
	shown = brief && shown > SHOWN ? SHOWN : shown;
	fputc('\n', p->out);
	page_styled(p, BOLD, "when it was slow, and why (told while it was recorded)");
	fputc('\n', p->out);
	for (size_t i = 0; i < t->incidents.len; i++) {
		const struct incident_said s = {.row = &t->incidents.data[i],
						.strings = &t->strings};
		size_t dearer = dearer_than(t, i);
		if (dearer < shown)
			incident_print(p, &s, start_ns, brief ? 1 : MODEL_INCIDENT_TEXTS,
				       !brief || !dearer);
	}
	page_more(p, t->incidents.len, shown, INDENT + 2);
}

static void incidents_json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct rec_tables *t = state;
	(void)r;
	json_stream_array(out, "incidents");
	for (size_t i = 0; i < t->incidents.len; i++)
		json_stream_put(out, NULL,
				incident_json(&(struct incident_said){.row = &t->incidents.data[i],
								      .strings = &t->strings}));
	json_stream_close(out);
}

static double incidents_relevance(const struct report *r, const void *state)
{
	(void)r;
	(void)state;
	return RELEVANT_WHY;
}

const struct report_section report_incidents = {
	.name = "incidents",
	.relevance = incidents_relevance,
	.begin = incidents_begin,
	.make = incidents_make,
	.text = incidents_text,
	.json = incidents_json,
	.end = incidents_end,
};

/* report_anomalies_json.c - anomalies as JSON. */
#include <stdlib.h>

#include "detect/numbers_json.h"
#include "detect/setting_json.h"
#include "incident/anomaly_list.h"
#include "report/report_anomalies.h"
#include "report/report_json.h"

static json_t *features(const struct anomaly *a)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < a->features_len; i++)
		json_array_append_new(list,
				      json_pack("{s:o, s:o, s:o, s:o, s:o}", "name",
						report_text_json(a->features[i].name), "unit",
						report_text_json(a->features[i].unit), "value",
						real_json(a->features[i].value), "usual",
						real_json(a->features[i].usual), "share_ratio",
						real_json(a->features[i].share_ratio)));
	return list;
}

static json_t *calls(const struct anomaly *a)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < a->calls_len; i++)
		json_array_append_new(list, json_pack("{s:o, s:I, s:o, s:o, s:o}", "key",
						      report_text_json(a->calls[i].key), "calls",
						      (json_int_t)a->calls[i].calls, "mean_ns",
						      real_json(a->calls[i].mean_ns), "usual_ns",
						      real_json(a->calls[i].usual_ns), "more_ns",
						      real_json(a->calls[i].more_ns)));
	return list;
}

static json_t *line_json(const struct anomaly_line *line)
{
	json_t *o = json_object();
	json_object_set_new(o, "function", report_text_json(line->function));
	json_object_set_new(o, "file", report_text_json(line->file));
	json_object_set_new(o, "line", report_number_json(line->line));
	json_object_set_new(o, "ns", real_json(line->ns));
	json_object_set_new(o, "usual_ns", real_json(line->usual_ns));
	return o;
}

json_t *anomaly_json(const struct anomaly *a)
{
	json_t *row =
		json_pack("{s:I, s:I, s:I, s:b, s:s, s:o}", "id", (json_int_t)a->id, "start_ns",
			  (json_int_t)a->start_ns, "end_ns", (json_int_t)a->end_ns, "ended",
			  a->ended, "layer", a->layer_name, "name", report_text_json(a->name));
	json_object_set_new(row, "incident", json_integer((json_int_t)a->incident));
	json_object_set_new(row, "told_ns", json_integer((json_int_t)a->told_ns));
	json_object_set_new(row, "pid", a->pid ? json_integer(a->pid) : json_null());
	json_object_set_new(row, "gpu", a->gpu >= 0 ? json_integer(a->gpu) : json_null());
	json_object_set_new(row, "score", real_json(a->score));
	json_object_set_new(row, "p_value", real_json(a->p_value));
	json_object_set_new(row, "lost_ns", real_json(a->lost_ns));
	json_object_set_new(row, "windows", json_integer(a->windows));
	json_object_set_new(row, "why", report_text_json(a->why));
	json_object_set_new(row, "features", features(a));
	json_object_set_new(row, "calls", calls(a));
	if (a->line.function)
		json_object_set_new(row, "lines", json_pack("[o]", line_json(&a->line)));
	return row;
}

static json_t *lines_json(const struct anomaly_lines *lines)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < lines->lines_len; i++)
		json_array_append_new(list, line_json(&lines->lines[i]));
	return list;
}

/* What was judged, and by what. */
static void judged_json(json_t *o, const struct report_anomalies *r)
{
	const struct detector_stats *s = &r->found->stats;
	uint64_t judged_ns = r->found->judged_to_ns - r->found->judged_from_ns;
	json_object_set_new(o, "judged_s", real_json((double)judged_ns / 1e9));
	json_object_set_new(o, "events", report_number_json(s->events));
	json_object_set_new(o, "events_of_unknown_keys", report_number_json(s->unknown_keys));
	json_object_set_new(o, "events_late", report_number_json(s->late));
	json_object_set_new(o, "rows_with_losses", report_number_json(s->lossy_rows));
	json_object_set_new(o, "rows", report_number_json(s->rows));
	json_object_set_new(o, "rows_alarmed", report_number_json(s->alarmed_rows));
}

json_t *misfit_json(const struct model_misfit *m)
{
	static const char *const verdicts[] = {"unknown", "fits",	 "quicker",
					       "slower",  "other sizes", "other calls"};
	json_t *o = json_object();
	json_object_set_new(o, "pid", json_integer(m->pid));
	json_object_set_new(o, "since_ns", report_number_json(m->since_ns));
	json_object_set_new(o, "told_ns", report_number_json(m->told_ns));
	json_object_set_new(o, "verdict", json_string(verdicts[m->verdict]));
	json_object_set_new(o, "pace", m->pace > 0 ? real_json(m->pace) : json_null());
	json_object_set_new(o, "unknown_share", real_json(m->share));
	json_object_set_new(o, "learns_anew", json_boolean(m->relearns));
	json_object_set_new(o, "differs", report_text_json(m->differs));
	json_object_set_new(o, "why", report_text_json(m->why));
	return o;
}

/* What the model was learned on, what is other of the recording, and whether they fit. */
static void model_json(json_t *o, const struct report_anomalies *r)
{
	if (!r->model_of)
		return;
	char *differs = setting_difference(r->model_of, &r->found->setting);
	json_t *misfits = json_array();
	for (size_t i = 0; i < r->found->misfits.len; i++)
		json_array_append_new(misfits, misfit_json(&r->found->misfits.data[i]));
	json_object_set_new(o, "model_of", setting_json(r->model_of));
	json_object_set_new(o, "differs", report_text_json(differs));
	json_object_set_new(o, "misfits", misfits);
	free(differs);
}

json_t *change_json(const struct change *c)
{
	static const char *const kinds[] = {"none", "saves", "sizes", "work"};
	json_t *o = json_object();
	json_object_set_new(o, "pid", json_integer(c->pid));
	json_object_set_new(o, "kind", json_string(kinds[c->kind]));
	json_object_set_new(o, "start_ns", report_number_json(c->start_ns));
	json_object_set_new(o, "end_ns", report_number_json(c->last_ns));
	json_object_set_new(o, "times", report_number_json(c->times));
	json_object_set_new(o, "windows", report_number_json(c->windows));
	json_object_set_new(o, "what", report_text_json(c->what));
	json_t *spans = json_array();
	for (uint64_t i = 0; i < c->times && i < CHANGE_SPANS; i++) {
		json_t *span = json_array();
		json_array_append_new(span, report_number_json(c->spans[i].start_ns));
		json_array_append_new(span, report_number_json(c->spans[i].end_ns));
		json_array_append_new(spans, span);
	}
	json_object_set_new(o, "spans", spans);
	return o;
}

static void changes_json(json_t *o, const struct report_anomalies *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->found->changes.len; i++)
		json_array_append_new(list, change_json(&r->found->changes.data[i]));
	json_object_set_new(o, "changes", list);
}

json_t *report_anomalies_json(const struct report_anomalies *r)
{
	json_t *o = json_object(), *list = json_array();
	json_object_set_new(o, "file", report_text_json(r->path));
	json_object_set_new(o, "kind", json_string(r->told ? "told" : "job"));
	json_object_set_new(o, "model", report_text_json(r->model_path));
	if (!r->told)
		json_object_set_new(o, "alarms_per_hour", real_json(r->alarms_per_hour));
	json_object_set_new(o, "start_monotonic_ns", report_number_json(r->start_ns));
	if (!r->told)
		judged_json(o, r);
	model_json(o, r);
	if (!r->told)
		changes_json(o, r);
	for (size_t i = 0; i < r->found->rows.len; i++) {
		json_t *row = anomaly_json(&r->found->rows.data[i].a);
		json_object_set_new(row, "lines", lines_json(&r->found->rows.data[i].lines));
		json_array_append_new(list, row);
	}
	json_object_set_new(o, "anomalies", list);
	return o;
}

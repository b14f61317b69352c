/* detect_found.c - a recording's anomalies and what ran in them: found, kept, and as JSON. */
#include "cli/detect_found.h"

#include <math.h>
#include <string.h>

#include "cli/anomaly_json.h"
#include "cli/detect_model.h"
#include "base/human.h"
#include "cli/terminal.h"

#define WITH_LINES 256 /* anomalies whose lines are looked for */

/* ---- keeping ---- */

static const char *own(const char *s)
{
	return xstrdup(s ? s : "");
}

static void own_strings(struct anomaly *a)
{
	a->name = own(a->name);
	for (uint32_t i = 0; i < a->features_len; i++) {
		a->features[i].name = own(a->features[i].name);
		a->features[i].unit = own(a->features[i].unit);
	}
	for (uint32_t i = 0; i < a->calls_len; i++)
		a->calls[i].key = own(a->calls[i].key);
}

static void free_strings(struct anomaly *a)
{
	free((char *)a->name);
	for (uint32_t i = 0; i < a->features_len; i++) {
		free((char *)a->features[i].name);
		free((char *)a->features[i].unit);
	}
	for (uint32_t i = 0; i < a->calls_len; i++)
		free((char *)a->calls[i].key);
}

/* An anomaly, or what is new of one that is kept already: they are numbered from 1 on in the order
 * in which they are first told. */
static void keep(struct found *f, const struct anomaly *a)
{
	bool again = a->id <= f->list.len;
	struct found_anomaly *kept = again ? &f->list.data[a->id - 1] : vec_push(&f->list);
	if (again)
		free_strings(&kept->a);
	kept->a = *a;
	own_strings(&kept->a);
}

static int by_start(const void *x, const void *y)
{
	const struct anomaly *a = &((const struct found_anomaly *)x)->a;
	const struct anomaly *b = &((const struct found_anomaly *)y)->a;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static int by_p(const void *x, const void *y)
{
	double a = ((const struct found_anomaly *)x)->a.p_value;
	double b = ((const struct found_anomaly *)y)->a.p_value;
	return a < b ? -1 : a > b ? 1 : by_start(x, y);
}

static void find_lines(struct found *f)
{
	size_t n = f->list.len < WITH_LINES ? f->list.len : WITH_LINES;
	struct anomaly_lines *lines = xcalloc(n + 1, sizeof(*lines));
	for (size_t i = 0; i < n; i++) {
		const struct anomaly *a = &f->list.data[i].a;
		lines[i] = (struct anomaly_lines){
			.start_ns = a->start_ns, .end_ns = a->end_ns, .pid = a->pid};
	}
	anomaly_lines_find(lines, n, f->reader);
	for (size_t i = 0; i < n; i++)
		f->list.data[i].lines = lines[i];
	free(lines);
}

struct finding {
	struct found *f;
	const struct found_listener *l;
};

static void tell(void *ctx, const struct anomaly *a)
{
	const struct finding *x = ctx;
	keep(x->f, a);
}

static void tell_row(void *ctx, const struct feature_row *row, double score, double p, bool alarmed)
{
	const struct finding *x = ctx;
	struct found *f = x->f;
	if (!isnan(p)) {
		if (!f->judged_from_ns || row->start_ns < f->judged_from_ns)
			f->judged_from_ns = row->start_ns;
		if (row->end_ns > f->judged_to_ns)
			f->judged_to_ns = row->end_ns;
	}
	if (x->l && x->l->row)
		x->l->row(x->l->ctx, row, score, p, alarmed);
}

static void tell_event(void *ctx, const struct detector_event *e)
{
	const struct finding *x = ctx;
	x->l->event(x->l->ctx, e);
}

static void step(void *ctx, uint64_t done, uint64_t total)
{
	progress_step(ctx, done, total);
}

void found_make(struct found *f, const struct model *m, const struct found_listener *l)
{
	struct progress progress;
	struct finding x = {f, l};
	struct detector *d = detector_new(
		&(struct detector_options){.model = m,
					   .alarms_per_hour = f->options->alarms_per_hour,
					   .follow = f->options->follow,
					   .whole = true,
					   .tell = tell,
					   .tell_ctx = &x,
					   .row = tell_row,
					   .event = l && l->event ? tell_event : NULL});
	f->start_ns = report_number(rec_tables(f->reader), "start_monotonic_ns");
	progress_begin(&progress, "detecting");
	detector_recording(d, f->reader, step, &progress);
	progress_end(&progress);
	detector_stats(d, &f->stats);
	detector_free(d);
	if (!f->list.len)
		return;
	qsort(f->list.data, f->list.len, sizeof(*f->list.data), by_p);
	for (size_t i = 0; i < f->list.len; i++)
		f->list.data[i].rarer = i;
	find_lines(f);
	qsort(f->list.data, f->list.len, sizeof(*f->list.data), by_start);
}

void found_free(struct found *f)
{
	for (size_t i = 0; i < f->list.len; i++)
		free_strings(&f->list.data[i].a);
	vec_free(&f->list);
}

/* ---- values for people ---- */

static bool is_factor(const char *unit)
{
	return !strcmp(unit, "ln ratio");
}

static bool is_bytes(const char *unit)
{
	return !strncmp(unit, "bytes", 5);
}

const char *feature_value(char ret[static FEATURE_BYTES], double v, const char *unit)
{
	char bytes[HUMAN_BYTES];
	if (isnan(v))
		snprintf(ret, FEATURE_BYTES, "-");
	else if (is_factor(unit))
		snprintf(ret, FEATURE_BYTES, "%.3g x", exp(v));
	else if (is_bytes(unit) && v >= 0 && v < 1e18)
		snprintf(ret, FEATURE_BYTES, "%s%.5s", human_bytes(bytes, (uint64_t)v), unit + 5);
	else
		snprintf(ret, FEATURE_BYTES, fabs(v) >= 1000 && fabs(v) < 1e9 ? "%.0f" : "%.3g", v);
	return ret;
}

const char *feature_unit(const char *unit)
{
	return is_factor(unit) || is_bytes(unit) ? "" : unit;
}

/* ---- JSON ---- */

static json_t *lines_json(const struct anomaly_lines *lines)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < lines->lines_len; i++) {
		json_t *o = json_object();
		json_object_set_new(o, "function", report_text_json(lines->lines[i].function));
		json_object_set_new(o, "file", report_text_json(lines->lines[i].file));
		json_object_set_new(o, "line", report_number_json(lines->lines[i].line));
		json_object_set_new(o, "ns", real_json(lines->lines[i].ns));
		json_object_set_new(o, "usual_ns", real_json(lines->lines[i].usual_ns));
		json_array_append_new(list, o);
	}
	return list;
}

json_t *found_json(const struct found *f)
{
	const struct detector_stats *s = &f->stats;
	json_t *o = json_object(), *list = json_array();
	json_object_set_new(o, "file", report_text_json(f->options->path));
	json_object_set_new(o, "kind", json_string("job"));
	json_object_set_new(o, "model", report_text_json(f->options->model_path));
	json_object_set_new(o, "alarms_per_hour", real_json(f->options->alarms_per_hour));
	json_object_set_new(o, "start_monotonic_ns", report_number_json(f->start_ns));
	json_object_set_new(o, "judged_s",
			    real_json((double)(f->judged_to_ns - f->judged_from_ns) / 1e9));
	json_object_set_new(o, "events", report_number_json(s->events));
	json_object_set_new(o, "events_of_unknown_keys", report_number_json(s->unknown_keys));
	json_object_set_new(o, "events_late", report_number_json(s->late));
	json_object_set_new(o, "rows_with_losses", report_number_json(s->lossy_rows));
	json_object_set_new(o, "rows", report_number_json(s->rows));
	json_object_set_new(o, "rows_alarmed", report_number_json(s->alarmed_rows));
	for (size_t i = 0; i < f->list.len; i++) {
		json_t *row = anomaly_json(&f->list.data[i].a);
		json_object_set_new(row, "lines", lines_json(&f->list.data[i].lines));
		json_array_append_new(list, row);
	}
	json_object_set_new(o, "anomalies", list);
	return o;
}

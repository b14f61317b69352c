/* detect_recording.c - eacgm detect for a recording: finds its anomalies, and writes what is asked
 * for beside: rows as JSON lines, events. */
#include <errno.h>
#include <stdio.h>

#include "base/human.h"
#include "base/json_out.h"
#include "cli/detect_cli.h"
#include "cli/detect_output.h"
#include "cli/terminal.h"
#include "detect/model_file.h"
#include "detect/row_json.h"
#include "export/judged_events.h"
#include "report/report.h"
#include "report/report_anomalies.h"
#include "symbolize/demangle.h"

struct recording_run {
	const struct detect_options *options;
	struct output rows, events; /* stream NULL: not asked for */
	struct judged_events judged;
};

static void write_row(void *ctx, const struct feature_row *row, const char *layer, double score,
		      double p, bool alarmed)
{
	struct recording_run *r = ctx;
	json_t *o = row_json(row, layer, score, p, alarmed);
	json_out_file(o, r->rows.stream, JSON_COMPACT);
	fputc('\n', r->rows.stream);
	json_decref(o);
}

static void write_event(void *ctx, const struct detector_event *e)
{
	struct recording_run *r = ctx;
	judged_events_put(&r->judged, e);
}

/* ---- files ---- */

static int open_events(struct recording_run *r, const char *path, struct err *e)
{
	bool npy = judged_events_is_npy(path);
	if (npy && output_file_is_direct(path))
		return err_set(e, ESPIPE, "'%s' is no regular file, as arrays need", path);
	int rc = detect_output_open(&r->events, path, e);
	if (!rc)
		judged_events_begin(&r->judged, r->events.stream, npy);
	return rc;
}

static int open_outputs(struct recording_run *r, struct err *e)
{
	const struct detect_options *o = r->options;
	int rc = o->rows ? detect_output_open(&r->rows, o->rows, e) : 0;
	if (!rc && o->events)
		rc = open_events(r, o->events, e);
	if (rc && r->rows.stream)
		detect_output_close(&r->rows, rc, e);
	return rc;
}

static int close_outputs(struct recording_run *r, struct err *e)
{
	int rc = r->rows.stream ? detect_output_close(&r->rows, 0, e) : 0;
	if (!r->events.stream)
		return rc;
	if (judged_events_end(&r->judged) && !rc)
		rc = output_error(&r->events, e);
	return detect_output_close(&r->events, rc, e);
}

/* ---- the whole ---- */

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	progress_step(ctx, done, total);
}

void detect_anomalies(struct anomaly_list *ret, const struct rec_reader *reader,
		      const struct anomaly_list_options *o)
{
	struct anomaly_list_options shown = *o;
	struct progress progress;
	shown.progress = show_progress;
	shown.progress_ctx = &progress;
	progress_begin(&progress, "detecting");
	anomaly_list_make(ret, rec_source(reader), &shown);
	progress_end(&progress);
}

/* reader NULL: there are rows alone. */
static int print_found(const struct recording_run *r, const struct model *m,
		       const struct rec_reader *reader, const struct anomaly_list *found,
		       struct err *e)
{
	const struct detect_options *o = r->options;
	const struct report_anomalies report = {
		.found = found,
		.path = o->path,
		.model_path = o->model_path,
		.model_of = m ? &m->setting : NULL,
		.told = o->told,
		.alarms_per_hour = o->alarms_per_hour,
		.start_ns = reader ? report_number(rec_tables(reader), "start_monotonic_ns")
				   : found->judged_from_ns,
		.top = o->top,
		.width = terminal_width(stdout),
		.colour = terminal_colour(stdout)};
	int unjudged = report_anomalies_check(&report, e);
	if (o->json) {
		int rc = terminal_json(report_anomalies_json(&report), 0, e);
		return rc ? rc : unjudged;
	}
	if (!unjudged)
		report_anomalies_text(stdout, &report);
	return unjudged;
}

/* Of a recording, or of rows where reader is NULL. */
static int judge(struct recording_run *r, const struct model *m, const struct rec_reader *reader,
		 const struct rows_file *rows, uint64_t *ret_found, struct err *e)
{
	const struct detect_options *o = r->options;
	struct anomaly_list found = {0};
	int rc = open_outputs(r, e);
	if (rc)
		return rc;
	const struct anomaly_list_options options = {.model = m,
						     .alarms_per_hour = o->alarms_per_hour,
						     .least_effect = o->least_effect,
						     .follow = o->follow,
						     .without_excuses = o->without_excuses,
						     .ctx = r,
						     .row = r->rows.stream ? write_row : NULL,
						     .event =
							     r->events.stream ? write_event : NULL};
	if (reader)
		detect_anomalies(&found, reader, &options);
	else
		anomaly_list_replay(&found, rows, &options);
	rc = close_outputs(r, e);
	*ret_found = found.rows.len;
	if (!rc)
		rc = print_found(r, m, reader, &found, e);
	anomaly_list_free(&found);
	return rc;
}

static int show_told(const struct recording_run *r, const struct rec_reader *reader,
		     uint64_t *ret_found, struct err *e)
{
	struct anomaly_list told = {0};
	anomaly_list_told(&told, rec_tables(reader), rec_source(reader));
	*ret_found = told.rows.len;
	int rc = print_found(r, NULL, reader, &told, e);
	anomaly_list_free(&told);
	return rc;
}

static void make_slices(struct judged_slices *ret, const struct rec_reader *reader,
			const struct anomaly_list *list)
{
	char count[HUMAN_BYTES], more[HUMAN_BYTES], ns[HUMAN_BYTES];
	judged_slices_make(ret, rec_source(reader), list, demangle);
	const struct incident_slices *in = &ret->incidents;
	if (in->left_out)
		fprintf(stderr,
			"eacgm export: paths of blame have %s slices: %s more, of %s, are left "
			"out\n",
			human_count(count, in->path.len), human_count(more, in->left_out),
			human_ns(ns, in->left_out_ns));
}

int detect_slices(struct judged_slices *ret, const struct rec_reader *reader, const char *path,
		  const char *model_path, struct err *e)
{
	struct anomaly_list found = {0};
	struct model m;
	model_init(&m);
	int rc = model_path ? model_read_for(&m, model_path, MODEL_JOB, "a recording", e) : 0;
	if (rc)
		return rc;
	detect_anomalies(&found, reader,
			 &(struct anomaly_list_options){.model = model_path ? &m : NULL,
							.alarms_per_hour = 1});
	make_slices(ret, reader, &found);
	const struct report_anomalies report = {
		.found = &found, .path = path, .model_path = model_path};
	struct err why;
	if (report_anomalies_check(&report, &why))
		text_printf(stderr, "eacgm export: %s\n", why.msg);
	anomaly_list_free(&found);
	model_free(&m);
	return 0;
}

void told_slices(struct judged_slices *ret, const struct rec_reader *reader)
{
	struct anomaly_list told = {0};
	anomaly_list_told(&told, rec_tables(reader), rec_source(reader));
	make_slices(ret, reader, &told);
	anomaly_list_free(&told);
}

void tell_damage(const char *command, const char *path, const struct rec_reader *r)
{
	const struct rec_tables *t = rec_tables(r);
	if (t->damaged_at)
		text_printf(stderr, "eacgm %s: '%s' is %s\n", command, path, t->damage);
}

int detect_recording(const struct detect_options *o, const struct model *m, uint64_t *ret_found,
		     struct err *e)
{
	struct recording_run r = {.options = o};
	struct rec_reader *reader = NULL;
	int rc = rec_open(&reader, o->path, e);
	if (rc)
		return rc;
	tell_damage("detect", o->path, reader);
	rc = o->told ? show_told(&r, reader, ret_found, e)
		     : judge(&r, m, reader, NULL, ret_found, e);
	rec_close(reader);
	return rc;
}

int detect_rows(const struct detect_options *o, const struct model *m, uint64_t *ret_found,
		struct err *e)
{
	struct recording_run r = {.options = o};
	struct rows_file rows = {0};
	struct detect_layers layers = m->named;
	int rc = rows_file_read(&rows, &layers, o->path, m->window_ns, e);
	if (!rc)
		rc = judge(&r, m, NULL, &rows, ret_found, e);
	rows_file_free(&rows);
	return rc;
}

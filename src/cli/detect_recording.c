/* detect_recording.c - eacgm detect for a recording: hands it to the detector, and writes what is
 * asked for beside: rows as JSON lines, events. */
#include <errno.h>
#include <stdio.h>

#include "base/json_out.h"
#include "cli/detect_events.h"
#include "cli/detect_found.h"
#include "cli/detect_model.h"
#include "cli/detect_output.h"
#include "base/human.h"
#include "detect/row_json.h"

struct recording_run {
	struct found found;
	struct output rows; /* stream NULL: not asked for */
	struct detect_events events;
};

/* ---- --rows ---- */

static void tell_row(void *ctx, const struct feature_row *row, double score, double p, bool alarmed)
{
	struct recording_run *r = ctx;
	json_t *o = row_json(row, score, p, alarmed);
	json_out_file(o, r->rows.stream, JSON_COMPACT);
	fputc('\n', r->rows.stream);
	json_decref(o);
}

/* ---- files ---- */

static void tell_event(void *ctx, const struct detector_event *e)
{
	struct recording_run *r = ctx;
	detect_events_put(&r->events, e);
}

static int open_outputs(struct recording_run *r, struct err *e)
{
	const struct detect_options *o = r->found.options;
	int rc = o->rows ? detect_output_open(&r->rows, o->rows, e) : 0;
	if (!rc && o->events)
		rc = detect_events_open(&r->events, o->events, e);
	if (rc && r->rows.stream)
		detect_output_close(&r->rows, rc, e);
	return rc;
}

static int close_outputs(struct recording_run *r, struct err *e)
{
	int rc = r->rows.stream ? detect_output_close(&r->rows, 0, e) : 0;
	if (r->events.file.stream)
		rc = detect_events_close(&r->events, rc, e);
	return rc;
}

/* ---- the whole ---- */

static int print_found(const struct found *f, struct err *e)
{
	if (!f->options->json) {
		found_text(stdout, f);
		return 0;
	}
	json_t *o = found_json(f);
	int bad = json_out_file(o, stdout, JSON_INDENT(2));
	json_decref(o);
	putchar('\n');
	return bad ? err_set(e, EIO, "cannot write to the standard output") : 0;
}

static int run(struct recording_run *r, const struct model *m, uint64_t *ret_found, struct err *e)
{
	int rc = open_outputs(r, e);
	if (rc)
		return rc;
	found_make(&r->found, m,
		   &(struct found_listener){.ctx = r,
					    .row = r->rows.stream ? tell_row : NULL,
					    .event = r->events.file.stream ? tell_event : NULL});
	rc = close_outputs(r, e);
	if (rc)
		return rc;
	*ret_found = r->found.list.len;
	return print_found(&r->found, e);
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
	struct recording_run r = {.found = {.options = o}};
	struct rec_reader *reader = NULL;
	int rc = rec_open(&reader, o->path, e);
	if (rc)
		return rc;
	r.found.reader = reader;
	tell_damage("detect", o->path, reader);
	rc = run(&r, m, ret_found, e);
	found_free(&r.found);
	rec_close(reader);
	return rc;
}

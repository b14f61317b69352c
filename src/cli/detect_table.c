/* detect_table.c - eacgm detect for a table of numbers: rows that a mixture finds unlikely. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/json_out.h"
#include "cli/detect_cli.h"
#include "cli/detect_output.h"
#include "cli/terminal.h"
#include "report/report_table.h"

static void write_row(void *ctx, const struct table_row *row)
{
	json_t *o = table_row_json(row);
	json_out_file(o, ctx, JSON_COMPACT);
	fputc('\n', ctx);
	json_decref(o);
}

static int judge_rows(struct table_judged *j, const char *path, struct err *e)
{
	struct output out = {0};
	int rc = path ? detect_output_open(&out, path, e) : 0;
	if (rc)
		return rc;
	table_judge(j, path ? write_row : NULL, out.stream);
	return path ? detect_output_close(&out, 0, e) : 0;
}

static int judge_table(const struct detect_options *o, struct table_judged *j, struct err *e)
{
	const struct report_table report = {
		.judged = j, .path = o->path, .top = o->top, .width = terminal_width(stdout)};
	int rc = table_columns(j->t, j->m->names, j->m->columns, j->columns, o->path, e);
	if (!rc)
		rc = judge_rows(j, o->rows, e);
	if (rc)
		return rc;
	if (o->json)
		return terminal_json(report_table_json(&report), 0, e);
	report_table_text(stdout, &report);
	return 0;
}

int detect_table(const struct detect_options *o, const struct model *m, uint64_t *ret_found,
		 struct err *e)
{
	struct table t;
	struct table_judged j = {
		.t = &t, .m = &m->layers[0], .p = o->p, .log_delta = log(o->delta)};
	if (!isnan(o->p) && !j.m->tail.n)
		return err_set(e, EINVAL,
			       "'%s' was learned from too few rows to know p-values: use --delta",
			       o->model_path);
	int rc = table_read(&t, o->path, e);
	if (rc)
		return rc;
	rc = judge_table(o, &j, e);
	*ret_found = j.bad.len;
	vec_free(&j.bad);
	table_free(&t);
	return rc;
}

/* report_table.c - what a mixture finds unlikely of a table. */
#include "report/report_table.h"

#include <math.h>
#include <stdlib.h>

#include "base/human.h"
#include "detect/numbers_json.h"
#include "report/report_json.h"

static char *sentence(const struct report_table *r, const struct table_row *b,
		      const struct table_reason *why)
{
	return xasprintf("%s is %.6g where %.6g is usual", r->judged->m->names[why->most],
			 table_value(r->judged, b->row, why->most),
			 table_usual(r->judged, why, why->most));
}

json_t *table_row_json(const struct table_row *row)
{
	json_t *o = json_object();
	json_object_set_new(o, "row", report_number_json(row->row + 1));
	json_object_set_new(o, "score", real_json(row->score));
	json_object_set_new(o, "p_value", real_json(row->p));
	json_object_set_new(o, "likeliest_log_density", real_json(row->likeliest));
	json_object_set_new(o, "component", report_number_json(row->component + 1));
	json_object_set_new(o, "alarmed", json_boolean(row->alarmed));
	return o;
}

static json_t *bad_row_json(const struct report_table *r, const struct table_row *b)
{
	const struct model_mixture *m = r->judged->m;
	struct table_reason why;
	json_t *o = json_object(), *columns = json_array();
	table_explain(r->judged, b->row, &why);
	char *text = sentence(r, b, &why);
	json_object_set_new(o, "row", report_number_json(b->row + 1));
	json_object_set_new(o, "score", real_json(b->score));
	json_object_set_new(o, "p_value", real_json(b->p));
	json_object_set_new(o, "likeliest_log_density", real_json(b->likeliest));
	json_object_set_new(o, "component", report_number_json(why.component + 1));
	json_object_set_new(o, "why", report_text_json(text));
	free(text);
	for (uint32_t i = 0; i < m->columns; i++) {
		json_t *c = json_object();
		json_object_set_new(c, "name", report_text_json(m->names[i]));
		json_object_set_new(c, "value", real_json(table_value(r->judged, b->row, i)));
		json_object_set_new(c, "usual", real_json(table_usual(r->judged, &why, i)));
		json_object_set_new(c, "share_ratio", real_json(why.shares[i]));
		json_array_append_new(columns, c);
	}
	json_object_set_new(o, "columns", columns);
	return o;
}

json_t *report_table_json(const struct report_table *r)
{
	json_t *o = json_object(), *list = json_array();
	json_object_set_new(o, "file", report_text_json(r->path));
	json_object_set_new(o, "kind", json_string("table"));
	json_object_set_new(o, "p", real_json(r->judged->p));
	json_object_set_new(o, "delta", real_json(exp(r->judged->log_delta)));
	json_object_set_new(o, "rows", report_number_json(r->judged->t->rows));
	json_object_set_new(o, "rows_not_finite", report_number_json(r->judged->unknown));
	for (size_t i = 0; i < r->judged->bad.len; i++)
		json_array_append_new(list, bad_row_json(r, &r->judged->bad.data[i]));
	json_object_set_new(o, "anomalies", list);
	return o;
}

static void print_row(FILE *out, const struct report_table *r, const struct table_row *b)
{
	struct table_reason why;
	char fit[512], count[HUMAN_BYTES], p[32] = "-";
	table_explain(r->judged, b->row, &why);
	char *text = sentence(r, b, &why);
	text_fit(fit, sizeof(fit), text, r->width - 52);
	free(text);
	if (!isnan(b->p))
		snprintf(p, sizeof(p), "%.2g", b->p);
	text_printf(out, "  %12s  %10.4g  %9s  %9u  %s\n", human_count(count, b->row + 1), b->score,
		    p, why.component + 1, fit);
}

void report_table_text(FILE *out, const struct report_table *r)
{
	char rows[HUMAN_BYTES], count[HUMAN_BYTES];
	size_t shown = r->judged->bad.len < r->top ? r->judged->bad.len : r->top;
	text_printf(out, "%s: %s of %s rows are not normal (", r->path,
		    human_count(count, r->judged->bad.len), human_count(rows, r->judged->t->rows));
	if (isnan(r->judged->p))
		fprintf(out, "density below %g)\n", exp(r->judged->log_delta));
	else
		fprintf(out, "p below %g)\n", r->judged->p);
	if (r->judged->unknown)
		fprintf(out, "  %s %s not judged: not finite\n",
			human_count(count, r->judged->unknown),
			r->judged->unknown == 1 ? "row is" : "rows are");
	if (shown)
		fprintf(out, "\n  %12s  %10s  %9s  %9s  %s\n", "row", "score", "p", "component",
			"why");
	for (size_t i = 0; i < r->judged->bad.len; i++)
		if (r->judged->bad.data[i].rarer < shown)
			print_row(out, r, &r->judged->bad.data[i]);
	if (shown < r->judged->bad.len)
		fprintf(out, "  ... and %s more that are less rare: --top, --json\n",
			human_count(count, r->judged->bad.len - shown));
}

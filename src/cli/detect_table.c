/* detect_table.c - eacgm detect for a table of numbers: rows that a mixture finds unlikely.
 *
 * By p-value, or as Algorithm 2 of "eACGM" (IWQoS 2025) has it: the density under the likeliest
 * component is below delta. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_out.h"
#include "cli/detect_cli.h"
#include "cli/detect_model.h"
#include "cli/detect_output.h"
#include "base/human.h"
#include "cli/terminal.h"
#include "detect/table.h"

#define BLOCK 1024

struct bad_row {
	size_t row;
	double score, p, likeliest;
	size_t rarer; /* rows that are rarer, or as rare and earlier */
};

struct table_run {
	const char *path;
	const struct model_mixture *m;
	struct table t;
	uint32_t columns[TABLE_COLUMNS]; /* of the table, in the mixture's order */
	double p, log_delta;		 /* one of them is NaN */
	FILE *rows;			 /* where each row is told, or NULL */
	VEC(struct bad_row) bad;
	uint64_t unknown; /* rows that are not finite */
};

/* ---- judging ---- */

static void standardised(const struct table_run *r, size_t row, double *ret)
{
	const double *cells = r->t.cells + row * r->t.columns;
	for (uint32_t i = 0; i < r->m->columns; i++)
		ret[i] = (cells[r->columns[i]] - r->m->centre[i]) / r->m->scale[i];
}

static void tell_row(const struct table_run *r, const struct bad_row *b, uint8_t component,
		     bool alarmed)
{
	json_t *o = json_object();
	json_object_set_new(o, "row", report_number_json(b->row + 1));
	json_object_set_new(o, "score", real_json(b->score));
	json_object_set_new(o, "p_value", real_json(b->p));
	json_object_set_new(o, "likeliest_log_density", real_json(b->likeliest));
	json_object_set_new(o, "component", report_number_json(component + 1u));
	json_object_set_new(o, "alarmed", json_boolean(alarmed));
	json_out_file(o, r->rows, JSON_COMPACT);
	fputc('\n', r->rows);
	json_decref(o);
}

static void judge_block(struct table_run *r, size_t first, size_t n)
{
	double rows[BLOCK * TABLE_COLUMNS] = {0}, density[BLOCK], likeliest[BLOCK];
	uint8_t component[BLOCK];
	for (size_t i = 0; i < n; i++)
		standardised(r, first + i, rows + i * r->m->columns);
	gmm_log_density(&r->m->gmm, rows, n, density);
	gmm_likeliest(&r->m->gmm, rows, n, likeliest, component);
	for (size_t i = 0; i < n; i++) {
		struct bad_row b = {first + i, -density[i], NAN, likeliest[i], 0};
		bool unknown = isnan(density[i]);
		if (!unknown)
			b.p = tail_p(&r->m->tail, b.score);
		/* NaN compares as false */
		bool alarmed = b.p < r->p || b.likeliest < r->log_delta;
		r->unknown += unknown;
		if (alarmed)
			*vec_push(&r->bad) = b;
		if (r->rows)
			tell_row(r, &b, component[i], alarmed);
	}
}

static int judge_rows(struct table_run *r, const char *path, struct err *e)
{
	struct output out = {0};
	int rc = path ? detect_output_open(&out, path, e) : 0;
	if (rc)
		return rc;
	r->rows = path ? out.stream : NULL;
	for (size_t i = 0; i < r->t.rows; i += BLOCK)
		judge_block(r, i, r->t.rows - i < BLOCK ? r->t.rows - i : BLOCK);
	return path ? detect_output_close(&out, 0, e) : 0;
}

static int by_score(const void *x, const void *y)
{
	const struct bad_row *a = x, *b = y;
	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	return a->row < b->row ? -1 : a->row > b->row;
}

static int by_row(const void *x, const void *y)
{
	const struct bad_row *a = x, *b = y;
	return a->row < b->row ? -1 : a->row > b->row;
}

static void rank_rows(struct table_run *r)
{
	if (!r->bad.len)
		return;
	qsort(r->bad.data, r->bad.len, sizeof(*r->bad.data), by_score);
	for (size_t i = 0; i < r->bad.len; i++)
		r->bad.data[i].rarer = i;
	qsort(r->bad.data, r->bad.len, sizeof(*r->bad.data), by_row);
}

/* ---- what made a row so ---- */

struct reason {
	double shares[TABLE_COLUMNS]; /* of the distance from the component */
	uint32_t component;
	uint32_t most; /* the column with the largest share */
};

static void explain(const struct table_run *r, const struct bad_row *b, struct reason *ret)
{
	double row[TABLE_COLUMNS];
	standardised(r, b->row, row);
	double distance = gmm_explain(&r->m->gmm, row, ret->shares, &ret->component), sum = 0;
	for (uint32_t i = 0; i < r->m->columns; i++)
		sum += ret->shares[i];
	/* what columns say alone may overlap: then it is their parts of the sum */
	double whole = fmax(distance, sum);
	ret->most = 0;
	for (uint32_t i = 0; i < r->m->columns; i++) {
		ret->shares[i] = whole > 0 ? ret->shares[i] / whole : 0;
		if (ret->shares[i] > ret->shares[ret->most])
			ret->most = i;
	}
}

static double value_of(const struct table_run *r, const struct bad_row *b, uint32_t column)
{
	return r->t.cells[b->row * r->t.columns + r->columns[column]];
}

static double usual_of(const struct table_run *r, const struct reason *why, uint32_t column)
{
	double mean = r->m->gmm.means[(size_t)why->component * r->m->columns + column];
	return mean * r->m->scale[column] + r->m->centre[column];
}

static char *sentence(const struct table_run *r, const struct bad_row *b, const struct reason *why)
{
	return xasprintf("%s is %.6g where %.6g is usual", r->m->names[why->most],
			 value_of(r, b, why->most), usual_of(r, why, why->most));
}

/* ---- printing ---- */

static json_t *bad_row_json(const struct table_run *r, const struct bad_row *b)
{
	struct reason why;
	json_t *o = json_object(), *columns = json_array();
	explain(r, b, &why);
	char *text = sentence(r, b, &why);
	json_object_set_new(o, "row", report_number_json(b->row + 1));
	json_object_set_new(o, "score", real_json(b->score));
	json_object_set_new(o, "p_value", real_json(b->p));
	json_object_set_new(o, "likeliest_log_density", real_json(b->likeliest));
	json_object_set_new(o, "component", report_number_json(why.component + 1));
	json_object_set_new(o, "why", report_text_json(text));
	free(text);
	for (uint32_t i = 0; i < r->m->columns; i++) {
		json_t *c = json_object();
		json_object_set_new(c, "name", report_text_json(r->m->names[i]));
		json_object_set_new(c, "value", real_json(value_of(r, b, i)));
		json_object_set_new(c, "usual", real_json(usual_of(r, &why, i)));
		json_object_set_new(c, "share_ratio", real_json(why.shares[i]));
		json_array_append_new(columns, c);
	}
	json_object_set_new(o, "columns", columns);
	return o;
}

static int print_json(const struct table_run *r, struct err *e)
{
	json_t *o = json_object(), *list = json_array();
	json_object_set_new(o, "file", report_text_json(r->path));
	json_object_set_new(o, "kind", json_string("table"));
	json_object_set_new(o, "p", real_json(r->p));
	json_object_set_new(o, "delta", real_json(exp(r->log_delta)));
	json_object_set_new(o, "rows", report_number_json(r->t.rows));
	json_object_set_new(o, "rows_not_finite", report_number_json(r->unknown));
	for (size_t i = 0; i < r->bad.len; i++)
		json_array_append_new(list, bad_row_json(r, &r->bad.data[i]));
	json_object_set_new(o, "anomalies", list);
	int bad = json_out_file(o, stdout, JSON_INDENT(2));
	json_decref(o);
	putchar('\n');
	return bad ? err_set(e, EIO, "cannot write to the standard output") : 0;
}

static void print_row(const struct table_run *r, const struct bad_row *b)
{
	struct reason why;
	char fit[512], count[HUMAN_BYTES], p[32] = "-";
	explain(r, b, &why);
	char *text = sentence(r, b, &why);
	text_fit(fit, sizeof(fit), text, terminal_width(stdout) - 52);
	free(text);
	if (!isnan(b->p))
		snprintf(p, sizeof(p), "%.2g", b->p);
	text_printf(stdout, "  %12s  %10.4g  %9s  %9u  %s\n", human_count(count, b->row + 1),
		    b->score, p, why.component + 1, fit);
}

static void print_text(const struct table_run *r, size_t top)
{
	char rows[HUMAN_BYTES], count[HUMAN_BYTES];
	size_t shown = r->bad.len < top ? r->bad.len : top;
	text_printf(stdout, "%s: %s of %s rows are not normal (", r->path,
		    human_count(count, r->bad.len), human_count(rows, r->t.rows));
	if (isnan(r->p))
		printf("density below %g)\n", exp(r->log_delta));
	else
		printf("p below %g)\n", r->p);
	if (r->unknown)
		printf("  %s %s not judged: not finite\n", human_count(count, r->unknown),
		       r->unknown == 1 ? "row is" : "rows are");
	if (shown)
		printf("\n  %12s  %10s  %9s  %9s  %s\n", "row", "score", "p", "component", "why");
	for (size_t i = 0; i < r->bad.len; i++)
		if (r->bad.data[i].rarer < shown)
			print_row(r, &r->bad.data[i]);
	if (shown < r->bad.len)
		printf("  ... and %s more that are less rare: --top, --json\n",
		       human_count(count, r->bad.len - shown));
}

/* ---- the whole ---- */

static int judge_table(const struct detect_options *o, struct table_run *r, struct err *e)
{
	int rc = table_columns(&r->t, r->m->names, r->m->columns, r->columns, r->path, e);
	if (!rc)
		rc = judge_rows(r, o->rows, e);
	if (rc || o->json)
		return rc ? rc : print_json(r, e);
	rank_rows(r);
	print_text(r, o->top);
	return 0;
}

int detect_table(const struct detect_options *o, const struct model *m, uint64_t *ret_found,
		 struct err *e)
{
	struct table_run r = {
		.path = o->path, .m = &m->layers[0], .p = o->p, .log_delta = log(o->delta)};
	if (!isnan(o->p) && !r.m->tail.n)
		return err_set(e, EINVAL,
			       "'%s' was learned from too few rows to know p-values: use --delta",
			       o->model_path);
	int rc = table_read(&r.t, r.path, e);
	if (rc)
		return rc;
	rc = judge_table(o, &r, e);
	*ret_found = r.bad.len;
	vec_free(&r.bad);
	table_free(&r.t);
	return rc;
}

/* report_anomalies.c - the anomalies of a recording as text. */
#include "report/report_anomalies.h"

#include <errno.h>
#include <stdlib.h>

#include "base/human.h"
#include "incident/anomaly_text.h"
#include "incident/incidents.h"
#include "report/report_page.h"

enum { INDENT = 4, COLUMN_VALUE = 11 };

static uint64_t whole_ns(double ns)
{
	return ns > 0 ? (uint64_t)ns : 0;
}

static const char *why_unjudged(const struct report_anomalies *r)
{
	return r->model_path ? "it has none of the layers that were learned, or too little of them"
			     : "there is too little normal running in it to learn from: "
			       "a minute of work is needed, or a model (-m)";
}

int report_anomalies_check(const struct report_anomalies *r, struct err *e)
{
	bool judged = r->told || r->found->judged_to_ns > r->found->judged_from_ns;
	return judged || r->found->rows.len
		       ? 0
		       : err_set(e, ENODATA, "'%s': nothing could be judged: %s", r->path,
				 why_unjudged(r));
}

/* "3 incidents", "1 incident (5 anomalies)" */
static const char *count_text(char ret[2 * HUMAN_BYTES + 32], const struct report_anomalies *r,
			      size_t incidents)
{
	char a[HUMAN_BYTES], b[HUMAN_BYTES];
	size_t n = r->found->rows.len;
	int len = snprintf(ret, 2 * HUMAN_BYTES + 32, "%s %s", human_count(a, incidents),
			   incidents == 1 ? "incident" : "incidents");
	if (n != incidents)
		snprintf(ret + len, 2 * HUMAN_BYTES + 32 - (size_t)len, " (%s anomalies)",
			 human_count(b, n));
	return ret;
}

static void print_head(FILE *out, const struct report_anomalies *r, size_t incidents)
{
	const struct detector_stats *s = &r->found->stats;
	uint64_t judged_ns = r->found->judged_to_ns - r->found->judged_from_ns;
	char found[2 * HUMAN_BYTES + 32], a[HUMAN_BYTES], b[HUMAN_BYTES], c[HUMAN_BYTES];
	const char *by = r->model_path;
	count_text(found, r, incidents);
	if (r->told) {
		text_printf(out, "%s: %s told while it was recorded\n", r->path, found);
		return;
	}
	if (!judged_ns) {
		text_printf(out, "%s: %s; nothing else could be judged: %s\n", r->path, found,
			    why_unjudged(r));
		return;
	}
	text_printf(out, "%s: %s in %s, by %s\n", r->path, found, human_ns(b, judged_ns),
		    by ? by : "what came before");
	fprintf(out, "  %s events in %s windows and steps, %s of these not normal\n",
		human_count(a, s->events), human_count(b, s->rows),
		human_count(c, s->alarmed_rows));
	if (s->lossy_rows)
		fprintf(out,
			"  %s of the windows and steps were not judged: calls of their time were "
			"lost\n",
			human_count(a, s->lossy_rows));
	if (s->events && s->unknown_keys * 1000 > s->events)
		fprintf(out, "  %.1f %% of the events are of kinds that the model does not know\n",
			100.0 * (double)s->unknown_keys / (double)s->events);
}

static void print_features(const struct page *p, const struct anomaly *a)
{
	char value[FEATURE_BYTES], usual[FEATURE_BYTES], share[16];
	if (a->features_len)
		fprintf(p->out, "%*s%*s%*s%*s  feature\n", INDENT, "", COLUMN_VALUE, "value",
			COLUMN_VALUE, "usual", COLUMN_VALUE, "share");
	for (uint32_t i = 0; i < a->features_len; i++) {
		const char *unit = a->features[i].unit, *rest = feature_unit(unit);
		char *name = xasprintf("%s%s%s%s", a->features[i].name, rest[0] ? " (" : "", rest,
				       rest[0] ? ")" : "");
		snprintf(share, sizeof(share), "%.0f %%", 100 * a->features[i].share_ratio);
		fprintf(p->out, "%*s", INDENT, "");
		page_right(p, feature_value(value, a->features[i].value, unit), COLUMN_VALUE);
		page_right(p, feature_value(usual, a->features[i].usual, unit), COLUMN_VALUE);
		page_right(p, share, COLUMN_VALUE);
		page_rest(p, name, INDENT + 3 * COLUMN_VALUE);
		free(name);
	}
}

static void print_calls(const struct page *p, const struct anomaly *a)
{
	if (a->calls_len)
		fprintf(p->out, "%*s%*s%*s%*s%*s  call\n", INDENT, "", COLUMN_VALUE, "calls",
			COLUMN_VALUE, "mean", COLUMN_VALUE, "usual", COLUMN_VALUE, "more");
	for (uint32_t i = 0; i < a->calls_len; i++) {
		fprintf(p->out, "%*s", INDENT, "");
		page_count(p, a->calls[i].calls, COLUMN_VALUE);
		page_ns(p, whole_ns(a->calls[i].mean_ns), COLUMN_VALUE);
		page_ns(p, whole_ns(a->calls[i].usual_ns), COLUMN_VALUE);
		page_ns(p, whole_ns(a->calls[i].more_ns), COLUMN_VALUE);
		page_rest(p, a->calls[i].key, INDENT + 4 * COLUMN_VALUE);
	}
}

static void print_lines(const struct page *p, const struct anomaly_lines *l)
{
	if (l->lines_len)
		fprintf(p->out, "%*s%*s%*s  line of Python\n", INDENT, "", COLUMN_VALUE, "time",
			COLUMN_VALUE, "usual");
	for (uint32_t i = 0; i < l->lines_len; i++) {
		char *text = xasprintf("%s (%s:%u)", l->lines[i].function, l->lines[i].file,
				       l->lines[i].line);
		fprintf(p->out, "%*s", INDENT, "");
		page_ns(p, whole_ns(l->lines[i].ns), COLUMN_VALUE);
		page_ns(p, whole_ns(l->lines[i].usual_ns), COLUMN_VALUE);
		page_rest(p, text, INDENT + 2 * COLUMN_VALUE);
		free(text);
	}
}

/* The anomalies of one incident, in order of their starts. */
struct incident_rows {
	VEC(const struct listed_anomaly *) of;
	const struct listed_anomaly *first; /* that says most of why */
	size_t rarer;			    /* incidents are shown by their rarest anomaly */
	uint64_t start_ns, end_ns;
};

static void print_evidence(const struct page *p, const struct anomaly *a)
{
	char lost[HUMAN_BYTES];
	if (a->p_value > 0)
		fprintf(p->out, "%*sp %.2g, %u %s", INDENT, "", a->p_value, a->windows,
			a->windows == 1 ? "window or step" : "windows or steps");
	else
		fprintf(p->out, "%*sby rule", INDENT, "");
	if (a->lost_ns > 0)
		fprintf(p->out, ", %s lost", human_ns(lost, whole_ns(a->lost_ns)));
	fputc('\n', p->out);
}

/* What else the same time shows, in a line each. */
static void print_others(const struct page *p, const struct incident_rows *in)
{
	char entity[ANOMALY_ENTITY_BYTES];
	for (size_t i = 0; i < in->of.len; i++) {
		const struct anomaly *a = &in->of.data[i]->a;
		if (in->of.data[i] == in->first)
			continue;
		fprintf(p->out, "%*s", INDENT, "");
		page_wrapped(p, INDENT, 2 * INDENT, "also %s, %s: %s", a->layer_name,
			     anomaly_entity(entity, a), a->why);
	}
}

static void print_incident(const struct page *p, const struct report_anomalies *r,
			   const struct incident_rows *in, size_t number)
{
	const struct anomaly *a = &in->first->a;
	char at[HUMAN_BYTES], lasted[HUMAN_BYTES];
	char entity[ANOMALY_ENTITY_BYTES], text[256];
	uint64_t after = in->start_ns > r->start_ns ? in->start_ns - r->start_ns : 0;
	snprintf(text, sizeof(text), "%zu. at %s for %s, %s, %s", number, human_ns(at, after),
		 human_ns(lasted, in->end_ns - in->start_ns), a->layer_name,
		 anomaly_entity(entity, a));
	fputc('\n', p->out);
	page_styled(p, BOLD, text);
	if (a->name[0])
		page_wrapped(p, text_columns(text), INDENT, ", %s", a->name);
	else
		fputc('\n', p->out);
	if (a->why[0]) {
		fprintf(p->out, "%*s", INDENT, "");
		page_wrapped(p, INDENT, INDENT, "%s", a->why);
	}
	print_evidence(p, a);
	print_features(p, a);
	print_calls(p, a);
	print_lines(p, &in->first->lines);
	print_others(p, in);
}

static struct incident_rows *with_number(struct incident_rows *rows, size_t *len,
					 const struct listed_anomaly *l)
{
	for (size_t i = 0; i < *len && l->a.incident; i++)
		if (rows[i].of.data[0]->a.incident == l->a.incident)
			return &rows[i];
	rows[*len] = (struct incident_rows){
		.first = l, .rarer = l->rarer, .start_ns = l->a.start_ns, .end_ns = l->a.end_ns};
	return &rows[(*len)++];
}

static bool says_more(const struct listed_anomaly *l, const struct listed_anomaly *than)
{
	unsigned x = incident_rank(&l->a), y = incident_rank(&than->a);
	return x < y || (x == y && l->rarer < than->rarer);
}

/* In order of their starts; the caller's, with room for as many as there are anomalies. */
static size_t join_rows(struct incident_rows *ret, const struct anomaly_list *found)
{
	size_t len = 0;
	for (size_t i = 0; i < found->rows.len; i++) {
		const struct listed_anomaly *l = &found->rows.data[i];
		struct incident_rows *in = with_number(ret, &len, l);
		*vec_push(&in->of) = l;
		in->first = says_more(l, in->first) ? l : in->first;
		in->rarer = l->rarer < in->rarer ? l->rarer : in->rarer;
		in->start_ns = l->a.start_ns < in->start_ns ? l->a.start_ns : in->start_ns;
		in->end_ns = l->a.end_ns > in->end_ns ? l->a.end_ns : in->end_ns;
	}
	return len;
}

/* How many incidents are rarer. */
static size_t rarer_than(const struct incident_rows *rows, size_t n, const struct incident_rows *in)
{
	size_t ret = 0;
	for (size_t i = 0; i < n; i++)
		ret += rows[i].rarer < in->rarer;
	return ret;
}

/* That the model does not fit, above all that it says. */
static void print_misfits(const struct page *p, const struct report_anomalies *r)
{
	for (size_t i = 0; i < r->found->misfits.len; i++) {
		fprintf(p->out, "%*s", INDENT / 2, "");
		page_wrapped(p, INDENT / 2, INDENT, "%s", r->found->misfits.data[i].why);
	}
}

/* "other work, from 40.1 s on: a checkpoint is saved, 3 times, pid 4242 (by itself no anomaly)". */
static void print_changes(const struct page *p, const struct report_anomalies *r)
{
	for (size_t i = 0; i < r->found->changes.len; i++) {
		const struct change *c = &r->found->changes.data[i];
		fprintf(p->out, "%*s", INDENT / 2, "");
		page_wrapped(p, INDENT / 2, INDENT,
			     "other work, from %.1f s on: %s, %llu time%s, pid %u (by itself no "
			     "anomaly)",
			     (double)(c->start_ns - r->start_ns) / 1e9, c->what,
			     (unsigned long long)c->times, c->times == 1 ? "" : "s", c->pid);
	}
}

void report_anomalies_text(FILE *out, const struct report_anomalies *r)
{
	const struct report_options options = {.width = r->width, .colour = r->colour};
	const struct report report = {.options = &options};
	const struct page page = {out, &report, NULL};
	struct incident_rows *rows = xcalloc(r->found->rows.len + 1, sizeof(*rows));
	size_t n = join_rows(rows, r->found), shown = n < r->top ? n : r->top;
	print_head(out, r, n);
	print_misfits(&page, r);
	print_changes(&page, r);
	for (size_t i = 0; i < n; i++)
		if (shown == n || rarer_than(rows, n, &rows[i]) < shown)
			print_incident(&page, r, &rows[i], i + 1);
	if (shown < n)
		fprintf(out, "\n... and %zu more that are less rare (--top 0 shows all)\n",
			n - shown);
	for (size_t i = 0; i < n; i++)
		vec_free(&rows[i].of);
	free(rows);
}

/* anomaly_list.c - a recording's anomalies and what ran in them: found and kept. */
#include "incident/anomaly_list.h"

#include <math.h>
#include <stdlib.h>

#include "incident/anomaly_row.h"
#include "incident/incidents.h"
#include "incident/lost_in_line.h"

#define WITH_LINES 256 /* anomalies whose lines are looked for */

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
static void list_anomaly(struct anomaly_list *l, const struct anomaly *a)
{
	bool again = a->id <= l->rows.len;
	struct listed_anomaly *kept = again ? &l->rows.data[a->id - 1] : vec_push(&l->rows);
	if (again)
		free_strings(&kept->a);
	kept->a = *a;
	own_strings(&kept->a);
}

static int by_start(const void *x, const void *y)
{
	const struct anomaly *a = &((const struct listed_anomaly *)x)->a;
	const struct anomaly *b = &((const struct listed_anomaly *)y)->a;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static int by_p(const void *x, const void *y)
{
	double a = ((const struct listed_anomaly *)x)->a.p_value;
	double b = ((const struct listed_anomaly *)y)->a.p_value;
	return a < b ? -1 : a > b ? 1 : by_start(x, y);
}

static void put_down_to_line(struct listed_anomaly *f)
{
	const char *name = f->a.name;
	if (!f->lines.lines_len)
		return;
	lost_in_line(&f->a, &f->lines.lines[0]);
	if (f->a.name == name)
		return;
	free((char *)name);
	f->a.name = own(f->a.name);
}

static void find_lines(struct anomaly_list *l, const struct row_source *reader)
{
	size_t n = l->rows.len < WITH_LINES ? l->rows.len : WITH_LINES;
	struct anomaly_lines *lines = xcalloc(n + 1, sizeof(*lines));
	for (size_t i = 0; i < n; i++) {
		const struct anomaly *a = &l->rows.data[i].a;
		lines[i] = (struct anomaly_lines){
			.start_ns = a->start_ns, .end_ns = a->end_ns, .pid = a->pid};
	}
	anomaly_lines_find(lines, n, reader);
	for (size_t i = 0; i < n; i++) {
		l->rows.data[i].lines = lines[i];
		put_down_to_line(&l->rows.data[i]);
	}
	free(lines);
}

/* Ranks and sorts them once all are there; without a reader no lines are looked for. */
static void settle(struct anomaly_list *l, const struct row_source *reader)
{
	if (!l->rows.len)
		return;
	qsort(l->rows.data, l->rows.len, sizeof(*l->rows.data), by_p);
	for (size_t i = 0; i < l->rows.len; i++)
		l->rows.data[i].rarer = i;
	if (reader)
		find_lines(l, reader);
	qsort(l->rows.data, l->rows.len, sizeof(*l->rows.data), by_start);
}

struct finding {
	struct anomaly_list *list;
	const struct anomaly_list_options *o;
	const struct rows_file *rows; /* that are judged again, as they were; NULL: a recording */
	size_t rows_told;
	const struct detect_layers *layers;
};

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	const struct finding *x = ctx;
	list_anomaly(x->list, a);
}

static void on_row(void *ctx, const struct feature_row *row, double score, double p, bool alarmed)
{
	struct finding *x = ctx;
	struct anomaly_list *l = x->list;
	struct feature_row given;
	if (x->rows) {
		given = x->rows->rows.data[x->rows_told++].row;
		given.regime = row->regime;
		row = &given;
	}
	if (!isnan(p)) {
		if (!l->judged_from_ns || row->start_ns < l->judged_from_ns)
			l->judged_from_ns = row->start_ns;
		if (row->end_ns > l->judged_to_ns)
			l->judged_to_ns = row->end_ns;
	}
	if (x->o->row)
		x->o->row(x->o->ctx, row, detect_layer_name(x->layers, row->layer), score, p,
			  alarmed);
}

static void on_event(void *ctx, const struct detector_event *e)
{
	const struct finding *x = ctx;
	x->o->event(x->o->ctx, e);
}

static void on_misfit(void *ctx, const struct model_misfit *m)
{
	const struct finding *x = ctx;
	struct model_misfit *kept = vec_push(&x->list->misfits);
	*kept = *m;
	kept->differs = m->differs ? xstrdup(m->differs) : NULL;
}

static void setting_of(void *ctx, uint32_t pid, struct setting *ret)
{
	const struct finding *x = ctx;
	(void)pid;
	for (size_t i = 0; i < x->list->setting.facts.len; i++)
		setting_add(ret, x->list->setting.facts.data[i].name,
			    x->list->setting.facts.data[i].value);
}

static struct detector *detector_of(struct finding *x)
{
	const struct anomaly_list_options *o = x->o;
	return detector_new(&(struct detector_options){.model = o->model,
						       .alarms_per_hour = o->alarms_per_hour,
						       .least_effect = o->least_effect,
						       .follow = o->follow,
						       .without_excuses = o->without_excuses,
						       .whole = true,
						       .tell = on_anomaly,
						       .tell_ctx = x,
						       .row = on_row,
						       .misfit = on_misfit,
						       .setting = setting_of,
						       .event = o->event ? on_event : NULL});
}

static void keep_changes(struct anomaly_list *ret, const struct detector *d)
{
	size_t n;
	const struct change *list = detector_changes(d, &n);
	for (size_t i = 0; i < n; i++)
		*vec_push(&ret->changes) = list[i];
}

void anomaly_list_make(struct anomaly_list *ret, const struct row_source *reader,
		       const struct anomaly_list_options *o)
{
	struct finding x = {.list = ret, .o = o};
	struct detector *d = detector_of(&x);
	setting_add_recording(&ret->setting, reader->tables);
	x.layers = detector_layers(d);
	detector_recording(d, reader, o->progress, o->progress_ctx);
	detector_stats(d, &ret->stats);
	keep_changes(ret, d);
	if (o->judged_by && detector_model(d))
		o->judged_by(o->ctx, detector_model(d), x.layers);
	detector_free(d);
	settle(ret, reader);
}

void anomaly_list_replay(struct anomaly_list *ret, const struct rows_file *rows,
			 const struct anomaly_list_options *o)
{
	struct finding x = {ret, o, rows, 0, rows->layers};
	struct detector *d = detector_of(&x);
	detector_rows(d, o->model, rows);
	detector_stats(d, &ret->stats);
	detector_free(d);
	settle(ret, NULL);
}

static uint32_t parent_in(const void *ctx, uint32_t pid)
{
	const struct rec_tables *t = ctx;
	for (size_t i = 0; i < t->processes.len; i++)
		if (t->processes.data[i].pid == pid)
			return t->processes.data[i].parent_pid;
	return 0;
}

/* What was told does not say of which incident it is. */
static void join_told(struct anomaly_list *l, const struct rec_tables *t)
{
	struct incidents incidents = {.parent_of = parent_in, .ctx = t};
	for (size_t i = 0; i < l->rows.len; i++) {
		struct anomaly over = l->rows.data[i].a;
		over.ended = true;
		incidents_told(&incidents, &over, over.pid);
		l->rows.data[i].a.incident = over.incident;
	}
	incidents_free(&incidents);
}

void anomaly_list_told(struct anomaly_list *ret, const struct rec_tables *t,
		       const struct row_source *reader)
{
	struct detect_layers layers = {0};
	for (size_t i = 0; i < t->anomalies.len; i++) {
		struct anomaly a;
		if (!anomaly_of_row(&a, &t->anomalies.data[i], t, &layers))
			continue;
		own_strings(&a);
		vec_push(&ret->rows)->a = a;
	}
	settle(ret, reader);
	join_told(ret, t);
}

void anomaly_list_free(struct anomaly_list *l)
{
	for (size_t i = 0; i < l->rows.len; i++)
		free_strings(&l->rows.data[i].a);
	vec_free(&l->rows);
	for (size_t i = 0; i < l->misfits.len; i++)
		free((char *)l->misfits.data[i].differs);
	vec_free(&l->misfits);
	vec_free(&l->changes);
	setting_free(&l->setting);
}

/* report_counters.c - counters that no other section shows: whatever a collector tells is here by
 * itself. The text leaves out those of processes and of eacgm, of which there may be hundreds. */
#include <inttypes.h>
#include <stdlib.h>

#include "analyze/counters.h"
#include "base/entity.h"
#include "events/metric.h"
#include "report/report_section.h"

enum { COLUMN_VALUE = 12 };

/* GPUs have their own section. */
static bool is_shown(const struct report *r, const struct m_metric *m)
{
	if (m->kind == ENTITY_GPU)
		return false;
	return !r->options->pid || m->kind != ENTITY_PROCESS || m->pid == r->options->pid;
}

static void *begin(const struct report *r, struct report_visitors *v)
{
	(void)v;
	(void)r;
	return xcalloc(1, sizeof(counter_sums_t));
}

static bool make(const struct report *r, void *state)
{
	const struct report_options *o = r->options;
	counter_sums_t *sums = state;
	size_t left = 0;
	counter_sums_make(sums, r->source, o->from_ns, o->to_ns ? o->to_ns : UINT64_MAX);
	for (size_t i = 0; i < sums->len; i++)
		if (is_shown(r, &r->tables->metrics.data[sums->data[i].metric]))
			sums->data[left++] = sums->data[i];
	sums->len = left;
	return true;
}

static void end(void *state)
{
	counter_sums_t *sums = state;
	vec_free(sums);
	free(sums);
}

static char *entity_of(const struct report *r, const struct m_metric *m)
{
	struct buf b = {0};
	struct entity e = metric_entity(m, &r->tables->strings);
	entity_print(&b, &e);
	buf_byte(&b, 0);
	return (char *)b.data;
}

/* ---- text ---- */

static bool is_in_text(const struct m_metric *m)
{
	return m->kind != ENTITY_PROCESS && m->kind != ENTITY_EACGM;
}

static size_t in_text(const struct report *r, const counter_sums_t *sums)
{
	size_t n = 0;
	for (size_t i = 0; i < sums->len; i++)
		n += is_in_text(&r->tables->metrics.data[sums->data[i].metric]);
	return n;
}

static void value(const struct page *p, double v)
{
	char text[32];
	snprintf(text, sizeof(text), "%.4g", v);
	page_right(p, text, COLUMN_VALUE);
}

static void row_text(const struct page *p, const struct counter_sum *c, const struct m_metric *m)
{
	char *entity = entity_of(p->r, m);
	char *what = xasprintf("%s %s", entity, strtab_get(&p->r->tables->strings, m->name, NULL));
	value(p, c->mean);
	value(p, c->min);
	value(p, c->max);
	value(p, c->last);
	page_rest(p, what, 4 * COLUMN_VALUE);
	free(what);
	free(entity);
}

static void text(const struct page *p, const void *state)
{
	const counter_sums_t *sums = state;
	static const char *const names[] = {"mean", "lowest", "highest", "last"};
	size_t all = in_text(p->r, sums), shown = page_shown(p, all);
	fputc('\n', p->out);
	page_styled(p, BOLD, "counters");
	fputc('\n', p->out);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		page_right(p, names[i], COLUMN_VALUE);
	fputs("  of what\n", p->out);
	for (size_t i = 0, row = 0; i < sums->len && row < shown; i++) {
		const struct m_metric *m = &p->r->tables->metrics.data[sums->data[i].metric];
		if (!is_in_text(m))
			continue;
		row_text(p, &sums->data[i], m);
		row++;
	}
	page_more(p, all, shown, COLUMN_VALUE);
}

/* ---- JSON ---- */

static json_t *row_json(const struct report *r, const struct counter_sum *c)
{
	const struct m_metric *m = &r->tables->metrics.data[c->metric];
	const char *unit = metric_unit_text(m->unit);
	char *entity = entity_of(r, m);
	json_t *o = report_counter_json(c);
	json_object_set_new(o, "entity", report_text_json(entity));
	json_object_set_new(o, "name",
			    report_text_json(strtab_get(&r->tables->strings, m->name, NULL)));
	json_object_set_new(o, "unit", report_text_json(unit));
	free(entity);
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const counter_sums_t *sums = state;
	json_stream_array(out, "counters");
	for (size_t i = 0; i < sums->len; i++)
		json_stream_put(out, NULL, row_json(r, &sums->data[i]));
	json_stream_close(out);
}

static double relevance(const struct report *r, const void *state)
{
	return in_text(r, state) ? RELEVANT_DETAIL - 2 : RELEVANT_NOT;
}

const struct report_section report_counters = {.name = "counters",
					       .begin = begin,
					       .make = make,
					       .relevance = relevance,
					       .text = text,
					       .json = json,
					       .end = end};

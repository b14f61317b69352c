/* report_outlook.c - the section of what would have run out or broken had the recording gone on,
 * and what began to. Whether that is so, incident/outlook.h says. */
#include "report/report_outlook.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/account.h"
#include "base/human.h"
#include "detect/numbers_json.h"
#include "report/report_section.h"

/* A warning with strings of its own. */
struct told {
	struct outlook_warning w;
	char *label, *host;
};

struct state {
	const struct report *r;
	struct outlook *outlook;
	struct detect_names names;
	uint64_t from_ns, to_ns;
	VEC(struct told) list;
};

static void *begin(const struct report *r, struct report_visitors *v)
{
	(void)v;
	struct state *s = xcalloc(1, sizeof(*s));
	s->from_ns = r->options->from_ns;
	s->to_ns = r->options->to_ns ? r->options->to_ns : UINT64_MAX;
	return s;
}

static void end(void *state)
{
	struct state *s = state;
	for (size_t i = 0; i < s->list.len; i++) {
		free(s->list.data[i].label);
		free(s->list.data[i].host);
	}
	vec_free(&s->list);
	free(s);
}

static bool is_asked(const struct report *r, const struct entity *e)
{
	return !r->options->pid || !e->pid || e->pid == r->options->pid;
}

static void on_warning(void *ctx, const struct outlook_warning *w)
{
	struct state *s = ctx;
	size_t i = 0;
	if (!is_asked(s->r, &w->of))
		return;
	while (i < s->list.len && s->list.data[i].w.id != w->id)
		i++;
	struct told *t = i < s->list.len ? &s->list.data[i] : vec_push(&s->list);
	if (!t->label) {
		t->label = xstrdup(w->of.label);
		t->host = xstrdup(w->of.host);
	}
	t->w = *w;
	t->w.of.label = t->label;
	t->w.of.host = t->host;
}

static void on_counters(void *ctx, const struct visited_rows *rows)
{
	struct state *s = ctx;
	const struct m_counter *counters = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		if (counters[i].time_ns >= s->from_ns && counters[i].time_ns < s->to_ns)
			outlook_counter(s->outlook, &s->names, &counters[i]);
}

/* By kind; of one the nearest first, or where nobody knows when, the fastest. */
static int compare(const void *a, const void *b)
{
	const struct outlook_warning *x = &((const struct told *)a)->w;
	const struct outlook_warning *y = &((const struct told *)b)->w;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->left_s < y->left_s || x->left_s > y->left_s)
		return x->left_s < y->left_s ? -1 : 1;
	if (x->per_s < y->per_s || x->per_s > y->per_s)
		return x->per_s > y->per_s ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static bool make(const struct report *r, void *state)
{
	struct state *s = state;
	s->r = r;
	s->outlook =
		outlook_new(&(struct outlook_options){.whole = true, .tell = on_warning, .ctx = s});
	detect_names_of_source(&s->names, r->source);
	rows_read(r->source, ROW_COUNTER, on_counters, s);
	outlook_end(s->outlook);
	outlook_free(s->outlook);
	if (s->list.len)
		qsort(s->list.data, s->list.len, sizeof(*s->list.data), compare);
	return s->list.len > 0;
}

/* ---- text ---- */

/* "train.py (4242)", else as counters have it. */
static char *who_text(const struct report *r, const struct entity *e)
{
	const struct rec_tables *t = r->tables;
	const struct m_process *last = NULL; /* the program that it ran in the end */
	struct buf b = {0};
	for (size_t i = 0; e->kind == ENTITY_PROCESS && i < t->processes.len; i++)
		if (t->processes.data[i].pid == e->pid)
			last = &t->processes.data[i];
	if (last)
		buf_printf(&b, "%s (%u)", account_program(t, last), e->pid);
	if (!b.len)
		entity_print(&b, e);
	buf_byte(&b, 0);
	return (char *)b.data;
}

static void text(const struct page *p, const void *state)
{
	const struct state *s = state;
	size_t shown = page_shown(p, s->list.len);
	char what[OUTLOOK_WHAT_BYTES];
	fputc('\n', p->out);
	page_styled(p, BOLD, "outlook");
	fputs(": what was under way when the recording ended, and what had begun\n", p->out);
	for (size_t i = 0; i < shown; i++) {
		char *who = who_text(p->r, &s->list.data[i].w.of), *clean = text_clean(who);
		fputs("  - ", p->out);
		page_wrapped(p, 4, 4, "%s: %s%s", clean, outlook_what(what, &s->list.data[i].w),
			     s->list.data[i].w.ended ? "; it was over before the end" : "");
		free(clean);
		free(who);
	}
	page_more(p, s->list.len, shown, 2);
}

/* ---- JSON ---- */

json_t *outlook_json(const struct outlook_warning *w)
{
	char entity[256], what[OUTLOOK_WHAT_BYTES];
	json_t *o = json_object();
	entity_text(entity, sizeof(entity), &w->of);
	json_object_set_new(o, "kind", json_string(outlook_kind_name(w->kind)));
	json_object_set_new(o, "entity", report_text_json(entity));
	json_object_set_new(o, "pid", w->of.pid ? report_number_json(w->of.pid) : json_null());
	json_object_set_new(o, "counter", json_string(w->name));
	json_object_set_new(o, "value", real_json(w->value));
	json_object_set_new(o, "from", real_json(w->from));
	json_object_set_new(o, "limit", real_json(w->limit));
	json_object_set_new(o, "per_s", real_json(w->per_s));
	json_object_set_new(o, "left_s", real_json(w->left_s));
	json_object_set_new(o, "share_ratio", real_json(w->share));
	json_object_set_new(o, "by_pid", w->by_pid ? report_number_json(w->by_pid) : json_null());
	json_object_set_new(o, "since_ns", report_number_json(w->since_ns));
	json_object_set_new(o, "until_ns", report_number_json(w->now_ns));
	json_object_set_new(o, "ended", json_boolean(w->ended));
	json_object_set_new(o, "what", report_text_json(outlook_what(what, w)));
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct state *s = state;
	(void)r;
	json_stream_array(out, "outlook");
	for (size_t i = 0; i < s->list.len; i++)
		json_stream_put(out, NULL, outlook_json(&s->list.data[i].w));
	json_stream_close(out);
}

static double relevance(const struct report *r, const void *state)
{
	(void)r;
	(void)state;
	return RELEVANT_FAULT;
}

const struct report_section report_outlook = {.name = "outlook",
					      .begin = begin,
					      .make = make,
					      .relevance = relevance,
					      .text = text,
					      .json = json,
					      .end = end};

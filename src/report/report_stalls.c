/* report_stalls.c - what the kernel took of the job's threads while they had a CPU: interrupts,
 * what it put off from them, and memory that had to be freed or moved. Sums of all such times; the
 * slices are in timelines, and causes ('eacgm diagnose') say which of them cost. */
#include <stdlib.h>

#include "base/human.h"
#include "report/report_section.h"
#include "wire/stalls.h"

enum { COLUMN_OF = 2 * COLUMN_TIME + COLUMN_CALLS };

/* Of one kind and name, all threads together. */
struct taken {
	uint8_t kind;
	uint32_t name; /* string */
	uint64_t count, total_ns, longest_ns;
	uint32_t most_thread; /* from which most was taken: */
	uint64_t most_ns;
};

struct state {
	VEC(struct taken) list; /* what took most first */
	uint64_t total_ns;
};

static void *begin(const struct report *r, struct report_visitors *v)
{
	(void)v;
	/* the sums are of the whole recording */
	if (!r->tables->stall_totals.len || r->options->from_ns || r->options->to_ns)
		return NULL;
	return xcalloc(1, sizeof(struct state));
}

static void end(void *state)
{
	struct state *s = state;
	vec_free(&s->list);
	free(s);
}

static struct taken *taken_of(struct state *s, const struct m_stall_total *row)
{
	for (size_t i = 0; i < s->list.len; i++)
		if (s->list.data[i].kind == row->kind && s->list.data[i].name == row->name)
			return &s->list.data[i];
	struct taken *ret = vec_push(&s->list);
	*ret = (struct taken){.kind = row->kind, .name = row->name, .most_thread = row->thread};
	return ret;
}

static void add(struct state *s, const struct m_stall_total *row)
{
	struct taken *t = taken_of(s, row);
	t->count += row->count;
	t->total_ns += row->total_ns;
	s->total_ns += row->total_ns;
	if (row->longest_ns > t->longest_ns)
		t->longest_ns = row->longest_ns;
	if (row->total_ns > t->most_ns) {
		t->most_ns = row->total_ns;
		t->most_thread = row->thread;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct taken *x = a, *y = b;
	return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

static bool is_of(const struct report *r, const struct m_stall_total *row)
{
	return row->kind < STALL_KINDS && row->thread < r->tables->threads.len && row->count &&
	       (!r->options->pid || r->tables->threads.data[row->thread].pid == r->options->pid);
}

static bool make(const struct report *r, void *state)
{
	struct state *s = state;
	for (size_t i = 0; i < r->tables->stall_totals.len; i++)
		if (is_of(r, &r->tables->stall_totals.data[i]))
			add(s, &r->tables->stall_totals.data[i]);
	if (s->list.len)
		qsort(s->list.data, s->list.len, sizeof(*s->list.data), by_time);
	return s->list.len > 0;
}

static const char *kind_name(uint8_t kind)
{
	static const char *const kinds[STALL_KINDS] = STALL_KIND_NAMES;
	return kinds[kind];
}

/* ---- text ---- */

/* "softirq NET_RX, 38 % from thread python3 (4242)": from which most was taken. */
static void row_text(const struct page *p, const struct taken *t)
{
	const struct strtab *strings = &p->r->tables->strings;
	const struct m_thread *most = &p->r->tables->threads.data[t->most_thread];
	const char *name = strtab_get(strings, t->name, NULL);
	struct buf b = {0};
	page_ns(p, t->total_ns, COLUMN_TIME);
	page_ns(p, t->longest_ns, COLUMN_TIME);
	page_count(p, t->count, COLUMN_CALLS);
	buf_printf(&b, "%s%s%s, ", kind_name(t->kind), *name ? " " : "", name);
	if (t->most_ns == t->total_ns)
		buf_printf(&b, "all");
	else
		buf_printf(&b, "%.0f %%", 100.0 * (double)t->most_ns / (double)t->total_ns);
	buf_printf(&b, " from thread %s (%u)", strtab_get(strings, most->comm, NULL), most->tid);
	buf_byte(&b, 0);
	page_rest(p, (const char *)b.data, COLUMN_OF);
	buf_free(&b);
}

static void text(const struct page *p, const void *state)
{
	const struct state *s = state;
	size_t shown = page_shown(p, s->list.len);
	fputc('\n', p->out);
	page_styled(p, BOLD, "what the kernel took of the job's threads");
	fputc('\n', p->out);
	page_right(p, "time", COLUMN_TIME);
	page_right(p, "longest", COLUMN_TIME);
	page_right(p, "times", COLUMN_CALLS);
	fputs("  for what\n", p->out);
	for (size_t i = 0; i < shown; i++)
		row_text(p, &s->list.data[i]);
	page_more(p, s->list.len, shown, COLUMN_TIME);
}

static double relevance(const struct report *r, const void *state)
{
	const struct state *s = state;
	return RELEVANT_AFTER * report_share(r, s->total_ns);
}

/* ---- JSON ---- */

static json_t *row_json(const struct report *r, const struct taken *t)
{
	const struct strtab *strings = &r->tables->strings;
	const struct m_thread *most = &r->tables->threads.data[t->most_thread];
	json_t *o = json_object();
	json_object_set_new(o, "kind", json_string(kind_name(t->kind)));
	json_object_set_new(o, "name", report_text_json(strtab_get(strings, t->name, NULL)));
	json_object_set_new(o, "count", report_number_json(t->count));
	json_object_set_new(o, "total_ns", report_number_json(t->total_ns));
	json_object_set_new(o, "longest_ns", report_number_json(t->longest_ns));
	json_object_set_new(o, "most_of",
			    json_pack("{s:o, s:o, s:o, s:o}", "pid", report_number_json(most->pid),
				      "tid", report_number_json(most->tid), "name",
				      report_text_json(strtab_get(strings, most->comm, NULL)),
				      "total_ns", report_number_json(t->most_ns)));
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct state *s = state;
	json_stream_array(out, "stalls");
	for (size_t i = 0; i < s->list.len; i++)
		json_stream_put(out, NULL, row_json(r, &s->list.data[i]));
	json_stream_close(out);
}

const struct report_section report_stalls = {.name = "stalls",
					     .begin = begin,
					     .make = make,
					     .relevance = relevance,
					     .text = text,
					     .json = json,
					     .end = end};

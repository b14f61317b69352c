/* report_told.c - the section of anomalies that were told while it was recorded. */
#include "base/human.h"
#include "incident/anomaly_list.h"
#include "incident/anomaly_text.h"
#include "report/report_anomalies.h"
#include "report/report_section.h"

#define SHOWN 20

static void *told_begin(const struct report *r, struct report_visitors *v)
{
	(void)v;
	return r->tables->anomalies.len ? xcalloc(1, sizeof(struct anomaly_list)) : NULL;
}

static bool told_make(const struct report *r, void *state)
{
	anomaly_list_told(state, r->tables, NULL);
	return true;
}

static void told_text(const struct page *p, const void *state)
{
	const struct anomaly_list *l = state;
	uint64_t start = report_number(p->r->tables, "start_monotonic_ns");
	size_t shown = page_shown(p, l->rows.len);
	shown = shown < SHOWN ? shown : SHOWN;
	fputc('\n', p->out);
	page_styled(p, BOLD, "anomalies, told while it was recorded");
	fputc('\n', p->out);
	for (size_t i = 0; i < l->rows.len; i++) {
		const struct anomaly *a = &l->rows.data[i].a;
		char after[HUMAN_BYTES], line[ANOMALY_LINE_BYTES];
		if (l->rows.data[i].rarer >= shown)
			continue;
		page_right(p, human_ns(after, a->start_ns > start ? a->start_ns - start : 0),
			   COLUMN_CALLS);
		page_rest(p, anomaly_line(line, a), COLUMN_CALLS);
	}
	page_more(p, l->rows.len, shown, COLUMN_CALLS);
}

static void told_json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct anomaly_list *l = state;
	(void)r;
	json_stream_array(out, "anomalies");
	for (size_t i = 0; i < l->rows.len; i++)
		json_stream_put(out, NULL, anomaly_json(&l->rows.data[i].a));
	json_stream_close(out);
}

static void told_end(void *state)
{
	anomaly_list_free(state);
	free(state);
}

static double told_relevance(const struct report *r, const void *state)
{
	(void)r;
	(void)state;
	return RELEVANT_FAULT;
}

const struct report_section report_told = {
	.name = "anomalies",
	.relevance = told_relevance,
	.begin = told_begin,
	.make = told_make,
	.text = told_text,
	.json = told_json,
	.end = told_end,
};

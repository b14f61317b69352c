/* report_operators.c - GPU time by operator, forward and backward, in the report. */
#include <stdlib.h>

#include "analyze/operators.h"
#include "base/human.h"
#include "report/report_section.h"

static void *begin(const struct report *r, struct report_visitors *v)
{
	if (!r->tables->gpu_spans)
		return NULL;
	struct operators *o = xcalloc(1, sizeof(*o));
	v->after[v->nafter++] = operators_visitor(o, r->source, r->timeline, r->options->pid);
	return o;
}

static bool make(const struct report *r, void *state)
{
	const struct operators *o = state;
	(void)r;
	return o->rows.len;
}

static void end(void *state)
{
	operators_free(state);
	free(state);
}

/* ---- text ---- */

static void row_text(const struct page *p, const struct operator_time *row)
{
	page_count(p, row->calls, COLUMN_CALLS);
	page_ns(p, row->forward_ns, COLUMN_TIME);
	page_count(p, row->nodes, COLUMN_TIME);
	page_ns(p, row->backward_ns, COLUMN_TIME);
	page_rest(p, row->name, COLUMN_CALLS + 3 * COLUMN_TIME);
}

static void text(const struct page *p, const void *state)
{
	const struct operators *o = state;
	char outside[HUMAN_BYTES];
	size_t shown = page_shown(p, o->rows.len);
	fputc('\n', p->out);
	page_styled(p, BOLD, "operators on the GPU");
	if (o->backward_ns)
		fprintf(p->out, ": of %.1f %% of the backward pass the operator is recorded",
			100 * (double)o->linked_ns / (double)o->backward_ns);
	fputc('\n', p->out);
	if (o->nodes_missing)
		fputs("  nodes of backward passes are not recorded: their operators count as "
		      "forward\n",
		      p->out);
	if (o->outside_ns)
		fprintf(p->out,
			"  outside of operators, as collectives are: %s of the GPU's time\n",
			human_ns(outside, o->outside_ns));
	page_right(p, "calls", COLUMN_CALLS);
	page_right(p, "forward", COLUMN_TIME);
	page_right(p, "nodes", COLUMN_TIME);
	page_right(p, "backward", COLUMN_TIME);
	fputs("  operator, by time on the GPU\n", p->out);
	for (size_t i = 0; i < shown; i++)
		row_text(p, &o->rows.data[i]);
	page_more(p, o->rows.len, shown, COLUMN_CALLS);
}

/* ---- JSON ---- */

static json_t *row_json(const struct operator_time *row)
{
	json_t *o = json_object();
	json_object_set_new(o, "name", report_text_json(row->name));
	json_object_set_new(o, "calls", report_number_json(row->calls));
	json_object_set_new(o, "forward_ns", report_number_json(row->forward_ns));
	json_object_set_new(o, "forward_spans", report_number_json(row->forward_spans));
	json_object_set_new(o, "nodes", report_number_json(row->nodes));
	json_object_set_new(o, "backward_ns", report_number_json(row->backward_ns));
	json_object_set_new(o, "backward_spans", report_number_json(row->backward_spans));
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct operators *o = state;
	uint64_t top = r->options->top;
	json_stream_object(out, "gpu_operators");
	json_stream_array(out, "operators");
	for (size_t i = 0; i < o->rows.len && (!top || i < top); i++)
		json_stream_put(out, NULL, row_json(&o->rows.data[i]));
	json_stream_close(out);
	json_stream_put(out, "outside_ns", report_number_json(o->outside_ns));
	json_stream_put(out, "unmatched_ns", report_number_json(o->unmatched_ns));
	json_stream_put(out, "backward_ns", report_number_json(o->backward_ns));
	json_stream_put(out, "backward_linked_ns", report_number_json(o->linked_ns));
	json_stream_put(out, "backward_nodes_missing", json_boolean(o->nodes_missing));
	json_stream_close(out);
}

static double relevance(const struct report *r, const void *state)
{
	const struct operators *o = state;
	uint64_t ns = o->outside_ns;
	for (size_t i = 0; i < o->rows.len; i++)
		ns += o->rows.data[i].forward_ns + o->rows.data[i].backward_ns;
	return report_share(r, ns);
}

const struct report_section report_operators = {.name = "operators",
						.begin = begin,
						.make = make,
						.relevance = relevance,
						.text = text,
						.json = json,
						.end = end};

/* export_beside.c - what an export has beside the rows of a recording. */
#include "cli/export_beside.h"

#include <stdlib.h>

#include "analyze/autograd.h"
#include "analyze/timeline.h"
#include "cli/export_steps.h"
#include "report/report.h"
#include "symbolize/demangle.h"

/* An arrow from each call to what it started; of graphs to their first GRAPH_ARROWS nodes. Work
 * that seems to begin before its call has none. */
static void make_flows(struct work_flows *ret, const struct rec_reader *reader)
{
	enum { GRAPH_ARROWS = 32 };
	struct timeline t;
	timeline_make(&t, rec_source(reader), &(struct timeline_options){.demangle = demangle});
	for (size_t i = 0; i < t.calls.len; i++) {
		const struct timeline_call *c = &t.calls.data[i];
		const struct timeline_call_kind *kind = timeline_call_kind_of(&t, c);
		for (uint32_t k = 0; k < c->spans && k < GRAPH_ARROWS; k++) {
			const struct timeline_span *s =
				&t.spans.data[t.by_call.data[c->first_span + k]];
			if (s->start_ns < c->start_ns)
				continue;
			*vec_push(&ret->rows) = (struct work_flow){.call_start_ns = c->start_ns,
								   .span_start_ns = s->start_ns,
								   .thread = kind->thread,
								   .probe = kind->probe,
								   .pid = kind->pid,
								   .correlation = s->correlation};
		}
	}
	timeline_free(&t);
	work_flows_sort(ret);
}

/* An arrow from each operator to the backward node that it made. */
static void make_call_flows(struct call_flows *ret, const struct rec_reader *reader)
{
	struct autograd_links links;
	autograd_links_make(&links, rec_source(reader), 0);
	for (size_t i = 0; i < links.rows.len; i++) {
		const struct autograd_link *l = &links.rows.data[i];
		call_flows_add(ret,
			       &(struct call_flow_end){.start_ns = l->operator_start_ns,
						       .thread = l->operator_thread,
						       .probe = l->operator_probe},
			       &(struct call_flow_end){.start_ns = l->node_start_ns,
						       .thread = l->node_thread,
						       .probe = l->node_probe});
	}
	autograd_links_free(&links);
	call_flows_sort(ret);
}

void export_beside_make(struct export_beside *ret, const struct rec_reader *reader,
			const struct sink_format *format)
{
	*ret = (struct export_beside){.verdict = NULL};
	if (format->work_flows && rec_tables(reader)->gpu_spans)
		make_flows(&ret->flows, reader);
	if (format->call_flows)
		make_call_flows(&ret->call_flows, reader);
	if (format->steps)
		export_steps_make(&ret->steps, reader);
	if (format->verdict)
		ret->verdict = report_verdict(rec_source(reader));
}

void export_beside_put(struct export_beside *b, const struct judged_slices *judged,
		       struct export_options *options)
{
	options->demangle = demangle;
	options->steps = &b->steps;
	options->anomalies = &judged->anomalies;
	options->incidents = &judged->incidents;
	options->call_flows = &b->call_flows;
	options->verdict = b->verdict;
	options->flows = b->flows.rows.len ? &b->flows : NULL;
}

void export_beside_free(struct export_beside *b)
{
	work_flows_free(&b->flows);
	call_flows_free(&b->call_flows);
	free(b->verdict);
	export_steps_free(&b->steps);
}

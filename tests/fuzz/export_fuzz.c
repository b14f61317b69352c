/* export_fuzz.c - hostile recordings in every format, with arrows and steps.
 *
 * What the input looks like is in recording_input.h. Arrows are those that eacgm export draws, and
 * others from any call to any, and to any work of GPUs, which a format must stand as well.
 *
 * links: base recording analyze export symbolize */
#include <string.h>

#include "analyze/autograd.h"
#include "analyze/steps.h"
#include "analyze/timeline.h"
#include "export/export.h"
#include "recording_input.h"
#include "symbolize/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_ARROWS = 4096 };

static struct work_flow work_flow(const struct timeline *t, const struct timeline_call *c,
				  const struct timeline_span *s)
{
	return (struct work_flow){.call_start_ns = c->start_ns,
				  .span_start_ns = s->start_ns,
				  .thread = timeline_call_kind_of(t, c)->thread,
				  .probe = timeline_call_kind_of(t, c)->probe,
				  .pid = timeline_kind_of(t, s)->pid,
				  .correlation = s->correlation};
}

/* To what a call started, and to that of the call as far from the other end. */
static void make_work_flows(struct work_flows *ret, const struct timeline *t)
{
	for (size_t i = 0; i < t->spans.len && i < MOST_ARROWS; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		if (s->call != TIMELINE_NONE)
			*vec_push(&ret->rows) = work_flow(t, &t->calls.data[s->call], s);
		if (t->calls.len)
			*vec_push(&ret->rows) = work_flow(
				t, &t->calls.data[t->calls.len - 1 - i % t->calls.len], s);
	}
	work_flows_sort(ret);
}

static void add_call_flow(struct call_flows *f, const struct autograd_link *l)
{
	call_flows_add(f,
		       &(struct call_flow_end){.start_ns = l->operator_start_ns,
					       .thread = l->operator_thread,
					       .probe = l->operator_probe},
		       &(struct call_flow_end){.start_ns = l->node_start_ns,
					       .thread = l->node_thread,
					       .probe = l->node_probe});
}

/* Those of autograd, and from each call to the one as far from the other end. */
static void make_call_flows(struct call_flows *ret, const struct rec_reader *r,
			    const struct timeline *t)
{
	struct autograd_links links;
	autograd_links_make(&links, rec_source(r), 0);
	for (size_t i = 0; i < links.rows.len; i++)
		add_call_flow(ret, &links.rows.data[i]);
	for (size_t i = 0; i < t->calls.len && i < MOST_ARROWS; i++) {
		const struct timeline_call *tail = &t->calls.data[i];
		const struct timeline_call *head = &t->calls.data[t->calls.len - 1 - i];
		const struct timeline_call_kind *from = timeline_call_kind_of(t, tail);
		const struct timeline_call_kind *to = timeline_call_kind_of(t, head);
		add_call_flow(ret, &(struct autograd_link){.operator_start_ns = tail->start_ns,
							   .operator_thread = from->thread,
							   .operator_probe = from->probe,
							   .node_start_ns = head->start_ns,
							   .node_thread = to->thread,
							   .node_probe = to->probe});
	}
	autograd_links_free(&links);
	call_flows_sort(ret);
}

static void make_steps(struct step_slices *ret, const struct rec_reader *r)
{
	static const char *const kinds[] = STEPS_KIND_NAMES, *const phases[] = STEPS_PHASE_NAMES;
	struct steps steps;
	steps_make(&steps, rec_source(r), NULL);
	ret->phase_names = phases;
	ret->phases = STEPS_PHASES;
	for (size_t i = 0; i < steps.processes.len; i++) {
		const struct steps_process *p = &steps.processes.data[i];
		for (size_t k = 0; k < p->steps.len; k++) {
			const struct steps_step *s = &p->steps.data[k];
			struct step_slice *row = vec_push(&ret->rows);
			*row = (struct step_slice){.start_ns = s->start_ns,
						   .end_ns = s->end_ns,
						   .pid = p->pid,
						   .loop = s->loop,
						   .index = s->index,
						   .kind = kinds[p->loops.data[s->loop].kind]};
			memcpy(row->phase_ns, s->phase_ns, sizeof(s->phase_ns));
		}
	}
	steps_free(&steps);
}

static void export_as(const struct rec_reader *r, const struct timeline *t, const char *format)
{
	struct work_flows flows = {0};
	struct call_flows call_flows = {0};
	struct step_slices steps = {0};
	struct err e = {0};
	uint64_t skipped = 0;
	make_work_flows(&flows, t); /* they are used up */
	make_call_flows(&call_flows, r, t);
	make_steps(&steps, r);
	check(!export_file(rec_source(r), sink_format(format), "/dev/null",
			   &(struct export_options){.demangle = demangle,
						    .steps = &steps,
						    .call_flows = &call_flows,
						    .flows = flows.rows.len ? &flows : NULL},
			   &skipped, &e));
	work_flows_free(&flows);
	call_flows_free(&call_flows);
	vec_free(&steps.rows);
}

static void export_all(const char *path)
{
	static const char *const formats[] = {"perfetto", "chrome", "csv", "jsonl"};
	struct rec_reader *r;
	struct timeline t;
	if (rec_open(&r, path, NULL))
		return;
	timeline_make(&t, rec_source(r), &(struct timeline_options){.demangle = demangle});
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		export_as(r, &t, formats[i]);
	timeline_free(&t);
	rec_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	with_recording(data, size, export_all);
	return 0;
}

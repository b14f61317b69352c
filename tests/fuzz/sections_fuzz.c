/* sections_fuzz.c - what the report's sections say of hostile recordings: the GPU's timeline,
 * steps, operators, floating-point operations, collectives, ranks, connections.
 *
 * What the input looks like is in recording_input.h. Numbers into other lists are in range, and
 * times that are parts of others are no greater.
 *
 * links: base recording analyze symbolize */
#include "analyze/autograd.h"
#include "analyze/connections.h"
#include "analyze/flops.h"
#include "analyze/gpu_gaps.h"
#include "analyze/gpu_transfers.h"
#include "analyze/kernel_times.h"
#include "analyze/operators.h"
#include "analyze/ranks.h"
#include "analyze/steps.h"
#include "recording_input.h"
#include "symbolize/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_timeline(const struct timeline *t)
{
	for (size_t i = 0; i < t->spans.len; i++)
		check(t->spans.data[i].call == TIMELINE_NONE ||
		      t->spans.data[i].call < t->calls.len);
	for (size_t i = 0; i < t->calls.len; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		check((uint64_t)c->first_span + c->spans <= t->by_call.len);
		check(c->parent == TIMELINE_NONE || c->parent < t->calls.len);
	}
	for (size_t i = 0; i < t->by_call.len; i++)
		check(t->by_call.data[i] < t->spans.len);
}

static void check_gaps(const struct timeline *t, const struct rec_reader *r)
{
	struct gpu_gaps gaps;
	gpu_gaps_make(&gaps, rec_source(r), t);
	for (size_t i = 0; i < gaps.devices.len; i++) {
		const struct gap_device *d = &gaps.devices.data[i];
		check(d->busy_ns + d->idle_ns == d->span_ns);
		check(d->kernels_ns <= d->busy_ns && d->copies_ns <= d->busy_ns);
		check(d->exposed_ns <= d->collectives_ns && d->collectives_ns <= d->kernels_ns);
	}
	gpu_gaps_free(&gaps);
}

static void check_transfers(const struct timeline *t)
{
	struct gpu_transfers transfers;
	gpu_transfers_make(&transfers, t, 0);
	for (size_t i = 0; i < transfers.rows.len; i++)
		check(transfers.rows.data[i].overlapped_ns <= transfers.rows.data[i].total_ns);
	gpu_transfers_free(&transfers);
}

static void check_kernels(const struct timeline *t, const struct rec_reader *r)
{
	struct gpu_summary gpu;
	struct kernel_times times;
	gpu_summary_make(&gpu, rec_source(r), &(struct gpu_options){.visit.threads = 1});
	kernel_times_make(&times, t, &gpu, demangle);
	kernel_times_free(&times);
	gpu_summary_free(&gpu);
}

static void check_steps(const struct rec_reader *r)
{
	struct steps steps;
	steps_make(&steps, rec_source(r), &(struct steps_options){0});
	check(steps.main == SIZE_MAX || steps.main < steps.processes.len);
	for (size_t i = 0; i < steps.processes.len; i++) {
		const struct steps_process *p = &steps.processes.data[i];
		for (size_t k = 0; k < p->steps.len; k++) {
			const struct steps_step *s = &p->steps.data[k];
			uint64_t phases_ns = 0;
			for (int n = 0; n < STEPS_PHASES; n++)
				phases_ns += s->phase_ns[n];
			check(s->loop < p->loops.len && s->start_ns <= s->end_ns);
			check(phases_ns == s->end_ns - s->start_ns);
		}
	}
	steps_free(&steps);
}

static void check_work(const struct timeline *t, const struct rec_reader *r)
{
	struct operators operators;
	struct flops flops;
	operators_make(&operators, rec_source(r), t, 0);
	check(operators.linked_ns <= operators.backward_ns);
	operators_free(&operators);
	flops_make(&flops, rec_source(r), t, &(struct flops_options){0});
	flops_free(&flops);
}

static void check_ranks(const struct timeline *t, const struct rec_reader *r)
{
	struct collectives collectives;
	struct ranks ranks;
	collectives_make(&collectives, t, 5);
	for (size_t i = 0; i < collectives.rows.len; i++) {
		const struct collective *c = &collectives.rows.data[i];
		check((uint64_t)c->first_span + c->spans <= collectives.spans.len);
		check(c->overlap_ns <= c->device_end_ns - c->device_start_ns);
	}
	ranks_make(&ranks, rec_source(r), &collectives);
	for (size_t i = 0; i < ranks.comms.len; i++)
		check(ranks.comms.data[i].device_wait_ns <= ranks.comms.data[i].rank_ns);
	ranks_free(&ranks);
	collectives_free(&collectives);
}

static void check_sections(const char *path)
{
	struct rec_reader *r;
	struct timeline t;
	if (rec_open(&r, path, NULL))
		return;
	timeline_make(&t, rec_source(r), &(struct timeline_options){.demangle = demangle});
	check_timeline(&t);
	check_gaps(&t, r);
	check_transfers(&t);
	check_kernels(&t, r);
	check_steps(r);
	check_work(&t, r);
	check_ranks(&t, r);
	free(connections_uses(rec_tables(r)));
	timeline_free(&t);
	rec_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	with_recording(data, size, check_sections);
	return 0;
}

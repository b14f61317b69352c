/* calibrate.c - what a call costs that is traced and recorded here, by the tracer's own programs.
 */
#include <math.h>
#include <string.h>

#include "probe/call_timer.h"
#include "probe/tracer_impl.h"

#define RUNS 6 /* of which the quickest counts */

static int drop_record(void *ctx, void *record, size_t len)
{
	(void)ctx, (void)record, (void)len;
	return 0;
}

/* What the child left in the rings goes. */
static void empty_rings(struct tracer *t)
{
	struct err e;
	if (!tracer_set_drain(t, drop_record, NULL, &e))
		tracer_drain(t);
	t->calibrating = true;
	tracer_control(t);
	t->calibrating = false;
}

static void forget_spendings(struct tracer *t)
{
	struct spending *zeros = xcalloc((size_t)libbpf_num_possible_cpus(), sizeof(*zeros));
	for (uint32_t kind = 0; kind < SPENT_KINDS; kind++)
		bpf_map_update_elem(bpf_map__fd(t->bpf->maps.spendings), &kind, zeros, BPF_ANY);
	free(zeros);
}

static int attach_own(struct tracer *t, struct attach_links *links, struct err *e)
{
	struct site site = {
		.action = SITE_SPAN,
		.cookie = COOKIE_MAKE(MAX_PROBES - 1, SITE_SPAN, LAYER_USER, 0, 0),
	};
	if (!timed_function_offset(TIMED_SPAN, &site.offset))
		return err_set(e, ENOENT, "the function to measure with is not found");
	return attach_sites(links, t->method, &t->programs, "/proc/self/exe", &site, 1, e);
}

/* Of one of several runs. False when the child is gone, or nothing was traced. */
static bool time_run(struct tracer *t, struct call_timer *c, double *call_ns, double *return_ns)
{
	struct tracer_spending spent[SPENT_KINDS];
	forget_spendings(t);
	*call_ns = call_timer_run(c, TIMED_SPAN);
	tracer_spendings(t, spent);
	if (*call_ns < 0 || !spent[SPENT_RETURNS].runs)
		return false;
	*return_ns = spent[SPENT_RETURNS].ns / (double)spent[SPENT_RETURNS].runs;
	return true;
}

static int time_runs(struct tracer *t, struct call_timer *c, struct call_costs *ret, struct err *e)
{
	double plain_ns = call_timer_run(c, TIMED_PLAIN), call_ns, return_ns;
	ret->call_ns = ret->return_ns = INFINITY;
	for (int i = 0; i < RUNS; i++) {
		if (plain_ns < 0 || !time_run(t, c, &call_ns, &return_ns))
			return err_set(e, ECHILD, "calls of a process of ours were not traced");
		ret->call_ns = fmin(ret->call_ns, fmax(call_ns - plain_ns, 0));
		ret->return_ns = fmin(ret->return_ns, return_ns);
	}
	return 0;
}

static int measure_own(struct tracer *t, struct call_costs *ret, struct err *e)
{
	struct attach_links links = {0};
	struct call_timer c;
	uint32_t *mode = (uint32_t *)&t->bpf->bss->mode_of_layer[LAYER_USER], mode_before = *mode;
	int rc = call_timer_start(&c, e);
	if (rc)
		return rc;
	*mode = MODE_TRACE;
	rc = tracer_add_pid(t, c.pid, e);
	if (!rc)
		rc = attach_own(t, &links, e);
	if (!rc)
		rc = time_runs(t, &c, ret, e);
	call_timer_stop(&c);
	attach_detach(&links);
	*mode = mode_before;
	empty_rings(t);
	forget_spendings(t);
	return rc;
}

int tracer_measure_calls(struct tracer *t, struct call_costs *ret, struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	int rc = trap_costs_measure(&ret->traps, t->method, e);
	return rc ? rc : measure_own(t, ret, e);
}

int tracer_call_costs(struct tracer *t, struct call_costs *ret, struct err *e)
{
	if (call_costs_load(ret, t->method, NULL))
		return 0;
	int rc = tracer_measure_calls(t, ret, e);
	if (!rc)
		call_costs_store(ret, t->method, NULL);
	return rc;
}

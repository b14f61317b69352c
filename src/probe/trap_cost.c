/* trap_cost.c - a child calls functions with empty programs on them, and without. */
#include "probe/trap_cost.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "probe/call_timer.h"

static int load_programs(struct attach_programs *ret, enum attach_method method, struct err *e)
{
	int span = attach_load_empty(method, true), moment = attach_load_empty(method, false);
	*ret = (struct attach_programs){span, span, span, moment, moment, moment};
	if (span >= 0 && moment >= 0)
		return 0;
	int code = span < 0 ? span : moment;
	if (span >= 0)
		close(span);
	if (moment >= 0)
		close(moment);
	return err_set(e, -code, "cannot load an empty program: %s", strerror(-code));
}

static int attach_empty(struct attach_links *links, const struct attach_programs *programs,
			enum attach_method method, struct err *e)
{
	struct site sites[MAPPING_PLACES] = {
		{.action = SITE_INSTANT}, {.action = SITE_INSTANT}, {.action = SITE_SPAN}};
	if (!timed_function_offset(TIMED_ENTRY, &sites[0].offset) ||
	    !timed_function_offset(TIMED_STEPPED, &sites[1].offset) ||
	    !timed_function_offset(TIMED_SPAN, &sites[2].offset))
		return err_set(e, ENOENT, "the functions to measure with are not found");
	return attach_sites(links, method, programs, "/proc/self/exe", sites, MAPPING_PLACES, e);
}

static double above(double ns, double plain_ns)
{
	return fmax(ns - plain_ns, 0);
}

/* unprobed_ns: of a mapping, when there were no probes. */
static int measure_with(struct call_timer *c, double unprobed_ns, struct trap_costs *ret,
			struct err *e)
{
	double ns[TIMED_FUNCTIONS];
	for (int f = 0; f < TIMED_FUNCTIONS; f++) {
		ns[f] = call_timer_run(c, (enum timed_function)f);
		if (ns[f] < 0)
			return err_set(e, ECHILD, "the process to measure with has ended");
	}
	*ret = (struct trap_costs){
		.entry_ns = above(ns[TIMED_ENTRY], ns[TIMED_PLAIN]),
		.stepped_ns = above(ns[TIMED_STEPPED], ns[TIMED_PLAIN]),
		.return_ns = above(ns[TIMED_SPAN], ns[TIMED_ENTRY]),
		.mapping_ns = above(ns[TIMED_MAPPING], unprobed_ns),
	};
	return 0;
}

int trap_costs_measure(struct trap_costs *ret, enum attach_method method, struct err *e)
{
	struct attach_programs programs;
	struct attach_links links = {0};
	struct call_timer c;
	int rc = load_programs(&programs, method, e);
	if (rc)
		return rc;
	rc = call_timer_start(&c, e);
	if (!rc) {
		double unprobed_ns = call_timer_run(&c, TIMED_MAPPING);
		rc = attach_empty(&links, &programs, method, e);
		if (!rc)
			rc = measure_with(&c, unprobed_ns, ret, e);
		call_timer_stop(&c);
		attach_detach(&links);
	}
	close(programs.span_session);
	close(programs.moment);
	return rc;
}

/* trap_cost.h - what the kernel takes of a task for each probe that it comes by, beside what our
 * programs take: measured on this host with an empty program, in a child of ours. The figures are
 * of processor time, and of a probe that was met just before. */
#pragma once

#include "base/error.h"
#include "probe/attach.h"

#define MAPPING_PLACES 3 /* that mapping_ns is measured with */

struct trap_costs {
	double entry_ns;   /* of a function whose instruction the kernel emulates */
	double stepped_ns; /* of one whose instruction it single-steps */
	double return_ns;
	double mapping_ns; /* of a file with a probe in it, mapped and unmapped, more than without
			    */
};

/* Takes some ten milliseconds. */
int trap_costs_measure(struct trap_costs *ret, enum attach_method method, struct err *e);

/* call_costs.h - what a traced call costs on this host, and where that is kept: measured once a
 * boot and program, since it takes some time and does not change. */
#pragma once

#include <stdbool.h>

#include "probe/attach.h"
#include "probe/trap_cost.h"

struct call_costs {
	struct trap_costs traps;
	double call_ns;	  /* all of a call that is recorded, made in a tight loop */
	double return_ns; /* of it our program at the return, by its own clock */
};

/* dir: NULL = the folder `costs` of the caches. What cannot be read or written is measured anew the
 * next time. */
bool call_costs_load(struct call_costs *ret, enum attach_method method, const char *dir);
void call_costs_store(const struct call_costs *costs, enum attach_method method, const char *dir);

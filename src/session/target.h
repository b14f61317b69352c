/* target.h - what a session traces: processes with their descendants, a cgroup, or every process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "symbolize/proc_maps.h"

struct target {
	pids_t pids; /* as given, with their descendants at this moment */
	bool all;
	char *cgroup;	    /* path, NULL = none */
	uint64_t cgroup_id; /* 0: a version 1 group, whose members are in pids */
	uint32_t cgroup_level;
};

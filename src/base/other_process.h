/* other_process.h - events of processes of others on a GPU (collect/nvml_others.c). That they come
 * and go is no fault: who tells of faults leaves them out. */
#pragma once

#include <stdbool.h>
#include <string.h>

#define OTHER_PROCESS_BEGINS "other_process_begins"
#define OTHER_PROCESS_ENDS   "other_process_ends"

static inline bool is_other_process_event(const char *name)
{
	return !strcmp(name, OTHER_PROCESS_BEGINS) || !strcmp(name, OTHER_PROCESS_ENDS);
}

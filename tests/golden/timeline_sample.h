/* timeline_sample.h - a recording of what two devices of a process did, by hand. */
#pragma once

#include "base/error.h"

/* Process 300 drives two devices, steps of which end with a wait; a gap of each reason, copies of
 * pageable and pinned memory, a graph, a collective. Times are from TIMELINE_SAMPLE_T0 on. */
#define TIMELINE_SAMPLE_T0 2000000000000ULL

int timeline_sample_write(const char *path, struct err *e);

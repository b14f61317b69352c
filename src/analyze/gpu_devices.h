/* gpu_devices.h - the GPUs of a recording and their counters. */
#pragma once

#include "analyze/gpu.h"

/* Fills s->devices and s->events, of what lies in [from_ns, to_ns). */
void gpu_devices_make(struct gpu_summary *s, const struct row_source *source, uint64_t from_ns,
		      uint64_t to_ns);

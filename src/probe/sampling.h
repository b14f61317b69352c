/* sampling.h - the CPU clock and the scheduler as sources of stacks. Internal to src/probe. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "probe/tracer_impl.h"

/* Starts what the tracer's options ask for: a clock on each CPU, the scheduler's tracepoints.
 * What was started is ended by sampling_stop. */
int sampling_start(struct tracer *t, struct err *e);
void sampling_stop(struct tracer *t);

/* The clock ticks so often for each sample that is taken (bpf/samples.h says why). */
uint32_t sampling_ticks(uint32_t hz);

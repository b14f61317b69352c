/* records.h - CUPTI's activity records of kernels, copies, sets, waits and graphs. Calls of the
 * driver are driver_calls.h's. */
#pragma once

#include <stdbool.h>

#include "cupti_abi.h"
#include "wire/gpu_ring.h"

/* Reads the fields that lie at one place in CUDA 11.1 to 13.0; times are as CUPTI has them. *name
 * is the kernel's, in CUPTI's memory, or NULL. False for kinds that were not asked for. */
bool records_read(const void *record, struct gpu_ring_span *ret, const char **name);

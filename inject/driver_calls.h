/* driver_calls.h - CUPTI's records of the driver's calls that hand work to a GPU.
 *
 * Kernels, copies and sets carry the correlation number of the call that started them; these
 * records say when that call was and on which thread. Of all other calls none is asked for:
 * every kind of call costs a job a multiple of that (docs/developers/gpu-timeline.md). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cupti_abi.h"
#include "wire/gpu_ring.h"

/* Calls that make or start CUDA graphs; those that make them start no work. */
bool driver_calls_makes_graph(uint32_t function);
bool driver_calls_starts_graph(uint32_t function);

/* Before work is recorded. False where CUPTI cannot be asked for single calls (before CUDA
 * 12.8): there are no records then, and it goes on without. */
bool driver_calls_enable(const struct cupti *c);

/* The functions that launch kernels. */
#define DRIVER_LAUNCHES 6
extern const uint16_t driver_launches[DRIVER_LAUNCHES] __attribute__((visibility("hidden")));

/* Of these no records are made any more: launches.h tells them. */
void driver_calls_leave_launches(const struct cupti *c);

void driver_calls_disable(const struct cupti *c);

/* False for records of anything else. */
bool driver_calls_read(const void *record, struct gpu_ring_call *ret);

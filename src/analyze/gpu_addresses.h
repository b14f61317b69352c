/* gpu_addresses.h - what memory an address was in at a time: the direction of copies that
 * name only two addresses.
 *
 * Addresses are used again and again, so one alone says little. Each process has a segment
 * tree over the bounds of its ranges; a node keeps the ranges that cover all of it, in order
 * of time. Memory that is live at one time does not overlap, so a look-up is one binary
 * search on each level. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

/* [start, end) was memory of the device, or pinned memory, in [from_ns, to_ns). */
struct gpu_range {
	uint64_t start, end;
	uint64_t from_ns, to_ns;
	uint32_t pid;
	int32_t device; /* -1 unknown */
	bool pinned;
};
typedef VEC(struct gpu_range) gpu_ranges_t;

struct gpu_addresses;

/* Takes the ranges over and leaves *ranges empty. */
struct gpu_addresses *gpu_addresses_new(gpu_ranges_t *ranges);
void gpu_addresses_free(struct gpu_addresses *a);

/* The range that holds the address at that time, or NULL. Any number of threads may ask. */
const struct gpu_range *gpu_addresses_find(const struct gpu_addresses *a, uint32_t pid,
					   uint64_t address, uint64_t time_ns);

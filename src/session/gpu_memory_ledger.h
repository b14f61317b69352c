/* gpu_memory_ledger.h - the device memory that a process holds, by owner: what its calls come to,
 * taken one by one in the order of time. Knows addresses and handles; not who the owners are, nor
 * what NVML says.
 *
 * Not for several threads. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"

#define GPU_MEMORY_OWNERS 16 /* by number; GPU_MEMORY_OWNERS itself: all others */

enum gpu_memory_what {
	MEMORY_NOTHING,
	MEMORY_ALLOC,
	MEMORY_ALLOC_CALLER, /* a call of the runtime, which holds the driver's */
	MEMORY_FREE,
	MEMORY_CREATE, /* physical memory, by handle, and where it is mapped */
	MEMORY_MAP,
	MEMORY_UNMAP,
	MEMORY_RELEASE,
	MEMORY_ANSWER, /* of NVML: none of the ledger's */
};

struct gpu_memory_item {
	uint64_t time_ns, start_ns; /* of CLOCK_MONOTONIC */
	/* pointer, bytes; of MEMORY_CREATE handle, bytes; of MEMORY_MAP address, bytes, handle;
	 * of MEMORY_UNMAP address, bytes; of MEMORY_ANSWER bytes, GPU, instance */
	uint64_t v[3];
	uint32_t pid;
	uint8_t what; /* enum gpu_memory_what */
	uint8_t owner;
};

struct gpu_memory_block;
struct gpu_memory_mapping;

/* Of all ledgers together: beyond 65,536 of either none is added. */
struct gpu_memory_room {
	size_t blocks, mappings;
	uint64_t left_out; /* that found no room */
};

struct gpu_memory_ledger {
	uint64_t bytes[GPU_MEMORY_OWNERS + 1]; /* that each owner holds */
	struct gpu_memory_room *room;
	/* the rest is its own */
	VEC(struct gpu_memory_block) blocks;
	VEC(uint32_t) free_blocks;
	VEC(struct gpu_memory_mapping) mappings;
	VEC(uint32_t) free_mappings;
	struct map64 block_of, handle_of, mapping_of; /* by address, handle, address */
};

/* l: zeroed at first, but for room. Items come in the order of gpu_memory_items_compare. */
void gpu_memory_ledger_take(struct gpu_memory_ledger *l, const struct gpu_memory_item *i);
/* What is in it is nobody's from now on; what it had room for is freed. */
void gpu_memory_ledger_empty(struct gpu_memory_ledger *l);

/* For qsort(): by time; at one time what frees first, as an address may be given away at once, and
 * NVML's answers last. */
int gpu_memory_items_compare(const void *a, const void *b);

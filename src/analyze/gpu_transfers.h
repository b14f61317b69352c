/* gpu_transfers.h - copies and sets as the device made them: which way, of what memory, how fast,
 * and whether kernels ran meanwhile. What calls of copies say is in gpu.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/timeline.h"
#include "base/buffer.h"

struct transfer_row {
	bool set;	   /* memory filled; the kinds of a copy are then 0, but destination_kind */
	uint8_t copy_kind; /* CUpti_ActivityMemcpyKind */
	uint8_t source_kind, destination_kind; /* enum gpu_memory_kind */
	bool async;			       /* the call did not wait */
	uint64_t count, bytes, total_ns;
	uint64_t overlapped_ns;	 /* of total_ns: a kernel ran on the same device */
	double mean_bytes_per_s; /* all bytes in all time; 0 without time */
	double p50_bytes_per_s;	 /* of single copies */
};

struct gpu_transfers {
	VEC(struct transfer_row) rows; /* by time, most first */
};

/* pid: of that process alone; 0: of all. */
void gpu_transfers_make(struct gpu_transfers *ret, const struct timeline *t, uint32_t pid);
void gpu_transfers_free(struct gpu_transfers *g);

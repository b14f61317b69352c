/* work_flows.h - which calls started which GPU spans, as arrows: each goes from one call to one
 * span. Whoever exports makes the list (src/cli/cmd_export.c, from the timeline). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

struct work_flow {
	uint64_t call_start_ns;
	uint64_t span_start_ns;
	uint32_t thread; /* index */
	uint32_t probe;	 /* of the call */
	uint32_t pid;
	uint32_t correlation;
	bool ended; /* a span has taken it */
};

struct work_flows {
	VEC(struct work_flow) rows; /* by thread, call_start_ns */
	uint32_t *by_span;	    /* rows by pid, span_start_ns */
};

/* Of numbers of arrows between calls there are fewer. */
#define WORK_FLOW_NUMBER(row) ((1ULL << 62) | (row))

/* Sorts what was added to rows. */
void work_flows_sort(struct work_flows *f);
void work_flows_free(struct work_flows *f);

/* The first row of a call, and in *ret_count how many it has. */
uint32_t work_flows_of_call(const struct work_flows *f, uint32_t thread, uint64_t start_ns,
			    uint32_t probe, uint32_t *ret_count);

/* The row of a span that none was asked for yet; false where there is none. */
bool work_flows_take(struct work_flows *f, uint32_t pid, uint64_t start_ns, uint32_t correlation,
		     uint32_t *ret_row);

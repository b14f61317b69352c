/* call_flows.h - arrows from calls to calls: from an operator to the node of the backward pass that
 * it made. Whoever exports makes the list (src/cli/cmd_export.c, from analyze/autograd.h). */
#pragma once

#include <stdint.h>

#include "base/buffer.h"

struct call_flow_end {
	uint64_t start_ns;
	uint32_t thread; /* index */
	uint32_t probe;
	uint32_t number; /* of the arrow */
};

struct call_flows {
	VEC(struct call_flow_end) tails; /* the calls that arrows leave */
	VEC(struct call_flow_end) heads;
};

/* Arrows have numbers of their own beside WORK_FLOW_NUMBER. */
#define CALL_FLOW_NUMBER(number) ((1ULL << 61) | (number))

void call_flows_add(struct call_flows *f, const struct call_flow_end *tail,
		    const struct call_flow_end *head);
/* Sorts what was added. */
void call_flows_sort(struct call_flows *f);
void call_flows_free(struct call_flows *f);

/* The first end at a call, and in *ret_count how many there are. */
const struct call_flow_end *call_flow_ends(const struct call_flow_end *ends, size_t len,
					   uint32_t thread, uint64_t start_ns, uint32_t probe,
					   size_t *ret_count);

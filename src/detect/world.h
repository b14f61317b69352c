/* world.h - time in which a thread waited for the world: for a request, for data that no process of
 * its job makes, until a time that it had set itself. Where that comes as it pleases it is no part
 * of the work, and a service without traffic is not slow. Where it comes as regularly as all else
 * (a training that reads from a store), it is part of the work like everything: world_is_irregular
 * says which, from a recording. No I/O but the reader's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "events/visitor.h"

#define WORLD_WAITS 16 /* the last of a thread, one by one: those within a call */

/* Of a thread; zeroed at its beginning. */
struct world_waits {
	struct world_wait {
		uint64_t start_ns, end_ns;
	} last[WORLD_WAITS]; /* ring */
	uint32_t at;
	uint64_t total_ns; /* of all */
};

/* Whether a wait can be for the world, as far as its reason and length tell. Who ended it is for
 * the caller to look at: nobody of the job. */
bool world_may_be(const struct m_wait *w);
void world_add(struct world_waits *w, const struct m_wait *wait);
/* Of what was added since total_ns was before_ns, how much was waited before a call began: what
 * began within the call is its own. */
uint64_t world_waited_ns(const struct world_waits *w, uint64_t before_ns, uint64_t call_start_ns);

/* calls_of: by thread, how many calls of work it made from begin_ns on; n of them. */
bool world_is_irregular(const struct row_source *r, const uint64_t *calls_of, size_t n,
			uint64_t begin_ns);

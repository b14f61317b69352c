/* connections.h - which TCP connections of a recording carry NCCL.
 *
 * Those are NCCL's that its code connected, that were accepted where its code listens, that a
 * thread opened whose name begins with "NCCL" (NCCL_SET_THREAD_NAME=1), and their other ends.
 * Where the opener of both ends is unknown (they were there before tracing), a connection between
 * two processes that have communicators may be NCCL's. */
#pragma once

#include <stdint.h>

#include "events/visitor.h"

enum connection_use {
	CONNECTION_OTHER,
	CONNECTION_NCCL,
	CONNECTION_MAYBE_NCCL,
};

/* By row of t->connections; malloc'ed. */
uint8_t *connections_uses(const struct rec_tables *t);

/* Of those that are NCCL's for certain; both ends of a connection count where both were traced. */
struct connections_sum {
	uint64_t count;
	uint64_t bytes_sent, bytes_received; /* payload while it was traced */
	uint64_t retransmits;		     /* segments, since the connections were made */
};

/* pid: of this process alone, 0 of all. */
struct connections_sum connections_nccl(const struct rec_tables *t, const uint8_t *uses,
					uint32_t pid);

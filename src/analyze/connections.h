/* connections.h - which TCP connections of a recording carry NCCL.
 *
 * NCCL connects and accepts what it moves data over in its own threads, whose names begin with
 * "NCCL": a connection opened by one is NCCL's, and so is its other end. Where the opener of both
 * ends is unknown (they were there before tracing, or the kernel has no kprobes), a connection
 * between two processes that have communicators may be NCCL's. */
#pragma once

#include <stdint.h>

#include "recording/recording.h"

enum connection_use {
	CONNECTION_OTHER,
	CONNECTION_NCCL,
	CONNECTION_MAYBE_NCCL,
};

/* By row of t->connections; malloc'ed. */
uint8_t *connections_uses(const struct rec_tables *t);

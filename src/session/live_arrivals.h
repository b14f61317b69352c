/* live_arrivals.h - how long before the last rank each rank of a communicator enters a collective,
 * of the ranks that this session sees. Ranks of one communicator are those with its hash, and enter
 * the same collectives in the same order: the n-th of one is the n-th of another. So it takes
 * communicators whose making was seen, and each call of them: once a budget leaves some out nothing
 * is compared any more. Ranks are told one after another: until as many are known as the
 * communicator has, those of other hosts among them, nothing is compared that was entered within
 * ARRIVALS_TOLD_NS of the making of the last that is known. Entering is the host's call; knows
 * nothing of GPUs.
 *
 * Not for several threads: the host locks it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "events/rows.h"

#define ARRIVALS_RANKS	  256  /* of all communicators; those of more ranks are not compared */
#define ARRIVALS_LEFT_OUT 4096 /* of these; when there are more nothing is compared any more */
#define ARRIVALS_WINDOW	  256  /* collectives that ranks may be apart */
#define ARRIVALS_TOLD_NS  5000000000ULL /* by then all ranks of this host are known */

struct live_rank;

struct live_arrivals {
	bool ended; /* nothing is compared any more */
	/* the rest is its own */
	VEC(struct live_rank) ranks;
	struct map64 rank_of;  /* by process and handle: place */
	struct map64 left_out; /* hashes of communicators that a rank found no room of */
};

struct live_arrival {
	uint32_t pid;
	uint64_t handle;	   /* of the communicator in the process */
	uint64_t sequence;	   /* its count there, from 0 */
	uint64_t start_ns, end_ns; /* of the call */
	uint64_t what;		   /* whoever is told gets this back */
};

/* a: zeroed. A rank has the communicator, or (end_ns) has it no more; calls that were made before
 * its end come before that is told. */
void live_arrivals_comm(struct live_arrivals *a, const struct m_comm *row);
void live_arrivals_process_ended(struct live_arrivals *a, uint32_t pid);
/* Communicators that no rank has are dropped. */
void live_arrivals_forget(struct live_arrivals *a);

/* Where all ranks have entered that one now, told is called for each of them. */
void live_arrivals_enter(struct live_arrivals *a, const struct live_arrival *in,
			 void (*told)(void *ctx, uint64_t what, uint64_t ahead_ns), void *ctx);
void live_arrivals_free(struct live_arrivals *a);

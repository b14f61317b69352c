/* live_collectives.h - what ranks hand to NCCL while a session runs, by process, communicator and
 * operation, as nccl-tests counts it (analyze/collectives.h). The time is that of the host's calls,
 * which do not wait for the GPU. What CUDA graphs repeat is not in it, nor calls that failed.
 *
 * Not for several threads: the host locks it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "session/live_arrivals.h"

#define COLLECTIVES_OF_PROCESS 64 /* rows of a process; of more communicators all are one */
#define COLLECTIVES_ALL	       4096
#define COLLECTIVES_OTHERS     1024 /* and so many more, each of all others of a process */
#define COLLECTIVES_NAME_BYTES 32   /* of a communicator's name */

struct live_collective {
	uint64_t number; /* no other row ever has it */
	uint32_t pid;
	bool other;	    /* of several communicators: those that found no room */
	uint64_t hash;	    /* the communicator's, which all of its ranks share; 0 unknown */
	uint64_t handle;    /* in the process */
	int32_t rank, size; /* of the communicator; -1, 0: unknown */
	uint8_t op;	    /* enum collective_op */
	uint64_t end_ns;    /* of the communicator, 0: it lives */
	uint64_t calls;
	uint64_t bytes;	  /* nccl-tests' size; as calls give it where size is unknown */
	double bus_bytes; /* times nccl-tests' factor; 0 where size is unknown */
	double ns;
	/* Those that all ranks of this host were seen to enter, and how long before the last of
	 * them this one did: session/live_arrivals.h. */
	uint64_t compared;
	double ahead_ns;
};

struct live_collective_probe;

struct live_collectives {
	VEC(struct live_collective) rows;
	uint64_t left_out; /* calls that found no room, also not among others */
	/* the rest is its own */
	uint64_t numbers;
	uint64_t first_end_ns; /* of the row whose communicator ended first; 0: all live */
	VEC(struct live_collective_probe) probes; /* by number */
	struct map64 place_of, place_of_number, recent, rows_of;
	struct live_arrivals arrivals;
};

struct live_series;
struct session_view;

/* k: zeroed. The calls of a batch. s: whose processes are kept. */
void live_collectives_batch(struct live_collectives *k, const struct session_view *v,
			    const struct live_series *s);
/* What is of processes that s does not know, or of communicators that have ended SERIES_OLD_NS ago,
 * is dropped. */
void live_collectives_forget(struct live_collectives *k, const struct live_series *s);
void live_collectives_free(struct live_collectives *k);

/* How a row's communicator is told: "0x5d0c6f1e02b7a94d", on all ranks alike; "handle 0x7f10a0"
 * where its making was not seen; "(other)". Returns ret. */
const char *live_collective_name(char ret[static COLLECTIVES_NAME_BYTES],
				 const struct live_collective *of);

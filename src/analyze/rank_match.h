/* rank_match.h - which calls of which ranks are one and the same collective.
 *
 * NCCL pairs the calls of a communicator by their order alone: the n-th collective of one rank
 * is the n-th of every other. So calls are one collective when they have the same communicator
 * and the same number in it.
 *
 * Which communicators of several processes are one:
 * - With a hash (its making was traced): those of the same hash. Numbers count from its making.
 * - Without one (it was there before tracing began): of the same size, ranks that complement
 *   each other, and the same order of functions and bytes. Numbers then count from the beginning
 *   of tracing, which found each process at another place: that shift is searched. All shifts
 *   at which at least 95 % of the calls agree are candidates. Where both processes have one
 *   clock, the one with the smallest median distance in time is taken; else the one whose
 *   distances in time vary least, since ranks that wait for each other share their irregularities
 *   (of those that are alike the smallest distance).
 *
 * Send and receive: in a communicator the n-th send from one rank to another is the n-th receive
 * of that one from it. They are only paired where the making was traced.
 *
 * Works on calls of any number of recordings; needs clocks only to choose between candidates. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/collectives.h"
#include "base/buffer.h"

/* One call of one rank. */
struct rank_call {
	uint64_t hash; /* the communicator's, 0 unknown */
	uint64_t comm; /* its handle in the process */
	uint64_t sequence;
	uint64_t bytes;
	uint64_t host_ns; /* when the host's call began */
	/* Where timed the collective's own, on the device or of a call that blocks; else of the
	 * host's call, which tells nothing about its end. */
	uint64_t start_ns, end_ns;
	int64_t datatype;
	uint32_t source; /* recording it is of */
	uint32_t clock;	 /* times of one clock may be compared exactly */
	uint32_t pid;
	uint32_t comm_row; /* tells communicators that had one handle apart */
	uint32_t row;	   /* the caller's */
	int32_t rank, size;
	int32_t root, peer;
	uint8_t op; /* enum collective_op */
	bool timed;
	bool open;
};

typedef VEC(struct rank_call) rank_calls_t;

/* Source and clock are 0. A call that takes no stream blocks: its own time is the collective's. */
struct rank_call rank_call_from(const struct collective *c, const struct timeline *t, uint32_t row);

/* Whether no rank can end before all have begun. */
static inline bool rank_op_synchronises(uint8_t op)
{
	return op == COLLECTIVE_ALL_REDUCE || op == COLLECTIVE_ALL_GATHER ||
	       op == COLLECTIVE_REDUCE_SCATTER || op == COLLECTIVE_ALL_TO_ALL;
}

static inline bool rank_call_is_p2p(const struct rank_call *c)
{
	return c->op == COLLECTIVE_SEND || c->op == COLLECTIVE_RECV;
}

/* A communicator in one process. */
struct rank_member {
	uint32_t source, clock, pid;
	uint32_t group;
	uint64_t hash, comm;
	uint32_t comm_row;
	int32_t rank, size;
	int64_t sequence_shift;	  /* is added to its numbers to get the group's */
	size_t first_call, calls; /* collectives, into rank_matching.order, by number */
	size_t first_p2p, p2p;	  /* sends and receives */
};

/* A communicator. */
struct rank_group {
	uint64_t hash; /* 0 unknown: found by its pattern */
	int32_t size;  /* 0 unknown */
	uint32_t first_member, members;
	size_t first_match, matches;
};

/* One collective. */
struct rank_match {
	uint32_t group;
	int64_t sequence;
	size_t first; /* into rank_matching.matched */
	uint32_t calls;
};

struct rank_pair {
	uint32_t send, recv; /* numbers of calls */
};

struct rank_matching {
	const struct rank_call *calls;
	VEC(uint32_t) order;		 /* numbers of calls, by member */
	VEC(struct rank_member) members; /* by group, then rank */
	VEC(struct rank_group) groups;
	VEC(struct rank_match) matches; /* by group, then number; also of one call alone */
	VEC(uint32_t) matched;		/* numbers of calls, by match, then rank */
	VEC(uint32_t) matched_members;	/* whose they are: numbers of members */
	VEC(struct rank_pair) pairs;
	uint64_t
		not_compared; /* members without a hash that are alone, since there were too many */
};

/* What it returns points at the calls, which the caller keeps. Calls whose times or numbers no
 * tracer writes are left out. */
void rank_matching_make(struct rank_matching *ret, const struct rank_call *calls, size_t n);
void rank_matching_free(struct rank_matching *m);

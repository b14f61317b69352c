/* ranks.h - the ranks of a job side by side: who came last, who did something else, who is
 * missing.
 *
 * Of one recording that holds several ranks, recorded together on one host or merged
 * (src/merge). Collectives are matched by rank_match.h.
 *
 * Waiting. A collective that synchronises its ranks moves its bytes after the last one has begun:
 *      wait of a rank = last start - its own start
 *      transfer       = last end - last start
 * with the starts of the kernels on the devices where all of them are known; else with the
 * beginnings of the host's calls, and then the transfer is not known. The last rank is late by
 * the time from the start of the one before it: by so much the collective would have been over
 * sooner. Lateness below RANKS_NOISE_NS (of host's calls RANKS_HOST_NOISE_NS) or below what the
 * clocks of merged hosts are known to says nothing; where nothing bounds these, no rank is
 * compared with one of another host. Of a group of calls that share kernels one counts.
 *
 * Stragglers. Of the collectives with a late rank those count that were late by a tenth of the
 * 97th percentile at least: beside a rank that comes 20 ms late once a step, what is late by half
 * a millisecond says nothing. A rank of a communicator is named where, of these, it was the late
 * one in 60 %, in RANKS_LATE_LEAST at least and more often than by chance, at least 60 % of their
 * lateness is its own (each counted up to ten times their median, so that one long start-up
 * decides nothing), and that makes up 1 % of the time between the first and the last collective.
 *
 * Mismatches. Calls of one number that differ in function, bytes, data type or root.
 *
 * Hangs, at the end of a recording. Of a communicator some ranks entered a collective and others
 * did not, and for RANKS_QUIET_NS all of the following held: no rank of it entered another one,
 * the recordings of all its ranks went on, and the ranks that entered lived. A rank that died
 * without entering is missing all the same. Recordings that stop at different times are
 * compared up to the first one's end, and ranks that are behind but go on are not missing. Where
 * the device's times show that the collective ended on a rank, a record was lost and nothing
 * hangs. Likewise, where device times are recorded: all ranks entered and it ended on none.
 *
 * Does no I/O. Memory: about 150 bytes a collective and rank. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/collectives.h"
#include "analyze/process_index.h"
#include "analyze/rank_match.h"
#include "base/buffer.h"
#include "events/visitor.h"

#define RANKS_NONE	    UINT32_MAX
#define RANKS_NOISE_NS	    50000
#define RANKS_HOST_NOISE_NS 500000
#define RANKS_LATE_LEAST    5
#define RANKS_QUIET_NS	    2000000000ULL
#define RANKS_MISMATCHES    16 /* kept; all are counted */

/* What one match (of the same place in rank_matching.matches) says. */
struct ranks_timing {
	uint32_t last;	      /* number of the call that began last; RANKS_NONE: not compared */
	uint32_t last_member; /* whose it is */
	bool late;	      /* by more than the noise */
	bool on_device;	      /* by times of the device */
	uint64_t late_ns;     /* its start after that of the one before it */
	uint64_t wait_ns;     /* of all ranks together */
	uint64_t transfer_ns; /* 0 unknown */
};

/* A rank of a communicator (of the same place in rank_matching.members). */
struct ranks_member {
	uint64_t compared; /* collectives */
	uint64_t last;	   /* of these: it came last */
	uint64_t late;	   /* of these: by more than the noise */
	uint64_t late_ns;  /* sum of that lateness */
	uint64_t p50_late_ns, max_late_ns;
	uint64_t waited_for_ns; /* others together, in those where it was late */
	uint64_t wait_ns;	/* it waited itself, in all */
	int64_t next_sequence;	/* of the group: after the last one that it entered */
	uint64_t last_call_ns;	/* when it entered that one */
	uint64_t observed_ns;	/* its recording went on until then */
	uint64_t ended_ns;	/* when the process ended, 0 = it did not */
};

/* A communicator (of the same place in rank_matching.groups). */
struct ranks_comm {
	uint64_t compared, on_device, late;
	uint64_t wait_ns;	 /* of all ranks together */
	uint64_t device_wait_ns; /* of that, in those on devices */
	uint64_t rank_ns;	 /* time of all ranks in those: wait + transfer */
	uint64_t transfer_ns;	 /* of collectives, not ranks */
	uint64_t late_ns;
	uint64_t first_ns, last_ns; /* of what was compared */
	uint32_t straggler;	    /* member, RANKS_NONE */
	uint64_t mismatches;
	bool clocks_unknown; /* ranks of several hosts whose clocks nothing aligns */
};

enum ranks_difference {
	RANKS_OTHER_FUNCTION = 1,
	RANKS_OTHER_BYTES = 2,
	RANKS_OTHER_DATATYPE = 4,
	RANKS_OTHER_ROOT = 8,
};

struct ranks_mismatch {
	uint32_t match;
	uint8_t what; /* enum ranks_difference */
};

/* What a rank did when a collective hung. */
struct ranks_hung {
	uint32_t member;
	uint32_t call;	   /* number of its call of the collective, RANKS_NONE: it did not enter */
	uint32_t stack;	   /* 0 = none is known */
	uint64_t stack_ns; /* when it was seen */
	uint32_t thread;   /* of the stack or the open call, RANKS_NONE */
	uint32_t probe;	   /* innermost call that was open on that thread, RANKS_NONE */
};

struct ranks_hang {
	uint32_t group;
	int64_t sequence;
	uint64_t quiet_ns; /* since a rank entered a collective of the communicator */
	uint32_t entered, missing;
	VEC(struct ranks_hung) ranks; /* of all members */
};

struct ranks {
	const struct rec_tables *tables;
	const struct collectives *collectives; /* rank_call.row is the place in it */
	struct process_index processes;
	rank_calls_t calls;
	struct rank_matching matching;
	VEC(struct ranks_timing) timings;
	VEC(struct ranks_member) members;
	VEC(struct ranks_comm) comms;
	VEC(struct ranks_mismatch) mismatches;
	VEC(struct ranks_hang) hangs;
	uint64_t mismatches_total;
	bool several; /* a communicator has two ranks or more in the recording */
};

/* What it returns points into the collectives and the source's tables. */
void ranks_make(struct ranks *ret, const struct row_source *s, const struct collectives *c);
void ranks_free(struct ranks *r);

/* rank_sample.h - recordings of a job of several ranks, simulated: what each rank does when is
 * laid down in true time, and each recording has it as its host's clock shows it.
 *
 * A step of a rank: it computes, then enqueues an all_reduce of each communicator it is in; the
 * collective begins on its device, waits for the last rank, moves its bytes and ends. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "recording/recording.h"

#define RANK_SAMPLE_RANKS 4

/* A host's clock shows (t - true_zero) * (1 + drift) at true time t. */
struct rank_sample_clock {
	const char *host, *boot;
	int64_t zero_ns;	   /* true time at which the clock shows 0 */
	double drift;		   /* 1e-6: it gains a microsecond a second */
	int64_t realtime_error_ns; /* CLOCK_REALTIME of the host is wrong by this */
};

struct rank_sample {
	unsigned ranks;
	unsigned per_host; /* 0 = all; pids are the same on all hosts, as of containers */
	unsigned steps;
	uint64_t step_ns;
	uint64_t transfer_ns; /* of a collective */
	uint64_t jitter_ns;   /* starts and ends vary by up to this */
	bool no_hash;	      /* the communicator was there before tracing began */
	bool no_spans;	      /* without the device's times */
	unsigned spans_from;  /* the step from which on there are devices' times */
	unsigned late_rank;   /* comes late_ns later in each step */
	uint64_t late_ns;
	unsigned late_every;		    /* but only in one step of so many; 0 = in each */
	unsigned missed[RANK_SAMPLE_RANKS]; /* of no_hash: collectives before tracing began */
	/* The rank does not enter the last so many collectives; in the first of these the others
	 * wait for good, and enqueue the later ones behind it. */
	unsigned missing_rank, missing;
	unsigned lost_rank, lost;	 /* its last so many calls were lost, not their kernels */
	unsigned other_rank, other_step; /* with other_bytes: where a rank gives other bytes */
	uint64_t other_bytes;
	uint64_t tail_ns;		    /* recordings go on for so long after the last step */
	uint64_t cut_ns[RANK_SAMPLE_RANKS]; /* a rank's recording ends so much earlier */
	struct rank_sample_clock clocks[RANK_SAMPLE_RANKS]; /* by rank */
};

#define RANK_SAMPLE_T0 5000000000000ULL /* true time of the first step */

/* Writes the recording of the ranks whose bit is set, which have one clock. */
int rank_sample_write(const char *path, const struct rank_sample *s, unsigned ranks, struct err *e);

/* What a rank's clock shows at a true time. */
uint64_t rank_sample_shown(const struct rank_sample_clock *c, uint64_t true_ns);

uint32_t rank_sample_pid(const struct rank_sample *s, unsigned rank);

/* merge.h - several recordings become one: of the processes of a host, of the hosts of a job.
 *
 * Every row of every source goes into the output, with numbers of its tables (strings, probes,
 * threads, frames, ...) and times as the output has them. Same strings, probes, code, frames,
 * stacks and enumerations become one.
 *
 * Times. Sources of one boot have one clock: their times stay as they are, exactly. Sources of
 * another boot are shifted to the clock of the first source: first by what CLOCK_REALTIME says,
 * then by collectives (clock_align.h). m_source tells by how much and how well that is known.
 *
 * Process numbers. Where a source has a pid or tid that one before it has, a multiple of
 * MERGE_PID_STEP, which no Linux gives, is added to all pids and tids of the source
 * (m_source.pid_shift), also in the names of what counters are of.
 *
 * Hosts. Where there are several clocks, what counters and events are of begins with the host's
 * name unless it is a process: "node7 gpu 0".
 *
 * Metas are those of the first source; start and end are those of the whole, what is a sum is
 * summed. Those of a source that differ are kept as "source_N_KEY", N from 0; of every source
 * there are source_N_start_monotonic_ns and source_N_end_monotonic_ns, on the output's clock.
 * Counts of losses are summed.
 *
 * Sources are read block by block: memory holds their tables, and while clocks are compared one
 * source's timeline at a time and about 120 bytes for each collective of all. A damaged source is
 * read as far as the reader can; the output has a note of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "recording/recording.h"

#define MERGE_PID_STEP 10000000u

struct merge_source {
	char *path;
	char *host;
	char *damage;	      /* what could not be read, one sentence; NULL = nothing */
	uint32_t clock;	      /* sources of one number have one clock */
	int64_t shift_ns;     /* at its beginning */
	double drift_ratio;   /* by which it grows: 1e-6 = a microsecond each second */
	uint64_t error_ns;    /* UINT64_MAX: nothing bounds it */
	const char *how;      /* "reference", "same boot", "collectives", "realtime", "unknown" */
	uint64_t collectives; /* and pairs of send and receive that the shift comes from */
	uint32_t pid_shift;
	uint64_t calls;
};

struct merge_result {
	VEC(struct merge_source) sources;
	uint64_t bytes; /* of the output */
};

struct merge_options {
	struct output_owner owner;				 /* of the file */
	bool (*go_on)(void *ctx, uint64_t done, uint64_t total); /* false ends it; may be NULL */
	void *ctx;
	/* As timeline_options.demangle; may be NULL. */
	char *(*demangle)(const char *name, int params);
};

/* Writes the file that path names, as a whole or not at all: what was there before stays until
 * then. 0, or negative errno with the sentence: -ECANCELED when go_on said so; -EINVAL for a source
 * that is merged already, that is given twice or is the output. ret is to be freed only after 0. */
int merge_recordings(struct merge_result *ret, const char *const *paths, size_t n,
		     const char *output, const struct merge_options *options, struct err *e);
void merge_result_free(struct merge_result *r);

/* rank_times.h - how long each rank was in the calls in which ranks wait for each other (MPI,
 * torch.distributed, NCCL), by function: who waits least is who the others wait for.
 *
 * Times are those of the host's calls: collectives that are only enqueued wait on the device, and
 * ranks.h compares them. Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "events/visitor.h"

#define RANK_TIMES_NONE SIZE_MAX

struct rank_time {
	uint32_t pid;
	int32_t rank; /* -1 unknown */
	uint64_t calls;
	uint64_t total_ns; /* of a call that has not returned its time so far */
};

struct rank_function {
	const char *layer;
	char *name;		     /* as in struct summary_function */
	VEC(struct rank_time) ranks; /* by rank, then by pid */
	/* Index of the one rank that waits much less than every other, RANK_TIMES_NONE: none does,
	 * or it is of no weight in the recording. */
	size_t slow;
};

struct rank_times {
	VEC(struct rank_function) list;
	struct map64 place_of; /* hash of layer and name -> index */
};

/* pid: only this process, 0 = all. *ret is made when the visitor ends. */
struct row_visitor *rank_times_visitor(struct rank_times *ret, const struct row_source *s,
				       uint32_t pid);
void rank_times_free(struct rank_times *t);

/* NULL: no ranks wait for each other in it. */
const struct rank_function *rank_times_of(const struct rank_times *t, const char *layer,
					  const char *name);

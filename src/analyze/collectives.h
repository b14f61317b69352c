/* collectives.h - the collectives of one recording: which rank of which communicator did what,
 * how long it took on the device, and at which bandwidth.
 *
 * A collective is a call of the roles "collective" and "p2p" (docs/catalog.md). The call only
 * enqueues; the true duration is that of the NCCL kernels it started (names that begin with
 * ncclDevKernel_, before NCCL 2.18 ncclKernel_), which are launched in the call itself or, in a
 * group, in the outermost ncclGroupEnd of its thread. Calls of one group may share one kernel:
 * what is known then is the group's time, for the bytes of all of it. Without GPU spans
 * (record --gpu-timeline) only the host's times are known.
 *
 * Bandwidths are those of nccl-tests (doc/PERFORMANCE.md there), n being the ranks:
 *   algorithm bandwidth = size / time
 *   bus bandwidth       = algorithm bandwidth * factor
 *   all_reduce            size = count                factor 2(n-1)/n
 *   reduce_scatter        size = count * n (the sent) factor (n-1)/n
 *   all_gather            size = count * n (the got)  factor (n-1)/n
 *   all_to_all            size = count * n            factor (n-1)/n
 *   gather, scatter       size = count * n            factor (n-1)/n
 *   broadcast, reduce     size = count                factor 1
 *   send, recv            size = count                factor 1
 * where count is in bytes, as the call gives it (m_call's argument "bytes"). The size of a group
 * is the sum of its calls', of sends and receives the greater of the two sums. A group that sends
 * to every rank once, itself included, is an all_to_all.
 *
 * Does no I/O; waiting for other ranks is part of a collective's duration here, and told apart
 * once ranks are merged. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/timeline.h"
#include "base/buffer.h"

#define COLLECTIVE_NO_PEER INT32_MIN

/* What a function does: the second half of its name, after "nccl". */
enum collective_op {
	COLLECTIVE_OTHER, /* a function that this version does not know: factor 1 */
	COLLECTIVE_ALL_REDUCE,
	COLLECTIVE_REDUCE_SCATTER,
	COLLECTIVE_ALL_GATHER,
	COLLECTIVE_ALL_TO_ALL,
	COLLECTIVE_BROADCAST,
	COLLECTIVE_REDUCE,
	COLLECTIVE_GATHER,
	COLLECTIVE_SCATTER,
	COLLECTIVE_SEND,
	COLLECTIVE_RECV,
	COLLECTIVE_SEND_RECV, /* a group of both */
	COLLECTIVE_OPS,
};

/* Why there is no device time. */
enum collective_timing {
	COLLECTIVE_TIMED,
	COLLECTIVE_NO_SPANS, /* the recording has no GPU spans of the process */
	COLLECTIVE_UNTIMED,  /* it has, but none of this call: lost, or still running */
	COLLECTIVE_CAPTURED, /* put into a CUDA graph: it runs when that is launched */
};

struct collective {
	uint32_t pid;
	uint32_t thread;   /* index into the thread table */
	int32_t rank;	   /* -1 unknown */
	int32_t size;	   /* ranks, 0 unknown */
	uint64_t hash;	   /* the communicator's, the same on all ranks, 0 unknown */
	uint64_t comm;	   /* its handle in the process */
	uint32_t comm_row; /* index into the communicator table, TIMELINE_NONE unknown */
	uint32_t probe;
	uint64_t sequence;    /* collectives: the communicator's count since tracing began, from 0;
			       * send and recv have a count of their own */
	uint64_t bytes;	      /* as the call gives it: of one rank's share, see above */
	uint64_t total_bytes; /* nccl-tests' size */
	int64_t datatype;     /* ncclDataType_t, -1 unknown */
	int32_t root;	      /* of broadcast, reduce, gather, scatter, or COLLECTIVE_NO_PEER */
	int32_t peer;	      /* of send and recv: rank in the communicator, likewise */
	uint64_t stream;      /* handle */
	uint64_t start_ns;    /* the host's call */
	uint64_t end_ns;
	/* What the device did: from the first kernel's start to the last one's end, all kernels of
	 * the group where it is in one. 0 unknown. */
	uint64_t device_start_ns;
	uint64_t device_end_ns;
	uint64_t overlap_ns;  /* of that, while kernels other than NCCL's ran on the device */
	int32_t device;	      /* CUDA's number in the process, -1 unknown */
	uint32_t stack;	      /* of the call, 0 = not taken */
	uint32_t group;	      /* number of the group from 1, 0 = none */
	uint32_t group_calls; /* collectives that share the kernels, itself included; 1 = alone */
	uint64_t group_bytes; /* their total_bytes; of a lone one its own */
	uint32_t first_span;  /* into collectives.spans: numbers of spans in the timeline */
	uint32_t spans;
	uint8_t op;	  /* enum collective_op */
	uint8_t group_op; /* what its group is together; of a lone one its own */
	uint8_t timing;	  /* enum collective_timing */
	bool open;	  /* the call had not returned when the recording ended */
	bool failed;	  /* it returned an error: the timeline leaves such calls out */
};

/* Collectives of one function, one communicator, one process and one bucket of sizes. */
struct collective_sum {
	uint32_t pid;
	uint32_t comm_row; /* TIMELINE_NONE unknown */
	uint64_t comm;
	int32_t rank, size;
	uint32_t probe; /* TIMELINE_NONE: of groups */
	uint8_t op;
	bool grouped;	     /* of groups: a group is one, its bytes those of all its calls */
	uint64_t from_bytes; /* the bucket: [2^k, 2^(k+1)) of total_bytes, 0 = nothing */
	uint64_t count;
	uint64_t calls; /* of groups all of their calls */
	uint64_t timed; /* of these: with a device time */
	uint64_t bytes; /* total_bytes of all */
	uint64_t timed_bytes;
	uint64_t host_ns;   /* of all calls */
	uint64_t device_ns; /* of the timed */
	uint64_t overlap_ns;
	uint64_t min_ns, p50_ns, max_ns; /* of device times; 0 without */
	double algorithm_bandwidth;	 /* bytes a second over all timed; 0 unknown */
	double bus_bandwidth;		 /* 0 unknown: also where the number of ranks is */
};

struct collectives {
	const struct timeline *timeline;
	VEC(struct collective) rows;	 /* by pid, then start of the call */
	VEC(uint32_t) spans;		 /* see collective.first_span */
	VEC(struct collective_sum) sums; /* by device time, then bytes, most first */
	VEC(uint32_t)
	longest; /* rows by device time, longest first, at most as asked;
		  * one of each group */
	uint64_t timed, captured, untimed;
	bool has_spans;
};

/* What it returns points into the timeline. longest: how many to name; 0 = none. */
void collectives_make(struct collectives *ret, const struct timeline *t, uint32_t longest);
void collectives_free(struct collectives *c);

/* "all_reduce": the field's name of an operation. */
const char *collective_op_name(enum collective_op op);
/* The operation that a function's name stands for: "ncclAllReduce". */
enum collective_op collective_op_from(const char *function);
/* nccl-tests' size of a call that gives so many bytes, and the factor of bus bandwidth; ranks
 * unknown (below 1): the bytes as given, and 0. */
uint64_t collective_total_bytes(enum collective_op op, uint64_t bytes, int32_t ranks);
double collective_bus_factor(enum collective_op op, int32_t ranks);
/* Whether a kernel (mangled or not) is one of NCCL's. */
bool collective_is_kernel(const char *name);

/* gpu_gaps.h - when each GPU was busy, and why it was not.
 *
 * A device here is a CUDA device of a process: what other processes do on the same GPU is not
 * seen. It is busy while a kernel, copy or set runs on any stream; between its first and its last
 * span it is idle else. Pauses of up to GAP_SHORT_NS are what a device takes between two kernels
 * of a stream; longer ones are gaps, and each has one reason, from what the host did:
 *
 *   Work cannot begin sooner after its launch than the least time seen on the device, which is
 *   taken as GAP_DISPATCH_NS at most. If the work that ends the gap could have begun when the gap
 *   did, it waited on the device:
 *     dispatch     up to GAP_DISPATCH_NS: the device's own time, of the next kernel or graph
 *     dependency   longer: an event, another device or process, a resource
 *   Else the host was late. Looked at is the time from the gap's beginning to the launch, on the
 *   launching thread; where another thread made the launch before, on the one of the two that
 *   waited less:
 *     data         half of it or more was spent getting the next batch from PyTorch's data loader,
 *                  or off the CPU for the disk or in a data loader
 *     preempted    likewise, and could have run: the CPU was another's
 *     blocked      likewise, for anything else; where times off the CPU are not recorded, for
 *                  whatever: samples do not show it running
 *     collective   likewise inside of NCCL's calls
 *     sync         a wait for the device was open when the gap began, and the launch followed
 *                  within GAP_AFTER_WAIT_NS of its end; or waits took half of the time: the device
 *                  ran dry while the host waited for it
 *     launch       none of these: the host ran, and was too slow
 *   unknown        the launch is not in the recording */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/timeline.h"
#include "base/buffer.h"

#define GAP_SHORT_NS	  1000
#define GAP_DISPATCH_NS	  10000
#define GAP_AFTER_WAIT_NS 1000000
#define GAP_DEVICES	  16384 /* that are looked at: 2,000 hosts of eight */

enum gap_reason {
	GAP_LAUNCH,
	GAP_SYNC,
	GAP_DATA,
	GAP_PREEMPTED,
	GAP_BLOCKED,
	GAP_COLLECTIVE,
	GAP_DISPATCH,
	GAP_DEPENDENCY,
	GAP_UNKNOWN,
	GAP_REASONS,
};
#define GAP_REASON_NAMES                                                                           \
	{                                                                                          \
		"launch", "sync", "data", "preempted", "blocked", "collective", "dispatch",        \
			"dependency", "unknown"                                                    \
	}

struct gap_row {
	enum gap_reason reason;
	uint64_t count, total_ns, p50_ns, max_ns;
};

struct gap_stream {
	uint32_t context, stream; /* CUPTI's numbers */
	uint64_t spans, busy_ns;
};

struct gap_device {
	uint32_t pid;
	int32_t device;			/* CUDA's number in the process */
	uint64_t first_ns;		/* when its first span began */
	uint64_t span_ns;		/* from there to the end of its last */
	uint64_t busy_ns, idle_ns;	/* together span_ns */
	uint64_t kernels_ns;		/* any kernel ran, NCCL's too */
	uint64_t copies_ns;		/* any copy or set ran */
	uint64_t collectives_ns;	/* any kernel of NCCL ran */
	uint64_t exposed_ns;		/* of these: no other kernel ran */
	uint64_t short_count, short_ns; /* pauses up to GAP_SHORT_NS */
	uint64_t launch_ns;		/* least time from a call to its work; 0 unknown */
	VEC(struct gap_row) gaps;	/* by total time, most first */
	VEC(struct gap_stream) streams; /* by busy time, most first */
};

struct gpu_gaps {
	VEC(struct gap_device) devices; /* by pid, then number */
	uint64_t left_out;		/* devices behind the first GAP_DEVICES */
	bool waits;			/* times off the CPU are in the recording */
};

/* The timeline is of the same source, and complete before the visitor ends, which makes *ret. */
struct row_visitor *gpu_gaps_visitor(struct gpu_gaps *ret, const struct row_source *s,
				     const struct timeline *t);
void gpu_gaps_make(struct gpu_gaps *ret, const struct row_source *s, const struct timeline *t);
void gpu_gaps_free(struct gpu_gaps *g);

/* A kernel of NCCL: by its name, or since a collective launched it. */
bool timeline_is_collective(const struct timeline *t, const struct timeline_span *s);

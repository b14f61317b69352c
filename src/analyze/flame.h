/* flame.h - call trees of a recording: where CPU time, waiting, GPU time and memory come from.
 *
 * Reads only through the recording's reader, and does no output: a tree is written by one of
 * the formats of export/flame.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/calltree.h"
#include "base/error.h"
#include "events/visitor.h"

#define FLAME_OWN "[eacgm]" /* a frame: probes at work, which are no part of the job */

enum flame_kind {
	FLAME_CPU,	 /* samples of running threads, ns */
	FLAME_OFFCPU,	 /* time that threads did not run, ns */
	FLAME_GPU,	 /* kernels and copies by who launched them: ns, or launches */
	FLAME_GPU_ALLOC, /* device memory allocated, bytes */
	FLAME_GPU_INUSE, /* device memory allocated and not yet freed at a moment, bytes */
	FLAME_PINNED,	 /* pinned host memory allocated, bytes */
	FLAME_KINDS,
};
#define FLAME_KIND_NAMES                                                                           \
	{                                                                                          \
		"cpu", "offcpu", "gpu", "gpu-alloc", "gpu-inuse", "pinned"                         \
	}

/* Whose allocations count: those of the driver, or those of PyTorch's caching allocator above
 * it. One holds the other, so never both. */
enum flame_level {
	FLAME_AUTO, /* PyTorch's where the recording has them */
	FLAME_DRIVER,
	FLAME_TORCH,
};

/* Where the work that backward passes started stands (FLAME_GPU). */
enum flame_backward {
	FLAME_BACKWARD_FORWARD, /* under the operator that made the node, where it is known */
	FLAME_BACKWARD_OWN,	/* under the stack that launched it */
};

/* Begins the frame of a node below its operator: "backward: AddmmBackward0". */
#define FLAME_BACKWARD_PREFIX "backward: "

/* When memory is looked at. */
enum flame_moment {
	FLAME_AT_END,  /* of the recording, or of the process where it ended before */
	FLAME_AT_PEAK, /* of each process and device for itself */
	FLAME_AT_TIME,
};

struct flame_options {
	enum flame_kind kind;
	uint32_t pid, tid; /* only this process, this thread; 0 = all */
	/* Only what begins in this span counts, after the recording's start; to 0: to its end.
	 * A sample counts where it was taken; memory in use is followed from the beginning. */
	uint64_t from_ns, to_ns;
	/* The interpreter's own frames that are kept are one of that name; NULL: as they are. */
	const char *interpreter;
	bool native;	/* keep the interpreter's own frames between Python frames */
	bool lines;	/* tell frames of one function apart by line, unnamed ones by address */
	bool processes; /* those that ran the same program are told apart */
	bool threads;	/* the thread's name is the first frame */
	bool wakers;	/* FLAME_OFFCPU: below the reason, who woke it */
	bool moments;	/* FLAME_CPU, FLAME_OFFCPU: keep the samples in order of time too */
	enum flame_level level;
	enum flame_backward backward;
	enum flame_moment at;
	uint64_t at_ns; /* after the recording's start */
	/* Makes a readable name of a mangled one, malloc'ed; NULL: names stay as they are. The
	 * names that GPU spans have are mangled, those of launches are not. */
	char *(*demangle)(const char *name, int params);
	struct visit_options visit;
};

/* The kind of a name; FLAME_KINDS when there is none. */
enum flame_kind flame_kind_of(const char *name);

/* Makes the tree of a recording; free it with calltree_free. 0; -ENODATA where the recording
 * has nothing of that kind; the sentence says what to record with. */
int flame_make(struct calltree *ret, const struct row_source *s, const struct flame_options *o,
	       struct err *e);

/* Of two recordings in one tree, self[1] and total[1] being the base's; name and base_name go
 * into the title. normalise: the base is scaled to the other's total. */
int flame_make_diff(struct calltree *ret, const struct row_source *s, const char *name,
		    const struct row_source *base, const char *base_name, bool normalise,
		    const struct flame_options *o, struct err *e);

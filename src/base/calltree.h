/* calltree.h - a tree of stack frames with weights: what a flame graph is drawn from.
 *
 * Filled by analyses, written by exports; knows nothing of either. Nodes are numbered from
 * 0, the root, in the order in which they are made; parents come before their children. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "base/strtab.h"

/* What a frame is; exports colour by it. */
enum calltree_kind {
	CALLTREE_NATIVE,
	CALLTREE_PYTHON,
	CALLTREE_KERNEL,   /* of the operating system */
	CALLTREE_OPERATOR, /* a PyTorch operator */
	CALLTREE_GPU,	   /* a GPU kernel or copy */
	CALLTREE_OTHER,	   /* thread names, reasons, "[stack cut: no rules]" */
	CALLTREE_KINDS,
};

/* Frames are equal when all of these are. Strings are numbers of calltree.strings. */
struct calltree_frame {
	uint8_t kind; /* enum calltree_kind */
	uint32_t name;
	uint32_t file;	  /* source file, "" unknown */
	uint32_t line;	  /* 0 unknown */
	uint32_t library; /* path of the binary, "" unknown */
};

struct calltree_node {
	uint32_t parent; /* the root's is itself */
	uint32_t frame;	 /* number in calltree.frames; of the root: an empty frame */
	/* Of this frame itself, and with all that it called; totals are set by calltree_sum.
	 * The second of each is that of a base that is compared with (differential). */
	int64_t self[2];
	int64_t total[2];
};

/* A part of a node's own weight with its time, for formats that show what came after what. */
struct calltree_moment {
	uint64_t end_ns; /* since the tree's start; it began weight before */
	int64_t weight;	 /* ns */
	uint32_t node;
	uint32_t lane; /* number in calltree.lanes */
};

struct calltree {
	const char *title;  /* "CPU time of train.py", malloc'ed */
	const char *unit;   /* static: "ns", "bytes", "count" */
	const char *type;   /* static: "cpu", "offcpu", "gpu", ... : pprof's sample type */
	bool differential;  /* self[1], total[1] hold a base */
	uint64_t period_ns; /* of samples, 0 = none */
	uint64_t start_realtime_ns, duration_ns;
	struct strtab strings;
	VEC(struct calltree_frame) frames;
	VEC(struct calltree_node) nodes;
	VEC(struct calltree_moment) moments; /* by lane, then end; none: not asked for */
	VEC(uint32_t) lanes;		     /* threads: strings, the busiest first */
	struct map64 frame_of;		     /* hash of frame -> number */
	struct map64 child_of;		     /* hash of parent and frame -> node */
	struct map64 build_of; /* library's string -> its build id's; see calltree_build_id */
};

void calltree_init(struct calltree *t);
void calltree_free(struct calltree *t);

/* The frame's number, added if new. */
uint32_t calltree_frame(struct calltree *t, enum calltree_kind kind, const char *name,
			const char *file, uint32_t line, const char *library);
/* Says which build of a library the frames are of: hexadecimal, "" = unknown. The first that is
 * known of a path stays. */
void calltree_build_id(struct calltree *t, const char *library, const char *build_id);
/* The node of a frame below a parent, added if new. */
uint32_t calltree_child(struct calltree *t, uint32_t parent, uint32_t frame);
/* Adds to a node's own weight; which: 0, or 1 for the base of a differential. */
void calltree_add(struct calltree *t, uint32_t node, int64_t weight, int which);
/* Sets the totals, after the last add. */
void calltree_sum(struct calltree *t);
/* After that: the least total that a frame has of those that stay, where a tree is to have so many
 * at most, and none of less than one part in so many of the whole. */
int64_t calltree_least(const struct calltree *t, size_t most, int64_t parts);

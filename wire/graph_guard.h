/* graph_guard.h - what bpf/graph_guard.h and src/probe/graph_guard.c share of processes whose
 * CUDA graphs are watched, one slot each. States change by compare and exchange alone. */
#pragma once

#define GRAPH_GUARDS 256

enum graph_guard_state {
	GRAPH_GUARD_OFF,     /* calls pass */
	GRAPH_GUARD_WATCHES, /* the first call is noted */
	GRAPH_GUARD_SEEN,    /* it came */
	GRAPH_GUARD_ARMED,   /* a call that needs a graph is held, unless one was made before it */
	GRAPH_GUARD_HOLDS,   /* one is: until user space says OFF, or for some seconds */
};

/* Of a hook: its slot, and whether its function makes graphs or needs one. */
#define GRAPH_GUARD_MAKES		1
#define GRAPH_GUARD_COOKIE(slot, makes) ((__u64)(slot) << 1 | ((makes) ? GRAPH_GUARD_MAKES : 0))

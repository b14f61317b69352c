/* launches.h - which probes hand work to a GPU, which are operators around them, and the lanes
 * that launches are shown on: one for each stream, and in it one for each thread, since
 * launches of two threads on one stream may overlap. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "events/visitor.h"

enum launch_kind {
	LAUNCH_NONE,
	LAUNCH_CALL,	 /* of role launch or graph_launch */
	LAUNCH_OPERATOR, /* of layer torch: what launches are attributed to */
	LAUNCH_PYTHON,	 /* of layer python: likewise, where there is no operator */
};

struct launch_probe {
	uint8_t kind; /* enum launch_kind */
	bool stream_threads;
	int8_t stream_arg; /* -1: none */
};

struct launch_probes {
	struct launch_probe *rows; /* by probe */
	bool any;		   /* some probe's calls are launches */
};

void launch_probes_make(struct launch_probes *p, const struct rec_tables *t);
void launch_probes_free(struct launch_probes *p);

/* False for launches that failed: nothing came of them. */
bool is_launch(const struct launch_probes *p, const struct m_call *c);

/* What stands on the lane of a launch: the kernel's short name, or the function's. */
void launch_name(char *ret, size_t size, const struct rec_tables *t, const struct m_call *c);

struct lane {
	uint32_t thread; /* index */
	uint64_t stream; /* 0: the legacy default stream, 2: the thread's own */
};
struct lanes {
	VEC(struct lane) rows;
	struct map64 index;
};

/* The number of the launch's lane, from 0; *ret_new: it is met for the first time. */
size_t lane_of(struct lanes *l, const struct launch_probes *p, const struct m_call *c,
	       bool *ret_new);
void lanes_free(struct lanes *l);

/* "stream 0x7f00 launches", malloc'ed. */
char *lane_label(const struct lane *l);

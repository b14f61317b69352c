/* timeline_match.h - which call of a process started which work of its GPUs.
 *
 * Pure: two lists in, numbers out. See timeline_match.c for how. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MATCH_NONE UINT32_MAX

enum match_class { MATCH_LAUNCH, MATCH_GRAPH, MATCH_COPY, MATCH_SET, MATCH_NO_CLASS };

/* A call that starts work, or the work of one correlation number. */
struct match_item {
	uint64_t start_ns;
	/* Of calls: their work has begun by then, since a wait for it ended; UINT64_MAX unknown. */
	uint64_t until_ns;
	uint64_t grid, block; /* of launches; 0 unknown */
	uint64_t bytes;	      /* of copies and sets; 0 unknown */
	uint32_t name;	      /* of kernels: equal names have equal numbers; 0 unknown */
	uint32_t number;      /* of groups: correlation number, in order; may wrap; all 0 unknown */
	uint32_t match;	      /* returned: index in the other list, MATCH_NONE */
	uint8_t class;	      /* enum match_class */
	bool after_others;    /* of calls: behind some that may be numbered and start no work */
	bool unsure;	      /* returned, of groups: several calls are as likely, it has none */
};

/* Matches calls, in order of start, with groups of spans, in order of correlation number.
 * Each has at most one partner; what has none for sure has none. */
void match_make(struct match_item *calls, size_t ncalls, struct match_item *groups, size_t ngroups);

/* collective_waits.h - a rank that all others wait for in a collective, told by rule: no model and
 * nothing learned are asked. The calls that block until every rank has come are looked at: MPI's by
 * their names, others by the role `collective` of their catalog entry. What starts work and returns
 * (NCCL) shows no wait in its calls: see pipeline/hangs.h and analyze/ranks.h for those. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "detect/names.h"

#define COLLECTIVE_WAIT_NS    2000000000ULL  /* that each of the others has to wait */
#define COLLECTIVE_AGAIN_NS   60000000000ULL /* the same rank is told again after so long, */
#define COLLECTIVE_AGAIN_MORE 2		     /* or when it is so many times as late */
#define COLLECTIVE_RECENT     8		     /* calls of a rank that are looked back on */
#define COLLECTIVE_RANKS      512

struct collective_member {
	uint32_t pid;
	uint32_t n; /* calls that came, of which the last are kept */
	struct collective_span {
		uint64_t start_ns, end_ns;
	} recent[COLLECTIVE_RECENT];
};

/* Calls of one name. */
struct collective_function {
	char *name, *layer;
	VEC(struct collective_member) members;
	uint64_t waited_until_ns; /* of the long calls; 0 none */
	uint64_t seen_ns;	  /* when the last one came that was found so far */
	uint32_t told_pid;
	uint64_t told_ns, told_wait_ns;
};

/* What was found; ranks are -1 where they are not known. */
struct collective_wait {
	const char *name, *layer;
	uint32_t pid;
	int32_t rank;
	uint64_t start_ns, came_ns, end_ns; /* the first waits, the last comes, all have gone on */
	uint64_t least_ns, most_ns;	    /* that the others waited */
	uint32_t waiters;
};

struct collective_waits {
	VEC(uint32_t) function_of; /* by probe: index + 2; 1: it is none; 0: not looked at */
	VEC(struct collective_function) functions;
	VEC(struct m_process) processes;
	void (*tell)(void *ctx, const struct collective_wait *wait);
	void *ctx;
};

void collective_waits_free(struct collective_waits *w);
/* Its rank and its end; told again when that is known. */
void collective_waits_process(struct collective_waits *w, const struct m_process *row);
/* Any call, in about the order of the ends. */
void collective_waits_call(struct collective_waits *w, const struct detect_names *n,
			   const struct m_call *c);
void collective_waits_gone(struct collective_waits *w, uint32_t pid);

/* rank_match_impl.h - what rank_match.c and rank_groups.c share. */
#pragma once

#include "analyze/rank_match.h"

#define COMPARE(x, y)                                                                              \
	do {                                                                                       \
		if ((x) != (y))                                                                    \
			return (x) < (y) ? -1 : 1;                                                 \
	} while (0)

static inline const struct rank_call *rank_call_of(const struct rank_matching *m,
						   const struct rank_member *x, size_t i)
{
	return &m->calls[m->order.data[x->first_call + i]];
}

/* Puts members into groups and both in order. */
void rank_groups_find(struct rank_matching *m);

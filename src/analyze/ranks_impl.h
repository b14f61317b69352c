/* ranks_impl.h - inside of ranks.c and ranks_hang.c only. */
#pragma once

#include "analyze/ranks.h"

/* The source of a process; 0 in what is not merged. */
uint32_t ranks_source_of(const struct rec_tables *t, uint32_t pid);

/* Fills in when members were last seen, and finds what hangs. */
void ranks_find_hangs(struct ranks *r, const struct rec_reader *reader);

/* ranks_impl.h - inside of ranks.c and ranks_hang.c only. */
#pragma once

#include "analyze/ranks.h"

/* Fills in when members were last seen, and finds what hangs. */
void ranks_find_hangs(struct ranks *r, const struct row_source *source);

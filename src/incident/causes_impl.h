/* causes_impl.h - what the rules (causes.c) and the search for who is behind them share. */
#pragma once

#include "incident/causes.h"

/* What could be anything is told where nothing says more: it counts so much of what it explains. */
#define GENERAL 0.6

/* The rank that was waited for most: its thread's number + 1; 0: none was. */
uint32_t causes_latest(const struct evidence *e);

/* causes_culprit.c */
void causes_culprit(struct culprit *ret, enum cause c, const struct evidence *e);

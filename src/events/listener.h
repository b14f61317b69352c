/* listener.h - who hears of rows as they come: the one shape for all kinds.
 *
 * A source tells its rows in an order in which each stands behind those that it refers to, and
 * strings before the rows that have their numbers. */
#pragma once

#include "events/kinds.h"

/* Those that are NULL are not called. What is pointed to is valid during the call, in which nobody
 * may wait. */
struct event_listener {
	void *ctx;
	void (*string)(void *ctx, uint32_t number, const char *text);
	/* n rows of a kind, one behind the other. number: of kinds whose rows have numbers, that of
	 * the first; the others follow. A row of a number that was told before replaces it. */
	void (*rows)(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n);
	/* Its number comes no more: a thread has ended, or is not known any more; where nothing is
	 * kept, a metric has had no counter for a while. */
	void (*row_gone)(void *ctx, enum row_kind kind, uint32_t number);
};

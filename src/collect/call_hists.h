/* call_hists.h - sums of histograms that processes count themselves (wire/call_ring.h): of those
 * that live, as they are now, and of those that have ended. There are twice as many as the kernel
 * keeps of its own, and a process may have a quarter of them; calls beyond are counted. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "wire/event.h"

#define CALL_HISTS_ROWS	   (2 * HISTS_MAX)
#define CALL_HISTS_PROCESS (CALL_HISTS_ROWS / 4)

struct call_hists {
	struct map64 places;
	struct map64 of_process; /* how many rows it has */
	VEC(struct call_hists_row) rows;
	uint64_t full, full_past; /* calls that no row has */
	uint64_t counted;	  /* calls that rows have */
};

/* What is known of those that live is forgotten: it is added anew. */
void call_hists_renew(struct call_hists *h);

/* ended: its process has; it stays, and is among the rest from the next renewal on. */
void call_hists_add(struct call_hists *h, const struct hist_key *key,
		    const struct hist_value *value, bool ended);

void call_hists_visit(const struct call_hists *h,
		      void (*visit)(void *ctx, const struct hist_key *key,
				    const struct hist_value *value),
		      void *ctx);

void call_hists_free(struct call_hists *h);

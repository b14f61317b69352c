/* losses.h - when events were lost: windows that lack calls look slower than the job was, and are
 * not judged. Losses are known by time alone, not by process. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/features.h"
#include "detect/names.h"

#define LOSSES_MOST 0.01 /* share of the events of a window that may be lost */

struct losses {
	uint64_t window_ns;
	/* Window number -> events that ended in it, and thousandths of events that were lost. */
	struct map64 seen, lost;
	uint64_t first, last;	/* numbers of windows in these; 0: there is none */
	uint64_t window, count; /* events that are not in seen yet */
	VEC(struct loss_total {
		uint32_t metric;
		uint64_t time_ns;
		double value;
	})
	totals;
};

void losses_free(struct losses *l);
/* An event came that ended then. */
void losses_seen(struct losses *l, uint64_t end_ns);
/* So many did not come, of those that ended between: in at most ten minutes and 10000 windows, or
 * they are left alone. */
void losses_add(struct losses *l, uint64_t from_ns, uint64_t to_ns, double events);
/* A counter's row; others than lost_calls, which the pipeline writes, are left alone. */
void losses_counter(struct losses *l, const struct detect_names *names, const struct m_counter *c);
/* Whether a row of calls, steps or a process's counters lacks more than LOSSES_MOST of the events
 * of its time. false: of a row of more than 10000 windows with events, which no job has. */
bool losses_spoil(struct losses *l, const struct feature_row *row);
/* No row that ends before is asked for any more. */
void losses_upto(struct losses *l, uint64_t before_ns);
/* Another recording. */
void losses_forget(struct losses *l);

/* judging.h - from a row to an anomaly: what is known of the rows before it, what the row is judged
 * as, and whether its p is an alarm. */
#pragma once

#include "base/map64.h"
#include "detect/losses.h"
#include "incident/alarm_rate.h"
#include "incident/episodes.h"
#include "incident/fresh_work.h"
#include "incident/job_family.h"
#include "incident/saves.h"

struct detector;

struct judging {
	struct series_set series;
	struct alarm_rate rate;
	struct map64 judged_since; /* layer and process to the start of the first row judged */
	uint32_t regimes_known;	   /* of the model */
	uint64_t work_alarmed_ns;  /* end of the latest window of an anomaly of calls or steps */
	uint64_t lossy_rows;
};

/* What a row is judged as. */
struct row_work {
	struct shift *shift;
	bool slowed; /* what it always did is slower, and what is new is beside it */
	bool leaves; /* it is of other work, or of work of a new kind */
	bool fresh;  /* some of it was never seen before, and it is not slowed */
};

void judging_free(struct judging *g);
void judging_row(struct detector *d, const struct made_row *made);
/* Ends what has had no row for some windows, forgets series that have been idle. */
void judging_upto(struct detector *d, uint64_t now_ns);
/* Nothing more comes: open anomalies end. */
void judging_end(struct detector *d);
/* A process has ended, and its rows were judged. */
void judging_process_gone(struct detector *d, uint32_t pid, uint64_t now_ns);

/* Whether rows of the layer and process were judged at that time, by its judged_since. */
bool judged_at(const struct map64 *judged_since, enum detect_layer layer, uint32_t pid,
	       uint64_t time_ns);

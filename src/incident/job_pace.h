/* job_pace.h - how fast the work of each process goes on: against what its launch has, and whether
 * it is too slow for an alarm. Of processes that have a pace of their own; what works for another
 * has that one's (windows.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/features.h"
#include "detect/model.h"
#include "detect/pace_judge.h"

struct kept_row;

/* Of one process; paces are against its launch, 0 unknown. */
struct job_pace {
	uint32_t pid;
	uint64_t end_ns; /* of its last window */
	double now, before;
	bool any;    /* it had a pace once */
	int64_t own; /* windows with one of its own, less those with its parent's */
	struct pace_judge judge;
	struct kept_row *row; /* the last that it was judged by (kept_row.h); NULL: none */
};

struct job_paces {
	uint64_t window_ns;
	bool learned; /* there is no model */
	struct map64 at;
	VEC(struct job_pace) list;
};
void job_paces_free(struct job_paces *all);

/* A row of calls as it comes: its pace becomes that against its launch, which is that of pid. slow:
 * the process is known to be so, and without a model that is not what its launch has. */
void job_pace_row(struct job_paces *all, struct feature_row *row, uint32_t pid, bool slow);
/* NULL: no row of calls of it was met. */
struct job_pace *job_pace_of(const struct job_paces *all, uint32_t pid);
/* The pace of a row's window, and of the one before; 0 unknown. */
double job_pace_at(const struct job_paces *all, uint32_t pid, const struct feature_row *row,
		   double *ret_before);
/* Whether it had one in the row's window or the one before, as far as those were met. */
bool job_goes_on(const struct job_paces *all, uint32_t pid, const struct feature_row *row);
/* Whether it has none of its own, as loaders have: in most of its windows. */
bool job_is_helper(const struct job_paces *all, uint32_t pid);
/* Whether the process ever had one. */
bool job_has_pace(const struct job_paces *all, uint32_t pid);
void job_pace_forget(struct job_paces *all, uint32_t pid);

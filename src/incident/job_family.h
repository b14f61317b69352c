/* job_family.h - what the job does that a row is of, and what the processes of one job tell of each
 * other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/windows.h"
#include "incident/job_pace.h"

#define SLOWED 0.9 /* usual work that goes on at this pace is no work of a new kind */

struct job_family {
	uint64_t window_ns;
	struct windows *windows; /* know parents */
	struct map64 work_since; /* pid to the start of its first row of work */
	struct map64 left_work;	 /* pid to the end of its last window of other or new work */
	struct map64 told_slow;	 /* pid to the end of its last anomalous window, its work slower */
	struct job_paces paces;
	struct map64 told_children; /* pid to the latest such end of those that it has started */
};

void job_free(struct job_family *j);
/* A row as it comes: its pace becomes that against its launch. */
void job_pace_correct(struct job_family *j, struct feature_row *row);
/* A row as it is judged. leaves: it is of work that is not the process's usual one. */
void job_row(struct job_family *j, const struct feature_row *row, bool leaves);
/* Whether a row of counters or a step is of a window in which calls of its process were of other or
 * new work: known once those were judged. */
bool job_left_work(const struct job_family *j, const struct feature_row *row);
/* A row was found anomalous by itself, and its work slower than usual. */
void job_told(struct job_family *j, const struct feature_row *row);
/* Whether one of its job was, in its window or the one before. */
bool job_is_told(const struct job_family *j, const struct feature_row *row);
/* A process of which no row is known any more. */
void job_forget_work(struct job_family *j, uint32_t pid);
void job_forget(struct job_family *j, const struct m_process *ended);
/* Not of counters, nor of steps. */
bool layer_has_calls(enum detect_layer layer);
bool layer_has_counters(enum detect_layer layer);

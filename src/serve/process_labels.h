/* process_labels.h - what is known of a process, as labels: those of eacgm_process_info, which
 * profiles have as well. */
#pragma once

#include "serve/series_sink.h"
#include "session/live_series.h"

#define PROCESS_LABELS 14

struct process_labels {
	struct label list[PROCESS_LABELS]; /* values NULL: not known */
	char pid[16], parent[16], rank[16], local_rank[16], world_size[16]; /* of the list */
};

/* The list refers to ret itself and to p. */
void process_labels_of(struct process_labels *ret, const struct live_process *p);

/* process_labels.h - what is known of a process, as labels: those of eacgm_process_info, which
 * profiles have as well. */
#pragma once

#include "serve/series_sink.h"
#include "session/live_series.h"

#define PROCESS_LABELS 14 /* and those that the host chose */

struct process_labels {
	struct label list[PROCESS_LABELS + CHOSEN_LABELS]; /* values NULL: not known */
	size_t len;
	char pid[16], parent[16], rank[16], local_rank[16], world_size[16]; /* of the list */
};

/* The list refers to ret itself, to p and to the names that were chosen. */
void process_labels_of(struct process_labels *ret, const struct live_process *p);

/* Whether a label of that name has a meaning already: of a process here, of other metrics, of who
 * takes metrics or profiles. None of the host's choice may have it. */
bool process_label_is_taken(const char *name);

/* timeline_spans.h - loads the GPU spans of a recording for a timeline. */
#pragma once

#include "analyze/timeline.h"

/* Adds the spans of the process, or of all for 0, to t, by pid, then start, none with a call. */
void timeline_load_spans(struct timeline *t, const struct rec_reader *r, uint32_t pid);

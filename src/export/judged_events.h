/* judged_events.h - the file of detect --events: every event as it was judged, as CSV or, where the
 * path ends in ".npy", as arrays of numpy, which are read a hundred times faster.
 *
 * Such a file is two arrays, one after the other, each in the NPY format, version 1.0 (NumPy
 * Enhancement Proposal 1): the events as records, then the texts of their keys by number, as bytes
 * of equal length, padded with NUL. numpy.load takes one after the other from an open file. */
#pragma once

#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"
#include "incident/anomaly.h"

struct judged_events {
	FILE *out; /* of arrays: can be sought in */
	bool npy;
	uint64_t written;
	VEC(char *) keys; /* by number; NULL: of no event */
};

/* Whether a file of this name is written as arrays. */
bool judged_events_is_npy(const char *path);
void judged_events_begin(struct judged_events *o, FILE *out, bool npy);
void judged_events_put(struct judged_events *o, const struct detector_event *event);
/* 0, or -1 where the file cannot be sought in, with errno. Frees what was kept. */
int judged_events_end(struct judged_events *o);

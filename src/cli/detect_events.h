/* detect_events.h - the file of detect --events: every event as it was judged, as CSV or, where the
 * path ends in ".npy", as arrays of numpy, which are read a hundred times faster.
 *
 * Such a file is two arrays, one after the other, each in the NPY format, version 1.0 (NumPy
 * Enhancement Proposal 1): the events as records, then the texts of their keys by number, as bytes
 * of equal length, padded with NUL. numpy.load takes one after the other from an open file. */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "incident/detector.h"
#include "export/output.h"

struct detect_events {
	struct output file; /* stream NULL: not asked for */
	bool npy;
	uint64_t written;
	VEC(char *) keys; /* by number; NULL: of no event */
};

/* 0, or negative errno with the sentence: then there is nothing to close. */
int detect_events_open(struct detect_events *o, const char *path, struct err *e);
void detect_events_put(struct detect_events *o, const struct detector_event *event);
/* Names the file, or takes it away where rc or writing failed, which is returned. */
int detect_events_close(struct detect_events *o, int rc, struct err *e);

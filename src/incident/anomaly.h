/* anomaly.h - what a detector tells: anomalies, and events as they were judged. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/layer.h"

#define ANOMALY_FEATURES 4
#define ANOMALY_CALLS	 6

/* Something that was not normal, from its first window to its last. Strings are valid during the
 * callback, or as long as the list. */
struct anomaly {
	uint64_t id; /* from 1; the same for an anomaly that is told again when it ends */
	uint64_t start_ns, end_ns; /* end: of the last unusual window so far */
	uint64_t told_ns;	   /* end of the window that it was found by */
	bool ended;
	uint64_t incident;    /* from 1: those of one job and time have the same; 0 unknown */
	bool moved;	      /* told again as it was, for it is of another incident */
	bool incident_begins; /* told: nothing of its incident lasted before */
	bool incident_ends;   /* told: nothing of it lasts any more */
	enum detect_layer layer;
	char layer_name[LAYER_NAME_BYTES];
	uint32_t pid;		/* 0: of the host or a GPU */
	int32_t gpu;		/* -1 none */
	const char *name;	/* the function, counter or phase that did most */
	double p_value;		/* of its worst window; 0: it was told by rule */
	double score;		/* -log10 of it */
	double lost_ns;		/* time beyond what is usual, all its windows; NaN unknown */
	uint64_t lost_until_ns; /* the end of these: what is told while it lasts is older than it */
	bool lost_by_pace;	/* it is by how fast the work of the process went on */
	uint32_t windows;
	struct {
		const char *name, *unit;
		double value, usual; /* in the feature's unit */
		double share_ratio;  /* of the distance: they add up to at most 1 */
	} features[ANOMALY_FEATURES];
	uint32_t features_len;
	struct {
		const char *key;
		uint64_t calls;
		double mean_ns, usual_ns;
		double more_ns; /* time beyond what is usual */
	} calls[ANOMALY_CALLS]; /* the most time first */
	uint32_t calls_len;
	bool between_calls; /* most of it was lost between calls, not in them */
	/* Of Python, that half of it or more was lost in; function NULL: none that is known. */
	struct anomaly_line {
		const char *function, *file;
		uint32_t line;
		double ns, usual_ns; /* time in it */
		double called_ns;    /* of ns, in calls of PyTorch, CUDA or NCCL */
	} line;
	char why[256]; /* one sentence */
};

/* An event as it was judged. */
struct detector_event {
	uint64_t start_ns, dur_ns;
	uint32_t pid, tid;
	enum detect_layer layer;
	const char *layer_name;
	const char *key;
	uint32_t key_number; /* the same for the same text, dense from 1 */
	double z, gap_z;     /* NaN unknown */
	double more_ns;	     /* beyond what is usual, in the call itself; NaN unknown */
	bool anomalous;	     /* it was slow, by itself: slow_calls.h */
};

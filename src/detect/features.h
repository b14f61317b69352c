/* features.h - the numbers that windows and steps are judged by: the list, with units.
 * docs/developers/detection-features.md explains them; what computes them is windows.c (calls),
 * hardware.c (counters), step_rows.c (steps). Ratios to what is usual are natural logarithms: 0 =
 * as usual. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/gmm.h"
#include "detect/layer.h"

#define FEATURES_MOST GMM_MAX_D

struct feature {
	const char *name;
	const char *unit; /* "ln ratio", "sigma", "ratio" */
	const char *what; /* one clause: "the calls took as long as usual calls of their keys" */
};

/* Those of a layer; *ret_n <= FEATURES_MOST. Append only: model files name them. */
const struct feature *features_of(enum detect_layer layer, uint32_t *ret_n);

/* The place of a feature of the layer by its name; FEATURES_MOST: there is none. */
size_t feature_place(enum detect_layer layer, const char *name);

/* A window, or a step, of one process or device as a row. */
struct feature_row {
	uint64_t start_ns, end_ns;
	enum detect_layer layer;
	uint32_t pid;	    /* of hardware 0: of the host or a GPU */
	uint32_t parent;    /* of the process; 0 unknown. Set where a row is told */
	int32_t gpu;	    /* NVML's index, -1 none */
	uint32_t gpu_pid;   /* of a GPU: the process whose work it does; 0 unknown */
	uint32_t regime;    /* what the job was doing: see regimes.h; 0 unknown */
	uint64_t events;    /* that it was made of */
	uint32_t recording; /* number of the one that it was learned from */
	/* How fast the process's work went on (clock.h): 1 as usual; 0 unknown. */
	double pace;
	double cpus;	   /* of ln pace: what was left out of it for its CPUs (cpu_speed.h) */
	bool parents_pace; /* it has none by itself: that of the process that it works for */
	bool other_work;   /* most of what it did is known to nobody */
	bool resized;	   /* much of it is of sizes that no model has */
	/* Shares of the time by which pace goes: of functions and of sizes that no model has. */
	double unknown_share, resized_share;
	bool other_mix;		 /* functions are called in shares that no model has */
	double x[FEATURES_MOST]; /* in the order of features_of; NaN unknown */
};

/* Puts rows by GPU and process, and in order of time. */
void feature_rows_sort(struct feature_row *rows, size_t n);

/* When a detector judges a row: at its end, a step at that of the window that it ends in, which
 * says what was done in it. */
uint64_t feature_row_due(const struct feature_row *row, uint64_t window_ns);

/* The order in which rows are judged: when they are due, then by layer and process. Below 0, 0,
 * above 0. */
int feature_rows_due_compare(const struct feature_row *x, const struct feature_row *y,
			     uint64_t window_ns);

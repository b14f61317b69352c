/* hardware_impl.h - what hardware.c, which makes rows, and hardware_units.c share: the GPUs and
 * processes that counters are of, and their open windows. */
#pragma once

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/hardware.h"

#define HARDWARE_COUNTERS 32 /* there is room for so many in counter_defs */

struct counter_window {
	uint64_t number;
	double sums[FEATURES_MOST];
	uint32_t counts[FEATURES_MOST];
	double waits_ns[FEATURES_MOST];
	bool told; /* by hardware_mix */
	struct work work;
};

/* A GPU or a process. */
struct unit {
	uint64_t id;
	enum detect_layer layer;
	uint32_t pid;
	int32_t gpu;			 /* of a process: where it has memory, -1 unknown */
	uint64_t gpu_id;		 /* likewise: the unit's id */
	bool own;			 /* of a GPU: a process of the recording was on it */
	bool lists;			 /* of a GPU: its driver tells which processes are on it */
	bool has_samples;		 /* of threads off the CPU */
	VEC(struct counter_window) open; /* in order of number */
	size_t first;			 /* of open: those before were handed out */
	double held[FEATURES_MOST];	 /* of the last window that had a value */
	uint64_t held_ns[FEATURES_MOST];
	double totals[FEATURES_MOST];
	uint64_t totals_ns[FEATURES_MOST];
	uint64_t last;	      /* number of the last window that was handed out with values */
	uint64_t told_window; /* the last that hardware_mix told of */
	struct work told_work;
	bool gone; /* the process has ended: nothing more comes */
};

struct hardware {
	struct hardware_options o;
	VEC(struct unit) units;
	struct map64 unit_of;	     /* id -> index */
	struct map64 unit_of_metric; /* its number -> id of the unit; 0: nothing that is judged */
	struct map64 counter_of;     /* metric -> place in counter_defs + 1; 0: none */
	uint64_t closed;	     /* windows below were handed out */
	bool any_gone;		     /* of the units */
	bool any_own;		     /* likewise */
	uint64_t cuda_events;	     /* that hardware_mix told of */
	uint64_t counters;	     /* that came */
	bool cuda_traced;
	int8_t feature_of[HARDWARE_COUNTERS];
	int8_t wait_feature[WAIT_REASONS];
	int8_t calls_feature;
};

/* ---- hardware_units.c ---- */

/* Those of earlier ones that have ended go where there are too many. */
struct unit *hardware_process(struct hardware *h, uint32_t pid);
/* The unit that a metric's counters are of, NULL for others. */
struct unit *hardware_unit(struct hardware *h, const struct detect_names *names, uint32_t metric);
void hardware_forget_units(struct hardware *h);
/* Takes those away that are gone and have no open windows. */
void hardware_drop_gone(struct hardware *h);

/* The earliest open window, NULL: none is; the same, where it has this number. */
struct counter_window *unit_first(const struct unit *u);
struct counter_window *unit_first_with(const struct unit *u, uint64_t number);
/* It was handed out. */
void unit_drop_first(struct unit *u);
/* NULL: it was handed out, or there are too many. */
struct counter_window *unit_window(struct hardware *h, struct unit *u, uint64_t number);

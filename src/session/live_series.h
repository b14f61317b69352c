/* live_series.h - what is known of a running session by process, GPU and host: the last value of
 * each counter, calls by function, processes. For who shows it to programs (src/serve); what people
 * see is live_rates.h's. Memory is bounded by the constants below, and what finds no room is
 * counted.
 *
 * Not for several threads: the host locks it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/layer.h"
#include "base/map64.h"
#include "session/live_collectives.h"
#include "session/live_gpu_memory.h"
#include "session/live_work.h"
#include "symbolize/proc_labels.h"

#define SERIES_METRICS	 (1 << 15)
#define SERIES_FUNCTIONS (1 << 13) /* by process and function */
#define SERIES_PROCESSES (1 << 13)
#define SERIES_GPUS	 256
#define SERIES_GPU_JOBS	 8
#define SERIES_COVERAGES 4096
#define SERIES_NAME	 128		/* longer names of functions are cut */
#define SERIES_OLD_NS	 60000000000ULL /* what was not told for so long is left out */

/* Of a counter. */
struct live_metric {
	uint8_t kind; /* enum entity_kind */
	uint8_t unit; /* enum metric_unit */
	bool there;   /* false: a place that is free */
	uint32_t pid, gpu;
	int32_t instance; /* -1: none */
	char *label;	  /* of an interface, a cgroup, a disk or a file system; "" else */
	char *name;	  /* "cpu_ratio" */
	double value;
	uint64_t time_ns;
};

/* Calls of one function in one process, since the session began. */
struct live_function {
	uint32_t pid;
	char layer[LAYER_NAME_BYTES];
	char name[SERIES_NAME]; /* "(other)": those that found no room */
	uint64_t calls, errors;
	double ns;	/* those within one of their own layer are not in it */
	uint64_t bytes; /* that they were of, without those that failed */
	bool sized;	/* calls say so; else bytes mean nothing */
};

struct live_process {
	uint32_t pid, parent;
	char comm[16];
	char script[64]; /* what its interpreter runs; "" none */
	int32_t rank;	 /* -1 unknown */
	uint64_t start_ns, end_ns;
	bool called;		   /* it made calls that are traced: a job */
	struct proc_labels labels; /* of a job */
	uint64_t named; /* for who adds to them: what they were looked up in; 0: not yet */
};

struct live_gpu_id {
	uint32_t index;
	int32_t parent;	      /* -1: no instance */
	int32_t gpu_instance; /* of an instance: NVML's number, which others call it by */
	bool gone;
	char uuid[64], name[64], bus_id[32], driver[32];
	int32_t xid; /* of the last error that the driver told; 0: none */
	/* The rest is set by who knows it, "" and 0 else. */
	char pod[254], pod_namespace[64], container[64]; /* that has it, by Kubernetes */
	size_t jobs_len;
	char jobs[SERIES_GPU_JOBS][128]; /* that have it, by their cluster */
};

/* Of a function that a budget has turned down. */
struct live_coverage {
	char layer[LAYER_NAME_BYTES];
	char name[SERIES_NAME];
	double seen_ratio; /* of the time between the last two rows: its probe was on */
	bool in_bursts;
	bool for_own; /* the last time it was turned down for eacgm's own budget */
	/* the rest is its own */
	uint64_t on_ns, off_ns;
};

struct live_series {
	VEC(struct live_metric) metrics;
	VEC(struct live_function) functions;
	VEC(struct live_process) processes;
	VEC(struct live_gpu_id) gpus;
	VEC(struct live_coverage) coverages; /* others are seen all the time */
	struct live_work work;
	struct live_collectives collectives;
	struct live_gpu_memory gpu_memory;
	uint64_t now_ns;   /* of CLOCK_MONOTONIC: the last batch */
	uint64_t left_out; /* metrics, functions and processes: see live_series_left_out */
	const struct chosen_labels *chosen; /* of jobs: set before the first batch; NULL: none */
	/* the rest is its own */
	VEC(uint32_t) free_metrics; /* places */
	struct map64 metric_of, function_of, named, process_of, coverage_of;
};

struct session_view;

/* s: zeroed but for chosen. */
void live_series_batch(struct live_series *s, const struct session_view *v, uint64_t now_ns);
void live_series_free(struct live_series *s);

/* What found no room so far, of what it holds. */
uint64_t live_series_left_out(const struct live_series *s);

/* The process, or NULL. */
const struct live_process *live_series_process(const struct live_series *s, uint32_t pid);

/* watch_state.h - what `eacgm watch` shows at a moment: plain data of bounded size, made by
 * watch_rates.c and watch_steps.c, drawn by watch_screen.c. Unknown numbers are NaN. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/layer.h"

#define WATCH_LAYERS	  32
#define WATCH_GPUS	  64
#define WATCH_COUNTERS	  16
#define WATCH_ANOMALIES	  64  /* the latest */
#define WATCH_HISTORY	  240 /* seconds, or steps */
#define WATCH_NAME_BYTES  96
#define WATCH_PHASES	  8 /* processes with steps */
#define WATCH_PHASE_BYTES 256

/* The newest is at (next - 1) mod WATCH_HISTORY. */
struct watch_history {
	float values[WATCH_HISTORY];
	uint32_t next;
	uint32_t len;
};

struct watch_layer {
	char name[LAYER_NAME_BYTES];
	double calls_per_s; /* of the last whole second */
	uint64_t calls;
	struct watch_history history;
	char busiest[WATCH_NAME_BYTES]; /* the function with most time in the last second, or "" */
	double busiest_ns_per_s;
};

struct watch_gpu {
	bool known;
	char name[64];
	double busy_ratio;
	double memory_used_bytes, memory_total_bytes;
	double power_w, power_limit_w;
	double temperature_celsius;
};

/* Of the host, or something of it that has no place of its own. */
struct watch_counter {
	uint32_t metric;
	uint8_t unit; /* enum metric_unit */
	double value;
	char what[WATCH_NAME_BYTES]; /* "interface eth0 rx_bytes_per_s" */
};

struct watch_anomaly {
	uint64_t id;
	uint64_t start_ns, end_ns;
	bool ended;
	char layer[LAYER_NAME_BYTES];
	char entity[32];
	char why[256];
};

struct watch_steps_view {
	bool looking;	/* for steps: nothing is known yet */
	uint64_t count; /* since they were found */
	char kind[16];	/* "training", or "" */
	char marker[WATCH_NAME_BYTES];
	uint32_t pid, tid;
	uint64_t last_ns, median_ns, longest_ns; /* of those in history */
	uint64_t since_ns;			 /* when the last one ended */
	struct watch_history history;		 /* ns */
	/* Of the steps of the last interval, a sentence for each process; the main one first. */
	char phases[WATCH_PHASES][WATCH_PHASE_BYTES];
	uint32_t phases_len, phases_more;
	uint64_t intervals; /* so far that had any */
};

struct watch_state {
	char target[WATCH_NAME_BYTES];
	uint64_t now_ns, start_ns;
	uint64_t realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
	uint32_t processes;
	struct watch_layer layers[WATCH_LAYERS];
	uint32_t layers_len;
	struct watch_gpu gpus[WATCH_GPUS];
	struct watch_counter counters[WATCH_COUNTERS]; /* the first that came */
	uint32_t counters_len;
	struct watch_steps_view steps;
	double job_cpu;	  /* cores */
	double probe_cpu; /* cores: what the probes took of them */
	double own_cpu;	  /* cores: eacgm's */
	double own_rss_bytes;
	uint64_t lost;	     /* events that nobody saw */
	uint64_t overruns;   /* that were not judged */
	uint64_t unjudged;   /* windows that were not: they lack such events */
	bool judges;	     /* anomalies are looked for */
	bool learning;	     /* what is normal is not known yet */
	double learn_left_s; /* NaN: no telling */
	uint64_t anomalies;  /* so far */
	uint64_t lasting;    /* that have not ended */
	struct watch_anomaly
		latest[WATCH_ANOMALIES]; /* at (anomaly number - 1) mod WATCH_ANOMALIES */
	uint64_t latest_next;		 /* number of the next */
	char said[160];			 /* what there was to say last, or "" */
};

static inline void watch_history_add(struct watch_history *h, double v)
{
	h->values[h->next] = (float)v;
	h->next = (h->next + 1) % WATCH_HISTORY;
	h->len += h->len < WATCH_HISTORY;
}

/* The i-th of the len values, the oldest first. */
static inline double watch_history_at(const struct watch_history *h, uint32_t i)
{
	return (double)h->values[(h->next + WATCH_HISTORY - h->len + i) % WATCH_HISTORY];
}

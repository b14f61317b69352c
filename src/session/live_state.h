/* live_state.h - what is known of a running session at a moment: plain data of bounded size, made
 * by live_rates.c, and drawn by `eacgm watch`, which adds steps. Unknown numbers are NaN. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/layer.h"
#include "session/own_time.h"

#define LIVE_LAYERS	 32
#define LIVE_GPUS	 64
#define LIVE_COUNTERS	 16
#define LIVE_ANOMALIES	 64  /* the latest */
#define LIVE_CAUSES	 4   /* of incidents, the latest */
#define LIVE_HISTORY	 240 /* seconds, or steps */
#define LIVE_NAME_BYTES	 96
#define LIVE_PHASES	 8 /* processes with steps */
#define LIVE_PHASE_BYTES 256
#define LIVE_STEP_PHASES 8  /* that a step can have */
#define LIVE_STEP_SUMS	 16 /* phases that a process's steps can have had */
#define LIVE_JOBS	 64 /* processes whose steps are counted */

/* The newest is at (next - 1) mod LIVE_HISTORY. */
struct live_history {
	float values[LIVE_HISTORY];
	uint32_t next;
	uint32_t len;
};

struct live_layer {
	char name[LAYER_NAME_BYTES];
	double calls_per_s; /* of the last whole second */
	uint64_t calls;
	struct live_history history;
	char busiest[LIVE_NAME_BYTES]; /* the function with most time in the last second, or "" */
	double busiest_ns_per_s;
};

struct live_gpu {
	bool known;
	char name[64];
	double busy_ratio;
	double memory_used_bytes, memory_total_bytes;
	double power_w, power_limit_w;
	double temperature_celsius;
};

/* Of the host, or something of it that has no place of its own. */
struct live_counter {
	uint32_t metric;
	uint8_t unit; /* enum metric_unit */
	double value;
	char what[LIVE_NAME_BYTES]; /* "interface eth0 rx_bytes_per_s" */
};

struct live_anomaly {
	uint64_t id;
	uint64_t start_ns, end_ns;
	bool ended;
	char layer[LAYER_NAME_BYTES];
	char entity[32];
	char why[256];
};

/* Of an incident, as far as it is known. */
struct live_cause {
	uint64_t id; /* 0: none */
	bool ended;
	const char *advice; /* static: what to do */
	char what[256];
};

struct live_phase {
	const char *name; /* static */
	float share;	  /* of a step */
};

/* Of all steps that were counted. */
struct live_phase_sum {
	const char *name; /* static */
	double ns;
};

/* Of a process whose steps are counted. */
struct live_steps_view {
	uint64_t count; /* since they were found */
	char kind[16];	/* "training", or "" */
	char marker[LIVE_NAME_BYTES];
	uint32_t pid, tid;
	uint64_t last_ns, median_ns, longest_ns;   /* of those in history */
	uint64_t since_ns;			   /* when the last one ended */
	struct live_history history;		   /* ns */
	char phases[LIVE_PHASE_BYTES];		   /* of the last interval that it was in, or "" */
	struct live_phase phase[LIVE_STEP_PHASES]; /* the same as numbers */
	uint32_t phase_len;
	/* Each step by the shares that were known when it ended; one before that is in none. */
	struct live_phase_sum phase_sum[LIVE_STEP_SUMS];
	uint32_t phase_sum_len;
};

struct live_jobs {
	struct live_steps_view of[LIVE_JOBS];
	uint32_t len;
	uint32_t left_out; /* processes with steps that found no room, in the last interval */
};

/* Of the steps of the last interval, a sentence for each process; the main one first. */
struct live_phases {
	bool looking; /* for steps: nothing is known yet */
	char of[LIVE_PHASES][LIVE_PHASE_BYTES];
	uint32_t len, more;
	uint64_t intervals; /* so far that had any */
};

struct live_state {
	char target[LIVE_NAME_BYTES];
	uint64_t now_ns, start_ns;
	uint64_t realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
	uint32_t processes;
	struct live_layer layers[LIVE_LAYERS];
	uint32_t layers_len;
	struct live_gpu gpus[LIVE_GPUS];
	struct live_counter counters[LIVE_COUNTERS]; /* the first that came */
	uint32_t counters_len;
	struct live_steps_view steps; /* of the process that tells most */
	struct live_phases phases;
	double job_cpu;	  /* cores */
	double probe_cpu; /* cores: what the probes took of them */
	double own_cpu;	  /* cores: eacgm's */
	double own_rss_bytes;
	struct own_budget_view own_budget;
	uint64_t holds;	     /* how often tasks were held so far */
	uint64_t held_ns;    /* and how long in sum */
	uint64_t lost;	     /* events that nobody saw */
	uint64_t overruns;   /* that were not judged */
	uint64_t unjudged;   /* windows that were not: they lack such events */
	bool judges;	     /* anomalies are looked for */
	bool learning;	     /* what is normal is not known yet */
	double learn_left_s; /* NaN: no telling */
	uint64_t anomalies;  /* so far */
	uint64_t lasting;    /* that have not ended */
	struct live_anomaly latest[LIVE_ANOMALIES]; /* at (anomaly number - 1) mod LIVE_ANOMALIES */
	uint64_t latest_next;			    /* number of the next */
	struct live_cause causes[LIVE_CAUSES];	    /* the latest first */
	char said[160];				    /* what there was to say last, or "" */
};

static inline void live_history_add(struct live_history *h, double v)
{
	h->values[h->next] = (float)v;
	h->next = (h->next + 1) % LIVE_HISTORY;
	h->len += h->len < LIVE_HISTORY;
}

/* The i-th of the len values, the oldest first. */
static inline double live_history_at(const struct live_history *h, uint32_t i)
{
	return (double)h->values[(h->next + LIVE_HISTORY - h->len + i) % LIVE_HISTORY];
}

static inline void live_cause_keep(struct live_state *s, uint64_t id, bool ended, const char *what,
				   const char *advice)
{
	unsigned at = 0;
	while (at < LIVE_CAUSES - 1 && s->causes[at].id && s->causes[at].id != id)
		at++;
	memmove(s->causes + 1, s->causes, at * sizeof(*s->causes));
	s->causes[0] = (struct live_cause){.id = id, .ended = ended, .advice = advice};
	snprintf(s->causes[0].what, sizeof(s->causes[0].what), "%s", what);
}

/* store_rollup.h - ten seconds of what a session knows as rows of a database: counters with their
 * sums and bounds, steps, calls since the ten seconds before, processes, events, incidents. Knows
 * no database; memory is bounded by the constants below, and what finds no room is counted.
 *
 * Not for several threads: store.c locks it. */
#pragma once

#include "base/map64.h"
#include "incident/incident_row.h"
#include "session/live_series.h"
#include "session/live_state.h"

#define STORE_EACH_S	10   /* what a batch spans */
#define STORE_COUNTERS	2048 /* in a batch, each */
#define STORE_PROCESSES 1024
#define STORE_FUNCTIONS 512 /* with most time; the others are summed as "(other)" */
#define STORE_EVENTS	256
#define STORE_INCIDENTS 256
#define STORE_OTHER	"(other)"

/* Whose it is; pid 0: nobody's. Times are of CLOCK_REALTIME from here on. */
struct store_owner {
	uint32_t pid;
	uint64_t met_ns;  /* of CLOCK_MONOTONIC: since when it is looked at */
	int64_t start_ns; /* the same */
};

struct store_sums {
	uint64_t n;
	double sum, min, max;
};

struct store_counter {
	struct store_owner owner;
	uint8_t kind, unit;
	uint32_t gpu;
	char *entity, *name;
	struct store_sums values;
	uint64_t key;
};

struct store_process {
	struct store_owner owner;
	struct live_process of;
	int64_t end_ns; /* 0: it lives */
};

struct store_steps {
	struct store_owner owner;
	char kind[16];
	struct store_sums seconds;
};

struct store_calls {
	struct store_owner owner;
	char layer[LAYER_NAME_BYTES];
	char name[SERIES_NAME];
	uint64_t calls, errors;
	double ns;
};

struct store_event {
	int64_t time_ns;
	char *entity, *name, *text;
};

enum store_incident_text {
	INCIDENT_CAUSE,
	INCIDENT_RUNNER_UP,
	INCIDENT_WHAT,
	INCIDENT_AGAINST,
	INCIDENT_CULPRIT,
	INCIDENT_CULPRIT_KIND,
	INCIDENT_CULPRIT_NAME,
	INCIDENT_CULPRIT_FUNCTION,
	INCIDENT_CULPRIT_FILE,
	INCIDENT_EVIDENCE, /* a line each */
	INCIDENT_TEXTS,
};

struct store_incident {
	struct m_incident row; /* numbers alone; its times are of CLOCK_REALTIME */
	uint64_t key_ns;       /* told_ns of the session, which with id and pid is the key */
	char *texts[INCIDENT_TEXTS];
};

struct store_batch {
	int64_t time_s; /* its beginning, a multiple of STORE_EACH_S */
	VEC(struct store_process) processes;
	VEC(struct store_counter) counters;
	VEC(struct store_steps) steps;
	VEC(struct store_calls) calls;
	VEC(struct store_event) events;
	VEC(struct store_incident) incidents;
};
void store_batch_free(struct store_batch *b);

/* Zeroed at first. */
struct store_rollup {
	struct store_batch now;
	uint64_t left_out;
	/* the rest is its own */
	struct map64 counter_of;  /* by what it is of: place in now.counters, from 1 on */
	struct map64 function_of; /* by owner and name: place in before */
	VEC(struct store_calls) before;
	uint64_t sampled_ns; /* of CLOCK_MONOTONIC */
	uint64_t steps;	     /* that were counted */
	bool counting;
};

/* What there is at a moment. offset_ns: CLOCK_REALTIME - CLOCK_MONOTONIC; now_ns is the latter.
 * steps: NULL where they cannot be told. */
void store_rollup_sample(struct store_rollup *r, const struct live_series *s,
			 const struct live_steps_view *steps, uint64_t now_ns, int64_t offset_ns);
/* The batch with what was called since the last one; the next begins. Whoever gets it frees it. */
struct store_batch store_rollup_take(struct store_rollup *r, const struct live_series *s,
				     int64_t offset_ns);
void store_rollup_event(struct store_rollup *r, int64_t time_ns, const char *entity,
			const char *name, const char *text);
/* Takes the place of what was told of it before. */
void store_rollup_incident(struct store_rollup *r, const struct incident_said *told,
			   int64_t offset_ns);
void store_rollup_free(struct store_rollup *r);

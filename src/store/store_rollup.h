/* store_rollup.h - what a session knows at a second as rows of a database: counters, steps and
 * calls since the second before, processes, call trees, events, incidents. Knows no database;
 * memory is bounded by the constants below, and what finds no room is counted.
 *
 * Not for several threads: store.c locks it. */
#pragma once

#include "base/map64.h"
#include "incident/incident_row.h"
#include "session/live_series.h"
#include "session/live_state.h"

#define STORE_COUNTERS	  2048 /* in a batch, each */
#define STORE_PROCESSES	  1024
#define STORE_FUNCTIONS	  512 /* with most time; the others are summed as "(other)" */
#define STORE_EVENTS	  256
#define STORE_INCIDENTS	  256
#define STORE_FRAMES	  16384 /* of call trees */
#define STORE_COLLECTIVES 512	/* of most bytes; the others are summed by operation, likewise */
#define STORE_OTHER	  "(other)"
#define STORE_TOLD_S	  60 /* a process that stays as it is is told so often */

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
	double value;
	uint64_t key;
};

struct store_process {
	struct store_owner owner;
	struct live_process of;
	int64_t end_ns; /* 0: it lives */
};

struct store_phase {
	const char *name; /* static */
	double seconds;	  /* of these steps */
};

struct store_steps {
	struct store_owner owner;
	char kind[16];
	struct store_sums seconds;
	/* By the shares that were found last; none: they are not known. */
	struct store_phase phases[LIVE_STEP_PHASES];
	uint32_t phases_len;
};

struct store_calls {
	struct store_owner owner;
	char layer[LAYER_NAME_BYTES];
	char name[SERIES_NAME];
	uint64_t calls, errors;
	double ns;
	int64_t bytes; /* -1: calls do not say */
};

/* Collectives of a process: session/live_collectives.h. */
struct store_collective {
	struct store_owner owner;
	struct live_collective of; /* its numbers are those since the last batch */
};

/* Where processor time went. The first frame of a tree is the process itself: what of its time no
 * frame has is its own. */
struct store_frame {
	uint32_t parent; /* who called it, which comes before it */
	uint8_t kind;	 /* enum calltree_kind */
	char *name;
	double own_s; /* without what it called */
};

struct store_tree {
	uint32_t pid;
	struct store_owner owner;
	struct store_frame *frames;
	uint32_t len;
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
	INCIDENT_BLAME,	   /* likewise: nanoseconds, a blank, whose they were */
	INCIDENT_WHY,
	INCIDENT_CULPRIT_CGROUP,
	INCIDENT_VICTIM_PHASE,
	INCIDENT_VICTIM_FUNCTION,
	INCIDENT_VICTIM_FILE,
	INCIDENT_TEXTS,
};

struct store_incident {
	struct m_incident row; /* numbers alone; its times are of CLOCK_REALTIME */
	uint64_t key_ns;       /* told_ns of the session, which with id and pid is the key */
	char *texts[INCIDENT_TEXTS];
};

struct store_batch {
	int64_t time_s;
	VEC(struct store_process) processes; /* those that changed, or were not told for long */
	VEC(struct store_counter) counters;
	VEC(struct store_steps) steps;
	VEC(struct store_calls) calls;
	VEC(struct store_collective) collectives;
	VEC(struct store_tree) trees;
	size_t frames; /* of all trees */
	VEC(struct store_event) events;
	VEC(struct store_incident) incidents;
};
void store_batch_free(struct store_batch *b);
size_t store_batch_rows(const struct store_batch *b);

/* What there is at a moment. */
struct store_seen {
	const struct live_series *series;
	/* Of each process whose steps can be told. */
	const struct live_steps_view *const *steps;
	uint32_t steps_len;
};

/* Calls of a function so far. */
struct store_before {
	uint64_t calls, errors, bytes;
	double ns;
};

/* Collectives of a row so far. */
struct store_passed {
	uint64_t calls, bytes, compared;
	double bus_bytes, ns, ahead_ns;
};

/* Zeroed at first. */
struct store_rollup {
	struct store_batch now;
	uint64_t left_out;
	/* the rest is its own */
	struct map64 function_of; /* by owner and name: place in before */
	VEC(struct store_before) before;
	struct map64 collective_of; /* by a row's number: place in passed */
	VEC(struct store_passed) passed;
	struct map64 steps_of;	/* by owner: steps that were counted */
	struct map64 processes; /* by owner: a hash of what was told */
	int64_t processes_s;	/* since then */
	uint64_t sampled_ns;	/* of CLOCK_MONOTONIC */
};

/* The batch of this moment: counters that were told, steps that ended and what was called since the
 * last one. offset_ns: CLOCK_REALTIME - CLOCK_MONOTONIC; now_ns is the latter. Whoever gets it
 * frees it. */
struct store_batch store_rollup_take(struct store_rollup *r, const struct store_seen *seen,
				     uint64_t now_ns, int64_t offset_ns);
void store_rollup_event(struct store_rollup *r, int64_t time_ns, const char *entity,
			const char *name, const char *text);
/* Takes the place of what was told of it before. */
void store_rollup_incident(struct store_rollup *r, const struct incident_said *told,
			   int64_t offset_ns);
/* Its frames, and their names, are the rollup's from here on. */
void store_rollup_tree(struct store_rollup *r, struct store_tree tree);
void store_tree_free(struct store_tree *tree);
void store_rollup_free(struct store_rollup *r);

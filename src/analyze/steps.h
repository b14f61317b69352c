/* steps.h - the steps of a job, found without its help: iterations of training, batches of
 * inference, tokens of generation.
 *
 * Of each process one thread's outermost operations of PyTorch are read as a text; where there
 * are none, its launches of kernels. What repeats in it is a loop (docs/developers/steps.md says
 * how it is found and where a step begins and ends). Does no output.
 *
 * Memory: 16 bytes an outermost operation, as much a launch. Times are ns of CLOCK_MONOTONIC. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "events/visitor.h"

enum steps_kind {
	STEPS_TRAINING,	  /* each ends with an update of the parameters */
	STEPS_INFERENCE,  /* a batch or a token */
	STEPS_EVALUATION, /* batches without an update, in a process that trains */
	STEPS_LOADING,	  /* batches that a child process makes for its parent */
	STEPS_KINDS,
};
#define STEPS_KIND_NAMES                                                                           \
	{                                                                                          \
		"training", "inference", "evaluation", "loading"                                   \
	}

/* What the host did in a step. The times of a step's phases add up to its duration. */
enum steps_phase {
	STEPS_LOAD, /* up to the model's first operation: waits for data, and making it */
	STEPS_FORWARD,
	STEPS_BACKWARD,
	STEPS_COMMUNICATION, /* collectives that the thread itself calls, outside of backward */
	STEPS_OPTIMIZER,     /* from the last backward to the update's end; resetting gradients */
	STEPS_CHECKPOINT,    /* a burst of copies to the host after the update */
	STEPS_OTHER,	     /* after the update, before the next batch is asked for */
	STEPS_PHASES,
};
#define STEPS_PHASE_NAMES                                                                          \
	{                                                                                          \
		"load", "forward", "backward", "communication", "optimizer", "checkpoint", "other" \
	}

struct steps_step {
	uint64_t start_ns; /* where the one before it ended, if nothing lies between them */
	uint64_t end_ns;   /* of its last operation */
	uint64_t phase_ns[STEPS_PHASES];
	uint64_t launches; /* of kernels and graphs, by all threads of the process */
	uint32_t index;	   /* in its loop, from 0 */
	uint32_t loop;	   /* index into the process's loops */
	uint32_t ops;	   /* outermost operations, or launches, of the thread */
};

/* What took longer in a slow step than in usual ones. */
struct steps_cause {
	const char *name; /* of an operation */
	bool before;	  /* not it, but what the host did or waited for before it */
	int64_t more_ns;  /* than the mean of usual steps */
};

#define STEPS_CAUSES 3

/* A step that is longer than the others: robust z (0.6745 × distance from the median, over the
 * median of distances) above 3.5, and by more than a tenth of the median. */
struct steps_slow {
	uint32_t step; /* index into the process's steps */
	double z;
	enum steps_phase phase; /* that grew most */
	int64_t phase_more_ns;	/* against the phase's median */
	struct steps_cause causes[STEPS_CAUSES];
	uint32_t causes_len;
};

struct steps_loop {
	enum steps_kind kind;
	const char *anchor;	 /* the operation that marks its steps */
	double confidence_ratio; /* of its steps: those that are as the usual one, but for what
				  * was inserted between steps */
	uint32_t first;		 /* of the process's steps */
	uint32_t steps;
	uint32_t stretches; /* how often it was entered: evaluations between steps */
	uint64_t total_ns;
	uint64_t min_ns, median_ns, p99_ns, max_ns;
	uint64_t phase_median_ns[STEPS_PHASES];
	double mean_ns, phase_mean_ns[STEPS_PHASES]; /* phases' means add up to the step's */
	double ops_mean, launches_mean;
	VEC(struct steps_slow) slow; /* the longest first, at most STEPS_SLOW_KEPT */
	uint32_t slow_total;
};
#define STEPS_SLOW_KEPT 20

struct steps_process {
	uint32_t pid;
	uint32_t tid;	    /* of the thread that was read */
	bool from_launches; /* of kernels, for want of operators */
	uint64_t ops;	    /* that were read */
	bool partial_first; /* the recording begins within a step, which is not counted */
	bool partial_last;
	uint32_t untraced; /* steps that are not counted, for probes were off for a part of them */
	VEC(struct steps_loop) loops; /* none: nothing repeats */
	VEC(struct steps_step) steps; /* by loop, then start */
};

struct steps {
	VEC(struct steps_process) processes; /* those that have operations or launches */
	size_t main;  /* index of the process that tells most: see steps_make; SIZE_MAX none has
		       * steps */
	bool counted; /* calls of some process were counted, not recorded: it has no steps */
	VEC(char *) names; /* what names above point into */
};

struct steps_options {
	uint32_t pid; /* only this process; 0 = all */
};

/* Finds the steps. Of several processes with steps the main one trains before it infers, has no
 * parent with steps of its own, and has the longest steps altogether. Blocks that cannot be read
 * are left out. What it returns does not point into the source; *ret is made when the
 * visitor ends. options may be NULL. */
struct row_visitor *steps_visitor(struct steps *ret, const struct row_source *s,
				  const struct steps_options *options);
void steps_make(struct steps *ret, const struct row_source *s, const struct steps_options *options);
void steps_free(struct steps *s);

/* What a phase is called. Launches do not tell of a loader: until the first of a step all that the
 * host does may have been. */
static inline const char *steps_phase_words(const struct steps_process *p, enum steps_phase phase)
{
	static const char *const names[STEPS_PHASES] = STEPS_PHASE_NAMES;
	if (p->from_launches && phase == STEPS_LOAD)
		return "until the first launch";
	return p->from_launches && phase == STEPS_FORWARD ? "launches" : names[phase];
}

/* The loop of the process that tells most: training first, then the longest. NULL without. */
const struct steps_loop *steps_main_loop(const struct steps_process *p);

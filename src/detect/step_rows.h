/* step_rows.h - rows of steps (layer step), of the steps that analyze/steps.h finds in a whole
 * recording. Each feature is a logarithm: of the step's duration over the usual one; of what the
 * duration would have been, had only one phase been unusual, over the usual one; of launches and
 * operations over the usual numbers. The row's regime is the kind of the step's loop + 1. No
 * I/O. */
#pragma once

#include <stdint.h>

#include "analyze/steps.h"
#include "base/buffer.h"
#include "detect/features.h"

/* The phases that are features: all but what is none of them. */
#define STEP_FEATURE_PHASES STEPS_OTHER

/* What is usual for the steps of a kind: medians. */
struct step_usual {
	uint64_t steps; /* that it was made of; 0 unknown */
	double duration_ns;
	double phase_ns[STEP_FEATURE_PHASES];
	double launches, operations;
};

/* Of each kind: the loop that has most steps, of all processes; at least STEP_ROWS_LEAST. */
void step_usual_of(struct step_usual ret[STEPS_KINDS], const struct steps *s);

struct step_rows {
	VEC(struct feature_row) rows; /* by start */
};
/* usual: a model's; NULL, or where its steps are 0: the loop's own medians. Loops of fewer than
 * STEP_ROWS_LEAST steps have rows only where a model's usual is there. */
#define STEP_ROWS_LEAST 8
void step_rows_make(struct step_rows *ret, const struct steps *s,
		    const struct step_usual usual[STEPS_KINDS]);
void step_rows_free(struct step_rows *r);

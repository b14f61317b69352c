/* step_slices.h - the steps of a job, for formats that show times. Whoever exports makes the list
 * (src/cli/cmd_export.c, from src/analyze/steps.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define STEP_SLICE_PHASES 8

struct step_slice {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t pid;
	uint32_t loop;	/* number in its process: slices of one loop do not overlap */
	uint32_t index; /* in its loop */
	uint32_t ops;	/* outermost operations */
	uint64_t launches;
	const char *kind; /* "training" */
	uint64_t phase_ns[STEP_SLICE_PHASES];
};

struct step_slices {
	VEC(struct step_slice) rows;	/* by process, loop, start */
	const char *const *phase_names; /* at most STEP_SLICE_PHASES */
	size_t phases;
};

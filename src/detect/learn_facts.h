/* learn_facts.h - what learning needs of a whole recording before its passes: when its work begins,
 * its steps, and whether its waits for the world are irregular. Reads through the recording's
 * reader only, each block once, on all CPUs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/steps.h"

struct learn_facts {
	/* When the first call of CUDA, PyTorch or NCCL began; imports come before it. Where there
	 * are none the first call, without calls the beginning of the recording. */
	uint64_t work_ns;
	bool irregular; /* waits for the world: world.h */
	struct steps steps;
};

/* waits: the source of its waits, where r has a part of the calls alone. */
void learn_facts_make(struct learn_facts *ret, const struct row_source *r,
		      const struct row_source *waits);
void learn_facts_free(struct learn_facts *f);

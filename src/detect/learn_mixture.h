/* learn_mixture.h - from rows of a layer to its mixture and what scores are worth. No I/O. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "detect/features.h"
#include "detect/model.h"

#define LEARN_LEAST_ROWS 30

struct learn_mixture_options {
	uint32_t components; /* 0 = by BIC, at most most */
	uint32_t most;	     /* 0 = LEARN_MOST_COMPONENTS */
	enum gmm_covariance covariance;
	uint64_t seed;
	unsigned without; /* of enum learn_without */
	const struct model_mixture
		*begin; /* refits it: its columns, scales and components; or NULL */
};
#define LEARN_MOST_COMPONENTS 8

/* Rows of the layer, those of a process or GPU together and in order of time; without faults or
 * with faults in a fifth of them. -EINVAL with the sentence: too few. ret is written on success
 * only. */
int learn_mixture(struct model_mixture *ret, enum detect_layer layer,
		  const struct feature_row *rows, size_t n, const struct learn_mixture_options *o,
		  struct err *e);
void learn_mixture_free(struct model_mixture *m);

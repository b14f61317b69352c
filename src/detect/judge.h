/* judge.h - from a row to a p: how rare such a row is in normal running, and what makes it so.
 * Keeps nothing, no I/O; what follows from a p is src/incident's. */
#pragma once

#include "detect/explain.h"
#include "detect/features.h"
#include "detect/model.h"

struct judgement {
	struct explained explained; /* of the row; its score is that of the row with its noise */
	double p;
	double distance_p; /* likewise, also of what is merely better than usual */
};

/* mixture: of m, that of such rows (model_mixture_of). of_launch: the model was made of rows of the
 * very launch that is judged. row: less what its kind of work has beyond what the mixture was made
 * of (shift.h). */
void judge_row(struct judgement *ret, const struct model *m, const struct model_mixture *mixture,
	       bool of_launch, const struct feature_row *row);

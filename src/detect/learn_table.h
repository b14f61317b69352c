/* learn_table.h - from a table of numbers to a model: one mixture of its rows as they stand, and
 * what its scores are worth. No I/O.
 *
 * Rows are not standardised, so that weights, means and covariances are those of the table's own
 * units and can be held against another library's. */
#pragma once

#include "analyze/gmm.h"
#include "base/error.h"
#include "detect/model.h"
#include "detect/table.h"

#define LEARN_TABLE_SCORES (1u << 17) /* at most so many rows say what scores are worth */

/* o->components 0: the best by BIC of 1..most. The tail is that of scores of rows under a mixture
 * that was fitted on the other half of the rows, dealt by o->seed: without those that o->trim_ratio
 * makes doubtful. The table's rows change their order. Memory beside the table: gmm_fit's, then
 * LEARN_TABLE_SCORES scores.
 * ret is written on success only; model_free it. Errors: gmm_fit's. A table of fewer rows than
 * TAIL_LEAST is learned without a tail. */
int learn_table(struct model *ret, struct table *t, const struct gmm_options *o, uint32_t most,
		struct err *e);

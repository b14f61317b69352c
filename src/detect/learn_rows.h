/* learn_rows.h - from rows of normal running to a model, as learn.h does from its second pass on.
 *
 * The features are taken as they are: keys, what is usual for them, gaps and sizes are of the
 * program that made the rows, and the model has none. */
#pragma once

#include "detect/learn.h"
#include "detect/rows_file.h"

/* A file for each recording. Of the options components, covariance, seed, window_ns, without and
 * left_out go by. -EINVAL: too little to learn any layer. */
int learn_rows(struct model *ret, const struct rows_file *files, size_t n,
	       const struct learn_options *o, struct err *e);

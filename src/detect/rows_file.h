/* rows_file.h - rows that were judged before, as `eacgm detect --rows` writes them: JSON lines,
 * read back. For learning and judging where the recordings are elsewhere. */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "detect/features.h"
#include "detect/layer.h"

struct filed_row {
	struct feature_row row;
	double p; /* that it came to; NaN: it was not judged */
};

struct rows_file {
	VEC(struct filed_row) rows; /* in the order in which a detector judges them */
	const struct detect_layers *layers;
};

/* layers are those that are known so far, and get what the file names; they live as long as it. 0,
 * or negative errno with the sentence: file and line. rows_file_free it in either case. */
int rows_file_read(struct rows_file *ret, struct detect_layers *layers, const char *path,
		   uint64_t window_ns, struct err *e);
void rows_file_free(struct rows_file *f);

/* row_json.h - a row as JSON, as `eacgm detect --rows` writes it, and back. docs/detect.md names
 * the keys. Reads and writes no files. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "detect/features.h"
#include "detect/layer.h"

/* A new reference. What is not known is null: a p of a row that was not judged is NaN. */
json_t *row_json(const struct feature_row *row, const char *layer, double score, double p,
		 bool alarmed);

/* Back again; layers gets what it names. Features that it does not have are NaN, and so is *ret_p
 * where it has none. ret is written on success only. -EINVAL with the sentence: no row, or a number
 * that no row has. */
int row_of_json(struct feature_row *ret, struct detect_layers *layers, double *ret_p,
		const json_t *o, struct err *e);

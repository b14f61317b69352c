/* numbers_json.h - numbers as JSON: in a model's file, and where what was learned or found is
 * shown. All return new references. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* Null where it is not finite: JSON has no NaN. */
json_t *real_json(double v);
json_t *reals_json(const double *values, size_t n);
/* A list of rows, each a list. */
json_t *matrix_json(const double *values, size_t rows, size_t columns);

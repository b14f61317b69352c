/* numbers_json.c - lists of numbers. */
#include "detect/numbers_json.h"

#include <math.h>

json_t *real_json(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *reals_json(const double *values, size_t n)
{
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, real_json(values[i]));
	return list;
}

json_t *matrix_json(const double *values, size_t rows, size_t columns)
{
	json_t *list = json_array();
	for (size_t i = 0; i < rows; i++)
		json_array_append_new(list, reals_json(values + i * columns, columns));
	return list;
}

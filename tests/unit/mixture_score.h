/* mixture_score.h - the score of a table's row. */
#pragma once

#include <math.h>

#include "detect/features.h"
#include "detect/model.h"

/* A row's -log density, standardised first; columns as in mixture->names. NaN: not finite. */
static inline double mixture_score(const struct model_mixture *m, const double *row)
{
	double x[FEATURES_MOST], density;
	for (uint32_t i = 0; i < m->columns; i++)
		x[i] = isnan(row[i]) ? 0 : (row[i] - m->centre[i]) / m->scale[i];
	gmm_log_density(&m->gmm, x, 1, &density);
	return -density;
}

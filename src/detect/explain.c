/* explain.c - scores of rows and the shares of their features. */
#include "detect/explain.h"

#include <math.h>
#include <string.h>

/* Whether a low value of the feature is good: of calls all are times, spreads and errors, of steps
 * those in front of launches and operations. */
static bool lower_is_better(enum detect_layer layer, const char *name)
{
	if (layer == DETECT_HARDWARE || layer == DETECT_HOST)
		return false;
	return strcmp(name, "launches") && strcmp(name, "operations");
}

/* The feature that a column is; SIZE_MAX none. */
static size_t feature_of(enum detect_layer layer, const char *name)
{
	uint32_t n;
	const struct feature *features = features_of(layer, &n);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(features[i].name, name))
			return i;
	return SIZE_MAX;
}

uint32_t explain_columns(double *ret, const struct model_mixture *m, enum detect_layer layer,
			 const double *x)
{
	uint32_t known = 0;
	for (uint32_t c = 0; c < m->columns; c++) {
		size_t f = feature_of(layer, m->names[c]);
		bool finite = f != SIZE_MAX && isfinite(x[f]);
		ret[c] = finite ? (x[f] - m->centre[c]) / m->scale[c] : 0;
		known += finite;
	}
	return known;
}

/* The lowest -log density that the mixture's components have at their means. */
static double lowest_score(const struct gmm *g)
{
	double ret = INFINITY;
	for (uint32_t k = 0; k < g->components; k++)
		ret = fmin(ret, -(g->log_weights[k] + g->log_peaks[k]));
	return ret;
}

void explain_row(struct explained *ret, const struct model_mixture *m, enum detect_layer layer,
		 const double *x)
{
	double row[FEATURES_MOST], parts[FEATURES_MOST] = {0}, density, sum = 0, lower = 0;
	*ret = (struct explained){.score = NAN};
	for (size_t i = 0; i < FEATURES_MOST; i++)
		ret->usual[i] = NAN;
	if (!m->columns || !explain_columns(row, m, layer, x))
		return;
	uint32_t component = 0;
	double distance = gmm_explain(&m->gmm, row, parts, &component);
	const double *mean = m->gmm.means + (size_t)component * m->columns;
	for (uint32_t c = 0; c < m->columns; c++) {
		sum += parts[c];
		if (row[c] < mean[c] && lower_is_better(layer, m->names[c]))
			lower += parts[c];
	}
	double whole = fmax(sum, distance);
	for (uint32_t c = 0; c < m->columns; c++) {
		size_t f = feature_of(layer, m->names[c]);
		if (f == SIZE_MAX)
			continue;
		ret->shares[f] = whole > 0 ? parts[c] / whole : 0;
		ret->usual[f] = m->centre[c] + mean[c] * m->scale[c];
	}
	ret->better = lower > sum / 2;
	gmm_log_density(&m->gmm, row, 1, &density);
	ret->score = ret->better ? lowest_score(&m->gmm) : -density;
}

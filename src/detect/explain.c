/* explain.c - scores of rows and the shares of their features. */
#include "detect/explain.h"

#include <math.h>
#include <string.h>

#include "base/map64.h"

/* Of a process: less waiting, and more done. */
static bool is_better_of_host(const char *name, bool lower)
{
	if (!strcmp(name, "calls_per_s"))
		return !lower;
	return lower && (!strncmp(name, "wait_", 5) || !strncmp(name, "preempt", 7) ||
			 !strcmp(name, "net_retransmits_per_s"));
}

/* Whether a value that is lower, or higher, than usual is good: of calls all are times, spreads,
 * errors and a loss; of steps those in front of launches and operations. */
static bool is_better(enum detect_layer layer, const char *name, bool lower)
{
	if (layer == DETECT_HARDWARE)
		return false;
	if (layer == DETECT_HOST)
		return is_better_of_host(name, lower);
	return lower && strcmp(name, "launches") && strcmp(name, "operations");
}

double explain_blur(const struct feature *f)
{
	if (!strcmp(f->unit, "sigma"))
		return 0.2;
	if (!strcmp(f->unit, "ln sigma"))
		return 0.05;
	return strcmp(f->unit, "ln ratio") ? 0.03 : 0.02;
}

void explain_blurred(struct feature_row *ret, const struct feature_row *row)
{
	uint32_t n;
	const struct feature *features = features_of(row->layer, &n);
	uint64_t hash = hash_u64(row->start_ns ^ hash_u64((uint64_t)row->layer << 40 ^ row->pid ^
							  (uint64_t)(uint32_t)row->gpu << 44));
	*ret = *row;
	for (uint32_t f = 0; f < n; f++) {
		/* Two numbers in (0, 1), and Box and Muller's normal one of them. */
		uint64_t a = hash_u64(hash + 2 * f + 1), b = hash_u64(hash + 2 * f + 2);
		double u = ((double)(a >> 11) + 0.5) / 9007199254740992.0;
		double v = ((double)(b >> 11) + 0.5) / 9007199254740992.0;
		ret->x[f] +=
			explain_blur(&features[f]) * sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
	}
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

/* Not finite: not known. */
static double value_of(enum detect_layer layer, const char *name, const double *x)
{
	size_t f = feature_of(layer, name);
	return f != SIZE_MAX ? x[f] : NAN;
}

uint32_t explain_columns(double *ret, const struct model_mixture *m, enum detect_layer layer,
			 const double *x)
{
	uint32_t known = 0;
	for (uint32_t c = 0; c < m->columns; c++) {
		double value = value_of(layer, m->names[c], x);
		ret[c] = isfinite(value) ? (value - m->centre[c]) / m->scale[c] : 0;
		known += isfinite(value) ? 1 : 0;
	}
	return known;
}

/* So much less time than usual, in ln ratio, is more than noise. */
#define SAVED 0.03
/* And so much more than usual, or than expected, is no saving. */
#define COSTS 0.1
/* What is so much less than usual lies where the mixture has seen nothing that could be expected.
 */
#define FAR 0.3

/* The features that are times, over what is usual: of a step its duration alone, for its phases are
 * parts of that. */
static bool is_time(enum detect_layer layer, const struct feature *f)
{
	if (layer == DETECT_STEP)
		return !strcmp(f->name, "duration");
	return !strcmp(f->unit, "ln ratio");
}

/* By how much a column is above what the component expects of it where all others are as they are:
 * (P (x - mean))_c / P_cc of the precision P, which is the Cholesky factor's inverse times itself.
 */
static double above_expected(const struct gmm *g, uint32_t component, const double *row, uint32_t c)
{
	uint32_t d = g->d;
	const double *inverse = g->inverses + (size_t)component * d * d;
	const double *mean = g->means + (size_t)component * d;
	double sum = 0, precision = 0;
	for (uint32_t i = c; i < d; i++) {
		double y = 0;
		for (uint32_t j = 0; j <= i; j++)
			y += inverse[i * d + j] * (row[j] - mean[j]);
		sum += inverse[i * d + c] * y;
		precision += inverse[i * d + c] * inverse[i * d + c];
	}
	return sum / precision;
}

/* Some of its times are longer than usual, or than the rest of the row lets expect: it is not
 * merely better. On a host that is quick at the moment a slow call may take no longer than it does
 * on others. */
static bool costs_time(const struct model_mixture *m, uint32_t component, enum detect_layer layer,
		       const double *row, const double *x)
{
	uint32_t n;
	const struct feature *features = features_of(layer, &n);
	const double *mean = m->gmm.means + (size_t)component * m->columns;
	bool more = false, more_than_expected = false, far = false;
	for (uint32_t c = 0; c < m->columns; c++) {
		size_t f = feature_of(layer, m->names[c]);
		if (f == SIZE_MAX || !isfinite(x[f]) || !is_time(layer, &features[f]))
			continue;
		double above = row[c] - mean[c];
		more |= above * m->scale[c] > COSTS;
		far |= above * m->scale[c] < -FAR;
		more_than_expected |=
			above_expected(&m->gmm, component, row, c) * m->scale[c] > COSTS;
	}
	return more || (more_than_expected && !far);
}

/* Calls that differ more than usual, or some that took long, while all together took less: a change
 * of work rather than a fault. Errors count whatever they cost. */
static bool saves_time(const struct explained *e, enum detect_layer layer, const double *x)
{
	uint32_t n;
	const struct feature *features = features_of(layer, &n);
	if (!(detect_layer_traits(layer) & LAYER_BY_CALLS))
		return false;
	for (uint32_t f = 0; f < n; f++) {
		bool time = !strcmp(features[f].unit, "ln ratio");
		if (time && isfinite(x[f]) && isfinite(e->usual[f]) && x[f] - e->usual[f] > -SAVED)
			return false;
		if (!strcmp(features[f].name, "errors") && e->shares[f] > 0.5)
			return false;
	}
	return true;
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
	*ret = (struct explained){.score = NAN, .distance_score = NAN};
	for (size_t i = 0; i < FEATURES_MOST; i++)
		ret->usual[i] = NAN;
	if (!m->columns || !explain_columns(row, m, layer, x))
		return;
	uint32_t component = 0;
	double distance = gmm_explain(&m->gmm, row, parts, &component);
	const double *mean = m->gmm.means + (size_t)component * m->columns;
	for (uint32_t c = 0; c < m->columns; c++) {
		/* what is not known stands for what is usual, not for the component's mean */
		if (!isfinite(value_of(layer, m->names[c], x)))
			parts[c] = 0;
		sum += parts[c];
		if (is_better(layer, m->names[c], row[c] < mean[c]))
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
	ret->better = (lower > sum / 2 || saves_time(ret, layer, x)) &&
		      !costs_time(m, component, layer, row, x);
	gmm_log_density(&m->gmm, row, 1, &density);
	ret->distance_score = -density;
	ret->score = ret->better ? lowest_score(&m->gmm) : -density;
}

/* report_judged.c - rows as columns of numbers, and of a mixture what two of its features show: a
 * normal's margin is the normal of these two alone. */
#include "report/report_judged.h"

#include <math.h>
#include <string.h>

static json_t *number_json(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static uint32_t alarmed_of(const struct judged_layer *l)
{
	uint32_t ret = 0;
	for (uint32_t i = 0; i < judged_len(l); i++)
		ret += judged_at(l, i)->alarmed;
	return ret;
}

json_t *judged_layers_json(struct judged *j)
{
	json_t *list = json_array();
	for (size_t i = 0; j && i < JUDGED_LAYERS; i++) {
		const struct judged_layer *l = &j->layers[i];
		pthread_mutex_lock(&j->lock);
		if (l->next && l->name[0])
			json_array_append_new(
				list, json_pack("{s:s, s:I, s:I, s:I}", "layer", l->name, "rows",
						(json_int_t)judged_len(l), "alarmed",
						(json_int_t)alarmed_of(l), "components",
						(json_int_t)l->mixture.components));
		pthread_mutex_unlock(&j->lock);
	}
	return json_pack("{s:b, s:o}", "judges", j != NULL, "layers", list);
}

/* How far a feature of rows that alarmed is from where most weight is, in its deviations. */
static double distance_of(const struct judged_layer *l, uint32_t column)
{
	const struct judged_mixture *m = &l->mixture;
	uint32_t d = m->columns, most = 0, n = 0;
	double sum = 0;
	for (uint32_t k = 1; k < m->components; k++)
		most = m->weights[k] > m->weights[most] ? k : most;
	double mean = m->means[most * d + column];
	double variance = m->covariances[((size_t)most * d + column) * d + column];
	for (uint32_t i = 0; i < judged_len(l); i++) {
		const struct judged_row *r = judged_at(l, i);
		double x = (double)r->x[m->feature[column]];
		if (!r->alarmed || !isfinite(x))
			continue;
		sum += fabs(x - mean) / sqrt(fmax(variance, 1e-12));
		n++;
	}
	return n ? sum / n : 0;
}

/* The feature that shows most, other than one; of a layer without a mixture the first. */
static uint64_t choose(const struct judged_layer *l, uint64_t other)
{
	uint64_t ret = other == 0;
	double best = -1;
	for (uint32_t c = 0; c < l->mixture.columns; c++) {
		double distance = distance_of(l, c);
		if (l->mixture.feature[c] != other && distance > best) {
			best = distance;
			ret = l->mixture.feature[c];
		}
	}
	return ret;
}

static json_t *ellipses_json(const struct judged_mixture *m, uint64_t x, uint64_t y)
{
	json_t *list = json_array();
	uint32_t d = m->columns, a = d, b = d;
	for (uint32_t c = 0; c < d; c++) {
		a = m->feature[c] == x ? c : a;
		b = m->feature[c] == y ? c : b;
	}
	for (uint32_t k = 0; a < d && b < d && k < m->components; k++) {
		const double *of = m->covariances + (size_t)k * d * d;
		json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "weight",
						      number_json(m->weights[k]), "x",
						      number_json(m->means[k * d + a]), "y",
						      number_json(m->means[k * d + b]), "xx",
						      number_json(of[a * d + a]), "xy",
						      number_json(of[a * d + b]), "yy",
						      number_json(of[b * d + b])));
	}
	return list;
}

static json_t *row_json(const struct judged_row *r, uint64_t x, uint64_t y)
{
	return json_pack("[I, I, I, I, b, o, o, o]", (json_int_t)r->start_ns, (json_int_t)r->end_ns,
			 (json_int_t)r->pid, (json_int_t)r->gpu, r->alarmed, number_json(r->score),
			 number_json((double)r->x[x]), number_json((double)r->x[y]));
}

static json_t *features_json(enum detect_layer layer)
{
	uint32_t n;
	const struct feature *f = features_of(layer, &n);
	json_t *list = json_array();
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", f[i].name, "unit",
						      f[i].unit, "what", f[i].what));
	return list;
}

static json_t *layer_json(const struct judged_layer *l, enum detect_layer layer, uint64_t x,
			  uint64_t y)
{
	uint32_t n;
	json_t *rows = json_array();
	features_of(layer, &n);
	x = x == JUDGED_CHOOSES ? choose(l, y) : x;
	y = y == JUDGED_CHOOSES ? choose(l, x) : y;
	for (uint32_t i = 0; x < n && y < n && i < judged_len(l); i++)
		json_array_append_new(rows, row_json(judged_at(l, i), x, y));
	return json_pack("{s:s, s:o, s:I, s:I, s:o, s:o}", "layer", l->name, "features",
			 features_json(layer), "x", (json_int_t)x, "y", (json_int_t)y, "ellipses",
			 ellipses_json(&l->mixture, x, y), "rows", rows);
}

static bool is_feature(enum detect_layer layer, uint64_t feature)
{
	uint32_t n;
	features_of(layer, &n);
	return feature == JUDGED_CHOOSES || feature < n;
}

json_t *judged_layer_json(struct judged *j, const char *layer, uint64_t x, uint64_t y)
{
	json_t *ret = NULL;
	if (!j || !*layer)
		return NULL;
	pthread_mutex_lock(&j->lock);
	for (size_t i = 0; i < JUDGED_LAYERS && !ret; i++) {
		const struct judged_layer *l = &j->layers[i];
		enum detect_layer of = (enum detect_layer)i;
		if (l->next && !strcmp(l->name, layer) && is_feature(of, x) && is_feature(of, y))
			ret = layer_json(l, of, x, y);
	}
	pthread_mutex_unlock(&j->lock);
	return ret;
}

/* ---- all features, for who cannot ask again ---- */

static json_t *floats_json(const float *x, uint32_t n)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, number_json((double)x[i]));
	return list;
}

static json_t *whole_row_json(const struct judged_row *r, uint32_t features)
{
	return json_pack("[I, I, I, I, b, o, o]", (json_int_t)r->start_ns, (json_int_t)r->end_ns,
			 (json_int_t)r->pid, (json_int_t)r->gpu, r->alarmed, number_json(r->score),
			 floats_json(r->x, features));
}

static json_t *reals_json(const double *x, size_t n)
{
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, number_json(x[i]));
	return list;
}

static json_t *mixture_json(const struct judged_mixture *m)
{
	json_t *columns = json_array();
	size_t d = m->columns, k = m->components;
	for (uint32_t i = 0; i < m->columns; i++)
		json_array_append_new(columns, json_integer(m->feature[i]));
	return json_pack("{s:o, s:o, s:o, s:o}", "columns", columns, "weights",
			 reals_json(m->weights, k), "means", reals_json(m->means, k * d),
			 "covariances", reals_json(m->covariances, k * d * d));
}

json_t *judged_whole_json(const struct judged *j)
{
	json_t *list = json_array();
	for (size_t i = 0; i < JUDGED_LAYERS; i++) {
		const struct judged_layer *l = &j->layers[i];
		enum detect_layer layer = (enum detect_layer)i;
		uint64_t x = choose(l, JUDGED_CHOOSES);
		json_t *rows = json_array();
		uint32_t n = 0;
		if (l->next)
			features_of(layer, &n);
		for (uint32_t k = 0; l->next && k < judged_len(l); k++)
			json_array_append_new(rows, whole_row_json(judged_at(l, k), n));
		if (l->next)
			json_array_append_new(list,
					      json_pack("{s:s, s:o, s:I, s:I, s:o, s:o}", "layer",
							l->name, "features", features_json(layer),
							"x", (json_int_t)x, "y",
							(json_int_t)choose(l, x), "mixture",
							mixture_json(&l->mixture), "rows", rows));
		else
			json_decref(rows);
	}
	return list;
}

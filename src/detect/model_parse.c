/* model_parse.c - a model from the text of its file, with every value checked: what comes out can
 * be used without looking again. The keys stand at the top of model_file.c. */
#include <errno.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "detect/launch_start.h"
#include "detect/model_file.h"
#include "detect/setting_json.h"

/* Bounds that no model comes near to. */
#define KEYS_MOST     (1u << 20)
#define COUNTERS_MOST (1u << 16)
#define REGIMES_MOST  4096u
#define TEXT_MOST     65536u /* bytes of a key */
#define LOG_NS_MOST   45.0   /* ln of 2^64 ns, and a little */

static const char *const covariance_names[GMM_COVARIANCES] = GMM_COVARIANCE_NAMES;

/* ---- single values; what: how the sentence calls them ---- */

static int want_real(const json_t *v, double low, double high, double *ret, const char *what,
		     struct err *e)
{
	double x = json_is_number(v) ? json_number_value(v) : NAN;
	if (!isfinite(x) || x < low || x > high)
		return err_set(e, EINVAL, "%s is not a number from %g to %g", what, low, high);
	*ret = x;
	return 0;
}

static int want_count(const json_t *v, uint64_t most, uint64_t *ret, const char *what,
		      struct err *e)
{
	json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
	if (n < 0 || (uint64_t)n > most)
		return err_set(e, EINVAL, "%s is not a whole number from 0 to %llu", what,
			       (unsigned long long)most);
	*ret = (uint64_t)n;
	return 0;
}

static int want_bool(const json_t *v, bool *ret, const char *what, struct err *e)
{
	if (!json_is_boolean(v))
		return err_set(e, EINVAL, "%s is not true or false", what);
	*ret = json_is_true(v);
	return 0;
}

static int want_text(const json_t *v, size_t most, char **ret, const char *what, struct err *e)
{
	if (!json_is_string(v) || json_string_length(v) > most)
		return err_set(e, EINVAL, "%s is not a text of at most %zu bytes", what, most);
	*ret = xstrdup(json_string_value(v));
	return 0;
}

static int want_name(const json_t *v, const char *const *names, size_t n, size_t *ret,
		     const char *what, struct err *e)
{
	const char *s = json_is_string(v) ? json_string_value(v) : "";
	for (size_t i = 0; i < n; i++)
		if (!strcmp(s, names[i])) {
			*ret = i;
			return 0;
		}
	return err_set(e, EINVAL, "%s '%.32s' is none that is known", what, s);
}

static int want_array(const json_t *v, size_t least, size_t most, const char *what, struct err *e)
{
	size_t n = json_array_size(v);
	if (json_is_array(v) && n >= least && n <= most)
		return 0;
	if (least == most)
		return err_set(e, EINVAL, "%s is not a list of %zu", what, most);
	return err_set(e, EINVAL, "%s is not a list of %zu to %zu", what, least, most);
}

static int want_reals(const json_t *v, size_t n, double low, double high, double *ret,
		      const char *what, struct err *e)
{
	int rc = want_array(v, n, n, what, e);
	for (size_t i = 0; i < n && !rc; i++)
		rc = want_real(json_array_get(v, i), low, high, &ret[i], what, e);
	return rc;
}

static int want_rows(const json_t *v, size_t rows, size_t columns, double *ret, const char *what,
		     struct err *e)
{
	int rc = want_array(v, rows, rows, what, e);
	for (size_t i = 0; i < rows && !rc; i++)
		rc = want_reals(json_array_get(v, i), columns, -DBL_MAX, DBL_MAX, ret + i * columns,
				what, e);
	return rc;
}

/* ---- keys, counters, regimes ---- */

static int parse_baseline(const json_t *v, struct baseline *ret, struct err *e)
{
	*ret = (struct baseline){0};
	if (json_is_null(v))
		return 0;
	int rc = want_array(v, 5, 5, "a baseline", e);
	if (!rc)
		rc = want_count(json_array_get(v, 0), INT64_MAX, &ret->count, "its count", e);
	if (!rc)
		rc = want_real(json_array_get(v, 1), -LOG_NS_MOST, LOG_NS_MOST, &ret->log_median,
			       "its median", e);
	if (!rc)
		rc = want_real(json_array_get(v, 2), DBL_MIN, 1e6, &ret->sigma, "its sigma", e);
	if (!rc)
		rc = want_real(json_array_get(v, 3), 0, 1e20, &ret->usual_ns, "its usual_ns", e);
	if (!rc)
		rc = want_real(json_array_get(v, 4), 0, 1e20, &ret->q99_ns, "its q99_ns", e);
	if (!rc && !ret->count)
		rc = err_set(e, EINVAL, "a baseline was made of no event");
	return rc;
}

static int want_layer(const json_t *v, struct detect_layers *named, enum detect_layer *ret,
		      struct err *e)
{
	const char *s = json_is_string(v) ? json_string_value(v) : "";
	enum detect_layer layer = detect_layer_add(named, s);
	if (layer == DETECT_LAYERS)
		return err_set(e, EINVAL, "the layer '%.32s' is none that is known", s);
	*ret = layer;
	return 0;
}

static int parse_key(const json_t *v, struct detect_layers *named, struct model_key *ret,
		     struct err *e)
{
	int rc = want_array(v, 4, 4, "it", e);
	if (!rc)
		rc = want_layer(json_array_get(v, 0), named, &ret->layer, e);
	if (!rc)
		rc = want_text(json_array_get(v, 1), TEXT_MOST, &ret->text, "its text", e);
	if (!rc)
		rc = parse_baseline(json_array_get(v, 2), &ret->duration, e);
	if (!rc)
		rc = parse_baseline(json_array_get(v, 3), &ret->gap, e);
	return rc;
}

static int parse_keys(const json_t *v, struct model *m, struct err *e)
{
	int rc = want_array(v, 0, KEYS_MOST, "'keys'", e);
	for (size_t i = 0; !rc && i < json_array_size(v); i++) {
		rc = parse_key(json_array_get(v, i), &m->named, vec_push(&m->keys), e);
		if (rc)
			err_wrap(e, rc, "key %zu", i + 1);
	}
	return rc;
}

static int parse_counter(const json_t *v, size_t regimes, struct model_counter *ret, struct err *e)
{
	uint64_t regime = 0;
	int rc = want_array(v, 5, 5, "it", e);
	if (!rc)
		rc = want_text(json_array_get(v, 0), TEXT_MOST, &ret->name, "its name", e);
	if (!rc)
		rc = want_count(json_array_get(v, 1), regimes, &regime, "its regime", e);
	ret->regime = (uint32_t)regime;
	if (!rc)
		rc = want_count(json_array_get(v, 2), INT64_MAX, &ret->count, "its count", e);
	if (!rc)
		rc = want_real(json_array_get(v, 3), -DBL_MAX, DBL_MAX, &ret->median, "its median",
			       e);
	if (!rc)
		rc = want_real(json_array_get(v, 4), DBL_MIN, DBL_MAX, &ret->sigma, "its sigma", e);
	return rc;
}

static int parse_counters(const json_t *v, struct model *m, struct err *e)
{
	int rc = want_array(v, 0, COUNTERS_MOST, "'counters'", e);
	for (size_t i = 0; !rc && i < json_array_size(v); i++) {
		rc = parse_counter(json_array_get(v, i), m->regimes.len, vec_push(&m->counters), e);
		if (rc)
			err_wrap(e, rc, "counter %zu", i + 1);
	}
	return rc;
}

static int parse_regime(const json_t *v, struct model_regime *ret, struct err *e)
{
	double share, sum = 0;
	/* Models of before have one number more, which nobody asks for any more. */
	int rc = want_array(v, REGIME_PLACES + 1, REGIME_PLACES + 2, "it", e);
	if (!rc)
		rc = want_count(json_array_get(v, 0), INT64_MAX, &ret->windows, "its windows", e);
	for (size_t i = 0; !rc && i < REGIME_PLACES; i++) {
		rc = want_real(json_array_get(v, i + 1), 0, 1, &share, "a share", e);
		if (rc)
			return rc;
		ret->places[i] = (float)share;
		sum += share;
	}
	if (!rc && fabs(sum - 1) > 1e-3)
		rc = err_set(e, EINVAL, "its shares do not sum to 1");
	return rc;
}

static int parse_regimes(const json_t *v, struct model *m, struct err *e)
{
	int rc = want_array(v, 0, REGIMES_MOST, "'regimes'", e);
	for (size_t i = 0; !rc && i < json_array_size(v); i++) {
		rc = parse_regime(json_array_get(v, i), vec_push(&m->regimes), e);
		if (rc)
			err_wrap(e, rc, "regime %zu", i + 1);
	}
	return rc;
}

/* A job whose calls tell no speed has none. */
static int parse_tails(const json_t *list, struct pace_tail tails[PACE_TAILS], struct err *e)
{
	int rc = 0;
	if (!list)
		return 0; /* of an older model */
	if (json_array_size(list) != PACE_TAILS)
		return err_set(e, EINVAL, "'tails' of the clock is not a list of %d", PACE_TAILS);
	for (size_t i = 0; i < PACE_TAILS && !rc; i++) {
		double of[4];
		rc = want_reals(json_array_get(list, i), 4, 0, 1e6, of, "'tails'", e);
		if (!rc && !(of[1] > 0 && of[2] > 0 && of[3] > 0))
			rc = err_set(e, EINVAL, "a tail of the clock falls nowhere");
		if (!rc)
			tails[i] = (struct pace_tail){of[0], of[1], of[2], of[3]};
	}
	return rc;
}

static int parse_clock(const json_t *o, struct model *m, struct err *e)
{
	struct model_clock *c = &m->clock;
	if (!o)
		return 0;
	if (!json_is_object(o))
		return err_set(e, EINVAL, "'clock' is not an object");
	int rc = want_layer(json_object_get(o, "layer"), &m->named, &c->layer, e);
	if (!rc)
		rc = want_bool(json_object_get(o, "waits"), &c->waits, "'waits'", e);
	if (!rc)
		rc = want_bool(json_object_get(o, "wall"), &c->wall, "'wall'", e);
	if (!rc)
		rc = want_count(json_object_get(o, "windows"), INT64_MAX, &c->windows,
				"'windows' of the clock", e);
	if (!rc)
		rc = want_count(json_object_get(o, "start_ns"), LAUNCH_START_MOST_NS, &c->start_ns,
				"'start_ns'", e);
	if (!rc)
		rc = want_real(json_object_get(o, "centre"), -100, 100, &c->centre, "'centre'", e);
	if (!rc)
		rc = want_real(json_object_get(o, "sigma"), DBL_MIN, 100, &c->sigma, "'sigma'", e);
	if (!rc && json_object_get(o, "cpu_slope"))
		rc = want_real(json_object_get(o, "cpu_slope"), 1e-6, 10, &c->cpu_slope,
			       "'cpu_slope'", e);
	if (!rc && c->cpu_slope > 0)
		rc = want_real(json_object_get(o, "work_ns"), 1, 1e9, &c->work_ns, "'work_ns'", e);
	if (!rc && json_object_get(o, "counted"))
		rc = want_real(json_object_get(o, "counted"), 1e-6, 1e6, &c->counted, "'counted'",
			       e);
	if (!rc)
		rc = want_reals(json_object_get(o, "calls_per_s"), CLOCK_PLACES, 0, 1e12,
				c->calls_per_s, "'calls_per_s'", e);
	if (!rc)
		rc = want_reals(json_object_get(o, "share"), CLOCK_PLACES, 0, 1, c->share,
				"'share'", e);
	if (!rc)
		rc = want_reals(json_object_get(o, "most"), CLOCK_PLACES, 0, 1e12, c->most,
				"'most'", e);
	if (!rc && !json_object_get(o, "peak"))
		rc = err_set(e, EINVAL,
			     "its clock counts calls as an older eacgm did: learn the model again");
	if (!rc)
		rc = want_reals(json_object_get(o, "peak"), CLOCK_PLACES, 0, 1e12, c->peak,
				"'peak'", e);
	return rc ? rc : parse_tails(json_object_get(o, "tails"), c->tails, e);
}

/* ---- mixtures ---- */

static int parse_columns(const json_t *v, struct model_mixture *m, struct err *e)
{
	int rc = want_array(v, 1, FEATURES_MOST, "'columns'", e);
	if (rc)
		return rc;
	for (size_t i = 0; i < json_array_size(v); i++) {
		rc = want_text(json_array_get(v, i), TEXT_MOST, &m->names[i], "a column's name", e);
		if (rc)
			return rc;
		m->columns++; /* those that model_free has to free */
	}
	return 0;
}

/* Each component's d x d values, from what stands in the file. */
static int parse_covariances(const json_t *v, struct gmm *g, struct err *e)
{
	size_t d = g->d, all = d * d, values = g->covariance == GMM_DIAGONAL ? d : all;
	size_t matrices = g->covariance == GMM_TIED ? 1 : g->components;
	double *c = xcalloc(matrices * values, sizeof(*c));
	int rc = want_rows(v, matrices, values, c, "'covariances'", e);
	g->covariances = xcalloc(g->components * all, sizeof(double));
	for (size_t k = 0; k < g->components; k++) {
		double *to = g->covariances + k * all;
		const double *from = c + (g->covariance == GMM_TIED ? 0 : k * values);
		if (values == all)
			memcpy(to, from, all * sizeof(double));
		else
			for (size_t i = 0; i < d; i++)
				to[i * d + i] = from[i];
	}
	free(c);
	return rc;
}

static int parse_fit(const json_t *o, struct gmm *g, struct err *e)
{
	uint64_t iterations = 0;
	int rc = want_count(json_object_get(o, "rows"), INT64_MAX, &g->rows, "'rows'", e);
	if (!rc)
		rc = want_count(json_object_get(o, "rows_left"), INT64_MAX, &g->rows_left,
				"'rows_left'", e);
	if (!rc)
		rc = want_count(json_object_get(o, "trimmed"), g->rows, &g->trimmed, "'trimmed'",
				e);
	if (!rc)
		rc = want_real(json_object_get(o, "log_density"), -DBL_MAX, DBL_MAX,
			       &g->log_density, "'log_density'", e);
	if (!rc)
		rc = want_real(json_object_get(o, "bic"), -DBL_MAX, DBL_MAX, &g->bic, "'bic'", e);
	if (!rc)
		rc = want_count(json_object_get(o, "iterations"), UINT32_MAX, &iterations,
				"'iterations'", e);
	if (!rc && !json_is_boolean(json_object_get(o, "converged")))
		rc = err_set(e, EINVAL, "'converged' is not true or false");
	g->iterations = (uint32_t)iterations;
	g->converged = json_is_true(json_object_get(o, "converged"));
	return rc;
}

static int parse_gmm(const json_t *o, uint32_t columns, struct gmm *g, struct err *e)
{
	size_t covariance = 0;
	const json_t *weights = json_object_get(o, "weights");
	int rc = want_name(json_object_get(o, "covariance"), covariance_names, GMM_COVARIANCES,
			   &covariance, "'covariance'", e);
	if (!rc)
		rc = want_array(weights, 1, GMM_MAX_K, "'weights'", e);
	if (rc)
		return rc;
	g->d = columns;
	g->components = (uint32_t)json_array_size(weights);
	g->covariance = (enum gmm_covariance)covariance;
	g->weights = xcalloc(g->components, sizeof(double));
	g->means = xcalloc((size_t)g->components * g->d, sizeof(double));
	rc = want_reals(weights, g->components, 0, 1, g->weights, "'weights'", e);
	if (!rc)
		rc = want_rows(json_object_get(o, "means"), g->components, g->d, g->means,
			       "'means'", e);
	if (!rc)
		rc = parse_covariances(json_object_get(o, "covariances"), g, e);
	if (!rc)
		rc = parse_fit(o, g, e);
	return rc ? rc : gmm_complete(g, e);
}

static int parse_bics(const json_t *v, double *bics, struct err *e)
{
	int rc = want_array(v, 0, GMM_MAX_K, "'bics'", e);
	for (size_t i = 0; !rc && i < json_array_size(v); i++)
		if (!json_is_null(json_array_get(v, i)))
			rc = want_real(json_array_get(v, i), -DBL_MAX, DBL_MAX, &bics[i],
				       "one of 'bics'", e);
	return rc;
}

static int parse_tail(const json_t *o, struct tail *t, struct err *e)
{
	if (json_is_null(o))
		return 0;
	if (!json_is_object(o))
		return err_set(e, EINVAL, "'tail' is not an object");
	int rc = want_count(json_object_get(o, "n"), INT64_MAX, &t->n, "'n' of the tail", e);
	if (!rc)
		rc = want_real(json_object_get(o, "start"), -DBL_MAX, DBL_MAX, &t->start,
			       "'start' of the tail", e);
	if (!rc)
		rc = want_real(json_object_get(o, "start_ratio"), DBL_MIN, 1, &t->start_ratio,
			       "'start_ratio' of the tail", e);
	if (!rc)
		rc = want_real(json_object_get(o, "shape"), -0.5, 1, &t->shape,
			       "'shape' of the tail", e);
	if (!rc)
		rc = want_real(json_object_get(o, "scale"), DBL_MIN, DBL_MAX, &t->scale,
			       "'scale' of the tail", e);
	if (!rc)
		rc = want_reals(json_object_get(o, "points"), TAIL_POINTS, -DBL_MAX, DBL_MAX,
				t->points, "'points' of the tail", e);
	for (size_t i = 1; !rc && i < TAIL_POINTS; i++)
		if (t->points[i] < t->points[i - 1])
			rc = err_set(e, EINVAL, "'points' of the tail do not ascend");
	if (!rc && !t->n)
		rc = err_set(e, EINVAL, "'n' of the tail is 0");
	return rc;
}

static int parse_mixture(const json_t *o, struct model_mixture *m, struct err *e)
{
	if (!json_is_object(o))
		return err_set(e, EINVAL, "it is not an object");
	int rc = parse_columns(json_object_get(o, "columns"), m, e);
	if (!rc)
		rc = want_reals(json_object_get(o, "centre"), m->columns, -DBL_MAX, DBL_MAX,
				m->centre, "'centre'", e);
	if (!rc)
		rc = want_reals(json_object_get(o, "scale"), m->columns, DBL_MIN, DBL_MAX, m->scale,
				"'scale'", e);
	if (!rc)
		rc = parse_gmm(o, m->columns, &m->gmm, e);
	if (!rc)
		rc = parse_bics(json_object_get(o, "bics"), m->bics, e);
	if (!rc && json_object_get(o, "cusum_ratio"))
		rc = want_real(json_object_get(o, "cusum_ratio"), 0, 1000, &m->cusum_ratio,
			       "'cusum_ratio'", e);
	return rc ? rc : parse_tail(json_object_get(o, "tail"), &m->tail, e);
}

/* There may be none. */
static int parse_helpers(const json_t *o, struct model *m, struct err *e)
{
	int rc = o && m->kind == MODEL_JOB ? parse_mixture(o, &m->helpers, e) : 0;
	return rc ? err_wrap(e, rc, "'helpers'") : 0;
}

/* Of a table one mixture, "table"; layers that this version does not know are left out. */
static int parse_layers(const json_t *o, struct model *m, struct err *e)
{
	int rc = 0;
	if (!json_is_object(o))
		return err_set(e, EINVAL, "'layers' is not an object");
	if (m->kind == MODEL_TABLE) {
		rc = parse_mixture(json_object_get(o, "table"), &m->layers[0], e);
		return rc ? err_wrap(e, rc, "'table'") : 0;
	}
	const char *name;
	json_t *mixture;
	json_object_foreach ((json_t *)o, name, mixture) {
		enum detect_layer l = detect_layer_add(&m->named, name);
		if (l != DETECT_LAYERS)
			rc = parse_mixture(mixture, &m->layers[l], e);
		if (rc)
			return err_wrap(e, rc, "layer '%s'", name);
	}
	return 0;
}

/* ---- the whole ---- */

static int parse_model(const json_t *o, struct model *m, struct err *e)
{
	static const char *const kinds[] = {"job", "table"};
	size_t kind = 0;
	uint64_t without = 0, recordings = 0;
	int rc = want_name(json_object_get(o, "kind"), kinds, 2, &kind, "'kind'", e);
	m->kind = kind ? MODEL_TABLE : MODEL_JOB;
	if (!rc)
		rc = want_text(json_object_get(o, "origin"), TEXT_MOST, &m->origin, "'origin'", e);
	if (!rc)
		rc = want_count(json_object_get(o, "window_ns"), 3600000000000ULL, &m->window_ns,
				"'window_ns'", e);
	if (!rc && m->kind == MODEL_JOB && m->window_ns < 1000000)
		rc = err_set(e, EINVAL, "'window_ns' is less than a millisecond");
	if (!rc)
		rc = want_real(json_object_get(o, "seconds"), 0, 1e12, &m->seconds, "'seconds'", e);
	if (!rc && json_object_get(o, "without"))
		rc = want_count(json_object_get(o, "without"), UINT32_MAX, &without, "'without'",
				e);
	if (!rc && json_object_get(o, "recordings"))
		rc = want_count(json_object_get(o, "recordings"), UINT32_MAX, &recordings,
				"'recordings'", e);
	m->without = (unsigned)without;
	m->recordings = (uint32_t)recordings;
	if (!rc)
		rc = setting_parse(&m->setting, json_object_get(o, "setting"), e);
	if (!rc)
		rc = parse_keys(json_object_get(o, "keys"), m, e);
	if (!rc)
		rc = parse_regimes(json_object_get(o, "regimes"), m, e);
	if (!rc)
		rc = parse_clock(json_object_get(o, "clock"), m, e);
	if (!rc)
		rc = parse_counters(json_object_get(o, "counters"), m, e);
	if (!rc)
		rc = parse_layers(json_object_get(o, "layers"), m, e);
	return rc ? rc : parse_helpers(json_object_get(o, "helpers"), m, e);
}

static int check_version(const json_t *o, const char *name, struct err *e)
{
	const json_t *version = json_object_get(o, "eacgm_model");
	if (!json_is_integer(version) || json_integer_value(version) < 1)
		return err_set(e, EINVAL, "'%s' is not a model of 'eacgm learn'", name);
	if (json_integer_value(version) > 1)
		return err_set(e, EINVAL,
			       "'%s' is of version %lld, and this eacgm reads models of version 1",
			       name, (long long)json_integer_value(version));
	return 0;
}

int model_parse(struct model *ret, const char *text, size_t len, const char *name, struct err *e)
{
	json_error_t why;
	json_t *o = json_loadb(len ? text : "", len, JSON_REJECT_DUPLICATES, &why);
	if (!o)
		return err_set(e, EINVAL,
			       "'%s' is not a model of 'eacgm learn': it is no JSON (line %d)",
			       name, why.line);
	struct model m;
	model_init(&m);
	int rc = check_version(o, name, e);
	if (!rc) {
		rc = parse_model(o, &m, e);
		if (rc)
			err_wrap(e, rc, "'%s' is a damaged model", name);
	}
	json_decref(o);
	if (rc)
		model_free(&m);
	else
		*ret = m;
	return rc;
}

/* model_file_test.c - models through their file: the same to the bit; damage is refused with a
 * sentence that says where; nothing is left behind where a file cannot be written.
 * links: base analyze detect */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "detect/judge.h"
#include "detect/model_file.h"
#include "mixture_score.h"

/* ---- models whose numbers need all their digits ---- */

static double odd(size_t i)
{
	return sin((double)i + 0.1) / 3;
}

static void fill_mixture(struct model_mixture *m, uint32_t d, uint32_t components,
			 enum gmm_covariance covariance)
{
	struct gmm *g = &m->gmm;
	struct err e = {0};
	*g = (struct gmm){.d = d, .components = components, .covariance = covariance};
	g->weights = xcalloc(components, sizeof(double));
	g->means = xcalloc((size_t)components * d, sizeof(double));
	g->covariances = xcalloc((size_t)components * d * d, sizeof(double));
	for (uint32_t k = 0; k < components; k++) {
		g->weights[k] = (k + 1) * 2.0 / (components * (components + 1.0));
		for (uint32_t i = 0; i < d; i++)
			g->means[k * d + i] = odd(k * 7 + i);
		size_t like = covariance == GMM_TIED ? 0 : k;
		for (uint32_t i = 0; i < d; i++)
			for (uint32_t j = 0; j < d; j++)
				g->covariances[(k * d + i) * d + j] =
					i == j			     ? 1.1 + odd(like + i)
					: covariance == GMM_DIAGONAL ? 0
								     : 0.3 / (like + 1 + i + j);
	}
	g->rows = 1234;
	g->rows_left = 5;
	g->trimmed = 6;
	g->log_density = -odd(3);
	g->bic = 1e5 / 7;
	g->iterations = 17;
	g->converged = true;
	assert_int_equal(gmm_complete(g, &e), 0);
	m->columns = d;
	for (uint32_t i = 0; i < d; i++) {
		char name[16];
		snprintf(name, sizeof(name), "column %u", i);
		m->names[i] = xstrdup(name);
		m->centre[i] = odd(i + 40);
		m->scale[i] = 1 / 3.0 + i;
	}
	m->cusum_ratio = 1.3;
	m->bics[0] = 1e5;
	m->bics[2] = 1e5 / 3;
	m->tail =
		(struct tail){.n = 999, .start = 2.2, .start_ratio = 0.1, .shape = 0.1, .scale = 1};
	for (size_t i = 0; i < TAIL_POINTS; i++)
		m->tail.points[i] = (double)i / 115;
}

static void make_job(struct model *m)
{
	model_init(m);
	m->origin = xstrdup("a.eacgm, \"b\" of host \xc3\xa9");
	m->window_ns = 1000000000;
	m->seconds = 61.7;
	m->recordings = 3;
	m->without = 5;
	setting_add(&m->setting, "host", "gpu7");
	setting_add(&m->setting, "host", "gpu8");
	*vec_push(&m->keys) = (struct model_key){
		.layer = DETECT_TORCH,
		.text = xstrdup("aten::addmm [128,768][768,3072]"),
		.duration = {100, 11.2, 0.1, 81234.5, 91234.5},
		.gap = {99, -0.1, 2.1, 10, 1e9},
	};
	*vec_push(&m->keys) = (struct model_key){
		.layer = DETECT_CUDA, .text = xstrdup(""), .duration = {8, 0, 0.02, 1, 1}};
	*vec_push(&m->keys) = (struct model_key){.layer = detect_layer_add(&m->named, "mylib"),
						 .text = xstrdup("mylib_call"),
						 .duration = {9, 5, 0.1, 150, 200}};
	*vec_push(&m->counters) = (struct model_counter){xstrdup("power_w"), 1, 500, 412.3, 0.7};
	struct model_regime *r = vec_push(&m->regimes);
	r->windows = 60;
	r->places[0] = 0.1f;
	r->places[REGIME_PLACES - 1] = 0.9f;
	m->clock.layer = DETECT_TORCH;
	m->clock.waits = true;
	m->clock.windows = 60;
	m->clock.centre = -0.01;
	m->clock.sigma = 1.0 / 30;
	m->clock.counted = 14.0 / 3;
	m->clock.work_ns = 2500.0 / 3;
	m->clock.cpu_slope = 2.0 / 3;
	for (size_t i = 0; i < PACE_TAILS; i++)
		m->clock.tails[i] = (struct pace_tail){(double)i / 7, 0.5, 65, 60.0 / 7};
	for (size_t i = 0; i < CLOCK_PLACES; i++) {
		m->clock.calls_per_s[i] = (double)i * 1e4 / 3;
		m->clock.share[i] = 1.0 / CLOCK_PLACES;
		m->clock.most[i] = 1.25 + (double)i / 7;
		m->clock.peak[i] = (double)i * 1e3 / 7;
	}
	fill_mixture(&m->layers[DETECT_CUDA], 4, 3, GMM_FULL);
	fill_mixture(&m->layers[DETECT_TORCH], 2, 2, GMM_DIAGONAL);
	fill_mixture(&m->layers[DETECT_STEP], 16, 2, GMM_TIED);
	fill_mixture(&m->layers[DETECT_NAMED], 3, 2, GMM_FULL);
	fill_mixture(&m->helpers, 5, 2, GMM_FULL);
	m->layers[DETECT_TORCH].tail = (struct tail){0};
}

static char *print(const struct model *m)
{
	char *text;
	size_t len;
	struct err e = {0};
	int rc = model_print(m, &text, &len, &e);
	if (rc)
		fail_msg("%s", e.msg);
	assert_int_equal(strlen(text), len);
	return text;
}

/* ---- the way there and back ---- */

static void compare_reals(const double *a, const double *b, size_t n)
{
	assert_memory_equal(a, b, n * sizeof(double));
}

static void compare_mixtures(const struct model_mixture *a, const struct model_mixture *b)
{
	size_t d = a->gmm.d, k = a->gmm.components;
	assert_int_equal(a->columns, b->columns);
	if (!a->columns)
		return;
	for (uint32_t i = 0; i < a->columns; i++)
		assert_string_equal(a->names[i], b->names[i]);
	assert_int_equal(b->gmm.components, k);
	assert_int_equal(b->gmm.covariance, a->gmm.covariance);
	compare_reals(a->centre, b->centre, d);
	compare_reals(a->scale, b->scale, d);
	compare_reals(a->gmm.weights, b->gmm.weights, k);
	compare_reals(a->gmm.means, b->gmm.means, k * d);
	compare_reals(a->gmm.covariances, b->gmm.covariances, k * d * d);
	compare_reals(a->gmm.inverses, b->gmm.inverses, k * d * d);
	assert_memory_equal(&a->tail, &b->tail, sizeof(a->tail));
	assert_true(a->gmm.rows == b->gmm.rows && a->gmm.rows_left == b->gmm.rows_left &&
		    a->gmm.trimmed == b->gmm.trimmed && a->gmm.bic == b->gmm.bic &&
		    a->gmm.log_density == b->gmm.log_density &&
		    a->gmm.iterations == b->gmm.iterations && b->gmm.converged &&
		    a->cusum_ratio == b->cusum_ratio);
	for (size_t i = 0; i < GMM_MAX_K; i++)
		assert_true(isnan(a->bics[i]) ? isnan(b->bics[i]) : a->bics[i] == b->bics[i]);
}

static void compare_models(const struct model *a, const struct model *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_string_equal(a->origin, b->origin);
	assert_true(a->window_ns == b->window_ns && a->seconds == b->seconds &&
		    a->recordings == b->recordings && a->without == b->without);
	assert_null(setting_difference(&a->setting, &b->setting));
	assert_int_equal(a->setting.facts.len, b->setting.facts.len);
	assert_int_equal(a->keys.len, b->keys.len);
	for (size_t i = 0; i < a->keys.len; i++) {
		const struct model_key *x = &a->keys.data[i], *y = &b->keys.data[i];
		assert_string_equal(x->text, y->text);
		assert_int_equal(x->layer, y->layer);
		assert_memory_equal(&x->duration, &y->duration, sizeof(x->duration));
		assert_memory_equal(&x->gap, &y->gap, sizeof(x->gap));
	}
	assert_int_equal(a->counters.len, b->counters.len);
	for (size_t i = 0; i < a->counters.len; i++) {
		const struct model_counter *x = &a->counters.data[i], *y = &b->counters.data[i];
		assert_string_equal(x->name, y->name);
		assert_true(x->regime == y->regime && x->count == y->count &&
			    x->median == y->median && x->sigma == y->sigma);
	}
	assert_true(a->clock.layer == b->clock.layer && a->clock.waits == b->clock.waits &&
		    a->clock.windows == b->clock.windows && a->clock.counted == b->clock.counted &&
		    a->clock.work_ns == b->clock.work_ns &&
		    a->clock.cpu_slope == b->clock.cpu_slope &&
		    a->clock.centre == b->clock.centre && a->clock.sigma == b->clock.sigma);
	assert_memory_equal(a->clock.tails, b->clock.tails, sizeof(a->clock.tails));
	for (size_t i = 0; i < CLOCK_PLACES && a->clock.layer < DETECT_LAYERS; i++)
		assert_true(a->clock.calls_per_s[i] == b->clock.calls_per_s[i] &&
			    a->clock.share[i] == b->clock.share[i] &&
			    a->clock.most[i] == b->clock.most[i] &&
			    a->clock.peak[i] == b->clock.peak[i]);
	assert_int_equal(a->regimes.len, b->regimes.len);
	for (size_t i = 0; i < a->regimes.len; i++)
		assert_memory_equal(&a->regimes.data[i], &b->regimes.data[i],
				    sizeof(a->regimes.data[i]));
	assert_int_equal(a->named.len, b->named.len);
	for (uint32_t l = 0; l < DETECT_LAYERS; l++)
		assert_string_equal(detect_layer_name(&a->named, l),
				    detect_layer_name(&b->named, l));
	compare_mixtures(&a->helpers, &b->helpers);
	for (int l = 0; l < DETECT_LAYERS; l++)
		compare_mixtures(&a->layers[l], &b->layers[l]);
}

static void a_model_comes_back_to_the_bit(void **state)
{
	(void)state;
	struct model m, again;
	struct err e = {0};
	make_job(&m);
	char *text = print(&m);
	assert_int_equal(model_parse(&again, text, strlen(text), "m", &e), 0);
	compare_models(&m, &again);
	char *twice = print(&again);
	assert_string_equal(text, twice);
	free(text);
	free(twice);
	model_free(&again);
	model_free(&m);
}

static void a_table_has_one_mixture(void **state)
{
	(void)state;
	struct model m, again;
	struct err e = {0};
	const double row[] = {0.5, 0.25};
	model_init(&m);
	m.kind = MODEL_TABLE;
	m.origin = xstrdup("x.csv");
	fill_mixture(&m.layers[0], 2, 2, GMM_FULL);
	char *text = print(&m);
	assert_int_equal(model_parse(&again, text, strlen(text), "m", &e), 0);
	compare_models(&m, &again);
	double score = mixture_score(&again.layers[0], row);
	assert_true(isfinite(score) && score == mixture_score(&m.layers[0], row));
	free(text);
	model_free(&again);
	model_free(&m);
}

/* ---- damage ---- */

/* In one line; of what was read nothing is left. */
static void refused(const char *text, size_t len, const char *why)
{
	static struct model m, untouched;
	struct err e = {0};
	memset(&m, 0x5a, sizeof(m));
	memset(&untouched, 0x5a, sizeof(untouched));
	assert_int_equal(model_parse(&m, text, len, "m.model", &e), -EINVAL);
	assert_memory_equal(&m, &untouched, sizeof(m));
	if (!strstr(e.msg, why) || strchr(e.msg, '\n'))
		fail_msg("'%s' does not say '%s'", e.msg, why);
}

static void what_is_no_model_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "'m.model' is not a model of 'eacgm learn': it is no JSON"},
		{"{\"eacgm_model\": 1,\n", "it is no JSON (line 2)"},
		{"[]", "'m.model' is not a model of 'eacgm learn'"},
		{"{}", "'m.model' is not a model of 'eacgm learn'"},
		{"{\"eacgm_model\": 2}",
		 "is of version 2, and this eacgm reads models of version 1"},
		{"{\"eacgm_model\": 1, \"eacgm_model\": 1}", "it is no JSON"},
		{"{\"eacgm_model\": 1}", "'m.model' is a damaged model: 'kind'"},
		{"{\"eacgm_model\": 1, \"helpers\": 1e999}", "it is no JSON"},
		{"{\"eacgm_model\": 1, \"helpers\": 9223372036854775808}", "it is no JSON"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refused(cases[i].text, strlen(cases[i].text), cases[i].why);
}

/* Follows "layers.cuda.weights.0" to the place that holds the last part. */
static json_t *place(json_t *root, const char *path, char *last, size_t size)
{
	json_t *at = root;
	for (;;) {
		size_t n = strcspn(path, ".");
		snprintf(last, size, "%.*s", (int)n, path);
		if (!path[n])
			return at;
		at = json_is_array(at) ? json_array_get(at, (size_t)atoi(last))
				       : json_object_get(at, last);
		assert_non_null(at);
		path += n + 1;
	}
}

static void every_value_is_checked(void **state)
{
	(void)state;
	static const struct {
		const char *path, *value, *why;
	} cases[] = {
		{"kind", "\"x\"", "'kind' 'x' is none that is known"},
		{"origin", "3", "'origin' is not a text"},
		{"window_ns", "0", "'window_ns' is less than a millisecond"},
		{"window_ns", "1e9", "'window_ns' is not a whole number"},
		{"seconds", "-1", "'seconds' is not a number from 0"},
		{"without", "-1", "'without' is not a whole number"},
		{"recordings", "-1", "'recordings' is not a whole number"},
		{"recordings", "4294967296", "'recordings' is not a whole number"},
		{"setting", "3", "'setting' is no object"},
		{"clock", "3", "'clock' is not an object"},
		{"clock.layer", "\"gpu\"", "the layer 'gpu' is none that is known"},
		{"clock.sigma", "0", "'sigma' is not a number"},
		{"clock.counted", "1e-300", "'counted' is not a number"},
		{"clock.cpu_slope", "-1", "'cpu_slope' is not a number"},
		{"clock.work_ns", "0", "'work_ns' is not a number"},
		{"clock.windows", "-1", "'windows' of the clock is not a whole number"},
		{"clock.waits", "1", "'waits' is not true or false"},
		{"clock.tails", "[]", "'tails' of the clock is not a list of 5"},
		{"clock.tails", "[[0,0,65,1],[0,0,65,1],[0,0,65,1],[0,0,65,1],[0,0,65,1]]",
		 "a tail of the clock falls nowhere"},
		{"clock.calls_per_s.5", "-1", "'calls_per_s' is not a number"},
		{"clock.share.5", "1.5", "'share' is not a number"},
		{"clock.most", "[1]", "'most' is not a list of 64"},
		{"clock.peak", "[1]", "'peak' is not a list of 64"},
		{"keys", "{}", "'keys' is not a list"},
		{"keys.1.0", "\"gpu\"", "key 2: the layer 'gpu' is none that is known"},
		{"keys.1.0", "\"my\\tlib\"", "key 2: the layer 'my"},
		{"keys.0.1", "null", "key 1: its text is not a text"},
		{"keys.0.2.0", "0", "key 1: a baseline was made of no event"},
		{"keys.0.2.0", "-1", "key 1: its count"},
		{"keys.0.2.1", "46", "key 1: its median is not a number from -45 to 45"},
		{"keys.0.2.2", "0", "key 1: its sigma"},
		{"keys.0.3", "[1,2,3,4]", "key 1: a baseline is not a list of 5"},
		{"counters.0.1", "2", "counter 1: its regime is not a whole number from 0 to 1"},
		{"counters.0.4", "0", "counter 1: its sigma"},
		{"regimes.0.1", "0.5", "regime 1: its shares do not sum to 1"},
		{"regimes.0", "[1]", "regime 1: it is not a list of 129"},
		{"layers", "[]", "'layers' is not an object"},
		{"layers.cuda", "3", "layer 'cuda': it is not an object"},
		{"layers.cuda.columns", "[]", "'columns' is not a list of 1 to 16"},
		{"layers.cuda.centre", "[1,2,3]", "'centre' is not a list of 4"},
		{"layers.cuda.scale.2", "0", "'scale' is not a number"},
		{"layers.cuda.covariance", "\"round\"", "'covariance' 'round'"},
		{"layers.cuda.weights.0", "0.5", "layer 'cuda'"},
		{"layers.cuda.weights", "[]", "'weights' is not a list of 1 to 64"},
		{"layers.cuda.means.1", "[0]", "'means' is not a list of 4"},
		{"layers.cuda.covariances.0.0", "-1", "layer 'cuda'"},
		{"layers.cuda.covariances.0.1", "0.9", "layer 'cuda'"},
		{"layers.step.covariances", "[]", "'covariances' is not a list of 1"},
		{"layers.torch.covariances.1.1", "\"1\"", "'covariances' is not a number"},
		{"layers.cuda.trimmed", "1235", "'trimmed' is not a whole number from 0 to 1234"},
		{"layers.cuda.converged", "1", "'converged' is not true or false"},
		{"layers.cuda.cusum_ratio", "null", "'cusum_ratio' is not a number"},
		{"layers.cuda.bics", "{}", "'bics' is not a list"},
		{"layers.cuda.tail.shape", "1.1", "'shape' of the tail"},
		{"layers.cuda.tail.scale", "0", "'scale' of the tail"},
		{"layers.cuda.tail.n", "0", "'n' of the tail is 0"},
		{"layers.cuda.tail.points.1", "-1", "'points' of the tail do not ascend"},
	};
	struct model m;
	make_job(&m);
	char *text = print(&m);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char last[32];
		json_t *root = json_loads(text, 0, NULL);
		json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
		json_t *at = place(root, cases[i].path, last, sizeof(last));
		if (json_is_array(at))
			json_array_set_new(at, (size_t)atoi(last), value);
		else
			json_object_set_new(at, last, value);
		char *damaged = json_dumps(root, 0);
		refused(damaged, strlen(damaged), cases[i].why);
		free(damaged);
		json_decref(root);
	}
	free(text);
	model_free(&m);
}

/* Its clock has other counts. */
static void a_clock_without_peaks_is_refused(void **state)
{
	(void)state;
	struct model m;
	make_job(&m);
	char *text = print(&m);
	json_t *root = json_loads(text, 0, NULL);
	json_object_del(json_object_get(root, "clock"), "peak");
	char *older = json_dumps(root, 0);
	refused(older, strlen(older), "learn the model again");
	free(older);
	json_decref(root);
	free(text);
	model_free(&m);
}

/* Models that were made before these were written are read: they are unknown. */
static void older_models_are_read(void **state)
{
	(void)state;
	struct model m, again;
	struct err e = {0};
	make_job(&m);
	char *text = print(&m);
	json_t *root = json_loads(text, 0, NULL);
	json_t *regime = json_array_get(json_object_get(root, "regimes"), 0);
	assert_int_equal(json_array_size(regime), REGIME_PLACES + 1);
	json_array_append_new(regime, json_integer(100));
	json_object_del(root, "recordings");
	json_object_del(root, "clock");
	char *older = json_dumps(root, 0);
	if (model_parse(&again, older, strlen(older), "m", &e))
		fail_msg("%s", e.msg);
	assert_true(again.recordings == 0 && again.clock.layer == DETECT_LAYERS);
	m.recordings = 0;
	m.clock = again.clock;
	compare_models(&m, &again);
	model_free(&again);
	json_array_append_new(regime, json_integer(1));
	char *longer = json_dumps(root, 0);
	refused(longer, strlen(longer), "regime 1: it is not a list of 129 to 130");
	json_decref(root);
	free(older);
	free(longer);
	free(text);
	model_free(&m);
}

/* ---- the mixture of helpers ---- */

/* A model whose helpers' columns are counters. */
static json_t *with_helpers(json_t **ret_helpers)
{
	struct model m;
	uint32_t n;
	const struct feature *features = features_of(DETECT_HOST, &n);
	make_job(&m);
	for (uint32_t i = 0; i < m.helpers.columns; i++) {
		free(m.helpers.names[i]);
		m.helpers.names[i] = xstrdup(features[i].name);
	}
	char *text = print(&m);
	json_t *root = json_loads(text, 0, NULL);
	free(text);
	model_free(&m);
	*ret_helpers = json_object_get(root, "helpers");
	return root;
}

/* It is read, and any row can be judged by it. */
static void accepted(const json_t *root, uint32_t columns)
{
	static const double values[] = {0, 1e300, -1e300, NAN};
	struct model m;
	struct err e = {0};
	char *text = json_dumps(root, 0);
	if (model_parse(&m, text, strlen(text), "m", &e))
		fail_msg("%s", e.msg);
	assert_int_equal(m.helpers.columns, columns);
	const struct model_mixture *mixture = model_mixture_of(&m, DETECT_HOST, true);
	assert_ptr_equal(mixture, columns ? &m.helpers : &m.layers[DETECT_HOST]);
	for (size_t v = 0; columns && v < sizeof(values) / sizeof(values[0]); v++) {
		struct feature_row row = {.layer = DETECT_HOST, .pid = 1};
		struct judgement j;
		for (size_t f = 0; f < FEATURES_MOST; f++)
			row.x[f] = values[v];
		judge_row(&j, &m, mixture, false, &row);
		if (!isnan(j.p) && !(j.p >= 0 && j.p <= 1))
			fail_msg("p is %g", j.p);
	}
	model_free(&m);
	free(text);
}

static void helpers_are_refused(const json_t *root)
{
	char *text = json_dumps(root, 0);
	refused(text, strlen(text), "'m.model' is a damaged model: 'helpers': ");
	free(text);
}

static void helpers_are_a_mixture_or_none(void **state)
{
	static const char *const odd[] = {"null", "true", "3", "\"x\"", "[]", "[{}]", "{}"};
	json_t *helpers, *root = with_helpers(&helpers);
	(void)state;
	accepted(root, 5);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		json_object_set_new(root, "helpers", json_loads(odd[i], JSON_DECODE_ANY, NULL));
		helpers_are_refused(root);
	}
	json_object_del(root, "helpers"); /* as in older models */
	accepted(root, 0);
	json_decref(root);
}

/* Each member as what it is not, and missing. */
static void every_member_of_helpers_is_checked(void **state)
{
	static const char *const odd[] = {"null",  "true", "-1",     "1.5",    "1e308",
					  "\"x\"", "[]",   "[[[]]]", "[null]", "{\"n\": {}}"};
	static const struct {
		const char *name, *value; /* NULL: missing */
	} fine[] = {{"log_density", "-1"},  {"log_density", "1.5"}, {"log_density", "1e308"},
		    {"bic", "-1"},	    {"bic", "1.5"},	    {"bic", "1e308"},
		    {"converged", "true"},  {"bics", "[]"},	    {"bics", "[null]"},
		    {"cusum_ratio", "1.5"}, {"cusum_ratio", NULL},  {"tail", "null"}};
	const char *name;
	json_t *value, *helpers, *whole = with_helpers(&helpers);
	size_t members = 0, found_fine = 0;
	(void)state;
	json_object_foreach (helpers, name, value) {
		members++;
		for (size_t i = 0; i <= sizeof(odd) / sizeof(odd[0]); i++) {
			const char *now = i ? odd[i - 1] : NULL;
			json_t *root = json_deep_copy(whole);
			json_t *at = json_object_get(root, "helpers");
			bool is_fine = false;
			for (size_t k = 0; k < sizeof(fine) / sizeof(fine[0]); k++)
				is_fine |=
					!strcmp(name, fine[k].name) &&
					!strcmp(now ? now : "", fine[k].value ? fine[k].value : "");
			json_object_del(at, name);
			if (now)
				json_object_set_new(at, name,
						    json_loads(now, JSON_DECODE_ANY, NULL));
			if (is_fine)
				accepted(root, 5);
			else
				helpers_are_refused(root);
			found_fine += is_fine;
			json_decref(root);
		}
	}
	assert_int_equal(members, 17);
	assert_int_equal(found_fine, sizeof(fine) / sizeof(fine[0]));
	json_decref(whole);
}

/* Calls back with each list in it, the inner ones first. */
static void each_list(json_t *v, const json_t *root, void (*fn)(json_t *list, const json_t *root))
{
	const char *name;
	json_t *of;
	json_object_foreach (v, name, of) {
		if (strcmp(name, "bics") != 0) /* of any length */
			each_list(of, root, fn);
	}
	for (size_t i = 0; i < json_array_size(v); i++)
		each_list(json_array_get(v, i), root, fn);
	if (json_is_array(v))
		fn(v, root);
}

static size_t lists;

/* One element less, none, and one more. */
static void change_length(json_t *list, const json_t *root)
{
	json_t *whole = json_copy(list);
	lists++;
	json_array_remove(list, json_array_size(list) - 1);
	helpers_are_refused(root);
	json_array_clear(list);
	helpers_are_refused(root);
	json_array_extend(list, whole);
	json_array_append(list, json_array_get(whole, 0));
	helpers_are_refused(root);
	json_array_remove(list, json_array_size(list) - 1);
	json_decref(whole);
}

static void lists_of_helpers_have_their_length(void **state)
{
	json_t *helpers, *root = with_helpers(&helpers);
	(void)state;
	lists = 0;
	each_list(helpers, root, change_length);
	assert_int_equal(lists, 4 + 3 + 3 + 1);
	accepted(root, 5);
	json_decref(root);
}

/* Each number in lists, one after the other, as far away as a number can be. */
static void put_huge(json_t *list, const json_t *root)
{
	static const double huge[] = {1e308, -1e308, 1e-308, 5e-324, 0};
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *was = json_incref(json_array_get(list, i));
		for (size_t h = 0; json_is_number(was) && h < 5; h++) {
			struct model m;
			json_array_set_new(list, i, json_real(huge[h]));
			char *text = json_dumps(root, JSON_REAL_PRECISION(17));
			if (model_parse(&m, text, strlen(text), "m", NULL)) {
				helpers_are_refused(root);
			} else {
				model_free(&m);
				accepted(root, 5);
				lists++;
			}
			free(text);
		}
		json_array_set_new(list, i, was);
	}
}

static void huge_numbers_of_helpers_are_survived(void **state)
{
	json_t *helpers, *root = with_helpers(&helpers);
	(void)state;
	lists = 0;
	each_list(helpers, root, put_huge);
	assert_true(lists > 5 * 5 + 2 * 5 * 5); /* centres and means may be anything */
	json_decref(root);
}

/* A table has no processes. */
static void helpers_of_a_table_are_left_out(void **state)
{
	struct model m;
	json_t *helpers, *root = with_helpers(&helpers);
	(void)state;
	model_init(&m);
	m.kind = MODEL_TABLE;
	m.origin = xstrdup("x.csv");
	fill_mixture(&m.layers[0], 2, 2, GMM_FULL);
	char *text = print(&m);
	json_t *table = json_loads(text, 0, NULL);
	json_object_set(table, "helpers", helpers);
	accepted(table, 0);
	json_decref(table);
	json_decref(root);
	free(text);
	model_free(&m);
}

/* Cut anywhere, or with a byte changed: refused, or a model that can be written again. */
static void any_damage_is_survived(void **state)
{
	(void)state;
	struct model m, again;
	make_job(&m);
	char *text = print(&m);
	size_t len = strlen(text);
	for (size_t i = 0; i < len; i += 97)
		refused(text, i, "it is no JSON");
	for (size_t i = 0; i < len; i += 31) {
		char was = text[i];
		text[i] = (char)(was ^ (1 << i % 7));
		if (!model_parse(&again, text, len, "m", NULL)) {
			free(print(&again));
			model_free(&again);
		}
		text[i] = was;
	}
	free(text);
	model_free(&m);
}

static void numbers_that_are_not_finite_are_not_written(void **state)
{
	(void)state;
	struct model m;
	struct err e = {0};
	char *text;
	size_t len;
	make_job(&m);
	m.layers[DETECT_CUDA].centre[1] = NAN;
	assert_int_equal(model_print(&m, &text, &len, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "'centre' is not a number"));
	model_free(&m);
}

/* ---- files ---- */

static char folder[] = "/tmp/eacgm-model-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/m.model", folder);
	return 0;
}

/* Fails where something else was left there. */
static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static void a_file_is_replaced_as_a_whole(void **state)
{
	(void)state;
	struct model m, again;
	struct err e = {0};
	make_job(&m);
	assert_int_equal(model_write(&m, path, NULL, &e), 0);
	assert_int_equal(model_read(&again, path, &e), 0);
	compare_models(&m, &again);
	model_free(&again);

	/* a disk that is full */
	struct rlimit old, small = {4096, 4096};
	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	m.seconds = 1;
	assert_int_equal(model_write(&m, path, NULL, &e), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_non_null(strstr(e.msg, "cannot write '"));
	assert_int_equal(model_read(&again, path, &e), 0);
	assert_true(again.seconds == 61.7);
	model_free(&again);
	assert_int_equal(model_write(&m, "/dev/full", NULL, &e), -ENOSPC);
	assert_string_equal(e.msg, "cannot write '/dev/full': No space left on device");
	assert_int_equal(model_write(&m, "/nonexistent/m", NULL, &e), -ENOENT);
	model_free(&m);
}

static void files_that_cannot_be_read(void **state)
{
	(void)state;
	struct model m;
	struct err e = {0};
	assert_int_equal(model_read(&m, "/nonexistent/m", &e), -ENOENT);
	assert_string_equal(e.msg, "cannot read '/nonexistent/m': No such file or directory");
	assert_int_equal(model_read(&m, "/tmp", &e), -EISDIR);
	assert_int_equal(model_read(&m, "/dev/zero", &e), -EINVAL);
	assert_non_null(strstr(e.msg, "'/dev/zero' is larger than a model may be"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_model_comes_back_to_the_bit),
		cmocka_unit_test(a_table_has_one_mixture),
		cmocka_unit_test(what_is_no_model_is_refused),
		cmocka_unit_test(every_value_is_checked),
		cmocka_unit_test(older_models_are_read),
		cmocka_unit_test(a_clock_without_peaks_is_refused),
		cmocka_unit_test(helpers_are_a_mixture_or_none),
		cmocka_unit_test(every_member_of_helpers_is_checked),
		cmocka_unit_test(lists_of_helpers_have_their_length),
		cmocka_unit_test(huge_numbers_of_helpers_are_survived),
		cmocka_unit_test(helpers_of_a_table_are_left_out),
		cmocka_unit_test(any_damage_is_survived),
		cmocka_unit_test(numbers_that_are_not_finite_are_not_written),
		cmocka_unit_test(a_file_is_replaced_as_a_whole),
		cmocka_unit_test(files_that_cannot_be_read),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* gmm_sklearn_test.c - mixtures against what scikit-learn makes of the same data from the same
 * beginning: tests/golden/gmm/NAME.json, written by make.py there. Finds the source tree by
 * EACGM_SOURCE_ROOT, else in the current folder.
 *
 * links: base analyze */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "analyze/gmm.h"
#include "base/buffer.h"

#define CLOSE 1e-6 /* relative */

static const char *const sets[] = {"apart",	"overlapping", "scales",     "offset",
				   "collinear", "needles",     "duplicates", "uneven",
				   "wide",	"line",	       "distant"};
static const char *const kinds[] = GMM_COVARIANCE_NAMES;

struct set {
	const char *name;
	json_t *json;
	double *rows, *means;
	size_t n;
	struct gmm_options o;
	uint32_t d;
};

/* A number of an array; of an array of arrays, counted through. */
static double number_at(const json_t *array, size_t i)
{
	const json_t *v = json_array_get(array, i);
	if (json_is_array(json_array_get(array, 0))) {
		size_t width = json_array_size(json_array_get(array, 0));
		v = json_array_get(json_array_get(array, i / width), i % width);
	}
	assert_true(json_is_number(v));
	return json_number_value(v);
}

static double *numbers(const json_t *array, size_t n)
{
	double *ret = xcalloc(n, sizeof(*ret));
	for (size_t i = 0; i < n; i++)
		ret[i] = number_at(array, i);
	return ret;
}

static void set_open(struct set *s, const char *name)
{
	const char *root = getenv("EACGM_SOURCE_ROOT");
	char *path = xasprintf("%s/tests/golden/gmm/%s.json", root ? root : ".", name);
	json_error_t e;
	*s = (struct set){.name = name, .json = json_load_file(path, 0, &e)};
	if (!s->json)
		fail_msg("%s: %s", path, e.text);
	free(path);
	s->d = (uint32_t)json_integer_value(json_object_get(s->json, "d"));
	s->n = json_array_size(json_object_get(s->json, "rows"));
	s->rows = numbers(json_object_get(s->json, "rows"), s->n * s->d);
	s->o = (struct gmm_options){
		.components = (uint32_t)json_integer_value(json_object_get(s->json, "components")),
		.tolerance = json_number_value(json_object_get(s->json, "tolerance")),
		.covariance_floor = json_number_value(json_object_get(s->json, "floor")),
		.iterations = 300,
	};
	s->means = numbers(json_object_get(s->json, "means"), (size_t)s->o.components * s->d);
	assert_true(s->n >= 100);
}

static void set_close(struct set *s)
{
	free(s->rows);
	free(s->means);
	json_decref(s->json);
}

static void assert_close(const struct set *s, const char *what, size_t i, double got, double want,
			 double scale)
{
	if (!(fabs(got - want) <= CLOSE * scale))
		fail_msg("%s, %s, %s %zu: %.17g, of scikit-learn %.17g", s->name,
			 kinds[s->o.covariance], what, i, got, want);
}

/* Means and covariances are compared in units of their size or of the standard deviations, what is
 * larger: of 0 nothing is within a share. */
static void parameters_compare(const struct set *s, const struct gmm *m, const json_t *want)
{
	size_t d = m->d, k = m->components;
	const json_t *weights = json_object_get(want, "weights");
	const json_t *means = json_object_get(want, "means");
	const json_t *covariances = json_object_get(want, "covariances");
	for (size_t i = 0; i < k; i++)
		assert_close(s, "weight", i, m->weights[i], number_at(weights, i),
			     number_at(weights, i));
	for (size_t i = 0; i < k * d; i++) {
		double deviation = sqrt(number_at(covariances, i / d * d * d + i % d * (d + 1)));
		assert_close(s, "mean", i, m->means[i], number_at(means, i),
			     fmax(fabs(number_at(means, i)), deviation));
	}
	for (size_t i = 0; i < k * d * d; i++) {
		size_t of = i / (d * d) * d * d, row = i / d % d, column = i % d;
		double a = number_at(covariances, of + row * (d + 1));
		double b = number_at(covariances, of + column * (d + 1));
		assert_close(s, "covariance", i, m->covariances[i], number_at(covariances, i),
			     sqrt(a * b));
	}
}

static void fit_compare(struct set *s, enum gmm_covariance kind)
{
	const json_t *want = json_object_get(json_object_get(s->json, "kinds"), kinds[kind]);
	double log_density = json_number_value(json_object_get(want, "log_density"));
	double bic = json_number_value(json_object_get(want, "bic"));
	struct gmm m;
	struct err e = {0};
	s->o.covariance = kind;
	s->o.means = s->means;
	if (gmm_fit(&m, s->rows, s->n, s->d, &s->o, &e))
		fail_msg("%s: %s", s->name, e.msg);
	assert_close(s, "log density", 0, m.log_density, log_density, fabs(log_density));
	assert_close(s, "bic", 0, m.bic, bic, fabs(bic));
	parameters_compare(s, &m, want);
	assert_int_equal(m.iterations, json_integer_value(json_object_get(want, "iterations")));
	assert_int_equal(m.converged, json_is_true(json_object_get(want, "converged")));
	assert_int_equal(m.components, s->o.components);
	gmm_free(&m);
}

static void fits_are_equal(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		struct set s;
		set_open(&s, sets[i]);
		for (int kind = 0; kind < GMM_COVARIANCES; kind++)
			fit_compare(&s, (enum gmm_covariance)kind);
		set_close(&s);
	}
}

/* Both look for the best of ten starts of their own; so BIC may be lower, but not higher. */
static void bic_chooses_as_many(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		struct set s;
		struct gmm m;
		struct err e = {0};
		double bics[GMM_MAX_K];
		set_open(&s, sets[i]);
		const json_t *want = json_object_get(s.json, "bics");
		uint32_t most = (uint32_t)json_array_size(want), least = 0;
		for (uint32_t k = 1; k < most; k++)
			if (number_at(want, k) < number_at(want, least))
				least = k;
		s.o.starts = 10;
		s.o.seed = 3;
		assert_int_equal(gmm_select(&m, s.rows, s.n, s.d, most, &s.o, bics, &e), 0);
		if (m.components != least + 1)
			fail_msg("%s: %u components, scikit-learn takes %u", s.name, m.components,
				 least + 1);
		if (bics[least] > number_at(want, least) + 1e-6 * fabs(number_at(want, least)))
			fail_msg("%s: BIC %.12g, of scikit-learn %.12g", s.name, bics[least],
				 number_at(want, least));
		assert_true(m.bic == bics[least]);
		gmm_free(&m);
		set_close(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fits_are_equal),
		cmocka_unit_test(bic_chooses_as_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

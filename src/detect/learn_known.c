/* learn_known.c - knowledge as it is used, and as a model keeps it.
 *
 * A model keeps the usual step of a kind among its counters: "training step duration_ns",
 * "training step forward_ns", "training step launches", of sigma 1. */
#include "detect/learn_known.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "detect/learn.h"

static const char *const kind_names[STEPS_KINDS] = STEPS_KIND_NAMES;
static const char *const phase_names[STEPS_PHASES] = STEPS_PHASE_NAMES;

/* The values of a usual step, in this order. */
#define STEP_VALUES (STEP_FEATURE_PHASES + 3)
#define NAME_BYTES  64

static double *step_value(struct step_usual *u, size_t kind, size_t value, char name[NAME_BYTES])
{
	const char *what = "duration";
	double *at = &u->duration_ns;
	if (value >= 1 && value <= STEP_FEATURE_PHASES) {
		what = phase_names[value - 1];
		at = &u->phase_ns[value - 1];
	} else if (value > STEP_FEATURE_PHASES) {
		bool launches = value == STEP_FEATURE_PHASES + 1;
		what = launches ? "launches" : "operations";
		at = launches ? &u->launches : &u->operations;
	}
	snprintf(name, NAME_BYTES, "%s step %s%s", kind_names[kind], what,
		 value <= STEP_FEATURE_PHASES ? "_ns" : "");
	return at;
}

static struct known know_nothing(struct detect_keys *keys, unsigned without, uint64_t seed)
{
	return (struct known){.keys = keys,
			      .usual = usual_new(keys, seed),
			      .regimes = without & WITHOUT_REGIMES ? NULL : regimes_new(),
			      .counters = counters_usual_new(seed),
			      .without = without};
}

void known_make(struct known *ret, unsigned without, uint64_t seed)
{
	enum detect_keys_depth depth = KEYS_WHOLE;
	if (without & WITHOUT_SIZES)
		depth = KEYS_FUNCTIONS;
	if (without & WITHOUT_KEYS)
		depth = KEYS_LAYERS;
	*ret = know_nothing(detect_keys_new(KEYS_MOST, depth), without, seed);
}

static void free_usual(struct known *k)
{
	usual_free(k->usual);
	if (k->regimes)
		regimes_free(k->regimes);
	counters_usual_free(k->counters);
}

void known_free(struct known *k)
{
	free_usual(k);
	detect_keys_free(k->keys);
	*k = (struct known){0};
}

void known_forget(struct known *k, uint64_t seed)
{
	free_usual(k);
	*k = know_nothing(k->keys, k->without, seed);
}

/* A counter's layer and feature; false: it is of neither. */
static bool known_counter(const char *name, enum detect_layer *ret_layer, uint32_t *ret_feature)
{
	static const enum detect_layer layers[] = {DETECT_HARDWARE, DETECT_HOST};
	for (size_t l = 0; l < 2; l++) {
		uint32_t n;
		const struct feature *f = features_of(layers[l], &n);
		for (uint32_t i = 0; i < n; i++)
			if (!strcmp(f[i].name, name)) {
				*ret_layer = layers[l];
				*ret_feature = i;
				return true;
			}
	}
	return false;
}

/* ---- out of a model ---- */

static void step_of_counter(struct known *k, const struct model_counter *c)
{
	char name[NAME_BYTES];
	for (size_t kind = 0; kind < STEPS_KINDS; kind++)
		for (size_t v = 0; v < STEP_VALUES; v++) {
			double *at = step_value(&k->steps[kind], kind, v, name);
			if (strcmp(name, c->name))
				continue;
			*at = c->median;
			k->steps[kind].steps = c->count;
		}
}

void known_of_model(struct known *ret, const struct model *m, uint64_t seed)
{
	known_make(ret, m->without, seed);
	*detect_keys_layers(ret->keys) = m->named;
	usual_of_model(ret->usual, m);
	for (size_t i = 0; ret->regimes && i < m->regimes.len; i++)
		regimes_add(ret->regimes, &m->regimes.data[i]);
	if (ret->regimes)
		regimes_freeze(ret->regimes);
	for (size_t i = 0; i < m->counters.len; i++) {
		const struct model_counter *c = &m->counters.data[i];
		struct counter_usual u = {c->count, c->median, c->sigma};
		enum detect_layer layer;
		uint32_t feature;
		if (known_counter(c->name, &layer, &feature))
			counters_usual_set(ret->counters, layer, feature, c->regime, &u);
		else
			step_of_counter(ret, c);
	}
}

/* ---- into a model ---- */

static void counter_push(struct model *m, const char *name, uint32_t regime,
			 const struct counter_usual *u)
{
	*vec_push(&m->counters) = (struct model_counter){.name = xstrdup(name),
							 .regime = regime,
							 .count = u->count,
							 .median = u->median,
							 .sigma = u->sigma};
}

static void counters_to_model(const struct known *k, struct model *m, enum detect_layer layer)
{
	uint32_t n, regimes = k->regimes ? regimes_count(k->regimes) : 0;
	const struct feature *f = features_of(layer, &n);
	for (uint32_t i = 0; i < n; i++) {
		struct counter_usual whole, u;
		counters_usual_get(k->counters, layer, i, 0, &whole);
		if (!whole.count)
			continue;
		counter_push(m, f[i].name, 0, &whole);
		for (uint32_t r = 1; r <= regimes; r++) {
			counters_usual_get(k->counters, layer, i, r, &u);
			/* What is not known of the regime is that of all. */
			if (u.count && (u.count != whole.count || u.median != whole.median ||
					u.sigma != whole.sigma))
				counter_push(m, f[i].name, r, &u);
		}
	}
}

static void steps_to_model(const struct known *k, struct model *m)
{
	struct step_usual steps[STEPS_KINDS];
	char name[NAME_BYTES];
	memcpy(steps, k->steps, sizeof(steps));
	for (size_t kind = 0; kind < STEPS_KINDS; kind++)
		for (size_t v = 0; steps[kind].steps && v < STEP_VALUES; v++) {
			struct counter_usual u = {steps[kind].steps,
						  *step_value(&steps[kind], kind, v, name), 1};
			counter_push(m, name, 0, &u);
		}
}

void known_to_model(const struct known *k, struct model *m)
{
	m->without = k->without;
	m->named = *detect_keys_layers(k->keys);
	usual_to_model(k->usual, m);
	counters_to_model(k, m, DETECT_HARDWARE);
	counters_to_model(k, m, DETECT_HOST);
	steps_to_model(k, m);
	for (uint32_t r = 1; k->regimes && r <= regimes_count(k->regimes); r++)
		regimes_get(k->regimes, r, vec_push(&m->regimes));
}

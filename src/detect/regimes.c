/* regimes.c - sketches of work, and the nearest known one. */
#include "detect/regimes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF (REGIME_PLACES / 2)

struct regimes {
	struct model_regime known[REGIMES_MOST];
	uint32_t count;
	uint32_t frozen; /* the first so many move no more */
};

void regime_mix_add(struct regime_mix *m, uint32_t function, uint32_t size)
{
	m->functions[function % HALF]++;
	if (size)
		m->sizes[size % HALF]++;
	m->events++;
}

/* Of what was before, so much stays that there are REGIME_EVENTS with the window's. */
void regime_mix_window(struct regime_mix *m, const struct regime_mix *window)
{
	double room = REGIME_EVENTS - window->events;
	float keep = (float)(room <= 0 ? 0 : m->events > room ? room / m->events : 1);
	for (size_t i = 0; i < HALF; i++) {
		m->functions[i] = m->functions[i] * keep + window->functions[i];
		m->sizes[i] = m->sizes[i] * keep + window->sizes[i];
	}
	m->events = m->events * (double)keep + window->events;
}

static float sum(const float *v)
{
	float total = 0;
	for (size_t i = 0; i < HALF; i++)
		total += v[i];
	return total;
}

bool regime_mix_shares(const struct regime_mix *m, float ret[REGIME_PLACES])
{
	float functions = sum(m->functions), sizes = sum(m->sizes);
	if (m->events < REGIME_LEAST - 1 || functions <= 0)
		return false;
	float half = sizes > 0 ? 0.5f : 1;
	for (size_t i = 0; i < HALF; i++) {
		ret[i] = half * m->functions[i] / functions;
		ret[HALF + i] = sizes > 0 ? half * m->sizes[i] / sizes : 0;
	}
	return true;
}

struct regimes *regimes_new(void)
{
	return xcalloc(1, sizeof(struct regimes));
}

void regimes_free(struct regimes *r)
{
	free(r);
}

void regimes_add(struct regimes *r, const struct model_regime *m)
{
	if (r->count < REGIMES_MOST)
		r->known[r->count++] = *m;
	r->frozen = r->count;
}

static float distance(const float *a, const float *b)
{
	float d = 0;
	for (size_t i = 0; i < REGIME_PLACES; i++)
		d += fabsf(a[i] - b[i]);
	return d;
}

static void move(struct model_regime *m, const float shares[REGIME_PLACES])
{
	m->windows++;
	for (size_t i = 0; i < REGIME_PLACES; i++)
		m->places[i] += (shares[i] - m->places[i]) / (float)m->windows;
}

uint32_t regimes_of(struct regimes *r, const float shares[REGIME_PLACES], bool may_add)
{
	uint32_t nearest = 0;
	float least = (float)REGIME_DISTANCE;
	for (uint32_t i = 0; i < r->count; i++) {
		float d = distance(r->known[i].places, shares);
		if (d <= least) {
			least = d;
			nearest = i + 1;
		}
	}
	if (!nearest && may_add && r->count < REGIMES_MOST) {
		r->known[r->count++] = (struct model_regime){0};
		nearest = r->count;
	}
	if (nearest > r->frozen)
		move(&r->known[nearest - 1], shares);
	return nearest;
}

bool regimes_know_functions(const struct regimes *r, const float shares[REGIME_PLACES])
{
	float all = sum(shares);
	if (!r->frozen)
		return true;
	for (uint32_t i = 0; i < r->frozen; i++) {
		const float *known = r->known[i].places;
		float d = 0, alls = sum(known);
		for (size_t k = 0; k < HALF; k++)
			d += fabsf(known[k] / alls - shares[k] / all);
		if (d <= (float)REGIME_DISTANCE)
			return true;
	}
	return false;
}

uint32_t regimes_count(const struct regimes *r)
{
	return r->count;
}

void regimes_get(const struct regimes *r, uint32_t number, struct model_regime *ret)
{
	*ret = number && number <= r->count ? r->known[number - 1] : (struct model_regime){0};
}

void regimes_freeze(struct regimes *r)
{
	r->frozen = r->count;
}

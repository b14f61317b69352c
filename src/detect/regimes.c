/* regimes.c - sketches of work, and the nearest known one. */
#include "detect/regimes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF	    (REGIME_PLACES / 2)
#define PLACE_LEAST 8.0 /* usual calls in a window that tell how fast it was */
#define ALIKE_SHARE 0.7 /* of the calls */
/* Of the calls of work that is slowed, with something beside it. */
#define LOWER_SHARE  0.25 /* that are believed to have nothing beside them */
#define BESIDE_SHARE 0.4  /* that agree with these at least */
#define FEWER_SHARE  0.1  /* that are fewer still, at most */

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

bool regimes_differs(const struct regimes *r, uint32_t number, const struct regime_mix *window)
{
	float shares[REGIME_PLACES];
	return number && number <= r->count && regime_mix_shares(window, shares) &&
	       distance(r->known[number - 1].places, shares) > (float)REGIME_DISTANCE;
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

/* ---- how fast ---- */

void regimes_window(struct regimes *r, uint32_t number, const struct regime_mix *window)
{
	if (!number || number > r->count || number <= r->frozen)
		return;
	struct model_regime *m = &r->known[number - 1];
	m->sized += ((double)sum(window->sizes) - m->sized) / (double)m->windows;
}

/* Of a place of the sizes, which sum to 1/2. */
static double usual_calls(const struct model_regime *m, size_t place)
{
	return 2 * (double)m->places[HALF + place] * m->sized;
}

struct place_pace {
	double usual, ratio;
};

static int by_ratio(const void *a, const void *b)
{
	const struct place_pace *x = a, *y = b;
	return x->ratio < y->ratio ? -1 : x->ratio > y->ratio;
}

/* Counts vary by their root. */
static bool is_alike(const struct place_pace *p, double pace)
{
	double most = fmax(REGIME_PACE_ALIKE * pace, 2 * sqrt(pace / p->usual));
	return fabs(p->ratio - pace) <= most;
}

double regimes_pace(const struct regimes *r, uint32_t number, const float sizes[REGIME_SIZES])
{
	struct place_pace places[HALF];
	size_t n = 0;
	double all = 0, below = 0, alike = 0, pace = -1;
	if (!number || number > r->frozen)
		return 0;
	const struct model_regime *m = &r->known[number - 1];
	for (size_t i = 0; i < HALF; i++) {
		double usual = usual_calls(m, i);
		if (usual < PLACE_LEAST)
			continue;
		places[n++] = (struct place_pace){usual, (double)sizes[i] / usual};
		all += usual;
	}
	if (!n)
		return 0;
	qsort(places, n, sizeof(*places), by_ratio);
	for (size_t i = 0; i < n && pace < 0; i++) {
		below += places[i].usual;
		if (below >= all / 2)
			pace = places[i].ratio;
	}
	for (size_t i = 0; i < n; i++)
		alike += is_alike(&places[i], pace) ? places[i].usual : 0;
	return alike >= ALIKE_SHARE * all ? pace : 0;
}

/* What is beside it has sizes in some of its places, which then have more calls: the lowest say how
 * fast it is. */
double regimes_pace_in(const struct regimes *r, uint32_t number, uint32_t other)
{
	struct place_pace places[HALF];
	size_t n = 0;
	double all = 0, up_to = 0, fewer = 0, alike = 0, pace = -1;
	if (!number || number > r->count || !other || other > r->count)
		return 0;
	for (size_t i = 0; i < HALF; i++) {
		double usual = usual_calls(&r->known[number - 1], i);
		if (usual < PLACE_LEAST)
			continue;
		places[n++] =
			(struct place_pace){usual, usual_calls(&r->known[other - 1], i) / usual};
		all += usual;
	}
	qsort(places, n, sizeof(*places), by_ratio);
	for (size_t i = 0; i < n && pace < 0; i++) {
		up_to += places[i].usual;
		if (up_to >= all * LOWER_SHARE)
			pace = places[i].ratio;
	}
	for (size_t i = 0; i < n; i++) {
		bool is = is_alike(&places[i], pace);
		alike += is ? places[i].usual : 0;
		fewer += !is && places[i].ratio < pace ? places[i].usual : 0;
	}
	return n && alike >= BESIDE_SHARE * all && fewer <= FEWER_SHARE * all ? pace : 0;
}

bool regimes_gone(const struct regimes *r, uint32_t number, const float sizes[REGIME_SIZES])
{
	double all = 0, gone = 0;
	if (!number || number > r->frozen)
		return false;
	const struct model_regime *m = &r->known[number - 1];
	for (size_t i = 0; i < HALF; i++) {
		double usual = usual_calls(m, i);
		if (usual < PLACE_LEAST)
			continue;
		all += usual;
		gone += sizes[i] > 0 ? 0 : usual;
	}
	return gone > all / 2;
}

double regimes_still(const struct regimes *r, uint32_t number, const struct regime_mix *window)
{
	if (!number || number > r->frozen ||
	    r->known[number - 1].sized < PLACE_LEAST / REGIME_STILL)
		return 0;
	double ratio = (double)sum(window->sizes) / r->known[number - 1].sized;
	return ratio < REGIME_STILL ? fmax(ratio, REGIME_STILL / 100) : 0;
}

uint32_t regimes_frozen(const struct regimes *r)
{
	return r->frozen;
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

/* counters_usual.c - what values counters usually have, by the job's regime. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "base/stats.h"
#include "detect/hardware.h"

#define SAMPLE	       1024   /* values that are kept of a counter and regime */
#define LEAST	       10     /* before it is judged */
#define NORMAL_QUARTER 1.4826 /* as in baseline.c */

/* What a counter must differ by to be another value: the resolution of what measures it, and what
 * the same work differs by from window to window. */
static const struct {
	const char *feature;
	double sigma;	    /* in its unit */
	double sigma_ratio; /* of the median */
} least[] = {
	{"memory_used_bytes", 64e6, 0.04},
	{"other_memory_bytes", 32e6, 0.005},
	{"power_w", 5, 0.02},
	{"temperature_celsius", 3, 0},
	{"sm_clock_mhz", 15, 0.01},
	{"pcie_rx_bytes_per_s", 5e6, 0.05},
	{"pcie_tx_bytes_per_s", 5e6, 0.05},
	{"nvlink_rx_bytes_per_s", 5e6, 0.05},
	{"nvlink_tx_bytes_per_s", 5e6, 0.05},
	{"cpu_ratio", 0.05, 0.02},
	{"rss_bytes", 64e6, 0.05},
	{"preemptions_per_s", 10, 0.05},
	{"net_sent_bytes_per_s", 1e5, 0.05},
	{"net_received_bytes_per_s", 1e5, 0.05},
	{"net_retransmits_per_s", 1, 0.05},
	{"calls_per_s", 10, 0.05},
};
#define LEAST_RATIO 0.02 /* of all others, which are ratios */

struct one {
	struct counter_usual usual;
	enum detect_layer layer;
	uint32_t feature, regime;
	VEC(double) sample;
	uint64_t seen, next, random;
};

struct counters_usual {
	uint64_t seed;
	bool settled;
	VEC(struct one) all;
	struct map64 place_of; /* layer, feature, regime -> index */
};

struct counters_usual *counters_usual_new(uint64_t seed)
{
	struct counters_usual *u = xcalloc(1, sizeof(*u));
	u->seed = seed;
	return u;
}

void counters_usual_free(struct counters_usual *u)
{
	for (size_t i = 0; i < u->all.len; i++)
		vec_free(&u->all.data[i].sample);
	vec_free(&u->all);
	map64_free(&u->place_of);
	free(u);
}

static uint64_t id_of(enum detect_layer layer, uint32_t feature, uint32_t regime)
{
	return (uint64_t)layer << 56 | (uint64_t)feature << 32 | regime;
}

static struct one *find(const struct counters_usual *u, enum detect_layer layer, uint32_t feature,
			uint32_t regime)
{
	uint64_t i;
	return map64_get(&u->place_of, id_of(layer, feature, regime), &i) ? &u->all.data[i] : NULL;
}

static struct one *have(struct counters_usual *u, enum detect_layer layer, uint32_t feature,
			uint32_t regime)
{
	struct one *o = find(u, layer, feature, regime);
	if (o)
		return o;
	map64_set(&u->place_of, id_of(layer, feature, regime), u->all.len);
	o = vec_push(&u->all);
	*o = (struct one){.layer = layer, .feature = feature, .regime = regime, .next = LEAST};
	return o;
}

void counters_usual_set(struct counters_usual *u, enum detect_layer layer, uint32_t feature,
			uint32_t regime, const struct counter_usual *usual)
{
	have(u, layer, feature, regime)->usual = *usual;
	u->settled = true;
}

void counters_usual_get(const struct counters_usual *u, enum detect_layer layer, uint32_t feature,
			uint32_t regime, struct counter_usual *ret)
{
	const struct one *o = find(u, layer, feature, regime);
	if ((!o || !o->usual.count) && regime)
		o = find(u, layer, feature, 0);
	*ret = o ? o->usual : (struct counter_usual){0};
}

/* ---- learning ---- */

static double sigma_least(enum detect_layer layer, uint32_t feature, double median)
{
	uint32_t n;
	const struct feature *f = features_of(layer, &n);
	for (size_t i = 0; feature < n && i < sizeof(least) / sizeof(least[0]); i++)
		if (!strcmp(f[feature].name, least[i].feature))
			return fmax(least[i].sigma, fabs(median) * least[i].sigma_ratio);
	return LEAST_RATIO;
}

/* As in baseline.h: from the median to the farther quartile. */
static void make_usual(struct one *o)
{
	size_t n = o->sample.len;
	double *v = o->sample.data;
	if (n < LEAST)
		return;
	double median = stats_median(v, n);
	double sigma = NORMAL_QUARTER * fmax(median - v[n / 4], v[n - 1 - n / 4] - median);
	o->usual = (struct counter_usual){o->seen, median,
					  fmax(sigma, sigma_least(o->layer, o->feature, median))};
}

/* As in baseline.c. */
static void learn(struct counters_usual *u, struct one *o, double value)
{
	if (o->usual.count && !o->seen)
		return; /* a model's */
	if (o->usual.count && u->settled && !o->sample.len)
		return;
	o->seen++;
	if (o->sample.len < SAMPLE) {
		*vec_push(&o->sample) = value;
	} else {
		o->random += 0x9e3779b97f4a7c15ULL;
		uint64_t place = hash_u64(o->random ^ u->seed) % o->seen;
		if (place < SAMPLE)
			o->sample.data[place] = value;
	}
	if (o->seen < o->next)
		return;
	o->next *= 2;
	make_usual(o);
}

void counters_usual_learn(struct counters_usual *u, enum detect_layer layer, uint32_t regime,
			  const double values[FEATURES_MOST])
{
	uint32_t n;
	features_of(layer, &n);
	for (uint32_t i = 0; i < n; i++) {
		if (isnan(values[i]))
			continue;
		learn(u, have(u, layer, i, 0), values[i]);
		if (regime)
			learn(u, have(u, layer, i, regime), values[i]);
	}
}

void counters_usual_settle(struct counters_usual *u)
{
	for (size_t i = 0; i < u->all.len; i++) {
		if (u->all.data[i].sample.len)
			make_usual(&u->all.data[i]);
		vec_free(&u->all.data[i].sample);
	}
	u->settled = true;
}

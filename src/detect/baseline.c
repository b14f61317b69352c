/* baseline.c - samples of durations, and their median and spread.
 *
 * A sample keeps logarithms as floats: an error of one in ten million of ln ns. */
#include "detect/baseline.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/map64.h"

#define NORMAL_QUARTER 1.4826 /* sigma of a normal distribution over its quartiles' distance */
#define NORMAL_Q99     2.3263 /* sigmas from the median */
#define FEW_FIRST      8

struct baseline_sample {
	float *logs;
	uint32_t len, cap;
	uint64_t seen;
	uint64_t random; /* state */
};

struct baseline_sample *baseline_sample_new(uint64_t seed)
{
	struct baseline_sample *s = xcalloc(1, sizeof(*s));
	s->random = seed;
	return s;
}

void baseline_sample_free(struct baseline_sample *s)
{
	if (s)
		free(s->logs);
	free(s);
}

static float log_of(uint64_t duration_ns)
{
	return duration_ns > 1 ? logf((float)duration_ns) : 0;
}

/* A number in [0, n): SplitMix64 (Steele, Lea and Flood 2014), with the mixing of map64.h. */
static uint64_t random_below(struct baseline_sample *s, uint64_t n)
{
	s->random += 0x9e3779b97f4a7c15ULL;
	return hash_u64(s->random) % n;
}

static void grow(struct baseline_sample *s)
{
	s->cap = s->cap ? s->cap * 2 : FEW_FIRST;
	if (s->cap > BASELINE_SAMPLE)
		s->cap = BASELINE_SAMPLE;
	s->logs = xrealloc(s->logs, s->cap, sizeof(*s->logs));
}

void baseline_sample_add(struct baseline_sample *s, uint64_t duration_ns)
{
	s->seen++;
	if (s->len < BASELINE_SAMPLE) {
		if (s->len == s->cap)
			grow(s);
		s->logs[s->len++] = log_of(duration_ns);
		return;
	}
	uint64_t place = random_below(s, s->seen);
	if (place < BASELINE_SAMPLE)
		s->logs[place] = log_of(duration_ns);
}

static int compare_floats(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;
	return x < y ? -1 : x > y;
}

static double median_of(const float *sorted, uint32_t n)
{
	return n % 2 ? (double)sorted[n / 2]
		     : ((double)sorted[n / 2 - 1] + (double)sorted[n / 2]) / 2;
}

/* From the median to the farther quartile. */
static double quarter_distance(const float *sorted, uint32_t n, double median)
{
	double down = median - (double)sorted[n / 4], up = (double)sorted[n - 1 - n / 4] - median;
	return down > up ? down : up;
}

/* Without the hundredth at each end, and at least one. */
static double trimmed_mean(const float *sorted, uint32_t n)
{
	uint32_t cut = n / 100 ? n / 100 : 1;
	double sum = 0;
	for (uint32_t i = cut; i < n - cut; i++)
		sum += exp((double)sorted[i]);
	return sum / (n - 2 * cut);
}

bool baseline_of_sample(struct baseline *ret, const struct baseline_sample *s)
{
	uint32_t n = s->len;
	if (s->seen < BASELINE_LEAST)
		return false;
	float *sorted = xcalloc(n, sizeof(*sorted));
	memcpy(sorted, s->logs, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_floats);
	double median = median_of(sorted, n);
	double sigma = NORMAL_QUARTER * quarter_distance(sorted, n, median);
	if (sigma < BASELINE_LEAST_SIGMA)
		sigma = BASELINE_LEAST_SIGMA;
	*ret = (struct baseline){
		.count = s->seen,
		.log_median = median,
		.sigma = sigma * (1 + BASELINE_FEW / n),
		.usual_ns = trimmed_mean(sorted, n),
		.q99_ns = exp((double)sorted[(uint64_t)(n - 1) * 99 / 100]),
	};
	free(sorted);
	return true;
}

double baseline_z(const struct baseline *b, uint64_t duration_ns)
{
	double z = ((double)log_of(duration_ns) - b->log_median) / b->sigma;
	if (z > BASELINE_Z_MOST)
		return BASELINE_Z_MOST;
	return z < -BASELINE_Z_MOST ? -BASELINE_Z_MOST : z;
}

double baseline_chance(const struct baseline *b, double duration_ns)
{
	double out = log(fmax(duration_ns, 1)) - b->log_median;
	double q99 = fmax(log(fmax(b->q99_ns, 1)) - b->log_median, NORMAL_Q99 * b->sigma);
	return out > 0 ? 0.5 * exp(-out / q99 * log(0.5 / 0.01)) : 0.5;
}

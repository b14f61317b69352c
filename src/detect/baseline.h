/* baseline.h - how long events of a key usually take, robustly: median and spread of the
 * logarithm of their durations, learned from a sample of bounded size.
 *
 * z = (ln(t) - ln median) / sigma, sigma = 1.4826 x the distance from the median to the farther
 * quartile, at least BASELINE_LEAST_SIGMA, and wider by BASELINE_FEW / events while few were seen.
 * Faults in up to a quarter of the data move both little. The median distance (MAD) would bear
 * twice as many, but a key often has two modes, of which it sees only the one: with it a third of
 * the times between backward nodes of a PyTorch 1.13 job were beyond z = 4, with the quartile one
 * in two hundred. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BASELINE_SAMPLE	     512  /* durations that are kept of a key */
#define BASELINE_LEAST	     8	  /* events before a key is judged */
#define BASELINE_LEAST_SIGMA 0.02 /* clocks and caches: two in a hundred */
#define BASELINE_FEW	     4.0  /* with 8 events sigma is half as wide again */
#define BASELINE_Z_MOST	     12.0 /* z is cut off there, at both ends */

struct baseline {
	uint64_t count;	   /* events it was learned from */
	double log_median; /* of ns */
	double sigma;	   /* of ln ns */
	double usual_ns;   /* mean, without the longest and shortest hundredth */
	double q99_ns;
};

/* A sample that is as if drawn from all that was added (Vitter's algorithm R, 1985),
 * deterministic by seed. */
struct baseline_sample;
struct baseline_sample *baseline_sample_new(uint64_t seed);
void baseline_sample_free(struct baseline_sample *s);
void baseline_sample_add(struct baseline_sample *s, uint64_t duration_ns);
/* false: fewer than BASELINE_LEAST events. */
bool baseline_of_sample(struct baseline *ret, const struct baseline_sample *s);

/* Cut off at BASELINE_Z_MOST. Durations below 1 ns count as 1 ns. */
double baseline_z(const struct baseline *b, uint64_t duration_ns);
/* The chance that a usual one takes as long or longer: the tail is a Pareto distribution through
 * median and 99th percentile, which is no nearer than in a normal distribution of sigma. At most
 * 1/2. */
double baseline_chance(const struct baseline *b, double duration_ns);

/* random.h - numbers as if by chance, the same in every run: of a state that begins as a seed. Not
 * for secrets. */
#pragma once

#include <math.h>
#include <stdint.h>

/* All 64 bits ("SplitMix64", from Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014). */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* In (0, 1). */
static inline double random_uniform(uint64_t *state)
{
	return ((double)(random_next(state) >> 11) + 0.5) / 9007199254740992.0;
}

/* Mean 0, variance 1 (Box and Muller, 1958). */
static inline double random_normal(uint64_t *state)
{
	double u = random_uniform(state), v = random_uniform(state);
	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

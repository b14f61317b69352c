/* stretches.h - stretches of time by thread or process, to be asked how much of a time they take.
 */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"

/* Times of one key, a thread or process. */
struct keyed_stretch {
	uint32_t key;
	uint64_t start_ns, end_ns;
};

/* Of many keys: by key, then start; none overlaps another of its key. */
struct stretches {
	VEC(struct keyed_stretch) all;
	struct map64 of; /* key -> first << 32 | number */
};

/* Sorts and joins what was put into all. */
void stretches_end(struct stretches *s);
void stretches_free(struct stretches *s);

/* Takes away what lies in another's stretches of the same key. */
void stretches_subtract(struct stretches *s, const struct stretches *what);

/* How much of a time those of a key take, ns. */
uint64_t stretches_within(const struct stretches *s, uint32_t key, uint64_t from_ns,
			  uint64_t to_ns);

/* Where the stretch of a key begins that a time lies in; 0: in none. */
uint64_t stretches_begin(const struct stretches *s, uint32_t key, uint64_t ns);

/* Puts what of a time lies in the stretches of one key under another key into *to. */
void stretches_cut(struct stretches *to, uint32_t to_key, const struct stretches *of, uint32_t key,
		   uint64_t from_ns, uint64_t to_ns);

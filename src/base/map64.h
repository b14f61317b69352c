/* map64.h - an open-addressing hash map from uint64_t to uint64_t.
 *
 * For dense hot look-ups (thread id -> index). Any key is allowed. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map64 {
	struct map64_slot *slots;
	size_t cap; /* a power of two, or 0 */
	size_t len;
};

/* Finds key; false when absent, and *ret is then untouched. */
bool map64_get(const struct map64 *m, uint64_t key, uint64_t *ret);

/* Sets key to value, replacing what was there. */
void map64_set(struct map64 *m, uint64_t key, uint64_t value);

/* Removes key if present. */
void map64_del(struct map64 *m, uint64_t key);
void map64_free(struct map64 *m);

/* The pairs one by one, in no order: *at begins as 0; false when there are no more. */
bool map64_next(const struct map64 *m, size_t *at, uint64_t *ret_key, uint64_t *ret_value);

/* Mixes the bits of x (the finaliser of MurmurHash3). */
static inline uint64_t hash_u64(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	x ^= x >> 33;
	return x;
}

/* FNV-1a over n bytes, then mixed. Not for hostile keys in unbounded tables. */
uint64_t hash_bytes(const void *p, size_t n);

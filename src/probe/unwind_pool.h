/* unwind_pool.h - the words of all unwind tables, as BPF sees them: a flat memory made of
 * mapped segments, of which parts are taken and given back. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "wire/unwind.h"

struct pool_range {
	uint32_t at; /* in words */
	uint32_t len;
};

struct unwind_pool {
	int map; /* the array of segments; not owned */
	uint32_t *segments[UNWIND_SEGMENTS_MAX];
	uint32_t nsegments;
	bool spares; /* segments come one by one, though the kernel is waited for at each */
	VEC(struct pool_range) free; /* by place; no two touch */
	uint64_t used_words;
};

void unwind_pool_init(struct unwind_pool *p, int map);
void unwind_pool_free(struct unwind_pool *p);

/* Makes room: that many segments more, or as many as there may be. False when there is none, or no
 * memory for them. */
bool unwind_pool_reserve(struct unwind_pool *p, uint32_t segments);

/* Room for words, of which nobody reads; *ret_at is a multiple of UNWIND_RULE_WORDS. False when
 * there is none, or no memory for another segment. */
bool unwind_pool_take(struct unwind_pool *p, uint32_t len, uint32_t *ret_at);
void unwind_pool_write(struct unwind_pool *p, uint32_t at, const uint32_t *words, uint32_t len);
/* Both. */
bool unwind_pool_put(struct unwind_pool *p, const uint32_t *words, uint32_t len, uint32_t *ret_at);
/* A word that programs may be reading: who sees it sees all that was written before. */
void unwind_pool_tell(struct unwind_pool *p, uint32_t at, uint32_t word);
uint32_t unwind_pool_word(const struct unwind_pool *p, uint32_t at);
/* Gives words back that nobody reads any more. */
void unwind_pool_give(struct unwind_pool *p, uint32_t at, uint32_t len);

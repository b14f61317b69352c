/* gpu_tally.h - counts by a key of three numbers, in order of first use. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"

struct gpu_key {
	uint64_t a, b, c;
};

struct gpu_tally_row {
	struct gpu_key key;
	uint64_t calls, bytes, total_ns;
};

struct gpu_tally {
	VEC(struct gpu_tally_row) rows;
	struct map64 index; /* hash of the key, or the next free one -> row */
};

/* The row of the key, made when there is none; valid until the next call. */
struct gpu_tally_row *gpu_tally_at(struct gpu_tally *t, struct gpu_key key);

/* Adds all rows of from, each times the factor. */
void gpu_tally_add(struct gpu_tally *t, const struct gpu_tally *from, uint64_t times);
void gpu_tally_free(struct gpu_tally *t);

/* hist.h - a log-linear histogram of 64-bit values, for quantiles.
 *
 * Values below 32 are kept exactly; above, each octave [2^e, 2^(e+1)) is cut into 32
 * cells of equal width, so that the middle of a cell is at most 1/64 (1.6 %) away from
 * any value in it. A row of cells is allocated when its octave is first hit: most
 * functions live in five octaves or so. Until HIST_FEW cells are in use these alone are
 * kept, since a recording may have hundreds of thousands of functions with a call or two
 * each. Zero-initialised is empty. Not thread-safe; add into one histogram per thread and
 * merge them. */
#pragma once

#include <stdint.h>

#define HIST_CELL_BITS 5
#define HIST_CELLS     (1u << HIST_CELL_BITS)
#define HIST_ROWS      (64 - HIST_CELL_BITS + 1)

#define HIST_FEW 8

struct hist_cell {
	uint32_t at; /* row * HIST_CELLS + cell */
	uint64_t n;
};

struct hist {
	uint64_t **rows;       /* HIST_ROWS of them; NULL: few has all */
	struct hist_cell *few; /* in order */
	uint32_t few_len;
	uint64_t count;
	uint64_t min; /* meaningful when count is set, as is max */
	uint64_t max;
};

/* Adds to a cell that has no row yet; the slow half of hist_add. */
void hist_add_cell(struct hist *h, uint32_t at, uint64_t n);

/* Adds n times value. */
static inline void hist_add(struct hist *h, uint64_t value, uint64_t n)
{
	unsigned row = 0, cell = (unsigned)value;
	if (value >= HIST_CELLS) {
		unsigned exponent = 63 - (unsigned)__builtin_clzll(value);
		row = exponent - HIST_CELL_BITS + 1;
		cell = (unsigned)(value >> (exponent - HIST_CELL_BITS)) & (HIST_CELLS - 1);
	}
	if (__builtin_expect(h->rows && h->rows[row], 1))
		h->rows[row][cell] += n;
	else
		hist_add_cell(h, row * HIST_CELLS + cell, n);
	if (!h->count || value < h->min)
		h->min = value;
	if (!h->count || value > h->max)
		h->max = value;
	h->count += n;
}

/* Adds n values spread evenly over [low, high); n may be smaller than the number of
 * cells between them. For buckets that come from a coarser histogram. */
void hist_add_range(struct hist *h, uint64_t low, uint64_t high, uint64_t n);

/* Adds all of src to dst. */
void hist_merge(struct hist *dst, const struct hist *src);

/* The smallest value v with at least q * count values <= v, within 1.6 %; q in [0, 1].
 * The smallest and the largest are exact. 0 for an empty histogram. */
uint64_t hist_quantile(const struct hist *h, double q);

void hist_free(struct hist *h);

/* hist.c - rows, merging and quantiles of the log-linear histogram. */
#include "hist.h"

#include <math.h>
#include <stdlib.h>

#include "buffer.h"

uint64_t *hist_row_new(struct hist *h, unsigned row)
{
	h->rows[row] = xcalloc(HIST_CELLS, sizeof(uint64_t));
	return h->rows[row];
}

void hist_add_range(struct hist *h, uint64_t low, uint64_t high, uint64_t n)
{
	enum { STEPS = 8 }; /* a quarter of an octave is eight cells */
	uint64_t width = high > low ? high - low : 1;
	uint64_t done = 0;
	for (unsigned i = 0; i < STEPS; i++) {
		/* n * (i + 1) / STEPS without overflow of n * STEPS */
		uint64_t until = n / STEPS * (i + 1) + n % STEPS * (i + 1) / STEPS;
		if (until > done)
			hist_add(h, low + width / STEPS * i + width / STEPS / 2, until - done);
		done = until;
	}
}

void hist_merge(struct hist *dst, const struct hist *src)
{
	if (!src->count)
		return;
	for (unsigned r = 0; r < HIST_ROWS; r++) {
		if (!src->rows[r])
			continue;
		uint64_t *cells = dst->rows[r] ? dst->rows[r] : hist_row_new(dst, r);
		for (unsigned c = 0; c < HIST_CELLS; c++)
			cells[c] += src->rows[r][c];
	}
	if (!dst->count || src->min < dst->min)
		dst->min = src->min;
	if (!dst->count || src->max > dst->max)
		dst->max = src->max;
	dst->count += src->count;
}

static uint64_t cell_middle(unsigned row, unsigned cell)
{
	if (!row)
		return cell;
	unsigned shift = row - 1;
	uint64_t low = (uint64_t)(HIST_CELLS + cell) << shift;
	return low + ((1ULL << shift) >> 1);
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	if (!h->count)
		return 0;
	double wanted = ceil(q * (double)h->count);
	uint64_t rank = wanted < 1 ? 1 : wanted >= (double)h->count ? h->count : (uint64_t)wanted;
	if (rank == 1 || rank == h->count) /* these two are known exactly */
		return rank == 1 ? h->min : h->max;
	uint64_t seen = 0;
	for (unsigned r = 0; r < HIST_ROWS; r++) {
		for (unsigned c = 0; h->rows[r] && c < HIST_CELLS; c++) {
			seen += h->rows[r][c];
			if (seen < rank)
				continue;
			uint64_t v = cell_middle(r, c);
			return v < h->min ? h->min : v > h->max ? h->max : v;
		}
	}
	return h->max;
}

void hist_free(struct hist *h)
{
	for (unsigned r = 0; r < HIST_ROWS; r++)
		free(h->rows[r]);
	*h = (struct hist){0};
}

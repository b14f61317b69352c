/* hist.c - rows, merging and quantiles of the log-linear histogram. */
#include "hist.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"

static uint64_t *row_of(struct hist *h, unsigned row)
{
	if (!h->rows[row])
		h->rows[row] = xcalloc(HIST_CELLS, sizeof(uint64_t));
	return h->rows[row];
}

/* The few cells get their rows. */
static void make_rows(struct hist *h)
{
	h->rows = xcalloc(HIST_ROWS, sizeof(*h->rows));
	for (uint32_t i = 0; i < h->few_len; i++)
		row_of(h, h->few[i].at / HIST_CELLS)[h->few[i].at % HIST_CELLS] = h->few[i].n;
	free(h->few);
	h->few = NULL;
	h->few_len = 0;
}

/* False: there is no room for one more. */
static bool add_few(struct hist *h, uint32_t at, uint64_t n)
{
	uint32_t i = 0;
	while (i < h->few_len && h->few[i].at < at)
		i++;
	if (i < h->few_len && h->few[i].at == at) {
		h->few[i].n += n;
		return true;
	}
	if (h->few_len == HIST_FEW)
		return false;
	if (!(h->few_len & (h->few_len - 1))) /* at 0, 1, 2 and 4 it is full */
		h->few = xrealloc(h->few, h->few_len ? 2 * h->few_len : 1, sizeof(*h->few));
	memmove(h->few + i + 1, h->few + i, (h->few_len++ - i) * sizeof(*h->few));
	h->few[i] = (struct hist_cell){at, n};
	return true;
}

void hist_add_cell(struct hist *h, uint32_t at, uint64_t n)
{
	if (!h->rows && add_few(h, at, n))
		return;
	if (!h->rows)
		make_rows(h);
	row_of(h, at / HIST_CELLS)[at % HIST_CELLS] += n;
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

static void merge_rows(struct hist *dst, const struct hist *src)
{
	if (!dst->rows)
		make_rows(dst);
	for (unsigned r = 0; r < HIST_ROWS; r++) {
		if (!src->rows[r])
			continue;
		uint64_t *cells = row_of(dst, r);
		for (unsigned c = 0; c < HIST_CELLS; c++)
			cells[c] += src->rows[r][c];
	}
}

void hist_merge(struct hist *dst, const struct hist *src)
{
	if (!src->count)
		return;
	for (uint32_t i = 0; i < src->few_len; i++)
		hist_add_cell(dst, src->few[i].at, src->few[i].n);
	if (src->rows)
		merge_rows(dst, src);
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

/* Of the rank-th value, counted from 1 in order of size. */
static uint64_t value_at(const struct hist *h, uint64_t rank)
{
	uint64_t seen = 0;
	for (uint32_t i = 0; i < h->few_len; i++) {
		seen += h->few[i].n;
		if (seen >= rank)
			return cell_middle(h->few[i].at / HIST_CELLS, h->few[i].at % HIST_CELLS);
	}
	for (unsigned r = 0; h->rows && r < HIST_ROWS; r++) {
		for (unsigned c = 0; h->rows[r] && c < HIST_CELLS; c++) {
			seen += h->rows[r][c];
			if (seen >= rank)
				return cell_middle(r, c);
		}
	}
	return h->max;
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	if (!h->count)
		return 0;
	double wanted = ceil(q * (double)h->count);
	uint64_t rank = wanted < 1 ? 1 : wanted >= (double)h->count ? h->count : (uint64_t)wanted;
	if (rank == 1 || rank == h->count) /* these two are known exactly */
		return rank == 1 ? h->min : h->max;
	uint64_t v = value_at(h, rank);
	return v < h->min ? h->min : v > h->max ? h->max : v;
}

void hist_free(struct hist *h)
{
	for (unsigned r = 0; h->rows && r < HIST_ROWS; r++)
		free(h->rows[r]);
	free(h->rows);
	free(h->few);
	*h = (struct hist){0};
}

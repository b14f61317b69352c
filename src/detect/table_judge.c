/* table_judge.c - rows of a table under a mixture. */
#include "detect/table_judge.h"

#include <math.h>
#include <stdlib.h>

#define BLOCK 1024

static void standardised(const struct table_judged *j, size_t row, double *ret)
{
	const double *cells = j->t->cells + row * j->t->columns;
	for (uint32_t i = 0; i < j->m->columns; i++)
		ret[i] = (cells[j->columns[i]] - j->m->centre[i]) / j->m->scale[i];
}

static void judge_block(struct table_judged *j, size_t first, size_t n,
			void (*tell)(void *ctx, const struct table_row *row), void *ctx)
{
	double rows[BLOCK * TABLE_COLUMNS] = {0}, density[BLOCK], likeliest[BLOCK];
	uint8_t component[BLOCK];
	for (size_t i = 0; i < n; i++)
		standardised(j, first + i, rows + i * j->m->columns);
	gmm_log_density(&j->m->gmm, rows, n, density);
	gmm_likeliest(&j->m->gmm, rows, n, likeliest, component);
	for (size_t i = 0; i < n; i++) {
		struct table_row row = {.row = first + i,
					.score = -density[i],
					.p = NAN,
					.likeliest = likeliest[i],
					.component = component[i]};
		bool unknown = isnan(density[i]);
		if (!unknown)
			row.p = tail_p(&j->m->tail, row.score);
		/* NaN compares as false */
		row.alarmed = row.p < j->p || row.likeliest < j->log_delta;
		j->unknown += unknown;
		if (row.alarmed)
			*vec_push(&j->bad) = row;
		if (tell)
			tell(ctx, &row);
	}
}

static int by_score(const void *x, const void *y)
{
	const struct table_row *a = x, *b = y;
	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	return a->row < b->row ? -1 : a->row > b->row;
}

static int by_row(const void *x, const void *y)
{
	const struct table_row *a = x, *b = y;
	return a->row < b->row ? -1 : a->row > b->row;
}

static void rank_rows(struct table_judged *j)
{
	if (!j->bad.len)
		return;
	qsort(j->bad.data, j->bad.len, sizeof(*j->bad.data), by_score);
	for (size_t i = 0; i < j->bad.len; i++)
		j->bad.data[i].rarer = i;
	qsort(j->bad.data, j->bad.len, sizeof(*j->bad.data), by_row);
}

void table_judge(struct table_judged *j, void (*row)(void *ctx, const struct table_row *row),
		 void *ctx)
{
	for (size_t i = 0; i < j->t->rows; i += BLOCK)
		judge_block(j, i, j->t->rows - i < BLOCK ? j->t->rows - i : BLOCK, row, ctx);
	rank_rows(j);
}

void table_explain(const struct table_judged *j, size_t at, struct table_reason *ret)
{
	double row[TABLE_COLUMNS];
	standardised(j, at, row);
	double distance = gmm_explain(&j->m->gmm, row, ret->shares, &ret->component), sum = 0;
	for (uint32_t i = 0; i < j->m->columns; i++)
		sum += ret->shares[i];
	/* what columns say alone may overlap: then it is their parts of the sum */
	double whole = fmax(distance, sum);
	ret->most = 0;
	for (uint32_t i = 0; i < j->m->columns; i++) {
		ret->shares[i] = whole > 0 ? ret->shares[i] / whole : 0;
		if (ret->shares[i] > ret->shares[ret->most])
			ret->most = i;
	}
}

double table_value(const struct table_judged *j, size_t row, uint32_t column)
{
	return j->t->cells[row * j->t->columns + j->columns[column]];
}

double table_usual(const struct table_judged *j, const struct table_reason *why, uint32_t column)
{
	double mean = j->m->gmm.means[(size_t)why->component * j->m->columns + column];
	return mean * j->m->scale[column] + j->m->centre[column];
}

/* table_judge.h - which rows of a table of numbers a mixture finds unlikely, and which of their
 * columns make them so.
 *
 * By p-value, or as Algorithm 2 of "eACGM" (IWQoS 2025) has it: the density under the likeliest
 * component is below delta. No I/O. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "detect/model.h"
#include "detect/table.h"

struct table_row {
	size_t row; /* from 0 */
	double score, p, likeliest;
	uint32_t component; /* from 0 */
	bool alarmed;
	size_t rarer; /* of those that are not normal: so many are rarer, or as rare and earlier */
};

struct table_judged {
	const struct table *t;
	const struct model_mixture *m;
	double p, log_delta;		 /* one of them is NaN */
	uint32_t columns[TABLE_COLUMNS]; /* of the table, in the mixture's order */
	VEC(struct table_row) bad;	 /* in order */
	uint64_t unknown;		 /* rows that are not finite */
};

/* t, m, p, log_delta and columns (table_columns) are set. row: is told of each, or NULL. */
void table_judge(struct table_judged *j, void (*row)(void *ctx, const struct table_row *row),
		 void *ctx);

struct table_reason {
	double shares[TABLE_COLUMNS]; /* of the distance from the component */
	uint32_t component;
	uint32_t most; /* the column with the largest share */
};
void table_explain(const struct table_judged *j, size_t row, struct table_reason *ret);
/* Of a column of the mixture. */
double table_value(const struct table_judged *j, size_t row, uint32_t column);
double table_usual(const struct table_judged *j, const struct table_reason *why, uint32_t column);

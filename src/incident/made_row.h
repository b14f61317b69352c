/* made_row.h - a row on its way to the judge, with what it was made of; and the rows of a file, of
 * which none is judged before all have come. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "detect/windows.h"

/* What is left of a row's detail. */
struct row_calls {
	struct window_key keys[WINDOWS_KEYS];
	uint32_t len;
	double lost_ns; /* NaN unknown */
};

struct made_row {
	struct feature_row row;
	struct row_calls calls;
	double values[FEATURES_MOST]; /* of a row of counters, in their units */
	bool has_values;
};

void made_row_of_window(struct made_row *ret, const struct feature_row *row,
			const struct window_detail *detail);
void made_row_of_counters(struct made_row *ret, const struct feature_row *row,
			  const double values[FEATURES_MOST]);
/* Of steps, and of rows that come from elsewhere. */
void made_row_of_row(struct made_row *ret, const struct feature_row *row);
/* NULL: it has none. */
const double *made_row_values(const struct made_row *r);

struct row_queue {
	VEC(struct made_row) rows;
	uint64_t window_ns;
};

void row_queue_push(struct row_queue *q, const struct made_row *row);
void row_queue_sort(struct row_queue *q);
/* Hands out all of them, in the order in which a detector judges them, and forgets them. */
void row_queue_drain(struct row_queue *q, void (*judge)(void *ctx, const struct made_row *row),
		     void *ctx);

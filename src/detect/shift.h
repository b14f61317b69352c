/* shift.h - what is usual in a kind of work, against the rows that the mixture was made of: learned
 * from its first rows where the kind is new, followed where all is normal. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "detect/explain.h"
#include "detect/features.h"
#include "detect/model.h"

/* Rows of a regime against those of the mixture: what is added to the usual. */
struct shift {
	uint32_t regime;
	bool known;
	uint32_t rows;			     /* that were collected */
	const struct model_mixture *against; /* of the centre; NULL: a model has the work */
	double *collected;
	double centre[FEATURES_MOST];
	double trend[FEATURES_MOST]; /* of the centre, a second */
};

/* Of one process or GPU. Zeroed at its beginning. */
struct shifts {
	VEC(struct shift) list;
};

void shifts_free(struct shifts *s);
/* Of a regime; NULL: there is none yet. Valid until the next is made. */
struct shift *shifts_find(struct shifts *s, uint32_t regime);
struct shift *shifts_make(struct shifts *s, uint32_t regime, bool known);

#define REBASE_ROWS 30 /* of work of a new kind, before it is judged */
/* A row of new work. After REBASE_ROWS of them it is known. */
void shift_collect(struct shift *s, const struct model_mixture *m, const struct feature_row *row);
/* Rows are judged by m from now on, as a process's are that is a helper no more: what is usual in
 * collected work stays where it is. m lives as long as the shift. */
void shift_against(struct shift *s, const struct model_mixture *m, enum detect_layer layer);
/* A normal row, row: its features with the centre taken off. */
void shift_follow(struct shift *s, const struct explained *x, const double *row,
		  const struct model_mixture *m, const struct feature_row *r);
/* What is usual is learned anew. */
void shift_forget(struct shift *s);

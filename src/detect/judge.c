/* judge.c - the score of a row under its layer's mixture, and what that is worth. */
#include "detect/judge.h"

#include <math.h>
#include <string.h>

#define LAUNCHES 0.33 /* what one launch tells of others, on an H200: -ln p is a quarter less */

/* Rows of one launch are alike more than those of two: what p would be for another launch was not
 * seen, the less the fewer recordings the model was made of. Of what was recorded before the rows
 * of this very job nothing has to be allowed for. */
static double p_of_launch(const struct model *m, bool of_launch, double p)
{
	double n = m->recordings ? m->recordings : 1;
	return of_launch ? p : pow(p, n / (n + LAUNCHES));
}

void judge_row(struct judgement *ret, const struct model *m, const struct model_mixture *mixture,
	       bool of_launch, const struct feature_row *row)
{
	struct feature_row blurred;
	struct explained noisy;
	explain_blurred(&blurred, row);
	explain_row(&noisy, mixture, row->layer, blurred.x);
	explain_row(&ret->explained, mixture, row->layer, row->x);
	ret->explained.score = noisy.score;
	ret->p = p_of_launch(m, of_launch, tail_p(&mixture->tail, noisy.score));
	ret->distance_p = tail_p(&mixture->tail, noisy.distance_score);
}

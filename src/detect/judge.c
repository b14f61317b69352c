/* judge.c - the score of a row under its layer's mixture, what that is worth, and what its pace is
 * worth by itself. */
#include "detect/judge.h"

#include <math.h>
#include <string.h>

#include "detect/alone.h"

#define LAUNCHES    0.33 /* what one launch tells of others, on an H200: -ln p is a quarter less */
#define ALONE_SHARE 0.2

/* Rows of one launch are alike more than those of two: what p would be for another launch was not
 * seen, the less the fewer recordings the model was made of. Of what was recorded before the rows
 * of this very job nothing has to be allowed for. */
static double p_of_launch(const struct model *m, bool of_launch, double p)
{
	double n = m->recordings ? m->recordings : 1;
	return of_launch ? p : pow(p, n / (n + LAUNCHES));
}

/* Rows that are rare by one column alone are ALONE_SHARE of those that are rare by all together:
 * so much more often may a normal row alarm. */
static double rarer(double p, double alone)
{
	return isnan(alone) ? p : fmin(p, alone / ALONE_SHARE);
}

/* How fast its work goes on is what a process is there for. By the clock where there is one: it
 * knows what normal is also where much of what was learned from was slow. */
static double pace_p(const struct model *m, const struct feature_row *row)
{
	size_t f = feature_place(row->layer, "pace_loss");
	if (f == FEATURES_MOST)
		return NAN;
	if (m->clock.layer < DETECT_LAYERS)
		return alone_pace_p(&m->clock, exp(-row->x[f]));
	return alone_p(&m->layers[row->layer], "pace_loss", row->x[f]);
}

void judge_row(struct judgement *ret, const struct model *m, bool of_launch,
	       const struct feature_row *row)
{
	const struct model_mixture *mixture = &m->layers[row->layer];
	struct feature_row blurred;
	struct explained noisy;
	explain_blurred(&blurred, row);
	explain_row(&noisy, mixture, row->layer, blurred.x);
	explain_row(&ret->explained, mixture, row->layer, row->x);
	ret->explained.score = noisy.score;
	ret->p = p_of_launch(m, of_launch,
			     rarer(tail_p(&mixture->tail, noisy.score), pace_p(m, &blurred)));
	ret->distance_p = tail_p(&mixture->tail, noisy.distance_score);
}

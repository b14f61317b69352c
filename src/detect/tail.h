/* tail.h - what a score is worth: the probability that a normal row scores as high or higher.
 *
 * The body is the distribution that was seen (conformal p-values: (1 + rows as high) / (1 + rows)),
 * beyond its TAIL_SHARE-quantile a generalised Pareto distribution carries on, so that rates
 * of a few alarms in hours can be asked for with less data than that (Pickands 1975; Balkema and
 * de Haan 1974; Siffer et al., "Anomaly detection in streams with extreme value theory", 2017).
 * No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define TAIL_POINTS 256	 /* of the body that are kept */
#define TAIL_SHARE  0.10 /* of the scores above the threshold of the Pareto tail */
#define TAIL_LEAST  20	 /* scores needed */

struct tail {
	uint64_t n;		    /* scores it was made of; 0: none, p is NaN */
	double points[TAIL_POINTS]; /* quantiles of the body at equal distances, the lowest first */
	double start;		    /* where the Pareto tail begins */
	double start_ratio;	    /* share of the scores above start */
	double shape, scale;	    /* xi in [-0.5, 1], beta > 0 */
};

/* Of scores of normal rows that the model was not fitted on. Not finite ones are left out.
 * -EINVAL: fewer than TAIL_LEAST. */
int tail_fit(struct tail *ret, const double *scores, size_t n, struct err *e);

/* Where a share of the rows may be faulty: only the lower part of the scores is believed (below
 * their believed-quantile, 0.5 to 0.9), and a gamma distribution that is fitted to it by
 * truncated maximum likelihood says which scores are beyond what is normal. keep[i] becomes false
 * for those, where they are more than one row in forty: fewer are the tail of normal rows. Returns
 * how many are left. Scores are squared distances or like them: not negative; not finite ones are
 * dropped. */
size_t tail_clean(const double *scores, size_t n, double believed, bool *keep);

/* P(score >= s) for a normal row, in (0, 1]; falls as s grows. */
double tail_p(const struct tail *t, double score);

/* explain.h - what a row is worth under a layer's mixture, and which of its features make it so.
 * No I/O, keeps nothing. */
#pragma once

#include <stdbool.h>

#include "detect/features.h"
#include "detect/model.h"

struct explained {
	double score; /* -log density; of a row that is merely better than usual the lowest there
		       * is; NaN: the row has none of the layer's columns */
	bool better;
	double distance_score; /* -log density also where it is better */
	/* By feature of the layer: its part in the distance from the component that is nearest, 0
	 * of what is no column or not known. They add up to at most 1. */
	double shares[FEATURES_MOST];
	double usual[FEATURES_MOST]; /* the nearest component's value, in the feature's unit */
};

/* x: as in struct feature_row. Time that is saved is no fault: where more than half of the distance
 * comes from features of calls and steps that are lower than usual, or of a process that waits less
 * and makes more calls, the row is better. So it is where its calls and the times between them all
 * took less than usual, and none failed. But not where one of these times is a tenth longer than
 * usual, or than the row's other features let expect. */
void explain_row(struct explained *ret, const struct model_mixture *m, enum detect_layer layer,
		 const double *x);

/* Rows are judged, and mixtures learned, with a little noise on top: differences as small as it
 * mean nothing to anybody, however steady a job is, and must not alarm. Its standard deviation, in
 * the feature's unit. */
double explain_blur(const struct feature *f);
/* Adds it: normal, by hash of the row's time, layer and process, so that it is the same for the
 * same row. ret may be row. */
void explain_blurred(struct feature_row *ret, const struct feature_row *row);

/* The row as the mixture's columns, standardised; returns how many of them are known. */
uint32_t explain_columns(double *ret, const struct model_mixture *m, enum detect_layer layer,
			 const double *x);

/* alarm_rate.h - how rare a row or a sum of rows has to be for an alarm.
 *
 * The alarms that were asked for in an hour are split among the layers that are judged, then
 * between windows by themselves and sums of them, then among the processes and GPUs that have
 * rows; a row's share is as long as its time. */
#pragma once

#include "detect/model.h"
#include "incident/series.h"

#define ALARM_HEIGHTS 31

struct alarm_rate {
	double alarms_per_hour;
	double least_effect;	       /* share of the time */
	double heights[ALARM_HEIGHTS]; /* of sums, at 2^i windows between alarms; 0 not made yet */
};

/* The p below which this row alarms by itself; likewise one over the rows between alarms of the
 * sum. */
double alarm_p(const struct alarm_rate *r, const struct model *m, const struct series_set *series,
	       const struct feature_row *row);
/* The height at which a sum alarms that often, of rows that the mixture judges. */
double alarm_height(struct alarm_rate *r, const struct model_mixture *m, double p);

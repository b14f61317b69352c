/* alarm_rate.c - the share of the alarms that one row has. */
#include "incident/alarm_rate.h"

#include <math.h>

#include "detect/learn.h"

#define NS_PER_HOUR 3.6e12

static uint32_t layers_active(const struct model *m, const struct series_set *series,
			      uint64_t now_ns)
{
	uint32_t ret = 0;
	for (enum detect_layer l = 0; l < DETECT_LAYERS; l++)
		ret += m->layers[l].columns && series_active(series, l, now_ns);
	return ret;
}

double alarm_p(const struct alarm_rate *r, const struct model *m, const struct series_set *series,
	       const struct feature_row *row)
{
	double ways = m->without & WITHOUT_CUSUM ? 1 : 2;
	double hours = fmax((double)(row->end_ns - row->start_ns), 1e6) / NS_PER_HOUR;
	uint32_t layers = layers_active(m, series, row->start_ns);
	uint32_t active = series_active(series, row->layer, row->start_ns);
	double p =
		r->alarms_per_hour * hours / (ways * (layers ? layers : 1) * (active ? active : 1));
	return fmin(p, 0.1);
}

static double height_at(struct alarm_rate *r, int power)
{
	if (r->heights[power] == 0)
		r->heights[power] = cusum_height(exp2(power));
	return r->heights[power];
}

/* The height grows nearly as the logarithm of the windows: between powers of two by a line. */
double alarm_height(struct alarm_rate *r, const struct model_mixture *m, double p)
{
	double at = fmin(fmax(-log2(p), 4), ALARM_HEIGHTS - 2);
	int low = (int)at;
	double under = height_at(r, low), over = height_at(r, low + 1);
	return (under + (at - low) * (over - under)) * fmax(1, m->cusum_ratio);
}

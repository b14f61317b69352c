/* alarm_options.c - reads them. */
#include "cli/alarm_options.h"

#include "incident/detector.h"

int alarm_limits_of(const struct args *a, double *alarms_per_hour, double *least_effect,
		    struct err *e)
{
	double percent = -1;
	int rc = args_real(a, "alarms-per-hour", 1e-6, 3600, alarms_per_hour, e);
	if (!rc)
		rc = args_real(a, "least-effect", 0, 99, &percent, e);
	if (!rc && percent >= 0)
		*least_effect = percent > 0 ? percent / 100 : NO_EFFECT;
	return rc;
}

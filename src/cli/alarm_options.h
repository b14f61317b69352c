/* alarm_options.h - what is worth an alarm, as options: the same for detect, record and watch. */
#pragma once

#include "cli/options.h"

/* --alarms-per-hour and --least-effect; what is not given stays. */
int alarm_limits_of(const struct args *a, double *alarms_per_hour, double *least_effect,
		    struct err *e);
#define ALARM_OPTIONS(when)                                                                        \
	{0,    "alarms-per-hour",                                                                  \
	 "N",  when "how many false alarms an hour of normal running may have. 1 unless told.",    \
	 NULL, 0},                                                                                 \
	{                                                                                          \
		0, "least-effect", "PERCENT",                                                      \
			when "the share of the job's time that must be lost before anything is "   \
			     "told. 10 unless told; 0: whatever is unusual.",                      \
			NULL, 0                                                                    \
	}

/* cost.h - what recording took of a job's processor time, so that no figure is more than there was.
 * Two parts, and no moment is in both: what the job took longer while it ran (probes), and what its
 * tasks used up while they were held. */
#pragma once

#include "events/tables.h"

struct cost_seen {
	double job_cpu_s; /* as the kernel counts it, all that recording took included; 0 = unknown
			   */
	double running_cpu_s; /* taken by probes */
	double held_cpu_s;
};

struct cost {
	double running_cpu_s;
	double held_cpu_s;
	double ran_cpu_s; /* the job's processor time but while it was held; negative when unknown
			   */
	double ratio; /* running_cpu_s to ran_cpu_s, 0 to 1; negative: there is too little to tell
		       */
};

/* What all processes of a recording used, whoever waited for them, if anybody did. Where some did
 * not tell, at least what the recorder saw; 0 unknown. */
double cost_job_cpu_s(const struct rec_tables *t);

void cost_reckon(struct cost *ret, const struct cost_seen *seen);

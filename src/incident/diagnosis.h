/* diagnosis.h - a recording's incidents with their causes: anomalies -> stretches -> blame ->
 * cause.
 *
 * Of ranks that waited for one of them one incident is left, a straggler's, with that rank's cause
 * as its own: diagnosis_ranks.c.
 *
 * An incident's time is its slow steps where its process has steps, else all of it; usual are the
 * steps of the same loop, or the time, outside of all incidents. No I/O. */
#pragma once

#include "incident/anomaly_list.h"
#include "incident/causes.h"

struct diagnosed_step {
	uint64_t start_ns, end_ns;
	uint32_t pid;
	struct blame blame;
};

/* Where a victim lost most, by the anomaly that says most of why. Strings are the list's; NULL: not
 * known, or none. */
struct victim_place {
	const char *phase; /* of its steps */
	const char *function, *file;
	uint32_t line;
};

struct diagnosed {
	uint64_t id; /* as the anomalies have it */
	uint64_t onset_ns, end_ns, told_ns;
	VEC(size_t) anomalies; /* indexes into the list */
	size_t first;	       /* of them, that says most of why */
	uint32_t pid;	       /* the victim */
	struct victim_place place;
	double cost_ns;
	/* What its anomalies lost is of until then: of one that lasts it is older than its end. */
	uint64_t lost_until_ns;
	bool lost_by_pace; /* what its victim lost is by its own pace */
	/* Of another rank than the incident's victim, to see whether that was waited for; none is
	 * left in a diagnosis. */
	bool aside;
	/* With options.besides: what came to an incident of another cause, which went on: with its
	 * id, the same victim's, and within its time. Compared with the rest of that. */
	bool beside;
	bool blamed; /* what follows is known */
	struct evidence evidence;
	struct cause_found cause;
	VEC(struct diagnosed_step) steps;
	size_t question;	/* while a diagnosis is made: of its stretches */
	struct blame_path path; /* along them */
};

struct diagnosis {
	VEC(struct diagnosed) incidents; /* in order of their onsets */
	double cost_ns;			 /* of all */
};

struct diagnosis_options {
	bool each; /* steps are blamed one by one as well */
	/* What comes to a cause that stands is an incident too, within the other one's time. */
	bool besides;
	bool no_walk; /* a wait is put down to itself, whoever ended it: for comparison */
	/* How many pieces paths have, of all incidents together; 0: none are made. Those that cost
	 * most come first. */
	size_t path_most;
	uint64_t path_least_ns; /* what is shorter is of a neighbour's piece */
};

/* steps, t, list: of the source. */
void diagnosis_make(struct diagnosis *ret, const struct row_source *s, const struct timeline *t,
		    const struct steps *steps, const struct anomaly_list *list,
		    const struct diagnosis_options *options);
void diagnosis_free(struct diagnosis *d);

/* The incident that another one came to. */
const struct diagnosed *diagnosis_came_to(const struct diagnosis *d,
					  const struct diagnosed *beside);

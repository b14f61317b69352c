/* agent_incidents.h - the incidents that an agent was told of, as its answers have them, and how
 * many there were of each cause, with what they cost. Not for several threads. */
#pragma once

#include <jansson.h>

#include "incident/incident_row.h"
#include "serve/agent_series.h"

#define AGENT_INCIDENTS 64 /* the latest */

/* A row's key, and what was counted of it when it had ended. */
struct agent_counted {
	uint64_t id, told_ns;
	uint32_t pid;
	double cost_ns;
	char cause[AGENT_CAUSE_BYTES]; /* "": it had not */
};

struct agent_incidents {
	json_t *list; /* of objects, as report_anomalies.h has them, the latest last */
	struct agent_causes causes;
	struct agent_counted
		counted[AGENT_INCIDENTS]; /* the rest is its own: of each of the list */
};

void agent_incidents_open(struct agent_incidents *in); /* in: zeroed */
void agent_incidents_close(struct agent_incidents *in);

/* A row takes the place of the one with its number, process and key (incident_row.h): an incident
 * has one for each of its pieces, and for what came beside its cause. It counts when it has ended;
 * when it ends again what it cost more is added. What came beside another has no cost of its own.
 * Returns the object that the list has of it. */
json_t *agent_incidents_take(struct agent_incidents *in, const struct incident_said *told);

/* report_anomalies.h - anomalies as JSON and as text: the same for detect, record and watch. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "incident/anomaly_list.h"
#include "incident/incident_row.h"

/* The caller's. Keys are documented in docs/detect.md; numbers that are not known are null. */
json_t *anomaly_json(const struct anomaly *a);
json_t *incident_json(const struct incident_said *s);
json_t *misfit_json(const struct model_misfit *m);
json_t *change_json(const struct change *c);

/* What was found in a recording. */
struct report_anomalies {
	const struct anomaly_list *found;
	const char *path, *model_path;	/* model NULL: by its own beginning */
	const struct setting *model_of; /* what the model was learned on; NULL unknown */
	bool told;			/* while it was recorded: nothing was judged now */
	double alarms_per_hour;
	uint64_t start_ns; /* of the recording */
	size_t top;	   /* anomalies that text has: the rarest */
	unsigned width;	   /* of text, in columns */
	bool colour;
};

json_t *report_anomalies_json(const struct report_anomalies *r);
/* -ENODATA and the sentence where nothing could be judged, and nothing was found either. */
int report_anomalies_check(const struct report_anomalies *r, struct err *e);
void report_anomalies_text(FILE *out, const struct report_anomalies *r);

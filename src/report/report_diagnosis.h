/* report_diagnosis.h - what 'eacgm diagnose' says: incidents with causes, as text and JSON. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "incident/diagnosis.h"

struct report_diagnosis {
	const struct diagnosis *d;
	const struct anomaly_list *list; /* that it is of */
	const struct rec_tables *t;
	const char *path, *model_path; /* model NULL: by its own beginning */
	uint64_t start_ns, end_ns;     /* of the recording */
	bool steps;		       /* each slow step has its lines */
	bool told;		       /* while it was recorded: nothing was judged now */
	size_t top;		       /* incidents that text has: the dearest */
	unsigned width;
	bool colour;
};

void report_diagnosis_text(FILE *out, const struct report_diagnosis *r);
/* The caller's. Keys are documented in docs/diagnose.md. */
json_t *report_diagnosis_json(const struct report_diagnosis *r);

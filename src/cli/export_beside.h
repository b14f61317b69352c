/* export_beside.h - what an export has beside the rows of a recording: steps, arrows from calls to
 * what they started, a verdict. What was not normal is the caller's to find (detect_cli.h). */
#pragma once

#include "cli/detect_cli.h"
#include "export/export.h"
#include "export/step_slices.h"
#include "recording/recording.h"

struct export_beside {
	struct work_flows flows;
	struct call_flows call_flows;
	struct step_slices steps;
	char *verdict; /* NULL: none */
};

/* As much of it as the format has a place for. */
void export_beside_make(struct export_beside *ret, const struct rec_reader *reader,
			const struct sink_format *format);
/* Names it, and what was judged, in options that end before both do. */
void export_beside_put(struct export_beside *b, const struct judged_slices *judged,
		       struct export_options *options);
void export_beside_free(struct export_beside *b);

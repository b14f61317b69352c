/* detect_found.h - the anomalies of a recording, kept until they are printed. */
#pragma once

#include "base/buffer.h"
#include "cli/detect_cli.h"
#include "report/report_json.h"
#include "incident/anomaly_lines.h"
#include "incident/detector.h"

struct found_anomaly {
	struct anomaly a; /* its strings are owned */
	size_t rarer;	  /* anomalies that are rarer, or as rare and earlier */
	struct anomaly_lines lines;
};

struct found {
	const struct detect_options *options;
	const struct rec_reader *reader;
	uint64_t start_ns;		/* of the recording */
	VEC(struct found_anomaly) list; /* in order of their starts */
	struct detector_stats stats;
	uint64_t judged_from_ns, judged_to_ns; /* of rows that have a p-value; 0: there are none */
};

/* The rows and events of struct detector_options, for whoever wants them. */
struct found_listener {
	void *ctx;
	void (*row)(void *ctx, const struct feature_row *row, double score, double p, bool alarmed);
	void (*event)(void *ctx, const struct detector_event *e);
};

/* Judges the recording: fills in start_ns, list and stats. m NULL: by its own beginning; l may be
 * NULL. Shows its progress. */
void found_make(struct found *f, const struct model *m, const struct found_listener *l);
void found_free(struct found *f);

#define FEATURE_BYTES 40
/* "0.59", "5.6 GB", "35"; logarithms of ratios as factors: "1.8 x"; "-" unknown. */
const char *feature_value(char ret[static FEATURE_BYTES], double v, const char *unit);
/* What has to be said of the unit beside such a value, "" where the value says it. */
const char *feature_unit(const char *unit);

void found_text(FILE *out, const struct found *f);
json_t *found_json(const struct found *f);

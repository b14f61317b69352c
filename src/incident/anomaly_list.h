/* anomaly_list.h - the anomalies of a recording, found or told while it was made, with what ran in
 * them. */
#pragma once

#include "base/buffer.h"
#include "incident/anomaly_lines.h"
#include "incident/detector.h"

struct listed_anomaly {
	struct anomaly a; /* its strings are owned */
	size_t rarer;	  /* anomalies that are rarer, or as rare and earlier */
	struct anomaly_lines lines;
};

/* A time that nothing is compared by: the job was slower for what was recorded of it. */
struct unjudged_time {
	uint64_t from_ns, to_ns;
};

struct anomaly_list {
	VEC(struct listed_anomaly) rows;  /* in order of their starts */
	VEC(struct model_misfit) misfits; /* in order of their telling; differs is owned */
	VEC(struct change) changes; /* other work that is no fault, in order of its first time */
	struct setting setting;	    /* what the recording was made on */
	struct detector_stats stats;
	const struct unjudged_time *unjudged; /* the caller's; in order, none overlap */
	size_t unjudged_len;
	uint64_t judged_from_ns, judged_to_ns; /* of rows that have a p-value; 0: there are none */
};

struct anomaly_list_options {
	/* As in struct detector_options; the callbacks may be NULL. */
	const struct model *model;
	double alarms_per_hour, least_effect;
	bool follow;
	uint32_t without_excuses;
	void *ctx;
	void (*row)(void *ctx, const struct feature_row *row, const char *layer, double score,
		    double p, bool alarmed);
	void (*event)(void *ctx, const struct detector_event *e);
	/* At the end: what rows were judged by; NULL: of a recording alone. */
	void (*judged_by)(void *ctx, const struct model *m, const struct detect_layers *layers);
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
};

/* Judges the recording. ret is filled in; lines of its first 256 anomalies are looked for. */
void anomaly_list_make(struct anomaly_list *ret, const struct row_source *reader,
		       const struct anomaly_list_options *o);
/* Judges rows of a file again, by o's model; nothing is known of lines. */
void anomaly_list_replay(struct anomaly_list *ret, const struct rows_file *rows,
			 const struct anomaly_list_options *o);
/* What was told while it was recorded. reader NULL: nothing is known of lines. */
void anomaly_list_told(struct anomaly_list *ret, const struct rec_tables *t,
		       const struct row_source *reader);
void anomaly_list_free(struct anomaly_list *l);

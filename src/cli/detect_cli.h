/* detect_cli.h - what the files of 'learn' and 'detect' share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/options.h"
#include "detect/model.h"
#include "export/incident_slices.h"
#include "incident/anomaly_list.h"
#include "recording/recording.h"

/* A file is a table of numbers if its name ends in ".csv", else a recording. */
bool path_is_table(const char *path);
/* Rows that were judged before: ".jsonl". */
bool path_is_rows(const char *path);

/* Says on standard error that a recording is damaged, where it is. */
void tell_damage(const char *command, const char *path, const struct rec_reader *r);

struct detect_options {
	const char *path;	/* what is judged */
	const char *model_path; /* NULL: none */
	bool json;
	size_t top;		   /* anomalies that are shown */
	const char *rows, *events; /* files to be written, or NULL */
	double p, delta;	   /* of a table: one is NaN */
	double alarms_per_hour;	   /* of a recording */
	double least_effect;	   /* likewise; 0: the detector's own */
	bool told;		   /* likewise: what was told while it was recorded */
	bool follow;		   /* likewise */
	uint32_t without_excuses;  /* likewise */
};

/* Judge a table or a recording, and print what was found; *ret_found is how much. m may be NULL
 * for a recording. 0, or negative errno with the sentence. */
int detect_table(const struct detect_options *o, const struct model *m, uint64_t *ret_found,
		 struct err *e);
int detect_rows(const struct detect_options *o, const struct model *m, uint64_t *ret_found,
		struct err *e);
int detect_recording(const struct detect_options *o, const struct model *m, uint64_t *ret_found,
		     struct err *e);
/* Judges a recording, with its progress on a terminal. */
void detect_anomalies(struct anomaly_list *ret, const struct rec_reader *reader,
		      const struct anomaly_list_options *o);
/* What was not normal of a recording, and why, for a timeline; model_path NULL: by its own
 * beginning; that nothing could be judged, and what is left out, is said on standard error. 0, or
 * negative errno with the sentence: the model cannot be used. ret is written on success only. */
int detect_slices(struct judged_slices *ret, const struct rec_reader *reader, const char *path,
		  const char *model_path, struct err *e);
/* What was told while it was recorded. */
void told_slices(struct judged_slices *ret, const struct rec_reader *reader);

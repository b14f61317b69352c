/* export.h - writes a recording in another format. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/output_file.h"
#include "export/sink.h"
#include "events/visitor.h"

struct export_options {
	struct output_owner owner; /* of the file */
	/* Called after each block; false stops the export with -EINTR. May be NULL. */
	bool (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	demangle_fn *demangle;			 /* for names of kernels; NULL: as they are */
	const struct step_slices *steps;	 /* NULL: none */
	const struct anomaly_slices *anomalies;	 /* NULL: none */
	const struct incident_slices *incidents; /* NULL: none */
	const struct call_flows *call_flows;	 /* NULL: none */
	const char *verdict;	  /* of the recording, a sentence a line; NULL: none */
	bool counters_only;	  /* of a format that is rows */
	bool no_formulas;	  /* of a format for spreadsheets */
	struct work_flows *flows; /* from calls to GPU spans; NULL: none. They are used up */
};

/* Writes to path as base/output_file.h says: path holds either what it held before or the whole
 * export; a pipe, or /dev/stdout, is written to directly. Returns 0; or negative errno with the
 * sentence. Blocks of the recording that cannot be decoded are left out and counted in
 * *ret_skipped. */
int export_file(const struct row_source *s, const struct sink_format *format, const char *path,
		const struct export_options *options, uint64_t *ret_skipped, struct err *e);

/* The same of a format whose sink is open already, which is closed; there is no file to name. */
int export_into(const struct row_source *s, const struct sink_format *format, struct sink *sink,
		const struct export_options *options, uint64_t *ret_skipped, struct err *e);

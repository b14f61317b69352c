/* sink.h - what a format is: one struct of functions, one file, one line in formats.c.
 *
 * A sink writes to a stream that it is given, or to the stream's file. It does not open, name or
 * rename files, and leaves checking the stream for write errors to the driver (export.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "export/anomaly_slices.h"
#include "export/call_flows.h"
#include "export/incident_slices.h"
#include "export/step_slices.h"
#include "export/track_order.h"
#include "export/work_flows.h"
#include "events/visitor.h"

struct sink; /* each format's own */

/* A step of a thread's time line. Of one thread they come in order of time and properly
 * nested: every begin has its end, and no call outlasts the one around it. */
enum span_kind { SPAN_BEGIN, SPAN_END, SPAN_INSTANT };
struct span {
	enum span_kind kind;
	uint64_t time_ns;
	const struct m_call *call; /* its own duration may be longer than what is shown */
	/* Of begins: arrows that leave it to launches, numbered from flow_first; and of a launch
	 * the arrow that ends at it on its stream's lane, 0 for other calls. */
	uint64_t flow_first;
	uint32_t flows;
	uint64_t launch_flow;
};

struct sink_format {
	const char *name;      /* "perfetto" */
	const char *extension; /* of files, without the dot */
	struct sink *(*open)(FILE *out, const struct rec_tables *t);
	/* It writes to the file behind the stream, at any place: not to a pipe or a device. */
	bool needs_file;
	/* For names of kernels. NULL where the format does without. */
	void (*demangler)(struct sink *s, demangle_fn *demangle);
	/* What a spreadsheet would take for a formula is marked as text, from here on. NULL where
	 * the format is none of theirs. */
	void (*no_formulas)(struct sink *s);
	/* Likewise: what is to be known of the recording, a sentence a line. Stays until the sink
	 * is closed. */
	void (*verdict)(struct sink *s, const char *lines);
	/* Before the tables: in which order processes and threads are shown. NULL where a format
	 * has none. */
	void (*order)(struct sink *s, const struct track_order *order);
	void (*tables)(struct sink *s); /* once, before all rows */
	/* All bulk rows, of every kind, as they lie in the file; then none of those below that are
	 * of one kind is there. */
	void (*rows)(struct sink *s, enum row_kind kind, const void *rows, size_t n);
	/* Else exactly one of the two: calls as they lie in the file, or as nested spans. */
	void (*calls)(struct sink *s, const struct m_call *rows, size_t n);
	void (*span)(struct sink *s, const struct span *span);
	void (*counters)(struct sink *s, const struct m_counter *rows, size_t n);
	/* These: NULL where the format has no place for them. */
	void (*samples)(struct sink *s, const struct m_sample *rows, size_t n);
	void (*waits)(struct sink *s, const struct m_wait *rows, size_t n);
	void (*stalls)(struct sink *s, const struct m_stall *rows, size_t n);
	void (*disk_io)(struct sink *s, const struct m_disk_io *rows, size_t n);
	void (*gpu_spans)(struct sink *s, const struct m_gpu_span *rows, size_t n,
			  demangle_fn *demangle); /* demangle may be NULL */
	/* Before all rows, where there are any: arrows between these and calls. */
	void (*work_flows)(struct sink *s, struct work_flows *flows);
	void (*call_flows)(struct sink *s, const struct call_flows *flows); /* likewise */
	/* After the tables, where there are any. NULL likewise. */
	void (*steps)(struct sink *s, const struct step_slices *slices);
	/* Likewise: what was not normal. */
	void (*anomalies)(struct sink *s, const struct anomaly_slices *slices);
	/* Likewise: incidents with their causes, and whose their time was. */
	void (*incidents)(struct sink *s, const struct incident_slices *slices);
	/* Of a sink that needs a file: what went wrong so far, as errno; 0: nothing. */
	int (*failure)(const struct sink *s);
	/* Likewise, once after all rows: ends the file. */
	void (*finish)(struct sink *s);
	void (*close)(struct sink *s); /* writes what ends a stream, and frees */
};

extern const struct sink_format sink_perfetto;
extern const struct sink_format sink_chrome;
extern const struct sink_format sink_csv;
extern const struct sink_format sink_jsonl;
extern const struct sink_format sink_sqlite;

/* The format of a name, NULL when there is none. */
const struct sink_format *sink_format(const char *name);

/* otlp_events.h - what happens between two pushes, for OpenTelemetry: incidents and errors of GPUs
 * and collectives as logs; steps, collectives and incidents as spans. Memory is bounded: of steps
 * and of collectives the longest stay, of logs the first, and what is left out is counted.
 *
 * A step is the root of a trace of its own, with the collectives that began in it. Times are
 * CLOCK_MONOTONIC. May be told from any thread. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "serve/otlp_about.h"

#define OTLP_LOGS  256 /* between two pushes */
#define OTLP_SPANS 256 /* of steps, of collectives, and of incidents, likewise */

struct otlp_events;
struct otlp_events *otlp_events_new(void);
void otlp_events_free(struct otlp_events *e);

/* Strings are borrowed; NULL or "": not known. */
struct otlp_incident {
	uint64_t id, onset_ns, end_ns;
	uint64_t told_ns;	   /* tells the pieces of an incident apart */
	uint32_t pid, culprit_pid; /* 0: none */
	bool ended;
	bool beside;		    /* it came to another one, in whose cost it is, too */
	double cost_ns, confidence; /* confidence 0 to 1 */
	const char *sentence, *cause, *runner_up, *culprit, *culprit_kind, *advice;
	const char *evidence, *blame; /* joined by "; " */
};
/* A log each time, a span when it has ended. */
void otlp_events_incident(struct otlp_events *e, const struct otlp_incident *i);

/* An error ("xid" of "gpu 0", "79: fallen off the bus") or a warning, which is no incident. */
struct otlp_notice {
	uint64_t time_ns;
	bool is_error;
	const char *name, *of, *text;
};
void otlp_events_notice(struct otlp_events *e, const struct otlp_notice *n);

/* A step is what lies between two ends in the same process. They need not be told in order. */
struct otlp_step_end {
	uint32_t pid;
	const char *kind; /* "training" */
	uint64_t end_ns;
	bool first; /* no step ends here: one begins */
};
void otlp_events_step_end(struct otlp_events *e, const struct otlp_step_end *s);

struct otlp_collective {
	uint32_t pid, tid;
	const char *name, *layer;
	uint64_t start_ns, end_ns;
	int64_t bytes; /* -1 unknown */
	bool failed;
};
void otlp_events_collective(struct otlp_events *e, const struct otlp_collective *c);

struct otlp_events_stats {
	uint64_t logs, spans;			/* written */
	uint64_t logs_left_out, spans_left_out; /* that found no room */
};
void otlp_events_stats(struct otlp_events *e, struct otlp_events_stats *ret);

/* Append an ExportLogsServiceRequest and an ExportTraceServiceRequest of what came since the last
 * time, nothing where nothing came. Return the rows. upto_ns: steps and collectives that end later
 * wait for the next time, since the ends of steps before them may still come. */
size_t otlp_events_write_logs(struct otlp_events *e, struct buf *ret,
			      const struct otlp_about *about, uint64_t offset_ns);
size_t otlp_events_write_spans(struct otlp_events *e, struct buf *ret,
			       const struct otlp_about *about, uint64_t offset_ns,
			       uint64_t upto_ns);

/* detector.h - says what was not normal, as events come: offline from a recording, live from the
 * pipeline. Memory is bounded: open windows, one state for each key, process and counter.
 *
 * With a model it goes by that. Without one it learns from what comes: nothing is told before
 * LEARN_LIVE_S seconds of work, and the model follows slowly (medians by an exponential
 * average over ten minutes), but never from windows that are alarmed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/features.h"
#include "detect/fit.h"
#include "detect/model.h"
#include "detect/names.h"
#include "detect/rows_file.h"
#include "incident/anomaly.h"
#include "incident/changes.h"
#include "events/visitor.h"

#define LEAST_EFFECT 0.1
#define NO_EFFECT    1e-9 /* whatever is lost */

/* The model does not fit the run, or one of its processes: told once. */
struct model_misfit {
	uint32_t pid;		    /* that shows it */
	uint64_t since_ns, told_ns; /* start of the first of the windows that it was found by */
	enum fit_verdict verdict;   /* above FIT_FITS */
	double pace;		    /* in the middle of these windows, and */
	double share;		    /* of their time in calls that the model does not know */
	bool relearns;		    /* the model is given up: what comes is learned */
	const char *differs;	    /* from what was learned; NULL: nothing that is known */
	char why[768];		    /* one sentence or two */
};

struct detector_options {
	const struct model *model; /* NULL: learns from what comes */
	uint64_t window_ns;	   /* 0 = the model's, or 1 s */
	double alarms_per_hour;	   /* of recorded time where all is normal; 0 = 1 */
	/* Share of a job's time that must be lost for an alarm; 0 = LEAST_EFFECT. */
	double least_effect;
	bool follow;		  /* what is usual follows slow drift; always without a model */
	uint32_t without_excuses; /* bits of excuse_bit (excuses.h): what is not excused */
	/* All events come before detector_end, in any order between threads: a file. Windows are
	 * judged then, and take about 1 KiB each until then. */
	bool whole;
	void (*tell)(void *ctx, const struct anomaly *a); /* when it is found, and when it ends */
	void *tell_ctx;
	/* Of the model; may be NULL. The second adds what a run is made on, as far as it is known.
	 */
	void (*misfit)(void *ctx, const struct model_misfit *m);
	void (*setting)(void *ctx, uint32_t pid, struct setting *ret);
	/* Other work that is no fault, each kind of a process once, when it is known; may be NULL.
	 */
	void (*change)(void *ctx, const struct change *c);
	/* Each row, or NULL: for --rows and watch. p is NaN where not judged. alarmed: it is of an
	 * anomaly; a whole file's rows come at its end, when all of them are known, others as they
	 * are judged. */
	void (*row)(void *ctx, const struct feature_row *row, double score, double p, bool alarmed);
	/* Each event, or NULL: for --events. Of detector_recording alone, at its end, in the order
	 * of the file. */
	void (*event)(void *ctx, const struct detector_event *e);
};

struct detector;
struct detector *detector_new(const struct detector_options *o);
void detector_free(struct detector *d);

/* Names of the layers that it met so far; valid as long as the detector. */
const struct detect_layers *detector_layers(const struct detector *d);

/* What it goes by, also what it learned so far, which changes as it goes on. */
const struct model *detector_model(const struct detector *d);

/* Events, each thread's in order of their ends; between threads and sources the order may be off
 * by DETECTOR_LATE_NS. */
#define DETECTOR_LATE_NS 400000000ULL
void detector_call(struct detector *d, const struct detect_names *n, const struct m_call *c);
void detector_gpu_span(struct detector *d, const struct detect_names *n,
		       const struct m_gpu_span *s);
void detector_wait(struct detector *d, const struct detect_names *n, const struct m_wait *w);
void detector_counter(struct detector *d, const struct detect_names *n, const struct m_counter *c);
void detector_sample(struct detector *d, const struct detect_names *n, const struct m_sample *s);
/* A row that was made elsewhere: steps. In order of time for each process. */
void detector_row(struct detector *d, const struct feature_row *row);
/* So many events that ended between are not among those that come. What the tracer lost itself is
 * told by its counter, lost_calls. */
void detector_lost(struct detector *d, uint64_t from_ns, uint64_t to_ns, uint64_t events);
/* A process, when it begins, changes and ends. Of one that has ended nothing is known any more
 * DETECTOR_GONE_NS later: its anomalies end, and its number may be another's. */
#define DETECTOR_GONE_NS 10000000000ULL
void detector_process(struct detector *d, const struct m_process *row);
/* Calls of this thread come no more. */
void detector_thread_gone(struct detector *d, uint32_t thread);
/* A job stands still, as somebody has found who looks at it (standing.h), or it goes on: told as an
 * anomaly of the process, once, and its end. */
struct job_standing {
	uint32_t pid;
	bool ended;
	uint64_t since_ns, now_ns;
};
void detector_standing(struct detector *d, const struct job_standing *j);
/* Counters of this metric come no more by its number. */
void detector_metric_gone(struct detector *d, uint32_t metric);
/* All events that ended before have come: windows up to there are judged. */
void detector_upto(struct detector *d, uint64_t now_ns);
/* What is traced has changed: open anomalies end, and what is usual is learned from here on, as
 * without a model. Not of a file. */
void detector_learn_anew(struct detector *d);
/* Nothing more comes: open windows are judged and open anomalies end. */
void detector_end(struct detector *d);

/* All of a file, its steps too, and then detector_end; options: whole. progress may be NULL. Where
 * the model does not fit, it is read again from there on and judged without. */
void detector_recording(struct detector *d, const struct row_source *r,
			void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx);

/* Likewise all rows of a file that was written of them; by a model alone. */
void detector_rows(struct detector *d, const struct model *m, const struct rows_file *f);

struct detector_stats {
	uint64_t events, rows, alarmed_rows;
	uint64_t unknown_keys; /* events of keys that had not been learned */
	uint64_t late;	       /* events that came after their window was judged */
	uint64_t lossy_rows;   /* that were not judged: they lack events that were lost */
};
void detector_stats(const struct detector *d, struct detector_stats *ret);
/* The changes that were told, as they are by now; valid as long as the detector. */
const struct change *detector_changes(const struct detector *d, size_t *ret_n);

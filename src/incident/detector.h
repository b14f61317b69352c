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
#include "detect/model.h"
#include "detect/names.h"
#include "detect/rows_file.h"
#include "incident/anomaly.h"
#include "events/visitor.h"

#define LEAST_EFFECT 0.1
#define NO_EFFECT    1e-9 /* whatever is lost */

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
	/* Each row, or NULL: for --rows and watch. p is NaN where not judged. alarmed: it is of an
	 * anomaly; a whole file's rows come at its end, when all of them are known, others as they
	 * are judged. */
	void (*row)(void *ctx, const struct feature_row *row, double score, double p, bool alarmed);
	/* Each event, or NULL: for --events. z, gap_z: NaN unknown. As they are judged, of at most
	 * 2,097,152 in 16 windows; of detector_recording at its end, in the order of the file. */
	void (*event)(void *ctx, const struct detector_event *e);
};

struct detector;
struct detector *detector_new(const struct detector_options *o);
void detector_free(struct detector *d);

/* Names of the layers that it met so far; valid as long as the detector. */
const struct detect_layers *detector_layers(const struct detector *d);

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
/* Counters of this metric come no more by its number. */
void detector_metric_gone(struct detector *d, uint32_t metric);
/* All events that ended before have come: windows up to there are judged. */
void detector_upto(struct detector *d, uint64_t now_ns);
/* Nothing more comes: open windows are judged and open anomalies end. */
void detector_end(struct detector *d);

/* All of a file, its steps too, and then detector_end; options: whole. progress may be NULL. */
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

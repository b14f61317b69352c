/* detector.h - says what was not normal, as events come: offline from a recording, live from the
 * pipeline. Memory is bounded: open windows, one state for each key, process and counter.
 *
 * With a model it goes by that. Without one it learns from what comes: nothing is told before
 * DETECTOR_LEARN_S seconds of work, and the model follows slowly (medians by an exponential
 * average over FOLLOW_S), but never from windows that are alarmed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "detect/features.h"
#include "detect/model.h"
#include "detect/names.h"
#include "recording/recording.h"

#define DETECTOR_LEARN_S 30
#define ANOMALY_FEATURES 4
#define ANOMALY_CALLS	 6

/* Something that was not normal, from its first window to its last. Strings are valid during the
 * callback, or as long as the list. */
struct anomaly {
	uint64_t id; /* from 1; the same for an anomaly that is told again when it ends */
	uint64_t start_ns, end_ns; /* end: of the last unusual window so far */
	uint64_t told_ns;	   /* end of the window that it was found by */
	bool ended;
	enum detect_layer layer;
	uint32_t pid;	  /* 0: of the host or a GPU */
	int32_t gpu;	  /* -1 none */
	const char *name; /* the function, counter or phase that did most */
	double p_value;	  /* of its worst window */
	double score;	  /* -log10 of it */
	double lost_ns;	  /* time beyond what is usual, all its windows; NaN unknown */
	uint32_t windows;
	struct {
		const char *name, *unit;
		double value, usual; /* in the feature's unit */
		double share_ratio;  /* of the distance: they add up to at most 1 */
	} features[ANOMALY_FEATURES];
	uint32_t features_len;
	struct {
		const char *key;
		uint64_t calls;
		double mean_ns, usual_ns;
		double more_ns; /* time beyond what is usual */
	} calls[ANOMALY_CALLS]; /* the most time first */
	uint32_t calls_len;
	char why[256]; /* one sentence */
};

/* An event as it is judged, when its window is. */
struct detector_event {
	uint64_t start_ns, dur_ns;
	uint32_t pid, tid;
	enum detect_layer layer;
	const char *key;
	uint32_t key_number; /* the same for the same text, dense from 1 */
	double z, gap_z;     /* NaN unknown */
	bool anomalous;	     /* in an anomaly of its layer and process, or by itself */
};

struct detector_options {
	const struct model *model; /* NULL: learns from what comes */
	uint64_t window_ns;	   /* 0 = the model's, or 1 s */
	double alarms_per_hour;	   /* of recorded time where all is normal; 0 = 1 */
	bool follow;		   /* what is usual follows slow drift; always without a model */
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

/* Events, each thread's in order of their ends; between threads and sources the order may be off
 * by DETECTOR_LATE_NS. */
#define DETECTOR_LATE_NS 400000000ULL
void detector_call(struct detector *d, const struct detect_names *n, const struct m_call *c);
void detector_gpu_span(struct detector *d, const struct detect_names *n,
		       const struct m_gpu_span *s);
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
/* This number of a string stands for it no more: counters were of it. */
void detector_name_gone(struct detector *d, uint32_t string);
/* All events that ended before have come: windows up to there are judged. */
void detector_upto(struct detector *d, uint64_t now_ns);
/* Nothing more comes: open windows are judged and open anomalies end. */
void detector_end(struct detector *d);

/* All of a file, its steps too, and then detector_end; options: whole. progress may be NULL. */
void detector_recording(struct detector *d, const struct rec_reader *r,
			void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx);

struct detector_stats {
	uint64_t events, rows, alarmed_rows;
	uint64_t unknown_keys; /* events of keys that had not been learned */
	uint64_t late;	       /* events that came after their window was judged */
	uint64_t lossy_rows;   /* that were not judged: they lack events that were lost */
	double judged_s;       /* time that was judged, the longest of the layers */
};
void detector_stats(const struct detector *d, struct detector_stats *ret);

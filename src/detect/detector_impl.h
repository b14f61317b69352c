/* detector_impl.h - the detector's parts; for detector*.c alone.
 *
 * A row goes through: detector_judge.c (a p, alarmed or not), detector_episodes.c (anomalies),
 * detector_events.c (events of judged windows). detector_learn.c makes the model where none was
 * given. */
#pragma once

#include "base/map64.h"
#include "detect/cusum.h"
#include "detect/detector.h"
#include "detect/explain.h"
#include "detect/learn_known.h"
#include "detect/losses.h"
#include "detect/windows.h"

#define NEAR_P	      0.01 /* a row before an alarmed one belongs to the anomaly below it */
#define BESIDE_P      0.1  /* a row of a job that is known to be slow is a part of that below it */
#define GAP_ROWS      1	   /* quiet rows do not end an anomaly */
#define WARMUP_S      5.0
#define FOLLOW_S      600.0 /* time constant */
#define REBASE_ROWS   30    /* of work of a new kind, before it is judged */
#define SLOWED	      0.9   /* usual work that goes on at this pace is no work of a new kind */
#define LASTING_S     600   /* anomalies of counters */
#define SERIES_IDLE_S 600   /* without a row it is forgotten */
#define ACTIVE_S      60    /* a series without a row for so long has none */
#define RECENT_ROWS   32
#define PAUSE_ROWS    10 /* nothing goes on after so many rows that are not there */
#define HEIGHTS	      31
#define HELD_MOST     ((size_t)1 << 21) /* events */
#define CALLS_MOST    64		/* keys of an anomaly that are added up */

/* Rows of a regime against those that the mixture was made of: what is added to the usual. */
struct shift {
	uint32_t regime;
	bool known;
	uint32_t rows; /* that were collected; until REBASE_ROWS */
	double *collected;
	double centre[FEATURES_MOST];
	double trend[FEATURES_MOST]; /* of the centre, a second */
};

/* What is left of a row's detail. */
struct row_calls {
	struct window_key keys[WINDOWS_KEYS];
	uint32_t len;
	double lost_ns;
};

struct recent_row {
	uint64_t start_ns, end_ns, events;
	double p;
	struct row_calls calls;
};

/* A row in an anomaly that is not unlikely by itself. */
struct doubtful_row {
	uint64_t start_ns, end_ns;
	double rarity;
};

/* A part of an anomaly without such rows. */
struct piece {
	uint64_t start_ns, end_ns;
};
typedef VEC(struct piece) pieces;

struct episode;

/* The rows of one layer of one process or GPU. */
struct series {
	enum detect_layer layer;
	uint32_t pid;
	int32_t gpu;
	uint64_t first_ns; /* start of the first row */
	uint64_t last_ns;  /* start of the last row */
	bool gone;	   /* its process has ended */
	uint32_t regime;   /* the last that was told */
	uint32_t usual;	   /* the last of which it is known what is usual */
	uint64_t other_ns; /* end of the last row in which it did other work */
	struct cusum cusum;
	VEC(struct shift) shifts;
	struct recent_row recent[RECENT_ROWS]; /* that belong to no anomaly; ring */
	uint32_t recent_at, recent_len;
	struct episode *open;
};

struct episode {
	struct anomaly a; /* features, score: of its worst row */
	struct series *series;
	uint64_t first_end_ns;	/* of its first and start of its last window: events in them are */
	uint64_t last_start_ns; /* looked at one by one */
	uint32_t quiet;		/* rows since the last that belongs to it */
	double evidence;	/* of these, summed up: little */
	VEC(struct recent_row) after; /* these */
	VEC(struct window_key) calls;
	VEC(char *) texts;		  /* the anomaly's strings */
	uint64_t from_ns, to_ns;	  /* of events, once they were looked at; 0 not yet */
	double rarity;			  /* of its rows, summed up: -ln p each */
	double first_rarity, last_rarity; /* of its first and last row */
	double events, first_events, last_events; /* of its rows, likewise */
	double usual_events;	/* of the normal rows before it, in the mean; NaN: none */
	uint64_t before_ns;	/* start of the normal row just before it; else its own */
	struct edges *edges;	/* where events are told */
	struct slow_keys *slow; /* likewise */
	VEC(struct doubtful_row) doubtful; /* in order of time */
	pieces marked;			   /* of events, likewise */
};

/* A row of a file, with what it was made of: rows of all layers are judged in order of time. */
struct waiting_row {
	struct feature_row row;
	uint64_t due_ns;
	struct row_calls calls;
	double values[FEATURES_MOST];
	bool has_values;
};

/* A row that waits for the anomalies of later ones. */
struct held_row {
	struct feature_row row;
	double score, p;
	bool alarmed;
};

/* When an anomaly was, for rows that it is told of later. */
struct stretch {
	enum detect_layer layer;
	uint32_t pid;
	int32_t gpu;
	uint64_t start_ns, end_ns;
};

struct held_event {
	uint64_t start_ns, dur_ns;
	uint32_t key, pid, tid;
	float z, gap_z;
	float usual_ns; /* 0 unknown */
};
_Static_assert(sizeof(struct held_event) == 40, "of millions of events nothing is wasted");

struct detector {
	struct detector_options o;
	uint64_t window_ns;
	const struct model *model; /* given, or made; NULL as long as nothing was learned */
	struct known known;
	uint32_t regimes_known; /* of the model */
	struct windows *windows;
	struct hardware *hardware;
	VEC(struct series *) series;
	struct map64 series_of;	 /* number of layer, process and GPU to index + 1 */
	struct map64 work_since; /* pid to the start of its first row of work */
	struct map64 left_work;	 /* pid to the end of its last window of other or new work */
	struct map64 told_slow;	 /* pid to the end of its last anomalous window, its work slower */
	struct map64 told_children;  /* pid to the latest such end of those that it has started */
	struct map64 judged_since;   /* layer and process to the start of the first row judged */
	VEC(struct m_process) ended; /* that are to be forgotten */
	double heights[HEIGHTS]; /* of the CUSUM at 2^i windows between alarms; 0 = not made yet */
	VEC(struct episode *) episodes; /* open ones, and ended ones as long as events are held */
	uint64_t next_id;
	const double *values;	/* of the row of hardware that is judged, in counters' units */
	struct row_calls calls; /* of the row that is judged */
	struct detector_learning *learning; /* NULL: a model was given */
	VEC(struct waiting_row) waiting;
	VEC(struct held_row) held_rows;
	VEC(struct stretch) stretches; /* of anomalies that have ended; where rows are held */
	VEC(struct held_event) held;
	uint64_t told_ns;	  /* events that ended before were */
	bool rereads;		  /* a file is read again for its events: none are held */
	uint32_t keys_known;	  /* of the model: keys with higher numbers are new */
	VEC(uint64_t) first_seen; /* of each new key */
	/* Process and window to events of keys that are new; few have any. The second: of those
	 * told before window fresh_from was. */
	struct map64 fresh[2];
	uint64_t fresh_from;
	VEC(uint64_t) saves; /* numbers of windows in which saving a checkpoint ended, in order */
	pieces long_saves;   /* those that are in several windows */
	struct losses losses;
	bool ending; /* nothing more comes */
	uint64_t last_event_ns;
	uint64_t work_alarmed_ns; /* end of the latest window of an anomaly of calls or steps */
	uint64_t upto_ns;	  /* what ended before was handed out */
	uint64_t judged_ns;	  /* start of the latest row that was judged */
	struct detector_stats stats;
};

/* ---- detector_judge.c ---- */
/* calls and values of d are the row's. */
void detector_judge(struct detector *d, const struct feature_row *row);
/* Ends what has had no row for some windows, forgets series that have been idle. */
void detector_judge_upto(struct detector *d, uint64_t now_ns);
void series_free(struct series *s);
/* Whether rows of the layer and process were judged at that time. */
bool detector_judged_at(const struct detector *d, enum detect_layer layer, uint32_t pid,
			uint64_t time_ns);
/* Its process has ended, and its rows were judged. */
void detector_judge_gone(struct detector *d, uint32_t pid, uint64_t now_ns);

/* ---- detector_shift.c ---- */
/* Of a regime of the series; made where there is none. */
struct shift *shift_get(struct detector *d, struct series *s, uint32_t regime);
/* A row of new work. After REBASE_ROWS of them it is known. */
void shift_collect(struct shift *s, const struct model_mixture *m, const struct feature_row *row);
/* A normal row, row: its features with the centre taken off. */
void shift_follow(struct shift *s, const struct explained *x, const double *row,
		  const struct model_mixture *m, const struct feature_row *r);

/* ---- detector_job.c ---- */
enum job_work {
	JOB_UNKNOWN,
	JOB_USUAL, /* its parent's usual work goes on as fast as usual */
	JOB_LEFT,  /* its parent does other work, or did until just now */
};
void job_process(struct detector *d, const struct m_process *row);
/* A row as it is judged. leaves: it is of work that is not the process's usual one. */
void job_row(struct detector *d, const struct feature_row *row, bool leaves);
/* What the parent of the row's process does; of rows that have a pace of their own, and of
 * processes that have no parent here, nothing is said. */
enum job_work job_work(const struct detector *d, const struct feature_row *row);
/* Whether a row of counters or a step is of a window in which calls of its process were of other or
 * new work: known once those were judged. */
bool job_left_work(const struct detector *d, const struct feature_row *row);
/* A row was found anomalous by itself, and its work slower than usual. */
void job_told(struct detector *d, const struct feature_row *row);
/* Whether one of its job was, in its window or the one before. */
bool job_is_told(const struct detector *d, const struct feature_row *row);
void job_forget(struct detector *d, const struct m_process *ended);
/* Not of counters, nor of steps. */
bool layer_has_calls(enum detect_layer layer);

/* ---- detector_episodes.c ---- */
struct judged {
	const struct feature_row *row;
	struct explained explained;
	double p;
	bool alarmed;
	bool beside;	   /* not by itself: its job is known to be slow */
	uint64_t since_ns; /* start of the first row that its alarm is made of */
	const double *shift;
};
/* A row of the series that was judged: opens, extends or ends its anomaly. Whether it is of one, by
 * itself. */
bool episode_row(struct detector *d, struct series *s, const struct judged *j);
/* One that was not: it is none of the anomaly, which ends where too many come, and none begins
 * before it. */
void episode_unjudged(struct detector *d, struct series *s, const struct feature_row *row);
void episode_end(struct detector *d, struct series *s);
void episode_free(struct episode *e);
/* Half of what its rows have in the mean: rows that have less are less than wholly in it. */
double episode_half_rarity(const struct episode *e);
/* Adds the parts of an anomaly, within from_ns..to_ns, less its rows that are as usual. */
void episode_pieces(const struct episode *e, uint64_t from_ns, uint64_t to_ns, pieces *ret);

/* ---- detector_rows.c ---- */
void rows_tell(struct detector *d, const struct feature_row *row, const struct judged *j);
/* Hands out those that were held. */
void rows_end(struct detector *d);

/* ---- detector_why.c ---- */
/* Names the anomaly, what did most and says why in a sentence. */
void episode_describe(struct detector *d, struct episode *e);
/* Makes features of the row that is its worst so far. */
void episode_features(struct detector *d, struct episode *e, const struct judged *j);

/* ---- detector_fresh.c ---- */
void fresh_event(struct detector *d, const struct windows_event *e);
bool fresh_work(const struct detector *d, const struct feature_row *row);
/* Windows that ended before have been judged. */
void fresh_upto(struct detector *d, uint64_t now_ns);

/* ---- detector_saves.c ---- */
void saves_event(struct detector *d, const struct windows_event *e);
/* Whether a row is of a checkpoint's windows, and these are few. */
bool saves_excuse(const struct detector *d, const struct feature_row *row);
/* Windows that ended long before have been judged. */
void saves_upto(struct detector *d, uint64_t now_ns);

/* ---- detector_edges.c ---- */
/* Makes room for what edges are found by, forgets what was added. */
void edges_reset(struct detector *d, struct episode *e);
/* Events before that have no say. */
uint64_t edges_from(const struct detector *d, const struct episode *e);
/* An event of its layer and process: any. */
void edges_add(struct episode *e, const struct held_event *ev);
/* Sets from_ns and to_ns: its windows, unless the events tell better. */
void edges_find(struct episode *e);

/* ---- detector_slow.c ---- */
/* An event of its layer and process: any. */
void slow_add(struct episode *e, const struct held_event *ev);
/* All of them were added. */
void slow_find(struct episode *e);
/* Whether events of the key, in its time, are of the anomaly. */
bool slow_includes(const struct episode *e, uint32_t key);
void slow_free(struct episode *e);

/* ---- detector_events.c ---- */
void events_hold(struct detector *d, const struct windows_event *e);
void events_tell(struct detector *d, const struct held_event *e, bool in_anomaly);
struct held_event events_of_window(const struct windows_event *e);
/* Finds from which event to which an anomaly reaches; of those that are held. */
void events_edges(struct detector *d);
/* Hands out events that no anomaly of a later row can change: those before this. */
void events_upto(struct detector *d, uint64_t before_ns);

/* ---- detector_marks.c ---- */
/* A file whose anomalies are known, read twice more: the first time for edges, then marks_edges,
 * the second time each event is told. */
struct marks;
struct marks *marks_new(struct detector *d);
void marks_free(struct marks *m);
void marks_call(struct marks *m, const struct detect_names *n, const struct m_call *c);
void marks_gpu_span(struct marks *m, const struct detect_names *n, const struct m_gpu_span *s);
void marks_edges(struct marks *m);

/* ---- detector_learn.c ---- */
struct detector_learning *detector_learning_new(struct detector *d);
void detector_learning_free(struct detector_learning *l);
/* A row as it comes; true: it is not judged, for the layer was not learned yet. */
bool detector_learning_row(struct detector *d, const struct feature_row *row);
/* Whether the layer was learned from rows of this regime too. */
bool detector_learning_knows(const struct detector *d, enum detect_layer layer, uint32_t regime);
/* A row that was judged and is normal; x: the shift taken off. */
void detector_learning_normal(struct detector *d, const struct feature_row *row, const double *x);

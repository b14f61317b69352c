/* episodes.h - rows that were not normal, put together to anomalies: open ones, and ended ones as
 * long as their events are asked for. */
#pragma once

#include "detect/explain.h"
#include "detect/learn_known.h"
#include "incident/detector.h"
#include "incident/incidents.h"
#include "incident/line_times.h"
#include "incident/series.h"
#include "incident/told_rows.h"

#define NEAR_P	   0.01 /* a row before an alarmed one belongs to the anomaly below it */
#define BESIDE_P   0.1	/* a row of a job that is known to be slow is a part of that below it */
#define GAP_ROWS   1	/* quiet rows do not end an anomaly */
#define PAUSE_ROWS 10	/* nothing goes on after so many rows that are not there */
#define LAST_ROWS  4	/* an incident that ends before another one takes back no more of each */

/* A row as it was judged. */
struct judged {
	const struct made_row *made;
	const struct feature_row *row; /* of made */
	struct explained explained;
	double p; /* NaN: it was not */
	bool alarmed;
	bool beside;	   /* not by itself: its job is known to be slow */
	bool by_pace;	   /* it is judged by its pace, which tells of the whole job */
	uint64_t since_ns; /* start of the first row that its alarm is made of */
	double lost_ns;	   /* by its pace; NaN: what its calls lost */
	const double *shift;
};

/* A row in an anomaly that is not unlikely by itself. */
struct doubtful_row {
	uint64_t start_ns, end_ns;
	double rarity;
};

/* What an anomaly was put down to when it was told first. */
struct reason {
	enum {
		REASON_NONE,   /* it was not told yet */
		REASON_CALL,   /* a call's own time, */
		REASON_GAP,    /* the time before it, */
		REASON_PACE,   /* all work's pace, where most of it was lost at the call, */
		REASON_ERRORS, /* calls that failed, most of them this, */
		REASON_STEP,   /* the time of a step, in a phase or in none, */
		REASON_PHASE,  /* a phase of it or none, */
		REASON_COUNTER,
	} kind;
	uint32_t key;	     /* of a call */
	const char *feature; /* of a step or counter; NULL: none */
};

struct episode {
	struct anomaly a; /* features, score: of its worst row */
	struct series *series;
	uint32_t process; /* that it is of, or whose work the GPU does; 0 unknown */
	struct reason reason;
	uint32_t quiet;		      /* rows since the last that belongs to it */
	double evidence;	      /* of these, summed up: little */
	VEC(struct recent_row) after; /* these */
	VEC(struct window_key) calls;
	VEC(char *) texts; /* the anomaly's strings */
	double rarity;	   /* of its rows, summed up: -ln p each */
	double loss;	   /* likewise: ln of the time that their work took */
	uint32_t losses;   /* rows that it is of */
	bool beside;	   /* as long as its job is told of, no longer */
	uint64_t jump_ns;  /* start of the last row, which lost far more than they did; 0: none */
	struct recent_row last[LAST_ROWS]; /* of its rows; ring */
	uint32_t last_at, last_len;
	VEC(struct doubtful_row) doubtful; /* in order of time */
};

struct episodes {
	const struct detector_options *o;
	const struct known *known;
	struct told_rows *rows; /* are told of those that have ended */
	struct incidents *incidents;
	const struct line_times *lines; /* NULL: they are not known yet */
	VEC(struct episode *) list;
	uint64_t last_id;
};

void episodes_free(struct episodes *s);

/* A row of the series that was judged: opens, extends or ends its anomaly. Whether it is of one, by
 * itself. */
bool episode_row(struct episodes *all, struct series *s, const struct judged *j);
/* One that was not: it is none of the anomaly, which ends where too many come, and none begins
 * before it. */
void episode_unjudged(struct episodes *all, struct series *s, const struct feature_row *row);
void episode_end(struct episodes *all, struct series *s);
/* What lasts beside an incident ends at that time, if nothing else tells of its job any more. */
void episodes_end_beside(struct episodes *all, uint64_t incident, uint64_t end_ns);

/* ---- episode_why.c ---- */
/* Names the anomaly, what did most and says why in a sentence. keep: the reason stays that was
 * given before; its figures are new, unless they say no more that there is one. */
void episode_describe(const struct known *known, struct episode *e, bool keep);
/* Makes features of the row that is its worst so far. */
void episode_features(const struct known *known, struct episode *e, const struct judged *j);

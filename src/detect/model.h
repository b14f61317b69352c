/* model.h - what `learn` makes and `detect` goes by: what normal looks like. Plain data; the file
 * is model_file.h's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/gmm.h"
#include "base/buffer.h"
#include "detect/baseline.h"
#include "detect/features.h"
#include "detect/layer.h"
#include "detect/pace_alarms.h"
#include "detect/setting.h"
#include "detect/tail.h"

/* A key's durations, and the times between the call before it on its thread and it. count 0: was
 * not learned. */
struct model_key {
	enum detect_layer layer;
	char *text;
	struct baseline duration;
	struct baseline gap;
};

/* A counter's usual values in a regime: median and sigma as in baseline.h, of the value itself. */
struct model_counter {
	char *name;	 /* the counter's: "power_w" */
	uint32_t regime; /* 0 = whatever the job does */
	uint64_t count;
	double median, sigma;
};

/* A mixture of rows and what its scores are worth. Rows are standardised first:
 * (x - centre) / scale, NaN becomes 0. The score of a row is its -log density. */
struct model_mixture {
	uint32_t columns; /* 0: the layer was not learned */
	char *names[FEATURES_MOST];
	double centre[FEATURES_MOST];
	double scale[FEATURES_MOST]; /* > 0 */
	struct gmm gmm;
	struct tail tail;
	/* How much higher the CUSUM of the training rows went than that of independent windows;
	 * 0 = 1. Windows that follow each other are alike in real jobs. */
	double cusum_ratio;
	double bics[GMM_MAX_K]; /* tried; NaN not tried */
};

#define REGIME_PLACES 128
/* A mix of work: shares of a window's events, by the hash of their keys. */
struct model_regime {
	float places[REGIME_PLACES]; /* sum 1 */
	uint64_t windows;
};

#define CLOCK_PLACES 64
/* What calls belong to a second of usual time: clock.h. Places are of functions, by hash. */
struct model_clock {
	enum detect_layer layer; /* whose calls tell speed; DETECT_LAYERS: none */
	bool waits;		 /* waiting for the world is no part of the work */
	bool wall;	   /* the time that it took is the window's, not that of its threads */
	uint64_t windows;  /* that it was learned from */
	uint64_t start_ns; /* a launch takes so long, after the warm-up, until it is as usual */
	double centre;	   /* of their ln (U / A), for most of them */
	double sigma;	   /* of their ln pace, within a launch */
	/* How long the same instructions took on the CPUs, in most windows, and by how much of that
	 * (ln) paces fall with it: cpu_speed.h. 0: they do not, or it is not known. */
	double work_ns, cpu_slope;
	double counted; /* > 0: calls alone tell the pace, of which most windows had so much */
	double calls_per_s[CLOCK_PLACES]; /* of usual time */
	double share[CLOCK_PLACES];	  /* of the usual time */
	double most[CLOCK_PLACES];	  /* calls beyond so many times that are beside the work */
	double peak[CLOCK_PLACES]; /* calls a second that no window had more of; 0: not known */
	struct pace_tail tails[PACE_TAILS]; /* of the sums of what windows lost */
};

enum model_kind {
	MODEL_JOB,   /* of recordings */
	MODEL_TABLE, /* of a table of numbers: only layers[0] is used */
};

struct model {
	enum model_kind kind;
	char *origin; /* "train.eacgm, 1 h 2 min of it, on host gpu7" */
	uint64_t window_ns;
	double seconds;	     /* of recording that it was learned from */
	uint32_t recordings; /* those; 0 unknown: one */
	unsigned without;    /* enum learn_without of learn.h: detecting leaves it out as well */
	VEC(struct model_key) keys;
	VEC(struct model_counter) counters;
	VEC(struct model_regime) regimes; /* regime n is element n - 1 */
	struct model_clock clock;
	struct setting setting;	    /* what the recordings were made on */
	struct detect_layers named; /* layers that only files name */
	struct model_mixture layers[DETECT_LAYERS];
	/* Of DETECT_HOST, of helpers: processes without a pace of their own, as loaders are.
	 * columns 0: they are in the mixture of the others. */
	struct model_mixture helpers;
};

/* What a row is judged by. helper: it is of a process that has no pace of its own. */
const struct model_mixture *model_mixture_of(const struct model *m, enum detect_layer layer,
					     bool helper);

void model_init(struct model *m);
void model_free(struct model *m);

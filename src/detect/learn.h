/* learn.h - from recordings of normal running to a model. Reads through the recording's reader
 * only. Two passes: what is usual for each key and counter, then windows and steps against it.
 * Where there are too many events stretches that are spread evenly stand for all (learn_sample.h).
 * Where some of the time looks faulty (learn_suspects.h), two more without it. */
#pragma once

#include "base/error.h"
#include "detect/model.h"
#include "events/visitor.h"

struct learn_options {
	uint64_t window_ns;  /* 0 = 1 s */
	uint32_t components; /* 0 = by BIC, at most 8 */
	enum gmm_covariance covariance;
	uint64_t seed;
	uint64_t events; /* that are read of all recordings, at most about; 0 = SAMPLE_EVENTS */
	double warmup_s; /* left out at the beginning of each recording; negative = 5 */
	/* Which ingredients are left out, for lab/detect's ablations; 0 = none. */
	unsigned without; /* of enum learn_without */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	/* A layer that too little was recorded of, with the sentence; may be NULL. */
	void (*left_out)(void *ctx, enum detect_layer layer, const char *why);
	void *left_out_ctx;
	/* A stretch that looked faulty and was not learned from; may be NULL. Seconds since the
	 * beginning of the recording, a number of those that were given from 0. */
	void (*suspect)(void *ctx, size_t recording, double from_s, double to_s);
	void *suspect_ctx;
};

enum learn_without {
	WITHOUT_KEYS = 1 << 0,	/* one key for each layer */
	WITHOUT_SIZES = 1 << 1, /* keys are functions alone */
	WITHOUT_GAPS = 1 << 2,
	WITHOUT_REGIMES = 1 << 3,
	WITHOUT_CLEANING = 1 << 4, /* all rows are believed: no trimming */
	WITHOUT_MIXTURE = 1 << 5,  /* one component */
	WITHOUT_CUSUM = 1 << 6,
	WITHOUT_TAIL = 1 << 7, /* thresholds from the mixture's density alone */
	WITHOUT_PACE = 1 << 8, /* how fast the usual work goes on */
};

/* -EINVAL: too little was recorded to learn any layer (the sentence says how much is needed). */
int learn_model(struct model *ret, const struct row_source *const *recordings, size_t n,
		const struct learn_options *o, struct err *e);

/* judged.h - the rows that a detector judged, the latest or those of all the time, and the mixtures
 * that it went by: for who draws them. Memory is bounded by the constants below: 3 MB.
 *
 * One thread adds, that of the detector; any may read, under the lock. */
#pragma once

#include <pthread.h>

#include "detect/model.h"
#include "incident/detector.h"

#define JUDGED_ROWS   600 /* of a layer */
#define JUDGED_LAYERS DETECT_LAYERS

struct judged_row {
	uint64_t start_ns, end_ns;
	uint32_t pid;
	int32_t gpu;
	bool alarmed;
	double score;
	float x[FEATURES_MOST]; /* NaN unknown */
};

/* A mixture's normals in the units of its features. */
struct judged_mixture {
	uint32_t columns, components;	 /* 0: there is none yet */
	uint32_t feature[FEATURES_MOST]; /* that a column is */
	double weights[GMM_MAX_K];
	double *means;	     /* components x columns */
	double *covariances; /* components x columns x columns */
};

struct judged_layer {
	char name[LAYER_NAME_BYTES];
	struct judged_row *rows; /* a ring, or a list where it is whole; NULL: none came */
	uint64_t next;
	uint64_t came, each; /* of a whole one: of rows without an alarm each so manieth is kept */
	struct judged_mixture mixture;
};

struct judged {
	pthread_mutex_t lock; /* of what follows */
	struct judged_layer layers[JUDGED_LAYERS];
	bool helpers_apart; /* the model has a mixture of theirs, which is not drawn */
	bool whole;
};

/* whole: of all the time, those of anomalies first; else the latest. */
struct judged *judged_new(bool whole);
void judged_free(struct judged *j);

void judged_row(struct judged *j, const struct feature_row *row, double score, bool alarmed);
/* Copies the mixtures, and what layers are called. Where helpers have a mixture of their own that
 * of the others, and rows of what works for another process are left out from then on. */
void judged_mixtures(struct judged *j, const struct model *model,
		     const struct detect_layers *layers);

/* The i-th of those that there are, the oldest first. */
static inline uint32_t judged_len(const struct judged_layer *l)
{
	return l->next < JUDGED_ROWS ? (uint32_t)l->next : JUDGED_ROWS;
}

static inline const struct judged_row *judged_at(const struct judged_layer *l, uint32_t i)
{
	return &l->rows[(l->next - judged_len(l) + i) % JUDGED_ROWS];
}

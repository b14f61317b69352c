/* live_judged.h - the latest rows that a detector judged, and the mixtures that it went by: for who
 * draws them. Memory is bounded by the constants below: 3 MB.
 *
 * One thread adds, that of the detector; any may read, under the lock. */
#pragma once

#include <pthread.h>

#include "session/session_detect.h"

#define JUDGED_ROWS    600 /* of a layer, the latest */
#define JUDGED_LAYERS  DETECT_LAYERS
#define JUDGED_EACH_NS 5000000000ULL /* mixtures are copied so often */

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
	struct judged_row *rows; /* a ring; NULL: none came */
	uint64_t next;
	struct judged_mixture mixture;
};

struct live_judged {
	pthread_mutex_t lock; /* of what follows */
	struct judged_layer layers[JUDGED_LAYERS];
	uint64_t copied_ns; /* the adding thread's */
};

struct live_judged *live_judged_new(void);
void live_judged_free(struct live_judged *j);

void live_judged_row(struct live_judged *j, const struct feature_row *row, double score,
		     bool alarmed);
/* Copies mixtures where it is time. */
void live_judged_look(struct live_judged *j, const struct session_detect *d, uint64_t now_ns);

/* The i-th of those that there are, the oldest first. */
static inline uint32_t judged_len(const struct judged_layer *l)
{
	return l->next < JUDGED_ROWS ? (uint32_t)l->next : JUDGED_ROWS;
}

static inline const struct judged_row *judged_at(const struct judged_layer *l, uint32_t i)
{
	return &l->rows[(l->next - judged_len(l) + i) % JUDGED_ROWS];
}

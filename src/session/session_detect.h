/* session_detect.h - judges what a session sees, as it comes: a batch callback of session_live.h,
 * or a part of one. Anomalies and early warnings go into the recording as events, and to the
 * caller. */
#pragma once

#include "session/session_diagnose.h"
#include "session/session_live.h"
#include "incident/detector.h"
#include "incident/outlook.h"

struct session_detect_options {
	const struct model *model;	      /* NULL: learns from what comes */
	double alarms_per_hour, least_effect; /* 0 = the detector's own */
	size_t window_bytes;		      /* of rows that causes are found in; 0 = 128 MB */
	size_t raw_bytes;		      /* of these rows as they are, more are compressed, */
	uint64_t packed_ns;		      /* for so long; 0: they go */
	void *ctx;			      /* all of the following but row are needed */
	void (*anomaly)(void *ctx, const struct anomaly *a); /* found, and when it ended */
	void (*misfit)(void *ctx, const struct model_misfit *m);
	void (*change)(void *ctx, const struct change *c);
	incident_told_fn *incident; /* with its cause, from a thread of its own */
	void (*warning)(void *ctx, const struct outlook_warning *w); /* as anomaly */
	/* Each row that was judged; or NULL. score NaN: it was not. */
	void (*row)(void *ctx, const struct feature_row *row, double score, bool alarmed);
};

struct session_detect;
struct session_detect *session_detect_new(const struct session_detect_options *o);
void session_detect_free(struct session_detect *d);

/* Who looks at a session for it, to be given to the session in this order. */
#define SESSION_DETECT_LOOKERS 2
/* batch, end, ctx: of a host that calls the two functions below. */
void session_detect_lookers(struct session_detect *d, const struct session_live *host,
			    struct session_live ret[static SESSION_DETECT_LOOKERS]);
void session_detect_batch(struct session_detect *d, const struct session_view *v);
void session_detect_end(struct session_detect *d, const struct session_view *v);
/* What it goes by, and what its layers are called: for the thread that looks. */
const struct model *session_detect_model(const struct session_detect *d);
const struct detect_layers *session_detect_layers(const struct session_detect *d);
/* Windows that were not judged: too many of their events were lost. */
uint64_t session_detect_lossy(const struct session_detect *d);
/* Whether anything was judged so far: before that, what is normal is learned. Not any more where
 * that begins anew: a model did not fit, or a budget has turned other functions down. */
bool session_detect_judges(const struct session_detect *d);

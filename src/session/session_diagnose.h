/* session_diagnose.h - why a running job is slow: keeps the last rows of a session, and some
 * moments after an incident began, now and then while it lasts and at its end, looks for its cause,
 * as 'eacgm diagnose' does. On a thread of its own. What it finds goes into the recording, and to
 * the caller. It finds jobs that stand still as well, which no window tells: they are anomalies
 * once the detector has them. */
#pragma once

#include "session/session_live.h"
#include "incident/anomaly.h"
#include "incident/detector.h"
#include "incident/incident_row.h"

/* When its cause is known, when another is found, and at its end. */
typedef void incident_told_fn(void *ctx, const struct incident_said *told);

struct session_diagnose;
/* window_bytes: of the rows that it keeps. raw_bytes and packed_ns: as live_window_pack, the latter
 * 0: none is compressed. */
struct session_diagnose *session_diagnose_new(size_t window_bytes, size_t raw_bytes,
					      uint64_t packed_ns, incident_told_fn *tell,
					      void *ctx);
void session_diagnose_free(struct session_diagnose *d);

/* From the thread that detects. */
void session_diagnose_anomaly(struct session_diagnose *d, const struct anomaly *a);

/* Jobs that stand still or go on, as they were found since it was asked last: for
 * detector_standing. From that thread, too. */
void session_diagnose_standings(struct session_diagnose *d,
				void (*take)(void *ctx, const struct job_standing *j), void *ctx);

/* A session's looker beside that one. */
void session_diagnose_batch(void *d, const struct session_view *v);
void session_diagnose_end(void *d, const struct session_view *v);

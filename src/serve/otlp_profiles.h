/* otlp_profiles.h - call trees of processes as one message of OpenTelemetry's profiles, whose
 * tables all of them share. The signal is in development (v1development): otlp_profiles.proto says
 * which version this is. */
#pragma once

#include "base/buffer.h"
#include "base/calltree.h"
#include "serve/otlp_about.h"
#include "session/live_series.h"

#define OTLP_PROFILES_PATH "/v1development/profiles" /* opentelemetry.io/docs/specs/otlp */

/* A message that grows. */
struct otlp_profiles;
struct otlp_profiles *otlp_profiles_new(const struct otlp_about *about); /* borrowed */
/* A profile of a process, which is its resource. t: its weights, nodes' own, are those of one
 * ValueType; no base. Nothing is kept of either. */
void otlp_profiles_add(struct otlp_profiles *m, const struct calltree *t,
		       const struct live_process *of);
/* About how long the message is so far. */
size_t otlp_profiles_bytes(const struct otlp_profiles *m);
/* Appends the message, nothing where there is no profile in it. m is freed. */
void otlp_profiles_end(struct otlp_profiles *m, struct buf *ret);

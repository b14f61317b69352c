/* thresholds.h - what call is a slow one, in the mode `tail`: each probe's quantile so far, from
 * the histograms of all processes, whoever counts them. Pure. */
#pragma once

#include <stdint.h>

#include "wire/event.h"

struct thresholds;

struct thresholds *thresholds_new(void);
void thresholds_free(struct thresholds *t);

void thresholds_add(struct thresholds *t, const struct hist_key *key,
		    const struct hist_value *value);

/* Visits probes whose threshold has become another one, by what was added since this was called
 * last. */
void thresholds_learn(struct thresholds *t, double quantile,
		      void (*visit)(void *ctx, uint32_t probe, uint64_t ns), void *ctx);

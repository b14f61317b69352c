/* learn_layer.h - a layer's rows to its mixtures: one, or where processes of two roles have
 * counters, two; and how rare counters were in windows that were learned from. No I/O. */
#pragma once

#include "base/map64.h"
#include "detect/learn_mixture.h"
#include "detect/pace_alarms.h"

/* A window of a process: it has a pace of its own, or none and works for another. Of most of its
 * windows own says what it is; zeroed at its beginning. */
void learn_role(struct map64 *own, uint32_t recording, uint32_t pid, bool leads);

/* Sets m->layers[layer], and of DETECT_HOST m->helpers, where there are enough rows of processes
 * that have a pace of their own and of those that have none. What a loader does most of its time,
 * waiting, would else be normal for who it works for. -EINVAL with the sentence: too few. */
int learn_layer(struct model *m, enum detect_layer layer, const struct feature_row *rows, size_t n,
		const struct map64 *own, const struct learn_mixture_options *o, struct err *e);

/* Puts rows of helpers last; returns how many are before them. The order within both stays. */
size_t learn_helpers_last(struct feature_row *rows, size_t n, const struct map64 *own);

/* Sets counters_p of the windows whose process has a row of counters, of DETECT_HOST, among rows.
 * The model has its layers. */
void learn_counters_p(struct paced *windows, size_t n, const struct model *m,
		      const struct feature_row *rows, size_t len);

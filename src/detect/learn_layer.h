/* learn_layer.h - a layer's rows to its mixtures: one, or where processes of two roles have
 * counters, two. No I/O. */
#pragma once

#include "detect/learn_mixture.h"

/* Sets m->layers[layer], and of DETECT_HOST m->helpers, where there are enough rows of processes
 * that have a pace of their own and of those that have none. What a loader does most of its time,
 * waiting, would else be normal for who it works for. rows come into another order. -EINVAL with
 * the sentence: too few. */
int learn_layer(struct model *m, enum detect_layer layer, struct feature_row *rows, size_t n,
		const struct learn_mixture_options *o, struct err *e);

/* Puts rows of helpers last; returns how many are before them. The order within both stays. */
size_t learn_helpers_last(struct feature_row *rows, size_t n);

/* by_pace.h - what the pace of a process decides about its rows. A process that has a pace alarms
 * by that alone: its calls, its counters, its steps and those of its GPU can be as rare as they
 * like, they say what a slowdown looks like, not that there is one. By themselves alarm rows of
 * what has no pace, and calls that fail; and all of them where somebody minds whatever is lost. */
#pragma once

#include "detect/judge.h"
#include "incident/judging.h"

#define COSTLESS_P 0.5 /* of what is not as usual and costs nothing, at least */

enum by_pace {
	BY_ITSELF,  /* its mixture decides */
	BY_PACE,    /* of the layer whose calls tell the pace: decided is what its pace comes to */
	BESIDE_PACE /* it is of an anomaly where its process's pace is */
};
enum by_pace by_pace_of(const struct detector *d, const struct feature_row *row,
			const struct judgement *judged);

/* Whether a row is one of calls that fail: that is no matter of time. */
bool by_pace_calls_failed(const struct feature_row *row, const struct judgement *judged);
/* Whether calls of the layer tell a process's pace. Without a model the one with most detail that
 * has rows. */
bool by_pace_tells(const struct model *m, enum detect_layer layer);
/* Whether whatever is unusual is told, whether or not it costs time. */
bool by_pace_minds_all(const struct detector *d);
/* Of a BY_PACE row: sets p, alarmed and since_ns. lost: ln of the time taken over what is usual. */
void by_pace_judge(struct detector *d, const struct feature_row *row, double lost,
		   struct judged *j);
/* A row of a process's counters, p as its mixture has it: whether its window alarms with it that
 * does not by its pace alone. *ret_more: what it adds to -ln p of the window. */
bool by_pace_with_counters(struct detector *d, const struct feature_row *row, double p,
			   double *ret_more);
/* Whether so much is lost (as above; NaN: no) that rows beside a slow process are a part of that:
 * more than the least effect, and LEAST_EFFECT where there is none. */
bool by_pace_costs(const struct detector *d, double lost);

/* slow_calls.h - which calls were slow, each by its own time (own_time.h).
 *
 * How rare a call is, is told by how long calls of its key took in its process outside of
 * anomalies, beside those of its function and the key's baseline where they were few. In a window,
 * calls of a function that are rarer than some bound are slow: the bound at which those beyond it,
 * less ten times what usual ones would be, are most. Outside of anomalies so many beyond it must be
 * unlikely in all of the function's windows, too. None is where all calls of the function together
 * lost so little of the window that nobody minds, and none that lost a small part of what slow ones
 * of its function lose then.
 *
 * Knows no files: calls are counted, about in order of time, as what is long over makes room; then
 * they are asked for, in any order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/baseline.h"

struct slow_call {
	uint32_t pid;
	uint64_t function; /* with its layer */
	uint32_t key;	   /* the function with what it works on */
	uint64_t end_ns;
	double own_ns;
	const struct baseline *usual; /* of its key */
};

struct slow_calls;
/* least_effect: as in struct detector_options. */
struct slow_calls *slow_calls_new(uint64_t window_ns, double least_effect);
void slow_calls_free(struct slow_calls *s);

/* An anomaly of a process. Before all calls; they may overlap. */
void slow_calls_anomaly(struct slow_calls *s, uint32_t pid, uint64_t start_ns, uint64_t end_ns);
void slow_calls_count(struct slow_calls *s, const struct slow_call *c);
/* All were counted. */
void slow_calls_find(struct slow_calls *s);
bool slow_calls_is(const struct slow_calls *s, const struct slow_call *c);

/* learn_known.h - what is known while events are learned from or judged: keys, what is usual for
 * each, regimes, counters; and its way into a model and out of it. No I/O. */
#pragma once

#include "detect/hardware.h"
#include "detect/keys.h"
#include "detect/model.h"
#include "detect/regimes.h"
#include "detect/step_rows.h"
#include "detect/usual.h"

#define WARMUP_S 5.0 /* of a process's work: imports, the first calls of libraries, tuning */

struct known {
	struct detect_keys *keys;
	struct usual *usual;
	struct regimes *regimes; /* NULL: without */
	struct counters_usual *counters;
	struct step_usual steps[STEPS_KINDS];
	unsigned without; /* of enum learn_without */
};

void known_make(struct known *ret, unsigned without, uint64_t seed);
void known_free(struct known *k);
/* Nothing is usual any more; keys keep their numbers. */
void known_forget(struct known *k, uint64_t seed);
/* As a model says; its regimes move no more. */
void known_of_model(struct known *ret, const struct model *m, uint64_t seed);
/* Sets keys, counters and regimes of m, which has none. */
void known_to_model(const struct known *k, struct model *m);

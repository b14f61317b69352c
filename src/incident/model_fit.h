/* model_fit.h - whether the model fits the job that is judged by it: what detect/fit.h says of each
 * process that has a pace of its own, and what follows. Where no process fits, the model is given
 * up. Where one fits and another does not, that other is not judged. Each is told once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/features.h"
#include "detect/fit.h"

struct detector_options;

struct process_fit {
	uint32_t pid;
	uint64_t work_ns; /* start of its first window of work */
	uint64_t last_ns; /* of its last */
	struct fit fit;
	uint64_t since_ns, decided_ns; /* of a verdict that it does not fit */
	bool asked;		       /* what differs is known */
	char *differs;		       /* from what was learned; NULL: nothing that is known */
	bool told;
};

/* Zeroed at its beginning, but for o. */
struct model_fit {
	const struct detector_options *o;
	VEC(struct process_fit *) list;
	struct map64 at; /* pid to index + 1 */
};

void model_fit_free(struct model_fit *f);
/* A row of calls, in order of time for each process; rows of one window count once. */
void model_fit_row(struct model_fit *f, const struct feature_row *row);
/* Whether a row is not judged: its process does not fit, or seems not to and it is too early. */
bool model_fit_excuses(const struct model_fit *f, const struct feature_row *row);
/* All rows up to a time have come: tells what is new. true: nothing fits, and what is usual since
 * then is to be learned anew. */
bool model_fit_settle(struct model_fit *f, uint64_t *ret_since_ns);
void model_fit_forget(struct model_fit *f, uint32_t pid);

/* excuses.h - why what is rare is no fault: one table, an entry for each reason. An excuse is a
 * function that says whether it holds for a row; what follows depends on its stage alone. Another
 * excuse is another function and its entry. Those who detect can turn each off by its name:
 * `eacgm detect --without-excuse`. */
#pragma once

#include "incident/judging.h"

enum excuse_stage {
	EXCUSE_KNOWN,	/* too little is known of the row: it is neither judged nor learned from */
	EXCUSE_WORK,	/* what was done is not what is usual: it is not judged */
	EXCUSE_NEW,	/* likewise, and it is learned what is usual in it */
	EXCUSE_COST,	/* it was judged, and nobody minds: its p is raised, it never alarms */
	EXCUSE_LASTING, /* its anomaly ends, and what is usual is learned anew */
};

/* What an excuse may look at. Of its stage and those before; NULL otherwise. */
struct excuse_case {
	struct detector *d;
	const struct feature_row *row;
	const struct series *series;	/* from EXCUSE_WORK on */
	const struct row_work *work;	/* likewise */
	const struct judgement *judged; /* of EXCUSE_COST */
};

struct excuse {
	const char *name; /* of the option that turns it off */
	enum excuse_stage stage;
	bool (*holds)(const struct excuse_case *c);
	const char *what; /* a clause for people: "the process's first five seconds of work" */
};

/* Their names, as options of a command line have choices. */
#define EXCUSE_NAMES                                                                               \
	"lost-calls|warm-up|new-sizes|other-work|checkpoint|lagging-counters|parents-work|"        \
	"recording-end|new-work|nobody-waits|lasting-counters"

/* All of them, in the order in which they are tried; *ret_n is at most 32. */
const struct excuse *excuses_all(size_t *ret_n);
/* Its bit in detector_options.without_excuses; 0: there is none of that name. */
uint32_t excuse_bit(const char *name);
/* The first of the stage that holds and was not turned off; NULL: none. */
const struct excuse *excuse_find(enum excuse_stage stage, const struct excuse_case *c);

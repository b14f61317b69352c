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
	EXCUSE_LASTING, /* its anomaly ends, and what is usual is learned anew */
};

/* What an excuse may look at. Of its stage and those before; NULL otherwise. */
struct excuse_case {
	struct detector *d;
	const struct feature_row *row;
	const struct series *series; /* from EXCUSE_WORK on */
	const struct row_work *work; /* likewise */
};

struct excuse {
	const char *name; /* of the option that turns it off */
	enum excuse_stage stage;
	bool (*holds)(const struct excuse_case *c);
};

/* The table, in the order in which they are tried: name, stage, function of excuses.c, and a clause
 * for people. FIRST is what X is, for the first. docs/developers/detection.md has a row for each.
 */
#define EXCUSES(FIRST, X)                                                                          \
	FIRST("lost-calls", EXCUSE_KNOWN, lacks_calls, "calls of its time were lost")              \
	X("warm-up", EXCUSE_WORK, is_warmup, "it is of the process's first seconds of work")       \
	X("new-sizes", EXCUSE_WORK, has_new_sizes, "calls had sizes that were never seen before")  \
	X("stale-model", EXCUSE_WORK, model_is_stale,                                              \
	  "the model does not fit what the process does")                                          \
	X("other-work", EXCUSE_WORK, is_other_work, "the process did other work than usual")       \
	X("checkpoint", EXCUSE_WORK, is_checkpoint, "a checkpoint was saved, and few are")         \
	X("recording-end", EXCUSE_WORK, is_ending, "the recording ends in it")                     \
	X("new-work", EXCUSE_NEW, is_new_work, "it is of the first rows of a new kind of work")    \
	X("lasting-counters", EXCUSE_LASTING, counters_stay,                                       \
	  "counters stay as they are for ten minutes, and work goes on as usual")

/* As an option of a command line has its choices, and its help: "a|b", "a (why), b (why)". */
#define EXCUSE_NAME(name, stage, holds, what)	   name
#define EXCUSE_NEXT_NAME(name, stage, holds, what) "|" name
#define EXCUSE_NAMES				   EXCUSES(EXCUSE_NAME, EXCUSE_NEXT_NAME)
#define EXCUSE_HELP(name, stage, holds, what)	   name " (" what ")"
#define EXCUSE_NEXT_HELP(name, stage, holds, what) ", " name " (" what ")"
#define EXCUSES_HELP				   EXCUSES(EXCUSE_HELP, EXCUSE_NEXT_HELP)

/* Its bit in detector_options.without_excuses; 0: there is none of that name. */
uint32_t excuse_bit(const char *name);
/* The first of the stage that holds and was not turned off; NULL: none. */
const struct excuse *excuse_find(enum excuse_stage stage, const struct excuse_case *c);

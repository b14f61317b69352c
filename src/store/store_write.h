/* store_write.h - batches into the tables of an open store, each in one transaction. They become
 * rows of a second, of which rows of ten seconds, of a minute and of ten minutes are made when ten
 * seconds are over: what a killed agent left of them, the next one does. For one thread. */
#pragma once

#include <sqlite3.h>

#include "store/store_rollup.h"

#define STORE_NAMES_KEPT  32768	 /* numbers of rows that are remembered, of each kind */
#define STORE_NAMES_MOST  16384	 /* functions in the file; more are counted as "(other)" */
#define STORE_STACKS_MOST 100000 /* in the file; what is deeper is its caller's, */
#define STORE_FRAMES_MOST 32768	 /* and so is what of these there is no room for */
#define STORE_SEEN_S	  3600	 /* how often it is noted that a name is still in use */

enum store_statement {
	PUT_PROCESS,
	FIND_PROCESS,
	ADD_PROCESS,
	ADD_SERIES,
	FIND_FUNCTION,
	ADD_FUNCTION,
	FIND_FRAME,
	ADD_FRAME,
	FIND_STACK,
	ADD_STACK,
	PUT_COUNTER,
	PUT_STEPS,
	PUT_PHASE_60S,
	PUT_PHASE_600S,
	PUT_CALLS,
	PUT_COLLECTIVES,
	PUT_CPU_60S,
	PUT_CPU_600S,
	PUT_EVENT,
	PUT_INCIDENT,
	GET_ROLLED,
	SET_ROLLED,
	ROLL_COUNTERS_10S,
	ROLL_COUNTERS_60S,
	ROLL_COUNTERS_600S,
	ROLL_STEPS_10S,
	ROLL_STEPS_60S,
	ROLL_STEPS_600S,
	CUT_COUNTERS,
	CUT_STEPS,
	STORE_STATEMENTS,
};

/* Zeroed but for db. */
struct store_writer {
	sqlite3 *db;
	sqlite3_int64 run; /* its row in runs, 0: not yet */
	/* the rest is its own */
	sqlite3_stmt *statements[STORE_STATEMENTS];
	struct map64 process_of, series_of, function_of, frame_of, stack_of;
	sqlite3_int64 functions, frames, stacks; /* in the file, 0: not counted yet */
	int64_t seen_s;				 /* since when names count as seen */
	int64_t time_s;				 /* of the last batch, 0: there was none */
};

/* A code of SQLite; nothing of the batch is there where it is not SQLITE_OK. */
int store_write(struct store_writer *w, const struct store_batch *b);
/* The last batch was written: makes of it what is otherwise made when ten seconds are over. A code
 * of SQLite. */
int store_write_end(struct store_writer *w);
/* Numbers of rows that were remembered may be wrong. */
void store_writer_forget(struct store_writer *w);
void store_writer_close(struct store_writer *w);

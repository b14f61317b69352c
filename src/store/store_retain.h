/* store_retain.h - what a store gives up: rows of an age, and the oldest where there are too many
 * bytes. A call does a bounded amount of work; where it is called each ten seconds it is faster
 * than what comes. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct store_limits {
	int64_t keep_s; /* of rows of a minute, incidents, events, processes */
	int64_t bytes;	/* of the database without what is to be checkpointed */
};

/* A code of SQLite. *ret_names: numbers of rows that were remembered may be gone. */
int store_retain(sqlite3 *db, const struct store_limits *limits, int64_t now_s, bool *ret_names);

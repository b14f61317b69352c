/* query.h - SQL over a recording or a database: opened, guarded, and printed. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/terminal.h"

/* What a query may use, and what it was refused. */
struct query_db {
	sqlite3 *db;
	uint64_t until_ns; /* of CLOCK_MONOTONIC; 0: as long as it takes */
	bool late;
	char refused[96]; /* "" nothing */
	struct progress progress;
};

/* Opens a database, or loads a recording into one of its own that nobody else sees. What the
 * caller says on standard error of damage is said here. */
int query_open(struct query_db *q, const char *path, uint64_t timeout_ns, struct err *e);
void query_close(struct query_db *q);

/* Prepares the one statement of sql, which may only read. */
int query_prepare(struct query_db *q, const char *sql, sqlite3_stmt **ret, struct err *e);
/* What SQLite said of a failure, as a sentence. */
int query_failed(const struct query_db *q, int rc, struct err *e);

enum query_format { QUERY_TEXT, QUERY_JSON, QUERY_CSV };
/* Runs it and prints what comes of it on the standard output. */
int query_print(struct query_db *q, sqlite3_stmt *stmt, enum query_format format, struct err *e);

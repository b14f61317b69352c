/* store_read_impl.h - what store_read.c, which answers, and store_read_cpu.c, which has call trees,
 * share: a connection that only reads, and which rows of a stretch are gone through. */
#pragma once

#include <sqlite3.h>

#include "store/store_read.h"

/* What of the stretch is told: whole points, each of some rows. */
struct range {
	int64_t oldest_s, newest_s; /* of all that is kept; 0: nothing is */
	int64_t from_s, to_s;
	int each_s, bucket_s;
	uint32_t points;
};

struct reader {
	sqlite3 *db;
	const struct store_question *q;
	struct range range;
	bool late;
};

/* Whether the question's time is over. */
int reader_is_late(void *reader);
/* sql is freed. A code of SQLite, as of all of these. */
int reader_prepare(struct reader *r, sqlite3_stmt **ret, char *sql);
/* The first number of a statement's only row; *ret stays where it is NULL. sql is freed. */
int reader_number(struct reader *r, char *sql, int64_t *ret);
/* The rows of the process (?2) at each time (?1): a table has those of many between them. */
int reader_each_time(struct reader *r, const struct range *g, char *sql,
		     void (*row)(void *ctx, const struct range *g, int64_t time_s, sqlite3_stmt *s),
		     void *ctx);
/* The same stretch by rows of so many seconds. */
void range_by(struct range *g, int each_s);
/* Its keys of an answer. */
void range_to_json(const struct range *g, json_t *answer);

/* Fills the question's tree, and "cpus" of the answer. */
int read_cpu(struct reader *r, json_t *answer);

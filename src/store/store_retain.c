/* store_retain.c - deletes from the beginning of tables, and gives pages back. */
#include "store/store_retain.h"

#include <stdlib.h>

#include "base/buffer.h"

#define SECOND_S 3600  /* rows of a second stay an hour */
#define FINE_S	 86400 /* of ten seconds a day */
#define SLICE_S	 600   /* rows of so long go at once, */
#define SHORT_S	 60    /* of a second so long */
#define NAMES_S	 600   /* how often it is looked for names that are not in use */
#define NAMES_N	 5000  /* that go at once */
#define PAGES	 256   /* that are given back at once */

static int run(sqlite3 *db, char *sql)
{
	int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	free(sql);
	return rc;
}

static int64_t number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s = NULL;
	int64_t ret = 0;
	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
		ret = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	return ret;
}

/* Of a rolled up table what is before a time, at most a slice of it. */
static int cut(sqlite3 *db, const char *table, int slice_s, int64_t before_s)
{
	return run(db, xasprintf("DELETE FROM %s WHERE time < min(%lld, (SELECT min(time) FROM %s)"
				 " + %d)",
				 table, (long long)before_s, table, slice_s));
}

static int cut_seconds(sqlite3 *db, int64_t before_s)
{
	int rc = cut(db, "counters_1s", SHORT_S, before_s);
	return rc == SQLITE_OK ? cut(db, "steps_1s", SHORT_S, before_s) : rc;
}

/* Of ten seconds; and minutes of call trees, which are as many. */
static int cut_fine(sqlite3 *db, int64_t before_s)
{
	static const char *const tables[] = {"counters_10s", "steps_10s", "cpu_60s"};
	int rc = SQLITE_OK;
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && rc == SQLITE_OK; i++)
		rc = cut(db, tables[i], SLICE_S, before_s);
	return rc;
}

static int cut_coarse(sqlite3 *db, int64_t before_s)
{
	static const char *const tables[] = {"counters_60s", "steps_60s", "calls_60s",
					     "phases_60s",   "cpu_600s",  "collectives_60s"};
	int rc = SQLITE_OK;
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && rc == SQLITE_OK; i++)
		rc = cut(db, tables[i], SLICE_S, before_s);
	return rc;
}

/* Of tens of minutes. */
static int cut_coarsest(sqlite3 *db, int64_t before_s)
{
	static const char *const tables[] = {"counters_600s", "steps_600s", "phases_600s"};
	int rc = SQLITE_OK;
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && rc == SQLITE_OK; i++)
		rc = cut(db, tables[i], SLICE_S, before_s);
	return rc;
}

/* The oldest of a time, at most NAMES_N. */
static int cut_told(sqlite3 *db, int64_t before_s)
{
	static const char *const of[][2] = {{"incidents", "end_ns"}, {"events", "time_ns"}};
	int rc = SQLITE_OK;
	for (size_t i = 0; i < 2 && rc == SQLITE_OK; i++)
		rc = run(db,
			 xasprintf("DELETE FROM %s WHERE rowid IN (SELECT rowid FROM %s WHERE %s"
				   " < %lld000000000 ORDER BY rowid LIMIT %d)",
				   of[i][0], of[i][0], of[i][1], (long long)before_s, NAMES_N));
	return rc;
}

static int cut_names(sqlite3 *db, int64_t before_s, bool *ret_names)
{
	static const char *const tables[] = {"series", "functions", "stacks", "frames",
					     "processes"};
	int rc = SQLITE_OK;
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && rc == SQLITE_OK; i++) {
		rc = run(db, xasprintf("DELETE FROM %s WHERE id IN (SELECT id FROM %s WHERE seen <"
				       " %lld LIMIT %d)",
				       tables[i], tables[i], (long long)before_s, NAMES_N));
		*ret_names |= rc == SQLITE_OK && sqlite3_changes(db) > 0;
	}
	return rc;
}

static bool is_too_large(sqlite3 *db, int64_t bytes)
{
	int64_t pages = number(db, "PRAGMA page_count") - number(db, "PRAGMA freelist_count");
	return pages * number(db, "PRAGMA page_size") > bytes;
}

/* Seconds first, down to a minute of them; the oldest of ten seconds, down to an hour; then
 * minutes; then the last hour's tens of seconds, tens of minutes, what was told. */
static int cut_oldest(sqlite3 *db, int64_t now_s)
{
	int before = sqlite3_total_changes(db);
	int rc = cut_seconds(db, now_s - 60);
	if (rc == SQLITE_OK && sqlite3_total_changes(db) == before)
		rc = cut_fine(db, now_s - 3600);
	if (rc == SQLITE_OK && sqlite3_total_changes(db) == before)
		rc = cut_coarse(db, now_s - 3600);
	if (rc == SQLITE_OK && sqlite3_total_changes(db) == before)
		rc = cut_fine(db, now_s - 60);
	if (rc == SQLITE_OK && sqlite3_total_changes(db) == before)
		rc = cut_coarsest(db, now_s - 3600);
	if (rc == SQLITE_OK && sqlite3_total_changes(db) == before)
		rc = cut_told(db, now_s - 60);
	return rc;
}

static int retain(sqlite3 *db, const struct store_limits *l, int64_t now_s, bool *ret_names)
{
	int rc = cut_seconds(db, now_s - SECOND_S);
	if (rc == SQLITE_OK)
		rc = cut_fine(db, now_s - (l->keep_s < FINE_S ? l->keep_s : FINE_S));
	if (rc == SQLITE_OK)
		rc = cut_coarse(db, now_s - l->keep_s);
	if (rc == SQLITE_OK)
		rc = cut_coarsest(db, now_s - l->keep_s);
	if (rc == SQLITE_OK && now_s % NAMES_S < 10) {
		rc = cut_told(db, now_s - l->keep_s);
		/* a name is noted as seen each hour */
		if (rc == SQLITE_OK)
			rc = cut_names(db, now_s - l->keep_s - 7200, ret_names);
	}
	if (rc == SQLITE_OK && is_too_large(db, l->bytes))
		rc = cut_oldest(db, now_s);
	return rc;
}

int store_retain(sqlite3 *db, const struct store_limits *limits, int64_t now_s, bool *ret_names)
{
	*ret_names = false;
	int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return rc;
	rc = retain(db, limits, now_s, ret_names);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	if (rc != SQLITE_OK) {
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
		return rc;
	}
	if (number(db, "PRAGMA freelist_count") > PAGES)
		rc = run(db, xasprintf("PRAGMA incremental_vacuum(%d)", PAGES));
	return rc;
}

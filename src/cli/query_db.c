/* query_db.c - opens what a query is of, and lets it do nothing but read.
 *
 * A recording becomes a temporary database: SQLite keeps it in memory up to its cache, and beyond
 * that in a file that has no name. A database may have been made by anybody: its schema is not
 * trusted, and what is stored in it can call no function that does more than compute. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "cli/export_steps.h"
#include "cli/query.h"
#include "export/export.h"
#include "export/sqlite.h"
#include "recording/recording.h"
#include "symbolize/demangle.h"

#define CACHE_KIB	 131072 /* of a recording in memory */
#define HEAP_MOST_BYTES	 (1LL << 30)
#define VALUE_MOST_BYTES (16 << 20)
#define CHECK_EVERY	 20000 /* SQLite's operations */

/* ---- what is allowed ---- */

/* Pragmas that say what there is; others set something, or do it. */
static bool pragma_reads(const char *name, const char *value)
{
	static const char *const any[] = {"table_info",	   "table_xinfo",      "table_list",
					  "index_info",	   "index_xinfo",      "index_list",
					  "database_list", "foreign_key_list", "collation_list",
					  "function_list", "compile_options",  "integrity_check",
					  "quick_check"};
	static const char *const without_value[] = {
		"user_version", "application_id", "schema_version", "encoding",
		"page_count",	"page_size",	  "freelist_count"};
	for (size_t i = 0; i < sizeof(any) / sizeof(*any); i++)
		if (!strcasecmp(name, any[i]))
			return true;
	for (size_t i = 0; !value && i < sizeof(without_value) / sizeof(*without_value); i++)
		if (!strcasecmp(name, without_value[i]))
			return true;
	return false;
}

static bool is_allowed(int action, const char *first, const char *second)
{
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return true;
	case SQLITE_FUNCTION:
		return strcasecmp(second, "load_extension") && strcasecmp(second, "fts3_tokenizer");
	case SQLITE_PRAGMA:
		return pragma_reads(first, second);
	case SQLITE_UPDATE: /* asked when json_each and its like are first used; a statement
			     * that does it is refused by SQLite itself */
		return !strcmp(first, "sqlite_master");
	default:
		return false;
	}
}

static int authorize(void *ctx, int action, const char *first, const char *second,
		     const char *database, const char *within)
{
	struct query_db *q = ctx;
	(void)database, (void)within;
	if (is_allowed(action, first, second))
		return SQLITE_OK;
	if (q->refused[0])
		return SQLITE_DENY;
	if (action == SQLITE_FUNCTION)
		snprintf(q->refused, sizeof(q->refused), "the function %s", second);
	else if (action == SQLITE_PRAGMA)
		snprintf(q->refused, sizeof(q->refused), "PRAGMA %s%s", first,
			 second ? " with a value" : "");
	else
		snprintf(q->refused, sizeof(q->refused), "%s",
			 action == SQLITE_ATTACH ? "ATTACH" : "what changes something");
	return SQLITE_DENY;
}

static int is_late(void *ctx)
{
	struct query_db *q = ctx;
	q->late = q->late || (q->until_ns && monotonic_ns() >= q->until_ns);
	return q->late;
}

static void guard(struct query_db *q)
{
	static const int limits[][2] = {{SQLITE_LIMIT_LENGTH, VALUE_MOST_BYTES},
					{SQLITE_LIMIT_SQL_LENGTH, 1 << 20},
					{SQLITE_LIMIT_ATTACHED, 0},
					{SQLITE_LIMIT_WORKER_THREADS, 0},
					{SQLITE_LIMIT_EXPR_DEPTH, 200},
					{SQLITE_LIMIT_TRIGGER_DEPTH, 10}};
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
		sqlite3_limit(q->db, limits[i][0], limits[i][1]);
	sqlite3_db_config(q->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(q->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(q->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	sqlite3_exec(q->db, "PRAGMA query_only=ON;PRAGMA cell_size_check=ON;PRAGMA mmap_size=0",
		     NULL, NULL, NULL);
	sqlite3_set_authorizer(q->db, authorize, q);
}

/* ---- opening ---- */

static bool go_on(void *ctx, uint64_t done, uint64_t total)
{
	struct query_db *q = ctx;
	progress_step(&q->progress, done, total);
	return !is_late(q);
}

static int load_rows(struct query_db *q, const struct rec_reader *reader, struct err *e)
{
	struct step_slices steps = {0};
	uint64_t skipped = 0;
	char count[HUMAN_BYTES];
	const struct rec_tables *t = rec_tables(reader);
	progress_begin(&q->progress, "loading");
	export_steps_make(&steps, reader);
	int rc = export_into(rec_source(reader), &sink_sqlite, sqlite_sink(q->db, t),
			     &(struct export_options){.progress = go_on,
						      .progress_ctx = q,
						      .demangle = demangle,
						      .steps = &steps},
			     &skipped, e);
	export_steps_free(&steps);
	progress_end(&q->progress);
	if (q->late)
		return query_failed(q, SQLITE_INTERRUPT, e);
	if (skipped)
		fprintf(stderr, "eacgm query: %s blocks could not be decoded and are left out\n",
			human_count(count, skipped));
	if (t->damaged_at)
		text_printf(stderr,
			    "eacgm query: the recording is damaged, what follows is left out: %s\n",
			    t->damage);
	return rc;
}

static int load(struct query_db *q, const char *path, struct err *e)
{
	struct rec_reader *reader = NULL;
	int rc = rec_open(&reader, path, e);
	if (rc)
		return rc;
	rc = sqlite3_open_v2("", &q->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
	char *cache = xasprintf("PRAGMA cache_size=-%d", CACHE_KIB);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(q->db, cache, NULL, NULL, NULL);
	free(cache);
	rc = rc == SQLITE_OK ? load_rows(q, reader, e) : query_failed(q, rc, e);
	rec_close(reader);
	return rc;
}

static bool is_database(const char *path)
{
	static const char begin[16] = "SQLite format 3";
	char read_back[sizeof(begin)] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	bool ret = pread(fd, read_back, sizeof(read_back), 0) == (ssize_t)sizeof(read_back) &&
		   !memcmp(read_back, begin, sizeof(begin));
	close(fd);
	return ret;
}

static int open_database(struct query_db *q, const char *path, struct err *e)
{
	char *name = path[0] == '/' ? xstrdup(path) : xasprintf("./%s", path); /* no ":memory:" */
	int rc = sqlite3_open_v2(name, &q->db, SQLITE_OPEN_READONLY, NULL);
	free(name);
	return rc == SQLITE_OK
		       ? 0
		       : err_set(e, EIO, "cannot open '%s': %s", path, sqlite3_errmsg(q->db));
}

/* Of what only begins like a database. */
static int check_schema(struct query_db *q, const char *path, struct err *e)
{
	if (sqlite3_exec(q->db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) ==
	    SQLITE_OK)
		return 0;
	int rc = err_set(e, EINVAL, "cannot read '%s': %s", path, sqlite3_errmsg(q->db));
	query_close(q);
	return rc;
}

int query_open(struct query_db *q, const char *path, uint64_t timeout_ns, struct err *e)
{
	*q = (struct query_db){.until_ns = timeout_ns ? monotonic_ns() + timeout_ns : 0};
	sqlite3_initialize();
	sqlite3_hard_heap_limit64(HEAP_MOST_BYTES);
	int rc = is_database(path) ? open_database(q, path, e) : load(q, path, e);
	if (rc) {
		query_close(q);
		return rc;
	}
	guard(q);
	sqlite3_progress_handler(q->db, CHECK_EVERY, is_late, q);
	return check_schema(q, path, e);
}

void query_close(struct query_db *q)
{
	sqlite3_close(q->db);
	q->db = NULL;
}

/* ---- a statement ---- */

int query_failed(const struct query_db *q, int rc, struct err *e)
{
	if (q->late)
		return err_set(e, ETIME, "the time that --timeout gives is over");
	if (q->refused[0])
		return err_set(e, EPERM, "a query may only read: %s is refused", q->refused);
	return err_set(e, EINVAL, "%s", q->db ? sqlite3_errmsg(q->db) : sqlite3_errstr(rc));
}

/* Whether another statement follows. */
static bool has_more(struct query_db *q, const char *tail)
{
	while (*tail) {
		sqlite3_stmt *next = NULL;
		const char *from = tail;
		int rc = sqlite3_prepare_v2(q->db, from, -1, &next, &tail);
		sqlite3_finalize(next);
		if (rc != SQLITE_OK || next)
			return true;
		if (tail == from)
			return false;
	}
	return false;
}

int query_prepare(struct query_db *q, const char *sql, sqlite3_stmt **ret, struct err *e)
{
	const char *tail;
	int rc = sqlite3_prepare_v2(q->db, sql, -1, ret, &tail);
	if (rc != SQLITE_OK)
		return query_failed(q, rc, e);
	if (!*ret)
		return err_set(e, EINVAL, "there is no statement in the SQL");
	const char *why = has_more(q, tail) ? "one statement at a time: another follows the first"
			  : !sqlite3_stmt_readonly(*ret) ? "a query may only read"
							 : NULL;
	if (!why)
		return 0;
	sqlite3_finalize(*ret);
	*ret = NULL;
	return err_set(e, EINVAL, "%s", why);
}

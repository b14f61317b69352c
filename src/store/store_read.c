/* store_read.c - asks the tables of a store by time, which is what they are ordered by: rows of one
 * thing are looked up time by time, or all rows of a short table are gone through. */
#include "store/store_read.h"

#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/map64.h"
#include "base/utf8.h"
#include "store/store_read_impl.h"
#include "store/store_rollup.h"
#include "store/store_schema.h"

#define LATEST_S    (1LL << 40)
#define BUSY_MS	    200
#define CHECK_EVERY 10000 /* SQLite's operations */
#define CACHE_KIB   2048
#define VALUE_MOST  (1 << 20) /* bytes of a value */

/* The rollups, the finest first. */
static const int rollups[] = {1, 10, 60, 600};
#define ROLLUPS (sizeof(rollups) / sizeof(rollups[0]))

/* ---- the database ---- */

int reader_is_late(void *reader)
{
	struct reader *r = reader;
	r->late = r->late || monotonic_ns() >= r->q->until_ns;
	return r->late;
}

static void guard(struct reader *r)
{
	sqlite3_limit(r->db, SQLITE_LIMIT_LENGTH, VALUE_MOST);
	sqlite3_limit(r->db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_busy_timeout(r->db, BUSY_MS);
	sqlite3_progress_handler(r->db, CHECK_EVERY, reader_is_late, r);
	char *sql = xasprintf("PRAGMA query_only=ON;PRAGMA cell_size_check=ON;PRAGMA mmap_size=0;"
			      "PRAGMA cache_size=-%d;PRAGMA temp_store=MEMORY",
			      CACHE_KIB);
	sqlite3_exec(r->db, sql, NULL, NULL, NULL);
	free(sql);
}

/* The sentence of a code of SQLite. */
static int failed(const struct reader *r, int rc, const char *path, struct err *e)
{
	if (r->late)
		return err_set(e, ETIME, "it would take longer than it may: choose a shorter time");
	return err_set(e, EIO, "the store '%s' cannot be read: %s", path,
		       r->db ? sqlite3_errmsg(r->db) : sqlite3_errstr(rc));
}

int reader_prepare(struct reader *r, sqlite3_stmt **ret, char *sql)
{
	int rc = reader_is_late(r) ? SQLITE_INTERRUPT
				   : sqlite3_prepare_v2(r->db, sql, -1, ret, NULL);
	free(sql);
	return rc;
}

int reader_number(struct reader *r, char *sql, int64_t *ret)
{
	sqlite3_stmt *s = NULL;
	int rc = reader_prepare(r, &s, sql);
	if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
		if (sqlite3_column_type(s, 0) != SQLITE_NULL)
			*ret = sqlite3_column_int64(s, 0);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(s);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* A row as an object: a column's name is its key. */
static json_t *column_json(sqlite3_stmt *s, int i)
{
	struct buf clean = {0};
	switch (sqlite3_column_type(s, i)) {
	case SQLITE_INTEGER:
		return json_integer(sqlite3_column_int64(s, i));
	case SQLITE_FLOAT:
		return json_real(sqlite3_column_double(s, i));
	case SQLITE_TEXT:
		break;
	default:
		return json_null();
	}
	utf8_append(&clean, (const char *)sqlite3_column_text(s, i),
		    (size_t)sqlite3_column_bytes(s, i));
	json_t *ret = json_stringn((const char *)clean.data, clean.len);
	buf_free(&clean);
	return ret;
}

static json_t *row_json(sqlite3_stmt *s)
{
	json_t *ret = json_object();
	for (int i = 0; i < sqlite3_column_count(s); i++)
		json_object_set_new(ret, sqlite3_column_name(s, i), column_json(s, i));
	return ret;
}

/* All rows of a statement. */
static int rows_json(struct reader *r, json_t *list, char *sql)
{
	sqlite3_stmt *s = NULL;
	int rc = reader_prepare(r, &s, sql);
	while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
		json_array_append_new(list, row_json(s));
		rc = SQLITE_OK;
	}
	sqlite3_finalize(s);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- which rows ---- */

/* One end of a rollup: counters, and steps, which may be there without. */
static int end_of(struct reader *r, int each_s, const char *end, int64_t *ret)
{
	return reader_number(
		r,
		xasprintf("SELECT %s(t) FROM (SELECT (SELECT %s(time) FROM counters_%ds) AS t"
			  " UNION ALL SELECT (SELECT %s(time) FROM steps_%ds))",
			  end, end, each_s, end, each_s),
		ret);
}

/* Whether no coarser rollup has rows of before it: they begin earlier, as they are longer. */
static bool has_all(const int64_t oldest_s[static ROLLUPS], size_t which)
{
	for (size_t i = which + 1; i < ROLLUPS; i++)
		if (oldest_s[i] != INT64_MAX && oldest_s[which] >= oldest_s[i] + rollups[i])
			return false;
	return oldest_s[which] != INT64_MAX;
}

/* How far back each rollup goes, and what is kept in all. */
static int find_ends(struct reader *r, int64_t oldest_s[static ROLLUPS])
{
	struct range *g = &r->range;
	int rc = SQLITE_OK;
	for (size_t i = 0; i < ROLLUPS && rc == SQLITE_OK; i++) {
		int64_t newest_s = 0;
		oldest_s[i] = INT64_MAX;
		rc = end_of(r, rollups[i], "min", &oldest_s[i]);
		if (rc == SQLITE_OK)
			rc = end_of(r, rollups[i], "max", &newest_s);
		if (newest_s > g->newest_s)
			g->newest_s = newest_s;
	}
	for (size_t i = 0; i < ROLLUPS && rc == SQLITE_OK && !g->oldest_s; i++)
		if (has_all(oldest_s, i))
			g->oldest_s = oldest_s[i];
	return rc;
}

/* The finest that reaches back and has not too many rows; else the coarsest. */
static int choose(const struct range *g, const int64_t oldest_s[static ROLLUPS])
{
	for (size_t i = 0; i < ROLLUPS; i++)
		if ((g->to_s - g->from_s) / rollups[i] <= STORE_READ_ROWS &&
		    oldest_s[i] <= g->from_s + rollups[i])
			return rollups[i];
	return rollups[ROLLUPS - 1];
}

void range_by(struct range *g, int each_s)
{
	if (g->from_s >= g->to_s) {
		g->each_s = g->bucket_s = each_s;
		g->points = 0;
		return;
	}
	int64_t rows = (g->to_s - g->from_s + each_s - 1) / each_s;
	int64_t many = (rows + STORE_READ_POINTS - 1) / STORE_READ_POINTS;
	g->each_s = each_s;
	g->bucket_s = (int)(many > 0 ? many : 1) * each_s;
	g->from_s -= g->from_s % g->bucket_s;
	g->points = (uint32_t)((g->to_s - g->from_s + g->bucket_s - 1) / g->bucket_s);
	g->to_s = g->from_s + (int64_t)g->points * g->bucket_s;
}

static int find_range(struct reader *r)
{
	struct range *g = &r->range;
	int64_t oldest_s[ROLLUPS];
	int rc = find_ends(r, oldest_s);
	g->from_s = r->q->from_s > g->oldest_s ? r->q->from_s : g->oldest_s;
	g->to_s = r->q->to_s < g->newest_s + 1 ? r->q->to_s : g->newest_s + 1;
	if (rc != SQLITE_OK || !g->oldest_s || g->from_s >= g->to_s) {
		g->to_s = g->from_s;
		g->each_s = g->bucket_s = 1;
		return rc;
	}
	range_by(g, choose(g, oldest_s));
	return rc;
}

void range_to_json(const struct range *g, json_t *answer)
{
	json_object_set_new(answer, "from_s", json_integer(g->from_s));
	json_object_set_new(answer, "to_s", json_integer(g->to_s));
	json_object_set_new(answer, "bucket_s", json_integer(g->bucket_s));
	json_object_set_new(answer, "points", json_integer(g->points));
	json_object_set_new(answer, "oldest_s",
			    g->oldest_s ? json_integer(g->oldest_s) : json_null());
	json_object_set_new(answer, "newest_s",
			    g->oldest_s ? json_integer(g->newest_s) : json_null());
}

/* ---- points ---- */

static struct store_sums *points_new(const struct range *g)
{
	return xcalloc(g->points + 1, sizeof(struct store_sums));
}

/* Of the columns from the first on: n, sum, min, max. */
static void add_point(struct store_sums *points, const struct range *g, int64_t time_s,
		      sqlite3_stmt *s, int first)
{
	int64_t at = (time_s - g->from_s) / g->bucket_s;
	int64_t n = sqlite3_column_int64(s, first);
	double min = sqlite3_column_double(s, first + 2), max = sqlite3_column_double(s, first + 3);
	if (time_s < g->from_s || at >= (int64_t)g->points || n <= 0)
		return;
	struct store_sums *to = &points[at];
	to->min = to->n ? fmin(to->min, min) : min;
	to->max = to->n ? fmax(to->max, max) : max;
	to->n += (uint64_t)n;
	to->sum += sqlite3_column_double(s, first + 1);
}

enum value { MEAN, MAX, COUNT };

static json_t *value_json(const struct store_sums *p, enum value which, double times)
{
	if (which == COUNT)
		return json_integer((json_int_t)p->n);
	double v = times * (which == MEAN ? p->sum / (double)p->n : p->max);
	return p->n && isfinite(v) ? json_real(v) : json_null();
}

static json_t *values_json(const struct store_sums *points, const struct range *g, enum value which,
			   double times)
{
	json_t *ret = json_array();
	for (uint32_t i = 0; i < g->points; i++)
		json_array_append_new(ret, value_json(&points[i], which, times));
	return ret;
}

int reader_each_time(struct reader *r, const struct range *g, char *sql,
		     void (*row)(void *ctx, const struct range *g, int64_t time_s, sqlite3_stmt *s),
		     void *ctx)
{
	sqlite3_stmt *s = NULL;
	int rc = reader_prepare(r, &s, sql);
	sqlite3_bind_int64(s, 2, r->q->process);
	for (int64_t time = g->from_s; time < g->to_s && rc == SQLITE_OK; time += g->each_s) {
		sqlite3_bind_int64(s, 1, time);
		while ((rc = sqlite3_step(s)) == SQLITE_ROW)
			row(ctx, g, time, s);
		rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
		sqlite3_reset(s);
	}
	sqlite3_finalize(s);
	return rc;
}

static void on_steps(void *points, const struct range *g, int64_t time_s, sqlite3_stmt *s)
{
	add_point(points, g, time_s, s, 0);
}

static int add_steps(struct reader *r, const struct range *g, struct store_sums *points)
{
	return reader_each_time(
		r, g,
		xasprintf("SELECT n, sum, min, max FROM steps_%ds WHERE time = ?1 AND"
			  " process = ?2",
			  g->each_s),
		on_steps, points);
}

/* ---- processes ---- */

#define PROCESS_COLUMNS                                                                            \
	"p.id AS id, p.pid AS pid, p.start_ns / 1000000000 AS start_s,"                            \
	" nullif(p.end_ns, 0) / 1000000000 AS end_s, p.comm AS comm, p.script AS script,"          \
	" p.rank AS rank, p.local_rank AS local_rank, p.world_size AS world_size, p.job AS job,"   \
	" p.launcher AS launcher, p.pod AS pod, p.namespace AS namespace, p.container AS"          \
	" container, p.container_name AS container_name"
/* Those that lived in a range; who is not told of any more is noted as seen for a minute. */
#define LIVED "p.start_ns < %lld000000000 AND p.seen >= %lld"

/* Steps of a process in the range. */
struct tally {
	int64_t process;
	uint64_t n;
	double sum, max;
};

struct tallies {
	VEC(struct tally) list;
	struct map64 place_of; /* by process */
};

static struct tally *tally_of(struct tallies *all, int64_t process)
{
	uint64_t at = all->list.len;
	if (map64_get(&all->place_of, (uint64_t)process, &at))
		return &all->list.data[at];
	map64_set(&all->place_of, (uint64_t)process, at);
	struct tally *ret = vec_push(&all->list);
	ret->process = process;
	return ret;
}

/* One look at all rows of steps: of each process, and of all at each point. */
static int count_steps(struct reader *r, struct tallies *all, struct store_sums *points)
{
	const struct range *g = &r->range;
	sqlite3_stmt *s = NULL;
	int rc = reader_prepare(
		r, &s,
		xasprintf("SELECT time, n, sum, min, max, process FROM steps_%ds WHERE time"
			  " >= ?1 AND time < ?2",
			  g->each_s));
	sqlite3_bind_int64(s, 1, g->from_s);
	sqlite3_bind_int64(s, 2, g->to_s);
	while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
		struct tally *of = tally_of(all, sqlite3_column_int64(s, 5));
		of->n += (uint64_t)sqlite3_column_int64(s, 1);
		of->sum += sqlite3_column_double(s, 2);
		of->max = fmax(of->max, sqlite3_column_double(s, 4));
		add_point(points, g, sqlite3_column_int64(s, 0), s, 1);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(s);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int by_steps(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;
	return x->n > y->n ? -1 : x->n < y->n;
}

static void add_job(json_t *list, json_t *row, const struct tally *of)
{
	bool any = of && of->n;
	json_object_set_new(row, "steps", json_integer(any ? (json_int_t)of->n : 0));
	json_object_set_new(row, "mean_ms",
			    any ? json_real(1e3 * of->sum / (double)of->n) : json_null());
	json_object_set_new(row, "longest_ms", any ? json_real(1e3 * of->max) : json_null());
	json_array_append_new(list, row);
}

/* Those with steps, the most first. */
static int add_jobs_with_steps(struct reader *r, json_t *list, struct tallies *all)
{
	sqlite3_stmt *s = NULL;
	int rc = reader_prepare(
		r, &s, xasprintf("SELECT " PROCESS_COLUMNS " FROM processes p WHERE p.id = ?1"));
	if (all->list.len)
		qsort(all->list.data, all->list.len, sizeof(*all->list.data), by_steps);
	for (size_t i = 0; i < all->list.len && i < STORE_READ_JOBS && rc == SQLITE_OK; i++) {
		sqlite3_bind_int64(s, 1, all->list.data[i].process);
		rc = sqlite3_step(s);
		if (rc == SQLITE_ROW)
			add_job(list, row_json(s), &all->list.data[i]);
		rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
		sqlite3_reset(s);
	}
	sqlite3_finalize(s);
	return rc;
}

/* The others, the youngest first, as far as there is room. */
static int add_other_jobs(struct reader *r, json_t *list, const struct tallies *all)
{
	const struct range *g = &r->range;
	sqlite3_stmt *s = NULL;
	uint64_t unused;
	int rc = reader_prepare(r, &s,
				xasprintf("SELECT " PROCESS_COLUMNS " FROM processes p WHERE " LIVED
					  " ORDER BY p.start_ns DESC",
					  (long long)g->to_s,
					  (long long)(g->from_s - STORE_TOLD_S)));
	while (rc == SQLITE_OK && json_array_size(list) < STORE_READ_JOBS &&
	       (rc = sqlite3_step(s)) == SQLITE_ROW) {
		if (!map64_get(&all->place_of, (uint64_t)sqlite3_column_int64(s, 0), &unused))
			add_job(list, row_json(s), NULL);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(s);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_jobs(struct reader *r, json_t *ret)
{
	const struct range *g = &r->range;
	json_t *list = json_array();
	struct store_sums *points = points_new(g);
	struct tallies all = {0};
	int64_t lived = 0;
	int rc = count_steps(r, &all, points);
	if (rc == SQLITE_OK)
		rc = add_jobs_with_steps(r, list, &all);
	if (rc == SQLITE_OK)
		rc = add_other_jobs(r, list, &all);
	if (rc == SQLITE_OK)
		rc = reader_number(r,
				   xasprintf("SELECT count(*) FROM processes p WHERE " LIVED,
					     (long long)g->to_s,
					     (long long)(g->from_s - STORE_TOLD_S)),
				   &lived);
	json_object_set_new(ret, "jobs", list);
	json_object_set_new(ret, "jobs_all", json_integer(lived));
	json_object_set_new(ret, "steps", values_json(points, g, COUNT, 1));
	vec_free(&all.list);
	map64_free(&all.place_of);
	free(points);
	return rc;
}

/* ---- steps of one, and their phases ---- */

/* A point of phases is never shorter than a minute. */
static struct range phases_range(const struct range *g)
{
	struct range ret = *g;
	range_by(&ret, g->each_s > 60 ? 600 : 60);
	return ret;
}

/* Of a phase by its name: its points. */
struct phase {
	char *name;
	struct store_sums *points;
};

struct phases {
	VEC(struct phase) list;
};

static struct phase *phase_of(struct phases *all, const char *name, const struct range *g)
{
	for (size_t i = 0; i < all->list.len; i++)
		if (!strcmp(all->list.data[i].name, name))
			return &all->list.data[i];
	if (all->list.len == LIVE_STEP_PHASES)
		return NULL;
	struct phase *ret = vec_push(&all->list);
	*ret = (struct phase){xstrdup(name), points_new(g)};
	return ret;
}

static void on_phase(void *all, const struct range *g, int64_t time_s, sqlite3_stmt *s)
{
	const char *name = (const char *)sqlite3_column_text(s, 0);
	struct phase *phase = name ? phase_of(all, name, g) : NULL;
	if (phase)
		phase->points[(time_s - g->from_s) / g->bucket_s].sum +=
			sqlite3_column_double(s, 1);
}

static int add_phases(struct reader *r, const struct range *g, struct phases *all)
{
	return reader_each_time(
		r, g,
		xasprintf("SELECT phase, seconds FROM phases_%ds WHERE time = ?1 AND"
			  " process = ?2",
			  g->each_s),
		on_phase, all);
}

/* In milliseconds of a step. */
/* Its share of all phases, of the mean step: what is told of steps and of phases need not be of the
 * same seconds, as those are rolled up later. */
static json_t *phase_json(const struct phases *all, const struct phase *phase,
			  const struct store_sums *steps, const struct range *g)
{
	json_t *values = json_array();
	for (uint32_t i = 0; i < g->points; i++) {
		double sum = 0;
		for (size_t k = 0; k < all->list.len; k++)
			sum += all->list.data[k].points[i].sum;
		double mean = steps[i].n ? steps[i].sum / (double)steps[i].n : 0;
		json_array_append_new(values,
				      sum > 0 && mean > 0
					      ? json_real(1e3 * mean * phase->points[i].sum / sum)
					      : json_null());
	}
	return json_pack("{s:s, s:o}", "name", phase->name, "ms", values);
}

static int read_phases(struct reader *r, json_t *ret)
{
	struct range g = phases_range(&r->range);
	struct phases all = {0};
	struct store_sums *steps = points_new(&g);
	json_t *list = json_array();
	int rc = add_steps(r, &g, steps);
	if (rc == SQLITE_OK)
		rc = add_phases(r, &g, &all);
	for (size_t i = 0; i < all.list.len; i++)
		json_array_append_new(list, phase_json(&all, &all.list.data[i], steps, &g));
	for (size_t i = 0; i < all.list.len; i++) {
		free(all.list.data[i].name);
		free(all.list.data[i].points);
	}
	json_object_set_new(ret, "phases",
			    json_pack("{s:I, s:i, s:I, s:o}", "from_s", (json_int_t)g.from_s,
				      "bucket_s", g.bucket_s, "points", (json_int_t)g.points, "of",
				      list));
	vec_free(&all.list);
	free(steps);
	return rc;
}

/* Whose number it is; *ret stays where there is none. */
static int process_json(struct reader *r, json_t **ret)
{
	json_t *list = json_array();
	int rc =
		rows_json(r, list,
			  xasprintf("SELECT " PROCESS_COLUMNS " FROM processes p WHERE p.id = %lld",
				    (long long)r->q->process));
	if (rc == SQLITE_OK && json_array_size(list))
		*ret = json_incref(json_array_get(list, 0));
	json_decref(list);
	return rc;
}

static int read_steps(struct reader *r, json_t *ret)
{
	const struct range *g = &r->range;
	struct store_sums *points = points_new(g);
	int rc = add_steps(r, g, points);
	json_object_set_new(ret, "mean_ms", values_json(points, g, MEAN, 1e3));
	json_object_set_new(ret, "longest_ms", values_json(points, g, MAX, 1e3));
	json_object_set_new(ret, "count", values_json(points, g, COUNT, 1));
	free(points);
	return rc == SQLITE_OK ? read_phases(r, ret) : rc;
}

/* ---- counters ---- */

/* Of GPUs and the host these come first, as there may be more than an answer has room for. */
#define FIRST                                                                                      \
	"CASE name WHEN 'sm_ratio' THEN 1 WHEN 'memory_used_bytes' THEN 2 WHEN 'power_watts' THEN" \
	" 3 WHEN 'sm_clock_mhz' THEN 4 WHEN 'temperature_celsius' THEN 5 WHEN 'gpm_sm_ratio' THEN" \
	" 6 WHEN 'cpu_ratio' THEN 7 WHEN 'rss_bytes' THEN 8 ELSE 9 END"
#define NOTED_S 7200 /* a series is noted as seen each hour */

/* One column after the other in the order of its times: rows of a time lie side by side. */
static int look_up(struct reader *r, const sqlite3_int64 *ids, size_t len,
		   struct store_sums *const *points)
{
	const struct range *g = &r->range;
	sqlite3_stmt *s = NULL;
	const char *values = g->each_s == 1 ? "1, value, value, value" : "n, sum, min, max";
	int rc = reader_prepare(
		r, &s,
		xasprintf("SELECT %s FROM counters_%ds WHERE time = ?1 AND series = ?2", values,
			  g->each_s));
	for (int64_t time = g->from_s; time < g->to_s && rc == SQLITE_OK; time += g->each_s) {
		if (reader_is_late(r))
			rc = SQLITE_INTERRUPT;
		for (size_t i = 0; i < len && rc == SQLITE_OK; i++) {
			sqlite3_bind_int64(s, 1, time);
			sqlite3_bind_int64(s, 2, ids[i]);
			rc = sqlite3_step(s);
			if (rc == SQLITE_ROW)
				add_point(points[i], g, time, s, 0);
			rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
			sqlite3_reset(s);
		}
	}
	sqlite3_finalize(s);
	return rc;
}

static bool has_any(const struct store_sums *points, const struct range *g)
{
	for (uint32_t i = 0; i < g->points; i++)
		if (points[i].n)
			return true;
	return false;
}

/* Fills in those of which there is something; *ret_len more were asked for. */
static int fill_series(struct reader *r, json_t *found, json_t *list)
{
	sqlite3_int64 ids[STORE_READ_SERIES] = {0};
	struct store_sums *points[STORE_READ_SERIES];
	size_t len = json_array_size(found);
	for (size_t i = 0; i < len; i++) {
		ids[i] = json_integer_value(json_object_get(json_array_get(found, i), "id"));
		points[i] = points_new(&r->range);
	}
	int rc = look_up(r, ids, len, points);
	for (size_t i = 0; i < len; i++) {
		json_t *row = json_array_get(found, i);
		if (rc == SQLITE_OK && has_any(points[i], &r->range)) {
			json_object_del(row, "id");
			json_object_set_new(row, "mean",
					    values_json(points[i], &r->range, MEAN, 1));
			json_object_set_new(row, "max", values_json(points[i], &r->range, MAX, 1));
			json_array_append(list, row);
		}
		free(points[i]);
	}
	return rc;
}

static int read_series(struct reader *r, json_t *ret)
{
	const struct store_question *q = r->q;
	json_t *found = json_array(), *list = json_array();
	int64_t all = 0;
	char *which = q->process ? xasprintf("process = %lld", (long long)q->process)
				 : xasprintf("kind = %d AND process = 0", q->kind);
	char *where = xasprintf("FROM series WHERE %s AND seen >= %lld", which,
				(long long)(r->range.from_s - NOTED_S));
	int rc = reader_number(r, xasprintf("SELECT count(*) %s", where), &all);
	if (rc == SQLITE_OK)
		rc = rows_json(r, found,
			       xasprintf("SELECT id, kind, entity, name, unit %s ORDER BY " FIRST
					 ", name, gpu, entity LIMIT %d OFFSET %lld",
					 where, STORE_READ_SERIES, (long long)q->after));
	if (rc == SQLITE_OK)
		rc = fill_series(r, found, list);
	json_object_set_new(ret, "series_all", json_integer(all));
	json_object_set_new(ret, "series", list);
	json_decref(found);
	free(which);
	free(where);
	return rc;
}

/* ---- what was told ---- */

/* An agent that was killed in an incident did not tell its end. */
#define INCIDENT_END "max(end_ns, told_ns)"
#define INCIDENTS                                                                                  \
	" FROM incidents WHERE onset_ns < %lld000000000 AND " INCIDENT_END " >= %lld000000000"
#define EVENTS " FROM events WHERE time_ns < %lld000000000 AND time_ns >= %lld000000000"

static int read_told(struct reader *r, json_t *ret)
{
	long long from = r->q->from_s, to = r->q->to_s;
	json_t *incidents = json_array(), *events = json_array();
	int64_t all_incidents = 0, all_events = 0;
	json_object_set_new(ret, "incidents", incidents);
	json_object_set_new(ret, "events", events);
	int rc = rows_json(
		r, incidents,
		xasprintf("SELECT id, run, onset_ns, " INCIDENT_END
			  " AS end_ns, told_ns, caused_ns, ended, pid,"
			  " cause, runner_up, what, against, confidence, cost_ns, usual_ns,"
			  " unexplained_ns, culprit, culprit_pid, culprit_kind, culprit_name,"
			  " culprit_function, culprit_file, culprit_line, culprit_rank, why,"
			  " evidence, blame, beside, culprit_cgroup, victim_phase,"
			  " victim_function, victim_file, victim_line" INCIDENTS
			  " ORDER BY onset_ns DESC LIMIT %d",
			  to, from, STORE_READ_TOLD));
	if (rc == SQLITE_OK)
		rc = reader_number(r, xasprintf("SELECT count(*)" INCIDENTS, to, from),
				   &all_incidents);
	if (rc == SQLITE_OK)
		rc = rows_json(r, events,
			       xasprintf("SELECT time_ns, entity, name, text" EVENTS
					 " ORDER BY time_ns DESC LIMIT %d",
					 to, from, STORE_READ_TOLD));
	if (rc == SQLITE_OK)
		rc = reader_number(r, xasprintf("SELECT count(*)" EVENTS, to, from), &all_events);
	json_object_set_new(ret, "incidents_all", json_integer(all_incidents));
	json_object_set_new(ret, "events_all", json_integer(all_events));
	return rc;
}

/* ---- a question ---- */

static int read_topic(struct reader *r, json_t *ret)
{
	switch (r->q->topic) {
	case STORE_JOBS:
		return read_jobs(r, ret);
	case STORE_STEPS:
		return read_steps(r, ret);
	case STORE_SERIES:
		return read_series(r, ret);
	case STORE_CPU:
		return read_cpu(r, ret);
	default:
		return read_told(r, ret);
	}
}

static int open_reader(struct reader *r, const char *path)
{
	char *name = path[0] == '/' ? xstrdup(path) : xasprintf("./%s", path);
	int rc = sqlite3_open_v2(name, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
	free(name);
	if (rc != SQLITE_OK)
		return rc;
	guard(r);
	return sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL); /* one moment */
}

static int ask(struct reader *r, const char *path, json_t **ret, struct err *e)
{
	json_t *process = NULL;
	int rc = open_reader(r, path);
	if (rc == SQLITE_OK && r->q->process)
		rc = process_json(r, &process);
	if (rc == SQLITE_OK && r->q->process && !process)
		return err_set(e, ENOENT, "the store knows no process of that number");
	if (rc == SQLITE_OK)
		rc = find_range(r);
	json_t *answer = json_object();
	range_to_json(&r->range, answer);
	if (process)
		json_object_set_new(answer, "process", process);
	if (rc == SQLITE_OK)
		rc = read_topic(r, answer);
	if (rc == SQLITE_OK) {
		*ret = answer;
		return 0;
	}
	json_decref(answer);
	return failed(r, rc, path, e);
}

int store_read(json_t **ret, const char *path, const struct store_question *q, struct err *e)
{
	struct reader r = {.q = q};
	if (q->from_s < 0 || q->to_s > LATEST_S || q->from_s >= q->to_s)
		return err_set(e, EINVAL,
			       "from and to are seconds of the Unix epoch, from before to");
	int rc = ask(&r, path, ret, e);
	sqlite3_close(r.db);
	return rc;
}

/* store_read_test.c - what a store tells of a stretch of days: which rollup is read, that there are
 * some hundreds of points, that what is kept is told and no more, which stretches are none, how a
 * question that takes too long ends, and what a damaged store or none is called.
 *
 * links: cli */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "base/entity.h"
#include "store/store_read.h"
#include "store/store_schema.h"

#define T0    1700000400LL /* begins ten minutes */
#define HOUR  3600
#define DAY   86400
#define LATER 60000000000ULL

static char folder[64], path[96];
static struct err error;

/* ---- a store ---- */

static void put(const char *sql)
{
	sqlite3 *db;
	char *why = NULL;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", sql, why);
	sqlite3_close(db);
}

static int begin(void **unused)
{
	sqlite3 *db;
	(void)unused;
	strcpy(folder, "/tmp/eacgm-read-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s.db", folder);
	error = (struct err){0};
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(
		store_schema_bring(db, store_schema_steps, store_schema_version, path, &error),
		SQLITE_OK);
	sqlite3_close(db);
	return 0;
}

static int end(void **unused)
{
	static const char *const ends[] = {"", "-wal", "-shm"};
	char file[128];
	(void)unused;
	for (size_t i = 0; i < 3; i++) {
		snprintf(file, sizeof(file), "%s%s", path, ends[i]);
		unlink(file);
	}
	return rmdir(folder);
}

/* A day of two processes, GPUs and the host, of which each rollup has what an agent leaves it. */
static void put_day(void)
{
	char *sql = sqlite3_mprintf(
		"INSERT INTO processes(id, pid, start_ns, end_ns, seen, comm, script, rank,"
		" container_name) VALUES"
		" (1, 100, %lld000000000, 0, %lld, 'python3', 'train.py', 3, 'trainer'),"
		" (2, 200, %lld000000000, %lld000000000, %lld, 'python3', NULL, NULL, NULL);"
		"INSERT INTO series(id, process, kind, gpu, entity, name, unit, seen) VALUES"
		" (1, 0, 2, 0, 'gpu 0', 'power_watts', 'W', %lld),"
		" (2, 0, 2, 0, 'gpu 0', 'sm_ratio', 'ratio', %lld),"
		" (3, 0, 3, 0, 'host', 'cpu_ratio', 'ratio', %lld),"
		" (4, 1, 1, 0, 'pid 100', 'rss_bytes', 'bytes', %lld),"
		" (5, 0, 2, 0, 'gpu 0', 'silent', NULL, %lld);",
		T0, T0 + DAY, T0 + HOUR, T0 + 2 * HOUR, T0 + 2 * HOUR, T0 + DAY, T0 + DAY, T0 + DAY,
		T0 + DAY, T0 + DAY);
	put(sql);
	sqlite3_free(sql);
	static const struct {
		int each;
		long long from;
	} rollups[] = {{1, T0 + DAY - HOUR}, {10, T0 + DAY / 2}, {60, T0}, {600, T0}};
	for (size_t i = 0; i < 4; i++) {
		int each = rollups[i].each;
		const char *values = each == 1 ? "series" : "%d, %d * series, series, 2 * series";
		char *of = sqlite3_mprintf(values, each, each);
		sql = sqlite3_mprintf(
			"WITH RECURSIVE t(time) AS (SELECT %lld UNION ALL SELECT time + %d FROM t"
			" WHERE time + %d < %lld), s(series) AS (VALUES(1), (2), (3), (4))"
			" INSERT INTO counters_%ds SELECT time, series, %s FROM t, s;"
			"WITH RECURSIVE t(time) AS (SELECT %lld UNION ALL SELECT time + %d FROM t"
			" WHERE time + %d < %lld) INSERT INTO steps_%ds SELECT time, 1, 'training',"
			" %d, %d * 0.5, 0.25, 2 FROM t;",
			rollups[i].from, each, each, T0 + DAY, each, of, rollups[i].from, each,
			each, T0 + DAY, each, each, each);
		put(sql);
		sqlite3_free(sql);
		sqlite3_free(of);
	}
	put("INSERT INTO phases_60s SELECT time, 1, 'forward', 20 FROM steps_60s;"
	    "INSERT INTO phases_60s SELECT time, 1, 'load', 10 FROM steps_60s;"
	    "INSERT INTO phases_600s SELECT time, 1, 'forward', 200 FROM steps_600s;");
}

static int ask(json_t **ret, const struct store_question *asked)
{
	struct store_question q = *asked;
	*ret = NULL;
	if (!q.until_ns)
		q.until_ns = monotonic_ns() + LATER;
	int rc = store_read(ret, path, &q, &error);
	assert_true(!rc == !!*ret);
	return rc;
}

static json_t *answer(enum store_topic topic, long long from, long long to, int64_t process)
{
	json_t *ret;
	int rc = ask(&ret, &(struct store_question){.topic = topic,
						    .from_s = from,
						    .to_s = to,
						    .process = process,
						    .kind = ENTITY_GPU});
	if (rc)
		fail_msg("%d: %s", rc, error.msg);
	return ret;
}

static long long whole(const json_t *of, const char *key)
{
	const json_t *v = json_object_get(of, key);
	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

static double at(const json_t *of, const char *key, size_t i)
{
	return json_number_value(json_array_get(json_object_get(of, key), i));
}

static json_t *row(const json_t *of, const char *key, size_t i)
{
	return json_array_get(json_object_get(of, key), i);
}

/* ---- which rows ---- */

static void the_rollup_is_chosen_by_the_stretch(void **unused)
{
	static const struct {
		long long from, to;
		int bucket, points;
	} cases[] = {
		{T0 + DAY - 300, T0 + DAY, 1, 300},		/* seconds */
		{T0 + DAY - 1200, T0 + DAY, 3, 400},		/* three of them */
		{T0 + DAY - HOUR, T0 + DAY, 10, 360},		/* too many */
		{T0 + DAY - 2 * HOUR, T0 + DAY - 6900, 10, 30}, /* gone by then */
		{T0 + DAY - 4 * HOUR, T0 + DAY, 60, 240},
		{T0 + 600, T0 + 900, 60, 5}, /* tens of seconds are gone as well */
		{T0, T0 + DAY, 600, 144},
	};
	(void)unused;
	put_day();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		json_t *got = answer(STORE_STEPS, cases[i].from, cases[i].to, 1);
		assert_int_equal(whole(got, "bucket_s"), cases[i].bucket);
		assert_int_equal(whole(got, "points"), cases[i].points);
		assert_int_equal(whole(got, "from_s"), cases[i].from);
		assert_int_equal(json_array_size(json_object_get(got, "mean_ms")), cases[i].points);
		for (int k = 0; k < cases[i].points; k++) {
			assert_true(at(got, "mean_ms", k) == 500 &&
				    at(got, "longest_ms", k) == 2000);
			assert_true(at(got, "count", k) == cases[i].bucket);
		}
		json_decref(got);
	}
}

/* Rows of ten minutes begin before the seconds that they are of. */
static void a_store_that_has_just_begun_has_seconds(void **unused)
{
	(void)unused;
	put("INSERT INTO processes(id, pid, start_ns, seen) VALUES (1, 1, 0, 1800000000);"
	    "INSERT INTO steps_1s VALUES(1700000523, 1, '', 1, 1, 1, 1), (1700000533, 1, '', 1, 1, "
	    "1, 1);"
	    "INSERT INTO steps_10s VALUES(1700000520, 1, '', 1, 1, 1, 1);"
	    "INSERT INTO steps_60s VALUES(1700000520, 1, '', 1, 1, 1, 1);"
	    "INSERT INTO steps_600s VALUES(1700000400, 1, '', 1, 1, 1, 1);");
	json_t *got = answer(STORE_STEPS, T0 - DAY, T0 + DAY, 1);
	assert_int_equal(whole(got, "oldest_s"), 1700000523);
	assert_int_equal(whole(got, "from_s"), 1700000523);
	assert_int_equal(whole(got, "bucket_s"), 1);
	assert_int_equal(whole(got, "points"), 11);
	json_decref(got);
}

/* A year of tens of minutes is not a year of points. */
static void there_are_never_more_than_some_hundreds(void **unused)
{
	(void)unused;
	put("INSERT INTO processes(id, pid, start_ns, seen) VALUES (1, 1, 0, 1800000000);"
	    "WITH RECURSIVE t(time) AS (SELECT 1700000400 UNION ALL SELECT time + 600 FROM t"
	    " WHERE time < 1731000000) INSERT INTO steps_600s SELECT time, 1, '', 1, 1, 1, 1 FROM "
	    "t;");
	json_t *got = answer(STORE_STEPS, 1, 1LL << 40, 1);
	assert_in_range(whole(got, "points"), STORE_READ_POINTS / 2, STORE_READ_POINTS + 1);
	double all = 0;
	for (long long i = 0; i < whole(got, "points"); i++)
		all += at(got, "count", (size_t)i);
	assert_true(all > 51000); /* none is left out */
	json_decref(got);
}

static void what_is_not_kept_is_not_told(void **unused)
{
	(void)unused;
	json_t *got = answer(STORE_JOBS, T0, T0 + DAY, 0); /* of an empty store */
	assert_int_equal(whole(got, "points"), 0);
	assert_true(json_is_null(json_object_get(got, "oldest_s")));
	json_decref(got);
	put_day();
	got = answer(STORE_STEPS, T0 - 30 * DAY, T0 + 30 * DAY, 1);
	assert_int_equal(whole(got, "from_s"), T0);
	assert_int_equal(whole(got, "to_s"), T0 + DAY);
	assert_int_equal(whole(got, "oldest_s"), T0);
	assert_int_equal(whole(got, "newest_s"), T0 + DAY - 1);
	json_decref(got);
	got = answer(STORE_SERIES, T0 + 2 * DAY, T0 + 3 * DAY, 0); /* behind it */
	assert_int_equal(whole(got, "points"), 0);
	assert_int_equal(json_array_size(json_object_get(got, "series")), 0);
	json_decref(got);
}

static void stretches_that_are_none_are_refused(void **unused)
{
	static const long long wrong[][2] = {
		{T0, T0}, {T0 + 1, T0}, {-1, T0}, {0, (1LL << 40) + 1}, {INT64_MAX, INT64_MIN}};
	json_t *got;
	(void)unused;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(ask(&got, &(struct store_question){.from_s = wrong[i][0],
								    .to_s = wrong[i][1]}),
				 -EINVAL);
		assert_non_null(strstr(error.msg, "seconds of the Unix epoch"));
	}
	assert_int_equal(ask(&got, &(struct store_question){.topic = STORE_STEPS,
							    .from_s = T0,
							    .to_s = T0 + 1,
							    .process = 99}),
			 -ENOENT);
}

/* ---- what is told ---- */

static void processes_are_those_that_lived_then(void **unused)
{
	(void)unused;
	put_day();
	json_t *got = answer(STORE_JOBS, T0 + HOUR, T0 + DAY, 0);
	assert_int_equal(whole(got, "jobs_all"), 2);
	json_t *first = row(got, "jobs", 0);
	assert_int_equal(whole(first, "pid"), 100);
	assert_int_equal(whole(first, "rank"), 3);
	assert_string_equal(json_string_value(json_object_get(first, "container_name")), "trainer");
	assert_true(json_number_value(json_object_get(first, "mean_ms")) == 500);
	assert_true(json_is_null(json_object_get(first, "end_s")));
	assert_int_equal(whole(row(got, "jobs", 1), "steps"), 0);
	assert_true(at(got, "steps", 0) == whole(got, "bucket_s"));
	json_decref(got);
	got = answer(STORE_JOBS, T0 + 3 * HOUR, T0 + DAY, 0); /* the second has ended */
	assert_int_equal(whole(got, "jobs_all"), 1);
	json_decref(got);
}

static void phases_are_of_a_step(void **unused)
{
	(void)unused;
	put_day();
	json_t *got = answer(STORE_STEPS, T0 + DAY - 600, T0 + DAY, 1), *phases;
	phases = json_object_get(got, "phases");
	assert_int_equal(whole(phases, "bucket_s"), 60);
	assert_int_equal(whole(phases, "points"), 10);
	assert_int_equal(json_array_size(json_object_get(phases, "of")), 2);
	assert_true(fabs(at(row(phases, "of", 0), "ms", 0) * 3 - 1000) <
		    0.01); /* 20 s of 60 steps */
	assert_string_equal(json_string_value(json_object_get(row(phases, "of", 0), "name")),
			    "forward");
	json_decref(got);
	got = answer(STORE_STEPS, T0, T0 + DAY, 1);
	phases = json_object_get(got, "phases");
	assert_int_equal(whole(phases, "bucket_s"), 600);
	assert_int_equal(json_array_size(json_object_get(phases, "of")), 1);
	json_decref(got);
}

/* Minutes of the last hour, tens of them of the day; train -> step -> matmul, and what no frame
 * has. */
static void put_trees(void)
{
	put("INSERT INTO frames VALUES(1, 1, 'train (t.py:1)', 0), (2, 1, 'step', 0),"
	    " (3, 0, 'matmul', 0);"
	    "INSERT INTO stacks VALUES(1, 0, 1, 0), (2, 1, 2, 0), (5, 2, 3, 0), (6, 7, 3, 0),"
	    " (7, 6, 2, 0);");
	char *sql = sqlite3_mprintf(
		"INSERT INTO cpu_60s SELECT time, 1, 5, 30 FROM steps_60s WHERE time >= %lld;"
		"INSERT INTO cpu_60s SELECT time, 1, 2, 15 FROM steps_60s WHERE time >= %lld;"
		"INSERT INTO cpu_600s SELECT time, 1, 5, 300 FROM steps_600s;"
		"INSERT INTO cpu_600s SELECT time, 1, 0, 60 FROM steps_600s;"
		"INSERT INTO cpu_600s SELECT time, 2, 5, 1 FROM steps_600s;",
		T0 + DAY - HOUR, T0 + DAY - HOUR);
	put(sql);
	sqlite3_free(sql);
}

static json_t *tree_of(struct calltree *tree, long long from, long long to)
{
	json_t *ret;
	calltree_init(tree);
	int rc = ask(&ret, &(struct store_question){.topic = STORE_CPU,
						    .from_s = from,
						    .to_s = to,
						    .process = 1,
						    .tree = tree});
	if (rc)
		fail_msg("%d: %s", rc, error.msg);
	return ret;
}

static const char *name_of(const struct calltree *t, uint32_t node)
{
	return strtab_get(&t->strings, t->frames.data[t->nodes.data[node].frame].name, NULL);
}

static void call_trees_are_of_a_stretch(void **unused)
{
	struct calltree t;
	(void)unused;
	put_day();
	put_trees();
	json_t *got = tree_of(&t, T0 + DAY - 600, T0 + DAY);
	assert_int_equal(whole(got, "bucket_s"), 60);
	assert_int_equal(whole(got, "points"), 10);
	assert_true(at(got, "cpus", 9) == 0.75);
	assert_int_equal(t.nodes.len, 4);
	assert_true(t.nodes.data[0].total[0] == 450000000000);
	assert_true(t.nodes.data[0].self[0] == 0);
	assert_string_equal(name_of(&t, 3), "matmul");
	assert_int_equal(t.frames.data[t.nodes.data[3].frame].kind, CALLTREE_NATIVE);
	assert_true(t.nodes.data[3].self[0] == 300000000000);
	assert_string_equal(name_of(&t, t.nodes.data[3].parent), "step");
	json_decref(got);
	calltree_free(&t);
	got = tree_of(&t, T0 + HOUR, T0 + HOUR + 1200); /* minutes do not go back so far */
	assert_int_equal(whole(got, "bucket_s"), 600);
	assert_int_equal(whole(got, "points"), 2);
	assert_true(t.nodes.data[0].total[0] == 720000000000);
	assert_true(t.nodes.data[0].self[0] == 120000000000);
	json_decref(got);
	calltree_free(&t);
	got = tree_of(&t, T0, T0 + DAY);
	assert_true(t.nodes.data[0].total[0] == 144 * 360000000000);
	json_decref(got);
	calltree_free(&t);
}

/* One that leads in a circle, one whose frame nobody knows, one that is not there, and what is no
 * time. */
static void damaged_stacks_are_the_process_itself(void **unused)
{
	struct calltree t;
	(void)unused;
	put_day();
	char *sql = sqlite3_mprintf("INSERT INTO cpu_60s VALUES(%lld, 1, 6, 1), (%lld, 1, 9, 2),"
				    " (%lld, 1, 4, 4), (%lld, 1, 1, 'x'), (%lld, 1, 2, -5),"
				    " (%lld, 1, 5, 1e300), (%lld, 1, -3, 8)",
				    T0 + DAY - 60, T0 + DAY - 60, T0 + DAY - 60, T0 + DAY - 60,
				    T0 + DAY - 60, T0 + DAY - 60, T0 + DAY - 60);
	put("INSERT INTO frames VALUES(3, 77, 'matmul', 0), (2, 1, NULL, 0);"
	    "INSERT INTO stacks VALUES(6, 7, 3, 0), (7, 6, 3, 0), (4, 0, 99, 0)");
	put(sql);
	sqlite3_free(sql);
	json_t *got = tree_of(&t, T0 + DAY - 60, T0 + DAY);
	assert_true(t.nodes.data[0].total[0] == 15000000000);
	assert_true(t.nodes.data[0].self[0] == 15000000000);
	json_decref(got);
	calltree_free(&t);
}

static void counters_are_of_a_kind_or_a_process(void **unused)
{
	(void)unused;
	put_day();
	json_t *got = answer(STORE_SERIES, T0 + DAY - 300, T0 + DAY, 0);
	assert_int_equal(whole(got, "series_all"), 3);
	assert_int_equal(json_array_size(json_object_get(got, "series")), 2); /* one is silent */
	json_t *first = row(got, "series", 0);
	assert_string_equal(json_string_value(json_object_get(first, "name")), "sm_ratio");
	assert_true(at(first, "mean", 7) == 2 && at(first, "max", 7) == 2); /* of seconds */
	json_decref(got);
	got = answer(STORE_SERIES, T0, T0 + DAY, 1);
	assert_int_equal(json_array_size(json_object_get(got, "series")), 1);
	assert_true(at(row(got, "series", 0), "mean", 143) == 4);
	assert_true(at(row(got, "series", 0), "max", 143) == 8);
	json_decref(got);
	int rc = ask(&got, &(struct store_question){.topic = STORE_SERIES,
						    .from_s = T0,
						    .to_s = T0 + DAY,
						    .kind = ENTITY_GPU,
						    .after = 2});
	assert_int_equal(rc, 0);
	assert_int_equal(json_array_size(json_object_get(got, "series")), 0); /* the silent one */
	json_decref(got);
}

static void incidents_and_events_are_those_of_then(void **unused)
{
	(void)unused;
	put("INSERT INTO incidents(run, id, pid, key_ns, onset_ns, end_ns, told_ns, ended, cause,"
	    " what, evidence) VALUES"
	    " (1, 1, 9, 1, 1700000100000000000, 1700000200000000000, 0, 1, 'x', 'early', NULL),"
	    " (1, 2, 9, 2, 1700000500000000000, 1700000600000000000, 0, 1, 'x', 'then', "
	    "'a'||x'0a'||'b'),"
	    " (1, 3, 9, 3, 1700000100000000000, 0, 1700000450000000000, 0, 'x', 'killed', NULL);"
	    "INSERT INTO events(time_ns, entity, name, text) VALUES"
	    " (1700000450000000000, 'gpu 0', 'xid', '79'), (1700000950000000000, '', 'late', '')");
	json_t *got = answer(STORE_TOLD, 1700000400, 1700000900, 0);
	assert_int_equal(whole(got, "incidents_all"), 2);
	assert_string_equal(json_string_value(json_object_get(row(got, "incidents", 0), "what")),
			    "then");
	assert_string_equal(
		json_string_value(json_object_get(row(got, "incidents", 0), "evidence")), "a\nb");
	assert_string_equal(json_string_value(json_object_get(row(got, "incidents", 1), "what")),
			    "killed");
	assert_int_equal(whole(got, "events_all"), 1);
	json_decref(got);
}

/* ---- what goes wrong ---- */

static void a_question_ends_in_time(void **unused)
{
	json_t *got;
	(void)unused;
	put_day();
	for (int topic = STORE_JOBS; topic <= STORE_SERIES; topic++) {
		assert_int_equal(
			ask(&got, &(struct store_question){.topic = (enum store_topic)topic,
							   .from_s = T0,
							   .to_s = T0 + DAY,
							   .process = topic == STORE_STEPS,
							   .kind = ENTITY_GPU,
							   .until_ns = 1}),
			-ETIME);
		assert_non_null(strstr(error.msg, "choose a shorter time"));
	}
}

/* Whoever writes is not waited for. */
static void one_that_is_written_is_read(void **unused)
{
	sqlite3 *writer;
	(void)unused;
	put_day();
	assert_int_equal(sqlite3_open(path, &writer), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(writer, "BEGIN IMMEDIATE; DELETE FROM processes", NULL, NULL, NULL),
		SQLITE_OK);
	json_t *got = answer(STORE_JOBS, T0, T0 + DAY, 0);
	assert_int_equal(whole(got, "jobs_all"), 2);
	json_decref(got);
	assert_int_equal(sqlite3_exec(writer, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(writer);
}

static void a_damaged_one_is_said(void **unused)
{
	char waste[4096];
	json_t *got;
	(void)unused;
	put_day();
	memset(waste, 0xa5, sizeof(waste));
	int fd = open(path, O_RDWR);
	off_t size = lseek(fd, 0, SEEK_END);
	for (off_t page = 2 * 4096; page < size; page += 4096)
		assert_int_equal(pwrite(fd, waste, sizeof(waste), page), sizeof(waste));
	close(fd);
	for (int topic = STORE_JOBS; topic <= STORE_TOLD; topic++) {
		const struct store_question q = {
			.topic = (enum store_topic)topic, .from_s = T0, .to_s = T0 + DAY};
		assert_int_equal(ask(&got, &q), -EIO);
		assert_non_null(strstr(error.msg, "malformed"));
		assert_null(strchr(error.msg, '\n'));
	}
	assert_int_equal(truncate(path, 0), 0);
	put("CREATE TABLE theirs(a)");
	assert_int_equal(ask(&got, &(struct store_question){.from_s = T0, .to_s = T0 + 1}), -EIO);
	unlink(path);
	assert_int_equal(ask(&got, &(struct store_question){.from_s = T0, .to_s = T0 + 1}), -EIO);
	assert_non_null(strstr(error.msg, "unable to open"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_rollup_is_chosen_by_the_stretch),
		TEST(a_store_that_has_just_begun_has_seconds),
		TEST(there_are_never_more_than_some_hundreds),
		TEST(what_is_not_kept_is_not_told),
		TEST(stretches_that_are_none_are_refused),
		TEST(processes_are_those_that_lived_then),
		TEST(phases_are_of_a_step),
		TEST(call_trees_are_of_a_stretch),
		TEST(damaged_stacks_are_the_process_itself),
		TEST(counters_are_of_a_kind_or_a_process),
		TEST(incidents_and_events_are_those_of_then),
		TEST(a_question_ends_in_time),
		TEST(one_that_is_written_is_read),
		TEST(a_damaged_one_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

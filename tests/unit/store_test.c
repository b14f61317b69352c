/* store_test.c - an agent's store: what is sampled is added up by ten seconds and by minutes, calls
 * are what came since, rows go by their age and by bytes, an older version is brought up to date, a
 * newer one and what is no store are refused.
 *
 * links: cli */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/entity.h"
#include "events/metric.h"
#include "store/store.h"
#include "store/store_retain.h"
#include "store/store_rollup.h"
#include "store/store_schema.h"
#include "store/store_write.h"

#define OFFSET_NS 1700000000000000000LL
#define TIME_S	  1700000040LL /* begins a minute */
#define S	  1000000000ULL

static char folder[64], path[96];
static struct live_series series;
static struct store_rollup rollup;
static struct store_writer writer;
static uint64_t now_ns;
static char said[512];
static atomic_int sayings;

/* ---- what there is ---- */

static int begin(void **unused)
{
	(void)unused;
	strcpy(folder, "/tmp/eacgm-store-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s.db", folder);
	series = (struct live_series){0};
	rollup = (struct store_rollup){0};
	writer = (struct store_writer){0};
	now_ns = 50 * S;
	said[0] = 0;
	sayings = 0;
	return 0;
}

static int end(void **unused)
{
	static const char *const ends[] = {"", "-wal", "-shm"};
	char file[128];
	(void)unused;
	store_writer_close(&writer);
	store_rollup_free(&rollup);
	live_series_free(&series);
	for (size_t i = 0; i < 3; i++) {
		snprintf(file, sizeof(file), "%s%s", path, ends[i]);
		unlink(file);
	}
	return rmdir(folder);
}

static struct live_process *job(uint32_t pid)
{
	map64_set(&series.process_of, pid, series.processes.len);
	struct live_process *p = vec_push(&series.processes);
	*p = (struct live_process){.pid = pid, .start_ns = 5 * S, .called = true, .rank = 2};
	proc_labels_init(&p->labels);
	strcpy(p->comm, "python3");
	strcpy(p->script, "train.py");
	strcpy(p->labels.job, "4711");
	return p;
}

static struct live_metric *counter(uint8_t kind, uint32_t pid, const char *name)
{
	struct live_metric *m = vec_push(&series.metrics);
	*m = (struct live_metric){.kind = kind,
				  .there = true,
				  .unit = metric_unit_of(name),
				  .pid = pid,
				  .instance = -1,
				  .label = xstrdup(""),
				  .name = xstrdup(name)};
	return m;
}

static struct live_function *function(uint32_t pid, const char *name)
{
	struct live_function *f = vec_push(&series.functions);
	f->pid = pid;
	strcpy(f->layer, "cuda");
	snprintf(f->name, sizeof(f->name), "%s", name);
	return f;
}

static void sample(double value, const struct live_steps_view *steps)
{
	now_ns += S;
	for (size_t i = 0; i < series.metrics.len; i++) {
		series.metrics.data[i].value = value;
		series.metrics.data[i].time_ns = now_ns;
	}
	store_rollup_sample(&rollup, &series, steps, now_ns, OFFSET_NS);
}

static sqlite3 *open_plain(void)
{
	sqlite3 *db;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	return db;
}

static void open_store(void)
{
	struct err e = {0};
	writer.db = open_plain();
	assert_int_equal(
		store_schema_bring(writer.db, store_schema_steps, store_schema_version, path, &e),
		SQLITE_OK);
}

static void write_at(int64_t time_s)
{
	struct store_batch b = store_rollup_take(&rollup, &series, OFFSET_NS);
	b.time_s = time_s;
	assert_int_equal(store_write(&writer, &b), SQLITE_OK);
	store_batch_free(&b);
}

static double ask(const char *sql)
{
	sqlite3_stmt *s;
	if (sqlite3_prepare_v2(writer.db, sql, -1, &s, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(writer.db));
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	double ret = sqlite3_column_double(s, 0);
	sqlite3_finalize(s);
	return ret;
}

/* ---- rolled up ---- */

static void counters_have_mean_and_bounds(void **unused)
{
	(void)unused;
	open_store();
	job(7);
	counter(ENTITY_PROCESS, 7, "rss_bytes");
	counter(ENTITY_PROCESS, 8, "rss_bytes"); /* no job */
	counter(ENTITY_HOST, 0, "cpu_ratio");
	sample(4, NULL);
	sample(1, NULL);
	store_rollup_sample(&rollup, &series, NULL, now_ns, OFFSET_NS); /* nothing new was told */
	write_at(TIME_S);
	sample(10, NULL);
	write_at(TIME_S + 10);
	sample(3, NULL);
	write_at(TIME_S + 60);
	assert_int_equal(ask("SELECT count(*) FROM counters_10s"), 6);
	assert_int_equal(ask("SELECT count(*) FROM v_counters"), 4);
	assert_int_equal(ask("SELECT count(*) FROM v_counters WHERE pid = 7 AND script = 'train.py'"
			     " AND entity = 'pid 7' AND unit = 'bytes'"),
			 2);
	assert_true(ask("SELECT n = 3 AND mean = 5 AND min = 1 AND max = 10 FROM v_counters WHERE"
			" name = 'cpu_ratio' AND time = 1700000040"));
	assert_true(ask("SELECT n = 2 AND mean = 2.5 FROM v_counters_10s WHERE name = 'cpu_ratio'"
			" AND time = 1700000040"));
}

static void calls_are_those_since_the_last_batch(void **unused)
{
	(void)unused;
	open_store();
	job(7);
	struct live_function *f = function(7, "cuLaunchKernel");
	f->calls = 10, f->errors = 1, f->ns = 2e9;
	write_at(TIME_S);
	f->calls = 15, f->ns = 3e9;
	write_at(TIME_S + 10);
	write_at(TIME_S + 20); /* none */
	f->calls = 16;
	write_at(TIME_S + 60);
	assert_int_equal(ask("SELECT count(*) FROM v_calls"), 2);
	assert_true(ask("SELECT calls = 15 AND errors = 1 AND seconds = 3 AND pid = 7 AND"
			" layer = 'cuda' FROM v_calls ORDER BY time"));
	assert_int_equal(ask("SELECT sum(calls) FROM v_calls"), 16);
	assert_int_equal(ask("SELECT count(*) FROM processes WHERE rank = 2 AND job = '4711'"), 1);
}

static void many_functions_are_others(void **unused)
{
	char name[32];
	(void)unused;
	open_store();
	job(7);
	for (int i = 0; i < STORE_FUNCTIONS + 100; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		struct live_function *f = function(7, name);
		f->calls = 1, f->ns = 1000 - i;
	}
	write_at(TIME_S);
	assert_int_equal(ask("SELECT count(*) FROM v_calls"), STORE_FUNCTIONS);
	assert_int_equal(ask("SELECT sum(calls) FROM v_calls"), STORE_FUNCTIONS + 100);
	assert_int_equal(ask("SELECT calls FROM v_calls WHERE name = '(other)'"), 101);
}

static void steps_are_counted_from_the_first_look(void **unused)
{
	struct live_steps_view steps = {.count = 5, .pid = 7, .kind = "training"};
	(void)unused;
	open_store();
	job(7);
	for (int i = 0; i < 5; i++)
		live_history_add(&steps.history, 9e9);
	sample(0, &steps); /* these were before */
	live_history_add(&steps.history, 1e9);
	live_history_add(&steps.history, 3e9);
	steps.count = 7;
	sample(0, &steps);
	write_at(TIME_S);
	assert_true(ask("SELECT steps = 2 AND mean_s = 2 AND max_s = 3 AND kind = 'training' AND"
			" pid = 7 FROM v_steps"));
	assert_int_equal(ask("SELECT steps FROM v_steps_10s"), 2);
}

static void an_incident_is_one_row_the_latest(void **unused)
{
	char text[] = "cpu_contention", why[] = "waited";
	struct incident_texts texts = {.of = {text, why}, .len = 2};
	struct m_incident row = {.id = 3,
				 .onset_ns = 10 * S,
				 .end_ns = 12 * S,
				 .told_ns = 11 * S,
				 .pid = 7,
				 .cause = 1,
				 .confidence = 0.5,
				 .cost_ns = 2e9,
				 .evidence = {2}};
	const struct incident_said told = {.row = &row, .texts = &texts};
	(void)unused;
	open_store();
	store_rollup_incident(&rollup, &told, OFFSET_NS);
	write_at(TIME_S);
	row.ended = true, row.confidence = 0.75;
	store_rollup_incident(&rollup, &told, OFFSET_NS);
	store_rollup_incident(&rollup, &told, OFFSET_NS);
	store_rollup_event(&rollup, OFFSET_NS, "gpu 0", "xid", "79");
	write_at(TIME_S + 10);
	assert_int_equal(ask("SELECT count(*) FROM incidents"), 1);
	assert_true(ask("SELECT cause = 'cpu_contention' AND confidence = 0.75 AND ended AND"
			" lasted_s = 2 AND cost_s = 2 AND evidence = 'waited' FROM v_incidents"));
	assert_int_equal(ask("SELECT count(*) FROM v_events WHERE name = 'xid' AND text = '79'"),
			 1);
}

/* ---- what goes ---- */

static void fill(int64_t from_s, int minutes)
{
	for (int i = 0; i < 6 * minutes; i++) {
		sample(i, NULL);
		write_at(from_s + 10 * i);
	}
}

static void rows_go_by_their_age(void **unused)
{
	const struct store_limits limits = {.keep_s = 7 * 86400, .bytes = 1 << 30};
	bool names;
	(void)unused;
	open_store();
	counter(ENTITY_HOST, 0, "cpu_ratio");
	fill(TIME_S, 30);
	assert_int_equal(ask("SELECT count(*) FROM counters_10s"), 180);
	assert_int_equal(store_retain(writer.db, &limits, TIME_S + 86400 + 900, &names), SQLITE_OK);
	assert_int_equal(ask("SELECT count(*) FROM counters_10s"), 120); /* a slice at a time */
	store_retain(writer.db, &limits, TIME_S + 86400 + 900, &names);
	assert_int_equal(ask("SELECT count(*) FROM counters_10s"), 90);
	assert_int_equal(ask("SELECT count(*) FROM counters_60s"), 30);
	for (int i = 0; i < 5; i++)
		store_retain(writer.db, &limits, (TIME_S + 9 * 86400) / 600 * 600, &names);
	assert_int_equal(ask("SELECT count(*) FROM counters_60s"), 0);
	assert_int_equal(ask("SELECT count(*) FROM series"), 0);
}

static void rows_go_where_there_are_too_many_bytes(void **unused)
{
	const struct store_limits limits = {.keep_s = 7 * 86400, .bytes = 256 << 10};
	bool names;
	char name[32];
	(void)unused;
	open_store();
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		counter(ENTITY_HOST, 0, name);
	}
	fill(TIME_S, 90);
	assert_true(ask("PRAGMA page_count") * 4096 > 2 * (256 << 10));
	int64_t at_s = TIME_S + 90 * 60;
	for (int i = 0; i < 40; i++)
		assert_int_equal(store_retain(writer.db, &limits, at_s, &names), SQLITE_OK);
	assert_true((ask("PRAGMA page_count") - ask("PRAGMA freelist_count")) * 4096 <= 256 << 10);
	assert_true(ask("PRAGMA freelist_count") <= 256);
	assert_true(ask("SELECT count(*) FROM counters_60s") > 0);
}

/* ---- versions ---- */

static void an_older_one_is_brought_up_to_date(void **unused)
{
	const char *const steps[] = {store_schema_steps[0],
				     "ALTER TABLE events ADD COLUMN more TEXT"};
	const char *const wrong[] = {steps[0], steps[1], "CREATE TABLE x(a); no SQL"};
	struct err e = {0};
	(void)unused;
	open_store();
	store_rollup_event(&rollup, OFFSET_NS, "gpu 0", "xid", "79");
	write_at(TIME_S);
	assert_int_equal(store_schema_bring(writer.db, steps, 2, path, &e), SQLITE_OK);
	assert_int_equal(ask("SELECT count(*) FROM events WHERE more IS NULL"), 1);
	assert_int_equal(ask("PRAGMA user_version"), 2);
	assert_int_not_equal(store_schema_bring(writer.db, wrong, 3, path, &e), SQLITE_OK);
	assert_int_equal(ask("PRAGMA user_version"), 2); /* all or nothing */
	assert_int_equal(ask("SELECT count(*) FROM sqlite_schema WHERE name = 'x'"), 0);
}

static void say(void *ctx, const char *sentence)
{
	(void)ctx;
	snprintf(said, sizeof(said), "%s", sentence);
	sayings++;
}

static void assert_refused(const char *why)
{
	struct store *s = NULL;
	struct err e = {0};
	const struct store_options o = {
		.path = path, .keep_s = 86400, .most_bytes = 1 << 24, .say = say};
	assert_true(store_open(&s, &o, &e) < 0);
	assert_non_null(strstr(e.msg, why));
	assert_null(strchr(e.msg, '\n'));
	assert_string_equal(said, "");
}

static void a_newer_one_is_refused(void **unused)
{
	(void)unused;
	open_store();
	assert_int_equal(sqlite3_exec(writer.db, "PRAGMA user_version=99", NULL, NULL, NULL), 0);
	assert_refused("newer eacgm");
}

static void what_is_no_store_is_refused(void **unused)
{
	char before[4096] = "#!/bin/sh\n", after[4096] = "";
	(void)unused;
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(write(fd, before, sizeof(before)), sizeof(before));
	assert_refused("no database of SQLite");
	assert_int_equal(pread(fd, after, sizeof(after), 0), sizeof(after));
	assert_memory_equal(before, after, sizeof(before)); /* nothing was written */
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	sqlite3 *db = open_plain();
	assert_int_equal(sqlite3_exec(db, "CREATE TABLE theirs(a)", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_refused("something else");
	snprintf(path, sizeof(path), "%s", folder);
	assert_refused("");
	snprintf(path, sizeof(path), "%s/s.db", folder);
}

/* ---- the thread ---- */

static void what_is_there_at_the_end_is_written(void **unused)
{
	struct store *s = NULL;
	struct err e = {0};
	const struct store_options o = {
		.path = path, .keep_s = 86400, .most_bytes = 1 << 24, .say = say};
	(void)unused;
	job(7);
	counter(ENTITY_HOST, 0, "cpu_ratio")->time_ns = 1;
	function(7, "f")->calls = 3;
	assert_int_equal(store_open(&s, &o, &e), 0);
	assert_int_equal(store_start(s, &e), 0);
	store_tick(s, &series, NULL, 100 * S);
	store_event(s, 0, "gpu 0", "xid", "79");
	store_close(s, &series);
	writer.db = open_plain();
	assert_int_equal(ask("SELECT count(*) FROM v_counters"), 1);
	assert_int_equal(ask("SELECT calls FROM v_calls"), 3);
	assert_int_equal(ask("SELECT count(*) FROM v_events"), 1);
	assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
	assert_string_equal(said, "");
}

static void wait_for_saying(int n, const char *what)
{
	for (int i = 0; i < 2000 && sayings < n; i++)
		usleep(10000);
	assert_int_equal(sayings, n);
	assert_non_null(strstr(said, what));
}

/* Somebody else holds it: said once, and what waited comes when it is free. */
static void a_busy_one_is_tried_again(void **unused)
{
	struct store *s = NULL;
	struct err e = {0};
	const struct store_options o = {
		.path = path, .keep_s = 86400, .most_bytes = 1 << 24, .say = say};
	(void)unused;
	job(7);
	struct live_function *f = function(7, "f");
	f->calls = 3;
	assert_int_equal(store_open(&s, &o, &e), 0);
	assert_int_equal(store_start(s, &e), 0);
	sqlite3 *other = open_plain();
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	store_tick(s, &series, NULL, 100 * S);
	store_tick(s, &series, NULL, 110 * S);
	wait_for_saying(1, "cannot be written: database is locked");
	f->calls = 5;
	assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	store_tick(s, &series, NULL, 120 * S);
	wait_for_saying(2, "written again");
	store_close(s, &series);
	sqlite3_close(other);
	writer.db = open_plain();
	assert_int_equal(ask("SELECT sum(calls) FROM v_calls"), 5);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(counters_have_mean_and_bounds),
		TEST(calls_are_those_since_the_last_batch),
		TEST(many_functions_are_others),
		TEST(steps_are_counted_from_the_first_look),
		TEST(an_incident_is_one_row_the_latest),
		TEST(rows_go_by_their_age),
		TEST(rows_go_where_there_are_too_many_bytes),
		TEST(an_older_one_is_brought_up_to_date),
		TEST(a_newer_one_is_refused),
		TEST(what_is_no_store_is_refused),
		TEST(what_is_there_at_the_end_is_written),
		TEST(a_busy_one_is_tried_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* store_test.c - an agent's store: what is seen each second is added up by ten seconds and by
 * minutes, also what a killed agent left; steps and calls are what came since, rows go by their age
 * and by bytes, an older version is brought up to date, a newer one and what is no store are
 * refused.
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

#include "analyze/collectives.h"
#include "base/calltree.h"
#include "base/clock.h"
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
	strcpy(p->labels.container_name, "trainer");
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

static struct store_seen seen(const struct live_steps_view *const *steps, uint32_t n)
{
	return (struct store_seen){.series = &series, .steps = steps, .steps_len = n};
}

static void tell_counters(double value)
{
	now_ns += S;
	for (size_t i = 0; i < series.metrics.len; i++) {
		series.metrics.data[i].value = value;
		series.metrics.data[i].time_ns = now_ns;
	}
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

static void write_steps_at(int64_t time_s, const struct live_steps_view *const *steps, uint32_t n)
{
	const struct store_seen there = seen(steps, n);
	struct store_batch b = store_rollup_take(&rollup, &there, now_ns, OFFSET_NS);
	b.time_s = time_s;
	assert_int_equal(store_write(&writer, &b), SQLITE_OK);
	store_batch_free(&b);
}

static void write_at(int64_t time_s)
{
	write_steps_at(time_s, NULL, 0);
}

static void write_counters_at(int64_t time_s, double value)
{
	tell_counters(value);
	write_at(time_s);
}

/* As another agent finds it: nothing was said to be the end. */
static void killed(void)
{
	store_writer_close(&writer);
	store_rollup_free(&rollup);
	rollup = (struct store_rollup){0};
	open_store();
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

static void put(const char *sql)
{
	if (sqlite3_exec(writer.db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(writer.db));
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
	write_counters_at(TIME_S, 4);
	write_counters_at(TIME_S + 1, 1);
	write_at(TIME_S + 2); /* nothing new was told */
	assert_int_equal(ask("SELECT count(*) FROM counters_10s"), 0);
	write_counters_at(TIME_S + 10, 10);
	write_counters_at(TIME_S + 60, 3);
	assert_int_equal(ask("SELECT count(*) FROM counters_10s"), 4);
	assert_int_equal(store_write_end(&writer), SQLITE_OK);
	assert_int_equal(store_write_end(&writer), SQLITE_OK); /* once */
	assert_int_equal(ask("SELECT count(*) FROM counters_1s"), 8);
	assert_int_equal(ask("SELECT count(*) FROM counters_10s"), 6);
	assert_int_equal(ask("SELECT count(*) FROM v_counters"), 4);
	assert_int_equal(ask("SELECT count(*) FROM v_counters WHERE pid = 7 AND script = 'train.py'"
			     " AND entity = 'pid 7' AND unit = 'bytes'"),
			 2);
	assert_true(ask("SELECT n = 3 AND mean = 5 AND min = 1 AND max = 10 FROM v_counters WHERE"
			" name = 'cpu_ratio' AND time = 1700000040"));
	assert_true(ask("SELECT n = 2 AND mean = 2.5 FROM v_counters_10s WHERE name = 'cpu_ratio'"
			" AND time = 1700000040"));
	assert_true(ask("SELECT n = 4 AND min = 1 AND max = 10 FROM v_counters_10m WHERE"
			" name = 'cpu_ratio' AND time = 1700000000 - 1700000000 % 600"));
	assert_true(ask("SELECT n = 1 AND mean = 1 AND max = 1 FROM v_counters_1s WHERE"
			" name = 'cpu_ratio' AND time = 1700000041"));
}

/* What one agent wrote by the second, the next one adds up, once. */
static void what_a_killed_agent_left_is_added_up(void **unused)
{
	(void)unused;
	open_store();
	counter(ENTITY_HOST, 0, "cpu_ratio");
	write_counters_at(TIME_S, 1);
	write_counters_at(TIME_S + 10, 2);
	write_counters_at(TIME_S + 13, 4);
	killed();
	assert_int_equal(ask("SELECT max(time) FROM v_counters_1s"), TIME_S + 13);
	assert_int_equal(ask("SELECT sum(n) FROM counters_60s"), 1);
	write_counters_at(TIME_S + 17, 8);
	write_counters_at(TIME_S + 20, 16);
	assert_true(ask("SELECT n = 3 AND sum = 14 AND max = 8 FROM counters_10s WHERE"
			" time = 1700000050"));
	killed();
	write_counters_at(TIME_S + 200, 0);
	assert_true(ask("SELECT n = 5 AND sum = 31 FROM counters_60s WHERE time = 1700000040"));
}

/* Of seconds that are there twice the latest stays; what they are added up to has all. */
static void a_clock_that_is_set_back(void **unused)
{
	(void)unused;
	open_store();
	counter(ENTITY_HOST, 0, "cpu_ratio");
	write_counters_at(TIME_S, 1);
	write_counters_at(TIME_S + 5, 2);
	write_counters_at(TIME_S + 25, 4);
	write_counters_at(TIME_S + 5, 8);
	write_counters_at(TIME_S + 30, 0);
	assert_int_equal(ask("SELECT count(*) FROM counters_1s"), 3);
	assert_true(ask("SELECT sum = 11 AND n = 3 FROM counters_10s WHERE time = 1700000040"));
	assert_int_equal(store_write_end(&writer), SQLITE_OK);
	killed();
	write_counters_at(TIME_S + 30, 32); /* another one, in the same second */
	assert_int_equal(store_write_end(&writer), SQLITE_OK);
	assert_true(ask("SELECT sum = 47 AND n = 6 FROM counters_60s"));
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
	assert_int_equal(ask("SELECT count(*) FROM v_processes WHERE container_name = 'trainer'"),
			 1);
}

static void calls_have_bytes_where_they_say_so(void **unused)
{
	(void)unused;
	open_store();
	job(7);
	struct live_function *f = function(7, "cuMemcpy");
	f->calls = 1, f->bytes = 1000, f->sized = true;
	function(7, "cuCtxSynchronize")->calls = 1;
	write_at(TIME_S);
	f = &series.functions.data[0];
	f->calls = 2, f->bytes = 5000;
	write_at(TIME_S + 10);
	f->calls = 3;
	write_at(TIME_S + 60);
	assert_true(ask("SELECT bytes = 5000 FROM v_calls WHERE calls = 2"));
	assert_true(ask("SELECT bytes = 0 FROM v_calls WHERE time = 1700000100"));
	assert_true(ask("SELECT bytes IS NULL FROM v_calls WHERE name = 'cuCtxSynchronize'"));
}

static struct live_collective *collective(uint32_t pid, uint64_t hash, int32_t size)
{
	struct live_collective *c = vec_push(&series.collectives.rows);
	*c = (struct live_collective){.number = series.collectives.rows.len,
				      .pid = pid,
				      .hash = hash,
				      .handle = 0x7f10,
				      .rank = size ? 1 : -1,
				      .size = size,
				      .op = COLLECTIVE_ALL_REDUCE};
	return c;
}

static void collectives_are_added_up_by_minutes(void **unused)
{
	(void)unused;
	open_store();
	job(7);
	struct live_collective *c = collective(7, 0xabc, 4);
	c->calls = 2, c->bytes = 2000, c->bus_bytes = 3000, c->ns = 1e9;
	c->compared = 1, c->ahead_ns = 5e8;
	c = collective(7, 0, 0);
	c->calls = 1, c->bytes = 50;
	write_at(TIME_S);
	write_at(TIME_S + 1); /* none */
	c = &series.collectives.rows.data[0];
	c->calls = 5, c->bytes = 5000, c->bus_bytes = 7500, c->ns = 1.5e9;
	write_at(TIME_S + 10);
	c->compared = 5, c->ahead_ns = 2e9; /* the other ranks come a minute later */
	write_at(TIME_S + 60);
	assert_int_equal(ask("SELECT count(*) FROM v_collectives"), 3);
	assert_true(ask("SELECT calls = 5 AND bytes = 5000 AND bus_bytes = 7500 AND seconds = 1.5"
			" AND compared = 1 AND ahead_s = 0.5 AND pid = 7 AND script = 'train.py'"
			" AND rank = 1 AND ranks = 4 AND operation = 'all_reduce' FROM"
			" v_collectives WHERE communicator = '0xabc' AND time = 1700000040"));
	assert_true(ask("SELECT calls = 0 AND compared = 4 AND ahead_s = 1.5 FROM v_collectives"
			" WHERE time = 1700000100"));
	assert_true(ask("SELECT calls = 1 AND bytes = 50 AND rank IS NULL AND ranks IS NULL AND"
			" bus_bytes IS NULL FROM v_collectives WHERE communicator ="
			" 'handle 0x7f10'"));
	killed(); /* another agent counts from its own beginning */
	c->calls = 1, c->bytes = 10, c->bus_bytes = 15, c->ns = 0, c->compared = 0, c->ahead_ns = 0;
	series.collectives.rows.len = 1;
	write_at(TIME_S + 62);
	assert_true(ask("SELECT calls = 1 AND bytes = 10 AND compared = 4 FROM v_collectives WHERE"
			" time = 1700000100"));
}

static void collectives_go_by_their_age(void **unused)
{
	const struct store_limits limits = {.keep_s = 7 * 86400, .bytes = 1 << 30};
	bool names;
	(void)unused;
	open_store();
	job(7);
	collective(7, 0xabc, 4)->calls = 1;
	write_at(TIME_S);
	assert_int_equal(store_retain(writer.db, &limits, TIME_S + 6 * 86400, &names), SQLITE_OK);
	assert_int_equal(ask("SELECT count(*) FROM collectives_60s"), 1);
	assert_int_equal(store_retain(writer.db, &limits, TIME_S + 8 * 86400, &names), SQLITE_OK);
	assert_int_equal(ask("SELECT count(*) FROM collectives_60s"), 0);
}

static void many_collectives_are_others(void **unused)
{
	enum { MORE = 100, ROWS = STORE_COLLECTIVES + MORE };
	uint64_t sum = 0;
	(void)unused;
	open_store();
	job(7);
	for (uint32_t i = 0; i < ROWS; i++) {
		struct live_collective *c = collective(7, 1 + i, 4);
		c->calls = 1;
		c->bytes = 1000 + i;
		sum += c->bytes;
	}
	write_at(TIME_S);
	assert_true(ask("SELECT count(*) FROM v_collectives") <= STORE_COLLECTIVES);
	assert_int_equal(ask("SELECT sum(calls) FROM v_collectives"), ROWS);
	assert_int_equal(ask("SELECT sum(bytes) FROM v_collectives"), sum);
	assert_true(ask("SELECT calls > 100 AND pid IS NULL AND rank IS NULL FROM v_collectives"
			" WHERE communicator = '(other)'"));
	assert_int_equal(ask("SELECT max(bytes) FROM v_collectives WHERE pid = 7"),
			 1000 + ROWS - 1);
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
	struct live_steps_view steps = {.count = 5, .pid = 7, .kind = "training"},
			       other = {.count = 0, .pid = 9, .kind = "inference"};
	const struct live_steps_view *const both[] = {&steps, &other};
	(void)unused;
	open_store();
	job(7);
	job(9);
	for (int i = 0; i < 5; i++)
		live_history_add(&steps.history, 9e9);
	write_steps_at(TIME_S, both, 2); /* these were before */
	live_history_add(&steps.history, 1e9);
	live_history_add(&steps.history, 3e9);
	steps.count = 7;
	live_history_add(&other.history, 2e9);
	other.count = 1;
	write_steps_at(TIME_S + 1, both, 2);
	write_steps_at(TIME_S + 2, both, 2);
	live_history_add(&other.history, 5e9);
	other.count = 2;
	write_steps_at(TIME_S + 3, both, 1); /* that of the other cannot be told */
	write_steps_at(TIME_S + 10, both, 2);
	assert_int_equal(ask("SELECT count(*) FROM steps_1s"), 2);
	assert_true(ask("SELECT steps = 2 AND mean_s = 2 AND max_s = 3 AND kind = 'training' AND"
			" time = 1700000041 FROM v_steps_1s WHERE pid = 7"));
	assert_true(ask("SELECT steps = 1 AND mean_s = 2 AND kind = 'inference' FROM v_steps"
			" WHERE pid = 9"));
	assert_int_equal(ask("SELECT steps FROM v_steps_10s WHERE pid = 7"), 2);
}

/* By the shares that were found last; minutes and tens of them. */
static void phases_are_parts_of_steps(void **unused)
{
	struct live_steps_view steps = {.pid = 7,
					.kind = "training",
					.phase = {{"forward", 0.75F}, {"load", 0.25F}},
					.phase_len = 2};
	const struct live_steps_view *const of[] = {&steps};
	(void)unused;
	open_store();
	job(7);
	write_steps_at(TIME_S, of, 1);
	for (int i = 1; i <= 3; i++) {
		live_history_add(&steps.history, 4e9);
		steps.count++;
		write_steps_at(TIME_S + 40 * i, of, 1);
	}
	assert_int_equal(ask("SELECT count(*) FROM v_phases"), 6);
	assert_true(ask("SELECT seconds = 3 AND pid = 7 FROM v_phases WHERE phase = 'forward' AND"
			" time = 1700000040"));
	assert_int_equal(ask("SELECT sum(seconds) FROM phases_600s WHERE phase = 'load'"), 3);
	assert_int_equal(ask("SELECT sum(seconds) FROM phases_600s"), 12);
}

/* ---- call trees ---- */

/* train -> step (of n seconds) -> matmul (of m), and what no frame has. */
static void tell_tree(uint32_t pid, double rest_s, double step_s, double matmul_s)
{
	const struct store_frame frames[] = {
		{.own_s = rest_s, .name = (char *)""},
		{.parent = 0, .kind = CALLTREE_PYTHON, .name = (char *)"train (t.py:1)"},
		{.parent = 1, .kind = CALLTREE_PYTHON, .name = (char *)"step", .own_s = step_s},
		{.parent = 2, .name = (char *)"matmul", .own_s = matmul_s},
	};
	struct store_tree tree = {.pid = pid, .len = 4};
	tree.frames = xcalloc(tree.len, sizeof(*tree.frames));
	for (uint32_t i = 0; i < tree.len; i++) {
		tree.frames[i] = frames[i];
		tree.frames[i].name = xstrdup(frames[i].name);
	}
	store_rollup_tree(&rollup, tree);
}

static void call_trees_are_added_up(void **unused)
{
	(void)unused;
	open_store();
	job(7);
	job(9);
	tell_tree(7, 0.25, 1, 4);
	tell_tree(8, 1, 1, 1); /* no job */
	write_at(TIME_S);
	tell_tree(7, 0, 2, 8);
	tell_tree(9, 0, 5, 0);
	write_at(TIME_S + 10);
	tell_tree(7, 0, 16, 0);
	write_at(TIME_S + 60);
	assert_int_equal(ask("SELECT count(*) FROM stacks"), 3);
	assert_int_equal(ask("SELECT count(*) FROM cpu_60s"), 5);
	assert_true(
		ask("SELECT seconds = 12 AND frame = 'matmul' FROM v_cpu WHERE pid = 7 AND stack"
		    " = 'train (t.py:1);step;matmul' AND time = 1700000040"));
	assert_true(ask("SELECT sum(seconds) = 15.25 FROM v_cpu WHERE pid = 7 AND time ="
			" 1700000040"));
	assert_true(ask("SELECT seconds = 0.25 FROM v_cpu WHERE stack IS NULL"));
	assert_true(ask("SELECT seconds = 5 FROM v_cpu WHERE pid = 9 AND frame = 'step'"));
	assert_true(ask("SELECT sum(seconds) = 31.25 FROM v_cpu_10m WHERE pid = 7"));
	assert_true(ask("SELECT kind = 1 FROM frames WHERE name = 'step'"));
	assert_int_equal(rollup.left_out, 0);
}

/* Another run knows no numbers yet. */
static void call_trees_go_on_with_another_agent(void **unused)
{
	(void)unused;
	open_store();
	job(7);
	tell_tree(7, 0, 1, 4);
	write_at(TIME_S);
	killed();
	tell_tree(7, 0, 1, 4);
	write_at(TIME_S + 20);
	assert_int_equal(ask("SELECT count(*) FROM frames"), 3);
	assert_int_equal(ask("SELECT count(*) FROM stacks"), 3);
	assert_true(ask("SELECT seconds = 8 FROM v_cpu WHERE frame = 'matmul'"));
}

static void call_trees_have_bounds(void **unused)
{
	(void)unused;
	open_store();
	job(7);
	for (int i = 0; i < STORE_FRAMES / 4 + 2; i++)
		tell_tree(7, 0, 1, 0);
	assert_int_equal(rollup.left_out, 2);
	assert_int_equal(rollup.now.frames, STORE_FRAMES);
	write_at(TIME_S);
	assert_true(ask("SELECT seconds = 4096 AND frame = 'step' FROM v_cpu"));
}

/* A file that is full of stacks: those that it has are found, also by another agent, and what is
 * new is its caller's; nothing of it stays. */
static void a_file_has_so_many_stacks(void **unused)
{
	(void)unused;
	open_store();
	job(7);
	tell_tree(7, 0, 1, 0); /* without matmul, whose frame is there all the same */
	write_at(TIME_S);
	assert_int_equal(ask("SELECT count(*) FROM stacks"), 3);
	put("DELETE FROM stacks WHERE id = 3; DELETE FROM frames WHERE name = 'matmul'");
	killed();
	tell_tree(7, 0, 0, 0);
	write_at(TIME_S + 1); /* numbers are forgotten at the first batch */
	put("DELETE FROM stacks WHERE id = 3; DELETE FROM frames WHERE name = 'matmul'");
	store_writer_forget(&writer);
	writer.stacks = STORE_STACKS_MOST;
	tell_tree(7, 0, 2, 4);
	write_at(TIME_S + 2);
	assert_int_equal(ask("SELECT count(*) FROM stacks"), 2);
	assert_int_equal(ask("SELECT count(*) FROM frames"), 2);
	assert_int_equal(ask("SELECT sum(seconds) FROM v_cpu WHERE frame = 'step'"), 7);
	assert_int_equal(ask("SELECT max(seen) FROM stacks"), TIME_S + 2);
}

/* Minutes after a day, the rest and names with all else. */
static void call_trees_go_by_their_age(void **unused)
{
	const struct store_limits limits = {.keep_s = 7 * 86400, .bytes = 1 << 30};
	bool names;
	(void)unused;
	open_store();
	job(7);
	tell_tree(7, 0, 1, 4);
	write_at(TIME_S);
	store_retain(writer.db, &limits, TIME_S + 86000, &names);
	assert_int_equal(ask("SELECT count(*) FROM cpu_60s"), 2);
	store_retain(writer.db, &limits, TIME_S + 87000, &names);
	assert_int_equal(ask("SELECT count(*) FROM cpu_60s"), 0);
	assert_int_equal(ask("SELECT count(*) FROM cpu_600s"), 2);
	store_retain(writer.db, &limits, (TIME_S + 9 * 86400) / 600 * 600, &names);
	assert_int_equal(ask("SELECT count(*) FROM cpu_600s"), 0);
	assert_int_equal(ask("SELECT count(*) FROM stacks"), 0);
	assert_int_equal(ask("SELECT count(*) FROM frames"), 0);
	assert_true(names);
}

/* ---- processes ---- */

/* A process's row is written when it changes. */
static void processes_are_told_when_they_change(void **unused)
{
	(void)unused;
	open_store();
	struct live_process *p = job(7);
	const struct store_seen there = seen(NULL, 0);
	static const struct {
		uint64_t at_s;
		uint64_t end_ns;
		size_t told;
	} steps[] = {{50, 0, 1}, {51, 0, 0}, {52, 52 * S, 1}, {53, 52 * S, 0}, {111, 52 * S, 1}};
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		p->end_ns = steps[i].end_ns;
		struct store_batch b =
			store_rollup_take(&rollup, &there, steps[i].at_s * S, OFFSET_NS);
		assert_int_equal(b.processes.len, steps[i].told);
		store_batch_free(&b);
	}
}

static void an_incident_is_one_row_the_latest(void **unused)
{
	char text[] = "straggler", why[] = "waited", whose[] = "its own Python";
	char late[] = "slow_code", group[] = "/batch", phase[] = "backward";
	char function[] = "loss", file[] = "train.py";
	struct incident_texts texts = {.of = {text, why, whose, late, group, phase, function, file},
				       .len = 8};
	struct m_incident row = {.id = 3,
				 .onset_ns = 10 * S,
				 .end_ns = 12 * S,
				 .told_ns = 11 * S,
				 .pid = 7,
				 .beside = true,
				 .cause = 1,
				 .culprit_rank = 1,
				 .why = 4,
				 .confidence = 0.5,
				 .cost_ns = 2e9,
				 .evidence = {2},
				 .owners = {3, 2},
				 .owner_ns = {15e8, 5e8},
				 .culprit_cgroup = 5,
				 .victim_phase = 6,
				 .victim_function = 7,
				 .victim_file = 8,
				 .victim_line = 12};
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
	assert_true(ask("SELECT cause = 'straggler' AND confidence = 0.75 AND ended AND"
			" culprit_rank = 0 AND why = 'slow_code' AND"
			" lasted_s = 2 AND cost_s = 2 AND evidence = 'waited' AND beside = 1 FROM"
			" v_incidents"));
	assert_true(ask("SELECT culprit_cgroup = '/batch' AND victim_phase = 'backward' AND"
			" victim_function = 'loss' AND victim_file = 'train.py' AND"
			" victim_line = 12 FROM v_incidents"));
	assert_true(
		ask("SELECT blame = '1500000000 its own Python' || char(10) || '500000000 waited'"
		    " FROM v_incidents"));
	assert_int_equal(ask("SELECT count(*) FROM v_events WHERE name = 'xid' AND text = '79'"),
			 1);
}

/* ---- what goes ---- */

static void fill(int64_t from_s, int minutes)
{
	for (int i = 0; i < 6 * minutes; i++)
		write_counters_at(from_s + 10 * i, i);
	assert_int_equal(store_write_end(&writer), SQLITE_OK);
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
	assert_int_equal(store_retain(writer.db, &limits, TIME_S + 3700, &names), SQLITE_OK);
	assert_int_equal(ask("SELECT count(*) FROM counters_1s"), 174); /* a slice at a time */
	store_retain(writer.db, &limits, TIME_S + 3700, &names);
	assert_int_equal(ask("SELECT count(*) FROM counters_1s"), 170);
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
	for (int i = 0; i < 150; i++)
		assert_int_equal(store_retain(writer.db, &limits, at_s, &names), SQLITE_OK);
	assert_true((ask("PRAGMA page_count") - ask("PRAGMA freelist_count")) * 4096 <= 256 << 10);
	assert_true(ask("PRAGMA freelist_count") <= 256);
	assert_true(ask("SELECT count(*) FROM counters_60s") > 0);
}

/* ---- versions ---- */

/* One of the first version: its rows stay, and go on. */
static void an_older_one_is_brought_up_to_date(void **unused)
{
	struct err e = {0};
	(void)unused;
	writer.db = open_plain();
	assert_int_equal(store_schema_bring(writer.db, store_schema_steps, 1, path, &e), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(writer.db,
			     "INSERT INTO series(id, kind, entity, name, process) VALUES"
			     " (5, 3, 'host', 'cpu_ratio', 0);"
			     "INSERT INTO counters_10s VALUES(1700000040, 5, 10, 30, 1, 5);"
			     "INSERT INTO counters_60s VALUES(1700000040, 5, 10, 30, 1, 5);"
			     "INSERT INTO counters_60s VALUES(1699999980, 5, 10, 10, 1, 6);"
			     "INSERT INTO steps_60s VALUES(1700000040, 1, 'x', 2, 3, 1, 2)",
			     NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(writer.db);
	open_store();
	assert_int_equal(ask("PRAGMA user_version"), store_schema_version);
	counter(ENTITY_HOST, 0, "cpu_ratio");
	write_counters_at(TIME_S + 12, 40);
	assert_int_equal(store_write_end(&writer), SQLITE_OK);
	assert_true(ask("SELECT n = 11 AND max = 40 AND sum(mean * n) = 70 FROM v_counters WHERE"
			" time = 1700000040"));
	assert_true(ask("SELECT n = 21 AND max = 40 AND sum = 80 FROM counters_600s"));
	assert_true(ask("SELECT n = 2 AND sum = 3 FROM steps_600s"));
	assert_int_equal(ask("SELECT count(*) FROM v_counters_1s"), 1);
}

/* One without collectives gets them. */
static void one_without_collectives_goes_on(void **unused)
{
	struct err e = {0};
	(void)unused;
	writer.db = open_plain();
	assert_int_equal(store_schema_bring(writer.db, store_schema_steps, 5, path, &e), SQLITE_OK);
	put("INSERT INTO processes(id, pid, start_ns) VALUES(1, 7, 1700000005000000000);"
	    "INSERT INTO phases_60s VALUES(1700000040, 1, 'load', 2.5)");
	assert_int_equal(ask("SELECT count(*) FROM sqlite_schema WHERE name LIKE '%collectives%'"),
			 0);
	sqlite3_close(writer.db);
	open_store();
	assert_int_equal(ask("PRAGMA user_version"), store_schema_version);
	job(7);
	collective(7, 0xabc, 4)->calls = 3;
	write_at(TIME_S + 1);
	assert_true(ask("SELECT seconds = 2.5 FROM v_phases"));
	assert_true(ask("SELECT calls = 3 AND pid = 7 FROM v_collectives"));
}

/* Incidents of before were told without saying which rank was late, and why. */
static void one_of_the_version_before_goes_on(void **unused)
{
	struct err e = {0};
	(void)unused;
	writer.db = open_plain();
	assert_int_equal(store_schema_bring(writer.db, store_schema_steps, store_schema_version - 1,
					    path, &e),
			 SQLITE_OK);
	put("INSERT INTO incidents(run, id, pid, key_ns, cause, cost_ns, beside) VALUES(1, 1, 7, 5,"
	    " 'straggler', 3e9, 1)");
	sqlite3_close(writer.db);
	open_store();
	assert_true(ask("SELECT cause = 'straggler' AND cost_s = 3 AND beside = 1 AND"
			" culprit_rank IS NULL AND why IS NULL FROM v_incidents"));
}

/* Incidents of before were told without saying whether they came beside another. */
static void one_without_beside_goes_on(void **unused)
{
	struct err e = {0};
	(void)unused;
	writer.db = open_plain();
	assert_int_equal(store_schema_bring(writer.db, store_schema_steps, 4, path, &e), SQLITE_OK);
	put("INSERT INTO incidents(run, id, pid, key_ns, cause, cost_ns) VALUES(1, 1, 7, 5,"
	    " 'cpu_contention', 3e9)");
	sqlite3_close(writer.db);
	open_store();
	assert_true(ask("SELECT cause = 'cpu_contention' AND cost_s = 3 AND beside = 0 AND"
			" culprit_rank IS NULL AND why IS NULL FROM v_incidents"));
}

/* Calls of before have no bytes; those of now are added to them. */
static void one_without_bytes_goes_on(void **unused)
{
	struct err e = {0};
	(void)unused;
	writer.db = open_plain();
	assert_int_equal(store_schema_bring(writer.db, store_schema_steps, 3, path, &e), SQLITE_OK);
	put("INSERT INTO functions VALUES(1, 'cuda', 'cuMemcpy', 0), (2, 'cuda', 'cuInit', 0);"
	    "INSERT INTO processes(id, pid, start_ns) VALUES(1, 7, 1700000005000000000);"
	    "INSERT INTO calls_60s VALUES(1700000040, 1, 1, 10, 0, 1.5), (1700000040, 1, 2, 1, 0,"
	    " 1)");
	sqlite3_close(writer.db);
	open_store();
	assert_int_equal(ask("SELECT count(*) FROM v_calls WHERE bytes IS NULL"), 2);
	job(7);
	struct live_function *f = function(7, "cuMemcpy");
	f->calls = 1, f->bytes = 1000, f->sized = true;
	function(7, "cuInit")->calls = 1;
	write_at(TIME_S + 1);
	assert_true(ask("SELECT calls = 11 AND bytes = 1000 FROM v_calls WHERE name = 'cuMemcpy'"));
	assert_true(ask("SELECT calls = 2 AND bytes IS NULL FROM v_calls WHERE name = 'cuInit'"));
	f = &series.functions.data[0];
	f->calls = 2, f->sized = false; /* one that does not say so any more takes nothing away */
	write_at(TIME_S + 2);
	assert_true(ask("SELECT calls = 12 AND bytes = 1000 FROM v_calls WHERE name = 'cuMemcpy'"));
}

static void a_step_is_all_or_nothing(void **unused)
{
	const char *const steps[] = {store_schema_steps[0],
				     "ALTER TABLE events ADD COLUMN more TEXT"};
	const char *const wrong[] = {steps[0], steps[1], "CREATE TABLE x(a); no SQL"};
	struct err e = {0};
	(void)unused;
	writer.db = open_plain();
	assert_int_equal(store_schema_bring(writer.db, steps, 1, path, &e), SQLITE_OK);
	assert_int_equal(store_schema_bring(writer.db, steps, 2, path, &e), SQLITE_OK);
	assert_int_equal(ask("SELECT count(more) FROM events"), 0);
	assert_int_equal(ask("PRAGMA user_version"), 2);
	assert_int_not_equal(store_schema_bring(writer.db, wrong, 3, path, &e), SQLITE_OK);
	assert_int_equal(ask("PRAGMA user_version"), 2);
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
	const struct store_seen there = seen(NULL, 0);
	store_tick(s, &there, monotonic_ns()); /* of a day ago it would go at once */
	store_event(s, 0, "gpu 0", "xid", "79");
	store_close(s, &there);
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
	const struct store_seen there = seen(NULL, 0);
	const uint64_t at_ns = monotonic_ns();
	store_tick(s, &there, at_ns);
	wait_for_saying(1, "cannot be written: database is locked");
	f->calls = 5;
	assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	store_tick(s, &there, at_ns + S);
	wait_for_saying(2, "written again");
	store_close(s, &there);
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
		TEST(calls_have_bytes_where_they_say_so),
		TEST(many_functions_are_others),
		TEST(what_a_killed_agent_left_is_added_up),
		TEST(a_clock_that_is_set_back),
		TEST(steps_are_counted_from_the_first_look),
		TEST(phases_are_parts_of_steps),
		TEST(call_trees_are_added_up),
		TEST(call_trees_go_on_with_another_agent),
		TEST(call_trees_have_bounds),
		TEST(a_file_has_so_many_stacks),
		TEST(call_trees_go_by_their_age),
		TEST(processes_are_told_when_they_change),
		TEST(an_incident_is_one_row_the_latest),
		TEST(rows_go_by_their_age),
		TEST(rows_go_where_there_are_too_many_bytes),
		TEST(an_older_one_is_brought_up_to_date),
		TEST(one_of_the_version_before_goes_on),
		TEST(one_without_collectives_goes_on),
		TEST(one_without_beside_goes_on),
		TEST(collectives_are_added_up_by_minutes),
		TEST(collectives_go_by_their_age),
		TEST(many_collectives_are_others),
		TEST(one_without_bytes_goes_on),
		TEST(a_step_is_all_or_nothing),
		TEST(a_newer_one_is_refused),
		TEST(what_is_no_store_is_refused),
		TEST(what_is_there_at_the_end_is_written),
		TEST(a_busy_one_is_tried_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

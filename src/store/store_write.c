/* store_write.c - puts rows into tables by prepared statements. */
#include "store/store_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyze/collectives.h"
#include "events/metric.h"

#ifndef EACGM_VERSION
#define EACGM_VERSION "unknown"
#endif

#define SAME_PROCESS_NS 2000000000LL /* two reckonings of a start may differ so much */

#define ADD_SUMS                                                                                   \
	" DO UPDATE SET n = n + excluded.n, sum = sum + excluded.sum, min = min(min,"              \
	" excluded.min), max = max(max, excluded.max)"
/* ?1, ?2: behind and up to what second. */
#define ROLL_COUNTERS(s)                                                                           \
	"INSERT INTO counters_" s "s SELECT time - time % " s ", series, count(*), sum(value),"    \
	" min(value), max(value) FROM counters_1s WHERE time > ?1 AND time <= ?2 GROUP BY 1, 2"    \
	" ON CONFLICT(time, series)" ADD_SUMS
#define ROLL_STEPS(s)                                                                              \
	"INSERT INTO steps_" s "s SELECT time - time % " s ", process, kind, sum(n), sum(sum),"    \
	" min(min), max(max) FROM steps_1s WHERE time > ?1 AND time <= ?2 GROUP BY 1, 2, 3"        \
	" ON CONFLICT(time, process, kind)" ADD_SUMS
#define PUT_PHASE(s)                                                                               \
	"INSERT INTO phases_" s "s VALUES(?1 - ?1 % " s ", ?2, ?3, ?4)"                            \
	" ON CONFLICT(time, process, phase) DO UPDATE SET seconds = seconds + excluded.seconds"
#define PUT_CPU(s)                                                                                 \
	"INSERT INTO cpu_" s "s VALUES(?1 - ?1 % " s ", ?2, ?3, ?4)"                               \
	" ON CONFLICT(time, process, stack) DO UPDATE SET seconds = seconds + excluded.seconds"
static const char *const texts[STORE_STATEMENTS] = {
	[FIND_PROCESS] = "SELECT id FROM processes WHERE pid = ?1 AND start_ns BETWEEN ?2 - ?3 AND"
			 " ?2 + ?3",
	[ADD_PROCESS] = "INSERT INTO processes(pid, start_ns) VALUES(?1, ?2) RETURNING id",
	[PUT_PROCESS] =
		"UPDATE processes SET end_ns = ?2, seen = ?3, parent_pid = ?4, comm = ?5,"
		" script = ?6, rank = ?7, local_rank = ?8, world_size = ?9, job = ?10,"
		" launcher = ?11, pod = ?12, namespace = ?13, pod_uid = ?14, container = ?15,"
		" container_name = ?16 WHERE id = ?1",
	[ADD_SERIES] = "INSERT INTO series(process, kind, gpu, entity, name, unit, seen)"
		       " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(entity, name, process)"
		       " DO UPDATE SET seen = excluded.seen RETURNING id",
	[FIND_FUNCTION] =
		"UPDATE functions SET seen = ?3 WHERE layer = ?1 AND name = ?2 RETURNING id",
	[ADD_FUNCTION] = "INSERT INTO functions(layer, name, seen) VALUES(?1, ?2, ?3) RETURNING id",
	[FIND_FRAME] = "UPDATE frames SET seen = ?3 WHERE kind = ?1 AND name = ?2 RETURNING id",
	[ADD_FRAME] = "INSERT INTO frames(kind, name, seen) VALUES(?1, ?2, ?3) RETURNING id",
	[FIND_STACK] = "UPDATE stacks SET seen = ?3 WHERE parent = ?1 AND frame = ?2 RETURNING id",
	[ADD_STACK] = "INSERT INTO stacks(parent, frame, seen) VALUES(?1, ?2, ?3) RETURNING id",
	[PUT_COUNTER] = "INSERT INTO counters_1s VALUES(?1, ?2, ?3)"
			" ON CONFLICT(time, series) DO UPDATE SET value = excluded.value",
	[PUT_STEPS] = "INSERT INTO steps_1s VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"
		      " ON CONFLICT(time, process, kind)" ADD_SUMS,
	[PUT_PHASE_60S] = PUT_PHASE("60"),
	[PUT_PHASE_600S] = PUT_PHASE("600"),
	[PUT_CALLS] = "INSERT INTO calls_60s VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"
		      " ON CONFLICT(time, process, function) DO UPDATE SET calls = calls +"
		      " excluded.calls, errors = errors + excluded.errors, seconds = seconds +"
		      " excluded.seconds, bytes = CASE WHEN excluded.bytes IS NULL THEN"
		      " bytes ELSE coalesce(bytes, 0) + excluded.bytes END",
	[PUT_COLLECTIVES] =
		"INSERT INTO collectives_60s VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
		" ?11, ?12) ON CONFLICT(time, process, communicator, rank, ranks, operation)"
		" DO UPDATE SET calls = calls + excluded.calls, bytes = bytes + excluded.bytes,"
		" bus_bytes = bus_bytes + excluded.bus_bytes, seconds = seconds + excluded.seconds,"
		" compared = compared + excluded.compared, ahead = ahead + excluded.ahead",
	[PUT_CPU_60S] = PUT_CPU("60"),
	[PUT_CPU_600S] = PUT_CPU("600"),
	[PUT_EVENT] = "INSERT INTO events(time_ns, entity, name, text) VALUES(?1, ?2, ?3, ?4)",
	[PUT_INCIDENT] =
		"INSERT OR REPLACE INTO incidents VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
		" ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,"
		" ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)",
	[GET_ROLLED] = "SELECT until FROM rolled",
	[SET_ROLLED] = "UPDATE rolled SET until = ?1",
	[ROLL_COUNTERS_10S] = ROLL_COUNTERS("10"),
	[ROLL_COUNTERS_60S] = ROLL_COUNTERS("60"),
	[ROLL_COUNTERS_600S] = ROLL_COUNTERS("600"),
	[ROLL_STEPS_10S] = ROLL_STEPS("10"),
	[ROLL_STEPS_60S] = ROLL_STEPS("60"),
	[ROLL_STEPS_600S] = ROLL_STEPS("600"),
	[CUT_COUNTERS] = "DELETE FROM counters_1s WHERE time >= ?1",
	[CUT_STEPS] = "DELETE FROM steps_1s WHERE time >= ?1",
};

/* ---- statements ---- */

static int begin(struct store_writer *w, enum store_statement which, sqlite3_stmt **ret)
{
	int rc = SQLITE_OK;
	if (!w->statements[which])
		rc = sqlite3_prepare_v3(w->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT,
					&w->statements[which], NULL);
	*ret = w->statements[which];
	return rc;
}

static void put_text(sqlite3_stmt *s, int at, const char *text)
{
	if (text && text[0])
		sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
	else
		sqlite3_bind_null(s, at);
}

/* A number that is not there is below 0. */
static void put_known(sqlite3_stmt *s, int at, int64_t v)
{
	if (v >= 0)
		sqlite3_bind_int64(s, at, v);
	else
		sqlite3_bind_null(s, at);
}

static int end(sqlite3_stmt *s)
{
	int rc = sqlite3_step(s);
	sqlite3_reset(s);
	sqlite3_clear_bindings(s);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* The same, of one that returns a number; *ret stays where there is no row. */
static int end_with(sqlite3_stmt *s, sqlite3_int64 *ret)
{
	int rc;
	while ((rc = sqlite3_step(s)) == SQLITE_ROW)
		*ret = sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	sqlite3_clear_bindings(s);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- processes ---- */

static uint64_t owner_key(const struct store_owner *o)
{
	return hash_u64(hash_u64(o->pid) ^ o->met_ns);
}

/* Of /proc/PID/stat (proc(5)): ticks since the host's start; behind the name, which may hold
 * anything. 0: it is gone. */
static int64_t ticks_at_start(uint32_t pid)
{
	char path[32], text[1024];
	unsigned long long ret = 0;
	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
	char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		ret = strtoull(at, NULL, 10);
	return (int64_t)ret;
}

static int64_t ns_of(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* A session knows since when it looks at a process; the same process is found again by another run
 * of the agent by when it began. What began later is another one of its number. */
static int64_t start_of(const struct store_owner *o)
{
	int64_t ticks = ticks_at_start(o->pid);
	int64_t ret = ns_of(CLOCK_REALTIME) - ns_of(CLOCK_BOOTTIME) +
		      ticks * (1000000000LL / sysconf(_SC_CLK_TCK));
	return ticks && ret < o->start_ns + SAME_PROCESS_NS ? ret : o->start_ns;
}

/* *ret: 0 of nobody. */
static int process_of(struct store_writer *w, const struct store_owner *o, sqlite3_int64 *ret)
{
	uint64_t at = 0;
	sqlite3_stmt *s;
	*ret = 0;
	if (!o->pid)
		return SQLITE_OK;
	if (map64_get(&w->process_of, owner_key(o), &at)) {
		*ret = (sqlite3_int64)at;
		return SQLITE_OK;
	}
	int64_t start_ns = start_of(o);
	int rc = begin(w, FIND_PROCESS, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, o->pid);
	sqlite3_bind_int64(s, 2, start_ns);
	sqlite3_bind_int64(s, 3, SAME_PROCESS_NS);
	rc = end_with(s, ret);
	if (rc == SQLITE_OK && !*ret && (rc = begin(w, ADD_PROCESS, &s)) == SQLITE_OK) {
		sqlite3_bind_int64(s, 1, o->pid);
		sqlite3_bind_int64(s, 2, start_ns);
		rc = end_with(s, ret);
	}
	if (rc == SQLITE_OK)
		map64_set(&w->process_of, owner_key(o), (uint64_t)*ret);
	return rc;
}

static int put_process(struct store_writer *w, const struct store_batch *b,
		       const struct store_process *p)
{
	const struct proc_labels *l = &p->of.labels;
	sqlite3_int64 id;
	sqlite3_stmt *s = NULL;
	int rc = process_of(w, &p->owner, &id);
	if (rc == SQLITE_OK)
		rc = begin(w, PUT_PROCESS, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, id);
	sqlite3_bind_int64(s, 2, p->end_ns);
	sqlite3_bind_int64(s, 3, b->time_s);
	sqlite3_bind_int64(s, 4, p->of.parent);
	put_text(s, 5, p->of.comm);
	put_text(s, 6, p->of.script);
	put_known(s, 7, p->of.rank >= 0 ? p->of.rank : l->rank);
	put_known(s, 8, l->local_rank);
	put_known(s, 9, l->world_size);
	const char *const labels[] = {l->job,	  l->launcher,	l->pod,		  l->pod_namespace,
				      l->pod_uid, l->container, l->container_name};
	for (int i = 0; i < 7; i++)
		put_text(s, 10 + i, labels[i]);
	return end(s);
}

/* ---- counters and steps ---- */

static int series_of(struct store_writer *w, const struct store_batch *b,
		     const struct store_counter *c, sqlite3_int64 *ret)
{
	uint64_t at, key = hash_u64(c->key ^ owner_key(&c->owner));
	sqlite3_int64 process = 0;
	sqlite3_stmt *s;
	if (map64_get(&w->series_of, key, &at)) {
		*ret = (sqlite3_int64)at;
		return SQLITE_OK;
	}
	int rc = process_of(w, &c->owner, &process);
	if (rc == SQLITE_OK)
		rc = begin(w, ADD_SERIES, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, process);
	sqlite3_bind_int64(s, 2, c->kind);
	sqlite3_bind_int64(s, 3, c->gpu);
	sqlite3_bind_text(s, 4, c->entity, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 5, c->name, -1, SQLITE_STATIC);
	put_text(s, 6, metric_unit_text(c->unit));
	sqlite3_bind_int64(s, 7, b->time_s);
	rc = end_with(s, ret);
	if (rc == SQLITE_OK)
		map64_set(&w->series_of, key, (uint64_t)*ret);
	return rc;
}

static int64_t minute_of(int64_t time_s)
{
	return time_s - time_s % 60;
}

static int put_counter(struct store_writer *w, const struct store_batch *b,
		       const struct store_counter *c)
{
	sqlite3_int64 series = 0;
	sqlite3_stmt *s = NULL;
	int rc = series_of(w, b, c, &series);
	if (rc == SQLITE_OK)
		rc = begin(w, PUT_COUNTER, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, b->time_s);
	sqlite3_bind_int64(s, 2, series);
	sqlite3_bind_double(s, 3, c->value);
	return end(s);
}

static int put_phase(struct store_writer *w, const struct store_batch *b, enum store_statement into,
		     sqlite3_int64 process, const struct store_phase *phase)
{
	sqlite3_stmt *s = NULL;
	int rc = begin(w, into, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, b->time_s);
	sqlite3_bind_int64(s, 2, process);
	sqlite3_bind_text(s, 3, phase->name, -1, SQLITE_STATIC);
	sqlite3_bind_double(s, 4, phase->seconds);
	return end(s);
}

/* At once into minutes and tens of them: they are few. */
static int put_phases(struct store_writer *w, const struct store_batch *b, sqlite3_int64 process,
		      const struct store_steps *steps)
{
	int rc = SQLITE_OK;
	for (uint32_t i = 0; i < steps->phases_len && rc == SQLITE_OK; i++) {
		rc = put_phase(w, b, PUT_PHASE_60S, process, &steps->phases[i]);
		if (rc == SQLITE_OK)
			rc = put_phase(w, b, PUT_PHASE_600S, process, &steps->phases[i]);
	}
	return rc;
}

static int put_steps(struct store_writer *w, const struct store_batch *b,
		     const struct store_steps *steps)
{
	const struct store_sums *sums = &steps->seconds;
	sqlite3_int64 process;
	sqlite3_stmt *s = NULL;
	int rc = process_of(w, &steps->owner, &process);
	if (rc == SQLITE_OK)
		rc = begin(w, PUT_STEPS, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, b->time_s);
	sqlite3_bind_int64(s, 2, process);
	sqlite3_bind_text(s, 3, steps->kind, -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 4, (sqlite3_int64)sums->n);
	sqlite3_bind_double(s, 5, sums->sum);
	sqlite3_bind_double(s, 6, sums->min);
	sqlite3_bind_double(s, 7, sums->max);
	rc = end(s);
	return rc == SQLITE_OK ? put_phases(w, b, process, steps) : rc;
}

/* ---- seconds that become tens of them and minutes ---- */

/* With one or two numbers. */
static int run(struct store_writer *w, enum store_statement which, int64_t first, int64_t more)
{
	sqlite3_stmt *s;
	int rc = begin(w, which, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, first);
	if (sqlite3_bind_parameter_count(s) > 1)
		sqlite3_bind_int64(s, 2, more);
	return end(s);
}

static int get_rolled(struct store_writer *w, sqlite3_int64 *ret)
{
	sqlite3_stmt *s;
	int rc = begin(w, GET_ROLLED, &s);
	*ret = 0;
	return rc == SQLITE_OK ? end_with(s, ret) : rc;
}

/* Up to a second. */
static int roll(struct store_writer *w, int64_t upto_s)
{
	static const enum store_statement all[] = {ROLL_COUNTERS_10S,  ROLL_COUNTERS_60S,
						   ROLL_COUNTERS_600S, ROLL_STEPS_10S,
						   ROLL_STEPS_60S,     ROLL_STEPS_600S};
	sqlite3_int64 until_s;
	int rc = get_rolled(w, &until_s);
	if (rc != SQLITE_OK || upto_s <= until_s)
		return rc;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && rc == SQLITE_OK; i++)
		rc = run(w, all[i], until_s, upto_s);
	return rc == SQLITE_OK ? run(w, SET_ROLLED, upto_s, 0) : rc;
}

/* The clock was set back, or another agent ended in this second: rows of a second begin anew here,
 * and the others have both. */
static int begin_anew(struct store_writer *w, int64_t time_s)
{
	sqlite3_int64 until_s;
	int rc = get_rolled(w, &until_s);
	if (rc != SQLITE_OK || time_s > until_s)
		return rc;
	rc = roll(w, INT64_MAX);
	if (rc == SQLITE_OK)
		rc = run(w, CUT_COUNTERS, time_s, 0);
	if (rc == SQLITE_OK)
		rc = run(w, CUT_STEPS, time_s, 0);
	return rc == SQLITE_OK ? run(w, SET_ROLLED, time_s - 1, 0) : rc;
}

/* Of a batch: the tens of seconds that have passed, where one has. */
static int roll_passed(struct store_writer *w, int64_t time_s)
{
	return time_s / 10 != w->time_s / 10 ? roll(w, time_s - time_s % 10 - 1) : SQLITE_OK;
}

/* ---- calls ---- */

/* The rows of a table, where they are not counted yet. */
static int count_rows(struct store_writer *w, const char *sql, sqlite3_int64 *ret)
{
	sqlite3_stmt *s = NULL;
	if (*ret)
		return SQLITE_OK;
	int rc = sqlite3_prepare_v2(w->db, sql, -1, &s, NULL);
	if (rc == SQLITE_OK)
		rc = end_with(s, ret);
	sqlite3_finalize(s);
	return rc;
}

/* Of a row of names: texts and numbers bound in the order of its statements. *ret stays 0 where it
 * is not there. */
static int function_row(struct store_writer *w, enum store_statement which,
			const struct store_batch *b, const char *layer, const char *name,
			sqlite3_int64 *ret)
{
	sqlite3_stmt *s;
	int rc = begin(w, which, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_text(s, 1, layer, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 2, name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 3, b->time_s);
	return end_with(s, ret);
}

/* Found, or made where the file has room for it; *ret 0: it has not. */
static int find_or_add_function(struct store_writer *w, const struct store_batch *b,
				const char *layer, const char *name, sqlite3_int64 most,
				sqlite3_int64 *ret)
{
	*ret = 0;
	int rc = function_row(w, FIND_FUNCTION, b, layer, name, ret);
	if (rc == SQLITE_OK && !*ret)
		rc = count_rows(w, "SELECT count(*) FROM functions", &w->functions);
	if (rc != SQLITE_OK || *ret || w->functions >= most)
		return rc;
	w->functions++;
	return function_row(w, ADD_FUNCTION, b, layer, name, ret);
}

static int function_of(struct store_writer *w, const struct store_batch *b,
		       const struct store_calls *c, sqlite3_int64 *ret)
{
	uint64_t at, key = hash_u64(hash_bytes(c->layer, strlen(c->layer)) ^
				    hash_u64(hash_bytes(c->name, strlen(c->name))));
	if (map64_get(&w->function_of, key, &at)) {
		*ret = (sqlite3_int64)at;
		return SQLITE_OK;
	}
	int rc = find_or_add_function(w, b, c->layer, c->name, STORE_NAMES_MOST, ret);
	if (rc == SQLITE_OK && !*ret)
		rc = find_or_add_function(w, b, c->layer, STORE_OTHER, INT64_MAX, ret);
	if (rc == SQLITE_OK)
		map64_set(&w->function_of, key, (uint64_t)*ret);
	return rc;
}

static int put_calls(struct store_writer *w, const struct store_batch *b,
		     const struct store_calls *c)
{
	sqlite3_int64 process, function = 0;
	sqlite3_stmt *s = NULL;
	int rc = process_of(w, &c->owner, &process);
	if (rc == SQLITE_OK)
		rc = function_of(w, b, c, &function);
	if (rc == SQLITE_OK)
		rc = begin(w, PUT_CALLS, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, minute_of(b->time_s));
	sqlite3_bind_int64(s, 2, process);
	sqlite3_bind_int64(s, 3, function);
	sqlite3_bind_int64(s, 4, (sqlite3_int64)c->calls);
	sqlite3_bind_int64(s, 5, (sqlite3_int64)c->errors);
	sqlite3_bind_double(s, 6, c->ns * 1e-9);
	put_known(s, 7, c->bytes);
	return end(s);
}

static int put_collective(struct store_writer *w, const struct store_batch *b,
			  const struct store_collective *c)
{
	char name[COLLECTIVES_NAME_BYTES];
	sqlite3_int64 process;
	sqlite3_stmt *s = NULL;
	int rc = process_of(w, &c->owner, &process);
	if (rc == SQLITE_OK)
		rc = begin(w, PUT_COLLECTIVES, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, minute_of(b->time_s));
	sqlite3_bind_int64(s, 2, process);
	sqlite3_bind_text(s, 3, live_collective_name(name, &c->of), -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 4, c->of.rank);
	sqlite3_bind_int64(s, 5, c->of.size);
	sqlite3_bind_text(s, 6, collective_op_name((enum collective_op)c->of.op), -1,
			  SQLITE_STATIC);
	sqlite3_bind_int64(s, 7, (sqlite3_int64)c->of.calls);
	sqlite3_bind_int64(s, 8, (sqlite3_int64)c->of.bytes);
	if (c->of.size || c->of.other)
		sqlite3_bind_double(s, 9, c->of.bus_bytes);
	sqlite3_bind_double(s, 10, c->of.ns * 1e-9);
	sqlite3_bind_int64(s, 11, (sqlite3_int64)c->of.compared);
	sqlite3_bind_double(s, 12, c->of.ahead_ns * 1e-9);
	return end(s);
}

/* ---- call trees ---- */

static int frame_row(struct store_writer *w, enum store_statement which,
		     const struct store_batch *b, const struct store_frame *f, sqlite3_int64 *ret)
{
	sqlite3_stmt *s;
	int rc = begin(w, which, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, f->kind);
	sqlite3_bind_text(s, 2, f->name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 3, b->time_s);
	return end_with(s, ret);
}

/* *ret 0: it is not there, and the file has no room for it. */
static int frame_of(struct store_writer *w, const struct store_batch *b,
		    const struct store_frame *f, sqlite3_int64 *ret)
{
	uint64_t at, key = hash_u64(hash_bytes(f->name, strlen(f->name)) ^ f->kind);
	*ret = 0;
	if (map64_get(&w->frame_of, key, &at)) {
		*ret = (sqlite3_int64)at;
		return SQLITE_OK;
	}
	int rc = frame_row(w, FIND_FRAME, b, f, ret);
	if (rc == SQLITE_OK && !*ret)
		rc = count_rows(w, "SELECT count(*) FROM frames", &w->frames);
	if (rc == SQLITE_OK && !*ret && w->frames < STORE_FRAMES_MOST &&
	    w->stacks < STORE_STACKS_MOST) {
		w->frames++;
		rc = frame_row(w, ADD_FRAME, b, f, ret);
	}
	if (rc == SQLITE_OK && *ret)
		map64_set(&w->frame_of, key, (uint64_t)*ret);
	return rc;
}

static int stack_row(struct store_writer *w, enum store_statement which,
		     const struct store_batch *b, sqlite3_int64 parent, sqlite3_int64 frame,
		     sqlite3_int64 *ret)
{
	sqlite3_stmt *s;
	int rc = begin(w, which, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, parent);
	sqlite3_bind_int64(s, 2, frame);
	sqlite3_bind_int64(s, 3, b->time_s);
	return end_with(s, ret);
}

/* Likewise. */
static int below(struct store_writer *w, const struct store_batch *b, sqlite3_int64 parent,
		 sqlite3_int64 frame, sqlite3_int64 *ret)
{
	uint64_t at, key = hash_u64(hash_u64((uint64_t)parent) ^ (uint64_t)frame);
	*ret = 0;
	if (map64_get(&w->stack_of, key, &at)) {
		*ret = (sqlite3_int64)at;
		return SQLITE_OK;
	}
	int rc = stack_row(w, FIND_STACK, b, parent, frame, ret);
	if (rc == SQLITE_OK && !*ret && w->stacks < STORE_STACKS_MOST) {
		w->stacks++;
		rc = stack_row(w, ADD_STACK, b, parent, frame, ret);
	}
	if (rc == SQLITE_OK && *ret)
		map64_set(&w->stack_of, key, (uint64_t)*ret);
	return rc;
}

/* A frame below a stack; where there is no room for it, that stack. */
static int stack_of(struct store_writer *w, const struct store_batch *b, sqlite3_int64 parent,
		    const struct store_frame *f, sqlite3_int64 *ret)
{
	sqlite3_int64 frame = 0, stack = 0;
	int rc = count_rows(w, "SELECT count(*) FROM stacks", &w->stacks);
	if (rc == SQLITE_OK)
		rc = frame_of(w, b, f, &frame);
	if (rc == SQLITE_OK && frame)
		rc = below(w, b, parent, frame, &stack);
	*ret = stack ? stack : parent;
	return rc;
}

static int put_cpu(struct store_writer *w, const struct store_batch *b, enum store_statement into,
		   sqlite3_int64 process, sqlite3_int64 stack, double seconds)
{
	sqlite3_stmt *s = NULL;
	int rc = begin(w, into, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, b->time_s);
	sqlite3_bind_int64(s, 2, process);
	sqlite3_bind_int64(s, 3, stack);
	sqlite3_bind_double(s, 4, seconds);
	return end(s);
}

/* Into minutes and tens of them at once. */
static int put_frames(struct store_writer *w, const struct store_batch *b,
		      const struct store_tree *t, sqlite3_int64 process)
{
	sqlite3_int64 *stacks = xcalloc(t->len, sizeof(*stacks)); /* the first one's is 0 */
	int rc = SQLITE_OK;
	for (uint32_t i = 0; i < t->len && rc == SQLITE_OK; i++) {
		const struct store_frame *f = &t->frames[i];
		if (i)
			rc = stack_of(w, b, stacks[f->parent], f, &stacks[i]);
		if (rc == SQLITE_OK && f->own_s > 0)
			rc = put_cpu(w, b, PUT_CPU_60S, process, stacks[i], f->own_s);
		if (rc == SQLITE_OK && f->own_s > 0)
			rc = put_cpu(w, b, PUT_CPU_600S, process, stacks[i], f->own_s);
	}
	free(stacks);
	return rc;
}

/* Of nobody's: a process that is no job. */
static int put_tree(struct store_writer *w, const struct store_batch *b, const struct store_tree *t)
{
	sqlite3_int64 process;
	int rc = process_of(w, &t->owner, &process);
	return rc == SQLITE_OK && process ? put_frames(w, b, t, process) : rc;
}

/* ---- events and incidents ---- */

static int put_event(struct store_writer *w, const struct store_event *ev)
{
	sqlite3_stmt *s;
	int rc = begin(w, PUT_EVENT, &s);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_int64(s, 1, ev->time_ns);
	put_text(s, 2, ev->entity);
	put_text(s, 3, ev->name);
	put_text(s, 4, ev->text);
	return end(s);
}

static int put_incident(struct store_writer *w, const struct store_incident *in)
{
	const struct m_incident *r = &in->row;
	const uint64_t numbers[] = {(uint64_t)w->run, r->id,	    r->pid,
				    in->key_ns,	      r->onset_ns,  r->end_ns,
				    r->told_ns,	      r->caused_ns, r->ended};
	const double reals[] = {r->confidence, r->cost_ns, r->usual_ns, r->unexplained_ns};
	sqlite3_stmt *s;
	int rc = begin(w, PUT_INCIDENT, &s), at = 1;
	if (rc != SQLITE_OK)
		return rc;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sqlite3_bind_int64(s, at++, (sqlite3_int64)numbers[i]);
	for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++)
		sqlite3_bind_double(s, at++, reals[i]);
	sqlite3_bind_int64(s, at++, r->culprit_pid);
	sqlite3_bind_int64(s, at++, r->culprit_line);
	for (size_t i = 0; i < INCIDENT_WHY; i++)
		put_text(s, at++, in->texts[i]);
	sqlite3_bind_int64(s, at++, r->beside);
	put_text(s, at++, in->texts[INCIDENT_WHY]);
	sqlite3_bind_int64(s, at++, r->culprit_rank);
	for (size_t i = INCIDENT_CULPRIT_CGROUP; i < INCIDENT_TEXTS; i++)
		put_text(s, at++, in->texts[i]);
	sqlite3_bind_int64(s, at, r->victim_line);
	return end(s);
}

/* ---- a batch ---- */

static int put_run(struct store_writer *w)
{
	sqlite3_stmt *s = NULL;
	if (w->run)
		return SQLITE_OK;
	int rc = sqlite3_prepare_v2(w->db, "INSERT INTO runs(start_ns, version) VALUES(?1, ?2)", -1,
				    &s, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_bind_int64(s, 1, ns_of(CLOCK_REALTIME));
		sqlite3_bind_text(s, 2, EACGM_VERSION, -1, SQLITE_STATIC);
		rc = end(s);
	}
	sqlite3_finalize(s);
	if (rc == SQLITE_OK)
		w->run = sqlite3_last_insert_rowid(w->db);
	return rc;
}

static int put_all(struct store_writer *w, const struct store_batch *b)
{
	int rc = put_run(w);
	if (rc == SQLITE_OK && b->time_s / 10 != w->time_s / 10)
		rc = begin_anew(w, b->time_s);
	for (size_t i = 0; i < b->processes.len && rc == SQLITE_OK; i++)
		rc = put_process(w, b, &b->processes.data[i]);
	for (size_t i = 0; i < b->counters.len && rc == SQLITE_OK; i++)
		rc = put_counter(w, b, &b->counters.data[i]);
	for (size_t i = 0; i < b->steps.len && rc == SQLITE_OK; i++)
		rc = put_steps(w, b, &b->steps.data[i]);
	for (size_t i = 0; i < b->calls.len && rc == SQLITE_OK; i++)
		rc = put_calls(w, b, &b->calls.data[i]);
	for (size_t i = 0; i < b->collectives.len && rc == SQLITE_OK; i++)
		rc = put_collective(w, b, &b->collectives.data[i]);
	for (size_t i = 0; i < b->trees.len && rc == SQLITE_OK; i++)
		rc = put_tree(w, b, &b->trees.data[i]);
	for (size_t i = 0; i < b->events.len && rc == SQLITE_OK; i++)
		rc = put_event(w, &b->events.data[i]);
	for (size_t i = 0; i < b->incidents.len && rc == SQLITE_OK; i++)
		rc = put_incident(w, &b->incidents.data[i]);
	return rc == SQLITE_OK ? roll_passed(w, b->time_s) : rc;
}

/* All but processes, whose rows are told anew by themselves. */
static void forget_names(struct store_writer *w)
{
	map64_free(&w->series_of);
	map64_free(&w->function_of);
	map64_free(&w->frame_of);
	map64_free(&w->stack_of);
	w->functions = w->frames = w->stacks = 0;
}

/* So that names in use are noted again as seen, and memory stays bounded. */
static void forget_at_times(struct store_writer *w, int64_t time_s)
{
	bool many = w->process_of.len > STORE_NAMES_KEPT || w->series_of.len > STORE_NAMES_KEPT ||
		    w->function_of.len > STORE_NAMES_KEPT || w->frame_of.len > STORE_NAMES_KEPT ||
		    w->stack_of.len > STORE_NAMES_KEPT;
	if (!many && time_s - w->seen_s < STORE_SEEN_S && time_s >= w->seen_s)
		return;
	if (many)
		map64_free(&w->process_of);
	forget_names(w);
	w->seen_s = time_s;
}

/* In one transaction. */
static int commit(struct store_writer *w, const struct store_batch *b,
		  int (*put)(struct store_writer *w, const struct store_batch *b))
{
	int rc = sqlite3_exec(w->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return rc;
	rc = put(w, b);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(w->db, "COMMIT", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

int store_write(struct store_writer *w, const struct store_batch *b)
{
	sqlite3_int64 run = w->run;
	forget_at_times(w, b->time_s);
	int rc = commit(w, b, put_all);
	if (rc == SQLITE_OK) {
		w->time_s = b->time_s;
		return rc;
	}
	store_writer_forget(w);
	w->run = run;
	return rc;
}

static int put_end(struct store_writer *w, const struct store_batch *none)
{
	(void)none;
	return roll(w, w->time_s);
}

int store_write_end(struct store_writer *w)
{
	return w->time_s ? commit(w, NULL, put_end) : SQLITE_OK;
}

void store_writer_forget(struct store_writer *w)
{
	map64_free(&w->process_of);
	forget_names(w);
}

void store_writer_close(struct store_writer *w)
{
	for (size_t i = 0; i < STORE_STATEMENTS; i++)
		sqlite3_finalize(w->statements[i]);
	store_writer_forget(w);
	sqlite3_close(w->db);
	*w = (struct store_writer){0};
}

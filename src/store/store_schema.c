/* store_schema.c - makes them, or brings those of an older version up to date. Times are seconds of
 * the Unix epoch in rolled up tables, nanoseconds of it (..._ns) elsewhere. */
#include "store/store_schema.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buffer.h"

#define AT "datetime(r.time, 'unixepoch') AS at"
#define OF_SERIES                                                                                  \
	" AS SELECT r.time AS time, " AT ", s.entity AS entity, p.pid AS pid, p.script AS script," \
	" s.name AS name, s.unit AS unit, r.n AS n, r.sum / r.n AS mean, r.min AS min, r.max AS "  \
	"max"
#define SERIES_JOINED                                                                              \
	" r JOIN series s ON s.id = r.series LEFT JOIN processes p ON p.id = s.process;"
#define OF_STEPS                                                                                   \
	" AS SELECT r.time AS time, " AT ", p.pid AS pid, p.script AS script, r.kind AS kind,"     \
	" r.n AS steps, r.sum / r.n AS mean_s, r.min AS min_s, r.max AS max_s"

/* Rolled up tables are ordered by time, so that rows are added at their end and what is too old
 * goes from their beginning. */
static const char first[] =
	"CREATE TABLE runs(id INTEGER PRIMARY KEY, start_ns INTEGER, version TEXT);"
	"CREATE TABLE processes(id INTEGER PRIMARY KEY, pid INTEGER, start_ns INTEGER, end_ns "
	"INTEGER,"
	" seen INTEGER, parent_pid INTEGER, comm TEXT, script TEXT, rank INTEGER, local_rank "
	"INTEGER,"
	" world_size INTEGER, job TEXT, launcher TEXT, pod TEXT, namespace TEXT, pod_uid TEXT,"
	" container TEXT);"
	"CREATE INDEX processes_pid ON processes(pid, start_ns);"
	"CREATE TABLE series(id INTEGER PRIMARY KEY, process INTEGER, kind INTEGER, gpu INTEGER,"
	" entity TEXT, name TEXT, unit TEXT, seen INTEGER, UNIQUE(entity, name, process));"
	"CREATE TABLE functions(id INTEGER PRIMARY KEY, layer TEXT, name TEXT, seen INTEGER,"
	" UNIQUE(layer, name));"
	"CREATE TABLE counters_10s(time INTEGER, series INTEGER, n INTEGER, sum REAL, min REAL,"
	" max REAL, PRIMARY KEY(time, series)) WITHOUT ROWID;"
	"CREATE TABLE counters_60s(time INTEGER, series INTEGER, n INTEGER, sum REAL, min REAL,"
	" max REAL, PRIMARY KEY(time, series)) WITHOUT ROWID;"
	"CREATE TABLE steps_10s(time INTEGER, process INTEGER, kind TEXT, n INTEGER, sum REAL, min "
	"REAL,"
	" max REAL, PRIMARY KEY(time, process, kind)) WITHOUT ROWID;"
	"CREATE TABLE steps_60s(time INTEGER, process INTEGER, kind TEXT, n INTEGER, sum REAL, min "
	"REAL,"
	" max REAL, PRIMARY KEY(time, process, kind)) WITHOUT ROWID;"
	"CREATE TABLE calls_60s(time INTEGER, process INTEGER, function INTEGER, calls INTEGER,"
	" errors INTEGER, seconds REAL, PRIMARY KEY(time, process, function)) WITHOUT ROWID;"
	"CREATE TABLE incidents(run INTEGER, id INTEGER, pid INTEGER, key_ns INTEGER, onset_ns "
	"INTEGER,"
	" end_ns INTEGER, told_ns INTEGER, caused_ns INTEGER, ended INTEGER, confidence REAL,"
	" cost_ns REAL, usual_ns REAL, unexplained_ns REAL, culprit_pid INTEGER, culprit_line "
	"INTEGER,"
	" cause TEXT, runner_up TEXT, what TEXT, against TEXT, culprit TEXT, culprit_kind TEXT,"
	" culprit_name TEXT, culprit_function TEXT, culprit_file TEXT, evidence TEXT,"
	" PRIMARY KEY(run, id, pid, key_ns));"
	"CREATE TABLE events(id INTEGER PRIMARY KEY, time_ns INTEGER, entity TEXT, name TEXT,"
	" text TEXT);"
	"CREATE VIEW v_counters_10s" OF_SERIES " FROM counters_10s" SERIES_JOINED
	"CREATE VIEW v_counters" OF_SERIES " FROM counters_60s" SERIES_JOINED
	"CREATE VIEW v_steps_10s" OF_STEPS
	" FROM steps_10s r LEFT JOIN processes p ON p.id = r.process;"
	"CREATE VIEW v_steps" OF_STEPS
	" FROM steps_60s r LEFT JOIN processes p ON p.id = r.process;"
	"CREATE VIEW v_calls AS SELECT r.time AS time, " AT ", p.pid AS pid, p.script AS script,"
	" f.layer AS layer, f.name AS name, r.calls AS calls, r.errors AS errors,"
	" r.seconds AS seconds FROM calls_60s r JOIN functions f ON f.id = r.function"
	" LEFT JOIN processes p ON p.id = r.process;"
	"CREATE VIEW v_processes AS SELECT pid, datetime(start_ns / 1000000000, 'unixepoch') AS "
	"start_at,"
	" datetime(nullif(end_ns, 0) / 1000000000, 'unixepoch') AS end_at, comm, script, rank, "
	"local_rank,"
	" world_size, job, launcher, pod, namespace, pod_uid, container FROM processes;"
	"CREATE VIEW v_incidents AS SELECT datetime(onset_ns / 1000000000, 'unixepoch') AS onset,"
	" (end_ns - onset_ns) * 1e-9 AS lasted_s, ended, pid, cause, confidence, what, culprit,"
	" culprit_pid, cost_ns * 1e-9 AS cost_s, evidence FROM incidents;"
	"CREATE VIEW v_events AS SELECT datetime(time_ns / 1000000000, 'unixepoch') AS at, entity, "
	"name,"
	" text FROM events;";

/* Seconds. What of them is in the tables of ten seconds and of minutes is said by "rolled". */
static const char second[] =
	"CREATE TABLE counters_1s(time INTEGER, series INTEGER, value REAL,"
	" PRIMARY KEY(time, series)) WITHOUT ROWID;"
	"CREATE TABLE steps_1s(time INTEGER, process INTEGER, kind TEXT, n INTEGER, sum REAL,"
	" min REAL, max REAL, PRIMARY KEY(time, process, kind)) WITHOUT ROWID;"
	"CREATE TABLE rolled(until INTEGER); INSERT INTO rolled VALUES(0);"
	"CREATE VIEW v_counters_1s AS SELECT r.time AS time, " AT ", s.entity AS entity,"
	" p.pid AS pid, p.script AS script, s.name AS name, s.unit AS unit, 1 AS n,"
	" r.value AS mean, r.value AS min, r.value AS max FROM counters_1s" SERIES_JOINED
	"CREATE VIEW v_steps_1s" OF_STEPS
	" FROM steps_1s r LEFT JOIN processes p ON p.id = r.process;";

/* Tens of minutes, of which a week is read at once; what steps were made of; whose the time of
 * incidents was; names of containers. */
static const char third[] =
	"ALTER TABLE processes ADD COLUMN container_name TEXT;"
	"CREATE TABLE counters_600s(time INTEGER, series INTEGER, n INTEGER, sum REAL, min REAL,"
	" max REAL, PRIMARY KEY(time, series)) WITHOUT ROWID;"
	"CREATE TABLE steps_600s(time INTEGER, process INTEGER, kind TEXT, n INTEGER, sum REAL,"
	" min REAL, max REAL, PRIMARY KEY(time, process, kind)) WITHOUT ROWID;"
	"CREATE TABLE phases_60s(time INTEGER, process INTEGER, phase TEXT, seconds REAL,"
	" PRIMARY KEY(time, process, phase)) WITHOUT ROWID;"
	"CREATE TABLE phases_600s(time INTEGER, process INTEGER, phase TEXT, seconds REAL,"
	" PRIMARY KEY(time, process, phase)) WITHOUT ROWID;"
	"INSERT INTO counters_600s SELECT time - time % 600, series, sum(n), sum(sum), min(min),"
	" max(max) FROM counters_60s GROUP BY 1, 2;"
	"INSERT INTO steps_600s SELECT time - time % 600, process, kind, sum(n), sum(sum),"
	" min(min), max(max) FROM steps_60s GROUP BY 1, 2, 3;"
	"CREATE VIEW v_counters_10m" OF_SERIES " FROM counters_600s" SERIES_JOINED
	"CREATE VIEW v_steps_10m" OF_STEPS
	" FROM steps_600s r LEFT JOIN processes p ON p.id = r.process;"
	"CREATE VIEW v_phases AS SELECT r.time AS time, " AT ", p.pid AS pid, p.script AS script,"
	" r.phase AS phase, r.seconds AS seconds FROM phases_60s r"
	" LEFT JOIN processes p ON p.id = r.process;"
	"ALTER TABLE incidents ADD COLUMN blame TEXT;"
	"DROP VIEW v_incidents;"
	"CREATE VIEW v_incidents AS SELECT datetime(onset_ns / 1000000000, 'unixepoch') AS onset,"
	" (end_ns - onset_ns) * 1e-9 AS lasted_s, ended, pid, cause, confidence, what, culprit,"
	" culprit_pid, cost_ns * 1e-9 AS cost_s, evidence, blame FROM incidents;"
	"DROP VIEW v_processes;"
	"CREATE VIEW v_processes AS SELECT pid, datetime(start_ns / 1000000000, 'unixepoch') AS "
	"start_at,"
	" datetime(nullif(end_ns, 0) / 1000000000, 'unixepoch') AS end_at, comm, script, rank, "
	"local_rank,"
	" world_size, job, launcher, pod, namespace, pod_uid, container, container_name FROM "
	"processes;";

/* A stack in words, of a row's number: upwards, and not without end where the file is damaged. */
#define OF_CPU                                                                                     \
	" AS SELECT r.time AS time, " AT ", p.pid AS pid, p.script AS script,"                     \
	" (WITH RECURSIVE up(id, path, depth) AS (SELECT s.parent, replace(f.name, ';', ':'), 1"   \
	" FROM stacks s JOIN frames f ON f.id = s.frame WHERE s.id = r.stack UNION ALL"            \
	" SELECT s.parent, replace(f.name, ';', ':') || ';' || up.path, up.depth + 1 FROM up"      \
	" JOIN stacks s ON s.id = up.id JOIN frames f ON f.id = s.frame WHERE up.depth < 1024)"    \
	" SELECT path FROM up WHERE id = 0) AS stack, f.name AS frame, r.seconds AS seconds FROM "
#define CPU_JOINED                                                                                 \
	" r LEFT JOIN stacks t ON t.id = r.stack LEFT JOIN frames f ON f.id = t.frame LEFT JOIN"   \
	" processes p ON p.id = r.process;"

/* Bytes of calls. Call trees: a stack is a frame below another stack, 0: the process itself; it is
 * made after that one, so that its number is greater. */
static const char fourth[] =
	"ALTER TABLE calls_60s ADD COLUMN bytes INTEGER;"
	"DROP VIEW v_calls;"
	"CREATE VIEW v_calls AS SELECT r.time AS time, " AT ", p.pid AS pid, p.script AS script,"
	" f.layer AS layer, f.name AS name, r.calls AS calls, r.errors AS errors,"
	" r.seconds AS seconds, r.bytes AS bytes FROM calls_60s r JOIN functions f ON f.id ="
	" r.function LEFT JOIN processes p ON p.id = r.process;"
	"CREATE TABLE frames(id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, seen INTEGER,"
	" UNIQUE(name, kind));"
	"CREATE TABLE stacks(id INTEGER PRIMARY KEY, parent INTEGER, frame INTEGER, seen INTEGER,"
	" UNIQUE(parent, frame));"
	"CREATE TABLE cpu_60s(time INTEGER, process INTEGER, stack INTEGER, seconds REAL,"
	" PRIMARY KEY(time, process, stack)) WITHOUT ROWID;"
	"CREATE TABLE cpu_600s(time INTEGER, process INTEGER, stack INTEGER, seconds REAL,"
	" PRIMARY KEY(time, process, stack)) WITHOUT ROWID;"
	"CREATE VIEW v_cpu" OF_CPU "cpu_60s" CPU_JOINED "CREATE VIEW v_cpu_10m" OF_CPU
	"cpu_600s" CPU_JOINED;

/* What came beside another incident's cause. */
static const char fifth[] =
	"ALTER TABLE incidents ADD COLUMN beside INTEGER;"
	"DROP VIEW v_incidents;"
	"CREATE VIEW v_incidents AS SELECT datetime(onset_ns / 1000000000, 'unixepoch') AS onset,"
	" (end_ns - onset_ns) * 1e-9 AS lasted_s, ended, pid, cause, confidence, what, culprit,"
	" culprit_pid, cost_ns * 1e-9 AS cost_s, evidence, blame, ifnull(beside, 0) AS beside"
	" FROM incidents;";

/* Collectives. A communicator's rank and ranks are -1 and 0 where they are not known. */
static const char sixth[] =
	"CREATE TABLE collectives_60s(time INTEGER, process INTEGER, communicator TEXT,"
	" rank INTEGER, ranks INTEGER, operation TEXT, calls INTEGER, bytes INTEGER,"
	" bus_bytes REAL, seconds REAL, compared INTEGER, ahead REAL,"
	" PRIMARY KEY(time, process, communicator, rank, ranks, operation)) WITHOUT ROWID;"
	"CREATE VIEW v_collectives AS SELECT r.time AS time, " AT ", p.pid AS pid,"
	" p.script AS script, r.communicator AS communicator, nullif(r.rank, -1) AS rank,"
	" nullif(r.ranks, 0) AS ranks, r.operation AS operation, r.calls AS calls,"
	" r.bytes AS bytes, r.bus_bytes AS bus_bytes, r.seconds AS seconds,"
	" r.compared AS compared, r.ahead AS ahead_s FROM collectives_60s r"
	" LEFT JOIN processes p ON p.id = r.process;";

/* Which rank was late, and why. */
static const char seventh[] =
	"ALTER TABLE incidents ADD COLUMN why TEXT;"
	"ALTER TABLE incidents ADD COLUMN culprit_rank INTEGER;" /* 1 more; 0: not known */
	"DROP VIEW v_incidents;"
	"CREATE VIEW v_incidents AS SELECT datetime(onset_ns / 1000000000, 'unixepoch') AS onset,"
	" (end_ns - onset_ns) * 1e-9 AS lasted_s, ended, pid, cause, confidence, what, culprit,"
	" culprit_pid, nullif(culprit_rank, 0) - 1 AS culprit_rank, nullif(why, '') AS why,"
	" cost_ns * 1e-9 AS cost_s, evidence, blame, ifnull(beside, 0) AS beside FROM incidents;";

/* In which cgroup the culprit is, and where the victim lost most. */
static const char eighth[] =
	"ALTER TABLE incidents ADD COLUMN culprit_cgroup TEXT;"
	"ALTER TABLE incidents ADD COLUMN victim_phase TEXT;"
	"ALTER TABLE incidents ADD COLUMN victim_function TEXT;"
	"ALTER TABLE incidents ADD COLUMN victim_file TEXT;"
	"ALTER TABLE incidents ADD COLUMN victim_line INTEGER;"
	"DROP VIEW v_incidents;"
	"CREATE VIEW v_incidents AS SELECT datetime(onset_ns / 1000000000, 'unixepoch') AS onset,"
	" (end_ns - onset_ns) * 1e-9 AS lasted_s, ended, pid, cause, confidence, what, culprit,"
	" culprit_pid, nullif(culprit_cgroup, '') AS culprit_cgroup,"
	" nullif(culprit_rank, 0) - 1 AS culprit_rank, nullif(why, '') AS why,"
	" nullif(victim_phase, '') AS victim_phase,"
	" nullif(victim_function, '') AS victim_function, nullif(victim_file, '') AS victim_file,"
	" nullif(victim_line, 0) AS victim_line,"
	" cost_ns * 1e-9 AS cost_s, evidence, blame, ifnull(beside, 0) AS beside FROM incidents;";

const char *const store_schema_steps[] = {first, second, third,	  fourth,
					  fifth, sixth,	 seventh, eighth};
const size_t store_schema_version = sizeof(store_schema_steps) / sizeof(store_schema_steps[0]);

static int number(sqlite3 *db, const char *sql, sqlite3_int64 *ret)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	if (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		*ret = sqlite3_column_int64(stmt, 0);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(stmt);
	return rc;
}

static int refuse(struct err *e, const char *path, const char *why)
{
	err_set(e, EINVAL, "the store '%s' %s", path, why);
	return SQLITE_MISMATCH;
}

/* Before anything is written. */
static int check(sqlite3 *db, size_t version, const char *path, sqlite3_int64 *ret_has,
		 struct err *e)
{
	sqlite3_int64 tables = 0, application = 0;
	int rc = number(db, "SELECT count(*) FROM sqlite_schema", &tables);
	if (rc == SQLITE_OK)
		rc = number(db, "PRAGMA application_id", &application);
	if (rc == SQLITE_OK)
		rc = number(db, "PRAGMA user_version", ret_has);
	if (rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT)
		return refuse(e, path, "is no database of SQLite, or a damaged one");
	if (rc != SQLITE_OK)
		return rc;
	if (tables && application != STORE_APPLICATION)
		return refuse(e, path, "is a database of something else");
	if (*ret_has < 0 || (size_t)*ret_has > version)
		return refuse(e, path, "was made by a newer eacgm: name another file");
	return SQLITE_OK;
}

static int run_steps(sqlite3 *db, const char *const *steps, size_t has, size_t version)
{
	int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return rc;
	for (size_t i = has; i < version && rc == SQLITE_OK; i++)
		rc = sqlite3_exec(db, steps[i], NULL, NULL, NULL);
	char *marks = xasprintf("PRAGMA application_id=%d;PRAGMA user_version=%zu",
				STORE_APPLICATION, version);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, marks, NULL, NULL, NULL);
	free(marks);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

int store_schema_bring(sqlite3 *db, const char *const *steps, size_t version, const char *path,
		       struct err *e)
{
	sqlite3_int64 has = 0;
	int rc = check(db, version, path, &has, e);
	/* auto_vacuum counts only where there is no table yet */
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db,
				  "PRAGMA auto_vacuum=INCREMENTAL;PRAGMA journal_mode=WAL;"
				  "PRAGMA synchronous=NORMAL;PRAGMA journal_size_limit=4194304",
				  NULL, NULL, NULL);
	if (rc == SQLITE_OK && (size_t)has < version)
		rc = run_steps(db, steps, (size_t)has, version);
	return rc;
}

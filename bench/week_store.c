/* week_store.c - a store as an agent leaves it after days of many processes, the same each time but
 * for its end: counters of GPUs, the host and processes, steps with phases, calls, incidents,
 * events.
 *
 * usage: week_store FILE.db PROCESSES DAYS END_S
 *
 * FILE.db must not be there; END_S is its last second, of the Unix epoch. As an agent does, it
 * keeps an hour of seconds, a day of tens of seconds, and 2,048 counters a second at most.
 *
 * links: cli */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/entity.h"
#include "events/metric.h"
#include "store/store_rollup.h"
#include "store/store_schema.h"

#define GPUS	    8
#define FUNCTIONS   10
#define STEP_S	    0.031
#define INCIDENT_S  14400 /* one in so many seconds */
#define INCIDENT_NS 300000000000LL

static const char *const gpu_names[] = {"sm_ratio",
					"memory_ratio",
					"memory_used_bytes",
					"memory_total_bytes",
					"power_watts",
					"power_limit_watts",
					"temperature_celsius",
					"sm_clock_mhz",
					"memory_clock_mhz",
					"energy_joules",
					"pcie_rx_bytes_per_s",
					"pcie_tx_bytes_per_s",
					"nvlink_bytes_per_s",
					"encoder_ratio",
					"decoder_ratio",
					"fan_ratio",
					"gpm_sm_ratio",
					"gpm_tensor_ratio",
					"gpm_dram_ratio",
					"gpm_fp16_ratio",
					"gpm_fp32_ratio",
					"gpm_fp64_ratio",
					"gpm_integer_ratio",
					"gpm_graphics_ratio",
					"gpm_sm_occupancy_ratio"};
static const char *const host_names[] = {"cpu_ratio",
					 "cpu_steal_ratio",
					 "cpu_irq_ratio",
					 "cpu_softirq_ratio",
					 "cpu_iowait_ratio",
					 "load_1m",
					 "memory_bytes",
					 "memory_free_bytes",
					 "cached_bytes",
					 "dirty_bytes",
					 "swap_used_bytes",
					 "page_in_bytes_per_s",
					 "page_out_bytes_per_s",
					 "switches_per_s",
					 "interrupts_per_s",
					 "forks_per_s",
					 "cpu_pressure_ratio",
					 "memory_pressure_ratio",
					 "io_pressure_ratio",
					 "processes"};
static const char *const process_names[] = {
	"cpu_ratio",	      "rss_bytes",	    "threads",
	"read_bytes_per_s",   "write_bytes_per_s",  "cpu_delay_ratio",
	"blkio_delay_ratio",  "swapin_delay_ratio", "major_faults_per_s",
	"minor_faults_per_s", "switches_per_s",	    "involuntary_switches_per_s"};
#define LEN(a) (sizeof(a) / sizeof(*(a)))

struct maker {
	sqlite3 *db;
	int64_t begin_s, end_s;
	int processes, series;
	double base[STORE_COUNTERS];
};

static void run(const struct maker *m, const char *sql)
{
	char *why = NULL;
	if (sqlite3_exec(m->db, sql, NULL, NULL, &why) == SQLITE_OK)
		return;
	fprintf(stderr, "week_store: %s\n", why);
	exit(1);
}

static sqlite3_stmt *prepare(const struct maker *m, char *sql)
{
	sqlite3_stmt *ret = NULL;
	if (sqlite3_prepare_v2(m->db, sql, -1, &ret, NULL) != SQLITE_OK) {
		fprintf(stderr, "week_store: %s: %s\n", sql, sqlite3_errmsg(m->db));
		exit(1);
	}
	free(sql);
	return ret;
}

static void put(const struct maker *m, sqlite3_stmt *s)
{
	if (sqlite3_step(s) != SQLITE_DONE) {
		fprintf(stderr, "week_store: %s\n", sqlite3_errmsg(m->db));
		exit(1);
	}
	sqlite3_reset(s);
}

/* Between 0.9 and 1.1, the same for the same two. */
static double wave(int64_t time_s, int of)
{
	return 1 + 0.06 * sin((double)time_s / 3000 + of) +
	       0.04 * sin((double)time_s / 91 + 3.0 * of);
}

static int in_incident(int64_t time_s)
{
	return time_s % INCIDENT_S < INCIDENT_NS / 1000000000;
}

/* ---- what there is ---- */

static void add_series(struct maker *m, sqlite3_stmt *s, int kind, int process, int gpu,
		       const char *entity, const char *name)
{
	if (m->series >= STORE_COUNTERS)
		return;
	sqlite3_bind_int(s, 1, m->series + 1);
	sqlite3_bind_int(s, 2, process);
	sqlite3_bind_int(s, 3, kind);
	sqlite3_bind_int(s, 4, gpu);
	sqlite3_bind_text(s, 5, entity, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(s, 6, name, -1, SQLITE_STATIC);
	const char *unit = metric_unit_text(metric_unit_of(name));
	sqlite3_bind_text(s, 7, unit, -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 8, m->end_s);
	put(m, s);
	m->base[m->series++] = unit && unit[0] == 'r' ? 0.8 : unit && unit[0] == 'b' ? 4e10 : 400;
}

static void add_names(struct maker *m)
{
	char entity[64];
	sqlite3_stmt *s = prepare(
		m, xasprintf("INSERT INTO series(id, process, kind, gpu, entity, name, unit, seen)"
			     " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"));
	for (int gpu = 0; gpu < GPUS; gpu++) {
		snprintf(entity, sizeof(entity), "gpu %d", gpu);
		for (size_t i = 0; i < LEN(gpu_names); i++)
			add_series(m, s, ENTITY_GPU, 0, gpu, entity, gpu_names[i]);
	}
	for (size_t i = 0; i < LEN(host_names); i++)
		add_series(m, s, ENTITY_HOST, 0, 0, "host", host_names[i]);
	for (int p = 1; p <= m->processes; p++) {
		snprintf(entity, sizeof(entity), "pid %d", 1000 + p);
		for (size_t i = 0; i < LEN(process_names); i++)
			add_series(m, s, ENTITY_PROCESS, p, 0, entity, process_names[i]);
	}
	sqlite3_finalize(s);
}

static void add_processes(const struct maker *m)
{
	char *sql = xasprintf(
		"WITH RECURSIVE p(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM p WHERE i < %d)"
		" INSERT INTO processes(id, pid, start_ns, end_ns, seen, parent_pid, comm, script,"
		" rank, local_rank, world_size, job, launcher, pod, namespace, container_name)"
		" SELECT i, 1000 + i, %lld000000000, 0, %lld, 999, 'python3', 'train.py', i - 1,"
		" (i - 1) %% 8, %d, '4711', 'slurm', 'trainer-' || i, 'ai', 'trainer' FROM p",
		m->processes, (long long)m->begin_s, (long long)m->end_s, m->processes);
	run(m, sql);
	free(sql);
}

/* ---- rows by time ---- */

static void bind_sums(sqlite3_stmt *s, int first, double n, double mean)
{
	sqlite3_bind_int64(s, first, (sqlite3_int64)n);
	sqlite3_bind_double(s, first + 1, n * mean);
	sqlite3_bind_double(s, first + 2, 0.8 * mean);
	sqlite3_bind_double(s, first + 3, 1.5 * mean);
}

static void add_counters(const struct maker *m, int each_s, int64_t from_s)
{
	sqlite3_stmt *s = prepare(m, xasprintf("INSERT INTO counters_%ds VALUES(?1, ?2, ?3%s)",
					       each_s, each_s == 1 ? "" : ", ?4, ?5, ?6"));
	for (int64_t t = from_s - from_s % each_s; t <= m->end_s; t += each_s)
		for (int i = 0; i < m->series; i++) {
			double mean = m->base[i] * wave(t, i);
			sqlite3_bind_int64(s, 1, t);
			sqlite3_bind_int(s, 2, i + 1);
			if (each_s == 1)
				sqlite3_bind_double(s, 3, mean);
			else
				bind_sums(s, 3, each_s, mean);
			put(m, s);
		}
	sqlite3_finalize(s);
}

static void add_steps(const struct maker *m, int each_s, int64_t from_s)
{
	sqlite3_stmt *s = prepare(
		m, xasprintf("INSERT INTO steps_%ds VALUES(?1, ?2, 'training', ?3, ?4, ?5, ?6)",
			     each_s));
	for (int64_t t = from_s - from_s % each_s; t <= m->end_s; t += each_s)
		for (int p = 1; p <= m->processes && p <= LIVE_JOBS; p++) {
			double mean = STEP_S * wave(t, p) * (in_incident(t) ? 2.5 : 1);
			sqlite3_bind_int64(s, 1, t);
			sqlite3_bind_int(s, 2, p);
			bind_sums(s, 3, each_s / mean, mean);
			put(m, s);
		}
	sqlite3_finalize(s);
}

static void add_phases(const struct maker *m, int each_s)
{
	static const struct {
		const char *name;
		double share;
	} phases[] = {{"backward", 0.45}, {"forward", 0.35}, {"load", 0.05}, {"optimizer", 0.15}};
	sqlite3_stmt *s =
		prepare(m, xasprintf("INSERT INTO phases_%ds VALUES(?1, ?2, ?3, ?4)", each_s));
	for (int64_t t = m->begin_s - m->begin_s % each_s; t <= m->end_s; t += each_s)
		for (int p = 1; p <= m->processes && p <= LIVE_JOBS; p++)
			for (size_t i = 0; i < LEN(phases); i++) {
				sqlite3_bind_int64(s, 1, t);
				sqlite3_bind_int(s, 2, p);
				sqlite3_bind_text(s, 3, phases[i].name, -1, SQLITE_STATIC);
				sqlite3_bind_double(s, 4, each_s * phases[i].share);
				put(m, s);
			}
	sqlite3_finalize(s);
}

static void add_calls(const struct maker *m)
{
	char *sql = xasprintf(
		"WITH RECURSIVE f(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM f WHERE i < %d)"
		" INSERT INTO functions SELECT i, 'cuda', 'cuFunction' || i, %lld FROM f",
		FUNCTIONS, (long long)m->end_s);
	run(m, sql);
	free(sql);
	sqlite3_stmt *s =
		prepare(m, xasprintf("INSERT INTO calls_60s(time, process, function, calls, errors,"
				     " seconds) VALUES(?1, ?2, ?3, ?4, 0, ?5)"));
	int most = STORE_FUNCTIONS / FUNCTIONS;
	for (int64_t t = m->begin_s - m->begin_s % 60; t <= m->end_s; t += 60)
		for (int p = 1; p <= m->processes && p <= most; p++)
			for (int f = 1; f <= FUNCTIONS; f++) {
				sqlite3_bind_int64(s, 1, t);
				sqlite3_bind_int(s, 2, p);
				sqlite3_bind_int(s, 3, f);
				sqlite3_bind_int(s, 4, 20000 + p * f);
				sqlite3_bind_double(s, 5, 0.5 * wave(t, f));
				put(m, s);
			}
	sqlite3_finalize(s);
}

static void add_told(const struct maker *m)
{
	char *sql = xasprintf(
		"WITH RECURSIVE i(t) AS (SELECT %lld UNION ALL SELECT t + %d FROM i WHERE t + %d <"
		" %lld) INSERT INTO incidents(run, id, pid, key_ns, onset_ns, end_ns, told_ns,"
		" caused_ns, ended, confidence, cost_ns, usual_ns, unexplained_ns, culprit_pid,"
		" culprit_line, cause, runner_up, what, culprit, culprit_kind, evidence, blame)"
		" SELECT 1, t, 1001, t, t * 1000000000, t * 1000000000 + %lld, t * 1000000000 +"
		" 9000000000, 0, 1, 0.9, 6e10, 3.1e7, 1e9, 77, 0, 'cpu_contention', 'slow_loader',"
		" 'CPU contention by stress (77)', 'stress', 'process', 'the main thread waited for"
		" a CPU for 55 %% of the time', '55000000000 could run, but stress (77) had the"
		" CPU' FROM i;"
		"INSERT INTO events(time_ns, entity, name, text) SELECT onset_ns, 'eacgm', "
		"'freeze',"
		" '/var/lib/eacgm/freeze.eacgm' FROM incidents",
		(long long)m->begin_s - m->begin_s % INCIDENT_S + INCIDENT_S, INCIDENT_S,
		INCIDENT_S, (long long)m->end_s, INCIDENT_NS);
	run(m, sql);
	free(sql);
}

static int64_t latest(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void add_rows(struct maker *m)
{
	const struct {
		int each_s;
		int64_t from_s;
	} rollups[] = {{1, latest(m->begin_s, m->end_s - 3600)},
		       {10, latest(m->begin_s, m->end_s - 86400)},
		       {60, m->begin_s},
		       {600, m->begin_s}};
	for (size_t i = 0; i < LEN(rollups); i++) {
		add_counters(m, rollups[i].each_s, rollups[i].from_s);
		add_steps(m, rollups[i].each_s, rollups[i].from_s);
	}
	add_phases(m, 60);
	add_phases(m, 600);
	add_calls(m);
	add_told(m);
	char *sql = xasprintf("UPDATE rolled SET until = %lld; INSERT INTO runs(start_ns, version)"
			      " VALUES(%lld000000000, 'made')",
			      (long long)m->end_s, (long long)m->begin_s);
	run(m, sql);
	free(sql);
}

int main(int argc, char **argv)
{
	struct maker m = {0};
	struct err e = {0};
	if (argc != 5)
		return 2;
	m.processes = atoi(argv[2]);
	m.end_s = atoll(argv[4]);
	m.begin_s = m.end_s - (int64_t)(atof(argv[3]) * 86400);
	if (sqlite3_open(argv[1], &m.db) != SQLITE_OK ||
	    store_schema_bring(m.db, store_schema_steps, store_schema_version, argv[1], &e)) {
		fprintf(stderr, "week_store: %s: %s\n", argv[1],
			e.msg[0] ? e.msg : sqlite3_errmsg(m.db));
		return 1;
	}
	run(&m, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
	add_processes(&m);
	add_names(&m);
	add_rows(&m);
	run(&m, "COMMIT; PRAGMA journal_mode=WAL");
	return sqlite3_close(m.db) != SQLITE_OK;
}

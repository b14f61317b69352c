/* store_cost.c - what an agent's store takes: a job and the host, a second after the other as fast
 * as it goes, with values that change each second.
 *
 * usage: store_cost FILE.db COUNTERS FUNCTIONS SECONDS [FRAMES]
 *
 * With FRAMES each ten seconds have a call tree of so many frames, the last of each ten ever
 * another.
 *
 * Prints a line each hour and at the end: processor time and bytes that were written for each
 * second, and the size of the database. The file must not be there. Not measured: what the thread
 * that looks at rows and the queue take, and the disk.
 *
 * links: cli */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/entity.h"
#include "store/store_retain.h"
#include "store/store_rollup.h"
#include "store/store_schema.h"
#include "store/store_write.h"

#define PID	  1
#define BEGIN_S	  1700000040
#define SECOND_NS 1000000000ULL

static struct live_series series;

static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of /proc/self/io (proc(5)): by write(2) and the like. */
static uint64_t written(void)
{
	char line[128];
	uint64_t ret = 0;
	FILE *f = fopen("/proc/self/io", "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "wchar: ", 7))
			ret = strtoull(line + 7, NULL, 10);
	if (f)
		fclose(f);
	return ret;
}

static void fill(size_t counters, size_t functions)
{
	char name[64];
	map64_set(&series.process_of, PID, 0);
	*vec_push(&series.processes) =
		(struct live_process){.pid = PID, .start_ns = 1, .called = true};
	for (size_t i = 0; i < counters; i++) {
		snprintf(name, sizeof(name), "counter_%zu_ratio", i);
		*vec_push(&series.metrics) = (struct live_metric){.kind = ENTITY_HOST,
								  .there = true,
								  .instance = -1,
								  .label = xstrdup(""),
								  .name = xstrdup(name)};
	}
	for (size_t i = 0; i < functions; i++) {
		struct live_function *f = vec_push(&series.functions);
		*f = (struct live_function){.pid = PID, .layer = "cuda"};
		snprintf(f->name, sizeof(f->name), "function%zu", i);
	}
}

static void change(struct live_steps_view *steps, uint64_t now_ns)
{
	for (size_t i = 0; i < series.metrics.len; i++) {
		series.metrics.data[i].value = (double)random() / 1e6;
		series.metrics.data[i].time_ns = now_ns;
	}
	for (size_t i = 0; i < series.functions.len; i++) {
		series.functions.data[i].calls += (uint64_t)random() % 1000 + 1;
		series.functions.data[i].ns += 1e6;
	}
	steps->count++;
	live_history_add(&steps->history, (double)random());
}

static int write_second(struct store_writer *w, struct store_rollup *r,
			const struct live_steps_view *steps, uint64_t now_ns)
{
	const struct store_limits limits = {.keep_s = 7 * 86400, .bytes = 1 << 30};
	const struct store_seen seen = {&series, &steps, 1};
	struct store_batch b = store_rollup_take(r, &seen, now_ns, (int64_t)(BEGIN_S * SECOND_NS));
	bool names = false;
	int rc = store_write(w, &b);
	if (rc == SQLITE_OK && b.time_s % 10 == 0)
		rc = store_retain(w->db, &limits, b.time_s, &names);
	store_batch_free(&b);
	return rc;
}

/* Ten frames deep at most. */
static void tell_tree(struct store_rollup *r, uint64_t second, uint32_t frames)
{
	struct store_tree tree = {.pid = PID, .len = frames};
	if (!frames || second % 10)
		return;
	tree.frames = xcalloc(frames, sizeof(*tree.frames));
	for (uint32_t i = 0; i < frames; i++) {
		uint64_t name = i % 10 < 9 ? i : i + second % 600 * frames;
		tree.frames[i] = (struct store_frame){
			.parent = i % 10 ? i - 1 : 0,
			.name = xasprintf("function_%" PRIu64 " (/usr/lib/python3/file.py:%u)",
					  name, i),
			.own_s = 1.0 / frames};
	}
	store_rollup_tree(r, tree);
}

static void tell(const char *path, uint64_t seconds, double cpu, uint64_t bytes)
{
	struct stat st = {0};
	stat(path, &st);
	printf("%" PRIu64 " s: %.3f ms and %.1f kB written a second, %.1f MB\n", seconds,
	       1e3 * cpu / (double)seconds, (double)bytes / 1e3 / (double)seconds,
	       (double)st.st_size / 1e6);
}

int main(int argc, char **argv)
{
	struct store_writer w = {0};
	struct store_rollup r = {0};
	struct live_steps_view steps = {.pid = PID, .kind = "training"};
	struct err e = {0};
	if (argc != 5 && argc != 6)
		return 2;
	uint32_t frames = argc == 6 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0;
	uint64_t seconds = strtoull(argv[4], NULL, 10);
	fill(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	int rc = sqlite3_open(argv[1], &w.db);
	if (rc == SQLITE_OK)
		rc = store_schema_bring(w.db, store_schema_steps, store_schema_version, argv[1],
					&e);
	double cpu = cpu_s();
	uint64_t bytes = written(), i;
	for (i = 1; i <= seconds && rc == SQLITE_OK; i++) {
		change(&steps, i * SECOND_NS);
		tell_tree(&r, i, frames);
		rc = write_second(&w, &r, &steps, i * SECOND_NS);
		if (i % 3600 == 0 || i == seconds)
			tell(argv[1], i, cpu_s() - cpu, written() - bytes);
	}
	if (rc != SQLITE_OK)
		fprintf(stderr, "%s: %s\n", argv[1], e.msg[0] ? e.msg : sqlite3_errstr(rc));
	store_writer_close(&w);
	store_rollup_free(&r);
	live_series_free(&series);
	return rc != SQLITE_OK;
}

/* segments_test.c - a recording in pieces: each is readable alone, all rows are in one of them,
 * numbers mean the same in all; limits of count, size and age hold; what was flushed survives.
 *
 * links: recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/entity.h"
#include "recording/segments.h"

static char folder[64], path[96];

/* A source of rows: the writer that numbers, and who listens. */
struct source {
	struct rec_writer *w;
	struct segments *segments;
	struct event_listener to;
	uint32_t told; /* strings */
	uint64_t calls, lost;
};

static void tell(struct source *s, enum row_kind kind, uint32_t number, const void *row)
{
	for (; s->told < rec_string_count(s->w); s->told++)
		s->to.string(s->to.ctx, s->told, rec_string_get(s->w, s->told));
	s->to.rows(s->to.ctx, kind, number, row, 1);
}

static void add(struct source *s, enum row_kind kind, const void *row)
{
	tell(s, kind, rec_add(s->w, kind, row), row);
}

static uint32_t string(struct source *s, const char *format, unsigned i)
{
	char text[64];
	/* cppcheck-suppress wrongPrintfScanfArgNum ; format is a caller's */
	snprintf(text, sizeof(text), format, i);
	return rec_string_z(s->w, text);
}

static void begin(struct source *s, const struct segments_limits *limits)
{
	static const struct output_owner nobody;
	struct err e = {""};
	*s = (struct source){0};
	assert_int_equal(rec_writer_open(&s->w, NULL, NULL, &e), 0);
	if (segments_open(&s->segments, path, &nobody, limits, &e))
		fail_msg("%s", e.msg);
	s->to = segments_listener(s->segments);
	assert_int_equal(segments_name(s->segments, &e), 0);
	struct m_meta meta = {string(s, "mode", 0), string(s, "trace", 0)};
	tell(s, ROW_META, 0, &meta);
}

static void finish(struct source *s)
{
	struct err e = {""};
	if (segments_finish(s->segments, &e))
		fail_msg("%s", e.msg);
	segments_free(s->segments);
	rec_writer_close(s->w, false, &e);
}

static int flush(struct source *s)
{
	struct err e = {""};
	int rc = segments_flush(s->segments, &e);
	if (rc < 0)
		fail_msg("%s", e.msg);
	return rc;
}

/* Part i: a new thread, function, frame, stack and metric, calls of all functions and counters of
 * all metrics so far, losses, a note and an anomaly. */
static void put_part(struct source *s, unsigned i, unsigned calls)
{
	struct m_probe probe = {.name = string(s, "function %u", i), .name_arg = -1};
	struct m_thread thread = {.pid = 1, .tid = 100 + i, .comm = string(s, "thread %u", i)};
	struct m_frame frame = {.name = string(s, "frame %u", i)};
	struct m_stack stack = {.parent = i, .frame = i};
	struct m_process process = {.pid = 1, .start_ns = 5, .end_ns = i};
	struct m_note note = {.subject = string(s, "note %u", i)};
	struct m_anomaly anomaly = {.id = i + 1, .why = string(s, "anomaly %u", i)};
	struct m_metric metric = {.kind = ENTITY_PROCESS,
				  .pid = i,
				  .instance = -1,
				  .name = string(s, "counter %u", i)};
	add(s, ROW_PROBE, &probe);
	add(s, ROW_THREAD, &thread);
	add(s, ROW_FRAME, &frame);
	add(s, ROW_STACK, &stack);
	tell(s, ROW_PROCESS, 0, &process);
	tell(s, ROW_NOTE, 0, &note);
	tell(s, ROW_ANOMALY, 0, &anomaly);
	add(s, ROW_METRIC, &metric);
	for (uint32_t k = 0; k <= i; k++)
		tell(s, ROW_COUNTER, 0, &(struct m_counter){i * 1000 + k, k, k});
	for (unsigned k = 0; k < calls; k++, s->calls++) {
		struct m_call c = {.start_ns = s->calls * 1000 + (uint64_t)rand() % 1000,
				   .dur_ns = (uint64_t)rand(),
				   .probe = k % (i + 1),
				   .thread = k % (i + 1),
				   .stack = k % (i + 2)};
		tell(s, ROW_CALL, 0, &c);
	}
	s->lost += 3;
	struct m_loss loss = {.cause = string(s, "ring_full", 0), .count = s->lost};
	tell(s, ROW_LOSS, 0, &loss);
	struct m_hist hist = {.probe = 0, .pid = 1, .count = s->lost, .total_ns = 2 * s->lost};
	hist.buckets[3] = (uint32_t)s->lost;
	tell(s, ROW_HIST, 0, &hist);
}

/* ---- what lies there ---- */

struct seen {
	uint64_t calls, counters, lost, notes, anomalies, bytes, hist;
	unsigned files, parts, complete;
	unsigned first; /* number */
};

static void check_calls(const struct rec_reader *r, struct seen *seen)
{
	const struct rec_tables *t = rec_tables(r);
	struct err e = {""};
	for (size_t b = 0; b < rec_call_blocks(r); b++) {
		struct m_calls calls = {0};
		assert_int_equal(rec_read_calls(r, b, &calls, &e), 0);
		for (size_t i = 0; i < calls.len; i++) {
			const struct m_call *c = &calls.rows[i];
			char name[32];
			assert_int_equal(t->threads.data[c->thread].tid, 100 + c->thread);
			snprintf(name, sizeof(name), "function %u", c->probe);
			assert_string_equal(
				strtab_get(&t->strings, t->probes.data[c->probe].name, NULL), name);
			assert_true(!c->stack || t->stacks.data[c->stack].frame == c->stack - 1);
		}
		seen->calls += calls.len;
		m_calls_free(&calls);
	}
}

static void check_counters(const struct rec_reader *r, struct seen *seen)
{
	const struct rec_tables *t = rec_tables(r);
	struct err e = {""};
	for (size_t b = 0; b < rec_counter_blocks(r); b++) {
		struct m_counters counters = {0};
		assert_int_equal(rec_read_counters(r, b, &counters, &e), 0);
		for (size_t i = 0; i < counters.len; i++) {
			const struct m_metric *m = &t->metrics.data[counters.rows[i].metric];
			char name[32];
			snprintf(name, sizeof(name), "counter %.0f", counters.rows[i].value);
			assert_string_equal(strtab_get(&t->strings, m->name, NULL), name);
			assert_int_equal(m->pid, counters.rows[i].value);
		}
		seen->counters += counters.len;
		m_counters_free(&counters);
	}
}

static void look_into(const char *file, struct seen *seen)
{
	struct rec_reader *r;
	struct err e = {""};
	struct stat st;
	if (rec_open(&r, file, &e))
		fail_msg("%s", e.msg);
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->damaged_at, 0);
	assert_string_equal(rec_meta(t, "mode"), "trace");
	assert_int_equal(t->processes.len, 1);
	for (size_t i = 0; i < t->frames.len; i++) {
		char name[32];
		snprintf(name, sizeof(name), "frame %zu", i);
		assert_string_equal(strtab_get(&t->strings, t->frames.data[i].name, NULL), name);
	}
	for (size_t i = 0; i < t->losses.len; i++)
		seen->lost += t->losses.data[i].count;
	for (size_t i = 0; i < t->hists.len; i++) {
		assert_int_equal(t->hists.data[i].buckets[3], t->hists.data[i].count);
		seen->hist += t->hists.data[i].count;
	}
	seen->notes += t->notes.len;
	seen->anomalies += t->anomalies.len;
	seen->complete += t->complete;
	check_calls(r, seen);
	check_counters(r, seen);
	rec_close(r);
	assert_int_equal(stat(file, &st), 0);
	seen->bytes += (uint64_t)st.st_size;
}

static void look(struct seen *seen, bool inside)
{
	struct stat st;
	*seen = (struct seen){0};
	for (unsigned i = 1; i < 1000; i++) {
		char file[160];
		snprintf(file, sizeof(file), "%s/job.%06u.eacgm", folder, i);
		if (stat(file, &st))
			continue;
		seen->first = seen->files++ ? seen->first : i;
		if (inside)
			look_into(file, seen);
		else
			seen->bytes += (uint64_t)st.st_size;
	}
}

static int empty_folder(void **state)
{
	DIR *d = opendir(folder);
	(void)state;
	for (const struct dirent *entry; (entry = readdir(d));)
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(d), entry->d_name, 0);
	closedir(d);
	return 0;
}

/* ---- tests ---- */

static void test_every_row_is_in_one(void **state)
{
	struct source s;
	struct seen seen;
	struct rec_writer_stats st;
	unsigned begun = 0;
	(void)state;
	begin(&s, &(struct segments_limits){.segment_bytes = 20000});
	for (unsigned i = 0; i < 40; i++) {
		put_part(&s, i, 500);
		begun += flush(&s) == 1;
		segments_sync(s.segments);
	}
	segments_stats(s.segments, &st);
	assert_int_equal(st.calls, s.calls);
	finish(&s);
	look(&seen, true);
	assert_true(begun > 3);
	assert_int_equal(seen.files, begun + 1);
	assert_int_equal(seen.complete, seen.files);
	assert_int_equal(seen.calls, s.calls);
	assert_int_equal(seen.lost, s.lost);
	assert_int_equal(seen.hist, s.lost);
	assert_int_equal(seen.notes, 40);
	assert_int_equal(seen.anomalies, 40);
	assert_int_equal(seen.counters, 40 * 41 / 2);
}

static void test_count(void **state)
{
	struct source s;
	struct seen seen;
	(void)state;
	begin(&s, &(struct segments_limits){.segment_bytes = 5000, .most_count = 3});
	for (unsigned i = 0; i < 30; i++) {
		put_part(&s, i, 500);
		flush(&s);
		look(&seen, false);
		assert_true(seen.files <= 3);
	}
	finish(&s);
	look(&seen, true);
	assert_int_equal(seen.files, 3);
	assert_true(seen.first > 10);
}

static void test_bytes(void **state)
{
	struct source s;
	struct seen seen;
	uint64_t most = 0;
	(void)state;
	begin(&s, &(struct segments_limits){.most_bytes = 100000});
	for (unsigned i = 0; i < 100; i++) {
		put_part(&s, i % 40, i % 40 ? 300 : 0);
		flush(&s);
		look(&seen, false);
		most = seen.bytes > most ? seen.bytes : most;
	}
	finish(&s);
	look(&seen, false);
	assert_true(most <= 100000 && seen.bytes <= 100000);
	assert_true(most > 50000); /* not far less than is asked for */
}

/* What ended before the session is the oldest, and goes by its age; other files stay. */
static void test_age_and_earlier_ones(void **state)
{
	static const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	static const char *const others[] = {"job.eacgm", "job.000001.eacgm.txt", "job.12.eacgm.x",
					     "jobs.000001.eacgm"};
	struct source s;
	struct seen seen;
	char file[160];
	(void)state;
	for (int run = 0; run < 2; run++) {
		begin(&s, &(struct segments_limits){.segment_bytes = 5000});
		for (unsigned i = 0; i < 4; i++) {
			put_part(&s, i, 500);
			flush(&s);
		}
		finish(&s);
	}
	look(&seen, true);
	unsigned files = seen.files;
	assert_true(files >= 4 && seen.first == 1 && seen.complete == files);
	for (size_t i = 0; i < 4; i++) {
		snprintf(file, sizeof(file), "%s/%s", folder, others[i]);
		FILE *f = fopen(file, "w");
		assert_non_null(f);
		fclose(f);
		utimensat(AT_FDCWD, file, long_ago, 0);
	}
	for (unsigned i = 1; i < 3; i++) {
		snprintf(file, sizeof(file), "%s/job.%06u.eacgm", folder, i);
		utimensat(AT_FDCWD, file, long_ago, 0);
	}
	begin(&s, &(struct segments_limits){.segment_bytes = 5000, .most_age_ns = 3600000000000});
	put_part(&s, 0, 10);
	finish(&s);
	look(&seen, true);
	assert_int_equal(seen.files, files - 2 + 1);
	assert_int_equal(seen.first, 3);
	for (size_t i = 0; i < 4; i++) {
		snprintf(file, sizeof(file), "%s/%s", folder, others[i]);
		assert_int_equal(access(file, F_OK), 0);
	}
}

/* Ended without an end, as by a crash: what was flushed is there. */
static void test_crash(void **state)
{
	struct source s;
	struct seen seen;
	(void)state;
	begin(&s, &(struct segments_limits){.segment_bytes = 20000});
	for (unsigned i = 0; i < 20; i++) {
		put_part(&s, i, 500);
		flush(&s);
	}
	look(&seen, true);
	assert_int_equal(seen.calls, s.calls);
	assert_int_equal(seen.complete, seen.files - 1);
	finish(&s);
}

static void test_no_length(void **state)
{
	static const struct output_owner nobody;
	struct segments *s;
	struct err e = {""};
	(void)state;
	assert_int_equal(
		segments_open(&s, path, &nobody, &(struct segments_limits){.most_count = 3}, &e),
		-EINVAL);
	assert_int_equal(segments_open(&s, path, &nobody,
				       &(struct segments_limits){.segment_ns = 1, .most_count = 1},
				       &e),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_every_row_is_in_one, empty_folder),
		cmocka_unit_test_teardown(test_count, empty_folder),
		cmocka_unit_test_teardown(test_bytes, empty_folder),
		cmocka_unit_test_teardown(test_age_and_earlier_ones, empty_folder),
		cmocka_unit_test_teardown(test_crash, empty_folder),
		cmocka_unit_test_teardown(test_no_length, empty_folder),
	};
	snprintf(folder, sizeof(folder), "/tmp/segments_test.XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof(path), "%s/job.eacgm", folder);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}

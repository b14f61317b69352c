/* flight_test.c - the trace of the moments before: what a file has and has not, which triggers make
 * one, what is told where it cannot be written, and which files go.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <malloc.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/entity.h"
#include "recording/recording.h"
#include "session/flight.h"
#include "session/session_names.h"

#define MS	   1000000ULL
#define TRIGGER_NS (500 * MS) /* of a clock that has come further: now is no matter */
#define LATER_NS   (5000 * MS)
#define DAY_NS	   (86400 * 1000 * MS)

static char folder[64];
static struct session_names names;
static struct detect_names numbers;
static struct flight *f;
static struct feed_batch b;
static uint32_t strings; /* so far */

struct told {
	unsigned files, failed;
	char path[256], why[256];
	struct err e;
	unsigned joined;
	uint64_t joined_ns;
	char joined_path[256], joined_why[256];
};
static struct told told;

static void joined(void *ctx, const char *path, uint64_t time_ns, const char *why)
{
	struct told *to = ctx;
	to->joined++;
	to->joined_ns = time_ns;
	snprintf(to->joined_path, sizeof(to->joined_path), "%s", path);
	snprintf(to->joined_why, sizeof(to->joined_why), "%s", why);
}

static void written(void *ctx, const char *path, const char *why, const struct err *failed)
{
	struct told *to = ctx;
	to->files += !failed;
	to->failed += failed != NULL;
	snprintf(to->path, sizeof(to->path), "%s", path);
	snprintf(to->why, sizeof(to->why), "%s", why);
	if (failed)
		to->e = *failed;
}

/* 200 ms before and 100 ms after; what o has beside that. */
static void begin_with(struct flight_options o)
{
	snprintf(folder, sizeof(folder), "/tmp/eacgm-flight-XXXXXX");
	assert_non_null(mkdtemp(folder));
	o.folder = o.folder ? o.folder : folder;
	o.window_bytes = o.window_bytes ? o.window_bytes : 16 << 20;
	o.before_ns = 200 * MS;
	o.after_ns = 100 * MS;
	o.written = written;
	o.joined = joined;
	o.ctx = &told;
	told = (struct told){0};
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &numbers);
	f = flight_new(&o);
	strings = 0;
}

static void remove_folder(const char *path)
{
	DIR *dir = opendir(path);
	for (const struct dirent *entry; dir && (entry = readdir(dir));)
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}

static void end(void)
{
	flight_free(f);
	session_names_free(&names);
	remove_folder(folder);
}

/* ---- rows ---- */

static uint32_t text(const char *s)
{
	*vec_push(&b.strings) = (struct feed_string){strings, (uint32_t)b.texts.len};
	buf_add(&b.texts, s, strlen(s) + 1);
	return strings++;
}

/* Whatever a kind, its number and its row. */
#define ADD(members, kind, number, ...)                                                            \
	do {                                                                                       \
		*vec_push(&b.members) = (__VA_ARGS__);                                             \
		*vec_push(&b.numbers[kind]) = (number);                                            \
	} while (0)
#define PUT(members, ...) (*vec_push(&b.members) = (__VA_ARGS__))

/* Hands the batch on and empties it. */
static void pass(uint64_t upto_ns)
{
	const struct session_view v = {.batch = &b, .names = &numbers, .upto_ns = upto_ns};
	b.upto_ns = upto_ns;
	session_names_take(&names, &b);
	flight_batch(f, &v);
	session_names_forget(&names, &b);
	vec_free(&b.strings);
	buf_free(&b.texts);
	for (unsigned kind = 0; kind < ROW_KINDS; kind++)
		vec_free(&b.numbers[kind]);
#define X(number, NAME, stem, members) vec_free(&b.members);
	ROW_TABLES(X)
	ROW_BULKS(X)
#undef X
	b.overruns = 0;
}

static void end_session(void)
{
	const struct feed_batch nothing = {0};
	const struct session_view v = {.batch = &nothing, .names = &numbers};
	flight_end(f, &v);
}

static void meta(const char *key, const char *value)
{
	uint32_t k = text(key);
	PUT(metas, (struct m_meta){k, text(value)});
}

/* A host, two functions with a thread each, a stack of two and one that nobody asks for. */
static void put_names(void)
{
	text("");
	meta("host", "node7");
	meta("collector_cpu_ns", "77");
	meta("start_monotonic_ns", "1");
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t name = text(i ? "aten::linear" : "aten::never");
		ADD(probes, ROW_PROBE, i, (struct m_probe){.name = name, .name_arg = -1});
		ADD(threads, ROW_THREAD, 70 + i, (struct m_thread){.pid = 5, .tid = 100 + i});
		ADD(frames, ROW_FRAME, i, (struct m_frame){.name = text(i ? "train" : "main")});
		ADD(stacks, ROW_STACK, 900 + i, (struct m_stack){i ? 900 : 0, i});
		name = text(i ? "cpu_ratio" : "other_ratio");
		ADD(metrics, ROW_METRIC, i, (struct m_metric){.kind = ENTITY_HOST, .name = name});
	}
	ADD(stacks, ROW_STACK, 902, (struct m_stack){901, 0});
	PUT(processes, (struct m_process){.pid = 5, .start_ns = 10, .comm = text("python")});
	PUT(processes, (struct m_process){.pid = 6, .start_ns = 10, .end_ns = 20});
}

static void call(uint64_t start_ns, uint64_t dur_ns)
{
	PUT(calls, (struct m_call){.start_ns = start_ns,
				   .dur_ns = dur_ns,
				   .probe = 1,
				   .thread = 71,
				   .stack = 901});
}

/* One that cannot be packed. */
static void unlike_call(uint64_t start_ns, uint64_t dur_ns)
{
	static uint64_t dice;
	call(start_ns, dur_ns);
	struct m_call *c = &b.calls.data[b.calls.len - 1];
	for (int i = 0; i < MODEL_MAX_ARGS; i++) {
		dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
		c->args[i] = dice ^ dice >> 29;
	}
}

static struct flight_verdict verdict; /* of the last */

static enum flight_taken trigger(uint64_t time_ns, const char *why)
{
	return flight_trigger(f, &(struct flight_cause){.time_ns = time_ns, .why = why}, &verdict);
}

static enum flight_taken trigger_for(const char *of, uint64_t time_ns)
{
	return flight_trigger(f, &(struct flight_cause){.time_ns = time_ns, .why = of, .of = of},
			      &verdict);
}

static enum flight_taken trigger_of(uint64_t time_ns, uint64_t id, bool is_known)
{
	return flight_trigger(f, &(struct flight_cause){time_ns, "why", id, is_known, .of = NULL},
			      &verdict);
}

static enum flight_taken trigger_again(uint64_t time_ns)
{
	return flight_trigger(
		f,
		&(struct flight_cause){
			.time_ns = time_ns, .why = "again", .of = "whoever", .is_again = true},
		&verdict);
}

/* ---- files ---- */

static struct rec_reader *open_told(void)
{
	struct rec_reader *r = NULL;
	struct err e = {""};
	if (rec_open(&r, told.path, &e))
		fail_msg("%s", e.msg);
	assert_true(rec_tables(r)->complete);
	assert_int_equal(rec_tables(r)->damaged_at, 0);
	return r;
}

static uint64_t meta_number(const struct rec_tables *t, const char *key)
{
	assert_non_null(rec_meta(t, key));
	return strtoull(rec_meta(t, key), NULL, 10);
}

static const char *string_of(const struct rec_tables *t, uint32_t number)
{
	return strtab_get(&t->strings, number, NULL);
}

static unsigned count_files(void)
{
	unsigned n = 0;
	DIR *dir = opendir(folder);
	for (const struct dirent *entry; dir && (entry = readdir(dir));)
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* The only file that told.path does not name is told then. */
static void tell_other(void)
{
	char other[NAME_MAX + 1] = "";
	DIR *dir = opendir(folder);
	char *name = strrchr(told.path, '/') + 1;
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, name) != 0)
			snprintf(other, sizeof(other), "%s", entry->d_name);
	closedir(dir);
	assert_true(strlen(other) && strlen(other) <= strlen(name));
	strcpy(name, other);
}

static void make_file(const char *name, size_t bytes)
{
	char *path = xasprintf("%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	close(fd);
	free(path);
}

static bool is_there(const char *name)
{
	struct stat st;
	char *path = xasprintf("%s/%s", folder, name);
	bool ret = !lstat(path, &st);
	free(path);
	return ret;
}

/* ---- cases ---- */

static void a_file_has_the_rows_around_its_trigger(void **state)
{
	(void)state;
	begin_with((struct flight_options){0});
	put_names();
	call(100 * MS, 199 * MS); /* before */
	call(100 * MS, 201 * MS); /* reaches in */
	call(450 * MS, 5);
	call(599 * MS, 100 * MS); /* reaches out */
	call(601 * MS, 1);	  /* after */
	PUT(counters, (struct m_counter){299 * MS, 0, 1});
	PUT(counters, (struct m_counter){400 * MS, 1, 0.5});
	PUT(waits, (struct m_wait){.start_ns = 1, .end_ns = 700 * MS, .thread = 71});
	PUT(waits, (struct m_wait){.start_ns = 1, .end_ns = 299 * MS, .thread = 70});
	PUT(samples, (struct m_sample){.time_ns = 500 * MS, .thread = 71, .stack = 901});
	PUT(events, (struct m_event){299 * MS, text("gpu 0"), text("early"), 0});
	pass(700 * MS);
	trigger(TRIGGER_NS, "torch is slow");
	pass(LATER_NS);
	end_session();
	assert_int_equal(told.files, 1);
	assert_string_equal(told.why, "torch is slow");
	struct rec_reader *r = open_told();
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->calls, 3);
	assert_int_equal(t->counters, 1);
	assert_int_equal(t->waits, 1);
	assert_int_equal(t->samples, 1);
	assert_int_equal(t->processes.len, 1);
	assert_int_equal(t->processes.data[0].start_ns, 300 * MS);
	assert_true(t->processes.data[0].joined);
	assert_string_equal(string_of(t, t->processes.data[0].comm), "python");
	assert_int_equal(t->events.len, 1);
	assert_int_equal(t->events.data[0].time_ns, TRIGGER_NS);
	assert_string_equal(string_of(t, t->events.data[0].entity), "eacgm");
	assert_string_equal(string_of(t, t->events.data[0].name), "freeze");
	assert_string_equal(string_of(t, t->events.data[0].text), "torch is slow");
	rec_close(r);
	end();
}

static void numbers_mean_what_they_meant(void **state)
{
	(void)state;
	begin_with((struct flight_options){0});
	put_names();
	call(450 * MS, 5);
	PUT(counters, (struct m_counter){400 * MS, 1, 0.5});
	pass(700 * MS);
	trigger(TRIGGER_NS, "why");
	end_session();
	struct rec_reader *r = open_told();
	const struct rec_tables *t = rec_tables(r);
	struct m_calls calls = {0};
	struct err e = {""};
	assert_int_equal(rec_read_calls(r, 0, &calls, &e), 0);
	const struct m_call *c = calls.rows;
	assert_int_equal(c->start_ns, 450 * MS);
	assert_string_equal(string_of(t, t->probes.data[c->probe].name), "aten::linear");
	assert_int_equal(t->threads.data[c->thread].tid, 101);
	const struct m_stack *s = &t->stacks.data[c->stack];
	assert_string_equal(string_of(t, t->frames.data[s->frame].name), "train");
	s = &t->stacks.data[s->parent];
	assert_string_equal(string_of(t, t->frames.data[s->frame].name), "main");
	assert_int_equal(s->parent, 0);
	assert_string_equal(string_of(t, t->metrics.data[0].name), "cpu_ratio");
	/* what no row needs is not there */
	assert_int_equal(t->probes.len, 1);
	assert_int_equal(t->threads.len, 1);
	assert_int_equal(t->stacks.len, 3);
	assert_int_equal(t->metrics.len, 1);
	uint32_t number;
	assert_false(strtab_find(&t->strings, "aten::never", 11, &number));
	m_calls_free(&calls);
	rec_close(r);
	end();
}

/* What was told while it went on is replaced by what is told at its end: it is none of the file's.
 */
static void what_had_ended_is_in_no_later_file(void **state)
{
	(void)state;
	begin_with((struct flight_options){0});
	put_names();
	call(450 * MS, 5);
	struct m_anomaly a = {.id = 1, .start_ns = 10 * MS, .end_ns = 50 * MS};
	struct m_incident in = {
		.id = 1, .onset_ns = 10 * MS, .end_ns = 50 * MS, .told_ns = 20 * MS};
	PUT(anomalies, a);
	PUT(incidents, in);
	a.id = in.id = 2; /* goes on */
	PUT(anomalies, a);
	PUT(incidents, in);
	a.id = in.id = 1;
	a.ended = in.ended = true;
	PUT(anomalies, a);
	PUT(incidents, in);
	pass(700 * MS);
	trigger(TRIGGER_NS, "why");
	end_session();
	struct rec_reader *r = open_told();
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->anomalies.len, 1);
	assert_int_equal(t->anomalies.data[0].id, 2);
	assert_int_equal(t->incidents.len, 1);
	assert_int_equal(t->incidents.data[0].id, 2);
	rec_close(r);
	end();
}

static void a_file_says_what_it_is_of(void **state)
{
	(void)state;
	begin_with((struct flight_options){0});
	put_names();
	call(450 * MS, 5);
	pass(700 * MS);
	trigger(TRIGGER_NS, "why");
	end_session();
	struct rec_reader *r = open_told();
	const struct rec_tables *t = rec_tables(r);
	assert_string_equal(rec_meta(t, "host"), "node7");
	assert_string_equal(rec_meta(t, "frozen_why"), "why");
	assert_null(rec_meta(t, "frozen_id"));
	assert_int_equal(meta_number(t, "frozen_at_ns"), TRIGGER_NS);
	assert_int_equal(meta_number(t, "frozen_from_ns"), 300 * MS);
	assert_int_equal(meta_number(t, "frozen_triggers"), 1);
	assert_int_equal(meta_number(t, "start_monotonic_ns"), 300 * MS);
	assert_int_equal(meta_number(t, "end_monotonic_ns"), 600 * MS);
	assert_int_equal(meta_number(t, "start_realtime_ns"),
			 meta_number(t, "realtime_offset_ns") + 300 * MS);
	assert_null(rec_meta(t, "collector_cpu_ns")); /* of all the session */
	rec_close(r);
	struct stat st;
	assert_int_equal(strlen(strrchr(told.path, '/')),
			 strlen("/freeze-20260101T000000Z-1.eacgm"));
	assert_int_equal(lstat(told.path, &st), 0);
	end();
}

/* Rows that there is no room for. */
static void what_is_not_whole_is_told(void **state)
{
	(void)state;
	begin_with((struct flight_options){.window_bytes = 1 << 20});
	put_names();
	for (uint64_t i = 0; i < 60000; i++) /* 5 MB of the time from 290 ms on */
		unlike_call(290 * MS + i * 3000, 10);
	pass(700 * MS);
	trigger(TRIGGER_NS, "why");
	end_session();
	struct rec_reader *r = open_told();
	const struct rec_tables *t = rec_tables(r);
	uint64_t from_ns = meta_number(t, "frozen_from_ns");
	assert_true(from_ns > 400 * MS && from_ns < 470 * MS);
	/* all that ended later is there */
	struct m_calls calls = {0};
	struct err e = {""};
	uint64_t later = 0;
	for (size_t k = 0; k < rec_call_blocks(r); k++) {
		assert_int_equal(rec_read_calls(r, k, &calls, &e), 0);
		for (size_t i = 0; i < calls.len; i++)
			later += calls.rows[i].start_ns + 10 > from_ns;
	}
	assert_int_equal(later, 60000 - (from_ns - 10 - 290 * MS) / 3000 - 1);
	m_calls_free(&calls);
	rec_close(r);
	end();
}

static size_t bytes_in_use(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

/* Of 38 MB of rows few are as they were, though the window has room for them. Where malloc does not
 * count (sanitizers), nothing is compared. */
static void rows_are_packed_before_the_window_is_full(void **state)
{
	(void)state;
	begin_with((struct flight_options){.window_bytes = 64 << 20});
	put_names();
	pass(200 * MS);
	size_t before = bytes_in_use();
	for (uint64_t i = 0; i < 400000; i++) {
		call(300 * MS + i * 1000, 10);
		if (i % 4000 == 3999)
			pass(300 * MS + i * 1000);
	}
	assert_true(bytes_in_use() < before + (12 << 20));
	end_session();
	end();
}

/* The same of rows that can be packed: it has all of its time. */
static void rows_that_are_alike_are_kept_for_longer(void **state)
{
	(void)state;
	begin_with((struct flight_options){.window_bytes = 1 << 20});
	put_names();
	for (uint64_t i = 0; i < 60000; i++)
		call(290 * MS + i * 3000, 10);
	pass(700 * MS);
	trigger(TRIGGER_NS, "why");
	end_session();
	struct rec_reader *r = open_told();
	assert_int_equal(meta_number(rec_tables(r), "frozen_from_ns"), 300 * MS);
	assert_int_equal(rec_tables(r)->calls, 60000 - 10 * MS / 3000 - 1); /* those of 300 ms on */
	rec_close(r);
	end();
}

/* Rows come faster than there is room for: the file ends earlier, and begins where it would have.
 */
static void what_comes_after_does_not_drive_out_what_was_before(void **state)
{
	(void)state;
	begin_with((struct flight_options){.window_bytes = 1 << 20});
	put_names();
	for (uint64_t i = 0; i < 20000; i++)
		unlike_call(300 * MS + i * 10000, 10);
	pass(500 * MS);
	trigger(TRIGGER_NS, "why");
	for (uint64_t i = 0; i < 60000; i++) {
		unlike_call(500 * MS + i * 1000, 10);
		if (i % 1000 == 999)
			pass(500 * MS + i * 1000);
	}
	end_session();
	struct rec_reader *r = open_told();
	const struct rec_tables *t = rec_tables(r);
	uint64_t from_ns = meta_number(t, "frozen_from_ns"), to_ns;
	assert_true(from_ns > 350 * MS && from_ns < 385 * MS);
	to_ns = meta_number(t, "end_monotonic_ns");
	assert_true(to_ns > 508 * MS && to_ns < 520 * MS);
	assert_true(t->calls > 15000);
	rec_close(r);
	end();
}

/* What was lost before is not this file's. */
static void losses_of_its_time_are_told(void **state)
{
	(void)state;
	begin_with((struct flight_options){0});
	put_names();
	uint32_t cause = text("ring_full");
	PUT(losses, (struct m_loss){cause, 0, 40});
	pass(200 * MS);
	call(350 * MS, 5); /* stays, where a gap is behind it */
	PUT(losses, (struct m_loss){cause, 0, 45});
	PUT(losses, (struct m_loss){cause, 1, 2});
	b.overruns = 9;
	pass(400 * MS);
	call(450 * MS, 5);
	pass(480 * MS);
	trigger(TRIGGER_NS, "why");
	pass(600 * MS);
	end_session();
	struct rec_reader *r = open_told();
	const struct rec_tables *t = rec_tables(r);
	uint64_t lost = 0, overran = 0;
	for (size_t i = 0; i < t->losses.len; i++) {
		const struct m_loss *l = &t->losses.data[i];
		lost += strcmp(string_of(t, l->cause), "ring_full") ? 0 : l->count;
		overran += strcmp(string_of(t, l->cause), "live_full") ? 0 : l->count;
	}
	assert_int_equal(lost, 7);
	assert_int_equal(overran, 9);
	assert_int_equal(t->calls, 2);
	assert_int_equal(meta_number(t, "frozen_from_ns"), 480 * MS); /* the batch behind it */
	rec_close(r);
	end();
}

static void coverage(uint64_t on_ms, uint64_t off_ms, uint32_t changes)
{
	PUT(coverages, (struct m_coverage){.probe = 1,
					   .on_ns = on_ms * MS,
					   .off_ns = off_ms * MS,
					   .changes = changes,
					   .in_bursts = 1});
}

/* The file is of 300 to 600 ms. */
static void what_was_off_is_told(void **state)
{
	(void)state;
	begin_with((struct flight_options){0});
	put_names();
	coverage(100, 100, 1);
	PUT(windows, (struct m_window){.start_ns = 100 * MS, .end_ns = 200 * MS});
	pass(250 * MS);
	call(400 * MS, MS);
	PUT(windows, (struct m_window){.start_ns = 390 * MS, .end_ns = 420 * MS});
	coverage(130, 370, 3);
	pass(550 * MS);
	trigger(TRIGGER_NS, "a test");
	pass(LATER_NS);
	end_session();
	struct rec_reader *r = open_told();
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->windows.len, 3);
	assert_int_equal(t->windows.data[0].end_ns - t->windows.data[0].start_ns, 0);
	assert_int_equal(t->windows.data[1].end_ns - t->windows.data[1].start_ns, 30 * MS);
	assert_int_equal(t->windows.data[2].start_ns - t->windows.data[0].start_ns, 300 * MS);
	assert_int_equal(t->coverages.len, 1);
	const struct m_coverage *c = &t->coverages.data[0];
	assert_string_equal(string_of(t, t->probes.data[c->probe].name), "aten::linear");
	assert_int_equal(c->on_ns, 30 * MS);
	assert_int_equal(c->off_ns, 270 * MS);
	assert_int_equal(c->changes, 2);
	rec_close(r);
	end();
}

/* The first file is of 200 to 500 ms. */
static void what_lies_in_a_files_time_belongs_to_it(void **state)
{
	(void)state;
	struct flight_stats st;
	begin_with((struct flight_options){.least_apart_ns = 10 * MS});
	put_names();
	pass(450 * MS);
	assert_int_equal(trigger(400 * MS, "first"), FLIGHT_OWN);
	assert_int_equal(trigger(450 * MS, "second"), FLIGHT_JOINS);
	assert_int_equal(trigger_for("job b", 230 * MS), FLIGHT_JOINS); /* whosever it is */
	assert_int_equal(trigger_again(390 * MS), FLIGHT_JOINS);
	assert_int_equal(trigger(510 * MS, "a file of its own"), FLIGHT_OWN);
	assert_int_equal(told.joined, 0);
	pass(LATER_NS);
	pass(LATER_NS);
	end_session();
	flight_stats(f, &st);
	assert_int_equal(st.triggers, 4);
	assert_int_equal(st.joined, 2);
	assert_int_equal(st.files, 2);
	assert_int_equal(count_files(), 2);
	assert_string_equal(told.why, "a file of its own");
	assert_int_equal(told.joined, 2);
	assert_string_equal(told.joined_why, "job b");
	assert_int_equal(told.joined_ns, 230 * MS);
	tell_other();
	assert_string_equal(told.joined_path, told.path);
	struct rec_reader *r = open_told();
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->events.len, 4);
	assert_string_equal(string_of(t, t->events.data[1].text), "second");
	assert_string_equal(rec_meta(t, "frozen_why"), "first");
	assert_int_equal(meta_number(t, "frozen_triggers"), 3);
	rec_close(r);
	assert_int_equal(trigger_for("job b", 250 * MS), FLIGHT_LATE);
	assert_string_equal(verdict.file, strrchr(told.path, '/') + 1);
	assert_int_equal(trigger_again(400 * MS), FLIGHT_LATE);
	flight_stats(f, &st);
	assert_int_equal(st.joined, 3);
	assert_int_equal(st.held_off, 0);
	end();
}

static void what_is_near_another_of_the_same_is_held_off(void **state)
{
	(void)state;
	struct flight_stats st;
	begin_with((struct flight_options){.least_apart_ns = 300 * MS});
	put_names();
	pass(450 * MS);
	assert_int_equal(trigger_for("job a", 400 * MS), FLIGHT_OWN);
	assert_int_equal(trigger_for("job a", 650 * MS), FLIGHT_HELD_OFF);
	assert_int_equal(verdict.hold, FLIGHT_HOLD_SAME);
	assert_int_equal(verdict.time_ns, 650 * MS);
	assert_int_equal(verdict.near_ns, 400 * MS);
	assert_int_equal(verdict.next_ns, 700 * MS);
	assert_string_equal(verdict.file, ""); /* there is none yet */
	trigger_again(690 * MS);	       /* makes none either, and does not count */
	assert_int_equal(trigger_for("job b", 650 * MS), FLIGHT_OWN);	/* nobody else is */
	assert_int_equal(trigger_for("job a", 640 * MS), FLIGHT_JOINS); /* and that has it */
	assert_int_equal(trigger_for("job a", 760 * MS), FLIGHT_OWN);
	end_session();
	assert_int_equal(trigger_for("job a", 1000 * MS), FLIGHT_HELD_OFF);
	assert_string_equal(verdict.file, strrchr(told.path, '/') + 1);
	assert_int_equal(verdict.next_ns, 1060 * MS);
	flight_stats(f, &st);
	assert_int_equal(st.files, 3);
	assert_int_equal(st.held_off, 2);
	end();
}

/* Two may stay. */
static void a_file_drives_out_none_as_young(void **state)
{
	(void)state;
	begin_with((struct flight_options){.least_apart_ns = 1000 * MS, .most_files = 2});
	put_names();
	assert_int_equal(trigger_for("job a", 400 * MS), FLIGHT_OWN);
	assert_int_equal(trigger_for("job b", 700 * MS), FLIGHT_OWN);
	assert_int_equal(trigger_for("job c", 1000 * MS), FLIGHT_HELD_OFF);
	assert_int_equal(verdict.hold, FLIGHT_HOLD_MANY);
	assert_int_equal(verdict.next_ns, 1400 * MS);
	assert_int_equal(trigger_for("job c", 1450 * MS), FLIGHT_OWN);
	end_session();
	assert_int_equal(count_files(), 2);
	end();
}

/* For who has all calls recorded until then. */
static void it_says_until_when_rows_are_wanted(void **state)
{
	(void)state;
	begin_with((struct flight_options){.least_apart_ns = 80 * MS});
	put_names();
	pass(450 * MS);
	assert_int_equal(flight_until_ns(f), 0);
	trigger(400 * MS, "first");
	assert_int_equal(flight_until_ns(f), 500 * MS);
	trigger(590 * MS, "a file of its own");
	trigger(450 * MS, "of the first or the second");
	assert_int_equal(flight_until_ns(f), 690 * MS);
	end_session();
	assert_int_equal(flight_until_ns(f), 0);
	end();
}

/* Of those that others know the smallest is. */
static void a_file_has_the_id_that_others_know(void **state)
{
	(void)state;
	begin_with((struct flight_options){.least_apart_ns = 80 * MS});
	put_names();
	pass(450 * MS);
	assert_int_equal(trigger_of(400 * MS, 0x70, false), FLIGHT_OWN);
	assert_int_equal(trigger_of(410 * MS, 0x10, false), FLIGHT_JOINS); /* nobody was told */
	assert_int_equal(trigger_of(420 * MS, 0x20, true), FLIGHT_JOINS);
	assert_int_equal(trigger_of(420 * MS, 0x30, true), FLIGHT_JOINS);
	assert_int_equal(trigger_of(420 * MS, 0, true), FLIGHT_JOINS);
	end_session();
	assert_int_equal(trigger_of(430 * MS, 0x01, true), FLIGHT_LATE);
	assert_int_equal(told.files, 1);
	assert_non_null(strstr(told.path, "Z-1-0000000000000020.eacgm"));
	struct rec_reader *r = open_told();
	assert_string_equal(rec_meta(rec_tables(r), "frozen_id"), "0000000000000020");
	rec_close(r);
	struct flight_found found[2];
	uint64_t bytes;
	assert_int_equal(flight_files(f, found, 2), 1);
	assert_string_equal(found[0].name, strrchr(told.path, '/') + 1);
	int fd = flight_files_open(f, found[0].name, &bytes);
	assert_true(fd >= 0 && bytes == found[0].bytes);
	close(fd);
	end();
}

static void no_more_wait_than_there_is_room_for(void **state)
{
	(void)state;
	struct flight_stats st;
	begin_with((struct flight_options){0});
	put_names();
	for (unsigned i = 0; i < 1000; i++)
		trigger((100 + i % 40 * 310) * MS, "again");
	pass(450 * MS);
	end_session();
	flight_stats(f, &st);
	assert_int_equal(st.triggers, 1000);
	assert_int_equal(st.files + st.joined + st.held_off, 1000);
	assert_true(st.files < 20 && st.held_off > 700);
	assert_int_equal(trigger(13000 * MS, "once they are written"), FLIGHT_OWN);
	end();
}

static void the_end_writes_what_waits(void **state)
{
	(void)state;
	begin_with((struct flight_options){0});
	put_names();
	call(450 * MS, 5);
	pass(510 * MS);
	trigger(TRIGGER_NS, "at the end");
	assert_int_equal(told.files, 0);
	end_session();
	assert_int_equal(told.files, 1);
	struct rec_reader *r = open_told();
	assert_int_equal(meta_number(rec_tables(r), "end_monotonic_ns"), 510 * MS);
	rec_close(r);
	end();
}

/* Nobody can make a folder below a file. */
static void what_cannot_be_written_is_told(void **state)
{
	(void)state;
	struct flight_stats st;
	begin_with((struct flight_options){.folder = "/proc/version/traces"});
	put_names();
	call(450 * MS, 5);
	pass(510 * MS);
	trigger(400 * MS, "why");
	trigger(550 * MS, "why");
	pass(LATER_NS);
	end_session();
	flight_stats(f, &st);
	assert_int_equal(st.failed, 2);
	assert_int_equal(told.failed, 2);
	assert_int_equal(told.files, 0);
	assert_non_null(strstr(told.e.msg, "cannot write '/proc/version/traces/freeze-"));
	assert_null(strchr(told.e.msg, '\n'));
	end();
}

static void the_folder_is_made(void **state)
{
	(void)state;
	struct stat st;
	char below[] = "/tmp/eacgm-flight-XXXXXX";
	assert_non_null(mkdtemp(below));
	remove_folder(below);
	begin_with((struct flight_options){.folder = below});
	put_names();
	pass(510 * MS);
	trigger(TRIGGER_NS, "why");
	end_session();
	assert_int_equal(told.files, 1);
	assert_int_equal(lstat(below, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	remove_folder(below);
	end();
}

static void freeze_one(void)
{
	put_names();
	call(450 * MS, 5);
	pass(510 * MS);
	trigger(TRIGGER_NS, "why");
	end_session();
	assert_int_equal(told.files, 1);
}

static void the_oldest_files_go_by_count(void **state)
{
	(void)state;
	begin_with((struct flight_options){.most_files = 3});
	make_file("freeze-20200101T000000Z-1.eacgm", 1);
	make_file("freeze-20200101T000000Z-2.eacgm", 1);
	make_file("freeze-20200101T000000Z-10.eacgm", 1);
	make_file("freeze-20190101T000000Z-3.eacgm", 1);
	freeze_one();
	assert_int_equal(count_files(), 3);
	assert_true(is_there("freeze-20200101T000000Z-2.eacgm"));
	assert_true(is_there("freeze-20200101T000000Z-10.eacgm"));
	end();
}

static void the_oldest_files_go_by_bytes(void **state)
{
	(void)state;
	begin_with((struct flight_options){.most_bytes = 1 << 20});
	make_file("freeze-20200101T000000Z-1.eacgm", 600 << 10);
	make_file("freeze-20200102T000000Z-1.eacgm", 600 << 10);
	make_file("freeze-20200103T000000Z-1.eacgm", 500 << 10);
	freeze_one();
	assert_int_equal(count_files(), 2);
	assert_true(is_there("freeze-20200103T000000Z-1.eacgm"));
	end();
}

static const char *name_days_ago(char name[64], unsigned days)
{
	const time_t then = time(NULL) - days * 86400;
	struct tm utc;
	assert_int_not_equal(
		strftime(name, 64, "freeze-%Y%m%dT%H%M%SZ-1.eacgm", gmtime_r(&then, &utc)), 0);
	return name;
}

/* By their names: when they were written does not count. */
static void the_oldest_files_go_by_age(void **state)
{
	(void)state;
	char older[64], younger[64];
	begin_with((struct flight_options){.most_age_ns = 10 * DAY_NS});
	make_file("freeze-20200101T000000Z-1.eacgm", 1);
	make_file(name_days_ago(older, 11), 1);
	make_file(name_days_ago(younger, 9), 1);
	freeze_one();
	assert_int_equal(count_files(), 2);
	assert_true(is_there(younger));
	end();
	begin_with((struct flight_options){0}); /* of any age */
	make_file("freeze-20200101T000000Z-1.eacgm", 1);
	freeze_one();
	assert_int_equal(count_files(), 2);
	end();
}

/* Others have an age from then on. */
static void another_age_holds_for_the_next_file(void **state)
{
	(void)state;
	begin_with((struct flight_options){0});
	make_file("freeze-20200101T000000Z-1.eacgm", 1);
	flight_limit(f, &(struct flight_options){.before_ns = 200 * MS,
						 .after_ns = 100 * MS,
						 .most_age_ns = 10 * DAY_NS});
	freeze_one();
	assert_int_equal(count_files(), 1);
	assert_false(is_there("freeze-20200101T000000Z-1.eacgm"));
	end();
}

/* The new one stays, also where it alone is too much. */
static void the_newest_file_stays(void **state)
{
	(void)state;
	struct stat st;
	begin_with((struct flight_options){.most_bytes = 1, .most_age_ns = 1});
	make_file("freeze-20200101T000000Z-1.eacgm", 1);
	freeze_one();
	assert_int_equal(count_files(), 1);
	assert_int_equal(lstat(told.path, &st), 0);
	end();
}

static void what_is_not_ours_stays(void **state)
{
	(void)state;
	static const char *const others[] = {"freeze-20200101T000000Z-1.eacgm.bak",
					     "freeze-20209901T000000Z-1.eacgm",
					     "freeze-20200101T000000Z-01.eacgm",
					     "freeze-20200101T000000Z-1-0123.eacgm",
					     "freeze-20200101T000000Z-1-0000000000000000.eacgm",
					     "freeze-20200101T000000Z-1-00000000000000AB.eacgm",
					     "xfreeze-20200101T000000Z-1.eacgm",
					     "freeze-20200101T000000Z-1.eacgm.tmp.notours1",
					     "freeze-20200101T000000Z-1.eacgm.tmp.00000001",
					     "run.eacgm"};
	char *link, *target;
	begin_with((struct flight_options){.most_files = 1});
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		make_file(others[i], 1);
	link = xasprintf("%s/freeze-20200102T000000Z-1.eacgm", folder);
	target = xasprintf("%s/run.eacgm", folder);
	assert_int_equal(symlink(target, link), 0);
	freeze_one();
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_true(is_there(others[i]));
	assert_true(is_there("freeze-20200102T000000Z-1.eacgm"));
	free(link);
	free(target);
	end();
}

/* Of one that was killed an hour ago. */
static void half_files_go(void **state)
{
	(void)state;
	static const char name[] = "freeze-20200101T000000Z-1.eacgm.tmp.0123abcd";
	const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
	begin_with((struct flight_options){0});
	make_file(name, 1);
	char *path = xasprintf("%s/%s", folder, name);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	freeze_one();
	assert_false(is_there(name));
	assert_int_equal(count_files(), 1);
	free(path);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_has_the_rows_around_its_trigger),
		cmocka_unit_test(numbers_mean_what_they_meant),
		cmocka_unit_test(what_had_ended_is_in_no_later_file),
		cmocka_unit_test(a_file_says_what_it_is_of),
		cmocka_unit_test(what_is_not_whole_is_told),
		cmocka_unit_test(rows_are_packed_before_the_window_is_full),
		cmocka_unit_test(rows_that_are_alike_are_kept_for_longer),
		cmocka_unit_test(what_comes_after_does_not_drive_out_what_was_before),
		cmocka_unit_test(losses_of_its_time_are_told),
		cmocka_unit_test(what_was_off_is_told),
		cmocka_unit_test(what_lies_in_a_files_time_belongs_to_it),
		cmocka_unit_test(what_is_near_another_of_the_same_is_held_off),
		cmocka_unit_test(a_file_drives_out_none_as_young),
		cmocka_unit_test(it_says_until_when_rows_are_wanted),
		cmocka_unit_test(a_file_has_the_id_that_others_know),
		cmocka_unit_test(no_more_wait_than_there_is_room_for),
		cmocka_unit_test(the_end_writes_what_waits),
		cmocka_unit_test(what_cannot_be_written_is_told),
		cmocka_unit_test(the_folder_is_made),
		cmocka_unit_test(the_oldest_files_go_by_count),
		cmocka_unit_test(the_oldest_files_go_by_bytes),
		cmocka_unit_test(the_oldest_files_go_by_age),
		cmocka_unit_test(another_age_holds_for_the_next_file),
		cmocka_unit_test(the_newest_file_stays),
		cmocka_unit_test(what_is_not_ours_stays),
		cmocka_unit_test(half_files_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* export_test.c - exports of hostile names, and exports that fail or are stopped.
 * links: export recording base golden symbolize */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "golden/counters.h"
#include "base/utf8.h"
#include "export/export.h"
#include "recording/recording.h"
#include "perfetto.pb-c.h"
#include "golden/sample.h"
#include "symbolize/demangle.h"
#include "wire/event.h"

/* Quotes, line breaks, no UTF-8, C0, DEL, C1, and what turns the text around (U+202E). */
#define NASTY	    "a,\"b\"\r\n\xff\xc3\xa9;\x01\x7f\xc2\x9b\xe2\x80\xae"
#define NASTY_CLEAN "a,\"b\"??\xef\xbf\xbd\xc3\xa9;????"

static char folder[] = "/tmp/eacgm-export-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static char *in_folder(const char *name)
{
	return xasprintf("%s/%s", folder, name);
}

static size_t files_in_folder(void)
{
	size_t n = 0;
	DIR *d = opendir(folder);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void remove_file(const char *name)
{
	char *path = in_folder(name);
	assert_int_equal(unlink(path), 0);
	free(path);
}

/* A recording with one call of which every string is nasty. */
static struct rec_reader *nasty_recording(void)
{
	struct rec_writer *w;
	struct rec_reader *r;
	struct err e;
	char *path = in_folder("nasty.eacgm");
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	uint32_t s = rec_string_z(w, NASTY);
	struct m_probe p = {.layer = s, .name = s, .nargs = 6, .name_arg = -1};
	const uint8_t types[] = {ARG_TYPE_STRING, ARG_TYPE_U64,	 ARG_TYPE_I64,
				 ARG_TYPE_PTR,	  ARG_TYPE_BOOL, ARG_TYPE_CODE};
	for (size_t i = 0; i < 6; i++) {
		char name[] = {'a', (char)('0' + i), 0};
		p.arg_names[i] = rec_string_z(w, name);
		p.arg_types[i] = types[i];
	}
	rec_add_probe(w, &p);
	rec_add_code(w, &(struct m_code){s, s, 1});
	rec_put_process(w, &(struct m_process){.pid = 7, .comm = s, .command = s, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){.pid = 7, .tid = 7, .comm = s});
	rec_put_meta(w, "command", NASTY);
	struct m_call c = {.start_ns = 10, .dur_ns = 5, .nargs = 6};
	const uint64_t args[] = {s, UINT64_MAX, UINT64_MAX, UINT64_MAX, 2, 0};
	memcpy(c.args, args, sizeof(args));
	rec_put_calls(w, &c, 1);
	put_counter_of(w, 11, NASTY, NASTY, 0.25);
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	free(path);
	return r;
}

static char *export_text(const struct rec_reader *r, const char *format, size_t *ret_len)
{
	struct err e = {0};
	uint64_t skipped;
	char *path = in_folder("out");
	struct export_options options = {.demangle = demangle};
	if (export_file(rec_source(r), sink_format(format), path, &options, &skipped, &e))
		fail_msg("%s: %s", format, e.msg);
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 100000);
	*ret_len = fread(text, 1, 99999, f);
	fclose(f);
	remove_file("out");
	free(path);
	return text;
}

static void assert_holds(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in: %s", part, text);
}

static void hostile_names(void **state)
{
	(void)state;
	struct rec_reader *r = nasty_recording();
	size_t len;
	char *text = export_text(r, "csv", &len);
	assert_true(utf8_valid(text, len));
	assert_holds(text, "\"a,\"\"b\"\"??\xef\xbf\xbd\xc3\xa9;????\"");
	assert_holds(text, "a1=18446744073709551615;a2=-1;a3=0xffffffffffffffff;a4=true;a5=a,");
	free(text);
	text = export_text(r, "jsonl", &len);
	assert_true(utf8_valid(text, len));
	assert_holds(text, "\"name\":\"a,\\\"b\\\"\\r\\n\xef\xbf\xbd\xc3\xa9;"
			   "\\u0001\\u007f\\u009b\\u202e\"");
	assert_holds(text, "\"a1\":\"18446744073709551615\",\"a2\":-1,"
			   "\"a3\":\"0xffffffffffffffff\",\"a4\":true,\"a5\":\"a,");
	free(text);
	text = export_text(r, "chrome", &len);
	assert_true(utf8_valid(text, len));
	assert_holds(text, "\"thread_name\",\"args\":{\"name\":\"a,\\\"b\\\"");
	free(text);
	text = export_text(r, "perfetto", &len);
	size_t found = 0;
	for (size_t i = 0; i + sizeof(NASTY_CLEAN) <= len; i++) {
		found += !memcmp(text + i, NASTY_CLEAN, sizeof(NASTY_CLEAN) - 1);
		assert_true(memcmp(text + i, NASTY, sizeof(NASTY) - 1));
	}
	/* command line, process, thread, about, category, name, value, counter, code's name */
	assert_true(found >= 8);
	free(text);
	rec_close(r);
	remove_file("nasty.eacgm");
}

/* A softirq with an interrupt in it, and what no kernel tells. */
static struct rec_reader *stalled_recording(void)
{
	struct rec_writer *w;
	struct rec_reader *r;
	struct err e;
	char *path = in_folder("stalled.eacgm");
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	uint32_t packets = rec_string_z(w, "NET_RX"), nasty = rec_string_z(w, NASTY);
	rec_put_process(w, &(struct m_process){.pid = 7, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){.pid = 7, .tid = 8});
	rec_put_stall(w, &(struct m_stall){.start_ns = 100,
					   .end_ns = 300,
					   .own_ns = 150,
					   .number = 3,
					   .name = packets,
					   .cpu = 1,
					   .kind = STALL_SOFTIRQ,
					   .sender_pid = 9,
					   .sender = rec_string_z(w, "flood")});
	rec_put_stall(
		w, &(struct m_stall){.start_ns = 200, .end_ns = 250, .own_ns = 50, .name = nasty});
	rec_put_stall(w, &(struct m_stall){.start_ns = 900,
					   .end_ns = 800,
					   .own_ns = UINT64_MAX,
					   .number = INT32_MIN,
					   .cpu = UINT32_MAX,
					   .kind = UINT8_MAX});
	rec_put_stall(w, &(struct m_stall){.thread = 1}); /* which is not there */
	rec_put_stall_total(w, &(struct m_stall_total){.kind = STALL_SOFTIRQ,
						       .number = 3,
						       .name = packets,
						       .count = 5,
						       .total_ns = 150});
	rec_put_stall_total(w, &(struct m_stall_total){.number = STALL_OTHER_LINES, .count = 6});
	rec_put_stall_total(w, &(struct m_stall_total){.kind = STALL_KINDS});
	rec_put_stall_total(w, &(struct m_stall_total){.thread = 1});
	rec_put_disk_io(w, &(struct m_disk_io){.since_ns = 900,
					       .until_ns = 800,
					       .disk = nasty,
					       .pid = 9,
					       .comm = nasty,
					       .written_bytes = 4096,
					       .longest_ns = UINT64_MAX});
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	free(path);
	return r;
}

static size_t count_of(const char *text, const char *part)
{
	size_t n = 0;
	for (const char *at = text; (at = strstr(at, part)); at++)
		n++;
	return n;
}

static void stalls_and_disks(void **state)
{
	(void)state;
	struct rec_reader *r = stalled_recording();
	size_t len;
	char *text = export_text(r, "jsonl", &len);
	assert_true(utf8_valid(text, len));
	assert_int_equal(count_of(text, "\"type\":\"stall\""), 3);
	assert_int_equal(count_of(text, "\"type\":\"stall_total\""), 2);
	assert_holds(text, "\"tid\":8,\"comm\":\"\",\"kind\":\"softirq\",\"number\":3,"
			   "\"name\":\"NET_RX\",\"start_ns\":100,\"duration_ns\":200,"
			   "\"own_ns\":150,\"cpu\":1,\"sender_pid\":9,\"sender\":\"flood\"}");
	assert_holds(text, "\"kind\":\"interrupt\",\"number\":-2147483648,\"name\":null,"
			   "\"start_ns\":900,\"duration_ns\":0,\"own_ns\":0");
	assert_holds(text, "\"kind\":\"interrupt\",\"number\":null,\"name\":null,\"since_ns\":0,"
			   "\"until_ns\":0,\"count\":6");
	assert_holds(text, "\"type\":\"disk_io\"");
	assert_holds(text, "\"pid\":9,");
	assert_holds(text, "\"since_ns\":900,\"until_ns\":900,");
	assert_holds(text, "\"written_bytes\":4096,");
	free(text);
	text = export_text(r, "perfetto", &len);
	assert_non_null(memmem(text, len, "softirq NET_RX", 14));
	assert_non_null(memmem(text, len, "interrupt " NASTY_CLEAN, 10 + sizeof(NASTY_CLEAN) - 1));
	assert_non_null(memmem(text, len, "taken by the kernel", 19));
	free(text);
	rec_close(r);
	remove_file("stalled.eacgm");
}

static struct rec_reader *sample(void)
{
	struct rec_reader *r;
	struct err e = {0};
	char *path = in_folder("sample.eacgm");
	assert_int_equal(sample_write(path, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	free(path);
	return r;
}

static bool stop_at(void *ctx, uint64_t done, uint64_t total)
{
	assert_true(done <= total);
	return done < *(uint64_t *)ctx;
}

static void stopped_exports_leave_what_was_there(void **state)
{
	(void)state;
	struct rec_reader *r = sample();
	char *path = in_folder("out");
	FILE *f = fopen(path, "w");
	fputs("before", f);
	fclose(f);
	for (uint64_t at = 1; at <= 3; at++) {
		struct err e = {0};
		uint64_t skipped = 99;
		struct export_options o = {.progress = stop_at, .progress_ctx = &at};
		assert_int_equal(export_file(rec_source(r), &sink_perfetto, path, &o, &skipped, &e),
				 -EINTR);
		assert_int_equal(skipped, 99);
		assert_non_null(strstr(e.msg, "stopped"));
		assert_int_equal(files_in_folder(), 2); /* the recording and what was there */
		char text[16] = {0};
		f = fopen(path, "r");
		assert_int_equal(fread(text, 1, sizeof(text), f), 6);
		fclose(f);
		assert_string_equal(text, "before");
	}
	rec_close(r);
	remove_file("out");
	remove_file("sample.eacgm");
	free(path);
}

static void errors_are_told(void **state)
{
	(void)state;
	static const char *const formats[] = {"perfetto", "chrome", "csv", "jsonl"};
	struct rec_reader *r = sample();
	char *nowhere = in_folder("none/out");
	for (size_t i = 0; i < 4; i++) {
		struct err e = {0};
		uint64_t skipped;
		const struct sink_format *format = sink_format(formats[i]);
		assert_int_equal(
			export_file(rec_source(r), format, "/dev/full", NULL, &skipped, &e),
			-ENOSPC);
		assert_string_equal(e.msg, "cannot write '/dev/full': No space left on device");
		assert_int_equal(export_file(rec_source(r), format, nowhere, NULL, &skipped, &e),
				 -ENOENT);
		assert_int_equal(export_file(rec_source(r), format, folder, NULL, &skipped, &e),
				 -EISDIR);
		assert_int_equal(files_in_folder(), 1);
	}
	assert_null(sink_format("html"));
	rec_close(r);
	free(nowhere);
	remove_file("sample.eacgm");
}

/* A recording that begins with a call without arguments: nothing was ever put into the room
 * that arguments are written into. */
static void calls_without_arguments(void **state)
{
	(void)state;
	static const char *const formats[] = {"perfetto", "chrome", "csv", "jsonl"};
	struct rec_writer *w;
	struct rec_reader *r;
	struct err e;
	char *path = in_folder("bare.eacgm");
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	uint32_t s = rec_string_z(w, "f");
	rec_add_probe(w, &(struct m_probe){.layer = s, .name = s, .name_arg = -1});
	rec_put_process(w, &(struct m_process){.pid = 7, .comm = s, .command = s, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){.pid = 7, .tid = 7, .comm = s});
	rec_put_calls(w, &(struct m_call){.start_ns = 10, .dur_ns = 5}, 1);
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	for (size_t i = 0; i < 4; i++) {
		size_t len;
		char *text = export_text(r, formats[i], &len);
		assert_true(len > 0);
		if (!strcmp(formats[i], "csv"))
			assert_holds(text, "call,10,5,7,7,f,f,f,,,0,,,,\r\n");
		free(text);
	}
	rec_close(r);
	free(path);
	remove_file("bare.eacgm");
}

static const char kernel_name[] = "_ZN2at6native3addIfEEvPT_";

/* Work of streams that overlaps: 20 kernels that all run at once, then two of another stream, the
 * first of which ends when the second begins; in no order. */
static struct rec_reader *overlapping_recording(void)
{
	struct rec_writer *w;
	struct rec_reader *r;
	struct err e;
	char *path = in_folder("overlap.eacgm");
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	struct m_gpu_span s = {.pid = 7, .name = rec_string_z(w, kernel_name)};
	for (uint64_t i = 0; i < 20; i++) {
		s.start_ns = 1000 + (i * 7) % 20;
		s.end_ns = 2000 + i;
		rec_put_gpu_span(w, &s);
	}
	s.stream = 9;
	s.start_ns = 5000;
	s.end_ns = 6000;
	rec_put_gpu_span(w, &s);
	s.start_ns = 4000;
	s.end_ns = 5000;
	rec_put_gpu_span(w, &s);
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	free(path);
	return r;
}

struct track {
	uint64_t uuid;
	uint64_t now_ns;
	char name[32];
	bool open;
	size_t slices;
};

/* Time does not go back on a track, and a slice ends before the next begins. */
static void check_event(struct track *tracks, size_t n, const Eacgm__TracePacket *p)
{
	const Eacgm__TrackEvent *event = p->track_event;
	struct track *t = tracks;
	while (t < tracks + n && t->uuid != event->track_uuid)
		t++;
	assert_true(t < tracks + n && p->timestamp >= t->now_ns);
	t->now_ns = p->timestamp;
	if (event->type == EACGM__TRACK_EVENT__TYPE__TYPE_INSTANT)
		return;
	assert_true(t->open == (event->type == EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END));
	t->open = !t->open;
	t->slices += t->open;
}

static struct anomaly_slice *add_anomaly(struct anomaly_slices *s, const char *layer,
					 uint64_t start_ns, uint64_t end_ns)
{
	struct anomaly_slice *row = vec_push(&s->rows);
	*row = (struct anomaly_slice){.start_ns = start_ns,
				      .end_ns = end_ns,
				      .layer = xstrdup(layer),
				      .name = xasprintf("%s " NASTY, layer)};
	anomaly_slice_arg(row, "why", NASTY, 0);
	anomaly_slice_arg(row, "p_value", NULL, 0.25);
	anomaly_slice_arg(row, "unknown", NULL, NAN);
	return row;
}

static void check_anomaly(const Eacgm__TrackEvent *event)
{
	assert_non_null(strstr(event->name, " " NASTY_CLEAN));
	assert_string_equal(event->debug_annotations[0]->name, "why");
	assert_string_equal(event->debug_annotations[0]->string_value, NASTY_CLEAN);
	assert_string_equal(event->debug_annotations[1]->name, "p_value");
	assert_true(event->debug_annotations[1]->double_value == 0.25);
}

/* Tracks of a layer below "anomalies"; two that overlap are on two. */
static void anomalies_are_marked(void **state)
{
	(void)state;
	struct rec_reader *r = sample();
	struct err e = {0};
	struct anomaly_slices slices = {0};
	struct track tracks[8] = {0};
	size_t n = 0, begins = 0;
	uint64_t skipped, root = 0;
	add_anomaly(&slices, "cuda", 1000, 2000);
	add_anomaly(&slices, "torch", 1000, 9000);
	assert_int_equal(add_anomaly(&slices, "cuda", 1500, 4000)->args_len, 3);
	add_anomaly(&slices, "cuda", 2000, 3000);
	for (int i = 0; i < 40; i++)
		anomaly_slice_arg(&slices.rows.data[3], "more", NULL, i);
	assert_int_equal(slices.rows.data[3].args_len, ANOMALY_SLICE_ARGS);
	char *path = in_folder("out"), *text = xcalloc(1, 1 << 20);
	const struct export_options options = {.anomalies = &slices};
	assert_int_equal(export_file(rec_source(r), &sink_perfetto, path, &options, &skipped, &e),
			 0);
	FILE *f = fopen(path, "r");
	size_t len = fread(text, 1, 1 << 20, f);
	fclose(f);
	Eacgm__Trace *trace = eacgm__trace__unpack(NULL, len, (uint8_t *)text);
	assert_non_null(trace);
	for (size_t i = 0; i < trace->n_packet; i++) {
		const Eacgm__TrackDescriptor *d = trace->packet[i]->track_descriptor;
		const Eacgm__TrackEvent *event = trace->packet[i]->track_event;
		if (d && d->name && !strcmp(d->name, "anomalies")) {
			root = d->uuid;
		} else if (d && root && d->parent_uuid == root) {
			tracks[n].uuid = d->uuid;
			snprintf(tracks[n++].name, sizeof(tracks[0].name), "%s", d->name);
		} else if (event && n && event->track_uuid > root &&
			   event->track_uuid <= root + n) {
			check_event(tracks, n, trace->packet[i]);
			if (event->type == EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN) {
				check_anomaly(event);
				begins++;
			}
		}
	}
	assert_int_equal(n, 3);
	assert_string_equal(tracks[0].name, "cuda");
	assert_string_equal(tracks[1].name, "torch");
	assert_string_equal(tracks[2].name, "cuda");
	assert_true(tracks[0].slices == 2 && tracks[1].slices == 1 && tracks[2].slices == 1);
	assert_int_equal(begins, 4);
	eacgm__trace__free_unpacked(trace, NULL);
	anomaly_slices_free(&slices);
	free(text);
	free(path);
	rec_close(r);
	remove_file("out");
	remove_file("sample.eacgm");
}

static void work_that_overlaps(void **state)
{
	(void)state;
	struct rec_reader *r = overlapping_recording();
	struct track tracks[64] = {0};
	size_t len, n = 0, lanes[2] = {0}, slices[2] = {0}, names = 0;
	char *text = export_text(r, "perfetto", &len);
	Eacgm__Trace *trace = eacgm__trace__unpack(NULL, len, (uint8_t *)text);
	assert_non_null(trace);
	for (size_t i = 0; i < trace->n_packet; i++) {
		const Eacgm__TracePacket *p = trace->packet[i];
		if (p->track_descriptor) {
			assert_true(n < 64);
			tracks[n].uuid = p->track_descriptor->uuid;
			snprintf(tracks[n++].name, sizeof(tracks[0].name), "%s",
				 p->track_descriptor->name);
		}
		if (p->track_event)
			check_event(tracks, n, p);
		if (p->interned_data && p->interned_data->n_event_names) {
			assert_string_equal(p->interned_data->event_names[0]->name, "add<float>");
			names++;
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (strncmp(tracks[i].name, "stream ", 7) != 0)
			continue;
		bool other = !strcmp(tracks[i].name, "stream 9");
		assert_true(other || !strcmp(tracks[i].name, "stream 0"));
		assert_false(tracks[i].open);
		lanes[other]++;
		slices[other] += tracks[i].slices;
	}
	assert_int_equal(slices[0], 20);
	assert_int_equal(lanes[0], 16);
	assert_int_equal(slices[1], 2);
	assert_int_equal(lanes[1], 1);
	assert_int_equal(names, 1);
	eacgm__trace__free_unpacked(trace, NULL);
	free(text);
	rec_close(r);
	remove_file("overlap.eacgm");
}

/* Ranks by number, then who did most; of a process the main thread, then who did most. */
static void order_of_tracks(void **state)
{
	(void)state;
	static const struct m_process processes[] = {
		{.pid = 10, .rank = -1}, {.pid = 20, .rank = 1},  {.pid = 30, .rank = -1},
		{.pid = 40, .rank = 0},	 {.pid = 30, .rank = -1}, /* it ran another program */
	};
	static const struct m_thread threads[] = {{.pid = 30, .tid = 32}, {.pid = 30, .tid = 31},
						  {.pid = 30, .tid = 30}, {.pid = 10, .tid = 10},
						  {.pid = 30, .tid = 33}, {.pid = 20, .tid = 20}};
	static const uint64_t activity[] = {7, 9, 1, 5, 7, 100};
	static const uint32_t want_processes[] = {3, 1, 4, 0}, want_threads[] = {3, 5, 2, 1, 0, 4};
	struct rec_tables t = {0};
	struct track_order order;
	for (size_t i = 0; i < 5; i++)
		*vec_push(&t.processes) = processes[i];
	for (size_t i = 0; i < 6; i++)
		*vec_push(&t.threads) = threads[i];
	track_order_make(&order, &t, activity);
	assert_int_equal(order.nprocesses, 4);
	assert_int_equal(order.nthreads, 6);
	assert_memory_equal(order.processes, want_processes, sizeof(want_processes));
	assert_memory_equal(order.threads, want_threads, sizeof(want_threads));
	track_order_free(&order);
	vec_free(&t.processes);
	vec_free(&t.threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_of_tracks),
		cmocka_unit_test(hostile_names),
		cmocka_unit_test(stalls_and_disks),
		cmocka_unit_test(calls_without_arguments),
		cmocka_unit_test(work_that_overlaps),
		cmocka_unit_test(anomalies_are_marked),
		cmocka_unit_test(stopped_exports_leave_what_was_there),
		cmocka_unit_test(errors_are_told),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

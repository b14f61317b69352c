/* listeners_test.c - who listens to the pipeline hears of every row that is recorded, dictionaries
 * first; where nothing is kept, no file is made, and threads that have ended, strings and code
 * objects are bounded.
 *
 * links: pipeline recording symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "events/metric.h"
#include "pipeline/pipeline_impl.h"

struct heard {
	struct pipeline *p;
	struct m_probe probe;
	VEC(char *) strings;
	uint32_t rows[ROW_KINDS];
	uint32_t probes, threads, gone, processes, counters, gpus, losses;
	uint32_t thread_rows;  /* indices are smaller */
	uint64_t calls, early; /* calls whose thread or probe had not been told */
	uint64_t dur_ns;
	struct m_metric metric;
	uint32_t metric_number;
	char counter[64];
};

static const char *text_of(const struct heard *h, uint32_t number)
{
	return number < h->strings.len ? h->strings.data[number] : "";
}

static void on_string(void *ctx, uint32_t number, const char *text)
{
	struct heard *h = ctx;
	assert_int_equal(number, h->strings.len);
	*vec_push(&h->strings) = xstrdup(text);
}

static void on_row_gone(void *ctx, enum row_kind kind, uint32_t number)
{
	struct heard *h = ctx;
	assert_int_equal(kind, ROW_THREAD);
	assert_true(number < h->thread_rows);
	h->gone++;
}

static void on_calls(struct heard *h, const struct m_call *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		h->early += rows[i].probe >= h->probes || rows[i].thread >= h->thread_rows;
		h->dur_ns += rows[i].dur_ns;
	}
	h->calls += n;
}

static void on_counter(struct heard *h, const struct m_counter *row)
{
	static const struct strtab none;
	struct entity of = metric_entity(&h->metric, &none);
	char entity[32];
	assert_int_equal(row->metric, h->metric_number);
	entity_text(entity, sizeof(entity), &of);
	snprintf(h->counter, sizeof(h->counter), "%s %s %.1f", entity, text_of(h, h->metric.name),
		 row->value);
	h->counters++;
}

static void on_rows(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	struct heard *h = ctx;
	const union {
		const void *any;
		const struct m_probe *probe;
		const struct m_thread *thread;
		const struct m_process *process;
		const struct m_gpu *gpu;
		const struct m_loss *loss;
		const struct m_metric *metric;
	} row = {rows};
	h->rows[kind] += (uint32_t)n;
	if (kind == ROW_CALL)
		on_calls(h, rows, n);
	else
		assert_int_equal(n, 1);
	if (kind == ROW_COUNTER)
		on_counter(h, rows);
	if (kind == ROW_PROBE) {
		assert_int_equal(number, h->probes);
		h->probe = *row.probe;
		h->probes++;
	} else if (kind == ROW_THREAD) {
		assert_int_equal(row.thread->pid, getpid());
		h->threads++;
		h->thread_rows = number + 1;
	} else if (kind == ROW_PROCESS) {
		h->processes += row.process->pid == (uint32_t)getpid();
	} else if (kind == ROW_GPU) {
		assert_string_equal(text_of(h, row.gpu->name), "NVIDIA H200");
		h->gpus++;
	} else if (kind == ROW_METRIC) {
		h->metric = *row.metric;
		h->metric_number = number;
	} else if (kind == ROW_LOSS) {
		h->losses += (uint32_t)row.loss->count;
	}
}

static void begin(struct heard *h, const char *path, const struct rec_writer_options *options)
{
	struct rec_writer *w;
	struct err e = {""};
	if (rec_writer_open(&w, path, options, &e))
		fail_msg("%s", e.msg);
	*h = (struct heard){.p = pipeline_new(w, "/proc", NULL)};
	pipeline_listen(h->p, &(struct event_listener){.ctx = h,
						       .string = on_string,
						       .rows = on_rows,
						       .row_gone = on_row_gone});
	struct pipeline_probe probe = {
		.layer = "torch",
		.library = "libtorch_cpu.so",
		.symbol = "x",
		.name = (char[]){"aten::mm"},
		.name_arg = -1,
	};
	pipeline_define_probe(h->p, &probe);
}

static void call(struct heard *h, uint32_t tid, uint64_t start_ns)
{
	struct rec_call c = {.kind = REC_CALL,
			     .tgid = (uint32_t)getpid(),
			     .tid = tid,
			     .start_ns = start_ns,
			     .dur_ns = 7};
	pipeline_record(h->p, &c, sizeof(c));
}

static void end(struct heard *h)
{
	struct err e = {""};
	for (size_t i = 0; i < h->strings.len; i++)
		free(h->strings.data[i]);
	vec_free(&h->strings);
	pipeline_unlisten(h->p, h);
	if (pipeline_close(h->p, &e))
		fail_msg("%s", e.msg);
}

static void count_rows(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	uint32_t *counts = ctx;
	(void)number, (void)rows;
	counts[kind] += (uint32_t)n;
}

static void test_rows_are_heard(void **state)
{
	static const enum row_kind once[] = {
		ROW_META,  ROW_NOTE, ROW_EVENT, ROW_WINDOW, ROW_ENUM,	 ROW_CONNECTION, ROW_THREAD,
		ROW_PROBE, ROW_GPU,  ROW_LOSS,	ROW_METRIC, ROW_COUNTER, ROW_ANOMALY};
	static const struct m_anomaly anomaly = {.id = 1, .layer = 1};
	static const char *const texts[] = {"torch"};
	uint32_t other[ROW_KINDS] = {0};
	(void)state;
	char path[64];
	struct heard h;
	snprintf(path, sizeof(path), "/tmp/listeners_test.%d", getpid());
	begin(&h, path, NULL);
	pipeline_counter(h.p, 5, &ENTITY_OF_GPU(0, -1, 0), "power_w", 412.5);
	pipeline_gpu(h.p,
		     &(struct pipeline_gpu){
			     .uuid = "u", .name = "NVIDIA H200", .bus_id = "b", .driver = "d"});
	pipeline_listen(h.p, &(struct event_listener){.ctx = &other, .rows = count_rows});
	pipeline_meta(h.p, "mode", "trace");
	pipeline_note(h.p, "libx.so", "why");
	pipeline_event(h.p, 6, "gpu 0", "xid", "79");
	pipeline_row(h.p, ROW_ANOMALY, &anomaly, texts, 1);
	pipeline_window(h.p, 1, 2);
	pipeline_define_enum(h.p, "dtype", 1, "half", 2);
	pipeline_connection(h.p, &(struct pipeline_connection){
					 .source = "a", .destination = "b", .opener = "x"});
	for (uint32_t i = 0; i < 10; i++)
		call(&h, (uint32_t)getpid(), i);
	pipeline_pass_end(h.p);
	pipeline_loss(h.p, "ring_full", 0, 3);
	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
		assert_int_equal(h.rows[once[i]], 1);
	assert_memory_equal(h.rows, other, sizeof(other));
	pipeline_unlisten(h.p, &other);
	pipeline_loss(h.p, "ring_full", 0, 3);
	assert_int_equal(h.rows[ROW_LOSS], 2);
	assert_int_equal(other[ROW_LOSS], 1);
	assert_int_equal(h.probes, 1);
	assert_string_equal(text_of(&h, h.probe.layer), "torch");
	assert_int_equal(h.threads, 1);
	assert_int_equal(h.processes, 1);
	assert_int_equal(h.calls, 10);
	assert_int_equal(h.dur_ns, 70);
	assert_int_equal(h.early, 0);
	assert_string_equal(h.counter, "gpu 0 power_w 412.5");
	assert_int_equal(h.gpus, 1);
	assert_int_equal(h.losses, 6);
	end(&h);

	/* the recording has the same */
	struct rec_reader *r;
	struct err e = {""};
	if (rec_open(&r, path, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(rec_tables(r)->calls, 10);
	rec_close(r);
	unlink(path);
}

static void test_nothing_is_kept(void **state)
{
	(void)state;
	struct heard h;
	struct pipeline_stats st;
	struct err e = {""};
	begin(&h, NULL, NULL);
	pipeline_counter(h.p, 5, &ENTITY_OF_PID(1), "rss_bytes", 1);
	for (uint32_t pass = 0; pass < 3; pass++) {
		for (uint32_t i = 0; i < 100000; i++)
			call(&h, (uint32_t)getpid(), i);
		pipeline_pass_end(h.p);
		assert_int_equal(pipeline_flush(h.p, &e), 0);
	}
	pipeline_stats(h.p, &st);
	assert_int_equal(st.calls, 300000);
	assert_int_equal(st.bytes, 0);
	assert_int_equal(st.lost, 0);
	assert_int_equal(h.calls, 300000);
	end(&h);
}

/* 100,000 threads that nobody has seen in /proc, one after another. */
static void threads_are_forgotten(bool kept)
{
	struct heard h;
	begin(&h, NULL, NULL);
	if (!kept)
		pipeline_forget_ended(h.p);
	call(&h, (uint32_t)getpid(), 1);
	for (uint32_t i = 0; i < 100000; i++) {
		call(&h, 0x40000000u + i, i);
		if (i % 1000 == 0)
			pipeline_pass_end(h.p);
	}
	pipeline_pass_end(h.p);
	assert_int_equal(h.calls, 100001);
	assert_int_equal(h.early, 0);
	assert_int_equal(h.threads, 100001);
	assert_true(h.gone > 97900); /* two looks have to miss a thread, a thousand apart */
	/* the one that lives was not forgotten: it is not told again */
	call(&h, (uint32_t)getpid(), 2);
	pipeline_pass_end(h.p);
	assert_int_equal(h.threads, 100001);
	end(&h);
}

static bool is_text(const struct heard *h, const char *text)
{
	for (size_t i = 0; i < h->strings.len; i++)
		if (!strcmp(h->strings.data[i], text))
			return true;
	return false;
}

static void texts_are_told(bool kept)
{
	struct heard h;
	begin(&h, NULL, NULL);
	pipeline_forget_ended(h.p);
	if (kept)
		pipeline_keep_texts(h.p);
	pipeline_event(h.p, 5, "gpu 0", "xid", "79: it has fallen off the bus");
	pipeline_connection(
		h.p, &(struct pipeline_connection){{.pid = 1}, "10.0.0.1:1", "10.0.0.2:2", ""});
	pipeline_pass_end(h.p);
	assert_int_equal(h.rows[ROW_EVENT], 1);
	assert_int_equal(is_text(&h, "79: it has fallen off the bus"), kept);
	assert_int_equal(h.rows[ROW_CONNECTION], 1);
	assert_false(is_text(&h, "10.0.0.1:1"));
	end(&h);
}

/* Where nothing is kept, only a listener who asks for them has those of events. */
static void test_texts_are_told(void **state)
{
	(void)state;
	texts_are_told(false);
	texts_are_told(true);
}

static void test_threads_are_forgotten(void **state)
{
	(void)state;
	threads_are_forgotten(false);
	threads_are_forgotten(true);
}

static void task(struct heard *h, uint8_t kind, uint32_t pid, uint64_t time_ns)
{
	struct rec_task r = {.kind = kind, .tgid = pid, .tid = pid, .time_ns = time_ns};
	pipeline_task(h->p, &r);
}

/* A process's number goes to another: of the first one, its main thread is gone as well. */
static void a_number_is_used_again(bool kept)
{
	struct heard h;
	begin(&h, NULL, NULL);
	if (!kept)
		pipeline_forget_ended(h.p);
	for (uint32_t i = 0; i < 5; i++) {
		task(&h, REC_FORK, (uint32_t)getpid(), i * 10 + 1);
		call(&h, (uint32_t)getpid(), i * 10 + 2);
		pipeline_pass_end(h.p);
		task(&h, REC_EXIT, (uint32_t)getpid(), i * 10 + 9);
		pipeline_pass_end(h.p);
	}
	assert_int_equal(h.threads, 5);
	assert_int_equal(h.gone, 4);
	end(&h);
}

static void test_a_number_is_used_again(void **state)
{
	(void)state;
	a_number_is_used_again(false);
	a_number_is_used_again(true);
}

static void test_strings_are_bounded(void **state)
{
	(void)state;
	struct rec_writer *w;
	struct rec_writer_stats st;
	struct err e = {""};
	char text[32];
	if (rec_writer_open(&w, NULL, &(struct rec_writer_options){.max_string_bytes = 100000}, &e))
		fail_msg("%s", e.msg);
	uint32_t first = rec_string_z(w, "range 0");
	for (int i = 0; i < 100000; i++) {
		snprintf(text, sizeof(text), "range %d", i);
		rec_string_z(w, text);
	}
	rec_writer_stats(w, &st);
	assert_true(rec_string_count(w) < 2000);
	assert_int_equal(st.strings_over + rec_string_count(w), 100000 + 2); /* "", "(more)" */
	assert_int_equal(rec_string_z(w, "range 0"), first);
	assert_string_equal(rec_string_get(w, rec_string_z(w, "range 99999")), "(more)");
	assert_int_equal(rec_writer_close(w, false, &e), 0);
}

#define IMPORT	    1 /* probe */
#define IMPORT_TEXT 7

static void on_imports(void *ctx, enum row_kind kind, uint32_t number, const void *calls, size_t n)
{
	struct heard *h = ctx;
	const struct m_call *rows = calls;
	(void)number;
	for (size_t i = 0; i < n && kind == ROW_CALL; i++)
		if (rows[i].nargs)
			h->calls += !strcmp(rec_string_get(h->p->writer, (uint32_t)rows[i].args[0]),
					    "import torch") &&
				    !(rows[i].flags & CALL_ARG_FAULT);
}

static void import(struct heard *h, uint64_t start_ns)
{
	struct rec_call c = {.kind = REC_CALL,
			     .nargs = 1,
			     .probe = IMPORT,
			     .tgid = (uint32_t)getpid(),
			     .tid = (uint32_t)getpid(),
			     .start_ns = start_ns,
			     .args = {IMPORT_TEXT}};
	pipeline_record(h->p, &c, sizeof(c));
	pipeline_pass_end(h->p);
}

/* A string is told once: it keeps its name, however many texts come that no call takes. */
static void test_names_outlast_texts(void **state)
{
	(void)state;
	struct heard h;
	begin(&h, NULL, NULL);
	pipeline_unlisten(h.p, &h);
	pipeline_listen(h.p, &(struct event_listener){.ctx = &h, .rows = on_imports});
	pipeline_forget_ended(h.p);
	struct pipeline_probe probe = {.id = IMPORT,
				       .layer = "python",
				       .library = "libpython3.so",
				       .symbol = "import",
				       .name = (char[]){"import {name}"},
				       .nargs = 1,
				       .arg_names = {"name"},
				       .arg_types = {ARG_TYPE_STRING},
				       .arg_raw = {RAW_STRING}};
	pipeline_define_probe(h.p, &probe);
	struct rec_string s = {
		.kind = REC_STRING, .fetch = FETCH_CSTRING, .len = 5, .id = IMPORT_TEXT};
	memcpy(s.bytes, "torch", 5);
	pipeline_record(h.p, &s, sizeof(s));
	import(&h, 1);
	struct rec_text *t = xcalloc(1, sizeof(*t));
	for (uint32_t i = 0; i < 200000; i++) {
		t->kind = REC_TEXT;
		t->id = 1000 + i;
		t->len = (uint32_t)snprintf((char *)t->bytes, 32, "range %u", i);
		pipeline_record(h.p, t, sizeof(*t));
	}
	free(t);
	pipeline_pass_end(h.p);
	usleep(1100000); /* what is forgotten is looked for once a second */
	pipeline_pass_end(h.p);
	import(&h, 2);
	import(&h, 3);
	assert_int_equal(h.calls, 3);
	end(&h);
}

#define FUNCTION      2 /* probe */
#define FUNCTION_CODE 5

static void on_functions(void *ctx, enum row_kind kind, uint32_t number, const void *calls,
			 size_t n)
{
	struct heard *h = ctx;
	const struct m_call *rows = calls;
	(void)number;
	for (size_t i = 0; i < n && kind == ROW_CALL; i++)
		h->calls +=
			rows[i].nargs && rows[i].args[0] == 0 && !(rows[i].flags & CALL_ARG_FAULT);
}

static void add_code(struct heard *h, uint64_t id, const char *name)
{
	struct rec_pycode *r = xcalloc(1, sizeof(*r));
	*r = (struct rec_pycode){.kind = REC_PYCODE,
				 .id = id,
				 .tgid = (uint32_t)getpid(),
				 .name_state =
					 0x64, /* compact ASCII, as CPython 3.8 to 3.11 have it */
				 .name_len = (uint32_t)strlen(name)};
	memcpy(r->name, name, strlen(name));
	pipeline_record(h->p, r, sizeof(*r));
	free(r);
}

static void function(struct heard *h, uint64_t start_ns)
{
	struct rec_call c = {.kind = REC_CALL,
			     .nargs = 1,
			     .probe = FUNCTION,
			     .tgid = (uint32_t)getpid(),
			     .tid = (uint32_t)getpid(),
			     .start_ns = start_ns,
			     .args = {FUNCTION_CODE}};
	pipeline_record(h->p, &c, sizeof(c));
	pipeline_pass_end(h->p);
}

/* Interpreters that come and go bring their code objects: those that are called keep their name,
 * of the others so many are known. */
static void test_code_is_bounded(void **state)
{
	(void)state;
	struct heard h;
	begin(&h, NULL, NULL);
	pipeline_unlisten(h.p, &h);
	pipeline_listen(h.p, &(struct event_listener){.ctx = &h, .rows = on_functions});
	pipeline_forget_ended(h.p);
	struct pipeline_probe probe = {.id = FUNCTION,
				       .layer = "python",
				       .library = "libpython3.so",
				       .symbol = "eval",
				       .name = (char[]){"function"},
				       .nargs = 1,
				       .arg_names = {"code"},
				       .arg_types = {ARG_TYPE_CODE},
				       .arg_raw = {RAW_CODE}};
	pipeline_define_probe(h.p, &probe);
	add_code(&h, FUNCTION_CODE, "train");
	for (uint32_t i = 0; i < 600000; i++) {
		add_code(&h, 1000 + i, "other");
		if (i % 100000 == 0)
			function(&h, i + 1);
	}
	usleep(1100000); /* what is forgotten is looked for once a second */
	pipeline_pass_end(h.p);
	function(&h, 1000000);
	assert_int_equal(h.calls, 7);
	assert_true(h.p->code_ids.len <= 1 << 18);
	assert_true(h.p->code_at.len <= 1 << 18);
	end(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_heard),
		cmocka_unit_test(test_nothing_is_kept),
		cmocka_unit_test(test_texts_are_told),
		cmocka_unit_test(test_threads_are_forgotten),
		cmocka_unit_test(test_a_number_is_used_again),
		cmocka_unit_test(test_strings_are_bounded),
		cmocka_unit_test(test_names_outlast_texts),
		cmocka_unit_test(test_code_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

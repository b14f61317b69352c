/* tap_test.c - who listens to the pipeline hears of every row that is recorded, dictionaries first;
 * where nothing is kept, no file is made, and threads that have ended, strings and code objects are
 * bounded.
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
#include "pipeline/pipeline_impl.h"

struct heard {
	struct pipeline *p;
	struct m_probe probe;
	uint32_t probes, threads, gone, processes, counters, gpus, losses;
	uint32_t thread_rows;  /* indices are smaller */
	uint64_t calls, early; /* calls whose thread or probe had not been told */
	uint64_t dur_ns;
	char counter[32];
};

static void on_probe(void *ctx, uint32_t number, const struct m_probe *row)
{
	struct heard *h = ctx;
	assert_int_equal(number, h->probes);
	h->probe = *row;
	h->probes++;
}

static void on_thread(void *ctx, uint32_t index, const struct m_thread *row)
{
	struct heard *h = ctx;
	assert_int_equal(row->pid, getpid());
	h->threads++;
	h->thread_rows = index + 1;
}

static void on_thread_gone(void *ctx, uint32_t index)
{
	struct heard *h = ctx;
	assert_true(index < h->thread_rows);
	h->gone++;
}

static void on_process(void *ctx, const struct m_process *row)
{
	struct heard *h = ctx;
	h->processes += row->pid == (uint32_t)getpid();
}

static void on_calls(void *ctx, const struct m_call *rows, size_t n)
{
	struct heard *h = ctx;
	for (size_t i = 0; i < n; i++) {
		h->early += rows[i].probe >= h->probes || rows[i].thread >= h->thread_rows;
		h->dur_ns += rows[i].dur_ns;
	}
	h->calls += n;
}

static void on_counter(void *ctx, const struct m_counter *row)
{
	struct heard *h = ctx;
	snprintf(h->counter, sizeof(h->counter), "%s %s %.1f",
		 pipeline_string_text(h->p, row->entity), pipeline_string_text(h->p, row->name),
		 row->value);
	h->counters++;
}

static void on_gpu(void *ctx, const struct m_gpu *row)
{
	struct heard *h = ctx;
	assert_string_equal(pipeline_string_text(h->p, row->name), "NVIDIA H200");
	h->gpus++;
}

static void on_loss(void *ctx, const struct m_loss *row)
{
	struct heard *h = ctx;
	h->losses += (uint32_t)row->count;
}

static void begin(struct heard *h, const char *path, const struct rec_writer_options *options)
{
	struct rec_writer *w;
	struct err e = {""};
	if (rec_writer_open(&w, path, options, &e))
		fail_msg("%s", e.msg);
	*h = (struct heard){.p = pipeline_new(w, "/proc", NULL)};
	pipeline_set_tap(h->p, &(struct pipeline_tap){
				       .ctx = h,
				       .probe = on_probe,
				       .thread = on_thread,
				       .thread_gone = on_thread_gone,
				       .process = on_process,
				       .gpu = on_gpu,
				       .loss = on_loss,
				       .calls = on_calls,
				       .counter = on_counter,
			       });
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
	if (pipeline_close(h->p, &e))
		fail_msg("%s", e.msg);
}

static void test_rows_are_heard(void **state)
{
	(void)state;
	char path[64];
	struct heard h;
	snprintf(path, sizeof(path), "/tmp/tap_test.%d", getpid());
	begin(&h, path, NULL);
	pipeline_counter(h.p, 5, "gpu 0", "power_w", 412.5);
	pipeline_gpu(h.p,
		     &(struct pipeline_gpu){
			     .uuid = "u", .name = "NVIDIA H200", .bus_id = "b", .driver = "d"});
	for (uint32_t i = 0; i < 10; i++)
		call(&h, (uint32_t)getpid(), i);
	pipeline_pass_end(h.p);
	pipeline_loss(h.p, "ring_full", 0, 3);
	assert_int_equal(h.probes, 1);
	assert_string_equal(pipeline_string_text(h.p, h.probe.layer), "torch");
	assert_int_equal(h.threads, 1);
	assert_int_equal(h.processes, 1);
	assert_int_equal(h.calls, 10);
	assert_int_equal(h.dur_ns, 70);
	assert_int_equal(h.early, 0);
	assert_string_equal(h.counter, "gpu 0 power_w 412.5");
	assert_int_equal(h.gpus, 1);
	assert_int_equal(h.losses, 3);
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
	pipeline_counter(h.p, 5, "pid 1", "rss_bytes", 1);
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

static void on_imports(void *ctx, const struct m_call *rows, size_t n)
{
	struct heard *h = ctx;
	for (size_t i = 0; i < n; i++)
		if (rows[i].nargs)
			h->calls += !strcmp(pipeline_string_text(h->p, (uint32_t)rows[i].args[0]),
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
	pipeline_set_tap(h.p, &(struct pipeline_tap){.ctx = &h, .calls = on_imports});
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

static void on_functions(void *ctx, const struct m_call *rows, size_t n)
{
	struct heard *h = ctx;
	for (size_t i = 0; i < n; i++)
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
	pipeline_set_tap(h.p, &(struct pipeline_tap){.ctx = &h, .calls = on_functions});
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
		cmocka_unit_test(test_threads_are_forgotten),
		cmocka_unit_test(test_a_number_is_used_again),
		cmocka_unit_test(test_strings_are_bounded),
		cmocka_unit_test(test_names_outlast_texts),
		cmocka_unit_test(test_code_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

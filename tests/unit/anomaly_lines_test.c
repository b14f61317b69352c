/* anomaly_lines_test.c - lines of Python inside and outside of anomalies.
 * links: base recording analyze detect incident */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "incident/anomaly_lines.h"
#include "recording/recording.h"

#define MS 1000000ULL

enum { LOAD = 10, FORWARD = 20, LOG = 30, WAIT = 40 };

static char path[] = "/tmp/eacgm-lines-XXXXXX";

static uint32_t frame_of(struct rec_writer *w, uint8_t kind, const char *name, uint32_t line)
{
	return rec_add_frame(w, &(struct m_frame){.kind = kind,
						  .name = rec_string_z(w, name),
						  .file = rec_string_z(w, "train.py"),
						  .line = line});
}

/* main (Python) -> the line -> memcpy (native) */
static uint32_t stack_of(struct rec_writer *w, const char *name, uint32_t line)
{
	uint32_t stack =
		rec_add_stack(w, &(struct m_stack){0, frame_of(w, FRAME_PYTHON, "main", 1)});
	stack = rec_add_stack(w, &(struct m_stack){stack, frame_of(w, FRAME_PYTHON, name, line)});
	return rec_add_stack(w, &(struct m_stack){stack, frame_of(w, FRAME_NATIVE, "memcpy", 0)});
}

/* Two processes for a second, a sample each ms. Process 1 loads for a tenth of its time, from
 * 500 to 600 ms for nine tenths, and computes else; a thread of its waits; process 2 logs, always;
 * every hundredth sample has no stack. */
static struct rec_reader *recording(void)
{
	struct rec_writer *w;
	struct rec_reader *r;
	struct err e = {0};
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	for (uint32_t pid = 1; pid <= 2; pid++) {
		rec_put_process(w, &(struct m_process){.pid = pid, .start_ns = 1});
		rec_add_thread(w, &(struct m_thread){.pid = pid, .tid = pid});
	}
	uint32_t load = stack_of(w, "load", LOAD), forward = stack_of(w, "forward", FORWARD);
	uint32_t log = stack_of(w, "log", LOG), wait = stack_of(w, "wait", WAIT);
	rec_add_thread(w, &(struct m_thread){.pid = 1, .tid = 11});
	for (uint64_t i = 0; i < 1000; i++) {
		bool slow = i >= 500 && i < 600;
		bool loads = slow ? i % 10 != 0 : i % 10 == 0;
		struct m_sample s = {.time_ns = (1000 + i) * MS,
				     .weight_ns = MS,
				     .stack = i % 100 == 99 ? 0
					      : loads	    ? load
							    : forward,
				     .kind = loads ? SAMPLE_OFFCPU : SAMPLE_CPU};
		rec_put_sample(w, &s);
		s.thread = 1;
		s.stack = log;
		rec_put_sample(w, &s);
		/* of a pool, without work: that it waits longer is nobody's loss */
		rec_put_sample(w, &(struct m_sample){.time_ns = s.time_ns,
						     .weight_ns = slow ? 9 * MS : MS,
						     .thread = 2,
						     .stack = wait,
						     .kind = SAMPLE_OFFCPU});
	}
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	unlink(path);
	return r;
}

static void lines_beyond_what_is_usual(void **state)
{
	(void)state;
	struct rec_reader *r = recording();
	struct anomaly_lines all[] = {
		{.start_ns = 1500 * MS, .end_ns = 1600 * MS, .pid = 1},
		{.start_ns = 1550 * MS, .end_ns = 1600 * MS},		/* of all processes */
		{.start_ns = 1500 * MS, .end_ns = 1600 * MS, .pid = 2}, /* as always */
		{.start_ns = 9000 * MS, .end_ns = 9100 * MS, .pid = 1}, /* nothing there */
	};
	anomaly_lines_find(all, 4, rec_source(r));
	/* 90 ms of loading, less the sample without stack; usual 10 ms; forward took less */
	assert_int_equal(all[0].lines_len, 1);
	assert_string_equal(all[0].lines[0].function, "load");
	assert_string_equal(all[0].lines[0].file, "train.py");
	assert_int_equal(all[0].lines[0].line, LOAD);
	assert_true(all[0].lines[0].ns == 89.0 * MS);
	assert_true(all[0].lines[0].usual_ns > 9.9 * MS && all[0].lines[0].usual_ns < 10.1 * MS);
	assert_true(all[1].lines[0].line == LOAD && all[1].lines[0].ns == 44.0 * MS);
	for (uint32_t i = 0; i < all[2].lines_len; i++) {
		assert_int_equal(all[2].lines[i].line, LOG);
		assert_true(all[2].lines[i].ns < 1.01 * all[2].lines[i].usual_ns);
	}
	assert_int_equal(all[3].lines_len, 0);
	rec_close(r);
}

static void none_without_samples(void **state)
{
	(void)state;
	struct rec_writer *w;
	struct rec_reader *r;
	struct err e = {0};
	struct anomaly_lines one = {.start_ns = 1, .end_ns = 2};
	strcpy(path + strlen(path) - 6, "XXXXXX");
	close(mkstemp(path));
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	assert_int_equal(rec_open(&r, path, &e), 0);
	unlink(path);
	anomaly_lines_find(&one, 1, rec_source(r));
	anomaly_lines_find(NULL, 0, rec_source(r));
	assert_int_equal(one.lines_len, 0);
	rec_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_beyond_what_is_usual),
		cmocka_unit_test(none_without_samples),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

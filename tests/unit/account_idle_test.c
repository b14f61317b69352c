/* account_idle_test.c - what the host did while GPUs were idle, from recordings made by hand.
 * links: analyze recording base golden */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "analyze/account_idle.h"
#include "golden/gpu_sample.h"
#include "recording/recording.h"
#include "made_file.h"

#define MS     1000000ULL
#define PERIOD (10 * MS)
#define STREAM 0x70

static struct rec_writer *w;
static struct rec_reader *reader;
static struct timeline timeline;
static struct account_devices devices;
static uint32_t correlation;

/* Threads 0 and 1 of process 7, and its child 8. */
static void create(void)
{
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	gpu_sample_probes(w);
	rec_put_process(w, &(struct m_process){.pid = 7, .parent_pid = 1, .start_ns = 1});
	rec_put_process(w, &(struct m_process){.pid = 8, .parent_pid = 7, .start_ns = 1});
	rec_add_thread(w, &(struct m_thread){7, 7, 0});
	rec_add_thread(w, &(struct m_thread){7, 9, 0});
	correlation = 0;
}

/* A launch, and its kernel. */
static void launch(uint32_t thread, uint64_t ms, uint64_t from_ms, uint64_t to_ms)
{
	uint64_t name = rec_string_z(w, "add");
	GPU_CALL(w, thread, GS_LAUNCH, ms * MS, 1000, name, dim3_pack(1, 1, 1), dim3_pack(32, 1, 1),
		 STREAM);
	correlation++;
	rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = from_ms * MS,
						 .end_ns = to_ms * MS,
						 .pid = 7,
						 .stream = 7,
						 .name = (uint32_t)name,
						 .correlation = correlation});
}

static void wait(uint32_t thread, uint8_t reason, uint64_t from_ms, uint64_t to_ms, uint32_t pid)
{
	rec_put_wait(w, &(struct m_wait){.start_ns = from_ms * MS,
					 .end_ns = to_ms * MS,
					 .thread = thread,
					 .waker_pid = pid,
					 .waker_tid = pid,
					 .reason = reason});
}

static void sample(uint32_t thread, uint64_t ms, uint32_t of)
{
	rec_put_sample(
		w, &(struct m_sample){
			   .time_ns = ms * MS, .weight_ns = PERIOD, .thread = thread, .stack = of});
}

static uint32_t stack_of(uint8_t kind, const char *library)
{
	uint32_t frame = rec_add_frame(
		w, &(struct m_frame){.kind = kind, .library = rec_string_z(w, library)});
	return rec_add_stack(w, &(struct m_stack){0, frame});
}

static const struct account_device *make(const struct account_window *window)
{
	struct err e = {0};
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&timeline, rec_source(reader), &(struct timeline_options){0});
	account_idle_make(&devices, rec_source(reader), &timeline, window, window ? 1 : 0);
	for (size_t i = 0; i < devices.list.len; i++) {
		const struct account_device *d = &devices.list.data[i];
		uint64_t sum_ns = d->own_ns + d->unknown_ns;
		for (int k = 0; k < ACCOUNT_OWNERS; k++)
			sum_ns += d->host_ns[k];
		assert_int_equal(sum_ns, d->idle_ns);
		assert_int_equal(d->busy_ns + d->idle_ns, d->span_ns);
	}
	return devices.list.len ? &devices.list.data[0] : NULL;
}

static void done(void)
{
	account_idle_free(&devices);
	timeline_free(&timeline);
	rec_close(reader);
}

/* Waits are whose they are, the rest of the time was running, by the samples of just that time. */
static void what_the_host_did(void **state)
{
	(void)state;
	create();
	uint32_t python = stack_of(FRAME_PYTHON, "");
	uint32_t torch = stack_of(FRAME_NATIVE, "/x/libtorch_cpu.so");
	launch(0, 90, 100, 200);
	wait(0, WAIT_POLL, 150, 300, 8); /* a child's data: 100 ms of it the GPU is idle */
	wait(0, WAIT_SLEEP, 320, 370, 0);
	sample(0, 190, python); /* it is busy */
	sample(0, 310, torch);
	launch(0, 500, 510, 600);
	const struct account_device *d = make(NULL);
	assert_false(d->in_window);
	assert_int_equal(d->span_ns, 500 * MS);
	assert_int_equal(d->busy_ns, 190 * MS);
	assert_int_equal(d->own_ns, 10 * MS);
	assert_int_equal(d->host_ns[ACCOUNT_DATA], 100 * MS);
	assert_int_equal(d->host_ns[ACCOUNT_SLEEP], 50 * MS);
	assert_int_equal(d->host_ns[ACCOUNT_OPERATORS], 150 * MS);
	done();
}

/* The thread that launches next is the one that is late, whatever others wait for. */
static void another_thread_launches(void **state)
{
	(void)state;
	create();
	launch(0, 90, 100, 200);
	wait(0, WAIT_FUTEX, 200, 400, 7);
	launch(1, 400, 400, 500);
	const struct account_device *d = make(NULL);
	assert_int_equal(d->host_ns[ACCOUNT_LOCK], 0);
	assert_int_equal(d->host_ns[ACCOUNT_CPU], 200 * MS);
	done();
}

/* Only what lies in the loop counts: spans that reach into it, in part. */
static void only_in_the_loop(void **state)
{
	const struct account_window window = {7, 150 * MS, 650 * MS};
	(void)state;
	create();
	launch(0, 10, 10, 20);
	launch(0, 90, 100, 200);
	launch(0, 500, 500, 600);
	launch(0, 900, 900, 990);
	const struct account_device *d = make(&window);
	assert_true(d->in_window);
	assert_int_equal(d->span_ns, 500 * MS);
	assert_int_equal(d->busy_ns, 150 * MS);
	assert_int_equal(d->work_ns, 150 * MS);
	assert_int_equal(d->host_ns[ACCOUNT_CPU], 350 * MS);
	done();
}

/* What nobody launched, as far as is known. */
static void launch_is_not_recorded(void **state)
{
	const struct account_window window = {7, 100 * MS, 400 * MS};
	(void)state;
	create();
	launch(0, 90, 100, 200);
	const struct account_device *d = make(&window);
	assert_int_equal(d->unknown_ns, 200 * MS);
	done();
}

static void no_gpu(void **state)
{
	(void)state;
	create();
	assert_null(make(NULL));
	done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_host_did),
		cmocka_unit_test(another_thread_launches),
		cmocka_unit_test(only_in_the_loop),
		cmocka_unit_test(launch_is_not_recorded),
		cmocka_unit_test(no_gpu),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

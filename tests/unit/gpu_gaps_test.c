/* gpu_gaps_test.c - busy and idle times of devices, reasons of gaps, copies, from recordings made
 * by hand.
 * links: analyze recording base golden */
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

#include "analyze/gpu_gaps.h"
#include "analyze/gpu_transfers.h"
#include "golden/gpu_sample.h"
#include "recording/recording.h"
#include "wire/event.h"
#include "made_file.h"

#define US     1000ULL
#define MS     1000000ULL
#define STREAM 0x70
#define PERIOD (10 * MS)

static struct rec_writer *w;
static struct rec_reader *reader;
static struct timeline timeline;
static struct gpu_gaps gaps;
static uint32_t correlation;

/* Threads 0 and 1 of process 7. */
static void create(void)
{
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	gpu_sample_probes(w);
	rec_add_thread(w, &(struct m_thread){7, 7, 0});
	rec_add_thread(w, &(struct m_thread){7, 9, 0});
	correlation = 0;
}

static void make(void)
{
	struct err e = {0};
	if (rec_writer_close(w, false, &e) || rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&timeline, rec_source(reader), &(struct timeline_options){0});
	gpu_gaps_make(&gaps, rec_source(reader), &timeline);
}

static void done(void)
{
	gpu_gaps_free(&gaps);
	timeline_free(&timeline);
	rec_close(reader);
}

static void span(struct m_gpu_span s, uint64_t from_us, uint64_t to_us)
{
	s.start_ns = from_us * US;
	s.end_ns = to_us * US;
	s.pid = 7;
	s.correlation = ++correlation;
	rec_put_gpu_span(w, &s);
}

/* A launch, and its kernel on stream 7. */
static void launch(uint32_t thread, uint64_t us, uint64_t from_us, uint64_t to_us)
{
	uint64_t name = rec_string_z(w, "add");
	GPU_CALL(w, thread, GS_LAUNCH, us * US, 2 * US, name, dim3_pack(1, 1, 1),
		 dim3_pack(32, 1, 1), STREAM);
	span((struct m_gpu_span){.name = (uint32_t)name, .stream = 7}, from_us, to_us);
}

static void off_cpu(uint32_t thread, uint64_t from_us, uint64_t to_us, uint8_t reason,
		    uint32_t stack)
{
	rec_put_sample(w, &(struct m_sample){.time_ns = to_us * US,
					     .weight_ns = (to_us - from_us) * US,
					     .thread = thread,
					     .stack = stack,
					     .kind = SAMPLE_OFFCPU,
					     .reason = reason});
}

static void on_cpu(uint32_t thread, uint64_t us)
{
	rec_put_sample(
		w, &(struct m_sample){.time_ns = us * US, .weight_ns = PERIOD, .thread = thread});
}

/* Of the gaps of the only device there is one, of that reason and length. */
static void check_gap(enum gap_reason reason, uint64_t us)
{
	assert_int_equal(gaps.devices.len, 1);
	const struct gap_device *d = &gaps.devices.data[0];
	assert_int_equal(d->gaps.len, 1);
	assert_int_equal(d->gaps.data[0].reason, reason);
	assert_int_equal(d->gaps.data[0].count, 1);
	assert_int_equal(d->gaps.data[0].total_ns, us * US);
	assert_int_equal(d->gaps.data[0].max_ns, us * US);
	assert_int_equal(d->gaps.data[0].p50_ns, us * US);
	assert_int_equal(d->idle_ns, us * US);
	assert_int_equal(d->span_ns, d->busy_ns + d->idle_ns);
}

static void host_is_late(void **state)
{
	(void)state;
	create();
	launch(0, 100, 105, 110);
	launch(0, 150, 155, 160);
	make();
	check_gap(GAP_LAUNCH, 45);
	assert_int_equal(gaps.devices.data[0].launch_ns, 5 * US);
	done();
}

static void device_has_its_work(void **state)
{
	(void)state;
	create();
	launch(0, 100, 105, 200);
	launch(0, 110, 203, 210);
	make();
	check_gap(GAP_DISPATCH, 3);
	done();
	create();
	launch(0, 100, 105, 200);
	launch(0, 110, 250, 260);
	make();
	check_gap(GAP_DEPENDENCY, 50);
	done();
	create(); /* always far ahead */
	launch(0, 100, 600, 700);
	launch(0, 300, 800, 900);
	make();
	assert_int_equal(gaps.devices.data[0].launch_ns, 500 * US);
	check_gap(GAP_DEPENDENCY, 100);
	done();
}

static void host_waited_for_the_device(void **state)
{
	(void)state;
	create();
	launch(0, 100, 105, 200);
	GPU_CALL(w, 0, GS_SYNC, 103 * US, 103 * US, STREAM); /* to 206 */
	launch(0, 230, 235, 240);
	make();
	check_gap(GAP_SYNC, 35);
	done();
	create(); /* long ago: what came after is its own time */
	launch(0, 100, 105, 200);
	GPU_CALL(w, 0, GS_SYNC, 103 * US, 103 * US, STREAM);
	launch(0, 5230, 5235, 5240);
	make();
	check_gap(GAP_LAUNCH, 5035);
	done();
}

static uint32_t stack_of(const char *name, const char *file)
{
	uint32_t frame = rec_add_frame(w, &(struct m_frame){.kind = FRAME_PYTHON,
							    .name = rec_string_z(w, name),
							    .file = rec_string_z(w, file)});
	uint32_t inner = rec_add_frame(w, &(struct m_frame){.name = rec_string_z(w, "futex_wait")});
	uint32_t root = rec_add_stack(w, &(struct m_stack){0, frame});
	return rec_add_stack(w, &(struct m_stack){root, inner});
}

static void host_was_off_the_cpu(void **state)
{
	(void)state;
	static const struct {
		uint8_t reason;
		const char *function, *file;
		enum gap_reason gap;
	} cases[] = {
		{WAIT_FUTEX, "_MultiProcessingDataLoaderIter._next_data", "/t/dataloader.py",
		 GAP_DATA},
		{WAIT_POLL, "get", "/usr/lib/python3/multiprocessing/queues.py", GAP_DATA},
		{WAIT_DISK, "read", "train.py", GAP_DATA},
		{WAIT_PREEMPTED, "forward", "train.py", GAP_PREEMPTED},
		{WAIT_SLEEP, "sleep", "train.py", GAP_BLOCKED},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		create();
		launch(0, 100, 105, 110);
		off_cpu(0, 115, 900, cases[i].reason, stack_of(cases[i].function, cases[i].file));
		launch(0, 1000, 1005, 1010);
		make();
		check_gap(cases[i].gap, 895);
		assert_true(gaps.waits);
		done();
	}
}

static void loader_tells_of_batches(void **state)
{
	(void)state;
	for (int instant = 0; instant < 2; instant++) {
		create();
		struct m_probe p = {.layer = rec_string_z(w, "torch"),
				    .name = rec_string_z(w, "range"),
				    .nargs = 1,
				    .arg_names = {rec_string_z(w, "name")},
				    .arg_types = {ARG_TYPE_STRING}};
		struct m_call c = {.start_ns = 200 * US,
				   .dur_ns = instant ? 0 : 700 * US,
				   .probe = rec_add_probe(w, &p),
				   .nargs = 1,
				   .args = {rec_string_z(w, "enumerate(DataLoader)#X.__next__")}};
		rec_put_calls(w, &c, 1);
		launch(0, 100, 105, 110);
		launch(0, 1000, 1005, 1010);
		launch(0, 1100, 1105, 1110);
		make();
		assert_int_equal(gaps.devices.data[0].gaps.len, 2);
		assert_int_equal(gaps.devices.data[0].gaps.data[0].reason, GAP_DATA);
		assert_int_equal(gaps.devices.data[0].gaps.data[0].total_ns, 895 * US);
		assert_int_equal(gaps.devices.data[0].gaps.data[1].reason, GAP_LAUNCH);
		done();
	}
}

/* The thread that launches next waited for the other one, which ran. */
static void threads_take_turns(void **state)
{
	(void)state;
	create();
	launch(0, 100, 105, 110);
	off_cpu(1, 50, 980, WAIT_FUTEX, 0);
	launch(1, 1000, 1005, 1010);
	make();
	check_gap(GAP_LAUNCH, 895);
	done();
}

static void samples_tell_where_waits_do_not(void **state)
{
	(void)state;
	create();
	launch(0, 100, 105, 110);
	on_cpu(0, 50);
	launch(0, 20100, 20105, 20110);
	make();
	check_gap(GAP_BLOCKED, 19995);
	assert_false(gaps.waits);
	done();
	create();
	launch(0, 100, 105, 110);
	on_cpu(0, 50);
	on_cpu(0, 10050);
	launch(0, 20100, 20105, 20110);
	make();
	check_gap(GAP_LAUNCH, 19995);
	done();
}

static void nobody_knows(void **state)
{
	(void)state;
	create();
	launch(0, 100, 105, 110);
	span((struct m_gpu_span){.work = WORK_COPY, .bytes = 5}, 200, 201);
	make();
	check_gap(GAP_UNKNOWN, 90);
	done();
}

static void streams_overlap(void **state)
{
	(void)state;
	struct m_gpu_span nccl = {.stream = 20}, add = {.stream = 7}, copy = {.work = WORK_COPY};
	create();
	nccl.name = rec_string_z(w, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
	add.name = rec_string_z(w, "add");
	span(add, 100, 200);
	span(nccl, 150, 300); /* alone from 200 on */
	span(copy, 250, 350); /* a copy is no computation */
	span(add, 350, 400);
	span(add, 400, 401);
	rec_put_gpu_span(w, &(struct m_gpu_span){402 * US - 100, 402 * US, .pid = 7});
	make();
	const struct gap_device *d = &gaps.devices.data[0];
	assert_int_equal(gaps.devices.len, 1);
	assert_int_equal(d->first_ns, 100 * US);
	assert_int_equal(d->span_ns, 302 * US);
	assert_int_equal(d->busy_ns, 301 * US + 100);
	assert_int_equal(d->short_count, 1);
	assert_int_equal(d->short_ns, 900);
	assert_int_equal(d->gaps.len, 0);
	assert_int_equal(d->kernels_ns, 251 * US + 100);
	assert_int_equal(d->copies_ns, 100 * US);
	assert_int_equal(d->collectives_ns, 150 * US);
	assert_int_equal(d->exposed_ns, 100 * US);
	assert_int_equal(d->streams.len, 3);
	assert_int_equal(d->streams.data[0].stream, 7);
	assert_int_equal(d->streams.data[0].busy_ns, 151 * US);
	assert_int_equal(d->streams.data[0].spans, 3);
	done();
}

static void devices_are_apart(void **state)
{
	(void)state;
	create();
	span((struct m_gpu_span){.device = 1}, 100, 200);
	span((struct m_gpu_span){.device = 0}, 100, 150);
	span((struct m_gpu_span){.device = 0, .work = WORK_SYNC}, 150, 190);
	make();
	assert_int_equal(gaps.devices.len, 2);
	assert_int_equal(gaps.devices.data[0].device, 0);
	assert_int_equal(gaps.devices.data[0].busy_ns, 50 * US);
	assert_int_equal(gaps.devices.data[1].busy_ns, 100 * US);
	done();
}

static void devices_are_bounded(void **state)
{
	(void)state;
	create();
	for (int32_t i = 0; i < GAP_DEVICES + 3; i++)
		span((struct m_gpu_span){.device = i}, 100, 200);
	make();
	assert_int_equal(gaps.devices.len, GAP_DEVICES);
	assert_int_equal(gaps.left_out, 3);
	done();
}

static void copies_have_their_speed(void **state)
{
	(void)state;
	struct m_gpu_span pinned = {.work = WORK_COPY,
				    .copy_kind = 1,
				    .source_kind = MEMORY_PINNED,
				    .destination_kind = MEMORY_DEVICE,
				    .async = 1,
				    .bytes = 1000000};
	struct m_gpu_span pageable = pinned;
	struct gpu_transfers g;
	pageable.source_kind = MEMORY_PAGEABLE;
	pageable.async = 0;
	create();
	span((struct m_gpu_span){.stream = 7}, 100, 150);
	span(pinned, 100, 200); /* 10 GB/s, half of it under the kernel */
	span(pinned, 300, 350); /* 20 GB/s */
	pinned.bytes = 9000000;
	span(pinned, 400, 650); /* 36 GB/s */
	span(pageable, 700, 2700);
	span((struct m_gpu_span){.work = WORK_SET, .bytes = 64}, 3000, 3001);
	make();
	gpu_transfers_make(&g, &timeline, 8);
	assert_int_equal(g.rows.len, 0);
	gpu_transfers_free(&g);
	gpu_transfers_make(&g, &timeline, 7);
	assert_int_equal(g.rows.len, 3);
	assert_int_equal(g.rows.data[0].source_kind, MEMORY_PAGEABLE);
	assert_false(g.rows.data[0].async);
	const struct transfer_row *r = &g.rows.data[1];
	assert_int_equal(r->count, 3);
	assert_int_equal(r->bytes, 11000000);
	assert_int_equal(r->total_ns, 400 * US);
	assert_int_equal(r->overlapped_ns, 50 * US);
	assert_true(r->mean_bytes_per_s > 27.49e9 && r->mean_bytes_per_s < 27.51e9);
	assert_true(r->p50_bytes_per_s > 19.99e9 && r->p50_bytes_per_s < 20.01e9);
	assert_true(g.rows.data[2].set);
	assert_int_equal(g.rows.data[2].bytes, 64);
	gpu_transfers_free(&g);
	done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_is_late),
		cmocka_unit_test(device_has_its_work),
		cmocka_unit_test(host_waited_for_the_device),
		cmocka_unit_test(host_was_off_the_cpu),
		cmocka_unit_test(loader_tells_of_batches),
		cmocka_unit_test(threads_take_turns),
		cmocka_unit_test(samples_tell_where_waits_do_not),
		cmocka_unit_test(nobody_knows),
		cmocka_unit_test(streams_overlap),
		cmocka_unit_test(devices_are_apart),
		cmocka_unit_test(devices_are_bounded),
		cmocka_unit_test(copies_have_their_speed),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

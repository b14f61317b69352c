/* gpu_test.c - what concerns GPUs, from recordings made by hand: launches, graphs, copies,
 * the ledger of memory, contexts, collectives, errors, counters.
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

#include "golden/counters.h"
#include "analyze/gpu.h"
#include "golden/gpu_sample.h"
#include "recording/recording.h"
#include "wire/event.h"
#include "made_file.h"

/* Threads 0 and 1 of process 7, thread 2 of process 8. */
static struct rec_writer *created(void)
{
	struct rec_writer *w = NULL;
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	gpu_sample_probes(w);
	rec_add_thread(w, &(struct m_thread){7, 7, 0});
	rec_add_thread(w, &(struct m_thread){7, 9, 0});
	rec_add_thread(w, &(struct m_thread){8, 8, 0});
	return w;
}

static struct rec_reader *reader;

/* Closes the writer and sums up what it wrote. */
static struct gpu_summary summed(struct rec_writer *w, struct gpu_options o)
{
	struct err e = {0};
	struct gpu_summary s;
	if (w && rec_writer_close(w, false, &e))
		fail_msg("%s", e.msg);
	if (rec_open(&reader, path, &e))
		fail_msg("%s", e.msg);
	gpu_summary_make(&s, rec_source(reader), &o);
	return s;
}

static void done(struct gpu_summary *s)
{
	gpu_summary_free(s);
	rec_close(reader);
}

static const struct gpu_kernel *kernel(const struct gpu_summary *s, const char *name)
{
	for (size_t i = 0; i < s->kernels.len; i++)
		if (!strcmp(s->kernels.data[i].name, name))
			return &s->kernels.data[i];
	fail_msg("no kernel %s", name);
	return NULL;
}

static const struct gpu_copies *copies(const struct gpu_summary *s, int direction, bool async)
{
	for (size_t i = 0; i < s->copies.len; i++) {
		const struct gpu_copies *c = &s->copies.data[i];
		if (c->async == async && c->set == (direction < 0) &&
		    (c->set || (int)c->direction == direction))
			return c;
	}
	fail_msg("no copies %d", direction);
	return NULL;
}

/* ---- launches ---- */

static void launches_are_counted_by_kernel(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t add = rec_string_z(w, "void ns::add<float>(int)"), mul = rec_string_z(w, "mul");
	uint64_t grid = dim3_pack(70000, 65535, 3), block = dim3_pack(32, 4, 2);
	for (uint64_t i = 0; i < 100; i++)
		GPU_CALL(w, (uint32_t)(i % 3), GS_LAUNCH, 1000 + i * 100, 10 + i, add,
			 i ? dim3_pack(1, 1, 1) : grid, block, 0x70);
	GPU_CALL(w, 0, GS_LAUNCH, 5, 10, mul, grid, block, 0);
	GPU_CALL(w, 0, GS_LAUNCH, 50, 10, rec_string_z(w, "kernel 0x7f00"), grid, block, 0);
	GPU_CALL(w, 0, GS_LAUNCH, 70, 10, 0, grid, block, 0);
	GPU_CALL(w, 0, GS_RT_LAUNCH, 1, 20, 0);
	gpu_sample_call_full(w, 0, GS_LAUNCH, 90, 10, (const uint64_t[8]){mul}, 0, CALL_ERROR, 2);
	gpu_sample_call_full(w, 0, GS_LAUNCH, 99, 10, (const uint64_t[8]){mul}, 0, CALL_OPEN, 0);
	struct gpu_summary s = summed(w, (struct gpu_options){.visit.threads = 3});
	assert_int_equal(s.total.launches, 104);
	assert_int_equal(s.total.named, 102);
	assert_int_equal(s.total.captured, 0);
	assert_int_equal(s.kernels.len, 4);
	const struct gpu_kernel *k = &s.kernels.data[0];
	assert_string_equal(k->name, "void ns::add<float>(int)");
	assert_string_equal(k->short_name, "add<float>");
	assert_int_equal(k->launches, 100);
	assert_int_equal(k->total_ns, 100 * 10 + 99 * 50);
	assert_int_equal(dim3_x(k->grid), 70000);
	assert_int_equal(dim3_y(k->grid), 65535);
	assert_int_equal(dim3_z(k->grid), 3);
	assert_int_equal(k->block, block);
	assert_int_equal(kernel(&s, "mul")->launches, 2);
	assert_false(kernel(&s, "kernel 0x7f00")->named);
	assert_false(kernel(&s, "cuLaunchKernel")->named);
	assert_int_equal(s.errors.len, 1);
	assert_string_equal(s.errors.data[0].function, "cuLaunchKernel");
	assert_string_equal(s.errors.data[0].name, "CUDA_ERROR_OUT_OF_MEMORY");
	assert_int_equal(s.errors.data[0].code, 2);
	done(&s);
	s = summed(NULL, (struct gpu_options){.pid = 8, .from_ns = 1500, .to_ns = 10800});
	uint64_t want = 0;
	for (uint64_t i = 0; i < 100; i++)
		want += i % 3 == 2 && 1000 + i * 100 >= 1500 && 1000 + i * 100 < 10800;
	assert_int_equal(s.total.launches, want);
	assert_int_equal(s.errors.len, 0);
	done(&s);
}

static void captured_launches_run_with_the_graph(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t add = rec_string_z(w, "add"), mul = rec_string_z(w, "mul");
	GPU_CALL(w, 0, GS_LAUNCH, 100, 10, add, 0, 0, 0x70); /* before: runs */
	GPU_CALL(w, 0, GS_CAPTURE, 200, 10, 0x70);
	GPU_CALL(w, 0, GS_LAUNCH, 210, 10, add, 0, 0, 0x70); /* captured */
	GPU_CALL(w, 1, GS_LAUNCH, 220, 10, mul, 0, 0, 0x80); /* another stream: runs */
	GPU_CALL(w, 2, GS_LAUNCH, 220, 10, mul, 0, 0, 0x70); /* another process: runs */
	GPU_CALL(w, 0, GS_RECORD, 230, 10, 0xe1, 0x70);
	GPU_CALL(w, 0, GS_WAIT, 240, 10, 0x80, 0xe1);	     /* 0x80 joins */
	GPU_CALL(w, 1, GS_LAUNCH, 260, 10, mul, 0, 0, 0x80); /* captured */
	GPU_CALL(w, 0, GS_HTOD_ASYNC, 270, 10, 1000, 0x70);  /* captured */
	GPU_CALL(w, 0, GS_SET_ASYNC, 280, 10, 500, 0x80);    /* captured */
	GPU_CALL(w, 0, GS_HTOD_ASYNC, 281, 1, 7, 0x90);	     /* runs */
	GPU_CALL(w, 0, GS_CAPTURE_END, 300, 10, 0x70, 0x9000);
	GPU_CALL(w, 1, GS_LAUNCH, 300, 10, mul, 0, 0, 0x80); /* after: runs */
	GPU_CALL(w, 0, GS_WAIT, 310, 10, 0x90, 0xe1);	     /* joins nothing any more */
	GPU_CALL(w, 0, GS_LAUNCH, 320, 10, mul, 0, 0, 0x90); /* runs */
	GPU_CALL(w, 0, GS_INSTANTIATE, 400, 10, 0x9100, 0x9000);
	for (uint64_t i = 0; i < 5; i++)
		GPU_CALL(w, (uint32_t)(i % 2), GS_GRAPH_LAUNCH, 500 + i * 10, 5, 0x9100, 0x70);
	GPU_CALL(w, 0, GS_GRAPH_LAUNCH, 600, 5, 0x6666, 0x70); /* made before we attached */
	GPU_CALL(w, 2, GS_GRAPH_LAUNCH, 600, 5, 0x9100, 0x70); /* another process's */
	GPU_CALL(w, 0, GS_EXEC_DESTROY, 700, 5, 0x9100);
	GPU_CALL(w, 0, GS_GRAPH_LAUNCH, 710, 5, 0x9100, 0x70); /* the handle is void */
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(s.total.launches, 5);
	assert_int_equal(s.total.captured, 2);
	assert_int_equal(s.total.graphs, 8);
	assert_int_equal(s.total.graphs_unknown, 3);
	assert_int_equal(s.total.graph_kernels, 10);
	assert_int_equal(kernel(&s, "add")->launches, 1);
	assert_int_equal(kernel(&s, "add")->captured, 1);
	assert_int_equal(kernel(&s, "add")->graph_kernels, 5);
	assert_int_equal(kernel(&s, "mul")->launches, 4);
	assert_int_equal(kernel(&s, "mul")->graph_kernels, 5);
	const struct gpu_copies *c = copies(&s, GPU_HTOD, true);
	assert_int_equal(c->calls, 1);
	assert_int_equal(c->captured, 1);
	assert_int_equal(c->graph_nodes_run, 5);
	assert_int_equal(c->bytes, 7 + 5 * 1000);
	c = copies(&s, -1, true);
	assert_int_equal(c->calls, 0);
	assert_int_equal(c->graph_nodes_run, 5);
	assert_int_equal(c->bytes, 2500);
	done(&s);
	/* The capture lies before the time that is asked for, and is known all the same. */
	s = summed(NULL, (struct gpu_options){.from_ns = 510, .to_ns = 530});
	assert_int_equal(s.total.launches, 0);
	assert_int_equal(s.total.captured, 0);
	assert_int_equal(s.total.graphs, 2);
	assert_int_equal(s.total.graph_kernels, 4);
	done(&s);
}

static void graphs_are_put_together(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t add = rec_string_z(w, "add");
	GPU_CALL(w, 0, GS_KERNEL_NODE, 100, 1, 0x10);
	GPU_CALL(w, 0, GS_KERNEL_NODE, 110, 1, 0x10);
	GPU_CALL(w, 0, GS_INSTANTIATE, 120, 1, 0x1e, 0x10); /* 2 nodes */
	GPU_CALL(w, 0, GS_CLONE, 130, 1, 0x20, 0x10);
	GPU_CALL(w, 0, GS_KERNEL_NODE, 140, 1, 0x20);
	GPU_CALL(w, 0, GS_INSTANTIATE, 150, 1, 0x2e, 0x20); /* 3 */
	GPU_CALL(w, 0, GS_CHILD_NODE, 160, 1, 0x30, 0x20);
	GPU_CALL(w, 0, GS_CHILD_NODE, 170, 1, 0x30, 0x20);
	GPU_CALL(w, 0, GS_CHILD_NODE, 180, 1, 0x30, 0x30);
	GPU_CALL(w, 0, GS_INSTANTIATE, 190, 1, 0x3e, 0x30); /* 12 */
	/* A launch of 0x2e and one of a kernel are captured. */
	GPU_CALL(w, 0, GS_CAPTURE, 200, 1, 1);
	GPU_CALL(w, 0, GS_GRAPH_LAUNCH, 210, 1, 0x2e, 0);
	GPU_CALL(w, 0, GS_LAUNCH, 220, 1, add, 0, 0, 0);
	GPU_CALL(w, 0, GS_CAPTURE_END, 230, 1, 0, 0x40);
	GPU_CALL(w, 0, GS_INSTANTIATE, 240, 1, 0x4e, 0x40); /* 3 and add */
	/* A capture that fails gives no graph, but ends. */
	GPU_CALL(w, 1, GS_CAPTURE, 250, 1, 0x70);
	GPU_CALL(w, 1, GS_LAUNCH, 260, 1, add, 0, 0, 0x70);
	gpu_sample_call_full(w, 1, GS_CAPTURE_END, 270, 1, (const uint64_t[8]){0x70}, 0, CALL_ERROR,
			     2);
	GPU_CALL(w, 1, GS_LAUNCH, 280, 1, add, 0, 0, 0x70);
	/* Per-thread default streams are one for each thread. */
	GPU_CALL(w, 0, GS_CAPTURE, 300, 1, 2);
	GPU_CALL(w, 1, GS_LAUNCH, 310, 1, add, 0, 0, 2);
	GPU_CALL(w, 0, GS_LAUNCH, 310, 1, add, 0, 0, 2);
	GPU_CALL(w, 0, GS_CAPTURE_END, 320, 1, 2, 0x50);
	GPU_CALL(w, 0, GS_GRAPH_LAUNCH, 1000, 1, 0x1e, 0);
	GPU_CALL(w, 0, GS_GRAPH_LAUNCH, 1010, 1, 0x3e, 0);
	GPU_CALL(w, 0, GS_GRAPH_LAUNCH, 1020, 1, 0x4e, 0);
	GPU_CALL(w, 0, GS_GRAPH_LAUNCH, 1030, 1, 0x4e, 0);
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(s.total.graphs, 4);
	assert_int_equal(s.total.graphs_unknown, 0);
	assert_int_equal(kernel(&s, "kernel node")->graph_kernels, 2 + 12 + 2 * 3);
	assert_int_equal(kernel(&s, "add")->graph_kernels, 2);
	assert_int_equal(kernel(&s, "add")->captured, 3);
	assert_int_equal(kernel(&s, "add")->launches, 2);
	done(&s);
}

/* ---- copies ---- */

static void directions_come_from_addresses(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	GPU_CALL(w, 0, GS_RETAIN, 1, 1, 0xc0, 0);
	GPU_CALL(w, 0, GS_RETAIN, 2, 1, 0xc1, 1);
	GPU_CALL(w, 0, GS_SET_CONTEXT, 3, 1, 0xc0);
	GPU_CALL(w, 0, GS_ALLOC, 10, 10, 0x1000, 0x100);
	GPU_CALL(w, 0, GS_SET_CONTEXT, 21, 1, 0xc1);
	GPU_CALL(w, 0, GS_ALLOC, 30, 10, 0x2000, 0x100);
	GPU_CALL(w, 0, GS_HOST_ALLOC, 40, 10, 0x8000, 0x1000);
	GPU_CALL(w, 0, GS_CREATE, 50, 1, 0x5, 0x400, 1);
	GPU_CALL(w, 0, GS_MAP, 52, 1, 0x4000, 0x400, 0x5);
	GPU_CALL(w, 0, GS_COPY_ASYNC, 100, 1, 0x1000, 0x8010, 1, 0);  /* HtoD */
	GPU_CALL(w, 0, GS_COPY_ASYNC, 110, 1, 0x8000, 0x10ff, 2, 0);  /* DtoH */
	GPU_CALL(w, 0, GS_COPY_ASYNC, 120, 1, 0x1000, 0x1010, 4, 0);  /* DtoD */
	GPU_CALL(w, 0, GS_COPY_ASYNC, 130, 1, 0x1000, 0x2000, 8, 0);  /* PtoP */
	GPU_CALL(w, 0, GS_COPY_ASYNC, 140, 1, 0x8000, 0x8100, 16, 0); /* HtoH */
	GPU_CALL(w, 0, GS_COPY_ASYNC, 150, 1, 0x1000, 0x9999, 32, 0); /* not known */
	GPU_CALL(w, 0, GS_COPY_ASYNC, 160, 1, 0x1000, 0x1100, 32, 0); /* just past its end */
	GPU_CALL(w, 0, GS_COPY_ASYNC, 170, 1, 0x2000, 0x43ff, 4, 0);  /* DtoD: mapped */
	GPU_CALL(w, 2, GS_COPY_ASYNC, 180, 1, 0x1000, 0x8000, 32, 0); /* another process */
	GPU_CALL(w, 0, GS_FREE, 200, 10, 0x1000);
	GPU_CALL(w, 0, GS_COPY_ASYNC, 205, 1, 0x1000, 0x8000, 32, 0); /* freed */
	GPU_CALL(w, 0, GS_HTOD, 300, 5, 64);
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(copies(&s, GPU_HTOD, true)->bytes, 1);
	assert_int_equal(copies(&s, GPU_DTOH, true)->bytes, 2);
	assert_int_equal(copies(&s, GPU_DTOD, true)->bytes, 8);
	assert_int_equal(copies(&s, GPU_PTOP, true)->bytes, 8);
	assert_int_equal(copies(&s, GPU_HTOH, true)->bytes, 16);
	assert_int_equal(copies(&s, GPU_UNIFIED, true)->calls, 4);
	assert_int_equal(copies(&s, GPU_HTOD, false)->bytes, 64);
	assert_int_equal(copies(&s, GPU_HTOD, false)->total_ns, 5);
	done(&s);
}

/* An address is looked up right however often it was used, among many others. */
static void addresses_are_used_again(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t time = 10, want[2] = {0};
	GPU_CALL(w, 0, GS_HOST_ALLOC, 1, 1, 0xf0000000, 0x1000);
	srand(3);
	bool live[64] = {0};
	for (int i = 0; i < 20000; i++, time += 10) {
		uint64_t slot = (uint64_t)rand() % 64, address = 0x100000 + slot * 0x1000;
		uint64_t bytes = 0x100 + (uint64_t)rand() % 0xf00;
		if (rand() % 2) {
			GPU_CALL(w, 0, GS_COPY_ASYNC, time, 1, address + 0x20, 0xf0000000, 1, 0);
			want[live[slot]]++;
		} else if (live[slot]) {
			GPU_CALL(w, 0, GS_FREE, time, 1, address);
			live[slot] = false;
		} else {
			GPU_CALL(w, 0, GS_ALLOC, time, 1, address, bytes);
			live[slot] = true;
		}
	}
	struct gpu_summary s = summed(w, (struct gpu_options){.visit.threads = 2});
	assert_int_equal(copies(&s, GPU_HTOD, true)->calls, want[1]);
	assert_int_equal(copies(&s, GPU_UNIFIED, true)->calls, want[0]);
	done(&s);
}

/* ---- memory ---- */

static const struct gpu_memory *memory(const struct gpu_summary *s, uint32_t pid, int32_t device)
{
	for (size_t i = 0; i < s->memory.len; i++)
		if (s->memory.data[i].pid == pid && s->memory.data[i].device == device)
			return &s->memory.data[i];
	fail_msg("no memory of %u on %d", pid, device);
	return NULL;
}

static void memory_has_a_peak_and_what_is_left(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	rec_put_process(w, &(struct m_process){.pid = 7, .start_ns = 1, .end_ns = 5000});
	rec_put_process(w, &(struct m_process){.pid = 8, .start_ns = 1});
	GPU_CALL(w, 0, GS_RETAIN, 1, 1, 0xc3, 3);
	GPU_CALL(w, 0, GS_ALLOC, 100, 10, 0x1000, 100);		    /* context unknown: device 3 */
	GPU_CALL(w, 1, GS_ALLOC_ASYNC, 105, 15, 0x2000, 200, 0x70); /* 300 at 120 */
	GPU_CALL(w, 0, GS_FREE, 130, 50, 0x1000);		    /* 200 */
	/* The other thread gets the same address before the free has returned. */
	GPU_CALL(w, 1, GS_ALLOC, 140, 10, 0x1000, 50); /* 250 */
	GPU_CALL(w, 0, GS_ALLOC, 200, 10, 0x1000, 80); /* no free seen: 280 */
	GPU_CALL(w, 0, GS_FREE, 300, 10, 0x7777);
	GPU_CALL(w, 0, GS_FREE, 310, 10, 0);
	gpu_sample_call_full(w, 0, GS_ALLOC, 400, 10, (const uint64_t[8]){0x9000, 999}, 0,
			     CALL_ERROR, 2);
	gpu_sample_call_full(w, 0, GS_ALLOC, 400, 10, (const uint64_t[8]){0x9000, 999}, 0,
			     CALL_OPEN, 0);
	gpu_sample_call_full(w, 0, GS_FREE, 410, 10, (const uint64_t[8]){0x2000}, 0, CALL_ERROR, 2);
	GPU_CALL(w, 2, GS_ALLOC, 100, 10, 0x1000, 1000);
	GPU_CALL(w, 0, GS_HOST_ALLOC, 100, 10, 0x50, 30);
	GPU_CALL(w, 0, GS_HOST_FREE, 200, 10, 0x50);
	GPU_CALL(w, 0, GS_HOST_FREE, 220, 10, 0x51);
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(s.memory.len, 2);
	const struct gpu_memory *m = memory(&s, 7, 3);
	assert_int_equal(m->peak_bytes, 300);
	assert_int_equal(m->peak_ns, 120);
	assert_int_equal(m->allocs, 4);
	assert_int_equal(m->frees, 1);
	assert_int_equal(m->unmatched_allocs, 1);
	assert_int_equal(m->unmatched_frees, 1);
	assert_int_equal(m->live_bytes, 0);
	assert_int_equal(m->leaked_count, 2);
	assert_int_equal(m->leaked_bytes, 280);
	assert_int_equal(m->sources.len, 2);
	assert_string_equal(m->sources.data[0].function, "cuMemAlloc_v2");
	assert_int_equal(m->sources.data[0].bytes, 100);
	assert_int_equal(m->sources.data[0].count, 3);
	assert_int_equal(m->sources.data[1].bytes, 200);
	m = memory(&s, 8, -1);
	assert_int_equal(m->live_bytes, 1000);
	assert_int_equal(m->leaked_count, 0);
	assert_int_equal(s.pinned.len, 1);
	assert_int_equal(s.pinned.data[0].peak_bytes, 30);
	assert_int_equal(s.pinned.data[0].live_bytes, 0);
	assert_int_equal(s.pinned.data[0].unmatched_frees, 1);
	done(&s);
	/* Up to a time: what was live then. */
	s = summed(NULL, (struct gpu_options){.from_ns = 125, .to_ns = 140, .pid = 7});
	assert_int_equal(memory(&s, 7, 3)->live_bytes, 200);
	assert_int_equal(memory(&s, 7, 3)->peak_bytes, 300);
	assert_int_equal(memory(&s, 7, 3)->leaked_count, 0);
	done(&s);
}

static void memory_is_on_the_current_device(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	GPU_CALL(w, 0, GS_RETAIN, 1, 1, 0xc0, 0);
	GPU_CALL(w, 0, GS_RETAIN, 3, 1, 0xc1, 1);
	GPU_CALL(w, 0, GS_ALLOC, 10, 1, 0x1000, 1); /* unknown: two devices */
	GPU_CALL(w, 0, GS_SET_CONTEXT, 20, 1, 0xc0);
	GPU_CALL(w, 0, GS_ALLOC, 30, 1, 0x2000, 2); /* 0 */
	GPU_CALL(w, 0, GS_PUSH_CONTEXT, 40, 1, 0xc1);
	GPU_CALL(w, 0, GS_ALLOC, 50, 1, 0x3000, 4);  /* 1 */
	GPU_CALL(w, 1, GS_ALLOC, 55, 1, 0x3500, 64); /* the other thread has none */
	GPU_CALL(w, 0, GS_POP_CONTEXT, 60, 1, 0);
	GPU_CALL(w, 0, GS_ALLOC, 70, 1, 0x4000, 8); /* 0 */
	GPU_CALL(w, 0, GS_SET_CONTEXT, 80, 1, 0xc0);
	GPU_CALL(w, 0, GS_SET_CONTEXT, 90, 1, 0xc1);
	GPU_CALL(w, 0, GS_ALLOC, 100, 1, 0x5000, 16); /* 1 */
	GPU_CALL(w, 0, GS_SET_CONTEXT, 110, 1, 0);
	GPU_CALL(w, 0, GS_ALLOC, 120, 1, 0x6000, 32); /* unknown */
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(memory(&s, 7, 0)->live_bytes, 2 + 8);
	assert_int_equal(memory(&s, 7, 1)->live_bytes, 4 + 16);
	assert_int_equal(memory(&s, 7, -1)->live_bytes, 1 + 32 + 64);
	done(&s);
}

static void virtual_memory_lives_while_it_is_used(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	GPU_CALL(w, 0, GS_CREATE, 10, 1, 0x5, 1000, 2);
	GPU_CALL(w, 0, GS_MAP, 20, 1, 0x10000, 500, 0x5);
	GPU_CALL(w, 0, GS_MAP, 30, 1, 0x10000 + 500, 500, 0x5);
	GPU_CALL(w, 0, GS_RELEASE, 40, 1, 0x5);	      /* still mapped */
	GPU_CALL(w, 0, GS_CREATE, 50, 1, 0x5, 70, 2); /* the handle is used again */
	GPU_CALL(w, 0, GS_UNMAP, 60, 1, 0x10000, 500);
	GPU_CALL(w, 0, GS_MAP, 65, 1, 0x10000, 70, 0x5);
	GPU_CALL(w, 0, GS_UNMAP, 70, 1, 0x10000 + 500, 500); /* now it is gone */
	GPU_CALL(w, 0, GS_UNMAP, 80, 1, 0x10000, 70);
	GPU_CALL(w, 0, GS_RELEASE, 90, 1, 0x99);
	struct gpu_summary s = summed(w, (struct gpu_options){.to_ns = 70});
	assert_int_equal(memory(&s, 7, 2)->live_bytes, 1070);
	done(&s);
	s = summed(NULL, (struct gpu_options){0});
	const struct gpu_memory *m = memory(&s, 7, 2);
	assert_int_equal(m->live_bytes, 70);
	assert_int_equal(m->peak_bytes, 1070);
	assert_int_equal(m->allocs, 2);
	assert_int_equal(m->frees, 1);
	assert_int_equal(memory(&s, 7, -1)->unmatched_frees, 1);
	done(&s);
}

/* Any calls in any order, against a plain list of what is live. */
static void random_memory(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t size[50] = {0}, live = 0, peak = 0, time = 1;
	srand(5);
	for (int i = 0; i < 100000; i++, time += 3) {
		uint64_t slot = (uint64_t)rand() % 50;
		if (size[slot]) {
			GPU_CALL(w, (uint32_t)rand() % 2, GS_FREE, time, 2, 0x1000 + slot);
			live -= size[slot];
			size[slot] = 0;
		} else {
			size[slot] = 1 + (uint64_t)rand() % 1000000;
			live += size[slot];
			GPU_CALL(w, (uint32_t)rand() % 2, GS_ALLOC, time, 2, 0x1000 + slot,
				 size[slot]);
		}
		if (live > peak)
			peak = live;
	}
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(memory(&s, 7, -1)->live_bytes, live);
	assert_int_equal(memory(&s, 7, -1)->peak_bytes, peak);
	assert_int_equal(memory(&s, 7, -1)->allocs + memory(&s, 7, -1)->frees, 100000);
	done(&s);
}

/* ---- collectives, waits, telemetry ---- */

static void collectives_belong_to_communicators(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	rec_put_comm(w, &(struct m_comm){.pid = 7,
					 .rank = 1,
					 .size = 4,
					 .device = 0,
					 .handle = 0x55,
					 .hash = 0xaa,
					 .start_ns = 100,
					 .end_ns = 200});
	rec_put_comm(w, &(struct m_comm){.pid = 7,
					 .rank = 0,
					 .size = 2,
					 .device = 0,
					 .handle = 0x55,
					 .hash = 0xbb,
					 .start_ns = 300});
	rec_put_comm(w, &(struct m_comm){.pid = 8,
					 .rank = 3,
					 .size = 4,
					 .device = -1,
					 .handle = 0x55,
					 .hash = 0xaa,
					 .start_ns = 150});
	for (uint64_t i = 0; i < 6; i++)
		GPU_CALL(w, 0, GS_ALL_REDUCE, 110 + i, 5, 1000, 250, 7, 0, 0x55, 0x70, i);
	GPU_CALL(w, 0, GS_ALL_REDUCE, 250, 5, 1000, 250, 7, 0, 0x55, 0x70, 6); /* destroyed */
	GPU_CALL(w, 0, GS_ALL_REDUCE, 350, 5, 300, 150, 9, 0, 0x55, 0x70, 0);
	GPU_CALL(w, 0, GS_ALL_REDUCE, 360, 5, 300, 150, 42, 0, 0x55, 0x70, 0);
	GPU_CALL(w, 2, GS_ALL_REDUCE, 140, 5, 1000, 250, 7, 0, 0x55, 0x70, 0); /* seen late */
	GPU_CALL(w, 2, GS_SYNC, 400, 70, 0x70);
	GPU_CALL(w, 2, GS_SYNC, 500, 30, 0x70);
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(s.collectives.len, 5);
	const struct gpu_collective *c = &s.collectives.data[0];
	assert_string_equal(c->function, "ncclAllReduce");
	assert_string_equal(c->datatype, "ncclFloat32");
	assert_int_equal(c->calls, 6);
	assert_int_equal(c->bytes, 6000);
	assert_int_equal(c->total_ns, 30);
	assert_int_equal(c->comm->hash, 0xaa);
	assert_int_equal(c->comm->rank, 1);
	uint64_t unknown = 0, late = 0, unnamed_type = 0;
	for (size_t i = 0; i < s.collectives.len; i++) {
		c = &s.collectives.data[i];
		unknown += !c->comm && c->bytes == 1000;
		late += c->pid == 8 && c->comm && c->comm->rank == 3;
		unnamed_type += !strcmp(c->datatype, "42");
		if (c->bytes == 300)
			assert_int_equal(c->comm->hash, 0xbb);
	}
	assert_int_equal(unknown, 1);
	assert_int_equal(late, 1);
	assert_int_equal(unnamed_type, 1);
	assert_int_equal(s.comms.len, 3);
	assert_int_equal(s.comms.data[0].calls, 6);
	assert_int_equal(s.comms.data[1].bytes, 600);
	assert_int_equal(s.syncs.len, 1);
	assert_int_equal(s.syncs.data[0].calls, 2);
	assert_int_equal(s.syncs.data[0].total_ns, 100);
	assert_int_equal(s.syncs.data[0].max_ns, 70);
	done(&s);
}

static void put_counter(struct rec_writer *w, uint64_t time, const char *entity, double value)
{
	put_counter_of(w, time, entity, "power_w", value);
}

/* An instance that is made anew has another uuid and the number of the old one. */
static void counters_belong_to_instances(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	rec_put_gpu(w, &(struct m_gpu){.index = 0, .parent = -1, .uuid = rec_string_z(w, "GPU")});
	rec_put_gpu(w, &(struct m_gpu){.index = 0,
				       .parent = 0,
				       .uuid = rec_string_z(w, "MIG-old"),
				       .seen_ns = 10,
				       .gone_ns = 50});
	rec_put_gpu(w, &(struct m_gpu){.index = 1,
				       .parent = 0,
				       .uuid = rec_string_z(w, "MIG-one"),
				       .seen_ns = 10});
	rec_put_gpu(w, &(struct m_gpu){.index = 0,
				       .parent = 0,
				       .uuid = rec_string_z(w, "MIG-new"),
				       .seen_ns = 60});
	put_counter(w, 20, "gpu 0 mig 0", 1);
	put_counter(w, 20, "gpu 0 mig 1", 2);
	put_counter(w, 70, "gpu 0 mig 0", 3);
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(s.devices.len, 4);
	for (size_t i = 0; i < s.devices.len; i++) {
		const struct gpu_device *d = &s.devices.data[i];
		double want = d->row->parent < 0      ? 0
			      : d->row->seen_ns == 60 ? 3
			      : d->row->index == 1    ? 2
						      : 1;
		assert_int_equal(d->counters.len, want > 0);
		if (want > 0)
			assert_float_equal(d->counters.data[0].sum.last, want, 0);
	}
	done(&s);
}

static void counters_belong_to_gpus(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	rec_put_gpu(w, &(struct m_gpu){.index = 0, .parent = 1, .uuid = rec_string_z(w, "MIG-a")});
	rec_put_gpu(w, &(struct m_gpu){.index = 1, .parent = -1, .uuid = rec_string_z(w, "GPU-b")});
	put_counter(w, 10, "gpu 1", 100);
	put_counter(w, 20, "gpu 1", 300);
	put_counter(w, 15, "gpu 1", 50);
	put_counter(w, 15, "gpu 1 mig 0", 7);
	put_counter(w, 15, "gpu 1 mig 9", 7);
	put_counter(w, 15, "gpu 1 pid 42", 9);
	put_counter(w, 15, "gpu 5", 1);
	put_counter(w, 15, "gpu x", 1);
	put_counter(w, 15, "pid 1", 1);
	rec_put_event(w, &(struct m_event){30, rec_string_z(w, "gpu 1"), rec_string_z(w, "xid"),
					   rec_string_z(w, "79: gone")});
	rec_put_event(w, &(struct m_event){20, 0, 0, 0});
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(s.devices.len, 3);
	const struct gpu_device *d = &s.devices.data[0];
	assert_int_equal(d->index, 1);
	assert_int_equal(d->counters.len, 1);
	assert_int_equal(d->counters.data[0].sum.samples, 3);
	assert_float_equal(d->counters.data[0].sum.mean, 150, 1e-9);
	assert_float_equal(d->counters.data[0].sum.min, 50, 0);
	assert_float_equal(d->counters.data[0].sum.max, 300, 0);
	assert_float_equal(d->counters.data[0].sum.last, 300, 0);
	assert_int_equal(d->processes.len, 1);
	assert_int_equal(d->processes.data[0].pid, 42);
	assert_float_equal(s.devices.data[1].counters.data[0].sum.last, 7, 0);
	assert_null(s.devices.data[2].row);
	assert_int_equal(s.events.len, 2);
	assert_int_equal(s.events.data[1].time_ns, 30);
	done(&s);
}

/* The same result, however many threads read how many blocks. */
static void blocks_and_threads_do_not_matter(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t add = rec_string_z(w, "add"), launches = 0;
	struct err e = {0};
	for (uint64_t i = 0; i < 300; i++) {
		uint64_t t = 1000 + i * 1000;
		GPU_CALL(w, 0, GS_CAPTURE, t, 1, 0x70);
		GPU_CALL(w, 0, GS_RECORD, t + 2, 1, 0xe0, 0x70);
		GPU_CALL(w, 1, GS_WAIT, t + 4, 1, 0x80, 0xe0);
		assert_int_equal(rec_flush(w, &e), 0);
		GPU_CALL(w, 1, GS_LAUNCH, t + 6, 1, add, 0, 0, 0x80);
		GPU_CALL(w, 0, GS_CAPTURE_END, t + 8, 1, 0x70, 0x90);
		GPU_CALL(w, 0, GS_INSTANTIATE, t + 10, 1, 0x9e, 0x90);
		assert_int_equal(rec_flush(w, &e), 0);
		for (uint64_t k = 0; k < i % 4; k++, launches++)
			GPU_CALL(w, (uint32_t)(k % 2), GS_GRAPH_LAUNCH, t + 20 + k, 1, 0x9e, 0x70);
	}
	struct gpu_summary s = summed(w, (struct gpu_options){.visit.threads = 1});
	assert_int_equal(s.total.captured, 300);
	assert_int_equal(s.total.launches, 0);
	assert_int_equal(s.total.graphs, launches);
	assert_int_equal(s.total.graph_kernels, launches);
	done(&s);
	s = summed(NULL, (struct gpu_options){.visit.threads = 8});
	assert_int_equal(s.total.captured, 300);
	assert_int_equal(s.total.graph_kernels, launches);
	done(&s);
}

/* Modes tail and stats: the kernel has counted all calls, some are recorded as well. */
static void histograms_count_launches_and_waits(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint64_t add = rec_string_z(w, "add");
	GPU_CALL(w, 0, GS_LAUNCH, 100, 900, add, dim3_pack(4, 1, 1), 0, 0x70);
	gpu_sample_call_full(w, 0, GS_LAUNCH, 2000, 10, (const uint64_t[8]){add}, 0, CALL_OPEN, 0);
	GPU_CALL(w, 2, GS_LAUNCH, 100, 900, add, 0, 0, 0x70); /* the other process has none */
	GPU_CALL(w, 0, GS_SYNC, 1000, 700, 0x70);
	rec_put_hist(w, &(struct m_hist){.pid = 7,
					 .probe = GS_LAUNCH,
					 .name = add,
					 .count = 50,
					 .errors = 3,
					 .total_ns = 5000,
					 .max_ns = 900});
	rec_put_hist(
		w,
		&(struct m_hist){
			.pid = 7, .probe = GS_SYNC, .count = 4, .total_ns = 1000, .max_ns = 700});
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(s.total.launches, 47 + 1 + 1);
	assert_int_equal(s.total.named, 49);
	assert_int_equal(dim3_x(kernel(&s, "add")->grid), 4);
	assert_int_equal(s.syncs.data[0].calls, 4);
	assert_int_equal(s.syncs.data[0].total_ns, 1000);
	done(&s);
	s = summed(NULL, (struct gpu_options){.to_ns = 1500}); /* what is recorded of that time */
	assert_int_equal(s.total.launches, 2);
	assert_int_equal(s.syncs.data[0].calls, 1);
	done(&s);
}

static void nothing_gives_nothing(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	struct gpu_summary s = summed(w, (struct gpu_options){0});
	assert_int_equal(s.kernels.len + s.copies.len + s.syncs.len + s.memory.len, 0);
	done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launches_are_counted_by_kernel),
		cmocka_unit_test(captured_launches_run_with_the_graph),
		cmocka_unit_test(graphs_are_put_together),
		cmocka_unit_test(directions_come_from_addresses),
		cmocka_unit_test(addresses_are_used_again),
		cmocka_unit_test(memory_has_a_peak_and_what_is_left),
		cmocka_unit_test(memory_is_on_the_current_device),
		cmocka_unit_test(virtual_memory_lives_while_it_is_used),
		cmocka_unit_test(random_memory),
		cmocka_unit_test(collectives_belong_to_communicators),
		cmocka_unit_test(counters_belong_to_gpus),
		cmocka_unit_test(counters_belong_to_instances),
		cmocka_unit_test(blocks_and_threads_do_not_matter),
		cmocka_unit_test(histograms_count_launches_and_waits),
		cmocka_unit_test(nothing_gives_nothing),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

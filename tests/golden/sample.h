/* sample.h - a small recording with one of everything, the same bytes of content every time.
 *
 * For tests of whatever reads recordings. Times are SAMPLE_T0 + what is said here; "ms" are
 * milliseconds. What is in it:
 *
 * Processes: 4242 python3, rank 0, from 0 to 100 ms, exit code 0; 4300 python3, child of
 *   4242, rank 1, from 5 ms, killed at 95 ms by signal 9 (exit_code 9).
 * Threads (index: pid/tid comm): 0: 4242/4242 python3 (put first as "python"), 1: 4242/4250
 *   autograd, 2: 4300/4300 python3, 3: 4300/4301 pin_memory.
 * Code: 0: train (/job/train.py:10), 1: train.<locals>.step (/job/train.py:20),
 *   2: worker (/job/data.py:5).
 * Probes: the enum below. Calls, 88 in all:
 *   thread 0: one SP_FRAME of train, 1..61 ms, depth 0; in it ten steps i = 0..9, each from
 *     2 + 5i ms: SP_FRAME of step (4 ms, nested) > SP_LINEAR (+0.1 ms, 2 ms) > SP_ADDMM
 *     (+0.2 ms, 1.5 ms, nested) > { SP_EMPTY (+0.25 ms, 50 us, nested, 4096 * (i+1) bytes),
 *     SP_LAUNCH (+0.5 ms, 10 us, "ampere_sgemm_128x64_tn", returns 0) }; and in step after
 *     linear SP_SYNC (+2.5 ms, 1 ms, stream 0x7f0000001000, returns 0). 61 calls.
 *   thread 1: ten SP_NODE, each from 4.2 + 5i ms, 300 us, "AddmmBackward0" for even i and
 *     "MmBackward0" for odd ones; that of i = 9 is CALL_UNWOUND. 10 calls.
 *   thread 2: SP_FRAME of worker from 6 ms, CALL_OPEN, up to 90 ms; in it SP_MALLOC at 10 ms
 *     (100 us, 0x7f1000000000, 1 MiB, returns 0), at 20 ms (200 us, 0, 1 GiB, returns 2: the
 *     one CALL_ERROR) and at 30 ms (100 us, 0, 512, returns 0, CALL_ARG_FAULT); SP_GC at
 *     40 ms (5 ms, generation 2, returns -1); two SP_ALLREDUCE at 50 and 60 ms (1 ms,
 *     count 1048576, 4 MiB, returns 0). 7 calls.
 *   thread 3: nine SP_MARK instants at 10, 20 .. 90 ms and one SP_FLAG at 15 ms (1 us,
 *     argument true, returns false). 10 calls.
 * SP_UNUSED is never called.
 * Counters: "cpu_ratio" of "pid 4242" 0.5 + i/100 and "rss_bytes" of "pid 4242"
 *   1e9 + i * 1e6, at 10i ms for i = 0..9.
 * Histograms (replace earlier rows): (4242, SP_LINEAR) count 10, total 20 ms, max 2 ms, all
 *   in bucket 59; (4300, SP_MALLOC) count 3, errors 1, nested 0, total 400 us, max 200 us,
 *   buckets 42: 2, 46: 1; (4242, SP_FRAME) by name: code 1: count 10, nested 10, total 40 ms,
 *   max 4 ms, bucket 63: 10; code 0: count 1, total and max 60 ms, bucket 79: 1.
 * Losses: ring_full on CPU 0: 3 (put first as 1), ring_full on CPU 1: 4, arg_cut on CPU 0: 1.
 * Notes: 2. Maps: 3. Windows: 1. Metas: see SAMPLE_METAS. */
#pragma once

#include "base/error.h"

#define SAMPLE_T0	1000000000000ULL
#define SAMPLE_CALLS	88
#define SAMPLE_COUNTERS 20

enum sample_probe {
	SP_LINEAR,    /* torch aten::linear */
	SP_ADDMM,     /* torch aten::addmm */
	SP_EMPTY,     /* torch aten::empty(size bytes) */
	SP_NODE,      /* torch autograd::evaluate_function(node string, names the call) */
	SP_FRAME,     /* python frame(code, names the call) */
	SP_GC,	      /* python gc.collect(generation i64) -> i64 */
	SP_MALLOC,    /* cuda cudaMalloc(ptr ptr, size bytes) -> i64 */
	SP_LAUNCH,    /* cuda cudaLaunchKernel(kernel string, names the call) -> i64 */
	SP_SYNC,      /* cuda cudaStreamSynchronize(stream ptr) -> i64 */
	SP_ALLREDUCE, /* nccl ncclAllReduce(count u64, size bytes) -> i64 */
	SP_FLAG,      /* user foo_flag(on bool) -> bool */
	SP_MARK,      /* user foo_mark, an instant */
	SP_UNUSED,    /* user foo_unused */
	SP_COUNT,
};

#define SAMPLE_METAS                                                                               \
	{                                                                                          \
		{"host", "node-1"}, {"kernel", "6.12.0"}, {"command", "/usr/bin/python3"},         \
			{"version", "0.1.0"}, {"realtime_offset_ns", "1700000000000000000"},       \
	}

/* Writes it to path, replacing what was there. 0, or negative errno with the sentence. */
int sample_write(const char *path, struct err *e);

/* recording_sample_test.c - the samples of tests/golden, written now and by the first version.
 *
 * tests/golden/recordings/v1.eacgm stays as format 1 wrote it, v1_profile.eacgm as format 1.2 did,
 * and must stay readable. What is expected is written from sample.h and profile_sample.h and not
 * from the sources. Finds the source tree by
 * EACGM_SOURCE_ROOT, else in the current folder.
 *
 * links: base recording golden */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/types.h>

#include "base/entity.h"
#include "golden/profile_sample.h"
#include "golden/sample.h"
#include "recording/recording.h"
#include "wire/event.h"

#define MS	 1000000ULL
#define US	 1000ULL
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char *temp_path(void)
{
	char path[] = "/tmp/recording_test.XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	return xstrdup(path);
}

static struct rec_reader *open_reader(const char *path)
{
	struct rec_reader *r = NULL;
	struct err e = {0};
	if (rec_open(&r, path, &e))
		fail_msg("%s", e.msg);
	assert_string_equal(rec_tables(r)->damage, "");
	assert_int_equal(rec_tables(r)->damaged_at, 0);
	assert_true(rec_tables(r)->complete);
	return r;
}

/* All calls of a recording; the caller frees. */
static struct m_calls all_calls(const struct rec_reader *r)
{
	struct m_calls all = {0};
	struct m_calls block = {0};
	struct err e;
	for (size_t b = 0; b < rec_call_blocks(r); b++) {
		assert_int_equal(rec_read_calls(r, b, &block, &e), 0);
		all.rows = xrealloc(all.rows, all.len + block.len, sizeof(*all.rows));
		memcpy(all.rows + all.len, block.rows, block.len * sizeof(*all.rows));
		all.len += block.len;
	}
	assert_int_equal(all.len, rec_tables(r)->calls);
	m_calls_free(&block);
	return all;
}

/* ---- the sample: expectations are written from sample.h, not from sample.c ---- */

static const char *text(const struct rec_reader *r, uint32_t number)
{
	return strtab_get(&rec_tables(r)->strings, number, NULL);
}

static void check_sample_tables(const struct rec_reader *r)
{
	const struct rec_tables *t = rec_tables(r);
	static const char *const metas[][2] = SAMPLE_METAS;
	assert_int_equal(t->metas.len, COUNT(metas));
	for (size_t i = 0; i < COUNT(metas); i++)
		assert_string_equal(rec_meta(t, metas[i][0]), metas[i][1]);
	assert_null(rec_meta(t, "nothing"));

	assert_int_equal(t->processes.len, 2);
	const struct m_process *p = t->processes.data;
	assert_int_equal(p[0].pid, 4242);
	assert_int_equal(p[0].parent_pid, 4000);
	assert_string_equal(text(r, p[0].comm), "python3");
	assert_string_equal(text(r, p[0].command), "/usr/bin/python3.11");
	assert_int_equal(p[0].start_ns, SAMPLE_T0);
	assert_int_equal(p[0].end_ns, SAMPLE_T0 + 100 * MS);
	assert_int_equal(p[0].exit_code, 0);
	assert_int_equal(p[0].rank, 0);
	assert_int_equal(p[1].pid, 4300);
	assert_int_equal(p[1].parent_pid, 4242);
	assert_int_equal(p[1].end_ns, SAMPLE_T0 + 95 * MS);
	assert_int_equal(p[1].exit_code, 9);
	assert_int_equal(p[1].rank, 1);

	static const struct {
		uint32_t pid, tid;
		const char *comm;
	} threads[] = {{4242, 4242, "python3"},
		       {4242, 4250, "autograd"},
		       {4300, 4300, "python3"},
		       {4300, 4301, "pin_memory"}};
	assert_int_equal(t->threads.len, COUNT(threads));
	for (size_t i = 0; i < COUNT(threads); i++) {
		assert_int_equal(t->threads.data[i].pid, threads[i].pid);
		assert_int_equal(t->threads.data[i].tid, threads[i].tid);
		assert_string_equal(text(r, t->threads.data[i].comm), threads[i].comm);
	}

	assert_int_equal(t->codes.len, 3);
	assert_string_equal(text(r, t->codes.data[1].name), "train.<locals>.step");
	assert_string_equal(text(r, t->codes.data[1].file), "/job/train.py");
	assert_int_equal(t->codes.data[1].line, 20);
	assert_string_equal(text(r, t->codes.data[2].name), "worker");
}

static void check_sample_probes(const struct rec_reader *r)
{
	const struct rec_tables *t = rec_tables(r);
	static const char *const names[SP_COUNT] = {"aten::linear",
						    "aten::addmm",
						    "aten::empty",
						    "autograd::evaluate_function",
						    "frame",
						    "gc.collect",
						    "cudaMalloc",
						    "cudaLaunchKernel",
						    "cudaStreamSynchronize",
						    "ncclAllReduce",
						    "foo_flag",
						    "foo_mark",
						    "foo_unused"};
	assert_int_equal(t->probes.len, SP_COUNT);
	for (size_t i = 0; i < SP_COUNT; i++)
		assert_string_equal(text(r, t->probes.data[i].name), names[i]);
	const struct m_probe *launch = &t->probes.data[SP_LAUNCH];
	assert_string_equal(text(r, launch->layer), "cuda");
	assert_string_equal(text(r, launch->library), "/usr/lib/libcudart.so.12");
	assert_string_equal(text(r, launch->symbol), "cudaLaunchKernel");
	assert_int_equal(launch->kind, SITE_SPAN);
	assert_int_equal(launch->nargs, 2);
	assert_int_equal(launch->has_return, 1);
	assert_int_equal(launch->name_arg, 0);
	assert_string_equal(text(r, launch->arg_names[0]), "kernel");
	assert_string_equal(text(r, launch->arg_names[1]), "return");
	assert_int_equal(launch->arg_types[0], ARG_TYPE_STRING);
	assert_int_equal(launch->arg_types[1], ARG_TYPE_I64);
	assert_int_equal(t->probes.data[SP_LINEAR].name_arg, -1);
	assert_int_equal(t->probes.data[SP_MARK].kind, SITE_INSTANT);
}

static void check_sample_rest(const struct rec_reader *r)
{
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->maps.len, 3);
	assert_int_equal(t->maps.data[0].pid, 4242);
	assert_int_equal(t->maps.data[0].start, 0x7f5500000000);
	assert_int_equal(t->maps.data[0].end, 0x7f5510000000);
	assert_int_equal(t->maps.data[0].file_offset, 0x1000);
	assert_string_equal(text(r, t->maps.data[0].path), "/usr/lib/libtorch_cpu.so");
	assert_string_equal(text(r, t->maps.data[0].build_id),
			    "0123456789abcdef0123456789abcdef01234567");
	assert_int_equal(t->maps.data[2].time_ns, SAMPLE_T0 + 5 * MS);

	assert_int_equal(t->notes.len, 2);
	assert_string_equal(text(r, t->notes.data[0].subject), "libcupti.so");
	assert_string_equal(text(r, t->notes.data[0].reason), "is not installed; no GPU timeline");
	assert_int_equal(t->notes.data[1].time_ns, SAMPLE_T0 + MS);

	assert_int_equal(t->windows.len, 1);
	assert_int_equal(t->windows.data[0].start_ns, SAMPLE_T0);
	assert_int_equal(t->windows.data[0].end_ns, SAMPLE_T0 + 100 * MS);
	assert_string_equal(text(r, t->windows.data[0].layer), "torch");

	assert_int_equal(t->losses.len, 3);
	assert_string_equal(text(r, t->losses.data[0].cause), "ring_full");
	assert_int_equal(t->losses.data[0].cpu, 0);
	assert_int_equal(t->losses.data[0].count, 3);
	assert_int_equal(t->losses.data[1].cpu, 1);
	assert_int_equal(t->losses.data[1].count, 4);
	assert_string_equal(text(r, t->losses.data[2].cause), "arg_cut");

	assert_int_equal(t->hists.len, 4);
	const struct m_hist *h = t->hists.data;
	assert_int_equal(h[0].pid, 4242);
	assert_int_equal(h[0].probe, SP_LINEAR);
	assert_int_equal(h[0].count, 10);
	assert_int_equal(h[0].total_ns, 20 * MS);
	assert_int_equal(h[0].max_ns, 2 * MS);
	assert_int_equal(h[0].buckets[59], 10);
	assert_int_equal(h[0].buckets[58], 0);
	assert_int_equal(h[1].errors, 1);
	assert_int_equal(h[1].buckets[42], 2);
	assert_int_equal(h[1].buckets[46], 1);
	assert_int_equal(h[2].probe, SP_FRAME);
	assert_int_equal(h[2].name, 1);
	assert_int_equal(h[2].nested, 10);
	assert_int_equal(h[2].total_ns, 40 * MS);
	assert_int_equal(h[3].probe, SP_FRAME);
	assert_int_equal(h[3].name, 0);
	assert_int_equal(h[3].buckets[79], 1);

	struct m_counters c = {0};
	struct err e;
	assert_int_equal(t->counters, SAMPLE_COUNTERS);
	assert_int_equal(rec_counter_blocks(r), 1);
	assert_int_equal(rec_read_counters(r, 0, &c, &e), 0);
	assert_int_equal(c.len, SAMPLE_COUNTERS);
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(c.rows[2 * i].time_ns, SAMPLE_T0 + i * 10 * MS);
		const struct m_metric *m = &t->metrics.data[c.rows[2 * i].metric];
		assert_string_equal(text(r, m->name), "cpu_ratio");
		assert_int_equal(m->kind, ENTITY_PROCESS);
		assert_int_equal(m->pid, 4242);
		assert_int_equal(m->unit, UNIT_RATIO);
		assert_true(c.rows[2 * i].value == 0.5 + (double)i / 100);
		assert_true(c.rows[2 * i + 1].value == 1e9 + (double)i * 1e6);
	}
	m_counters_free(&c);
}

/* Takes the call out of the list; fails when it is not there. */
static void expect_call(struct m_calls *calls, struct m_call want)
{
	for (size_t i = 0; i < calls->len; i++)
		if (!memcmp(&calls->rows[i], &want, sizeof(want))) {
			calls->rows[i] = calls->rows[--calls->len];
			return;
		}
	fail_msg("no call of probe %u on thread %u at +%llu ns", want.probe, want.thread,
		 (unsigned long long)(want.start_ns - SAMPLE_T0));
}

#define CALL(thread_, probe_, at, dur, depth_, flags_, nargs_, ...)                                \
	((struct m_call){.start_ns = SAMPLE_T0 + (at),                                             \
			 .dur_ns = (dur),                                                          \
			 .thread = (thread_),                                                      \
			 .probe = (probe_),                                                        \
			 .flags = (flags_),                                                        \
			 .depth = (depth_),                                                        \
			 .nargs = (nargs_),                                                        \
			 .args = {__VA_ARGS__}})

static uint64_t number_of(const struct rec_reader *r, const char *s)
{
	const struct rec_tables *t = rec_tables(r);
	for (uint32_t i = 0; i < strtab_len(&t->strings); i++)
		if (!strcmp(text(r, i), s))
			return i;
	fail_msg("no string '%s'", s);
	return 0;
}

static void expect_steps(const struct rec_reader *r, struct m_calls *c)
{
	uint64_t kernel = number_of(r, "ampere_sgemm_128x64_tn");
	uint64_t addmm = number_of(r, "AddmmBackward0");
	uint64_t mm = number_of(r, "MmBackward0");
	expect_call(c, CALL(0, SP_FRAME, MS, 60 * MS, 0, 0, 1, 0));
	for (uint64_t i = 0; i < 10; i++) {
		uint64_t t = 2 * MS + 5 * MS * i;
		expect_call(c, CALL(0, SP_FRAME, t, 4 * MS, 1, CALL_NESTED, 1, 1));
		expect_call(c, CALL(0, SP_LINEAR, t + 100 * US, 2 * MS, 2, 0, 0, 0));
		expect_call(c, CALL(0, SP_ADDMM, t + 200 * US, 1500 * US, 3, CALL_NESTED, 0, 0));
		expect_call(c, CALL(0, SP_EMPTY, t + 250 * US, 50 * US, 4, CALL_NESTED, 1,
				    4096 * (i + 1)));
		expect_call(c, CALL(0, SP_LAUNCH, t + 500 * US, 10 * US, 4, 0, 2, kernel, 0));
		expect_call(c, CALL(0, SP_SYNC, t + 2500 * US, MS, 2, 0, 2, 0x7f0000001000, 0));
		expect_call(c, CALL(1, SP_NODE, t + 2200 * US, 300 * US, 0,
				    i == 9 ? CALL_UNWOUND : 0, 1, i % 2 ? mm : addmm));
	}
}

static void check_sample(const struct rec_reader *r)
{
	check_sample_tables(r);
	check_sample_probes(r);
	check_sample_rest(r);
	struct m_calls c = all_calls(r);
	assert_int_equal(c.len, SAMPLE_CALLS);
	expect_steps(r, &c);
	expect_call(&c, CALL(2, SP_FRAME, 6 * MS, 84 * MS, 0, CALL_OPEN, 1, 2));
	expect_call(&c, CALL(2, SP_MALLOC, 10 * MS, 100 * US, 1, 0, 3, 0x7f1000000000, 1 << 20, 0));
	expect_call(&c, CALL(2, SP_MALLOC, 20 * MS, 200 * US, 1, CALL_ERROR, 3, 0, 1 << 30, 2));
	expect_call(&c, CALL(2, SP_MALLOC, 30 * MS, 100 * US, 1, CALL_ARG_FAULT, 3, 0, 512, 0));
	expect_call(&c, CALL(2, SP_GC, 40 * MS, 5 * MS, 1, 0, 2, 2, UINT64_MAX));
	for (uint64_t at = 50; at <= 60; at += 10)
		expect_call(&c, CALL(2, SP_ALLREDUCE, at * MS, MS, 1, 0, 3, 1 << 20, 4 << 20, 0));
	expect_call(&c, CALL(3, SP_FLAG, 15 * MS, US, 0, 0, 2, 1, 0));
	for (uint64_t i = 1; i < 10; i++)
		expect_call(&c, CALL(3, SP_MARK, 10 * MS * i, 0, 0, CALL_INSTANT, 0, 0));
	assert_int_equal(c.len, 0);
	m_calls_free(&c);
}

static void test_sample(void **state)
{
	(void)state;
	char *path = temp_path();
	struct err e = {0};
	assert_int_equal(sample_write(path, &e), 0);
	struct rec_reader *r = open_reader(path);
	check_sample(r);
	rec_close(r);
	unlink(path);
	free(path);
}

static void test_golden_v1(void **state)
{
	(void)state;
	const char *root = getenv("EACGM_SOURCE_ROOT");
	char *path = xasprintf("%s/tests/golden/recordings/v1.eacgm", root ? root : ".");
	struct rec_reader *r = open_reader(path);
	check_sample(r);
	rec_close(r);
	free(path);
}

/* Root first: "a;b;c". */
static void expect_stack(const struct rec_tables *t, uint32_t stack, const char *want)
{
	char *text = NULL;
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		const char *name = strtab_get(&t->strings, f->name, NULL);
		char *longer = text ? xasprintf("%s;%s", name, text) : xstrdup(name);
		free(text);
		text = longer;
	}
	assert_string_equal(text, want);
	free(text);
}

static void check_profile_samples(const struct rec_reader *r)
{
	const struct rec_tables *t = rec_tables(r);
	struct m_samples s = {0};
	struct err e;
	assert_int_equal(t->samples, 1025);
	assert_int_equal(rec_sample_blocks(r), 2);
	assert_int_equal(rec_read_samples(r, 0, &s, &e), 0);
	assert_int_equal(s.len, 900);
	expect_stack(t, s.rows[0].stack,
		     "_start;Py_RunMain;main;_PyEval_EvalFrameDefault;train;cfunction_call;"
		     "at::_ops::addmm::call(at::Tensor const&);");
	expect_stack(t, s.rows[899].stack,
		     "_start;Py_RunMain;main;_PyEval_EvalFrameDefault;Loader.load;cfunction_call;"
		     "read;do_syscall_64");
	assert_int_equal(s.rows[1].time_ns, PROFILE_T0 + 10 * MS);
	assert_int_equal(s.rows[1].weight_ns, 10 * MS);
	assert_int_equal(rec_read_samples(r, 1, &s, &e), 0);
	assert_int_equal(s.len, 125);
	assert_int_equal(s.rows[0].thread, 1);
	expect_stack(t, s.rows[90].stack, "no_rules;at::_ops::mm::call(at::Tensor const&)");
	assert_int_equal(s.rows[99].stack, 0);
	assert_int_equal(s.rows[100].kind, SAMPLE_OFFCPU);
	assert_int_equal(s.rows[100].reason, WAIT_GIL);
	assert_string_equal(strtab_get(&t->strings, s.rows[100].waker, NULL), "pt_autograd_0");
	m_samples_free(&s);
}

static void check_profile(const char *path)
{
	struct rec_reader *r = open_reader(path);
	const struct rec_tables *t = rec_tables(r);
	struct m_gpu_spans spans = {0};
	struct err e;
	check_profile_samples(r);
	assert_int_equal(t->frames.len, 16);
	assert_int_equal(t->frames.data[4].kind, FRAME_PYTHON);
	assert_int_equal(t->frames.data[4].line, 20);
	assert_int_equal(t->frames.data[7].address, 0x6000);
	assert_int_equal(t->probes.data[0].stack_every, 64);
	assert_int_equal(t->gpu_spans, 641);
	assert_int_equal(rec_read_gpu_spans(r, 0, &spans, &e), 0);
	assert_int_equal(spans.rows[3].correlation, 103);
	assert_int_equal(spans.rows[3].end_ns - spans.rows[3].start_ns, MS);
	assert_int_equal(spans.rows[640].work, WORK_COPY);
	assert_int_equal(spans.rows[640].bytes, 1 << 20);
	struct m_calls c = all_calls(r);
	assert_int_equal(c.len, 644);
	size_t with_stack = 0;
	for (size_t i = 0; i < c.len; i++)
		with_stack += c.rows[i].stack != 0;
	assert_int_equal(with_stack, 12);
	m_calls_free(&c);
	m_gpu_spans_free(&spans);
	rec_close(r);
}

static void test_profile_sample(void **state)
{
	(void)state;
	char *path = temp_path();
	struct err e = {0};
	assert_int_equal(profile_sample_write(path, &e), 0);
	check_profile(path);
	unlink(path);
	free(path);
}

static void test_golden_v1_profile(void **state)
{
	(void)state;
	const char *root = getenv("EACGM_SOURCE_ROOT");
	char *path = xasprintf("%s/tests/golden/recordings/v1_profile.eacgm", root ? root : ".");
	check_profile(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_golden_v1),
		cmocka_unit_test(test_profile_sample),
		cmocka_unit_test(test_golden_v1_profile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

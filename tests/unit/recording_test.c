/* recording_test.c - what is put into a recording comes out again, row by row.
 *
 * Also reads tests/golden/recordings/v1.eacgm, which stays as the first version wrote it.
 * Finds the source tree by EACGM_SOURCE_ROOT, else in the current folder.
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
#include <pthread.h>

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

static struct rec_writer *open_writer(const char *path)
{
	struct rec_writer *w = NULL;
	struct err e = {0};
	assert_int_equal(rec_writer_open(&w, path, NULL, &e), 0);
	return w;
}

static void close_writer(struct rec_writer *w)
{
	struct err e = {0};
	if (rec_writer_close(w, true, &e))
		fail_msg("%s", e.msg);
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
		assert_string_equal(text(r, c.rows[2 * i].name), "cpu_ratio");
		assert_string_equal(text(r, c.rows[2 * i].entity), "pid 4242");
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

/* ---- every field at its extremes ---- */

/* Two rows: all bits set, and a pattern in which every byte differs. */
static void fill(void *rows, size_t row_bytes)
{
	uint8_t *p = rows;
	memset(p, 0xff, row_bytes);
	for (size_t i = 0; i < row_bytes; i++)
		p[row_bytes + i] = (uint8_t)(i * 7 + 1);
}

static void test_extremes(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	struct m_process processes[2];
	struct m_map maps[2];
	struct m_window windows[2];
	struct m_loss losses[2];
	struct m_hist hists[2];
	struct m_code codes[2];
	struct m_thread threads[2];
	struct m_note notes[2];
	/* Padding does not travel: compared field by field below where there is any. */
	fill(processes, sizeof(processes[0]));
	fill(maps, sizeof(maps[0]));
	fill(windows, sizeof(windows[0]));
	fill(losses, sizeof(losses[0]));
	fill(hists, sizeof(hists[0]));
	fill(codes, sizeof(codes[0]));
	fill(threads, sizeof(threads[0]));
	fill(notes, sizeof(notes[0]));
	struct m_probe probe = {.name_arg = -1, .kind = 255, .nargs = 6, .has_return = 1};
	memset(probe.arg_types, 0xfe, sizeof(probe.arg_types));
	uint32_t s = rec_string_z(w, "s");
	for (size_t i = 0; i < 2; i++) {
		/* string numbers have to be good ones */
		processes[i].comm = processes[i].command = s;
		maps[i].path = maps[i].build_id = windows[i].layer = losses[i].cause = s;
		codes[i].name = codes[i].file = threads[i].comm = s;
		notes[i].subject = notes[i].reason = s;
		hists[i].probe = (uint32_t)i;
		probe.arg_names[5] = s;
		assert_int_equal(rec_put_probe(w, &probe), i);
		rec_put_process(w, &processes[i]);
		rec_put_map(w, &maps[i]);
		rec_put_window(w, &windows[i]);
		rec_put_loss(w, &losses[i]);
		rec_put_hist(w, &hists[i]);
		rec_put_note(w, &notes[i]);
		assert_int_equal(rec_put_code(w, &codes[i]), i);
		assert_int_equal(rec_put_thread(w, &threads[i]), i);
	}
	close_writer(w);
	struct rec_reader *r = open_reader(path);
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->processes.len, 2);
	assert_memory_equal(t->processes.data, processes, sizeof(processes));
	assert_int_equal(t->windows.data[0].start_ns, UINT64_MAX);
	assert_memory_equal(t->hists.data, hists, sizeof(hists));
	assert_memory_equal(t->codes.data, codes, sizeof(codes));
	assert_memory_equal(t->threads.data, threads, sizeof(threads));
	for (size_t i = 0; i < 2; i++) {
		const struct m_map *m = &t->maps.data[i];
		assert_int_equal(m->pid, maps[i].pid);
		assert_int_equal(m->start, maps[i].start);
		assert_int_equal(m->end, maps[i].end);
		assert_int_equal(m->file_offset, maps[i].file_offset);
		assert_int_equal(m->time_ns, maps[i].time_ns);
		assert_int_equal(t->windows.data[i].end_ns, windows[i].end_ns);
		assert_int_equal(t->losses.data[i].cpu, losses[i].cpu);
		assert_int_equal(t->losses.data[i].count, losses[i].count);
		assert_int_equal(t->notes.data[i].time_ns, notes[i].time_ns);
		assert_memory_equal(&t->probes.data[i], &probe, sizeof(probe));
	}
	rec_close(r);
	unlink(path);
	free(path);
}

static void test_call_extremes(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	struct m_call rows[] = {
		{.start_ns = UINT64_MAX,
		 .flags = 255,
		 .depth = 255,
		 .nargs = 6,
		 .args = {UINT64_MAX, 0, 1ULL << 63, 127, 128, UINT64_MAX}},
		{.start_ns = 0,
		 .dur_ns = UINT64_MAX,
		 .probe = 1,
		 .thread = 1,
		 .nargs = 3,
		 .args = {1, 2, 3}},
		{.start_ns = 10, .dur_ns = UINT64_MAX, .probe = 1, .thread = 1}, /* end wraps */
		{0},
	};
	for (int i = 0; i < 2; i++) {
		rec_put_probe(w, &(struct m_probe){.name_arg = -1, .nargs = 6});
		rec_put_thread(w, &(struct m_thread){1, 2, 0});
	}
	rec_put_calls(w, rows, COUNT(rows));
	struct rec_writer_stats stats;
	rec_writer_stats(w, &stats);
	assert_int_equal(stats.calls, COUNT(rows));
	assert_int_equal(stats.calls_dropped, 0);
	close_writer(w);
	struct rec_reader *r = open_reader(path);
	struct m_calls c = all_calls(r);
	assert_int_equal(c.len, COUNT(rows));
	for (size_t i = 0; i < COUNT(rows); i++)
		expect_call(&c, rows[i]);
	m_calls_free(&c);
	rec_close(r);
	unlink(path);
	free(path);
}

/* ---- many calls ---- */

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

static struct m_call random_call(uint64_t *seed, uint64_t id)
{
	struct m_call c = {
		.start_ns = 1000000000 + next_random(seed) % 1000000000,
		.dur_ns = next_random(seed) >> (next_random(seed) % 31),
		.thread = (uint32_t)(next_random(seed) % 7),
		.probe = (uint32_t)(next_random(seed) % 40),
		.flags = (uint8_t)(next_random(seed) % 64),
		.depth = (uint8_t)next_random(seed),
		.nargs = (uint8_t)(1 + next_random(seed) % 6),
	};
	for (unsigned k = 1; k < c.nargs; k++)
		c.args[k] = next_random(seed) << (next_random(seed) % 34);
	c.args[0] = id;
	return c;
}

#define MANY 150000

/* Calls in any order, over several blocks: each comes out once and unchanged, each block is
 * grouped by thread and in order of end. */
static void test_many_calls(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	struct m_call *rows = xcalloc(MANY, sizeof(*rows));
	uint64_t seed = 42;
	for (uint64_t i = 0; i < MANY; i++)
		rows[i] = random_call(&seed, i);
	for (int i = 0; i < 40; i++)
		rec_put_probe(w, &(struct m_probe){.name_arg = -1, .nargs = 6});
	for (uint32_t i = 0; i < 7; i++)
		rec_put_thread(w, &(struct m_thread){1, i, 0});
	rec_put_calls(w, rows, MANY);
	close_writer(w);

	struct rec_reader *r = open_reader(path);
	assert_int_equal(rec_call_blocks(r), 3);
	assert_int_equal(rec_tables(r)->calls, MANY);
	struct m_calls c = {0};
	uint8_t *seen = xcalloc(MANY, 1);
	for (size_t b = 0; b < 3; b++) {
		struct err e;
		assert_int_equal(rec_read_calls(r, b, &c, &e), 0);
		for (size_t i = 0; i < c.len; i++) {
			uint64_t id = c.rows[i].args[0];
			assert_true(id < MANY && !seen[id]);
			seen[id] = 1;
			assert_memory_equal(&c.rows[i], &rows[id], sizeof(rows[0]));
			if (!i)
				continue;
			assert_true(c.rows[i - 1].thread <= c.rows[i].thread);
			if (c.rows[i - 1].thread == c.rows[i].thread)
				assert_true(c.rows[i - 1].start_ns + c.rows[i - 1].dur_ns <=
					    c.rows[i].start_ns + c.rows[i].dur_ns);
		}
	}
	free(seen);
	free(rows);
	m_calls_free(&c);
	rec_close(r);
	unlink(path);
	free(path);
}

struct decode_job {
	const struct rec_reader *r;
	uint64_t sum;
	int rc;
};

static void *decode_all(void *arg)
{
	struct decode_job *j = arg;
	struct m_calls c = {0};
	for (size_t b = 0; b < rec_call_blocks(j->r) && !j->rc; b++) {
		j->rc = rec_read_calls(j->r, b, &c, NULL);
		for (size_t i = 0; i < c.len; i++)
			j->sum = j->sum * 31 + c.rows[i].start_ns + c.rows[i].args[0];
	}
	m_calls_free(&c);
	return NULL;
}

static void test_concurrent_decode(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	uint64_t seed = 7;
	for (int i = 0; i < 40; i++)
		rec_put_probe(w, &(struct m_probe){.name_arg = -1, .nargs = 6});
	for (uint32_t i = 0; i < 7; i++)
		rec_put_thread(w, &(struct m_thread){1, i, 0});
	for (uint64_t i = 0; i < 20000; i++) {
		struct m_call c = random_call(&seed, i);
		rec_put_calls(w, &c, 1);
		if (i % 2000 == 0)
			assert_int_equal(rec_flush(w, NULL), 0);
	}
	close_writer(w);
	struct rec_reader *r = open_reader(path);
	struct decode_job jobs[4];
	pthread_t threads[4];
	for (int i = 0; i < 4; i++) {
		jobs[i] = (struct decode_job){.r = r};
		assert_int_equal(pthread_create(&threads[i], NULL, decode_all, &jobs[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(jobs[i].rc, 0);
		assert_true(jobs[i].sum == jobs[0].sum);
	}
	assert_true(jobs[0].sum != 0);
	rec_close(r);
	unlink(path);
	free(path);
}

/* ---- strings, replacing rows, bad numbers ---- */

static void test_strings(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	char name[32];
	char *large = xcalloc(1, 3 << 20);
	memset(large, 'x', 3 << 20);
	assert_int_equal(rec_string(w, "", 0), 0);
	assert_int_equal(rec_string_z(w, NULL), 0);
	uint32_t binary = rec_string(w, "a\0b\xff\n", 5);
	uint32_t cut = rec_string(w, large, 3 << 20);
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "string %d", i);
		assert_int_equal(rec_string_z(w, name), cut + 1 + i);
	}
	assert_int_equal(rec_flush(w, NULL), 0);
	uint32_t later = rec_string_z(w, "later");
	assert_int_equal(rec_string_z(w, "later"), later);
	close_writer(w);
	struct rec_reader *r = open_reader(path);
	const struct strtab *s = &rec_tables(r)->strings;
	size_t len;
	assert_int_equal(strtab_len(s), later + 1);
	assert_memory_equal(strtab_get(s, binary, &len), "a\0b\xff\n", 6);
	assert_int_equal(len, 5);
	assert_string_equal(strtab_get(s, 0, &len), "");
	strtab_get(s, cut, &len);
	assert_int_equal(len, 1 << 20);
	assert_string_equal(strtab_get(s, cut + 1 + 77777, &len), "string 77777");
	assert_string_equal(strtab_get(s, later, &len), "later");
	free(large);
	rec_close(r);
	unlink(path);
	free(path);
}

/* Totals are put again at every flush for the length of a run; the last ones count. */
static void test_replaced_rows(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	uint32_t cause = rec_string_z(w, "ring_full");
	for (int i = 0; i < 3; i++)
		rec_put_probe(w, &(struct m_probe){.name_arg = -1});
	uint32_t thread = rec_put_thread(w, &(struct m_thread){5, 5, 0});
	for (uint64_t round = 1; round <= 3000; round++) {
		for (uint32_t k = 0; k < 3; k++) {
			rec_put_hist(w, &(struct m_hist){.pid = 9 - k, .probe = k, .count = round});
			rec_put_loss(w, &(struct m_loss){cause, 2 - k, round});
			rec_put_process(w, &(struct m_process){
						   .pid = 5, .start_ns = 2 - k, .end_ns = round});
		}
		if (round % 100 == 0)
			assert_int_equal(rec_flush(w, NULL), 0);
	}
	rec_update_thread(w, thread, &(struct m_thread){5, 6, cause});
	close_writer(w);
	struct rec_reader *r = open_reader(path);
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->hists.len, 3);
	assert_int_equal(t->losses.len, 3);
	assert_int_equal(t->processes.len, 3);
	for (uint32_t k = 0; k < 3; k++) {
		assert_int_equal(t->hists.data[k].pid, 9 - k);
		assert_int_equal(t->hists.data[k].count, 3000);
		assert_int_equal(t->losses.data[k].cpu, 2 - k);
		assert_int_equal(t->losses.data[k].count, 3000);
		assert_int_equal(t->processes.data[k].start_ns, 2 - k);
		assert_int_equal(t->processes.data[k].end_ns, 3000);
	}
	assert_int_equal(t->threads.len, 1);
	assert_int_equal(t->threads.data[0].tid, 6);
	rec_close(r);
	unlink(path);
	free(path);
}

static void test_bad_numbers(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	struct m_probe p = {
		.name_arg = -1, .nargs = 2, .arg_types = {ARG_TYPE_STRING, ARG_TYPE_CODE}};
	rec_put_probe(w, &p);
	rec_put_thread(w, &(struct m_thread){1, 1, 0});
	struct m_call rows[] = {
		{.nargs = 2, .args = {1000, 1000}},
		{.nargs = 2, .start_ns = 1, .args = {0, UINT64_MAX}},
		{.nargs = 200, .start_ns = 2},
		{.probe = 1},
		{.thread = 1},
	};
	rec_put_calls(w, rows, COUNT(rows));
	struct rec_writer_stats stats;
	rec_writer_stats(w, &stats);
	assert_int_equal(stats.calls, 3);
	assert_int_equal(stats.calls_dropped, 2);
	close_writer(w);
	struct rec_reader *r = open_reader(path);
	const struct rec_tables *t = rec_tables(r);
	struct m_calls c = all_calls(r);
	assert_int_equal(c.len, 3);
	assert_int_equal(t->codes.len, 1);
	assert_string_equal(text(r, t->codes.data[0].name), "(unknown)");
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(c.rows[i].flags, CALL_ARG_FAULT * (i < 2));
		assert_int_equal(c.rows[i].args[0], 0);
		assert_int_equal(c.rows[i].args[1], 0);
		assert_int_equal(c.rows[i].nargs, i < 2 ? 2 : 6);
	}
	/* what was not written is told as a loss */
	assert_int_equal(t->losses.len, 1);
	assert_string_equal(text(r, t->losses.data[0].cause), "not_written");
	assert_int_equal(t->losses.data[0].count, 2);
	m_calls_free(&c);
	rec_close(r);
	unlink(path);
	free(path);
}

static void test_empty(void **state)
{
	(void)state;
	char *path = temp_path();
	close_writer(open_writer(path));
	struct rec_reader *r = open_reader(path);
	assert_int_equal(rec_tables(r)->calls, 0);
	assert_int_equal(rec_call_blocks(r), 0);
	struct m_calls c = {0};
	struct err e = {0};
	assert_true(rec_read_calls(r, 0, &c, &e) < 0);
	assert_string_not_equal(e.msg, "");
	rec_close(r);
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample),	    cmocka_unit_test(test_golden_v1),
		cmocka_unit_test(test_extremes),    cmocka_unit_test(test_call_extremes),
		cmocka_unit_test(test_many_calls),  cmocka_unit_test(test_concurrent_decode),
		cmocka_unit_test(test_strings),	    cmocka_unit_test(test_replaced_rows),
		cmocka_unit_test(test_bad_numbers), cmocka_unit_test(test_empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

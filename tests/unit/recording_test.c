/* recording_test.c - what is put into a recording comes out again, row by row.
 *
 * links: base recording */
#include <errno.h>
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

static const char *text(const struct rec_reader *r, uint32_t number)
{
	return strtab_get(&rec_tables(r)->strings, number, NULL);
}

/* Takes the call out of the list; fails when it is not there. */
static void expect_call(struct m_calls *calls, struct m_call want)
{
	for (size_t i = 0; i < calls->len; i++)
		if (!memcmp(&calls->rows[i], &want, sizeof(want))) {
			calls->rows[i] = calls->rows[--calls->len];
			return;
		}
	fail_msg("no call of probe %u on thread %u at %llu ns", want.probe, want.thread,
		 (unsigned long long)want.start_ns);
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
		assert_int_equal(rec_add_probe(w, &probe), i);
		rec_put_process(w, &processes[i]);
		rec_put_map(w, &maps[i]);
		rec_put_window(w, &windows[i]);
		rec_put_loss(w, &losses[i]);
		rec_put_hist(w, &hists[i]);
		rec_put_note(w, &notes[i]);
		assert_int_equal(rec_add_code(w, &codes[i]), i);
		assert_int_equal(rec_add_thread(w, &threads[i]), i);
	}
	close_writer(w);
	struct rec_reader *r = open_reader(path);
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->processes.len, 2);
	for (size_t i = 0; i < 2; i++) /* up to the padding */
		assert_memory_equal(&t->processes.data[i], &processes[i],
				    offsetof(struct m_process, source) + sizeof(uint32_t));
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
		rec_add_probe(w, &(struct m_probe){.name_arg = -1, .nargs = 6});
		rec_add_thread(w, &(struct m_thread){1, 2, 0});
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

/* ---- stacks, samples, GPU spans ---- */

/* A chain of n stacks of their own frames. */
static void put_chain(struct rec_writer *w, uint32_t n)
{
	uint32_t parent = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct m_frame f = {.kind = FRAME_NATIVE, .address = i};
		assert_int_equal(rec_add_frame(w, &f), i);
		parent = rec_add_stack(w, &(struct m_stack){parent, i});
		assert_int_equal(parent, i + 1);
	}
}

static void test_stack_extremes(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	struct m_frame frames[2];
	struct m_sample samples[2];
	struct m_gpu_span spans[2];
	fill(frames, sizeof(frames[0]));
	fill(samples, sizeof(samples[0]));
	fill(spans, sizeof(spans[0]));
	struct m_probe probe = {.name_arg = -1, .stack_every = UINT32_MAX};
	uint32_t s = rec_string_z(w, "s");
	rec_add_probe(w, &probe);
	rec_add_thread(w, &(struct m_thread){1, 1, s});
	for (uint32_t i = 0; i < 2; i++) {
		/* numbers have to be good ones */
		frames[i].name = frames[i].file = frames[i].library = frames[i].build_id = s;
		samples[i].thread = 0;
		samples[i].stack = i + 1;
		samples[i].reason = WAIT_GPU;
		samples[i].waker = spans[i].name = s;
		spans[i].end_ns = UINT64_MAX;
		assert_int_equal(rec_add_frame(w, &frames[i]), i);
		assert_int_equal(rec_add_stack(w, &(struct m_stack){i, i}), i + 1);
		rec_put_sample(w, &samples[i]);
		rec_put_gpu_span(w, &spans[i]);
	}
	struct m_call call = {.dur_ns = 1, .stack = 2};
	rec_put_calls(w, &call, 1);
	close_writer(w);

	struct rec_reader *r = open_reader(path);
	const struct rec_tables *t = rec_tables(r);
	struct m_samples got = {0};
	struct m_gpu_spans got_spans = {0};
	struct err e;
	assert_int_equal(t->probes.data[0].stack_every, UINT32_MAX);
	assert_int_equal(t->frames.len, 2);
	assert_int_equal(t->stacks.len, 3);
	assert_int_equal(t->samples, 2);
	assert_int_equal(t->gpu_spans, 2);
	assert_int_equal(rec_read_samples(r, 0, &got, &e), 0);
	assert_int_equal(rec_read_gpu_spans(r, 0, &got_spans, &e), 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct m_frame *f = &t->frames.data[i];
		assert_int_equal(f->kind, frames[i].kind);
		assert_int_equal(f->in_python, frames[i].in_python);
		assert_memory_equal(&f->name, &frames[i].name, 5 * sizeof(f->name));
		assert_int_equal(f->line, frames[i].line);
		assert_int_equal(f->address, frames[i].address);
		assert_int_equal(t->stacks.data[i + 1].parent, i);
		assert_int_equal(t->stacks.data[i + 1].frame, i);
		struct m_sample *m = &got.rows[i];
		assert_int_equal(m->time_ns, samples[i].time_ns);
		assert_int_equal(m->weight_ns, samples[i].weight_ns);
		assert_int_equal(m->stack, i + 1);
		assert_int_equal(m->kind, samples[i].kind);
		assert_int_equal(m->reason, WAIT_GPU);
		assert_int_equal(m->waker, s);
		assert_int_equal(m->waker_tid, samples[i].waker_tid);
		struct m_gpu_span *g = &got_spans.rows[i];
		assert_memory_equal(g, &spans[i], offsetof(struct m_gpu_span, work));
		assert_int_equal(g->work, spans[i].work);
		assert_int_equal(g->copy_kind, spans[i].copy_kind);
		assert_int_equal(g->bytes, spans[i].bytes);
		assert_int_equal(g->graph_node, spans[i].graph_node);
	}
	struct m_calls calls = all_calls(r);
	assert_int_equal(calls.rows[0].stack, 2);
	assert_int_equal(rec_read_samples(r, 1, &got, &e), -EINVAL);
	assert_int_equal(rec_read_gpu_spans(r, 1, &got_spans, &e), -EINVAL);
	m_calls_free(&calls);
	m_samples_free(&got);
	m_gpu_spans_free(&got_spans);
	rec_close(r);
	unlink(path);
	free(path);
}

/* The writer makes numbers good that were never given out, and leaves out samples of threads
 * that are not there; a frame put again replaces. */
static void test_stack_numbers(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	struct err e;
	rec_add_probe(w, &(struct m_probe){.name_arg = -1});
	rec_add_thread(w, &(struct m_thread){1, 1, 0});
	put_chain(w, 2);
	assert_int_equal(rec_add_stack(w, &(struct m_stack){9, 0}), 3);
	assert_int_equal(rec_add_stack(w, &(struct m_stack){4, 99}), 4);
	assert_int_equal(rec_flush(w, &e), 0);
	struct m_frame named = {.name = rec_string_z(w, "main"), .address = 1};
	rec_update_frame(w, 1, &named);
	rec_put_sample(w, &(struct m_sample){.thread = 1, .stack = 1});
	rec_put_sample(w, &(struct m_sample){.stack = 5});
	struct m_call call = {.stack = 5};
	rec_put_calls(w, &call, 1);
	close_writer(w);

	struct rec_reader *r = open_reader(path);
	const struct rec_tables *t = rec_tables(r);
	struct m_samples got = {0};
	assert_int_equal(t->stacks.data[3].parent, 0);
	assert_int_equal(t->stacks.data[4].parent, 0);
	assert_string_equal(text(r, t->frames.data[t->stacks.data[4].frame].name), "(unknown)");
	assert_string_equal(text(r, t->frames.data[1].name), "main");
	assert_int_equal(rec_read_samples(r, 0, &got, &e), 0);
	assert_int_equal(got.len, 1);
	assert_int_equal(got.rows[0].stack, 0);
	struct m_calls calls = all_calls(r);
	assert_int_equal(calls.rows[0].stack, 0);
	m_calls_free(&calls);
	m_samples_free(&got);
	rec_close(r);
	unlink(path);
	free(path);
}

/* More rows than a block holds: they go out by themselves, in blocks of at most 64 Ki. */
static void test_many_samples(void **state)
{
	(void)state;
	char *path = temp_path();
	struct rec_writer *w = open_writer(path);
	struct rec_writer_stats before, after;
	rec_add_thread(w, &(struct m_thread){1, 1, 0});
	rec_writer_stats(w, &before);
	put_chain(w, 70000);
	for (uint32_t i = 0; i < 140000; i++) {
		rec_put_sample(w, &(struct m_sample){i, 1, 0, i % 70000 + 1, 0, 0, 0, 0});
		rec_put_gpu_span(w, &(struct m_gpu_span){.start_ns = i, .end_ns = 2 * i});
	}
	rec_writer_stats(w, &after);
	assert_true(after.bytes > before.bytes);
	close_writer(w);

	struct rec_reader *r = open_reader(path);
	struct m_samples got = {0};
	struct m_gpu_spans spans = {0};
	struct err e;
	uint32_t next = 0;
	assert_int_equal(rec_tables(r)->stacks.len, 70001);
	assert_int_equal(rec_sample_blocks(r), 3);
	for (size_t b = 0; b < rec_sample_blocks(r); b++) {
		assert_int_equal(rec_read_samples(r, b, &got, &e), 0);
		for (size_t i = 0; i < got.len; i++, next++) {
			assert_int_equal(got.rows[i].time_ns, next);
			assert_int_equal(got.rows[i].stack, next % 70000 + 1);
		}
	}
	assert_int_equal(next, 140000);
	next = 0;
	for (size_t b = 0; b < rec_gpu_span_blocks(r); b++) {
		assert_int_equal(rec_read_gpu_spans(r, b, &spans, &e), 0);
		for (size_t i = 0; i < spans.len; i++, next++)
			assert_int_equal(spans.rows[i].end_ns, 2 * next);
	}
	assert_int_equal(next, 140000);
	m_samples_free(&got);
	m_gpu_spans_free(&spans);
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
		.stack = next_random(seed) % 8 ? 0 : (uint32_t)(1 + next_random(seed) % 50),
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
		rec_add_probe(w, &(struct m_probe){.name_arg = -1, .nargs = 6});
	for (uint32_t i = 0; i < 7; i++)
		rec_add_thread(w, &(struct m_thread){1, i, 0});
	put_chain(w, 50);
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
		rec_add_probe(w, &(struct m_probe){.name_arg = -1, .nargs = 6});
	for (uint32_t i = 0; i < 7; i++)
		rec_add_thread(w, &(struct m_thread){1, i, 0});
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
		rec_add_probe(w, &(struct m_probe){.name_arg = -1});
	uint32_t thread = rec_add_thread(w, &(struct m_thread){5, 5, 0});
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
	rec_add_probe(w, &p);
	rec_add_thread(w, &(struct m_thread){1, 1, 0});
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
		assert_int_equal(c.rows[i].nargs, i < 2 ? 2 : MODEL_MAX_ARGS);
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

		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_call_extremes),
		cmocka_unit_test(test_stack_extremes),
		cmocka_unit_test(test_stack_numbers),
		cmocka_unit_test(test_many_samples),
		cmocka_unit_test(test_many_calls),
		cmocka_unit_test(test_concurrent_decode),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_replaced_rows),
		cmocka_unit_test(test_bad_numbers),
		cmocka_unit_test(test_empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* summary_test.c - the report's numbers: of the sample recording, worked out by hand, and
 * of random call trees against a plain sum over the trees.
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

#include "analyze/summary.h"
#include "golden/sample.h"
#include "recording/recording.h"
#include "wire/event.h"
#include "made_file.h"

#define MS 1000000ULL
#define US 1000ULL

static struct rec_reader *opened(void)
{
	struct rec_reader *r = NULL;
	struct err e = {0};
	if (rec_open(&r, path, &e))
		fail_msg("%s", e.msg);
	return r;
}

static struct rec_writer *created(void)
{
	struct rec_writer *w = NULL;
	struct err e = {0};
	if (rec_writer_open(&w, path, NULL, &e))
		fail_msg("%s", e.msg);
	return w;
}

static const struct summary_function *function(const struct summary *s, const char *name)
{
	const struct summary_function *found = NULL;
	for (size_t i = 0; i < s->functions.len; i++) {
		if (strcmp(s->functions.data[i].name, name))
			continue;
		assert_null(found);
		found = &s->functions.data[i];
	}
	if (!found)
		fail_msg("no function %s", name);
	return found;
}

static void assert_about(uint64_t got, uint64_t want)
{
	if (got * 100 < want * 97 || got * 100 > want * 103)
		fail_msg("%llu is not about %llu", (unsigned long long)got,
			 (unsigned long long)want);
}

/* ---- the sample ---- */

static void sample_functions(const struct summary *s)
{
	const struct summary_function *f = function(s, "train (/job/train.py:10)");
	assert_string_equal(f->layer, "python");
	assert_string_equal(f->file, "/job/train.py");
	assert_int_equal(f->line, 10);
	assert_int_equal(f->calls, 1);
	assert_int_equal(f->total_ns, 60 * MS);
	f = function(s, "aten::addmm");
	assert_int_equal(f->calls, 10);
	assert_int_equal(f->nested, 10);
	assert_int_equal(f->total_ns, 15 * MS);
	assert_true(f->self_known);
	assert_int_equal(f->self_ns, 15 * MS - 10 * (50 + 10) * US);
	assert_int_equal(f->mean_ns, 1500 * US);
	assert_about(f->p50_ns, 1500 * US);
	assert_int_equal(f->max_ns, 1500 * US);
	f = function(s, "ampere_sgemm_128x64_tn");
	assert_string_equal(f->layer, "cuda");
	assert_int_equal(f->calls, 10);
	assert_int_equal(f->self_ns, 100 * US);
	f = function(s, "MmBackward0");
	assert_int_equal(f->calls, 5);
	assert_int_equal(f->unwound, 1);
	assert_int_equal(f->errors, 1);
	f = function(s, "foo_mark");
	assert_int_equal(f->calls, 9);
	assert_int_equal(f->instants, 9);
	assert_int_equal(f->total_ns, 0);
	assert_int_equal(f->mean_ns, 0);
	f = function(s, "worker (/job/data.py:5)");
	assert_int_equal(f->open, 1);
	assert_int_equal(f->total_ns, 84 * MS);
	assert_int_equal(f->self_ns, 84 * MS - (400 * US + 7 * MS));
}

/* Calls that a kernel histogram counted are in the recording too: counted once. */
static void sample_histograms(const struct summary *s)
{
	const struct summary_function *f = function(s, "aten::linear");
	assert_int_equal(f->calls, 10);
	assert_int_equal(f->total_ns, 20 * MS);
	assert_int_equal(f->max_ns, 2 * MS);
	assert_true(f->from_histogram);
	assert_false(f->self_known);
	/* Bucket 59 holds 1.835 to 2.097 ms, of which nothing is above the maximum. */
	assert_in_range(f->p50_ns, 1835008, 2 * MS);
	f = function(s, "cudaMalloc");
	assert_int_equal(f->calls, 3);
	assert_int_equal(f->errors, 1);
	assert_int_equal(f->total_ns, 400 * US);
	assert_int_equal(f->max_ns, 200 * US);
	assert_in_range(f->p50_ns, 98304, 114688 * 103 / 100);
}

static void sample_is_summed(void **state)
{
	(void)state;
	struct err e = {0};
	assert_int_equal(sample_write(path, &e), 0);
	struct rec_reader *r = opened();
	for (unsigned threads = 1; threads <= 2; threads++) {
		struct summary s;
		summary_make(&s, rec_source(r),
			     &(struct summary_options){.visit.threads = threads});
		sample_functions(&s);
		sample_histograms(&s);
		assert_int_equal(s.processes.len, 2);
		assert_int_equal(s.processes.data[0].calls + s.processes.data[1].calls,
				 SAMPLE_CALLS);
		assert_int_equal(s.processes.data[0].threads, 2);
		assert_int_equal(s.open_calls_total, 1);
		assert_int_equal(s.open_calls.len, 1);
		assert_int_equal(s.open_calls.data[0].tid, 4300);
		assert_int_equal(s.open_calls.data[0].dur_ns, 84 * MS);
		assert_int_equal(s.first_ns, SAMPLE_T0 + 1 * MS);
		assert_int_equal(s.last_ns, SAMPLE_T0 + 90 * MS);
		assert_int_equal(s.blocks_unread, 0);
		for (size_t i = 1; i < s.functions.len; i++)
			assert_true(s.functions.data[i - 1].total_ns >=
				    s.functions.data[i].total_ns);
		summary_free(&s);
	}
	rec_close(r);
}

static void one_process_of_the_sample(void **state)
{
	(void)state;
	struct err e = {0};
	struct summary s;
	assert_int_equal(sample_write(path, &e), 0);
	struct rec_reader *r = opened();
	summary_make(&s, rec_source(r), &(struct summary_options){.pid = 4300});
	assert_int_equal(s.processes.len, 1);
	assert_int_equal(s.processes.data[0].row->pid, 4300);
	assert_int_equal(s.processes.data[0].calls, 17);
	uint64_t calls = 0;
	for (size_t i = 0; i < s.functions.len; i++)
		calls += s.functions.data[i].calls;
	assert_int_equal(calls, 17);
	assert_int_equal(function(&s, "cudaMalloc")->calls, 3);
	summary_free(&s);
	rec_close(r);
}

/* ---- random trees ---- */

enum { PROBES = 20, THREADS = 5 };

struct expected {
	uint64_t calls, total_ns, self_ns, max_ns;
};

struct forest {
	struct rec_writer *w;
	uint64_t random;
	uint64_t now[THREADS];
	struct expected probes[PROBES];
	unsigned open[PROBES];
	size_t calls;
	size_t flush_every; /* calls; small ones put callers blocks after what they call */
};

static uint64_t rnd(struct forest *f, uint64_t n)
{
	f->random ^= f->random << 13;
	f->random ^= f->random >> 7;
	f->random ^= f->random << 17;
	return f->random % n;
}

static uint64_t tree(struct forest *f, uint32_t thread, uint8_t depth)
{
	uint64_t start = f->now[thread], inside = 0;
	uint32_t probe = (uint32_t)rnd(f, PROBES);
	f->open[probe]++;
	f->now[thread] += rnd(f, 1000);
	for (uint64_t i = depth < 8 ? rnd(f, depth ? 3 : 30) : 0; i; i--)
		inside += tree(f, thread, depth + 1);
	f->now[thread] += rnd(f, 1000);
	struct m_call c = {.start_ns = start,
			   .dur_ns = f->now[thread] - start,
			   .thread = thread,
			   .probe = probe,
			   .depth = depth};
	rec_put_calls(f->w, &c, 1);
	struct expected *x = &f->probes[probe];
	x->calls++;
	x->total_ns += --f->open[probe] ? 0 : c.dur_ns;
	x->self_ns += c.dur_ns - inside;
	if (c.dur_ns > x->max_ns)
		x->max_ns = c.dur_ns;
	if (++f->calls % f->flush_every == 0)
		assert_int_equal(rec_flush(f->w, NULL), 0);
	return c.dur_ns;
}

static void put_probes(struct rec_writer *w)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		rec_add_probe(w, &(struct m_probe){.layer = rec_string_z(w, "user"),
						   .name = rec_string_z(w, name),
						   .name_arg = -1});
	}
	for (uint32_t i = 0; i < THREADS; i++)
		rec_add_thread(w, &(struct m_thread){.pid = 1, .tid = 1 + i});
}

static void self_time_across_blocks(void **state)
{
	(void)state;
	const size_t flushes[] = {1, 3, 50, 1000000};
	for (size_t k = 0; k < sizeof(flushes) / sizeof(flushes[0]); k++) {
		struct forest f = {.w = created(), .random = 77, .flush_every = flushes[k]};
		put_probes(f.w);
		for (uint32_t i = 0; i < THREADS; i++)
			f.now[i] = 1000;
		while (f.calls < 3000)
			tree(&f, (uint32_t)rnd(&f, THREADS), 0);
		assert_int_equal(rec_writer_close(f.w, false, NULL), 0);
		struct rec_reader *r = opened();
		for (unsigned threads = 1; threads <= 4; threads += 3) {
			struct summary s;
			summary_make(&s, rec_source(r),
				     &(struct summary_options){.visit.threads = threads});
			for (uint32_t i = 0; i < PROBES; i++) {
				char name[16];
				snprintf(name, sizeof(name), "f%u", i);
				const struct summary_function *got = function(&s, name);
				assert_int_equal(got->calls, f.probes[i].calls);
				assert_int_equal(got->total_ns, f.probes[i].total_ns);
				assert_int_equal(got->self_ns, f.probes[i].self_ns);
				assert_int_equal(got->max_ns, f.probes[i].max_ns);
			}
			summary_free(&s);
		}
		rec_close(r);
	}
}

/* ---- callers that are missing ---- */

static void put(struct rec_writer *w, uint32_t probe, uint64_t start, uint64_t end, uint8_t depth)
{
	rec_put_calls(
		w,
		&(struct m_call){
			.start_ns = start, .dur_ns = end - start, .probe = probe, .depth = depth},
		1);
}

static void calls_of_lost_callers(void **state)
{
	(void)state;
	for (int flush = 0; flush < 2; flush++) {
		struct rec_writer *w = created();
		put_probes(w);
		put(w, 0, 10, 20, 1); /* its caller (5 to 25, depth 0) is not recorded */
		if (flush)
			assert_int_equal(rec_flush(w, NULL), 0);
		put(w, 1, 40, 50, 2); /* its caller at depth 1 is not recorded, */
		if (flush)
			assert_int_equal(rec_flush(w, NULL), 0);
		put(w, 2, 30, 60, 0); /* but the caller of that is */
		assert_int_equal(rec_writer_close(w, false, NULL), 0);
		struct rec_reader *r = opened();
		struct summary s;
		summary_make(&s, rec_source(r), &(struct summary_options){0});
		assert_int_equal(function(&s, "f2")->total_ns, 30);
		assert_int_equal(function(&s, "f2")->self_ns, 20);
		assert_int_equal(function(&s, "f0")->self_ns, 10);
		summary_free(&s);
		rec_close(r);
	}
}

/* Two probes of one name are one function; the same code of two processes is one. */
static void equal_names_are_one_function(void **state)
{
	(void)state;
	struct rec_writer *w = created();
	uint32_t layer = rec_string_z(w, "torch"), name = rec_string_z(w, "aten::add");
	struct m_probe p = {.layer = layer, .name = name, .name_arg = -1};
	rec_add_probe(w, &p);
	rec_add_probe(w, &p);
	p = (struct m_probe){.layer = layer, .name = name, .nargs = 1};
	p.arg_types[0] = ARG_TYPE_CODE;
	rec_add_probe(w, &p);
	struct m_code code = {rec_string_z(w, "f"), rec_string_z(w, "/a.py"), 3};
	rec_add_code(w, &code);
	rec_add_code(w, &code);
	rec_add_thread(w, &(struct m_thread){.pid = 1, .tid = 1});
	put(w, 0, 0, 10, 0);
	put(w, 1, 10, 30, 0);
	for (uint64_t i = 0; i < 2; i++) {
		struct m_call c = {.start_ns = 40, .dur_ns = 1, .probe = 2, .nargs = 1};
		c.args[0] = i;
		rec_put_calls(w, &c, 1);
	}
	assert_int_equal(rec_writer_close(w, false, NULL), 0);
	struct rec_reader *r = opened();
	struct summary s;
	summary_make(&s, rec_source(r), &(struct summary_options){0});
	assert_int_equal(s.functions.len, 2);
	assert_int_equal(function(&s, "aten::add")->calls, 2);
	assert_int_equal(function(&s, "aten::add")->total_ns, 30);
	assert_int_equal(function(&s, "f (/a.py:3)")->calls, 2);
	summary_free(&s);
	rec_close(r);
}

/* A child is seen before its fork is told, then its fork, then what it runs: one process. Once it
 * has ended, its number may be another's. */
static void one_row_of_each_process(void **state)
{
	(void)state;
	struct rec_writer *w;
	assert_int_equal(rec_writer_open(&w, path, NULL, NULL), 0);
	struct m_process p = {.pid = 7, .comm = rec_string_z(w, "sh"), .start_ns = 20, .rank = -1};
	rec_put_process(w, &p);
	p.start_ns = 10;
	rec_put_process(w, &p);
	p.comm = rec_string_z(w, "ls");
	p.end_ns = 30;
	rec_put_process(w, &p);
	p.comm = rec_string_z(w, "cat");
	p.start_ns = 40;
	p.end_ns = 0;
	rec_put_process(w, &p);
	rec_add_thread(w, &(struct m_thread){7, 7, 0});
	assert_int_equal(rec_writer_close(w, false, NULL), 0);
	struct rec_reader *r = opened();
	struct summary s;
	summary_make(&s, rec_source(r), &(struct summary_options){0});
	const struct strtab *strings = &rec_tables(r)->strings;
	assert_int_equal(s.processes.len, 2);
	assert_string_equal(strtab_get(strings, s.processes.data[0].row->comm, NULL), "ls");
	assert_int_equal(s.processes.data[0].row->end_ns, 30);
	assert_string_equal(strtab_get(strings, s.processes.data[1].row->comm, NULL), "cat");
	assert_int_equal(s.processes.data[1].threads, 1);
	summary_free(&s);
	rec_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sample_is_summed),
		cmocka_unit_test(one_process_of_the_sample),
		cmocka_unit_test(self_time_across_blocks),
		cmocka_unit_test(calls_of_lost_callers),
		cmocka_unit_test(equal_names_are_one_function),
		cmocka_unit_test(one_row_of_each_process),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}

/* merge_test.c - recordings of simulated hosts, of a real job whose ranks are put on clocks that
 * were skewed by construction, and of every kind that the tests keep: what is in them is in the
 * merged one, at the right times.
 *
 * The real job is tests/golden/recordings/v1_ranks.eacgm: two ranks of data-parallel training on
 * two H200 (kernel 6.18, driver 580), of which what concerns collectives was kept. With
 * EACGM_RANKS_FROM naming a recording it is made anew from that.
 *
 * links: merge analyze recording base golden */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "events/metric.h"
#include "analyze/ranks.h"
#include "base/map64.h"
#include "golden/rank_sample.h"
#include "golden/split_ranks.h"
#include "merge/merge.h"

#define US 1000LL
#define MS 1000000LL
#define S  1000000000LL

static char folder[] = "/tmp/eacgm-merge-XXXXXX";
static char a_path[64], b_path[64], c_path[64], out_path[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(a_path, sizeof(a_path), "%s/a.eacgm", folder);
	snprintf(b_path, sizeof(b_path), "%s/b.eacgm", folder);
	snprintf(c_path, sizeof(c_path), "%s/c.eacgm", folder);
	snprintf(out_path, sizeof(out_path), "%s/out.eacgm", folder);
	return 0;
}

/* Fails where something else was left there. */
static int remove_folder(void **state)
{
	(void)state;
	unlink(a_path);
	unlink(b_path);
	unlink(c_path);
	unlink(out_path);
	return rmdir(folder);
}

static void golden(char ret[static 512], const char *name)
{
	const char *root = getenv("EACGM_SOURCE_ROOT");
	snprintf(ret, 512, "%s/tests/golden/recordings/%s", root ? root : ".", name);
}

static struct merge_result merged(const char *const *paths, size_t n)
{
	struct merge_result r = {0};
	struct err e = {0};
	if (merge_recordings(&r, paths, n, out_path, NULL, &e))
		fail_msg("%s", e.msg);
	return r;
}

static struct rec_reader *opened(const char *path)
{
	struct rec_reader *r = NULL;
	struct err e = {0};
	if (rec_open(&r, path, &e))
		fail_msg("%s", e.msg);
	return r;
}

static void must(int rc, const struct err *e)
{
	if (rc)
		fail_msg("%s", e->msg);
}

/* ---- two hosts ---- */

/* Two hosts of two ranks: the second one's clock is hours behind, 40 ppm fast, and its
 * CLOCK_REALTIME is 3 ms wrong. The last rank comes 20 ms late. */
static struct rank_sample two_hosts(void)
{
	struct rank_sample_clock a = {"node0", "boot-a", 1000 * S, 0, 0};
	struct rank_sample_clock b = {"node1", "boot-b", 4000 * S, 40e-6, 3 * MS};
	return (struct rank_sample){
		.ranks = 4,
		.per_host = 2,
		.steps = 400,
		.step_ns = 100 * MS,
		.transfer_ns = 300 * US,
		.jitter_ns = 10 * US,
		.late_rank = 3,
		.late_ns = 20 * MS,
		.tail_ns = 10 * MS,
		.clocks = {a, a, b, b},
	};
}

static void write_hosts(const struct rank_sample *s)
{
	struct err e = {0};
	must(rank_sample_write(a_path, s, 3, &e), &e);
	must(rank_sample_write(b_path, s, 12, &e), &e);
}

typedef VEC(uint64_t) times_t;

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* All beginnings of a recording's calls and GPU spans from pid first to last, sorted. */
static times_t times_of(const char *path, uint32_t first, uint32_t last)
{
	struct rec_reader *r = opened(path);
	const struct rec_tables *t = rec_tables(r);
	struct m_calls calls = {0};
	struct m_gpu_spans spans = {0};
	times_t ret = {0};
	for (size_t b = 0; b < rec_call_blocks(r); b++) {
		assert_int_equal(rec_read_calls(r, b, &calls, NULL), 0);
		for (size_t i = 0; i < calls.len; i++) {
			uint32_t pid = t->threads.data[calls.rows[i].thread].pid;
			if (pid >= first && pid <= last)
				*vec_push(&ret) = calls.rows[i].start_ns;
		}
	}
	for (size_t b = 0; b < rec_gpu_span_blocks(r); b++) {
		assert_int_equal(rec_read_gpu_spans(r, b, &spans, NULL), 0);
		for (size_t i = 0; i < spans.len; i++)
			if (spans.rows[i].pid >= first && spans.rows[i].pid <= last)
				*vec_push(&ret) = spans.rows[i].end_ns;
	}
	qsort(ret.data, ret.len, sizeof(*ret.data), compare_u64);
	m_calls_free(&calls);
	m_gpu_spans_free(&spans);
	rec_close(r);
	return ret;
}

/* The true time at which a clock shows something. */
static uint64_t true_time(const struct rank_sample_clock *c, uint64_t shown_ns)
{
	return (uint64_t)((int64_t)((double)shown_ns / (1 + c->drift)) + c->zero_ns);
}

static void skewed_hosts_are_aligned(void **state)
{
	(void)state;
	struct rank_sample s = two_hosts();
	write_hosts(&s);
	struct merge_result r = merged((const char *[]){a_path, b_path}, 2);
	assert_string_equal(r.sources.data[0].how, "reference");
	assert_string_equal(r.sources.data[1].how, "collectives");
	assert_int_equal(r.sources.data[1].collectives, 400);
	assert_int_equal(r.sources.data[1].pid_shift, MERGE_PID_STEP);
	assert_in_range(r.sources.data[1].error_ns, 1, 300 * US);
	assert_in_range(llround(-r.sources.data[1].drift_ratio * 1e9), 39000, 41000);
	times_t before = times_of(b_path, 0, UINT32_MAX);
	times_t after = times_of(out_path, MERGE_PID_STEP, UINT32_MAX);
	assert_int_equal(before.len, 400 * 2 * 3);
	assert_int_equal(after.len, before.len);
	int64_t worst = 0;
	for (size_t i = 0; i < before.len; i++) {
		uint64_t want =
			rank_sample_shown(&s.clocks[0], true_time(&s.clocks[2], before.data[i]));
		int64_t error = llabs((int64_t)(after.data[i] - want));
		worst = error > worst ? error : worst;
	}
	assert_in_range(worst, 0, 20 * US);
	assert_in_range(worst, 0, r.sources.data[1].error_ns);
	times_t own = times_of(a_path, 0, UINT32_MAX), kept = times_of(out_path, 0, 1000);
	assert_int_equal(own.len, kept.len);
	assert_memory_equal(own.data, kept.data, own.len * sizeof(*own.data));
	vec_free(&before);
	vec_free(&after);
	vec_free(&own);
	vec_free(&kept);
	merge_result_free(&r);
}

struct side_by_side {
	struct rec_reader *reader;
	struct timeline timeline;
	struct collectives collectives;
	struct ranks ranks;
};

static void side_by_side_make(struct side_by_side *s)
{
	s->reader = opened(out_path);
	timeline_make(&s->timeline, rec_source(s->reader), &(struct timeline_options){0});
	collectives_make(&s->collectives, &s->timeline, 0);
	ranks_make(&s->ranks, rec_source(s->reader), &s->collectives);
}

static void side_by_side_free(struct side_by_side *s)
{
	ranks_free(&s->ranks);
	collectives_free(&s->collectives);
	timeline_free(&s->timeline);
	rec_close(s->reader);
}

static void ranks_of_hosts_are_compared(void **state)
{
	(void)state;
	struct rank_sample s = two_hosts();
	struct side_by_side all;
	write_hosts(&s);
	struct merge_result r = merged((const char *[]){a_path, b_path}, 2);
	side_by_side_make(&all);
	assert_int_equal(all.ranks.comms.len, 1);
	assert_int_equal(all.ranks.comms.data[0].compared, 400);
	assert_int_equal(all.ranks.comms.data[0].straggler, 3);
	assert_in_range(all.ranks.members.data[3].p50_late_ns, 20 * MS - 50 * US,
			20 * MS + 50 * US);
	assert_int_equal(all.ranks.hangs.len, 0);
	assert_int_equal(all.ranks.mismatches_total, 0);
	for (uint32_t rank = 0; rank < 4; rank++)
		assert_int_equal(
			process_index_rank(&all.ranks.processes,
					   rank_sample_pid(&s, rank) + (rank / 2) * MERGE_PID_STEP),
			rank);
	side_by_side_free(&all);
	merge_result_free(&r);
}

/* Recordings that stop at different times: the first one's ranks go on alone for 3 s. */
static void early_end_is_no_hang(void **state)
{
	(void)state;
	struct rank_sample s = two_hosts();
	struct side_by_side all;
	s.cut_ns[2] = s.cut_ns[3] = 3 * S;
	write_hosts(&s);
	struct merge_result r = merged((const char *[]){a_path, b_path}, 2);
	side_by_side_make(&all);
	assert_int_equal(all.ranks.members.data[0].next_sequence, 400);
	assert_in_range(all.ranks.members.data[2].next_sequence, 360, 380);
	assert_int_equal(all.ranks.hangs.len, 0);
	side_by_side_free(&all);
	merge_result_free(&r);
	/* and with a rank that is missing in truth */
	s = two_hosts();
	s.missing_rank = 1;
	s.missing = 2;
	s.tail_ns = 4 * S;
	write_hosts(&s);
	r = merged((const char *[]){a_path, b_path}, 2);
	side_by_side_make(&all);
	assert_int_equal(all.ranks.hangs.len, 1);
	assert_int_equal(all.ranks.hangs.data[0].sequence, 398);
	assert_int_equal(all.ranks.hangs.data[0].ranks.data[1].call, RANKS_NONE);
	side_by_side_free(&all);
	merge_result_free(&r);
}

static void one_boot_is_one_clock(void **state)
{
	(void)state;
	struct rank_sample s = two_hosts();
	for (int boots = 0; boots < 2; boots++) {
		for (int rank = 0; rank < 4; rank++) {
			s.clocks[rank] = s.clocks[0];
			s.clocks[rank].boot = boots ? "boot-a" : NULL;
			/* containers: hosts of other names, known by the boot alone */
			s.clocks[rank].host = boots && rank > 1 ? "container" : "node0";
			s.clocks[rank].realtime_error_ns = rank > 1 ? 5 * MS : 0;
		}
		write_hosts(&s);
		struct merge_result r = merged((const char *[]){a_path, b_path}, 2);
		assert_string_equal(r.sources.data[1].how, "same boot");
		assert_int_equal(r.sources.data[1].shift_ns, 0);
		assert_int_equal(r.sources.data[1].error_ns, 0);
		assert_int_equal(r.sources.data[1].clock, 0);
		merge_result_free(&r);
	}
}

/* Nothing ties the hosts together: CLOCK_REALTIME is all there is. */
static void realtime_is_the_last_resort(void **state)
{
	(void)state;
	struct rank_sample s = two_hosts();
	struct side_by_side all;
	s.no_spans = true;
	write_hosts(&s);
	struct merge_result r = merged((const char *[]){a_path, b_path}, 2);
	assert_string_equal(r.sources.data[1].how, "realtime");
	assert_int_equal(r.sources.data[1].shift_ns, 3000 * S + 3 * MS);
	assert_true(r.sources.data[1].error_ns == UINT64_MAX);
	side_by_side_make(&all);
	assert_true(all.ranks.comms.data[0].clocks_unknown);
	assert_int_equal(all.ranks.comms.data[0].straggler, RANKS_NONE);
	side_by_side_free(&all);
	merge_result_free(&r);
}

/* ---- a real job ---- */

static void real_ranks_are_aligned(void **state)
{
	(void)state;
	char from[512];
	golden(from, "v1_ranks.eacgm");
	const char *source = getenv("EACGM_RANKS_FROM");
	struct err e = {0};
	if (source)
		must(split_ranks(source, from, 0, &(struct split_clock){0}, &e), &e);
	struct rec_reader *r = opened(from);
	const struct rec_tables *t = rec_tables(r);
	assert_int_equal(t->comms.len, 2);
	uint32_t pids[] = {t->comms.data[0].pid, t->comms.data[1].pid};
	rec_close(r);
	const struct split_clock clocks[] = {
		{"node1", "boot-b", 0, 0, 0},
		{"node1", "boot-b", 7345678901LL, 0, 20 * MS},
		{"node1", "boot-b", -3456789LL, 25e-6, -10 * MS},
		{"node1", "boot-b", 86400 * S, -60e-6, 1 * MS},
	};
	for (unsigned which = 0; which < 2; which++)
		for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
			const struct split_clock reference = {"node0", "boot-a", 0, 0, 0};
			must(split_ranks(from, a_path, pids[which], &reference, &e), &e);
			must(split_ranks(from, b_path, pids[!which], &clocks[i], &e), &e);
			struct merge_result m = merged((const char *[]){a_path, b_path}, 2);
			assert_string_equal(m.sources.data[1].how, "collectives");
			times_t want = times_of(from, pids[!which], pids[!which]);
			times_t got = times_of(out_path, pids[!which], pids[!which]);
			assert_int_equal(want.len, got.len);
			int64_t worst = 0;
			for (size_t k = 0; k < want.len; k++) {
				int64_t error = llabs((int64_t)(want.data[k] - got.data[k]));
				worst = error > worst ? error : worst;
			}
			if (worst > 20 * US || (uint64_t)worst > m.sources.data[1].error_ns)
				fail_msg("clock %zu: off by %lld ns, told to be at most %llu", i,
					 (long long)worst,
					 (unsigned long long)m.sources.data[1].error_ns);
			vec_free(&want);
			vec_free(&got);
			merge_result_free(&m);
		}
}

/* ---- all rows ---- */

/* What a recording holds, in an order and in words that do not depend on numbers. */
struct digest {
	uint64_t calls, args, samples, stacks, spans, counters, hists, maps;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
	return hash_u64(h ^ hash_u64(v + 0x9e3779b97f4a7c15ULL));
}

static uint64_t text_hash(const struct rec_tables *t, uint64_t string)
{
	size_t len;
	const char *s = strtab_get(&t->strings, (uint32_t)string, &len);
	return hash_bytes(s, len);
}

static uint64_t stack_hash(const struct rec_tables *t, uint32_t stack)
{
	uint64_t h = 1;
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		h = mix(mix(mix(h, text_hash(t, f->name)), f->address), f->line);
	}
	return h;
}

static uint64_t value_hash(const struct rec_tables *t, uint8_t type, uint64_t v)
{
	if (type == ARG_TYPE_STRING)
		return text_hash(t, v);
	if (type == ARG_TYPE_CODE)
		return mix(text_hash(t, t->codes.data[v].name), t->codes.data[v].line);
	return v;
}

static void digest_calls(struct digest *d, const struct rec_reader *r)
{
	const struct rec_tables *t = rec_tables(r);
	struct m_calls calls = {0};
	for (size_t b = 0; b < rec_call_blocks(r); b++) {
		assert_int_equal(rec_read_calls(r, b, &calls, NULL), 0);
		for (size_t i = 0; i < calls.len; i++) {
			const struct m_call *c = &calls.rows[i];
			const struct m_probe *p = &t->probes.data[c->probe];
			d->calls += mix(mix(mix(c->start_ns, c->dur_ns), c->flags),
					mix(text_hash(t, p->name), c->depth));
			d->stacks += stack_hash(t, c->stack);
			for (unsigned k = 0; k < c->nargs; k++)
				d->args += mix(value_hash(t, p->arg_types[k], c->args[k]), k);
		}
	}
	m_calls_free(&calls);
}

static void digest_rest(struct digest *d, const struct rec_reader *r)
{
	const struct rec_tables *t = rec_tables(r);
	struct m_samples samples = {0};
	struct m_gpu_spans spans = {0};
	struct m_counters counters = {0};
	for (size_t b = 0; b < rec_sample_blocks(r); b++) {
		assert_int_equal(rec_read_samples(r, b, &samples, NULL), 0);
		for (size_t i = 0; i < samples.len; i++)
			d->samples += mix(mix(samples.rows[i].time_ns, samples.rows[i].weight_ns),
					  mix(stack_hash(t, samples.rows[i].stack),
					      text_hash(t, samples.rows[i].waker)));
	}
	for (size_t b = 0; b < rec_gpu_span_blocks(r); b++) {
		assert_int_equal(rec_read_gpu_spans(r, b, &spans, NULL), 0);
		for (size_t i = 0; i < spans.len; i++)
			d->spans += mix(mix(spans.rows[i].start_ns, spans.rows[i].end_ns),
					mix(text_hash(t, spans.rows[i].name), spans.rows[i].grid));
	}
	for (size_t b = 0; b < rec_counter_blocks(r); b++) {
		assert_int_equal(rec_read_counters(r, b, &counters, NULL), 0);
		for (size_t i = 0; i < counters.len; i++)
			d->counters +=
				mix(counters.rows[i].time_ns,
				    text_hash(t, t->metrics.data[counters.rows[i].metric].name));
	}
	for (size_t i = 0; i < t->hists.len; i++) {
		const struct m_probe *p = &t->probes.data[t->hists.data[i].probe];
		uint8_t type = p->name_arg < 0 ? ARG_TYPE_U64 : p->arg_types[p->name_arg];
		d->hists +=
			mix(mix(text_hash(t, p->name), value_hash(t, type, t->hists.data[i].name)),
			    t->hists.data[i].count);
	}
	for (size_t i = 0; i < t->maps.len; i++)
		d->maps += mix(text_hash(t, t->maps.data[i].path), t->maps.data[i].start);
	m_samples_free(&samples);
	m_gpu_spans_free(&spans);
	m_counters_free(&counters);
}

static void digest_add(struct digest *d, const char *path)
{
	struct rec_reader *r = opened(path);
	digest_calls(d, r);
	digest_rest(d, r);
	rec_close(r);
}

static void copy_file(const char *from, const char *to)
{
	struct buf b = {0};
	FILE *in = fopen(from, "re"), *out = fopen(to, "we");
	assert_true(in && out);
	for (int c; (c = fgetc(in)) != EOF;)
		buf_byte(&b, (uint8_t)c);
	assert_int_equal(fwrite(b.data, 1, b.len, out), b.len);
	fclose(in);
	fclose(out);
	buf_free(&b);
}

/* A recording and its copy are of one time, so that times stay: then all rows are there twice, in
 * the same words, and the processes of the copy have numbers of their own. */
static void all_rows_are_there(void **state)
{
	(void)state;
	const char *const names[] = {"v1.eacgm", "v1_gpu.eacgm", "v1_profile.eacgm",
				     "v1_ranks.eacgm"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[512];
		struct digest want = {0}, got = {0};
		golden(path, names[i]);
		copy_file(path, a_path);
		digest_add(&want, path);
		digest_add(&want, a_path);
		struct merge_result r = merged((const char *[]){path, a_path}, 2);
		assert_int_equal(r.sources.data[1].shift_ns, 0);
		assert_int_equal(r.sources.data[1].pid_shift, MERGE_PID_STEP);
		digest_add(&got, out_path);
		assert_memory_equal(&want, &got, sizeof(want));
		struct rec_reader *one = opened(path), *all = opened(out_path);
		const struct rec_tables *x = rec_tables(one), *t = rec_tables(all);
		assert_true(t->complete);
		assert_int_equal(t->sources.len, 2);
		assert_int_equal(t->calls, 2 * x->calls);
		assert_int_equal(t->processes.len, 2 * x->processes.len);
		assert_int_equal(t->threads.len, 2 * x->threads.len);
		assert_int_equal(t->hists.len, 2 * x->hists.len);
		assert_int_equal(t->comms.len, 2 * x->comms.len);
		assert_int_equal(t->gpus.len, x->gpus.len);
		assert_int_equal(t->codes.len, x->codes.len);
		for (size_t k = 0; k < t->processes.len; k++)
			assert_int_equal(t->processes.data[k].pid / MERGE_PID_STEP,
					 t->processes.data[k].source);
		rec_close(one);
		rec_close(all);
		merge_result_free(&r);
	}
}

static void same_things_become_one(void **state)
{
	(void)state;
	struct rank_sample s = two_hosts();
	write_hosts(&s);
	struct rec_reader *one = opened(a_path);
	size_t probes = rec_tables(one)->probes.len, enums = rec_tables(one)->enums.len;
	size_t strings = strtab_len(&rec_tables(one)->strings);
	rec_close(one);
	struct merge_result r = merged((const char *[]){a_path, b_path}, 2);
	one = opened(out_path);
	const struct rec_tables *t = rec_tables(one);
	assert_int_equal(t->probes.len, probes);
	assert_int_equal(t->enums.len, enums);
	assert_int_equal(t->frames.len, 2);
	assert_int_equal(t->stacks.len, 3);
	assert_in_range(strtab_len(&t->strings), strings, strings + 40);
	/* what is of a host, and of a process, says of which */
	struct m_counters counters = {0};
	bool first = false, second = false;
	for (size_t b = 0; b < rec_counter_blocks(one); b++) {
		assert_int_equal(rec_read_counters(one, b, &counters, NULL), 0);
		for (size_t i = 0; i < counters.len; i++) {
			char of[64];
			struct entity e = metric_entity(&t->metrics.data[counters.rows[i].metric],
							&t->strings);
			entity_text(of, sizeof(of), &e);
			first |= !strcmp(of, "node0 gpu 1 pid 101");
			second |= !strcmp(of, "node1 gpu 1 pid 10000101");
		}
	}
	assert_true(first && second);
	m_counters_free(&counters);
	struct gpu_summary gpu;
	gpu_summary_make(&gpu, rec_source(one), &(struct gpu_options){0});
	assert_int_equal(gpu.devices.len, 4);
	for (uint32_t i = 0; i < 4; i++) {
		const struct gpu_device *d = &gpu.devices.data[i];
		assert_string_equal(d->host, i < 2 ? "node0" : "node1");
		assert_int_equal(d->index, i % 2);
		assert_int_equal(d->processes.len, 1);
		assert_int_equal(d->processes.data[0].pid, 100 + i % 2 + i / 2 * MERGE_PID_STEP);
		assert_float_equal(d->processes.data[0].counters.data[0].sum.last, 1e9 * (i + 1),
				   1);
	}
	gpu_summary_free(&gpu);
	assert_string_equal(rec_meta(t, "host"), "node0");
	assert_string_equal(rec_meta(t, "source_1_host"), "node1");
	rec_close(one);
	merge_result_free(&r);
}

/* ---- what goes wrong ---- */

static void refused(const char *const *paths, size_t n, const char *output, int code,
		    const char *word)
{
	struct merge_result r = {0};
	struct err e = {0};
	struct stat before = {0}, after = {0};
	stat(output, &before);
	assert_int_equal(merge_recordings(&r, paths, n, output, NULL, &e), -code);
	if (!strstr(e.msg, word))
		fail_msg("'%s' does not say '%s'", e.msg, word);
	stat(output, &after);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(before.st_size, after.st_size);
}

static void bad_wishes_are_refused(void **state)
{
	(void)state;
	struct rank_sample s = two_hosts();
	write_hosts(&s);
	struct merge_result r = merged((const char *[]){a_path, b_path}, 2);
	merge_result_free(&r);
	refused((const char *[]){a_path, a_path}, 2, c_path, EINVAL, "twice");
	refused((const char *[]){a_path, b_path}, 2, a_path, EINVAL, "written over");
	refused((const char *[]){out_path, b_path}, 2, c_path, EINVAL, "merged already");
	refused((const char *[]){a_path, "/nonexistent"}, 2, c_path, ENOENT, "cannot open");
	refused((const char *[]){a_path, b_path}, 2, folder, EINVAL, "not a regular file");
	refused((const char *[]){a_path, b_path}, 2, "/nonexistent/out", ENOENT, "cannot write");
	refused((const char *[]){a_path, "/dev/null"}, 2, c_path, EINVAL, "regular file");
	assert_int_equal(access(c_path, F_OK), -1);
}

static bool stop_after(void *ctx, uint64_t done, uint64_t total)
{
	(void)total;
	return done < *(uint64_t *)ctx;
}

/* Wherever it is interrupted: the output is what it was, and nothing is left beside it. */
static void interruption_leaves_nothing(void **state)
{
	(void)state;
	struct rank_sample s = two_hosts();
	write_hosts(&s);
	struct merge_result r = merged((const char *[]){a_path, b_path}, 2);
	merge_result_free(&r);
	struct stat before, after;
	stat(out_path, &before);
	for (uint64_t when = 0; when < 8; when++) {
		struct err e = {0};
		struct merge_options o = {.go_on = stop_after, .ctx = &when};
		int rc =
			merge_recordings(&r, (const char *[]){a_path, b_path}, 2, out_path, &o, &e);
		assert_int_equal(rc, -ECANCELED);
		stat(out_path, &after);
		assert_int_equal(before.st_ino, after.st_ino);
	}
}

static void damage_is_told(void **state)
{
	(void)state;
	struct rank_sample s = two_hosts();
	write_hosts(&s);
	struct stat st;
	stat(b_path, &st);
	assert_int_equal(truncate(b_path, st.st_size * 2 / 3), 0);
	struct merge_result r = merged((const char *[]){a_path, b_path}, 2);
	assert_null(r.sources.data[0].damage);
	assert_non_null(r.sources.data[1].damage);
	struct rec_reader *reader = opened(out_path);
	const struct rec_tables *t = rec_tables(reader);
	assert_int_equal(t->damaged_at, 0);
	bool told = false;
	for (size_t i = 0; i < t->notes.len; i++)
		told |= !strcmp(strtab_get(&t->strings, t->notes.data[i].subject, NULL), b_path);
	assert_true(told);
	rec_close(reader);
	merge_result_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(skewed_hosts_are_aligned),
		cmocka_unit_test(ranks_of_hosts_are_compared),
		cmocka_unit_test(early_end_is_no_hang),
		cmocka_unit_test(one_boot_is_one_clock),
		cmocka_unit_test(realtime_is_the_last_resort),
		cmocka_unit_test(real_ranks_are_aligned),
		cmocka_unit_test(all_rows_are_there),
		cmocka_unit_test(same_things_become_one),
		cmocka_unit_test(bad_wishes_are_refused),
		cmocka_unit_test(interruption_leaves_nothing),
		cmocka_unit_test(damage_is_told),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* decode_test.c - raw records become rows: what is too short or says too much is counted, names may
 * come one pass late and not later, bytes are the product that the catalog says.
 *
 * links: pipeline recording symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/pipeline_impl.h"
#include "pipeline/stacks.h"

enum { PLAIN, NAMED, SIZED }; /* probes */

static struct pipeline *p;
static struct m_call heard[16];
static size_t heard_len;

static VEC(char *) strings;

static void on_string(void *ctx, uint32_t number, const char *text)
{
	(void)ctx;
	assert_int_equal(number, strings.len);
	*vec_push(&strings) = xstrdup(text);
}

static void on_rows(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	const struct m_call *calls = rows;
	(void)ctx;
	(void)number;
	for (size_t i = 0; kind == ROW_CALL && i < n && heard_len < 16; i++)
		heard[heard_len++] = calls[i];
}

static const char *text_of(uint64_t number)
{
	return number < strings.len ? strings.data[number] : "?";
}

static void define(uint32_t id, const struct pipeline_probe *like)
{
	struct pipeline_probe probe = *like;
	char name[] = "function";
	probe.id = id;
	probe.layer = "mylib";
	probe.library = "libmylib.so";
	probe.symbol = "function";
	probe.name = name;
	pipeline_define_probe(p, &probe);
}

static int begin(void **state)
{
	struct rec_writer *w;
	(void)state;
	assert_int_equal(rec_writer_open(&w, NULL, NULL, NULL), 0);
	p = pipeline_new(w, "/nonexistent", NULL);
	heard_len = 0;
	pipeline_listen(p, &(struct event_listener){.string = on_string, .rows = on_rows});
	define(PLAIN, &(struct pipeline_probe){
			      .nargs = 2,
			      .name_arg = -1,
			      .arg_names = {"a", "b"},
		      });
	define(NAMED, &(struct pipeline_probe){
			      .nargs = 1,
			      .name_arg = 0,
			      .arg_names = {"name"},
			      .arg_types = {ARG_TYPE_STRING},
			      .arg_raw = {RAW_STRING},
		      });
	pipeline_define_enum(p, "type", 7, "float16", 2);
	define(SIZED, &(struct pipeline_probe){
			      .nargs = 3,
			      .has_return = true,
			      .name_arg = -1,
			      .arg_names = {"count", "type", "return"},
			      .arg_enums = {NULL, "type", NULL},
			      .nfactors = 2,
			      .factors = {{.arg = 0}, {.arg = 1}},
		      });
	return 0;
}

static int end(void **state)
{
	(void)state;
	int rc = pipeline_close(p, NULL);
	for (size_t i = 0; i < strings.len; i++)
		free(strings.data[i]);
	vec_free(&strings);
	return rc;
}

static struct rec_call call_of(uint32_t probe, uint8_t nargs)
{
	return (struct rec_call){.kind = REC_CALL,
				 .nargs = nargs,
				 .probe = probe,
				 .tgid = 100,
				 .tid = 101,
				 .start_ns = 1000,
				 .dur_ns = 5};
}

static void calls_become_rows(void **state)
{
	(void)state;
	struct rec_call c = call_of(PLAIN, 2);
	c.args[0] = 11;
	c.args[1] = UINT64_MAX;
	c.flags = CALL_ERROR | CALL_NAMED; /* the latter is of histograms alone */
	c.depth = 3;
	pipeline_record(p, &c, 32 + 2 * 8); /* no more than its arguments */
	assert_int_equal(heard_len, 0);	    /* its names may be in another ring */
	pipeline_pass_end(p);
	assert_int_equal(heard_len, 1);
	assert_int_equal(heard[0].start_ns, 1000);
	assert_int_equal(heard[0].dur_ns, 5);
	assert_int_equal(heard[0].depth, 3);
	assert_int_equal(heard[0].flags, CALL_ERROR);
	assert_int_equal(heard[0].nargs, 2);
	assert_int_equal(heard[0].args[0], 11);
	assert_true(heard[0].args[1] == UINT64_MAX);
	/* one from another thread has another */
	c.tid++;
	pipeline_record(p, &c, sizeof(c));
	pipeline_pass_end(p);
	assert_int_equal(heard_len, 2);
	assert_int_not_equal(heard[0].thread, heard[1].thread);
}

static void what_cannot_be_is_counted(void **state)
{
	(void)state;
	static const uint8_t kinds[] = {REC_STRING, REC_PYCODE, REC_TEXT, REC_STACK, REC_SAMPLE};
	struct rec_call c = call_of(PLAIN, 2);
	uint8_t record[4] = {0};
	pipeline_record(p, record, 0);
	pipeline_record(p, record, 4); /* of no kind */
	for (size_t i = 0; i < sizeof(kinds); i++) {
		record[0] = kinds[i];
		pipeline_record(p, record, sizeof(record)); /* shorter than any of these */
	}
	pipeline_record(p, &c, 31);
	pipeline_record(p, &c, 32 + 2 * 8 - 1);
	c.nargs = MAX_ARGS + 1;
	pipeline_record(p, &c, sizeof(c));
	assert_int_equal(p->bad_records, 10);
	/* a probe that nobody defined */
	c = call_of(SIZED + 1, 0);
	pipeline_record(p, &c, sizeof(c));
	c.probe = UINT32_MAX;
	pipeline_record(p, &c, sizeof(c));
	pipeline_pass_end(p);
	assert_int_equal(p->unknown_probes, 2);
	assert_int_equal(heard_len, 0);
	struct pipeline_stats stats;
	struct err e;
	assert_int_equal(pipeline_flush(p, &e), 0);
	pipeline_stats(p, &stats);
	assert_int_equal(stats.lost, 12);
}

static void string(uint64_t id, const char *text)
{
	struct rec_string s = {.kind = REC_STRING, .fetch = FETCH_CSTRING, .id = id};
	s.len = (uint32_t)strlen(text);
	memcpy(s.bytes, text, s.len);
	pipeline_record(p, &s, sizeof(s));
}

/* A name may lie in another ring than its first use: in this pass or the next. */
static void names_come_late(void **state)
{
	(void)state;
	struct rec_call c = call_of(NAMED, 1);
	c.args[0] = 1;
	pipeline_record(p, &c, sizeof(c));
	string(1, "first");
	pipeline_pass_end(p);
	assert_int_equal(heard_len, 1);
	assert_string_equal(text_of(heard[0].args[0]), "first");

	c.args[0] = 2;
	pipeline_record(p, &c, sizeof(c));
	pipeline_pass_end(p);
	assert_int_equal(heard_len, 1);
	string(2, "second");
	pipeline_pass_end(p);
	assert_int_equal(heard_len, 2);
	assert_string_equal(text_of(heard[1].args[0]), "second");
	assert_int_equal(heard[1].flags, 0);
	assert_int_equal(p->unresolved, 0);

	c.args[0] = 3; /* never comes: the call is kept, and says so */
	pipeline_record(p, &c, sizeof(c));
	pipeline_pass_end(p);
	pipeline_pass_end(p);
	assert_int_equal(heard_len, 3);
	assert_int_equal(heard[2].args[0], 0);
	assert_int_equal(heard[2].flags, CALL_ARG_FAULT);
	assert_int_equal(p->unresolved, 1);
}

static const struct m_call *sized(uint64_t count, uint64_t type)
{
	struct rec_call c = call_of(SIZED, 3);
	c.args[0] = count;
	c.args[1] = type;
	c.args[2] = 42;
	pipeline_record(p, &c, sizeof(c));
	pipeline_pass_end(p);
	return &heard[heard_len - 1];
}

/* In the place before the return value, which stays the last. */
static void bytes_are_added(void **state)
{
	(void)state;
	const struct m_call *c = sized(1000, 7);
	assert_int_equal(c->nargs, 4);
	assert_int_equal(c->args[2], 2000);
	assert_int_equal(c->args[3], 42);
	assert_int_equal(c->flags, 0);
	c = sized(1000, 8); /* no value of the enumeration */
	assert_int_equal(c->args[2], 0);
	c = sized(UINT64_MAX / 2 + 1, 7);
	assert_int_equal(c->args[2], 0);
	assert_int_equal(c->flags, CALL_ARG_FAULT);
	/* one that left without returning has no return value, and no bytes */
	struct rec_call cut = call_of(SIZED, 2);
	pipeline_record(p, &cut, sizeof(cut));
	pipeline_pass_end(p);
	assert_int_equal(heard[heard_len - 1].nargs, 2);
}

static struct m_stall_total stall_totals[STALL_SUMS];
static struct m_stall stall;
static struct m_disk_io disk_io;
static size_t stall_totals_len, stalls_len, disk_ios_len;

static void on_stall_rows(void *ctx, enum row_kind kind, uint32_t number, const void *rows,
			  size_t n)
{
	(void)ctx, (void)number;
	assert_int_equal(n, 1);
	if (kind == ROW_STALL_TOTAL && stall_totals_len < STALL_SUMS)
		stall_totals[stall_totals_len++] = *(const struct m_stall_total *)rows;
	if (kind == ROW_STALL && ++stalls_len)
		stall = *(const struct m_stall *)rows;
	if (kind == ROW_DISK_IO && ++disk_ios_len)
		disk_io = *(const struct m_disk_io *)rows;
}

static void hear_stalls(void)
{
	pipeline_listen(p, &(struct event_listener){.ctx = &stall, .rows = on_stall_rows});
	stall_totals_len = stalls_len = disk_ios_len = 0;
}

static struct m_counter counted[16];
static size_t counted_len;

static void on_counters(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	(void)ctx, (void)number, (void)n;
	if (kind == ROW_COUNTER && counted_len < 16)
		counted[counted_len++] = *(const struct m_counter *)rows;
}

static void moved(uint32_t tid, uint64_t until_ns, uint16_t migrations, uint64_t uninterruptible_ns,
		  bool last)
{
	struct rec_wait_sums r = {.kind = REC_WAIT_SUMS,
				  .last = last,
				  .migrations = migrations,
				  .uninterruptible_ns = uninterruptible_ns,
				  .tgid = 100,
				  .tid = tid,
				  .until_ns = until_ns};
	pipeline_record(p, &r, sizeof(r));
}

static void expect_counted(size_t n, uint64_t time_ns, double migrations, double uninterruptible_ns)
{
	assert_int_equal(counted_len, 2 * n);
	assert_int_equal(counted[2 * n - 2].time_ns, time_ns);
	assert_true(counted[2 * n - 2].value == migrations);
	assert_int_equal(counted[2 * n - 1].time_ns, time_ns);
	assert_true(counted[2 * n - 1].value == uninterruptible_ns);
}

/* Of all threads of a process; not more than once a second but when a thread ends. */
static void counts_of_waits_are_added_up(void **state)
{
	(void)state;
	const uint64_t s = 1000000000;
	pipeline_listen(p, &(struct event_listener){.ctx = counted, .rows = on_counters});
	counted_len = 0;
	moved(101, 5 * s, 0, 0, false);
	expect_counted(1, 5 * s, 0, 0); /* so that it is known that it is counted */
	moved(101, 5 * s + 7, 4, 50, false);
	expect_counted(1, 5 * s, 0, 0);
	moved(102, 6 * s, 65535, s, false);
	expect_counted(2, 6 * s, 65539, 1000000050);
	moved(103, 6 * s + 1, 0, 0, true); /* nothing new */
	expect_counted(2, 6 * s, 65539, 1000000050);
	moved(102, 6 * s + 3, 1, 0, true);
	expect_counted(3, 6 * s + 3, 65540, 1000000050);
	moved(101, 6 * s + 2, 2, 0, true); /* of another CPU's ring */
	expect_counted(4, 6 * s + 3, 65542, 1000000050);
	moved(101, 6 * s + 4, 0, 7, true);
	expect_counted(5, 6 * s + 4, 65542, 1000000057);
}

static struct rec_stall stall_of(uint8_t kind, int32_t number)
{
	return (struct rec_stall){.kind = REC_STALL,
				  .stall = kind,
				  .number = number,
				  .tgid = 100,
				  .tid = 101,
				  .start_ns = 1000,
				  .duration_ns = 60000,
				  .own_ns = 50000,
				  .cpu = 3,
				  .name = "sixteen letters!",
				  .comm = "sixteen letters?"};
}

static const char *name_of_stall(uint8_t kind, int32_t number)
{
	struct rec_stall r = stall_of(kind, number);
	pipeline_record(p, &r, sizeof(r));
	return text_of(stall.name);
}

static void stalls_become_rows(void **state)
{
	(void)state;
	hear_stalls();
	assert_string_equal(name_of_stall(STALL_SOFTIRQ, 3), "NET_RX");
	assert_int_equal(stall.start_ns, 1000);
	assert_int_equal(stall.end_ns, 61000);
	assert_int_equal(stall.own_ns, 50000);
	assert_int_equal(stall.cpu, 3);
	assert_int_equal(stall.kind, STALL_SOFTIRQ);
	assert_string_equal(name_of_stall(STALL_INTERRUPT, 36), "sixteen letters!");
	assert_string_equal(name_of_stall(STALL_INTERRUPT, -0xec), "local_timer");
	assert_string_equal(name_of_stall(STALL_INTERRUPT, -1), "");
	assert_string_equal(name_of_stall(STALL_RECLAIM, RECLAIM_CGROUP), "cgroup");
	assert_string_equal(name_of_stall(STALL_COMPACTION, 0), "");
	assert_string_equal(name_of_stall(STALL_SOFTIRQ, -1), "");
	assert_string_equal(name_of_stall(STALL_SOFTIRQ, STALL_SOFTIRQS), "");
	assert_string_equal(name_of_stall(STALL_RECLAIM, INT32_MAX), "");
	assert_int_equal(p->bad_records, 0);
}

static void bad_stalls_are_counted(void **state)
{
	(void)state;
	hear_stalls();
	struct rec_stall r = stall_of(STALL_KINDS, 0);
	pipeline_record(p, &r, sizeof(r));
	r = stall_of(STALL_SOFTIRQ, 0);
	r.own_ns = r.duration_ns + 1;
	pipeline_record(p, &r, sizeof(r));
	r = stall_of(STALL_SOFTIRQ, 0);
	r.duration_ns = UINT64_MAX;
	pipeline_record(p, &r, sizeof(r));
	r = stall_of(STALL_SOFTIRQ, 0);
	pipeline_record(p, &r, sizeof(r) - 1);
	assert_int_equal(p->bad_records, 4);
	assert_int_equal(stalls_len, 0);
}

/* Those that are told late are old by then. */
static void sums_of_stalls_become_totals(void **state)
{
	(void)state;
	hear_stalls();
	struct rec_stall_sums r = {
		.kind = REC_STALL_SUMS, .tgid = 100, .tid = 101, .since_ns = 5, .until_ns = 100};
	r.sums[3] = (struct stall_sum){
		.stall = STALL_SOFTIRQ, .number = 3, .count = 7, .own_ns = 70, .longest_ns = 20};
	r.sums[4] = (struct stall_sum){.stall = STALL_KINDS, .count = 1};
	r.sums[SUM_OTHERS] = (struct stall_sum){
		.stall = STALL_INTERRUPT, .number = STALL_OTHER_LINES, .count = 1, .left_out = 1};
	pipeline_record(p, &r, sizeof(r));
	assert_int_equal(p->bad_records, 1);
	assert_int_equal(stall_totals_len, 2);
	assert_int_equal(stall_totals[0].count, 7);
	assert_int_equal(stall_totals[0].total_ns, 70);
	assert_int_equal(stall_totals[0].longest_ns, 20);
	assert_int_equal(stall_totals[0].since_ns, 5);
	assert_int_equal(stall_totals[0].until_ns, 100);
	assert_string_equal(text_of(stall_totals[0].name), "NET_RX");
	assert_string_equal(text_of(stall_totals[1].name), "(others)");
	assert_int_equal(stall_totals[1].left_out, 1);
	r.until_ns = 99;
	pipeline_record(p, &r, sizeof(r));
	pipeline_record(p, &r, sizeof(r) - 1);
	assert_int_equal(p->bad_records, 2);
	assert_int_equal(stall_totals_len, 2);
}

static void disks_become_rows(void **state)
{
	(void)state;
	hear_stalls();
	struct disk_io d = {.of = {.disk = 254 << 20, .tgid = 4242}, .since_ns = 5, .until_ns = 9};
	d.sums = (struct disk_sums){.writes = 3, .written_bytes = 4096, .longest = {77, 88}};
	memset(d.sums.comm, 'c', sizeof(d.sums.comm));
	memset(d.sums.name, 'd', sizeof(d.sums.name));
	pipeline_disk_io(p, &d);
	assert_int_equal(disk_ios_len, 1);
	assert_int_equal(disk_io.pid, 4242);
	assert_int_equal(disk_io.writes, 3);
	assert_int_equal(disk_io.written_bytes, 4096);
	assert_int_equal(disk_io.longest_ns, 77);
	assert_int_equal(strlen(text_of(disk_io.comm)), sizeof(d.sums.comm));
	assert_int_equal(strlen(text_of(disk_io.disk)), sizeof(d.sums.name));
}

static void code_of_process(uint32_t tgid, uint64_t id)
{
	struct rec_pycode r = {.kind = REC_PYCODE,
			       .id = id,
			       .code = 0x1000 * id,
			       .tgid = tgid,
			       .firstlineno = 7,
			       .name_len = 5,
			       .name_state = 0x60 /* compact ASCII */};
	memcpy(r.name, "train", 5);
	pipeline_record(p, &r, sizeof(r));
}

static void codes_go_with_their_process(void **state)
{
	(void)state;
	struct map64 gone = {0};
	uint64_t kept, code;
	uint32_t frame;
	code_of_process(70, 1);
	code_of_process(71, 2);
	code_of_process(71, 3);
	assert_true(pipeline_code(p, 0, &code)); /* of no process */
	assert_true(pipeline_code(p, 1, &kept) && pipeline_code(p, 3, &code));
	map64_set(&gone, 71, 1);
	codes_forget_of(p, &gone);
	frames_forget_codes_of(p, &gone);
	assert_false(pipeline_code(p, 2, &code));
	assert_false(pipeline_code(p, 3, &code));
	assert_true(pipeline_code(p, 0, &code));
	assert_true(pipeline_code(p, 1, &code));
	assert_int_equal(code, kept);
	assert_false(frames_of_python(p, PYTHON_FRAME(2, 0), false, &frame));
	assert_int_equal(p->code_ids.len, 2);
	map64_free(&gone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stalls_become_rows, begin, end),
		cmocka_unit_test_setup_teardown(bad_stalls_are_counted, begin, end),
		cmocka_unit_test_setup_teardown(sums_of_stalls_become_totals, begin, end),
		cmocka_unit_test_setup_teardown(counts_of_waits_are_added_up, begin, end),
		cmocka_unit_test_setup_teardown(disks_become_rows, begin, end),
		cmocka_unit_test_setup_teardown(calls_become_rows, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_is_counted, begin, end),
		cmocka_unit_test_setup_teardown(names_come_late, begin, end),
		cmocka_unit_test_setup_teardown(bytes_are_added, begin, end),
		cmocka_unit_test_setup_teardown(codes_go_with_their_process, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

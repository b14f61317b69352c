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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls_become_rows, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_is_counted, begin, end),
		cmocka_unit_test_setup_teardown(names_come_late, begin, end),
		cmocka_unit_test_setup_teardown(bytes_are_added, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

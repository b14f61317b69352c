/* peer_note_test.c - what agents tell each other of a freeze: as it was written it is read, what is
 * not exactly that is none, and when it was by the reader's clock.
 *
 * links: serve base */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/peer_note.h"

#define MS     1000000ULL
#define SECOND (1000 * MS)

static struct peer_note note, found;

static const struct peer_note small = {.id = 0x0abc,
				       .host = "node7",
				       .why = "xid of gpu 0: 79",
				       .realtime_ns = 1790000000000000001,
				       .age_ns = 5,
				       .comms = {UINT64_MAX, 1},
				       .ncomms = 2};

static void read_back(const struct peer_note *n)
{
	struct buf text = {0};
	struct err e = {""};
	peer_note_write(&text, n);
	assert_true(text.len <= PEER_NOTE_BYTES);
	if (peer_note_read(&found, (const char *)text.data, text.len, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(found.id, n->id);
	assert_int_equal(found.realtime_ns, n->realtime_ns);
	assert_int_equal(found.age_ns, n->age_ns);
	assert_int_equal(found.ncomms, n->ncomms);
	assert_memory_equal(found.comms, n->comms, n->ncomms * sizeof(n->comms[0]));
	buf_free(&text);
}

static void what_is_written_is_read(void **state)
{
	(void)state;
	read_back(&small);
	assert_string_equal(found.host, "node7");
	assert_string_equal(found.why, "xid of gpu 0: 79");
}

static void the_largest_fits(void **state)
{
	(void)state;
	note = small;
	note.ncomms = PEER_NOTE_COMMS;
	for (size_t i = 0; i < PEER_NOTE_COMMS; i++)
		note.comms[i] = UINT64_MAX - i;
	memset(note.host, '"', sizeof(note.host) - 1);
	memset(note.why, '\\', sizeof(note.why) - 1);
	read_back(&note);
	assert_string_equal(found.host, note.host);
	assert_string_equal(found.why, note.why);
}

/* Escapes of a terminal, bytes that are no UTF-8, and a character that is cut in its middle. */
static void texts_are_clean(void **state)
{
	(void)state;
	note = small;
	strcpy(note.host, "a\033[2J\xff");
	memset(note.why, 'x', sizeof(note.why) - 2);
	note.why[sizeof(note.why) - 2] = '\xc3';
	read_back(&note);
	assert_string_equal(found.host, "a?[2J\xef\xbf\xbd");
	assert_int_equal(strlen(found.why), sizeof(note.why) - 2); /* U+FFFD has no room */
}

static void fails(const char *text, const char *which)
{
	struct err e = {""};
	char *says = xasprintf("no note of a freeze: %s is missing or wrong", which);
	assert_int_equal(peer_note_read(&found, text, strlen(text), &e), -EINVAL);
	assert_string_equal(e.msg, says);
	free(says);
}

#define ID    "\"id\":\"00000000000000ff\","
#define HOST  "\"host\":\"h\",\"why\":\"w\","
#define TIMES "\"time_realtime_ns\":1,\"age_ns\":0,"
#define COMMS "\"communicators\":[\"00000000000000ff\"]"

static void what_is_no_note_is_none(void **state)
{
	(void)state;
	struct err e = {""};
	static const char good[] = "{" ID HOST TIMES COMMS "}";
	assert_int_equal(peer_note_read(&found, good, strlen(good), &e), 0);
	fails("", "JSON of an object");
	fails("[]", "JSON of an object");
	fails("{" ID HOST TIMES COMMS "} x", "JSON of an object");
	fails("{" ID ID HOST TIMES COMMS "}", "JSON of an object"); /* one of them is a lie */
	fails("{" HOST TIMES COMMS "}", "id");
	fails("{\"id\":255," HOST TIMES COMMS "}", "id");
	fails("{\"id\":\"ff\"," HOST TIMES COMMS "}", "id");
	fails("{\"id\":\"00000000000000FF\"," HOST TIMES COMMS "}", "id");
	fails("{\"id\":\"0000000000000000\"," HOST TIMES COMMS "}", "id");
	fails("{\"id\":\"0x000000000000ff\"," HOST TIMES COMMS "}", "id");
	fails("{" ID TIMES COMMS "}", "host");
	fails("{" ID "\"host\":\"h\",\"why\":\"\"," TIMES COMMS "}", "why");
	fails("{" ID HOST "\"time_realtime_ns\":-1,\"age_ns\":0," COMMS "}", "time_realtime_ns");
	fails("{" ID HOST "\"time_realtime_ns\":1,\"age_ns\":1.5," COMMS "}", "age_ns");
	fails("{" ID HOST "\"time_realtime_ns\":1,\"age_ns\":9223372036854775807," COMMS "}",
	      "age_ns");
	fails("{" ID HOST "\"time_realtime_ns\":1,\"age_ns\":10000000001," COMMS "}", "age_ns");
	fails("{" ID HOST TIMES "\"communicators\":[]}", "communicators");
	fails("{" ID HOST TIMES "\"communicators\":{}}", "communicators");
	fails("{" ID HOST TIMES "\"communicators\":[\"00000000000000ff\",1]}", "communicators");
}

static void bounds(void **state)
{
	(void)state;
	struct err e = {""};
	struct buf text = {0};
	buf_printf(&text, "{" ID HOST TIMES "\"communicators\":[\"00000000000000ff\"");
	for (size_t i = 0; i < PEER_NOTE_COMMS; i++)
		buf_printf(&text, ",\"00000000000000ff\"");
	buf_printf(&text, "]}");
	assert_true(text.len < PEER_NOTE_BYTES);
	assert_true(peer_note_read(&found, (const char *)text.data, text.len, &e) < 0);
	text.len = 0;
	buf_printf(&text, "{" ID HOST TIMES COMMS "}");
	while (text.len <= PEER_NOTE_BYTES)
		buf_byte(&text, ' ');
	assert_true(peer_note_read(&found, (const char *)text.data, text.len, &e) < 0);
	buf_free(&text);
}

static void the_moment(void **state)
{
	(void)state;
	const uint64_t mono = 1000 * SECOND, real = 5000000 * SECOND;
	note = (struct peer_note){.age_ns = 2 * SECOND};
	/* it was three seconds under way, and both clocks are right */
	note.realtime_ns = real - 5 * SECOND;
	assert_int_equal(peer_note_moment(&note, mono, real), mono - 5 * SECOND);
	note.realtime_ns = real - 2 * SECOND;
	assert_int_equal(peer_note_moment(&note, mono, real), mono - 2 * SECOND);
	/* the other's clock is ahead, or far behind: the age is what is known */
	note.realtime_ns = real + 9 * SECOND;
	assert_int_equal(peer_note_moment(&note, mono, real), mono - 2 * SECOND);
	note.realtime_ns = real - 2 * SECOND + MS;
	assert_int_equal(peer_note_moment(&note, mono, real), mono - 2 * SECOND);
	note.realtime_ns = real - 2 * SECOND - PEER_LATE_NS - 1;
	assert_int_equal(peer_note_moment(&note, mono, real), mono - 2 * SECOND);
	/* before this host began: not now either */
	note.age_ns = 2000 * SECOND;
	assert_int_equal(peer_note_moment(&note, mono, real), 1);
}

static void answers(void **state)
{
	(void)state;
	struct buf text = {0};
	peer_answer_write(&text, 0xff, true, "will be written");
	buf_byte(&text, 0);
	assert_string_equal((const char *)text.data,
			    "{\"id\":\"00000000000000ff\",\"freezes\":true,"
			    "\"why\":\"will be written\"}\n");
	assert_true(peer_answer_freezes(text.data, text.len - 1));
	text.len = 0;
	peer_answer_write(&text, 0xff, false, "no");
	assert_false(peer_answer_freezes(text.data, text.len));
	assert_false(peer_answer_freezes(NULL, 0));
	assert_false(peer_answer_freezes("{\"freezes\":1}", 13));
	assert_false(peer_answer_freezes("true", 4));
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(the_largest_fits),
		cmocka_unit_test(texts_are_clean),
		cmocka_unit_test(what_is_no_note_is_none),
		cmocka_unit_test(bounds),
		cmocka_unit_test(the_moment),
		cmocka_unit_test(answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

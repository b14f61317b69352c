/* json_stream_test.c - a document that is written in pieces is the one that jansson writes whole.
 * links: base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_out.h"
#include "base/json_stream.h"

#define FLAGS JSON_REAL_PRECISION(9)

static json_t *row(int i)
{
	return json_pack("{s:i,s:s,s:[i,i],s:{},s:[]}", "number", i, "text", "a\nb\xc2\x9b", "list",
			 1, 2, "object", "array");
}

/* What pieces() writes, as one value. */
static json_t *whole(void)
{
	json_t *o = json_object(), *rows = json_array(), *deep = json_object();
	for (int i = 0; i < 3; i++)
		json_array_append_new(rows, row(i));
	json_object_set_new(o, "first", row(7));
	json_object_set_new(o, "rows", rows);
	json_object_set_new(o, "none", json_array());
	json_object_set_new(deep, "empty", json_object());
	json_object_set_new(deep, "lists", json_pack("[[],[f,n]]", 0.1));
	json_object_set_new(o, "deep", deep);
	json_object_set_new(o, "last", json_null());
	return o;
}

static void pieces(struct json_stream *s)
{
	json_stream_put(s, "first", row(7));
	json_stream_array(s, "rows");
	for (int i = 0; i < 3; i++)
		json_stream_put(s, NULL, row(i));
	json_stream_close(s);
	json_stream_array(s, "none");
	json_stream_close(s);
	json_stream_object(s, "deep");
	json_stream_object(s, "empty");
	json_stream_close(s);
	json_stream_array(s, "lists");
	json_stream_array(s, NULL);
	json_stream_close(s);
	json_stream_array(s, NULL);
	json_stream_put(s, NULL, json_real(0.1));
	json_stream_put(s, NULL, json_null());
	json_stream_close(s);
	json_stream_close(s);
	json_stream_close(s);
	json_stream_put(s, "left out", NULL);
	json_stream_put(s, "last", json_null());
}

static void pieces_are_the_whole(void **state)
{
	(void)state;
	json_t *v = whole();
	char *want = json_out_text(v, JSON_INDENT(2) | FLAGS), *got;
	size_t len;
	FILE *f = open_memstream(&got, &len);
	struct json_stream s;
	json_stream_begin(&s, f, FLAGS);
	pieces(&s);
	assert_int_equal(json_stream_end(&s), 0);
	fclose(f);
	assert_string_equal(got, want);
	free(got);
	free(want);
	json_decref(v);
}

static void nothing_is_an_empty_object(void **state)
{
	(void)state;
	char *got;
	size_t len;
	FILE *f = open_memstream(&got, &len);
	struct json_stream s;
	json_stream_begin(&s, f, FLAGS);
	assert_int_equal(json_stream_end(&s), 0);
	fclose(f);
	assert_string_equal(got, "{}");
	free(got);
}

static void a_full_disk_is_told(void **state)
{
	(void)state;
	FILE *f = fopen("/dev/full", "w");
	struct json_stream s;
	setvbuf(f, NULL, _IONBF, 0);
	json_stream_begin(&s, f, FLAGS);
	pieces(&s);
	assert_int_equal(json_stream_end(&s), -1);
	fclose(f);
}

struct seen {
	char lists[256];
	unsigned values;
};

static void value_seen(void *ctx, const char *path, json_t *v)
{
	struct seen *seen = ctx;
	seen->values++;
	if (!strcmp(path, "rows"))
		json_object_del(v, "text");
}

static void list_seen(void *ctx, const char *path, size_t shown, size_t of)
{
	struct seen *seen = ctx;
	size_t len = strlen(seen->lists);
	snprintf(seen->lists + len, sizeof(seen->lists) - len, "%s %zu/%zu;", path, shown, of);
}

static void a_document_is_put_together_too(void **unused)
{
	struct seen seen = {0};
	const struct json_stream_limits limits = {100, &seen, value_seen, list_seen};
	struct json_stream s;
	json_t *expected = whole();
	(void)unused;
	json_stream_begin_whole(&s, &limits);
	pieces(&s);
	assert_int_equal(json_stream_end(&s), 0);
	for (size_t i = 0; i < 3; i++)
		json_object_del(json_array_get(json_object_get(expected, "rows"), i), "text");
	assert_true(json_equal(s.whole, expected));
	assert_string_equal(seen.lists, "rows 3/3;none 0/0;deep.lists 0/0;deep.lists 2/2;"
					"deep.lists 2/2;");
	json_decref(expected);
	json_decref(s.whole);
}

static void lists_are_no_longer_than_their_limit(void **unused)
{
	struct seen seen = {0};
	const struct json_stream_limits limits = {1, &seen, value_seen, list_seen};
	struct json_stream s;
	(void)unused;
	json_stream_begin_whole(&s, &limits);
	pieces(&s);
	assert_int_equal(json_stream_end(&s), 0);
	assert_int_equal(json_array_size(json_object_get(s.whole, "rows")), 1);
	/* of what is left out nothing is told, nor kept: the second of "lists" */
	assert_string_equal(seen.lists, "rows 1/3;none 0/0;deep.lists 0/0;deep.lists 1/2;");
	assert_true(json_is_null(json_object_get(s.whole, "last")));
	json_decref(s.whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_the_whole),
		cmocka_unit_test(nothing_is_an_empty_object),
		cmocka_unit_test(a_full_disk_is_told),
		cmocka_unit_test(a_document_is_put_together_too),
		cmocka_unit_test(lists_are_no_longer_than_their_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* json_stream_test.c - a document that is written in pieces is the one that jansson writes whole.
 * links: base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_the_whole),
		cmocka_unit_test(nothing_is_an_empty_object),
		cmocka_unit_test(a_full_disk_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

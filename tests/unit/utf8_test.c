/* utf8_test.c - what terminals obey is found and replaced, and nothing else; JSON has it escaped,
 * and reads as before.
 * links: base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_out.h"
#include "base/utf8.h"

/* A character of the Basic Multilingual Plane; its length. */
static size_t encode(unsigned c, char ret[static 4])
{
	if (c < 0x80)
		return (size_t)snprintf(ret, 4, "%c", (int)c);
	if (c < 0x800)
		return (size_t)snprintf(ret, 4, "%c%c", (int)(0xc0 | c >> 6),
					(int)(0x80 | (c & 63)));
	return (size_t)snprintf(ret, 4, "%c%c%c", (int)(0xe0 | c >> 12),
				(int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
}

static int is_control(unsigned c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

static void controls_and_no_others(void **state)
{
	(void)state;
	char s[4];
	for (unsigned c = 1; c < 0xd800; c++) {
		size_t len = encode(c, s);
		struct buf out = {0};
		assert_int_equal(utf8_control((const uint8_t *)s, len), is_control(c) ? len : 0);
		utf8_append_clean(&out, s, len, '?');
		assert_string_equal((const char *)out.data, is_control(c) ? "?" : s);
		buf_free(&out);
	}
}

static void any_bytes_become_clean(void **state)
{
	(void)state;
	struct buf out = {0};
	buf_add(&out, "kept\n", 5);
	utf8_append_clean(&out,
			  "a\x1b[31m\xc2\x9b\xc2\x9b"
			  "b\x9b\xc2",
			  13, '_');
	assert_string_equal((const char *)out.data, "kept\na_[31m__b\xef\xbf\xbd\xef\xbf\xbd");
	assert_int_equal(out.len, strlen((const char *)out.data));
	buf_free(&out);
}

static json_t *all_characters(void)
{
	json_t *list = json_array();
	struct buf text = {0};
	for (unsigned c = 1; c < 0xd800; c++) {
		buf_reserve(&text, 4);
		text.len += encode(c, (char *)text.data + text.len);
		if (c % 1000 == 999 || c == 0xd7ff) {
			json_array_append_new(list, json_stringn((char *)text.data, text.len));
			text.len = 0;
		}
	}
	buf_free(&text);
	return json_pack("{s:o s:s}", "all", list, "key\xc2\x9b", "value\x7f");
}

static void assert_same_and_safe(const json_t *want, const char *text)
{
	json_error_t why;
	json_t *got = json_loads(text, 0, &why);
	if (!got)
		fail_msg("%s", why.text);
	assert_true(json_equal(want, got));
	json_decref(got);
	for (const uint8_t *p = (const uint8_t *)text; *p; p++)
		assert_true(*p == '\n' || !utf8_control(p, strlen((const char *)p)));
}

static void json_is_safe_and_says_the_same(void **state)
{
	(void)state;
	json_t *v = all_characters();
	char *text = json_out_text(v, JSON_INDENT(2)), *printed;
	assert_same_and_safe(v, text);
	assert_non_null(strstr(text, "\"key\\u009b\": \"value\\u007f\""));
	size_t len;
	FILE *f = open_memstream(&printed, &len); /* longer than what is passed on at a time */
	assert_true(strlen(text) > 100000);
	assert_int_equal(json_out_file(v, f, JSON_INDENT(2)), 0);
	fclose(f);
	assert_string_equal(printed, text);
	f = fopen("/dev/full", "w");
	setvbuf(f, NULL, _IONBF, 0);
	assert_int_equal(json_out_file(v, f, 0), -1);
	fclose(f);
	free(text);
	free(printed);
	json_decref(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(controls_and_no_others),
		cmocka_unit_test(any_bytes_become_clean),
		cmocka_unit_test(json_is_safe_and_says_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

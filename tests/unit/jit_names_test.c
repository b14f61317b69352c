/* jit_names_test.c - names of made code, from perf's maps and jitdump files.
 *
 * links: base symbolize */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "symbolize/jit_names.h"

struct found {
	char names[8][JIT_NAME_BYTES];
};

static void keep(void *ctx, size_t i, const char *text)
{
	struct found *f = ctx;
	snprintf(f->names[i], sizeof(f->names[i]), "%s", text);
}

static struct found find(const void *data, size_t len, const uint64_t *addresses, size_t n)
{
	struct found f = {0};
	jit_names_find(data, len, addresses, n, keep, &f);
	return f;
}

static void test_map(void **state)
{
	static const char map[] = "1000 20 first\n0x1020 0x10 LazyCompile:*fib /a/x.js:3:4\n"
				  "not a line\n1000 zz bad\n2000 8 last one";
	static const uint64_t at[] = {0xfff, 0x1000, 0x101f, 0x1020, 0x1030, 0x2007, 0x2008};
	(void)state;
	struct found f = find(map, sizeof(map) - 1, at, 7);
	assert_string_equal(f.names[0], "");
	assert_string_equal(f.names[1], "first");
	assert_string_equal(f.names[2], "first");
	assert_string_equal(f.names[3], "fib (x.js:3)");
	assert_string_equal(f.names[4], "");
	assert_string_equal(f.names[5], "last one");
	assert_string_equal(f.names[6], "");
}

/* What was written last is what lies there. */
static void test_map_of_reused_places(void **state)
{
	static const char map[] = "1000 100 old\n1080 10 new\n";
	static const uint64_t at[] = {0x107f, 0x1080, 0x1090};
	(void)state;
	struct found f = find(map, sizeof(map) - 1, at, 3);
	assert_string_equal(f.names[0], "old");
	assert_string_equal(f.names[1], "new");
	assert_string_equal(f.names[2], "old");
}

static void put(struct buf *b, uint64_t value, size_t bytes)
{
	buf_add(b, &value, bytes);
}

static void put_record(struct buf *b, uint32_t id, size_t bytes)
{
	put(b, id, 4);
	put(b, 16 + bytes, 4);
	put(b, 7, 8);
	put(b, 1, 8); /* pid, tid */
	put(b, 0, 8);
}

static void put_load(struct buf *b, uint64_t address, uint64_t size, uint64_t index,
		     const char *name)
{
	put_record(b, 0, 40 + strlen(name) + 1 + size);
	put(b, address, 8);
	put(b, size, 8);
	put(b, index, 8);
	buf_add(b, name, strlen(name) + 1);
	for (uint64_t i = 0; i < size; i++)
		buf_byte(b, 0xc3);
}

static void test_dump(void **state)
{
	static const uint64_t at[] = {0x1004, 0x3008, 0x4000};
	struct buf b = {0};
	(void)state;
	put(&b, 0x4a695444, 4);
	put(&b, 1, 4);
	put(&b, 40, 4);
	put(&b, 62, 4);
	put(&b, 0, 8);
	put(&b, 0, 8);
	put(&b, 0, 8);
	put_load(&b, 0x1000, 16, 0, "made_one");
	put_load(&b, 0x2000, 16, 1, "made_two");
	put_record(&b, 1, 48); /* made_two goes to 0x3000 */
	put(&b, 0x2000, 8);
	put(&b, 0x3000, 8);
	put(&b, 16, 8);
	put(&b, 1, 8);
	put_load(&b, 0x4000, 16, 2, "half");
	b.len -= 3;
	struct found f = find(b.data, b.len, at, 3);
	assert_string_equal(f.names[0], "made_one");
	assert_string_equal(f.names[1], "made_two");
	assert_string_equal(f.names[2], "");
	buf_free(&b);
}

static void test_clean(void **state)
{
	static const char *const names[][2] = {
		{"LazyCompile:*fib /x.js:3:4", "fib (x.js:3)"},
		{"JS:~fib file:///tmp/x.js:3:4", "fib (x.js:3)"},
		{"JS:* /tmp/x.js:1:10", "(anonymous) (x.js:1)"},
		{"Function:^go node:internal/a/b:12:7", "go (b:12)"},
		{"Builtin:ArgumentsAdaptor", "Builtin:ArgumentsAdaptor"},
		{"int Fib.fib(int)", "Fib.fib"},
		{"java.lang.Object java.util.ArrayList.get(int)", "java.util.ArrayList.get"},
		{"Lorg/x/Fib;::fib", "org.x.Fib.fib"},
		{"Interpreter", "Interpreter"},
		{"StubRoutines (1)", "StubRoutines (1)"},
		{"a\tb\x1b[0m", "a?b?[0m"},
		{"LazyCompile:", "(anonymous)"},
	};
	char text[64];
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		jit_name_clean(names[i][0], strlen(names[i][0]), text, sizeof(text));
		assert_string_equal(text, names[i][1]);
	}
	jit_name_clean("abcdef", 6, text, 4);
	assert_string_equal(text, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_map_of_reused_places),
		cmocka_unit_test(test_dump),
		cmocka_unit_test(test_clean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* cpython_lines_test.c - line tables of CPython: by tables made by hand, and at every offset of
 * the code objects of the standard library (but its tests) of every interpreter installed here.
 *
 * links: base symbolize */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "interpreters.h"
#include "symbolize/cpython_frames.h"

#define V38  0x030812f0
#define V310 0x030a0df0
#define V311 0x030b02f0

static uint32_t line_at(uint32_t version, const char *table, size_t len, uint32_t offset)
{
	return cpython_line_at(version, (const uint8_t *)table, len, 10, offset);
}

/* The example of Objects/lnotab_notes.txt, moved to line 10: 300 bytes and 200 lines take two
 * pairs each. */
static void test_lnotab(void **state)
{
	static const char table[] = {6, 1, 44, 5, (char)255, 0, 45, 127, 0, 73, 11, 1, 2, -3};
	static const uint32_t lines[][2] = {{0, 10},   {5, 10},	   {6, 11},    {49, 11},  {50, 16},
					    {349, 16}, {350, 216}, {361, 217}, {363, 214}};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(line_at(V38, table, sizeof(table), lines[i][0]), lines[i][1]);
	assert_int_equal(line_at(V38, table, 0, 4), 10);
	assert_int_equal(line_at(V38, table, 1, 6), 10);
	/* below line 1 */
	assert_int_equal(line_at(V38, "\0\x80", 2, 0), 10);
}

static void test_ranges(void **state)
{
	/* two bytes on line 11, six without a line, none on 13, two on 12 */
	static const char table[] = {2, 1, 6, -128, 0, 2, 2, -1};

	(void)state;
	assert_int_equal(line_at(V310, table, sizeof(table), 0), 11);
	assert_int_equal(line_at(V310, table, sizeof(table), 2), 10);
	assert_int_equal(line_at(V310, table, sizeof(table), 7), 10);
	assert_int_equal(line_at(V310, table, sizeof(table), 8), 12);
	assert_int_equal(line_at(V310, table, sizeof(table), 10), 10);
}

#define ENTRY(code, units) (char)(0x80 | (code) << 3 | ((units)-1))

static void test_locations(void **state)
{
	static const char table[] = {
		ENTRY(15, 1),			   /* 0: no line */
		ENTRY(11, 2), 0,    4,		   /* 2: one line on: 11 */
		ENTRY(3, 1),  0x12,		   /* 6: the same line */
		ENTRY(14, 8), 0x48, 0x06, 1, 2, 3, /* 8: 0x188 >> 1 = 196 lines on: 207 */
		ENTRY(13, 1), 0x05,		   /* 24: 2 lines back: 205 */
	};
	static const uint32_t lines[][2] = {{0, 10},  {2, 11},	 {4, 11},   {6, 11},
					    {8, 207}, {22, 207}, {24, 205}, {26, 10}};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(line_at(V311, table, sizeof(table), lines[i][0]), lines[i][1]);
	/* cut within a number, and a number without an end */
	assert_int_equal(line_at(V311, table, 8, 8), 11 + 4);
	assert_int_equal(line_at(V311, "\xe8\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f", 10, 0), 10);
}

/* ---- the standard library ---- */

/* For every code object: sizes, the table, and the ranges of bytecode with their lines (0:
 * none), as the interpreter tells them. */
static const char script[] = SAY_VERSION
	"import dis, importlib.util, marshal, os, struct, types\n"
	"new = sys.version_info >= (3, 10)\n"
	"def ranges(code):\n"
	"    if new:\n"
	"        return [(a, b, l or 0) for a, b, l in code.co_lines()]\n"
	"    starts = [(0, code.co_firstlineno)] + list(dis.findlinestarts(code))\n"
	"    ends = [a for a, l in starts[1:]] + [len(code.co_code)]\n"
	"    return [(a, b, l) for (a, l), b in zip(starts, ends) if a < b]\n"
	"def dump(code):\n"
	"    table = code.co_linetable if new else code.co_lnotab\n"
	"    r = ranges(code)\n"
	"    out.write(struct.pack('<IIII', len(table), code.co_firstlineno,\n"
	"                          len(code.co_code), len(r)))\n"
	"    out.write(table)\n"
	"    for one in r:\n"
	"        out.write(struct.pack('<III', *one))\n"
	"    for const in code.co_consts:\n"
	"        if isinstance(const, types.CodeType):\n"
	"            dump(const)\n"
	"def load(path):\n"
	"    try:\n"
	"        with open(importlib.util.cache_from_source(path), 'rb') as f:\n"
	"            return marshal.loads(f.read()[16:])\n"
	"    except OSError:\n"
	"        with open(path, 'rb') as f:\n"
	"            return compile(f.read(), path, 'exec', dont_inherit=True)\n"
	"out = sys.stdout.buffer\n"
	"for folder, names, files in os.walk(os.path.dirname(os.__file__)):\n"
	"    names[:] = [n for n in names if not n.endswith(('-packages', 'test', 'tests'))]\n"
	"    for name in files:\n"
	"        if not name.endswith('.py'):\n"
	"            continue\n"
	"        try:\n"
	"            code = load(os.path.join(folder, name))\n"
	"        except (SyntaxError, ValueError, RecursionError):\n"
	"            continue\n"
	"        dump(code)\n";

struct dumped {
	uint32_t table_len, first_line, code_len, nranges;
};

static void read_all(FILE *in, void *ret, size_t len)
{
	assert_int_equal(fread(ret, 1, len, in), len);
}

static size_t check_code(uint32_t version, const struct dumped *d, const uint8_t *table, FILE *in)
{
	size_t wrong = 0;

	for (uint32_t r = 0; r < d->nranges; r++) {
		uint32_t range[3];

		read_all(in, range, sizeof(range));
		assert_true(range[0] < range[1]);
		/* its first, middle and last instruction */
		uint32_t last = range[1] - 2, middle = range[0] + (last - range[0]) / 4 * 2;
		uint32_t want = range[2] ? range[2] : d->first_line;
		for (uint32_t at = range[0];; at = at < middle ? middle : last) {
			wrong += cpython_line_at(version, table, d->table_len, d->first_line, at) !=
				 want;
			if (at >= last)
				break;
		}
	}
	return wrong;
}

static void check_library(struct interpreter *i)
{
	size_t codes = 0, offsets = 0, wrong = 0;
	struct dumped d;

	while (fread(&d, sizeof(d), 1, i->out) == 1) {
		uint8_t *table = malloc(d.table_len + 1);

		assert_non_null(table);
		read_all(i->out, table, d.table_len);
		wrong += check_code(i->version, &d, table, i->out);
		free(table);
		codes++;
		offsets += d.code_len / 2;
	}
	print_message("%s: %zu code objects, %zu instructions, %zu lines differ\n", i->path, codes,
		      offsets, wrong);
	assert_true(codes > 1000);
	assert_int_equal(wrong, 0);
}

static void test_standard_library(void **state)
{
	(void)state;
	if (!interpreters_each(script, check_library)) {
		print_message("skipped: no Python of 3.8 to 3.14 is installed\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lnotab),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_locations),
		cmocka_unit_test(test_standard_library),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

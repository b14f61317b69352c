/* cpython_test.c - CPython's versions, layouts and strings: by tables, by made-up images, and
 * in the memory of every interpreter installed here.
 *
 * links: base symbolize */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "debug_offsets.h"
#include "elf_builder.h"
#include "interpreter_files.h"
#include "symbolize/cpython.h"
#include "symbolize/proc_maps.h"

static void test_utf8(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		uint8_t width;
		const char *text;
	} strings[] = {
		{"plain", 5, 0x80, "plain"},
		{"caf\xe9", 4, 1, "caf\xc3\xa9"},
		{"caf\xe9", 4, 0x80, "caf\xef\xbf\xbd"},
		{"\x16\x04\x41\x00", 4, 2, "\xd0\x96\x41"},
		{"\xac\x20", 2, 2, "\xe2\x82\xac"},
		{"\x00\xf6\x01\x00x\0\0\0", 8, 4, "\xf0\x9f\x98\x80x"},
		{"\x00\xd8\x41\x00", 4, 2, "\xef\xbf\xbd\x41"}, /* a lone surrogate */
		{"\x00\x00\x11\x00", 4, 4, "\xef\xbf\xbd"},	/* past U+10FFFF */
		{"a\0b", 3, 1, "a\xef\xbf\xbd\x62"},		/* NUL */
		{"\x41\x00\x42", 3, 2, "A"},			/* cut within a character */
		{"whatever", 8, 3, ""},
		{"", 0, 0x80, ""},
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		size_t n = cpython_string_utf8((const uint8_t *)strings[i].bytes, strings[i].len,
					       strings[i].width, out, sizeof(out));

		assert_string_equal(out, strings[i].text);
		assert_int_equal(n, strlen(strings[i].text));
	}
	/* never a part of a character, never past the end */
	memset(out, 'x', sizeof(out));
	assert_int_equal(cpython_string_utf8((const uint8_t *)"\xac\x20\xac\x20", 4, 2, out, 6), 3);
	assert_int_equal(out[3], 0);
	assert_int_equal(out[6], 'x');
	assert_int_equal(cpython_string_utf8((const uint8_t *)"a", 1, 1, out, 1), 0);
	assert_int_equal(out[0], 0);
	assert_int_equal(cpython_string_utf8((const uint8_t *)"a", 1, 1, out, 0), 0);
}

static void test_layout_bounds(void **state)
{
	struct py_layout layout = {.str_length = 77};
	struct err e;

	(void)state;
	assert_int_equal(cpython_layout(0x030710f0, &layout, &e), -EINVAL);
	assert_int_equal(cpython_layout(0x030f00f0, &layout, &e), -EINVAL);
	assert_int_equal(cpython_layout(0x02070000, &layout, &e), -EINVAL);
	assert_int_equal(layout.str_length, 77);
	for (uint32_t minor = 8; minor <= 14; minor++) {
		assert_int_equal(cpython_layout(0x030000f0 | minor << 16, &layout, &e), 0);
		assert_int_equal(layout.str_length, 16);
		assert_int_equal(layout.code_qualname != 0, minor >= 11);
		assert_int_equal(layout.frame_code_tagged, minor >= 14);
	}
	assert_int_equal(cpython_frame_register(0x030812f0), 0);
	assert_int_equal(cpython_frame_register(0x030900f0), 1);
	assert_int_equal(cpython_frame_register(0x030e00f0), 1);
}

/* _Py_DebugOffsets as 8-byte fields, from the field lists of the headers: 3.13 has 13 fields on
 * the interpreter, 6 on the frame and 10 on code objects; 3.14 has 16, 8 and 11, and sets. */
static size_t debug_offsets(uint64_t *fields, uint32_t version, bool free_threaded)
{
	bool v14 = version >= 0x030e0000;
	uint64_t head = free_threaded ? 16 : 0;
	size_t frame = 6 + (v14 ? 16 : 13) + 9;
	size_t code = frame + (v14 ? 8 : 6);
	size_t str = code + (v14 ? 11 : 10) + 2 + 4 + 3 + 3 + (v14 ? 4 : 0) + 3 + 2 + 3 + 3;

	memset(fields, 0xa5, 128 * sizeof(*fields));
	memcpy(&fields[0], "xdebugpy", 8);
	fields[1] = version;
	fields[2] = free_threaded;
	fields[frame + 2] = 0;
	fields[code] = 216 + head;
	fields[code + 1] = 112 + head;
	fields[code + 2] = 120 + head;
	fields[code + 3] = 128 + head;
	fields[code + 5] = 68 + head;
	fields[str] = 64 + head;
	fields[str + 1] = 32 + head;
	fields[str + 2] = 16 + head;
	fields[str + 3] = 40 + head;
	return 8 * (str + 4);
}

static void assert_same_layout(const struct py_layout *a, const struct py_layout *b)
{
	assert_int_equal(a->frame_code, b->frame_code);
	assert_int_equal(a->code_firstlineno, b->code_firstlineno);
	assert_int_equal(a->code_filename, b->code_filename);
	assert_int_equal(a->code_name, b->code_name);
	assert_int_equal(a->code_qualname, b->code_qualname);
	assert_int_equal(a->str_length, b->str_length);
	assert_int_equal(a->str_state, b->str_state);
	assert_int_equal(a->str_ascii_data, b->str_ascii_data);
	assert_int_equal(a->str_compact_data, b->str_compact_data);
	assert_int_equal(a->frame_code_tagged, b->frame_code_tagged);
	assert_int_equal(a->state_kind_shift, b->state_kind_shift);
	assert_int_equal(a->state_ascii_shift, b->state_ascii_shift);
}

static void test_debug_offsets(void **state)
{
	static const uint32_t versions[] = {0x030d00f0, 0x030e00f0};
	struct py_layout told, known;
	uint64_t fields[128];
	struct err e;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		size_t len = debug_offsets(fields, versions[i], false);

		assert_int_equal(cpython_layout_from_offsets(fields, len, &told, &e), 0);
		assert_int_equal(cpython_layout(versions[i], &known, &e), 0);
		assert_same_layout(&told, &known);
		/* one byte short */
		assert_int_equal(cpython_layout_from_offsets(fields, len - 1, &told, &e), -EINVAL);
	}
	debug_offsets(fields, 0x030e00f0, true);
	assert_int_equal(cpython_layout_from_offsets(fields, sizeof(fields), &told, &e), 0);
	assert_int_equal(told.code_name, 136);
	assert_int_equal(told.str_length, 32);
	assert_int_equal(told.str_ascii_data, 56);
	assert_int_equal(told.str_compact_data, 72);
	assert_int_equal(told.state_kind_shift, 8);
	assert_int_equal(told.state_ascii_shift, 12);
	debug_offsets(fields, 0x030d00f0, true);
	assert_int_equal(cpython_layout_from_offsets(fields, sizeof(fields), &told, &e), 0);
	assert_int_equal(told.state_kind_shift, 2);
}

/* What real interpreters say is what the tables have; of a free-threaded build it is the same,
 * behind a head of 32 bytes in the place of 16. */
static void test_real_debug_offsets(void **state)
{
	struct py_layout told, known;
	struct err e;

	(void)state;
	assert_int_equal(
		cpython_layout_from_offsets(offsets_3_13_0, sizeof(offsets_3_13_0), &told, &e), 0);
	assert_int_equal(cpython_layout(0x030d00f0, &known, &e), 0);
	assert_same_layout(&told, &known);
	assert_int_equal(
		cpython_layout_from_offsets(offsets_3_14_8, sizeof(offsets_3_14_8), &told, &e), 0);
	assert_int_equal(cpython_layout(0x030e08f0, &known, &e), 0);
	assert_same_layout(&told, &known);
	assert_int_equal(
		cpython_layout_from_offsets(offsets_3_13_15t, sizeof(offsets_3_13_15t), &told, &e),
		0);
	assert_int_equal(told.frame_code, 0);
	assert_int_equal(told.code_firstlineno, 68 + 16);
	assert_int_equal(told.code_filename, 112 + 16);
	assert_int_equal(told.code_name, 120 + 16);
	assert_int_equal(told.code_qualname, 128 + 16);
	assert_int_equal(told.str_length, 16 + 16);
	assert_int_equal(told.str_state, 32 + 16);
	assert_int_equal(told.str_ascii_data, 40 + 16);
	assert_int_equal(told.str_compact_data, 56 + 16);
	assert_int_equal(told.state_kind_shift, 2);
}

static void test_debug_offsets_refused(void **state)
{
	struct py_layout layout = {.str_length = 77};
	uint64_t fields[128];
	struct err e;
	size_t len;

	(void)state;
	len = debug_offsets(fields, 0x030d00f0, false);
	/* the form of one release under the version of the other */
	fields[1] = 0x030e00f0;
	assert_int_equal(cpython_layout_from_offsets(fields, sizeof(fields), &layout, &e), -EINVAL);
	fields[1] = 0x030c00f0;
	assert_int_equal(cpython_layout_from_offsets(fields, len, &layout, &e), -EINVAL);
	debug_offsets(fields, 0x030d00f0, false);
	((char *)fields)[3] ^= 1;
	assert_int_equal(cpython_layout_from_offsets(fields, len, &layout, &e), -EINVAL);
	assert_int_equal(cpython_layout_from_offsets(fields, 0, &layout, &e), -EINVAL);
	assert_int_equal(layout.str_length, 77);
}

static int version_of(const char *rodata, size_t len, const char *path, uint32_t *ret)
{
	struct elf_builder b;
	struct elf_file *f;
	struct err e;
	int rc;

	elf_builder_init(&b);
	elf_builder_section(&b, ".rodata", SHT_PROGBITS, rodata, len, 0);
	elf_builder_finish(&b, ET_DYN);
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	assert_false(cpython_present(f));
	rc = cpython_version(f, path, ret, &e);
	elf_file_close(f);
	elf_builder_free(&b);
	return rc;
}

static void test_version(void **state)
{
	static const char whole[] = "x\0003.2.0\0003.10.4\0y", tail[] = "\0/opt/python/3.9.18\0";
	static const char other[] = "\0003.7.1\0003.99.0\0001.2.3\0";
	uint32_t v = 1;

	(void)state;
	assert_int_equal(version_of(whole, sizeof(whole), "/usr/bin/python3", &v), 0);
	assert_int_equal(v, 0x030a04f0);
	assert_int_equal(version_of(tail, sizeof(tail), "/usr/bin/python3", &v), 0);
	assert_int_equal(v, 0x030912f0);
	/* the file's name decides which string counts */
	assert_int_equal(version_of(whole, sizeof(whole), "/x/python3.12", &v), 0);
	assert_int_equal(v, 0x030c00f0);
	assert_int_equal(version_of(other, sizeof(other), "/x/libpython3.8.so.1.0", &v), 0);
	assert_int_equal(v, 0x030800f0);
	assert_int_equal(version_of(other, sizeof(other), "/python3.11/app", &v), -ENOENT);
	assert_int_equal(v, 0x030800f0);
}

/* ---- real interpreters ---- */

/* Makes a function with a name and a file of several character widths and prints addresses. */
static const char script[] =
	"import sys\n"
	"src = '\\n\\n\\n\\nclass C:\\n    def m\\xe9thode(self):\\n        return "
	"sys._getframe()\\n'\n"
	"ns = {'sys': sys}\n"
	"exec(compile(src, '/tmp/\\u0416\\u0416.py', 'exec'), ns)\n"
	"frame = getattr(ns['C'](), 'm\\xe9thode')()\n"
	"strings = ['plain', 'caf\\xe9', '\\u20ac10', '\\U0001f600x']\n"
	"print(id(frame), id(frame.f_code), *[id(s) for s in strings], flush=True)\n"
	"sys.stdin.read()\n";

struct interpreter {
	pid_t pid;
	int memory, stdin_fd;
	unsigned long frame, code, strings[4];
};

static void start_interpreter(const char *path, struct interpreter *ret)
{
	int in[2], out[2];
	char line[256] = "", name[64];
	ssize_t n;

	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	ret->pid = fork();
	if (ret->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execl(path, path, "-I", "-c", script, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	ret->stdin_fd = in[1];
	n = read(out[0], line, sizeof(line) - 1);
	assert_true(n > 0);
	close(out[0]);
	assert_int_equal(sscanf(line, "%lu %lu %lu %lu %lu %lu", &ret->frame, &ret->code,
				&ret->strings[0], &ret->strings[1], &ret->strings[2],
				&ret->strings[3]),
			 6);
	snprintf(name, sizeof(name), "/proc/%d/mem", ret->pid);
	ret->memory = open(name, O_RDONLY);
	assert_true(ret->memory >= 0);
}

static void stop_interpreter(struct interpreter *i)
{
	close(i->memory);
	close(i->stdin_fd);
	waitpid(i->pid, NULL, 0);
}

static uint64_t peek(const struct interpreter *i, uint64_t address, size_t size)
{
	uint64_t v = 0;

	assert_int_equal(pread(i->memory, &v, size, address), size);
	return v;
}

/* A str object as the BPF program reads it. */
static const char *read_string(const struct interpreter *i, const struct py_layout *l,
			       uint64_t address, char ret[256])
{
	uint32_t state = peek(i, address + l->str_state, 4);
	uint64_t length = peek(i, address + l->str_length, 8);
	bool ascii = state >> l->state_ascii_shift & 1;
	uint8_t kind = state >> l->state_kind_shift & 7;
	uint8_t bytes[256];

	assert_true(kind == 1 || kind == 2 || kind == 4);
	assert_true(length * kind < sizeof(bytes));
	assert_int_equal(pread(i->memory, bytes, length * kind,
			       address + (ascii ? l->str_ascii_data : l->str_compact_data)),
			 length * kind);
	cpython_string_utf8(bytes, length * kind, ascii ? 0x80 : kind, ret, 256);
	return ret;
}

/* The file among the process's mappings that holds the interpreter, and its address. */
static struct elf_file *find_library(pid_t pid, uint32_t *ret_version)
{
	struct elf_file *f = NULL;
	proc_maps_t maps = {0};
	struct err e;

	assert_int_equal(proc_maps_read("/proc", pid, &maps, &e), 0);
	for (size_t i = 0; i < maps.len && !f; i++) {
		int fd, rc;

		if (!maps.data[i].executable || !maps.data[i].inode)
			continue;
		fd = proc_map_open("/proc", pid, &maps.data[i], NULL);
		rc = fd < 0 ? fd : elf_file_open_fd(&f, fd, maps.data[i].path, 0, &e);
		if (fd >= 0)
			close(fd);
		if (rc < 0)
			continue;
		if (cpython_present(f)) {
			assert_int_equal(cpython_version(f, maps.data[i].path, ret_version, &e), 0);
			continue;
		}
		elf_file_close(f);
		f = NULL;
	}
	proc_maps_free(&maps);
	return f;
}

/* Those of a free-threaded build are known from itself alone. */
static void check_own_offsets(const struct elf_file *f, struct py_layout *known)
{
	struct elf_symbol runtime;
	struct py_layout told;
	const uint64_t *image;
	struct err e;

	assert_true(elf_file_find(f, "_PyRuntime", &runtime));
	image = elf_file_bytes(f, runtime.address, 1024);
	assert_non_null(image);
	assert_int_equal(cpython_layout_from_offsets(image, 1024, &told, &e), 0);
	if (image[2])
		*known = told;
	assert_same_layout(&told, known);
}

/* Two literals: one escape would take the digits that follow it. */
#define TEN_EUROS                                                                                  \
	"\xe2\x82\xac"                                                                             \
	"10"

/* False when the interpreter is of a version that is not supported. */
static bool check_interpreter(const char *path)
{
	static const char *const texts[] = {"plain", "caf\xc3\xa9", TEN_EUROS, "\xf0\x9f\x98\x80x"};
	struct interpreter i;
	struct py_layout l;
	struct elf_file *f;
	uint64_t frame, code;
	uint32_t version;
	char text[256];
	struct err e;

	start_interpreter(path, &i);
	f = find_library(i.pid, &version);
	assert_non_null(f);
	print_message("%s: %08x\n", path, version);
	if (version < 0x03080000 || version >= 0x030f0000) {
		elf_file_close(f);
		stop_interpreter(&i);
		return false;
	}
	assert_int_equal(cpython_layout(version, &l, &e), 0);
	if (version >= 0x030d0000)
		check_own_offsets(f, &l);
	elf_file_close(f);

	for (int s = 0; s < 4; s++)
		assert_string_equal(read_string(&i, &l, i.strings[s], text), texts[s]);
	/* From 3.11 on sys._getframe() gives an object that points to the frame evaluated:
	 * struct _frame { PyObject_HEAD; PyFrameObject *f_back; _PyInterpreterFrame *f_frame;
	 * A str has its length behind the same head. */
	frame = version >= 0x030b0000 ? peek(&i, i.frame + l.str_length + 8, 8) : i.frame;
	code = peek(&i, frame + l.frame_code, 8);
	if (l.frame_code_tagged)
		code &= ~3ul;
	assert_int_equal(code, i.code);
	assert_int_equal(peek(&i, code + l.code_firstlineno, 4), 6);
	assert_string_equal(read_string(&i, &l, peek(&i, code + l.code_name, 8), text),
			    "m\xc3\xa9thode");
	assert_string_equal(read_string(&i, &l, peek(&i, code + l.code_filename, 8), text),
			    "/tmp/\xd0\x96\xd0\x96.py");
	if (l.code_qualname)
		assert_string_equal(read_string(&i, &l, peek(&i, code + l.code_qualname, 8), text),
				    "C.m\xc3\xa9thode");
	stop_interpreter(&i);
	return true;
}

static void test_interpreters(void **state)
{
	glob_t found = interpreter_files();
	int checked = 0;

	(void)state;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (access(found.gl_pathv[i], X_OK) == 0)
			checked += check_interpreter(found.gl_pathv[i]);
	}
	globfree(&found);
	if (!checked) {
		print_message("skipped: no Python of 3.8 to 3.14 is installed\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_utf8),	      cmocka_unit_test(test_layout_bounds),
		cmocka_unit_test(test_debug_offsets), cmocka_unit_test(test_debug_offsets_refused),
		cmocka_unit_test(test_version),	      cmocka_unit_test(test_real_debug_offsets),
		cmocka_unit_test(test_interpreters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

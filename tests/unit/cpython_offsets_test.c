/* cpython_offsets_test.c - where the frames' fields of CPython are: by version, by made-up images
 * of _Py_DebugOffsets, and against the headers of every interpreter installed here.
 *
 * links: base symbolize */
#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "debug_offsets.h"
#include "elf_builder.h"
#include "symbolize/cpython_frames.h"

static void test_versions(void **state)
{
	struct py_lines_layout lines = {.code_lines = 77};
	struct py_frames frames = {.thread_next = 77};
	struct err e;

	(void)state;
	assert_int_equal(cpython_frames(0x030710f0, &frames, &e), -EINVAL);
	assert_int_equal(cpython_frames(0x030f00f0, &frames, &e), -EINVAL);
	assert_int_equal(cpython_lines_layout(0x02070000, &lines, &e), -EINVAL);
	assert_int_equal(frames.thread_next, 77);
	assert_int_equal(lines.code_lines, 77);
	for (uint32_t minor = 8; minor <= 14; minor++) {
		assert_int_equal(cpython_frames(0x030000f0 | minor << 16, &frames, &e), 0);
		assert_int_equal(frames.thread_next, 8);
		assert_int_equal(frames.instruction == PY_INSTR_POINTER, minor >= 11);
		assert_int_equal(frames.thread_indirect, minor == 11 || minor == 12);
		assert_int_equal(frames.code_tagged, minor >= 14);
	}
	assert_true(cpython_is_init_cleanup("__init__", "__init__", 0));
	assert_false(cpython_is_init_cleanup("__init__", "__init__", 1));
	assert_false(cpython_is_init_cleanup("__init__", "/a/__init__.py", 0));
}

/* ---- made-up images of _Py_DebugOffsets ---- */

/* The members of the headers' structs in their order: how many fields each has in 3.13, 3.14. */
static const struct {
	const char *name;
	uint8_t v13, v14;
} members[] = {
	{"head", 3, 3},	 {"runtime", 3, 3}, {"interpreter", 13, 16}, {"thread", 9, 9},
	{"frame", 6, 8}, {"code", 10, 11},  {"object", 2, 2},	     {"type", 4, 4},
	{"tuple", 3, 3}, {"list", 3, 3},    {"set", 0, 4},	     {"dict", 3, 3},
	{"float", 2, 2}, {"long", 3, 3},    {"bytes", 3, 3},
};

static uint64_t *member(uint64_t *fields, uint32_t version, const char *name)
{
	for (size_t i = 0; strcmp(members[i].name, name) != 0; i++)
		fields += version >= 0x030e0000 ? members[i].v14 : members[i].v13;
	return fields;
}

#define SET(name, ...)                                                                             \
	memcpy(member(fields, version, name), (uint64_t[]){__VA_ARGS__},                           \
	       sizeof((uint64_t[]){__VA_ARGS__}))

/* What an ordinary build of the version says; returns its length as far as it is read. */
static size_t make_image(uint64_t *fields, uint32_t version, bool free_threaded)
{
	bool v14 = version >= 0x030e0000;

	memset(fields, 0xa5, 128 * sizeof(*fields));
	memcpy(fields, "xdebugpy", 8);
	fields[1] = version;
	fields[2] = free_threaded;
	SET("runtime", 400000, 600, v14 ? 808 : 632);
	SET("interpreter", 225808, 7256, v14 ? 7272 : 7264, 7344);
	SET("thread", 320, 0, 8, 16, 72, 152);
	SET("frame", 88, 8, 0, 56, v14 ? 80 : 72, v14 ? 74 : 70);
	SET("code", 224, 112, 120, 128, 136, 68, 52, 96, 104, v14 ? 208 : 200);
	SET("bytes", 40, 16, 32);
	if (free_threaded && v14) {
		member(fields, version, "frame")[5] = 78;
		member(fields, version, "frame")[7] = 72;
		member(fields, version, "code")[10] = 200;
	}
	return 8 * (member(fields, version, "bytes") + 3 - fields);
}

static void test_debug_offsets(void **state)
{
	static const uint32_t versions[] = {0x030d00f0, 0x030e00f0};
	struct py_frames told, known;
	struct py_lines_layout lines;
	uint64_t fields[128];
	struct err e;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		size_t len = make_image(fields, versions[i], false);

		assert_int_equal(cpython_frames_from_offsets(fields, len, &told, &e), 0);
		assert_int_equal(cpython_frames(versions[i], &known, &e), 0);
		assert_memory_equal(&told, &known, sizeof(told));
		assert_int_equal(cpython_lines_layout_from_offsets(fields, len, &lines, &e), 0);
		assert_int_equal(lines.code_lines, 136);
		assert_int_equal(lines.bytes_size, 16);
		assert_int_equal(lines.bytes_data, 32);
		assert_int_equal(cpython_frames_from_offsets(fields, len - 1, &told, &e), -EINVAL);
	}
	make_image(fields, 0x030e00f0, true);
	assert_int_equal(cpython_frames_from_offsets(fields, sizeof(fields), &told, &e), 0);
	assert_int_equal(told.code_copies, 200);
	assert_int_equal(told.frame_copy, 72);
	assert_int_equal(told.frame_boundary, 78);
	/* 3.13 has no copies */
	make_image(fields, 0x030d00f0, true);
	assert_int_equal(cpython_frames_from_offsets(fields, sizeof(fields), &told, &e), 0);
	assert_int_equal(told.code_copies, 0);
}

static void check_real(const uint64_t *words, size_t bytes, uint32_t version)
{
	struct py_lines_layout lines, known_lines;
	struct py_frames told, known;
	struct err e;

	assert_int_equal(words[1], version);
	assert_int_equal(cpython_frames_from_offsets(words, bytes, &told, &e), 0);
	assert_int_equal(cpython_frames(version, &known, &e), 0);
	assert_memory_equal(&told, &known, sizeof(told));
	assert_int_equal(cpython_lines_layout_from_offsets(words, bytes, &lines, &e), 0);
	assert_int_equal(cpython_lines_layout(version, &known_lines, &e), 0);
	assert_memory_equal(&lines, &known_lines, sizeof(lines));
	/* inject/calls/python_frame.c */
	assert_int_equal(words[version >= 0x030e0000 ? 26 : 23], known.thread_frame);
}

static void test_real_debug_offsets(void **state)
{
	struct py_lines_layout lines;
	struct py_frames told;
	struct err e;

	(void)state;
	check_real(offsets_3_13_0, sizeof(offsets_3_13_0), 0x030d00f0);
	check_real(offsets_3_14_8, sizeof(offsets_3_14_8), 0x030e08f0);
	assert_int_equal(
		cpython_frames_from_offsets(offsets_3_13_15t, sizeof(offsets_3_13_15t), &told, &e),
		0);
	assert_int_equal(told.interpreters_head, 632);
	assert_int_equal(told.thread_frame, 72);
	assert_int_equal(told.frame_instruction, 56);
	assert_int_equal(told.frame_boundary, 70);
	assert_int_equal(told.code_instructions, 200 + 16);
	assert_int_equal(told.code_copies, 0);
	assert_int_equal(cpython_lines_layout_from_offsets(offsets_3_13_15t,
							   sizeof(offsets_3_13_15t), &lines, &e),
			 0);
	assert_int_equal(lines.code_lines, 136 + 16);
	assert_int_equal(lines.bytes_size, 16 + 16);
	assert_int_equal(lines.bytes_data, 32 + 16);
}

static void test_debug_offsets_refused(void **state)
{
	static const struct {
		const char *member;
		size_t field;
		uint64_t value;
	} wrong[] = {
		{"runtime", 0, 1ul << 40},  {"runtime", 2, 400000}, {"runtime", 2, 12},
		{"interpreter", 2, 225808}, {"interpreter", 3, 3},  {"thread", 0, 5000},
		{"thread", 2, 320},	    {"thread", 4, 316},	    {"thread", 5, 1},
		{"frame", 1, 88},	    {"frame", 2, 4},	    {"frame", 3, 1ul << 32},
		{"frame", 5, 88},	    {"code", 9, 8},
	};
	struct py_frames frames = {.thread_next = 77};
	struct py_lines_layout lines;
	uint64_t fields[128];
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		size_t len = make_image(fields, 0x030d00f0, false);

		member(fields, 0x030d00f0, wrong[i].member)[wrong[i].field] = wrong[i].value;
		assert_int_equal(cpython_frames_from_offsets(fields, len, &frames, &e), -EINVAL);
	}
	make_image(fields, 0x030d00f0, false);
	member(fields, 0x030d00f0, "bytes")[2] = 40;
	assert_int_equal(cpython_lines_layout_from_offsets(fields, sizeof(fields), &lines, &e),
			 -EINVAL);
	fields[1] = 0x030c00f0;
	assert_int_equal(cpython_frames_from_offsets(fields, sizeof(fields), &frames, &e), -EINVAL);
	make_image(fields, 0x030d00f0, false);
	((char *)fields)[3] ^= 1;
	assert_int_equal(cpython_frames_from_offsets(fields, sizeof(fields), &frames, &e), -EINVAL);
	assert_int_equal(frames.thread_next, 77);
}

/* A file whose _PyRuntime is the image: of a free-threaded build, whose objects' heads are longer.
 */
static void test_lines_of_file(void **state)
{
	const uint32_t version = 0x030d00f0;
	struct buf symbols = {0}, strings = {0};
	struct py_lines_layout lines;
	struct elf_builder b;
	struct elf_file *f;
	uint64_t fields[128];
	uint32_t section;
	struct err e;

	(void)state;
	make_image(fields, version, true);
	member(fields, version, "code")[4] = 152;
	SET("bytes", 56, 32, 48);
	elf_builder_init(&b);
	section = elf_builder_section(&b, ".data", SHT_PROGBITS, fields, sizeof(fields), 0);
	buf_byte(&strings, 0);
	elf_builder_symbol(&symbols, &strings, "_PyRuntime", b.sections.data[section].sh_addr,
			   sizeof(fields), ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT));
	section = elf_builder_section(&b, ".dynstr", SHT_STRTAB, strings.data, strings.len, 0);
	elf_builder_section(&b, ".dynsym", SHT_DYNSYM, symbols.data, symbols.len, section);
	elf_builder_finish(&b, ET_DYN);
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	assert_int_equal(cpython_lines_layout_of(f, version, &lines, &e), 0);
	assert_int_equal(lines.code_lines, 152);
	assert_int_equal(lines.bytes_size, 32);
	assert_int_equal(lines.bytes_data, 48);
	/* a version without an image, and one that nobody knows */
	assert_int_equal(cpython_lines_layout_of(f, 0x030c00f0, &lines, &e), 0);
	assert_int_equal(lines.bytes_size, 16);
	elf_file_close(f);
	b.file.data[1024] ^= 1; /* "xdebugpy" */
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	assert_int_equal(cpython_lines_layout_of(f, version, &lines, &e), 0);
	assert_int_equal(lines.code_lines, 136);
	assert_int_equal(cpython_lines_layout_of(f, 0x030f00f0, &lines, &e), -EINVAL);
	elf_file_close(f);
	elf_builder_free(&b);
	buf_free(&symbols);
	buf_free(&strings);
}

/* ---- the installed headers ---- */

/* Prints the version and the offsets in the order in which check_headers() reads them. */
static const char offsets_program[] =
	"#include <Python.h>\n"
	"#include <stddef.h>\n"
	"#if PY_VERSION_HEX < 0x03090000\n"
	"#include <internal/pycore_pystate.h>\n"
	"#else\n"
	"#include <internal/pycore_runtime.h>\n"
	"#include <internal/pycore_interp.h>\n"
	"#endif\n"
	"#if PY_VERSION_HEX < 0x030b0000\n"
	"#include <frameobject.h>\n"
	"typedef PyFrameObject frame_t;\n"
	"typedef struct _is interpreter_t;\n"
	"#define THREADS tstate_head\n"
	"#define THREAD_FRAME frame\n"
	"#define PREVIOUS f_back\n"
	"#define INSTRUCTION f_lasti\n"
	"#define INSTRUCTIONS 0\n"
	"#define BOUNDARY 0\n"
	"#else\n"
	"#include <internal/pycore_frame.h>\n"
	"typedef _PyInterpreterFrame frame_t;\n"
	"typedef PyInterpreterState interpreter_t;\n"
	"#define THREADS threads.head\n"
	"#define PREVIOUS previous\n"
	"#define INSTRUCTIONS offsetof(PyCodeObject, co_code_adaptive)\n"
	"#endif\n"
	"#if PY_VERSION_HEX >= 0x030d0000\n"
	"#define THREAD_FRAME current_frame\n"
	"#define INSTRUCTION instr_ptr\n"
	"#define CODE f_executable\n"
	"#else\n"
	"#define CODE f_code\n"
	"#if PY_VERSION_HEX >= 0x030b0000\n"
	"#define THREAD_FRAME cframe\n"
	"#define INDIRECT offsetof(_PyCFrame, current_frame)\n"
	"#define ABOVE offsetof(_PyCFrame, previous)\n"
	"#define INSTRUCTION prev_instr\n"
	"#endif\n"
	"#endif\n"
	"#if PY_VERSION_HEX >= 0x030c0000\n"
	"#define BOUNDARY offsetof(frame_t, owner)\n"
	"#elif PY_VERSION_HEX >= 0x030b0000\n"
	"#define BOUNDARY offsetof(frame_t, is_entry)\n"
	"#endif\n"
	"#ifndef INDIRECT\n"
	"#define INDIRECT 0\n"
	"#define ABOVE 0\n"
	"#endif\n"
	"#if PY_VERSION_HEX < 0x030a0000\n"
	"#define LINES co_lnotab\n"
	"#else\n"
	"#define LINES co_linetable\n"
	"#endif\n"
	"int main(void)\n"
	"{\n"
	"	size_t all[] = {PY_VERSION_HEX, offsetof(_PyRuntimeState, interpreters.head),\n"
	"		offsetof(interpreter_t, next), offsetof(interpreter_t, THREADS),\n"
	"		offsetof(PyThreadState, next), offsetof(PyThreadState, thread_id),\n"
	"		offsetof(PyThreadState, THREAD_FRAME), INDIRECT,\n"
	"		offsetof(frame_t, PREVIOUS), offsetof(frame_t, INSTRUCTION), BOUNDARY,\n"
	"		INSTRUCTIONS, offsetof(frame_t, CODE), offsetof(PyCodeObject, LINES),\n"
	"		offsetof(PyVarObject, ob_size), offsetof(PyBytesObject, ob_sval),\n"
	"		ABOVE};\n"
	"	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)\n"
	"		printf(\"%zu \", all[i]);\n"
	"	return 0;\n"
	"}\n";

/* The headers' folder is named "python3.x"; false when they do not compile. */
static bool check_headers(const char *include)
{
	static const char command[] = "d=$(mktemp -d) && printf %s \"$PROGRAM\" |"
				      " cc -w -x c -DPy_BUILD_CORE -I\"$HEADERS\" "
				      "-I\"$HEADERS/internal\" -o $d/a - 2>/dev/null"
				      " && $d/a; rm -rf $d";
	struct py_lines_layout l;
	struct py_frames f;
	unsigned int v[17];
	struct err e;
	FILE *p;
	int n = 0;

	setenv("PROGRAM", offsets_program, 1);
	setenv("HEADERS", include, 1);
	p = popen(command, "r");
	assert_non_null(p);
	while (n < 17 && fscanf(p, "%u", &v[n]) == 1)
		n++;
	pclose(p);
	if (n == 0)
		return false;
	assert_int_equal(n, 17);
	print_message("%s: %08x\n", include, v[0]);
	assert_int_equal(cpython_frames(v[0], &f, &e), 0);
	assert_int_equal(cpython_lines_layout(v[0], &l, &e), 0);
	assert_int_equal(f.interpreters_head, v[1]);
	assert_int_equal(f.interpreter_next, v[2]);
	assert_int_equal(f.interpreter_threads, v[3]);
	assert_int_equal(f.thread_next, v[4]);
	assert_int_equal(f.thread_pthread, v[5]);
	assert_int_equal(f.thread_frame, v[6]);
	assert_int_equal(f.indirect_frame, v[7]);
	assert_int_equal(f.frame_previous, v[8]);
	assert_int_equal(f.frame_instruction, v[9]);
	assert_int_equal(f.frame_boundary, v[10]);
	assert_int_equal(f.code_instructions, v[11]);
	assert_int_equal(f.frame_code, v[12]);
	assert_int_equal(l.code_lines, v[13]);
	assert_int_equal(l.bytes_size, v[14]);
	assert_int_equal(l.bytes_data, v[15]);
	if (f.boundary == PY_ENTRY_FLAG)
		assert_int_equal(f.indirect_previous, v[16]);
	return true;
}

static void test_headers(void **state)
{
	static const char *const patterns[] = {"/usr/include/python3.*",
					       "~/.pyenv/versions/3.*/include/python3.*"};
	glob_t found = {0};
	int checked = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		glob(patterns[i], i ? GLOB_APPEND | GLOB_TILDE : 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *minor = strrchr(found.gl_pathv[i], '.');

		/* a trailing letter is that of an older version or of another build */
		if (strspn(minor + 1, "0123456789") == strlen(minor + 1) && atoi(minor + 1) >= 8 &&
		    atoi(minor + 1) <= 14)
			checked += check_headers(found.gl_pathv[i]);
	}
	globfree(&found);
	if (!checked) {
		print_message("skipped: no internal headers of CPython 3.8 to 3.14, or no cc\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_debug_offsets),
		cmocka_unit_test(test_real_debug_offsets),
		cmocka_unit_test(test_debug_offsets_refused),
		cmocka_unit_test(test_lines_of_file),
		cmocka_unit_test(test_headers),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

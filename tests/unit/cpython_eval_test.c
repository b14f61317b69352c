/* cpython_eval_test.c - where the interpreter's loop is in a file: in a library that the compiler
 * makes with a cold part and tail calls, with and without its symbol table, and in every
 * interpreter installed here.
 *
 * links: base symbolize */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "symbolize/cpython_frames.h"

/* The loop's error path is cold and comes back; its last act is a tail call to another
 * function, of which a cold part comes too. */
static const char library[] = "extern int step(int), failed(int);\n"
			      "static __attribute__((cold, noinline)) int give_up(int n) { return "
			      "failed(n) + step(n); }\n"
			      "__attribute__((noinline)) int finish(int n)\n"
			      "{\n"
			      "	if (__builtin_expect(step(n), 0)) n += give_up(n);\n"
			      "	return failed(n) + 1;\n"
			      "}\n"
			      "int _PyEval_EvalFrameDefault(int n)\n"
			      "{\n"
			      "	for (int i = 0; i < n; i++) {\n"
			      "		int rc = step(i);\n"
			      "		if (__builtin_expect(rc < 0, 0))\n"
			      "			n -= give_up(rc) * 3 + give_up(i);\n"
			      "	}\n"
			      "	return finish(n);\n"
			      "}\n";

static int build(const char *folder)
{
	static const char command[] = "cd \"$FOLDER\" && printf %s \"$PROGRAM\" | cc -O2 -fPIC "
				      "-shared -x c -o whole.so - "
				      "2>/dev/null && strip -s -o stripped.so whole.so";

	setenv("PROGRAM", library, 1);
	setenv("FOLDER", folder, 1);
	return system(command);
}

static int ranges_of(const char *folder, const char *name, uint64_t ranges[4][2])
{
	struct elf_file *f;
	char path[256];
	struct err e;
	int n;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(elf_file_open(&f, path, &e), 0);
	assert_int_equal(elf_file_has_symtab(f), strcmp(name, "whole.so") == 0);
	n = cpython_eval_ranges(f, ranges, 4);
	assert_int_equal(cpython_eval_ranges(f, ranges + 3, 1), 1);
	elf_file_close(f);
	return n;
}

static void test_cold_part(void **state)
{
	char folder[] = "/tmp/eacgm-eval-XXXXXX";
	uint64_t named[4][2], jumped[4][2];
	char path[256];
	int n;

	(void)state;
	assert_non_null(mkdtemp(folder));
	if (build(folder)) {
		rmdir(folder);
		print_message("skipped: no cc or no strip\n");
		skip();
	}
	n = ranges_of(folder, "whole.so", named);
	assert_int_equal(ranges_of(folder, "stripped.so", jumped), n);
	/* clang keeps cold code in the function */
	assert_in_range(n, 1, 2);
	for (int i = 0; i < n; i++) {
		assert_true(named[i][0] < named[i][1]);
		assert_int_equal(jumped[i][0], named[i][0]);
		assert_int_equal(jumped[i][1], named[i][1]);
	}
	print_message("%d ranges\n", n);
	snprintf(path, sizeof(path), "%s/whole.so", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/stripped.so", folder);
	unlink(path);
	rmdir(folder);
}

static void test_no_interpreter(void **state)
{
	uint64_t ranges[4][2];
	struct elf_file *f;
	struct err e;

	(void)state;
	assert_int_equal(elf_file_open(&f, "/proc/self/exe", &e), 0);
	assert_int_equal(cpython_eval_ranges(f, ranges, 4), 0);
	elf_file_close(f);
}

static void test_interpreters(void **state)
{
	static const char *const patterns[] = {"/usr/bin/python3.[0-9]*[0-9]",
					       "/usr/lib/x86_64-linux-gnu/libpython3.*.so.1.0",
					       "~/.pyenv/versions/3.*/lib/libpython3.?*.so.1.0"};
	glob_t found = {0};
	int checked = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		glob(patterns[i], i ? GLOB_APPEND | GLOB_TILDE : 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		uint64_t ranges[4][2];
		struct elf_file *f;
		struct err e;
		int n;

		if (elf_file_open(&f, found.gl_pathv[i], &e) < 0)
			continue;
		n = cpython_eval_ranges(f, ranges, 4);
		print_message("%s: %d ranges\n", found.gl_pathv[i], n);
		for (int r = 0; r < n; r++) {
			assert_true(ranges[r][0] < ranges[r][1]);
			assert_true(ranges[r][1] - ranges[r][0] < 1u << 20);
		}
		checked += n > 0;
		elf_file_close(f);
	}
	globfree(&found);
	if (!checked) {
		print_message("skipped: no CPython is installed\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cold_part),
		cmocka_unit_test(test_no_interpreter),
		cmocka_unit_test(test_interpreters),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

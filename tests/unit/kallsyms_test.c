/* kallsyms_test.c - names of the kernel's addresses, from a list and as the kernel prints one.
 *
 * links: symbolize base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbolize/kallsyms.h"

static void what_the_kernel_prints(void **state)
{
	static const struct {
		const char *text, *name, *module;
		uint64_t start;
	} cases[] = {
		{"schedule+0x10/0x80", "schedule", "", 0xff0},
		{"nv_open+0x0/0x20 [nvidia]", "nv_open", "nvidia", 0x1000},
		{"bpf_prog_a1_b+0x1000/0x2000 [bpf]", "bpf_prog_a1_b", "bpf", 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[KERNEL_SYMBOL_TEXT];
		struct kernel_symbol s;
		snprintf(text, sizeof(text), "%s", cases[i].text);
		assert_true(kernel_symbol_parse(text, 0x1000, &s));
		assert_string_equal(s.name, cases[i].name);
		assert_string_equal(s.module, cases[i].module);
		assert_int_equal(s.start, cases[i].start);
	}
}

static void what_names_nothing(void **state)
{
	static const char *const cases[] = {"",
					    "0xffffffff81000000",
					    "+0x1/0x2",
					    "name+0x1",
					    "name+0x1001/0x2000",
					    "name+0x1/0x2 [cut",
					    " [",
					    "name [m]"};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[KERNEL_SYMBOL_TEXT];
		struct kernel_symbol s;
		snprintf(text, sizeof(text), "%s", cases[i]);
		assert_false(kernel_symbol_parse(text, 0x1000, &s));
	}
}

static void a_list(void **state)
{
	char root[] = "/tmp/kallsyms_test.XXXXXX", path[64];
	uint64_t start;
	const char *module;
	(void)state;
	assert_non_null(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/kallsyms", root);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("ffffffff81000100 T second\nffffffff81000000 T first\nffffffff81000000 t alias\n"
	      "ffffffff81000180 d data\nffffffffc0000000 t of_module\t[nvidia]\nnonsense\n",
	      f);
	fclose(f);
	struct kallsyms *k = kallsyms_load(root);
	unlink(path);
	rmdir(root);
	assert_non_null(k);
	assert_string_equal(kallsyms_find(k, 0xffffffff81000010, &start, &module), "first");
	assert_int_equal(start, 0xffffffff81000000);
	assert_string_equal(kallsyms_find(k, 0xffffffff81000190, &start, &module), "second");
	assert_string_equal(module, "");
	assert_string_equal(kallsyms_find(k, 0xffffffffc0000001, &start, &module), "of_module");
	assert_string_equal(module, "nvidia");
	assert_null(kallsyms_find(k, 0xffffffff80ffffff, &start, &module));
	kallsyms_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_kernel_prints),
		cmocka_unit_test(what_names_nothing),
		cmocka_unit_test(a_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

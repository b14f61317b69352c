/* calltree_test.c - call trees, and their folded form.
 *
 * links: base export recording */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/calltree.h"
#include "export/flame.h"

static uint32_t native(struct calltree *t, const char *name)
{
	return calltree_frame(t, CALLTREE_NATIVE, name, "", 0, "/lib/x.so");
}

static void test_frames(void **state)
{
	(void)state;
	struct calltree t;
	calltree_init(&t);
	uint32_t f = calltree_frame(&t, CALLTREE_PYTHON, "f", "a.py", 3, "");
	assert_int_not_equal(f, 0);
	assert_int_equal(calltree_frame(&t, CALLTREE_PYTHON, "f", "a.py", 3, ""), f);
	assert_int_not_equal(calltree_frame(&t, CALLTREE_NATIVE, "f", "a.py", 3, ""), f);
	assert_int_not_equal(calltree_frame(&t, CALLTREE_PYTHON, "g", "a.py", 3, ""), f);
	assert_int_not_equal(calltree_frame(&t, CALLTREE_PYTHON, "f", "b.py", 3, ""), f);
	assert_int_not_equal(calltree_frame(&t, CALLTREE_PYTHON, "f", "a.py", 4, ""), f);
	assert_int_not_equal(calltree_frame(&t, CALLTREE_PYTHON, "f", "a.py", 3, "x"), f);
	assert_int_equal(t.frames.len, 7); /* and that of the root */
	assert_string_equal(strtab_get(&t.strings, t.frames.data[f].file, NULL), "a.py");
	calltree_free(&t);
}

static uint32_t stay(const struct calltree *t, size_t most, int64_t parts)
{
	int64_t least = calltree_least(t, most, parts);
	uint32_t ret = 0;
	for (size_t i = 0; i < t->nodes.len; i++)
		ret += t->nodes.data[i].total[0] >= least;
	return ret;
}

static void test_least(void **state)
{
	(void)state;
	struct calltree t;
	char name[16];
	calltree_init(&t);
	for (int i = 1; i <= 100; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		calltree_add(&t, calltree_child(&t, 0, native(&t, name)), i, 0);
	}
	calltree_sum(&t); /* 5050 in all, and the root */
	assert_int_equal(stay(&t, 1000, 1000000), 101);
	assert_int_equal(stay(&t, 1000, 100), 51); /* those of more than 50 */
	assert_int_equal(stay(&t, 11, 1000000), 11);
	assert_int_equal(stay(&t, 1, 1000000), 1);
	calltree_free(&t);
}

static void test_sums(void **state)
{
	(void)state;
	struct calltree t;
	calltree_init(&t);
	uint32_t a = calltree_child(&t, 0, native(&t, "a"));
	uint32_t b = calltree_child(&t, a, native(&t, "b"));
	uint32_t again = calltree_child(&t, b, native(&t, "a")); /* recursion: a node of its own */
	assert_int_equal(calltree_child(&t, a, native(&t, "b")), b);
	assert_int_equal(t.nodes.len, 4);
	calltree_add(&t, a, 1, 0);
	calltree_add(&t, b, 20, 0);
	calltree_add(&t, again, 300, 0);
	calltree_add(&t, again, 4000, 0);
	calltree_add(&t, b, 7, 1);
	calltree_sum(&t);
	calltree_sum(&t); /* a second time changes nothing */
	assert_int_equal(t.nodes.data[0].total[0], 4321);
	assert_int_equal(t.nodes.data[0].total[1], 7);
	assert_int_equal(t.nodes.data[a].total[0], 4321);
	assert_int_equal(t.nodes.data[a].self[0], 1);
	assert_int_equal(t.nodes.data[b].total[0], 4320);
	assert_int_equal(t.nodes.data[again].total[0], 4300);
	assert_int_equal(t.nodes.data[again].total[1], 0);
	calltree_free(&t);
}

/* Many frames and children: every one is found again. */
static void test_many(void **state)
{
	(void)state;
	struct calltree t;
	calltree_init(&t);
	uint32_t numbers[5000], nodes[5000];
	for (uint32_t i = 0; i < 5000; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		numbers[i] = native(&t, name);
		nodes[i] = calltree_child(&t, i ? nodes[i / 2] : 0, numbers[i]);
	}
	for (uint32_t i = 0; i < 5000; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(native(&t, name), numbers[i]);
		assert_int_equal(calltree_child(&t, i ? nodes[i / 2] : 0, numbers[i]), nodes[i]);
		assert_true(t.nodes.data[nodes[i]].parent < nodes[i]);
	}
	assert_int_equal(t.nodes.len, 5001);
	calltree_free(&t);
}

static void expect_folded(const struct calltree *t, const char *want)
{
	char *text = NULL;
	size_t len;
	struct err e;
	FILE *out = open_memstream(&text, &len);
	assert_int_equal(flame_format("folded")->write(out, t, &e), 0);
	fclose(out);
	assert_string_equal(text, want);
	free(text);
}

static void test_folded(void **state)
{
	(void)state;
	struct calltree t;
	calltree_init(&t);
	uint32_t a = calltree_child(&t, 0, native(&t, "a;\nb"));
	uint32_t b = calltree_child(&t, a, native(&t, "c d"));
	calltree_add(&t, b, 5, 0);
	calltree_add(&t, a, 2, 1);
	calltree_sum(&t);
	expect_folded(&t, "a__b;c d 5\n");
	t.differential = true;
	expect_folded(&t, "a__b 2 0\na__b;c d 0 5\n");
	assert_null(flame_format("no such format"));
	calltree_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames), cmocka_unit_test(test_sums),
		cmocka_unit_test(test_many),   cmocka_unit_test(test_least),
		cmocka_unit_test(test_folded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

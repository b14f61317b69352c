/* table_test.c - tables of numbers: what is read, and how each kind of wrong one is refused.
 * links: base analyze detect */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "detect/table.h"

static struct table parsed(const char *text)
{
	struct table t;
	struct err e = {0};
	int rc = table_parse(&t, text, strlen(text), "t.csv", &e);
	if (rc)
		print_error("%s\n", e.msg);
	assert_int_equal(rc, 0);
	return t;
}

static void rows_and_names_are_read(void **state)
{
	(void)state;
	struct table t = parsed("a,\"b, in \"\"ms\"\"\",c\n1,2.5,-3e-2\r\n\n 4 ,\"5\",6\n");
	assert_int_equal(t.columns, 3);
	assert_string_equal(t.names[1], "b, in \"ms\"");
	assert_int_equal(t.rows, 2);
	assert_int_equal(t.rows_not_finite, 0);
	const double want[] = {1, 2.5, -3e-2, 4, 5, 6};
	assert_memory_equal(t.cells, want, sizeof(want));
	table_free(&t);
}

static void a_mark_before_the_names_and_no_line_break_at_the_end(void **state)
{
	(void)state;
	struct table t = parsed("\xef\xbb\xbfx\n0.1\n0.2");
	assert_string_equal(t.names[0], "x");
	assert_int_equal(t.rows, 2);
	assert_true(t.cells[0] == 0.1 && t.cells[1] == 0.2);
	table_free(&t);
}

static void what_is_not_finite_is_counted(void **state)
{
	(void)state;
	struct table t = parsed("a,b\n1,\nnan,inf\n2,3\n-inf,0\n");
	assert_int_equal(t.rows, 4);
	assert_int_equal(t.rows_not_finite, 3);
	assert_true(isnan(t.cells[1]) && isnan(t.cells[2]) && isinf(t.cells[3]));
	assert_true(t.cells[6] < 0 && isinf(t.cells[6]));
	table_free(&t);
}

static void refused(const char *text, size_t len, const char *why)
{
	struct table t;
	struct err e = {0};
	assert_int_equal(table_parse(&t, text, len, "t.csv", &e), -EINVAL);
	if (!strstr(e.msg, why))
		fail_msg("'%s' does not say '%s'", e.msg, why);
}

static void wrong_tables_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "'t.csv' is empty"},
		{"\n\n", "'t.csv' is empty"},
		{"a,b\n", "no row of numbers"},
		{"1,2\n3,4\n", "begins with a row of numbers"},
		{"a,,c\n1,2,3\n", "no name for column 2"},
		{"a,b,a\n1,2,3\n", "two columns 'a'"},
		{"a,b\n1,2\n3,x4\n", "line 3, column 2 (b): not a number"},
		{"a,b\n1,2\n3,4 5\n", "line 3, column 2 (b): not a number"},
		{"a,b\n1,2\n\n\n3\n", "line 5: 1 cells instead of 2"},
		{"a,b\n1,2,3\n", "line 2: more than 2 cells"},
		{"a,b\n1,\"2\n3,4\n", "quote"},
		{"a,b\n1,\"2\"3\n", "line 2: a quote is missing, or one too many"},
		{"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q\n", "more than 16 columns"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refused(cases[i].text, strlen(cases[i].text), cases[i].why);
	refused("a\n1\0002\n", 6, "line 2, column 1 (a): not a number");
	refused("a\0b\n1\n", 6, "no usable name for column 1");
}

static void a_cell_without_end_is_refused_early(void **state)
{
	(void)state;
	struct buf b = {0};
	buf_printf(&b, "a,b\n1,\"");
	for (size_t i = 0; i < (size_t)8 << 16; i++)
		buf_add(&b, "0123\n,", 6);
	refused((const char *)b.data, b.len, "a cell of more than");
	buf_free(&b);
}

static void columns_are_found_by_name(void **state)
{
	(void)state;
	char a[] = "a", c[] = "c", x[] = "x";
	uint32_t columns[2];
	struct err e = {0};
	struct table t = parsed("a,b,c\n1,2,3\n");
	assert_int_equal(table_columns(&t, (char *[]){c, a}, 2, columns, "t.csv", &e), 0);
	assert_true(columns[0] == 2 && columns[1] == 0);
	assert_int_equal(table_columns(&t, (char *[]){a, x}, 2, columns, "t.csv", &e), -EINVAL);
	assert_string_equal(e.msg, "'t.csv' has no column 'x'");
	table_free(&t);
}

/* Many blocks of the file, numbers that need all their digits. */
static void a_large_file_is_read_to_the_bit(void **state)
{
	(void)state;
	char path[] = "/tmp/eacgm-table-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	FILE *f = fdopen(fd, "w");
	const size_t rows = 50000;
	fputs("first,second,third\n", f);
	for (size_t i = 0; i < rows; i++)
		fprintf(f, "%.17g,%.17g,%zu\n", sin((double)i), exp(sin((double)i) * 300), i);
	fclose(f);
	struct table t;
	struct err e = {0};
	assert_int_equal(table_read(&t, path, &e), 0);
	unlink(path);
	assert_int_equal(t.rows, rows);
	for (size_t i = 0; i < rows; i++) {
		assert_true(t.cells[i * 3] == sin((double)i));
		assert_true(t.cells[i * 3 + 1] == exp(sin((double)i) * 300));
		assert_true(t.cells[i * 3 + 2] == (double)i);
	}
	table_free(&t);
	assert_int_equal(table_read(&t, "/nonexistent/x.csv", &e), -ENOENT);
	assert_string_equal(e.msg, "cannot read '/nonexistent/x.csv': No such file or directory");
	assert_int_equal(table_read(&t, "/tmp", &e), -EISDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_and_names_are_read),
		cmocka_unit_test(a_mark_before_the_names_and_no_line_break_at_the_end),
		cmocka_unit_test(what_is_not_finite_is_counted),
		cmocka_unit_test(wrong_tables_are_refused),
		cmocka_unit_test(a_cell_without_end_is_refused_early),
		cmocka_unit_test(columns_are_found_by_name),
		cmocka_unit_test(a_large_file_is_read_to_the_bit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
